//go:build !linux && !darwin

package statcache

import "io/fs"

// StampOf returns what a file looked like, but for a ctime.
func StampOf(fi fs.FileInfo) Stamp {
	return Stamp{Size: fi.Size(), Mtime: fi.ModTime().UnixNano(), Mode: uint32(fi.Mode())}
}

// OwnStamps reports whether files on the file system of a descriptor are stamped by this machine's clock, with every
// change. There is no ctime here, so nothing is remembered.
func OwnStamps(uintptr) bool { return false }
