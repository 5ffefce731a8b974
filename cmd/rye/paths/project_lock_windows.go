package paths

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
)

// LockProject holds a project against other processes that change what rye keeps in it, until unlock is called or the
// process ends. Directories have no locks here, and the project is no place for such a file, so it is among the user's
// temporary ones.
func LockProject(ctx context.Context, dir string) (unlock func(), err error) {
	sum := cas.Sum([]byte(dir))
	return osfile.LockFile(ctx, filepath.Join(os.TempDir(), "rye-project-"+hex.EncodeToString(sum[:16])+".lock"))
}
