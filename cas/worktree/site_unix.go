//go:build unix

package worktree

import (
	"io/fs"
	"os"
	"syscall"
)

// untrusted returns why other users could replace files in a directory, or "".
func untrusted(dir fs.FileInfo) string {
	switch {
	case foreign(dir):
		return "belongs to another user, who could replace files in it"
	case dir.Mode()&0o002 != 0 && dir.Mode()&fs.ModeSticky == 0:
		return "is writable by everybody, so other users could replace files in it"
	}
	return ""
}

// foreign reports whether a file belongs to neither this user nor root.
func foreign(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Uid != 0 && int(st.Uid) != os.Geteuid()
}
