//go:build unix

// What differs between operating systems: terminals and file modes.

package cli

import (
	"io/fs"
	"os"
)

// understandsANSI reports whether a terminal understands escape sequences. On Unix all do.
func understandsANSI(*os.File) bool { return true }

// OthersMayRead reports whether a file's mode lets other users read it.
func OthersMayRead(fi fs.FileInfo) bool { return fi.Mode().Perm()&0o077 != 0 }
