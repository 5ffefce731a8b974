//go:build unix

package starlark_test

import (
	"errors"
	"io/fs"
	"syscall"
)

// pipe makes a file that blocks when it is opened.
func pipe(at string) error {
	if err := syscall.Mkfifo(at, 0o600); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
