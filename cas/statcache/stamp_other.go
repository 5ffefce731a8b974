//go:build !linux && !darwin

package statcache

import "io/fs"

// StampOf returns the stamp of a file, without ctime.
func StampOf(fi fs.FileInfo) Stamp {
	return Stamp{Size: fi.Size(), Mtime: fi.ModTime().UnixNano(), Mode: uint32(fi.Mode())}
}

// OwnStamps reports whether this machine's clock stamps files on the file system of a descriptor at every change.
// Without ctime they can't, so nothing is remembered.
func OwnStamps(uintptr) bool { return false }
