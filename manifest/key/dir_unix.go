//go:build unix

package key

import (
	"io/fs"
	"os"
	"syscall"
)

// checkDir refuses a directory that others could read keys from or put keys into.
func checkDir(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return unsafeFile(path, byLink, "is a symbolic link")
	case !info.IsDir():
		return unsafeFile(path, byKind, "is not a directory")
	}
	return checkOwn(path, info, 0o077)
}

// openOwn opens a file of the user's that no other can write, nor read if it is private.
func openOwn(path string, private bool) (*os.File, error) {
	// Without O_NONBLOCK, opening a pipe would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		if info, err2 := os.Lstat(path); err2 == nil && info.Mode()&fs.ModeSymlink != 0 {
			err = unsafeFile(path, byLink, "is a symbolic link")
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		forbidden := fs.FileMode(0o022)
		if private {
			forbidden = 0o077
		}
		if !info.Mode().IsRegular() {
			err = unsafeFile(path, byKind, "is not a regular file")
		} else {
			err = checkOwn(path, info, forbidden)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func checkOwn(path string, info fs.FileInfo, forbidden fs.FileMode) error {
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != os.Geteuid() {
		return unsafeFile(path, byOwner, "belongs to user %d, expected %d", owner, os.Geteuid())
	}
	if mode := info.Mode().Perm(); mode&forbidden != 0 {
		return unsafeFile(path, byMode, "has mode %#o, which gives others access: expected %#o", mode, mode&^forbidden)
	}
	return nil
}
