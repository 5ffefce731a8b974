package main

import (
	"context"
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
	note := time.AfterFunc(waitNoted, func() {
		a.term.note("waiting for another rye that works on %q, %s at most", dir.value, lockWait)
	})
	defer note.Stop()
	return lockProject(ctx, dir.value)
}
