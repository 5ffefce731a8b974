package initcmd

import (
	"cmp"
	"math"
	"os"
	"syscall"
)

// diskOf returns the file system of a directory. ok is false if the system doesn't describe it.
func diskOf(dir string) (d Disk, ok bool) {
	var of syscall.Statfs_t
	info, err := os.Stat(dir)
	if err != nil || syscall.Statfs(dir, &of) != nil || of.Blocks == 0 {
		return d, false
	}
	d.Bytes, d.Files = math.MaxInt64, math.MaxInt64
	if size := uint64(max(1, cmp.Or(of.Frsize, of.Bsize))); of.Bavail < math.MaxInt64/size {
		d.Bytes = int64(of.Bavail * size)
	}
	if of.Files > 0 {
		d.Files = int64(min(of.Ffree, math.MaxInt64))
	}
	d.device = info.Sys().(*syscall.Stat_t).Dev
	return d, true
}
