//go:build unix

package worktree

import (
	"io/fs"
	"os"
	"syscall"
)

// untrusted tells why others could put something of theirs in the place of what is made in a directory.
func untrusted(dir fs.FileInfo) string {
	switch {
	case foreign(dir):
		return "belongs to another user, who could put something else in the place of what is made in it"
	case dir.Mode()&0o002 != 0 && dir.Mode()&fs.ModeSticky == 0:
		return "may be written to by everybody, who could put something else in the place of what is made in it"
	}
	return ""
}

// foreign reports whether a file is neither this user's nor the administrator's.
func foreign(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Uid != 0 && int(st.Uid) != os.Geteuid()
}
