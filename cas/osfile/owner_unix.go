//go:build unix

package osfile

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
