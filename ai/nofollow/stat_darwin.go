package nofollow

import (
	"io/fs"
	"syscall"
)

// StatOf returns what tells whether a file changed; the zero Stat where the system doesn't say.
func StatOf(info fs.FileInfo) Stat {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Stat{}
	}
	return Stat{Size: info.Size(), Mtime: info.ModTime().UnixNano(), Ctime: s.Ctimespec.Nano(), Inode: s.Ino,
		Mode: info.Mode()}
}
