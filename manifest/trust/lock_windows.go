package trust

import (
	"context"

	"github.com/rye-build/rye/cas/osfile"
)

// LockPolicy holds a policy against other processes that edit it, until unlock is called or the process ends. The
// lock is on a file beside it: this system doesn't let a file be replaced that is open for a lock.
func LockPolicy(ctx context.Context, path string) (unlock func(), err error) {
	return osfile.LockFile(ctx, path+".lock")
}
