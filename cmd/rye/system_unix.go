//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// notDirectory is what the system says of a file that stands where a directory is needed.
const notDirectory = syscall.ENOTDIR

// ownedByOther reports whether neither this user nor root owns a file.
func ownedByOther(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return !ok || st.Uid != 0 && int(st.Uid) != os.Geteuid()
}

// understandsANSI reports whether a terminal takes escape sequences; all do.
func understandsANSI(*os.File) bool { return true }

// othersMayRead reports whether a file's mode lets other users read it.
func othersMayRead(fi fs.FileInfo) bool { return fi.Mode().Perm()&0o077 != 0 }
