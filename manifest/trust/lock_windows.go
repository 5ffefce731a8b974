package trust

import (
	"context"

	"github.com/rye-build/rye/cas/osfile"
)

// LockPolicy locks a policy against other processes that edit it, until unlock is called or the process ends. The lock
// is on a separate file: Windows doesn't let a process replace an open file.
func LockPolicy(ctx context.Context, path string) (unlock func(), err error) {
	return osfile.LockFile(ctx, path+".lock")
}
