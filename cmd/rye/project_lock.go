package main

import (
	"context"
	"os"
	"time"
)

// waitNoted is how long it is waited for another process without a word.
const waitNoted = time.Second

// alone keeps other processes from changing what rye keeps in the project, or in the user's space, until unlock is
// called: of two that make a lock at once the second begins with what the first has made. Where no project is found
// there is nothing to hold, and whoever opens it says why.
func (a *app) alone(ctx context.Context, user bool) (unlock func(), err error) {
	dir := userSpace(a.userBase())
	if !user {
		p, err := a.findProject()
		dir = setting{value: p.root, err: err}
	}
	if dir.err != nil || dir.value == "" {
		return func() {}, nil
	}
	return a.hold(ctx, dir.value)
}

// aloneAtHome is alone in the user's space, which is made for it: where two make the first key or the first policy the
// second finds the first one's. One that can't be made can't be held, and whoever writes there says why.
func (a *app) aloneAtHome(ctx context.Context) (unlock func(), err error) {
	if space := userSpace(a.userBase()); space.err == nil {
		_ = os.MkdirAll(space.value, 0o700)
	}
	return a.alone(ctx, true)
}

// hold keeps other processes from what alone keeps them from, in a directory.
func (a *app) hold(ctx context.Context, dir string) (unlock func(), err error) {
	note := time.AfterFunc(waitNoted, func() {
		a.term.note("waiting for another rye that works on %q, %s at most", dir, lockWait)
	})
	defer note.Stop()
	return lockProject(ctx, dir)
}
