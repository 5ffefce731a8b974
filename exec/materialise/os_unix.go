//go:build unix

package materialise

import (
	"io/fs"
	"os"
	"syscall"
)

// isForeign reports whether a file belongs to another user.
func isForeign(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) != os.Geteuid()
}
