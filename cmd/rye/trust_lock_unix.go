//go:build unix

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

// lockPolicy holds a policy against other processes that edit it, until unlock is called or the process ends. The
// lock is on the file itself, so that nothing stands beside it. One that isn't there yet is not locked: it is made
// by a call that never replaces.
func lockPolicy(ctx context.Context, path string) (unlock func(), err error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrPermission) {
			f, err = os.Open(path) // it may be for reading only and still be replaced
		}
		if errors.Is(err, fs.ErrNotExist) {
			return func() {}, nil
		}
		if err != nil {
			return nil, err
		}
		if err := waitForLock(ctx, f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		// Whoever held it has put another file in its place: the lock is on one that nobody reads any more.
		held, err := f.Stat()
		now, err2 := os.Stat(path)
		if err == nil && err2 == nil && os.SameFile(held, now) {
			return func() { f.Close() }, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}
