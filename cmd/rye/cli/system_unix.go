//go:build unix

package cli

import (
	"io/fs"
	"os"
)

// understandsANSI reports whether a terminal takes escape sequences; all do.
func understandsANSI(*os.File) bool { return true }

// OthersMayRead reports whether a file's mode lets other users read it.
func OthersMayRead(fi fs.FileInfo) bool { return fi.Mode().Perm()&0o077 != 0 }
