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

// checkLock checks that the lock can be read and is up to date. It asks no source.
func checkLock(ctx context.Context, a *cli.App) paths.Finding {
	l, err := paths.OpenLock(a, false)
	if errors.Is(err, workspace.ErrNoProject) {
		return paths.Good("not in a project")
	}
	if err != nil {
		return paths.Bad(paths.StatusFail, err)
	}
	defer l.Close()
	if l.Old == nil {
		return paths.Good("none yet: rye lock makes one")
	}
	what := fault.Count(int64(len(l.Old.Pins)), "item")
	if n := len(l.Old.Bundles); n > 0 {
		what += " and " + fault.Count(int64(n), "bundle")
	}
	if locks.Remembered(ctx, l) {
		return paths.Good("current, %s", what)
	}
	if err := l.Look(ctx); err != nil {
		return paths.Bad(paths.StatusWarn, err)
	}
	r := restore.Request(ctx, l.Lock)
	r.Toolchain = session.Toolchain(l.Lock, paths.MachineHost(a))
	made, err := relock.Make(ctx, r)
	if closed, ok := errors.AsType[*closure.Error](err); ok {
		return paths.Finding{Status: paths.StatusWarn,
			Detail: "the project differs from its lock: " + fault.Count(int64(len(closed.Problems)), "problem"),
			Hint:   "rye diff"}
	}
	if errors.Is(err, workspace.ErrElsewhere) || err == nil && made.ID != l.Id() {
		return paths.Finding{Status: paths.StatusWarn, Detail: "out of date", Hint: "rye diff"}
	}
	if err != nil {
		return paths.Bad(paths.StatusWarn, err)
	}
	return paths.Good("current, %s", what)
}

// checkVendor checks that everything locked is vendored.
func checkVendor(ctx context.Context, a *cli.App) paths.Finding {
	l, err := paths.OpenLock(a, false)
	if err != nil {
		return paths.Good("nothing to vendor") // the check of the lock reports its problems
	}
	defer l.Close()
	if l.Old == nil {
		return paths.Good("nothing to vendor")
	}
	if v, err := l.Vendored(); err == nil && v == nil {
		return paths.Good("nothing is vendored: a clone needs rye fetch")
	}
	is, err := restore.CheckVendor(ctx, l.Lock)
	if err != nil {
		return paths.Bad(paths.StatusWarn, err)
	}
	return paths.Good("complete, %s in %s", fault.Count(int64(is.Objects), "object"),
		fault.Count(int64(is.Files), "file"))
}
