//go:build unix

package osfile

import (
	"io/fs"
	"os"
	"syscall"
)

// OwnedByOther reports whether neither this user nor root owns a file.
func OwnedByOther(fi fs.FileInfo) bool {
	owner, ok := ownerOf(fi)
	return !ok || owner != 0 && owner != os.Geteuid()
}

// ownerOf returns the user that owns a file, if the system knows it.
func ownerOf(fi fs.FileInfo) (int, bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
