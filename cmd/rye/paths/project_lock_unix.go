//go:build unix

package paths

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/rye-build/rye/cas/osfile"
)

// LockProject locks a project against other processes that change rye's files in it, until unlock is called or the
// process ends. It locks the directory itself, so that it adds no file to the project and files may be replaced
// meanwhile. A missing directory, or a file system without locks, is not locked: writers compare a file once more
// before replacing it anyway.
func LockProject(ctx context.Context, dir string) (unlock func(), err error) {
	file, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	err = osfile.Lock(ctx, file, osfile.Exclusive, osfile.LockWait)
	if err != nil && !errors.Is(err, syscall.EBADF) && !errors.Is(err, syscall.ENOTSUP) &&
		!errors.Is(err, syscall.ENOLCK) {
		return nil, err
	}
	return func() { file.Close() }, nil
}
