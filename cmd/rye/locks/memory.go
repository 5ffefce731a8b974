package locks

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/session"
	lockfile "github.com/rye-build/rye/lock/file"
)

// This file caches the result of rye lock --check. While nothing has changed (lock/recall), the next check answers
// from the cache and doesn't even read the lock.

// cachedCheck is the cached part of the answer for a lock that was up to date.
type cachedCheck struct {
	ID        string   `json:"id"`
	Bundles   int      `json:"bundles"`
	Pins      int      `json:"pins"`
	Artifacts int      `json:"artifacts"`
	Warnings  []string `json:"warnings"`
	// Bundles from registries. What advisories say about them is looked up each time.
	Registered []lockfile.Bundle `json:"registered,omitempty"`
}

// cachedAnswer returns the cached answer of --check if nothing has changed since, else nil.
func (c *lockRun) cachedAnswer(ctx context.Context, app *cli.App) (*LockAnswer, error) {
	lock := c.unread(app)
	if lock == nil {
		return nil, nil
	}
	defer lock.Close()
	c.question = questionOf(ctx, lock)
	b, ok := c.question.Recall(ctx)
	var cached cachedCheck
	if !ok || json.Unmarshal(b, &cached) != nil {
		return nil, ctx.Err()
	}
	ans := newLockAnswer(c)
	ans.File, ans.ID, ans.Warnings = lock.LockPath(), cached.ID, cached.Warnings
	ans.Bundles, ans.Pins, ans.Artifacts = cached.Bundles, cached.Pins, cached.Artifacts
	printWarnings(app, ans.Warnings)
	ans.covered(lock, cached.Registered)
	return ans, nil
}

// Remembered reports whether --check found the lock up to date in exactly this state.
func Remembered(ctx context.Context, l *paths.Lock) bool {
	_, ok := questionOf(ctx, l).Recall(ctx)
	return ok
}

// questionOf returns the key of the cached answer. It is nil if the answer depends on the machine's programs.
func questionOf(ctx context.Context, l *paths.Lock) *paths.Question {
	q := paths.AskOfLock(ctx, l)
	if q == nil || session.PoliciesOf(l.Trust).Floor().Enforce {
		return nil
	}
	return q
}

// unread returns the lock before it is read. It is nil if that fails: opening the lock then reports the error.
func (c *lockRun) unread(app *cli.App) *paths.Lock {
	workspace := paths.UnreadWorkspace(app)
	if c.AllowUser { // the cached state doesn't cover the user space
		return nil
	}
	if c.User {
		s := workspace.UserSpace()
		l := &paths.Lock{Lock: workspace.LockIn(s.Path, s.Path), App: app}
		if l.User = true; s.Err != nil {
			return nil
		}
		return l
	}
	p, err := workspace.FindProject()
	if err != nil || p.Root == "" {
		return nil
	}
	return &paths.Lock{Lock: workspace.LockIn(p.Root, p.DotAI()), App: app}
}

// remember caches that the lock is up to date, with the warnings that the same state always causes. It caches
// nothing if the answer also depends on the network or on what is installed.
func (c *lockRun) remember(ctx context.Context, l *paths.Lock, ans *LockAnswer) {
	made := ans.Made
	if made == nil || len(made.Unfound)+len(made.Unasked) > 0 || l.LeftOut() || len(ans.Problems) > 0 {
		return
	}
	registered := slices.DeleteFunc(slices.Clone(made.Lock.Bundles), func(b lockfile.Bundle) bool {
		_, is := b.Source.Registry()
		return !is
	})
	if b, err := json.Marshal(cachedCheck{ans.ID, ans.Bundles, ans.Pins, ans.Artifacts, ans.Warnings,
		registered}); err == nil {
		c.question.Keep(ctx, b)
	}
}

// printWarnings prints warnings. Of more than mostChanges it prints the first ones and a count.
func printWarnings(a *cli.App, all []string) {
	shown := len(all)
	if shown > mostChanges && !a.Term.Verbose {
		shown = mostChanges - 2
	}
	for _, text := range all[:shown] {
		a.Term.Warn("%s", text)
	}
	if shown < len(all) {
		a.Term.Warn("and %d more; -v shows all", len(all)-shown)
	}
}
