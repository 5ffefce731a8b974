package statcache

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// StampOf returns the stamp of a file.
func StampOf(fi fs.FileInfo) Stamp {
	s := Stamp{Size: fi.Size(), Mtime: fi.ModTime().UnixNano(), Mode: uint32(fi.Mode())}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		s.Dev, s.Ino, s.Mode = uint64(st.Dev), uint64(st.Ino), uint32(st.Mode)
		s.Ctime = int64(st.Ctim.Sec)*1e9 + int64(st.Ctim.Nsec)
	}
	return s
}

// OwnStamps reports whether this machine's clock stamps files on the file system of a descriptor at every change,
// with more than whole seconds. It returns false for unknown file systems.
func OwnStamps(fd uintptr) bool {
	var st unix.Statfs_t
	err := unix.Fstatfs(int(fd), &st)
	for err == unix.EINTR {
		err = unix.Fstatfs(int(fd), &st)
	}
	if err != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.BCACHEFS_SUPER_MAGIC,
		unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.SQUASHFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1,
		zfsMagic:
		return true
	}
	return false
}

const zfsMagic = 0x2fc12fc1
