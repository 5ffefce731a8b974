package paths

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
)

// LockProject locks a project against other processes that change rye's files in it, until unlock is called or the
// process ends. Directories have no locks on Windows, so the lock is a temporary file of the user's, outside of the
// project.
func LockProject(ctx context.Context, dir string) (unlock func(), err error) {
	sum := cas.Sum([]byte(dir))
	return osfile.LockFile(ctx, filepath.Join(os.TempDir(), "rye-project-"+hex.EncodeToString(sum[:16])+".lock"))
}
