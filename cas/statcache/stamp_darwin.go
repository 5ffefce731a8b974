package statcache

import (
	"io/fs"
	"syscall"
)

// StampOf returns what a file looked like.
func StampOf(fi fs.FileInfo) Stamp {
	s := Stamp{Size: fi.Size(), Mtime: fi.ModTime().UnixNano(), Mode: uint32(fi.Mode())}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.Dev, s.Ino, s.Mode, s.Ctime = uint64(st.Dev), st.Ino, uint32(st.Mode), st.Ctimespec.Nano()
	}
	return s
}

// OwnStamps reports whether files on the file system of a descriptor are stamped by this machine's clock, with every
// change. No file system is known to do so here, so nothing is remembered.
func OwnStamps(uintptr) bool { return false }
