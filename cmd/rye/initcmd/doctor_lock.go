package initcmd

import (
	"context"
	"errors"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/locks"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/lock/relock"
	"github.com/rye-build/rye/lock/restore"
	"github.com/rye-build/rye/lock/workspace"
)

// checkLock checks that the lock is readable and up to date. It contacts no source.
func checkLock(ctx context.Context, app *cli.App) paths.Finding {
	locked, err := paths.OpenLock(app, false)
	if errors.Is(err, workspace.ErrNoProject) {
		return paths.Good("not in a project")
	}
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	defer locked.Close()
	if locked.Old == nil {
		return paths.Good("none yet: rye lock creates one")
	}
	what := fault.Count(int64(len(locked.Old.Pins)), "item")
	if n := len(locked.Old.Bundles); n > 0 {
		what += " and " + fault.Count(int64(n), "bundle")
	}
	if locks.Remembered(ctx, locked) {
		return paths.Good("current, %s", what)
	}
	if err := locked.Look(ctx); err != nil {
		return paths.Bad(paths.StatusWarn, err)
	}
	r := restore.Request(ctx, locked.Lock)
	r.Toolchain = session.Toolchain(locked.Lock, paths.MachineHost(app))
	relocked, err := relock.Make(ctx, r)
	if closed, ok := errors.AsType[*closure.Error](err); ok {
		return paths.Finding{Status: paths.StatusWarn,
			Detail: "the project differs from its lock: " + fault.Count(int64(len(closed.Problems)), "problem"),
			Hint:   "rye diff"}
	}
	if errors.Is(err, workspace.ErrElsewhere) || err == nil && relocked.ID != locked.Id() {
		return paths.Finding{Status: paths.StatusWarn, Detail: "out of date", Hint: "rye diff"}
	}
	if err != nil {
		return paths.Bad(paths.StatusWarn, err)
	}
	return paths.Good("current, %s", what)
}

// checkVendor checks that .ai/vendor, if it exists, holds everything that the lock needs.
func checkVendor(ctx context.Context, a *cli.App) paths.Finding {
	locked, err := paths.OpenLock(a, false)
	if err != nil {
		return paths.Good("nothing to vendor") // checkLock reports the error
	}
	defer locked.Close()
	if locked.Old == nil {
		return paths.Good("nothing to vendor")
	}
	if v, err := locked.Vendored(); err == nil && v == nil {
		return paths.Good("nothing is vendored: a clone needs rye fetch")
	}
	is, err := restore.CheckVendor(ctx, locked.Lock)
	if err != nil {
		return paths.Bad(paths.StatusWarn, err)
	}
	return paths.Good("complete, %s in %s", fault.Count(int64(is.Objects), "object"),
		fault.Count(int64(is.Files), "file"))
}
