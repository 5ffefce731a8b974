package paths

import (
	"context"
	"os"
	"time"

	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// waitNoted is how long it is waited for another process without a word.
const waitNoted = time.Second

// Alone keeps other processes from changing what rye keeps in the project, or in the user's space, until unlock is
// called: of two that make a lock at once the second begins with what the first has made. Without a project
// nothing is locked: opening it reports the error.
func Alone(ctx context.Context, a *cli.App, user bool) (unlock func(), err error) {
	dir := cli.UserSpace(a.UserBase())
	if !user {
		p, err := Paths(a).FindProject()
		dir = cli.Setting{Value: p.Root, Err: err}
	}
	if dir.Err != nil || dir.Value == "" {
		return func() {}, nil
	}
	return Hold(ctx, a, dir.Value)
}

// AloneAtHome is alone in the user's space, which is made for it: where two make the first key or the first policy the
// second finds the first one's. If it can't be made, writing there reports the error.
func AloneAtHome(ctx context.Context, a *cli.App) (unlock func(), err error) {
	if space := cli.UserSpace(a.UserBase()); space.Err == nil {
		_ = os.MkdirAll(space.Value, 0o700)
	}
	return Alone(ctx, a, true)
}

// Hold keeps other processes from what alone keeps them from, in a directory.
func Hold(ctx context.Context, a *cli.App, dir string) (unlock func(), err error) {
	note := time.AfterFunc(waitNoted, func() {
		a.Term.Note("waiting for another rye that works on %q, %s at most", dir, osfile.LockWait)
	})
	defer note.Stop()
	return LockProject(ctx, dir)
}
