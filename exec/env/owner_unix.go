//go:build unix

package env

import (
	"io/fs"
	"os"
	"syscall"
)

// isForeign reports whether a file belongs to neither root nor the user.
func isForeign(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Uid != 0 && int(s.Uid) != os.Geteuid()
}
