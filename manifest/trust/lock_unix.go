//go:build unix

package trust

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/rye-build/rye/cas/osfile"
)

// LockPolicy locks a policy against other processes that edit it, until unlock is called or the process ends. The lock
// is on the file itself, so no lock file is needed. A missing file is not locked: WriteFile creates it exclusively.
func LockPolicy(ctx context.Context, path string) (unlock func(), err error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrPermission) {
			file, err = os.Open(path) // a read-only file can still be replaced
		}
		if errors.Is(err, fs.ErrNotExist) {
			return func() {}, nil
		}
		if err != nil {
			return nil, err
		}
		if err := osfile.Lock(ctx, file, osfile.Exclusive, osfile.LockWait); err != nil {
			return nil, err
		}
		same, err := osfile.StandsAt(file, path)
		if same {
			return func() { file.Close() }, nil
		}
		// The last holder replaced the file: this lock is on a file that no process reads any more.
		file.Close()
		if err != nil {
			return nil, err
		}
	}
}
