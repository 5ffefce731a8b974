package fault

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// system returns the fault of an error of the operating system, or one with the code Unknown.
func system(err error) *Error {
	failure := &Error{Code: Unknown, Text: err.Error(), Err: err}
	var path *fs.PathError
	var link *os.LinkError
	var number syscall.Errno
	ofFile := errors.As(err, &path) || errors.As(err, &link)
	if errors.Is(err, fs.ErrNotExist) {
		failure.Code, failure.Exit = NotFound, ExitMissing
		if ofFile {
			failure.Code = Files
		}
		if path != nil && err == error(path) { // no caller has added text
			failure.Text = fmt.Sprintf("file %q not found", path.Path)
			if dir := filepath.Dir(path.Path); dir != "." && !isDir(dir) {
				failure.Text = fmt.Sprintf("directory %q not found", dir)
			}
			failure.On("path", path.Path)
		}
		return failure
	}
	if !ofFile && !errors.As(err, &number) {
		return failure
	}
	failure.Code = Files
	if path != nil {
		failure.On("path", path.Path)
	}
	for _, c := range causes() {
		if !errors.Is(err, c.err) {
			continue
		}
		if c.err == fs.ErrPermission && path != nil {
			c.hint = []string{permit(path.Op, path.Path)}
		}
		return failure.Because(c.why).Try(c.hint...)
	}
	return failure
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

type cause struct {
	err  error
	why  string
	hint []string
}

// causes explains common errors of an operating system.
func causes() []cause {
	return []cause{
		{syscall.ENOSPC, "the disk is full", []string{"df -h"}},
		{syscall.EDQUOT, "the disk quota is exceeded", []string{"quota"}},
		{syscall.EFBIG, "the file exceeds the size limit of this process or file system", []string{"ulimit -f"}},
		{syscall.EROFS, "the file system is read-only", nil},
		{syscall.EMFILE, "this process has too many open files", []string{"ulimit -n 4096"}},
		{syscall.ENFILE, "this machine has too many open files", nil},
		{syscall.EIO, "the disk reports an error: check the kernel log first", nil},
		{syscall.ENOTDIR, "a parent is a file, not a directory", nil},
		{syscall.ELOOP, "symbolic links form a loop", nil},
		{syscall.ENAMETOOLONG, "the name is too long for this file system", nil},
		{fs.ErrPermission, "this user has no permission", []string{"rye doctor"}},
	}
}
