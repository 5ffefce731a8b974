package paths

import (
	"context"
	"os"
	"time"

	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// waitNoted is how long to wait for another process before telling the user.
const waitNoted = time.Second

// Alone locks rye's files in the project, or in the user's space, against other processes until unlock is called: of
// two concurrent rye lock, the second starts from the first one's result. Without a project it locks nothing, because
// opening the project reports the error.
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

// AloneAtHome locks the user's space, which it creates if needed: of two processes that make the first key or policy,
// the second finds the first one's. If the space can't be created, writing there reports the error.
func AloneAtHome(ctx context.Context, a *cli.App) (unlock func(), err error) {
	if space := cli.UserSpace(a.UserBase()); space.Err == nil {
		_ = os.MkdirAll(space.Value, 0o700)
	}
	return Alone(ctx, a, true)
}

// Hold locks a directory like Alone.
func Hold(ctx context.Context, a *cli.App, dir string) (unlock func(), err error) {
	note := time.AfterFunc(waitNoted, func() {
		a.Term.Note("waiting for another rye that works on %q, %s at most", dir, osfile.LockWait)
	})
	defer note.Stop()
	return LockProject(ctx, dir)
}
