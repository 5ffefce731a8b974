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

// LockProject holds a project against other processes that change what rye keeps in it, until unlock is called or the
// process ends. The lock is on the directory itself, so that nothing stands beside what people commit and it doesn't
// matter which of the files is replaced meanwhile. A directory that isn't there yet is not locked, nor is one on a
// file system that can't: then what was read is compared once more before it is replaced, as always.
func LockProject(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	err = osfile.Lock(ctx, f, osfile.Exclusive, osfile.LockWait)
	if err != nil && !errors.Is(err, syscall.EBADF) && !errors.Is(err, syscall.ENOTSUP) &&
		!errors.Is(err, syscall.ENOLCK) {
		return nil, err
	}
	return func() { f.Close() }, nil
}
