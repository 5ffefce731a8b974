//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// notDirectory is what the system says of a file that stands where a directory is needed.
const notDirectory = syscall.ENOTDIR

// ownedByOther reports whether neither this user nor root owns a file.
func ownedByOther(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return !ok || st.Uid != 0 && int(st.Uid) != os.Geteuid()
}

// understandsANSI reports whether a terminal takes escape sequences; all do.
func understandsANSI(*os.File) bool { return true }

// tryLock locks an open file for this process alone, without waiting.
func tryLock(f *os.File) (bool, error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
		case nil:
			return true, nil
		case syscall.EWOULDBLOCK:
			return false, nil
		case syscall.EINTR:
		default:
			return false, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}

// syncDirectory makes the names in a directory durable.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// othersMayRead reports whether a file's mode lets other users read it.
func othersMayRead(fi fs.FileInfo) bool { return fi.Mode().Perm()&0o077 != 0 }
