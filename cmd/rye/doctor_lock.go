package main

import (
	"bytes"
	"context"
	"errors"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/closure"
)

// checkLock looks whether the lock of the project can be read, and is what rye lock would make. It asks no source.
func checkLock(ctx context.Context, a *app) finding {
	l, err := a.locking(false)
	if errors.Is(err, errNoProject) {
		return good("not in a project")
	}
	if err != nil {
		return bad(statusFail, err)
	}
	defer l.close()
	if l.old == nil {
		return good("none yet: rye lock makes one")
	}
	what := fault.Count(int64(len(l.old.Pins)), "item")
	if n := len(l.old.Bundles); n > 0 {
		what += " and " + fault.Count(int64(n), "bundle")
	}
	if l.remembered(ctx) {
		return good("current, %s", what)
	}
	if err := l.look(ctx); err != nil {
		return bad(statusWarn, err)
	}
	made, err := lock.Make(ctx, l.request(ctx))
	if closed, ok := errors.AsType[*closure.Error](err); ok {
		return finding{Status: statusWarn, Detail: "the project isn't as it is locked: " + fault.Count(int64(len(closed.Problems)), "problem"), Hint: "rye diff"}
	}
	if errors.Is(err, errElsewhere) || err == nil && !bytes.Equal(made.Bytes, l.file) {
		return finding{Status: statusWarn, Detail: "it is not what rye lock would make", Hint: "rye diff"}
	}
	if err != nil {
		return bad(statusWarn, err)
	}
	return good("current, %s", what)
}

// checkVendor looks whether what is vendored is all that the lock names.
func checkVendor(ctx context.Context, a *app) finding {
	l, err := a.locking(false)
	if err != nil {
		return good("nothing to be vendored") // what is wrong with it is told of the lock
	}
	defer l.close()
	if l.old == nil {
		return good("nothing to be vendored")
	}
	v, err := l.vendored()
	if err != nil {
		return bad(statusWarn, err)
	}
	if v == nil {
		return good("nothing is vendored: a clone needs rye fetch")
	}
	ans, err := new(vendorRun).check(ctx, l)
	if err != nil {
		return bad(statusWarn, err)
	}
	is := ans.(vendorAnswer)
	return good("complete, %s in %s", fault.Count(int64(is.Objects), "object"), fault.Count(int64(is.Files), "file"))
}
