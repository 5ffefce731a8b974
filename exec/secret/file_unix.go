//go:build unix

package secret

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/rye-build/rye/cas/fault"
)

// checkDir refuses a directory that others could read from or write to.
func checkDir(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	return checkOwn(path, info, info.IsDir())
}

// openOwn opens a file that only the user can read.
func openOwn(path string) (*os.File, error) {
	// Without O_NONBLOCK, opening a pipe would wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		if info, err2 := os.Lstat(path); err2 == nil && info.Mode()&fs.ModeSymlink != 0 {
			err = checkOwn(path, info, true)
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkOwn(path, info, info.Mode().IsRegular())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func checkOwn(path string, info fs.FileInfo, kind bool) error {
	refused := func(format string, args ...any) error {
		return fault.New(fault.Denied, "%q %s", path, fmt.Sprintf(format, args...)).On("path", path).
			Try(fault.Command("chmod go=", path), fault.Command("ls -ld", path))
	}
	owner, mode := int(info.Sys().(*syscall.Stat_t).Uid), info.Mode()
	switch {
	case mode&fs.ModeSymlink != 0:
		return refused("is a symbolic link")
	case !kind:
		return refused("has the wrong file type")
	case owner != os.Geteuid():
		return refused("belongs to user %d, not to user %d", owner, os.Geteuid())
	case mode.Perm()&0o077 != 0:
		return refused("has mode %#o, which gives other users access: expected %#o", mode.Perm(), mode.Perm()&^0o077)
	}
	return nil
}
