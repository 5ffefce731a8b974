//go:build unix

package cli

import (
	"io/fs"
	"os"
	"syscall"
)

// OwnedByOther reports whether neither this user nor root owns a file.
func OwnedByOther(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return !ok || st.Uid != 0 && int(st.Uid) != os.Geteuid()
}

// understandsANSI reports whether a terminal takes escape sequences; all do.
func understandsANSI(*os.File) bool { return true }

// OthersMayRead reports whether a file's mode lets other users read it.
func OthersMayRead(fi fs.FileInfo) bool { return fi.Mode().Perm()&0o077 != 0 }
