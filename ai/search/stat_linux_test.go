package search

import (
	"io/fs"
	"syscall"
)

func statOf(fi fs.FileInfo) Stat {
	s := fi.Sys().(*syscall.Stat_t)
	return Stat{
		Size: s.Size, Mtime: fi.ModTime().UnixNano(), Ctime: int64(s.Ctim.Sec)*1e9 + int64(s.Ctim.Nsec),
		Dev: uint64(s.Dev), Inode: s.Ino, Mode: s.Mode, Sure: true,
	}
}
