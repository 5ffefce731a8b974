//go:build !linux

package osfile

import (
	"errors"
	"os"
)

// hasRename reports whether renameNew is supported.
const hasRename = false

func renameNew(*os.File, string, *os.File, string) error { return errors.ErrUnsupported }
