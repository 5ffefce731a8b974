package locks

import (
	"context"
	"encoding/json"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/session"
)

// What rye lock --check has found current it need not make again as long as nothing has changed (lock/recall). The
// lock isn't even read.

// A found answer is what is kept of one that was good.
type found struct {
	ID        string   `json:"id"`
	Bundles   int      `json:"bundles"`
	Pins      int      `json:"pins"`
	Artifacts int      `json:"artifacts"`
	Warnings  []string `json:"warnings"`
}

// current is the answer to --check where this very state was found current before; else nil.
func (c *lockRun) current(ctx context.Context, a *cli.App) (*LockAnswer, error) {
	l := c.unread(a)
	if l == nil {
		return nil, nil
	}
	defer l.Close()
	c.question = questionOf(ctx, l)
	b, ok := c.question.Recall(ctx)
	var was found
	if !ok || json.Unmarshal(b, &was) != nil {
		return nil, ctx.Err()
	}
	ans := newLockAnswer(c)
	ans.File, ans.ID, ans.Bundles, ans.Pins, ans.Artifacts, ans.Warnings = l.LockPath(), was.ID, was.Bundles, was.Pins,
		was.Artifacts, was.Warnings
	tellWarnings(a, ans.Warnings)
	return ans, nil
}

// Remembered reports whether the lock was found current in the very state that there is now.
func Remembered(ctx context.Context, l *paths.Lock) bool {
	_, ok := questionOf(ctx, l).Recall(ctx)
	return ok
}

// questionOf is nil where the answer depends on what programs there are on the machine.
func questionOf(ctx context.Context, l *paths.Lock) *paths.Question {
	q := paths.AskOfLock(ctx, l)
	if q == nil || session.PoliciesOf(l.Trust).Floor().Enforce {
		return nil
	}
	return q
}

// unread is the lock before it is read; nil where what is wrong is for others to report.
func (c *lockRun) unread(a *cli.App) *paths.Lock {
	w := paths.UnreadWorkspace(a)
	if c.AllowUser { // the user's space isn't looked at here
		return nil
	}
	if c.User {
		s := w.UserSpace()
		l := &paths.Lock{Lock: w.LockIn(s.Path, s.Path), App: a}
		if l.User = true; s.Err != nil {
			return nil
		}
		return l
	}
	p, err := w.FindProject()
	if err != nil || p.Root == "" {
		return nil
	}
	return &paths.Lock{Lock: w.LockIn(p.Root, p.DotAI()), App: a}
}

// remember keeps that the lock is current, with what there is to warn of, which the same state will bring about again.
// What also depends on the network or on what is installed is found anew each time.
func (c *lockRun) remember(ctx context.Context, l *paths.Lock, ans *LockAnswer) {
	made := ans.Made
	if made == nil || len(made.Unfound)+len(made.Unasked) > 0 || l.LeftOut() || len(ans.Problems) > 0 {
		return
	}
	if b, err := json.Marshal(found{ans.ID, ans.Bundles, ans.Pins, ans.Artifacts, ans.Warnings}); err == nil {
		c.question.Keep(ctx, b)
	}
}

// tellWarnings prints warnings, and of very many how many they are.
func tellWarnings(a *cli.App, all []string) {
	told := len(all)
	if told > mostChanges && !a.Term.Verbose {
		told = mostChanges - 2
	}
	for _, text := range all[:told] {
		a.Term.Warn("%s", text)
	}
	if told < len(all) {
		a.Term.Warn("and %d more; -v tells all", len(all)-told)
	}
}
