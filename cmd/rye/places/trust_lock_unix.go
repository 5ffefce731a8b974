//go:build unix

package places

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/rye-build/rye/cas/osfile"
)

// LockPolicy holds a policy against other processes that edit it, until unlock is called or the process ends. The
// lock is on the file itself, so that nothing stands beside it. One that isn't there yet is not locked: it is made
// by a call that never replaces.
func LockPolicy(ctx context.Context, path string) (unlock func(), err error) {
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
		if err := osfile.Lock(ctx, f, osfile.Exclusive, osfile.LockWait); err != nil {
			return nil, err
		}
		same, err := osfile.StandsAt(f, path)
		if same {
			return func() { f.Close() }, nil
		}
		// Whoever held it has put another file in its place: the lock is on one that nobody reads any more.
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}
