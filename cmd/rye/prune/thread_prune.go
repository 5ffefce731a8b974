package prune

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/lock/gcroot"
)

type threadPruneRun struct {
	Keep   string `placeholder:"TIME" required:"" help:"Keep threads that ended since then: 90d, 12h, or a date."`
	All    bool   `help:"Prune the threads of all projects."`
	DryRun bool   `name:"dry-run" help:"Show what would be removed; remove nothing."`
}

type threadPruned struct {
	DryRun bool           `json:"dry_run"`
	Before string         `json:"before"` // only threads that ended before this time are pruned
	Pruned []prunedThread `json:"pruned"`
	Kept   []control.Kept `json:"kept"` // old enough, but not pruned
	Bytes  int64          `json:"bytes"`
}

type prunedThread struct {
	Thread  string     `json:"thread"`
	State   string     `json:"state"`
	Project string     `json:"project"`
	Spend   int64      `json:"spend"` // nano-dollars, its own
	Line    int64      `json:"line"`  // the last signed line
	Digest  cas.Digest `json:"digest,omitzero"`
}

func (c *threadPruneRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	before, err := audits.ParsePast("--keep", c.Keep, app.Now())
	if err != nil {
		return nil, err
	}
	state := app.Dir(cli.StatePlace)
	if state.Err != nil {
		return nil, state.Err
	}
	var filter roster.Filter
	if !c.All {
		p, err := paths.Paths(app).FindProject()
		if err != nil {
			return nil, err
		}
		filter.Root = p.Root
	}
	keys, err := audits.AuditKeys(ctx, app, session.AuditIn(state.Value), nil)
	if err != nil {
		return nil, err
	}
	rows, money := thread.Local(state.Value, app.Now)
	defer money.Shut()
	defer rows.Close()
	all, err := control.Tidy(ctx, rows, money, filter, app.Now())
	if err != nil {
		return nil, err
	}
	release, done := releases(app)
	defer done()
	pruned, err := control.Prune(ctx, control.PruneOptions{Roster: rows, Ledger: money, Rows: all,
		Keys: audits.PublicKeys(keys), Before: before, Now: app.Now(), DryRun: c.DryRun,
		Release: release, Confirm: func(ctx context.Context, what *control.Pruned) error {
			return confirm(ctx, app, what)
		}})
	if err != nil {
		return nil, err
	}
	ans := threadPruned{DryRun: c.DryRun, Before: before.Format(time.RFC3339), Pruned: []prunedThread{},
		Kept: slices.Concat([]control.Kept{}, pruned.Kept), Bytes: pruned.Bytes}
	for _, t := range pruned.Pruned {
		p := t.Pruned
		ans.Pruned = append(ans.Pruned, prunedThread{t.ID, string(t.State), t.Project.Root, p.Spend, p.Line, p.Digest})
	}
	return ans, c.unverified(app, pruned.Kept)
}

// confirm shows what would be pruned, and asks. --yes answers.
func confirm(ctx context.Context, a *cli.App, what *control.Pruned) error {
	for _, t := range what.Pruned {
		a.Term.Note("would prune %s: %s, in %s", t.ID, t.State, t.Project.Root)
	}
	return a.Confirm(ctx, fmt.Sprintf("delete the transcripts of %s, %s?",
		fault.Count(int64(len(what.Pruned)), "thread"), cli.ByteSize(float64(what.Bytes))))
}

// releases returns a function that releases the gc lease of a thread's lock in the store. It is nil if the store
// can't be opened: gc itself releases the leases of missing directories. The caller calls done.
func releases(a *cli.App) (release func(ctx context.Context, path string) error, done func()) {
	s, err := paths.HaveStore(a)
	if err != nil {
		return nil, func() {}
	}
	return func(ctx context.Context, path string) error { return gcroot.Forget(ctx, s, path) }, func() { s.Close() }
}

// unverified reports the old threads that were kept. It returns an error if some of them can't be verified.
func (c *threadPruneRun) unverified(a *cli.App, kept []control.Kept) error {
	var bad []control.Kept
	for _, k := range kept {
		if k.Err != nil {
			bad = append(bad, k)
		} else {
			a.Term.Detail("kept %s: %s", k.Thread, k.Reason)
		}
	}
	if n := int64(len(kept) - len(bad)); n > 0 {
		a.Term.Note("kept %s, related to threads that have not ended before then", fault.Count(n, "old thread"))
	}
	if len(bad) == 0 {
		return nil
	}
	f := fault.Of(bad[0].Err)
	f.Text = fmt.Sprintf("%s can't be verified, so it was kept: %s", bad[0].Thread, bad[0].Reason)
	if len(bad) > 1 {
		f.Text = fmt.Sprintf("%d threads can't be verified, so they were kept", len(bad))
		for _, k := range bad[:min(len(bad), audits.MostNamed)] {
			f.Because(k.Thread + ": " + k.Reason)
		}
	}
	f.Hint = []string{"rye thread verify " + fault.Quote(bad[0].Thread)}
	return f.Asked()
}

func (p threadPruned) Text(t *cli.Terminal) {
	did := "pruned"
	if p.DryRun {
		did = "would prune"
	}
	var rows [][]string
	for _, one := range p.Pruned {
		rows = append(rows, []string{did, one.Thread, one.State})
	}
	t.Rows(rows)
	t.Printf("%s %s that ended before %s, %s\n", did, fault.Count(int64(len(p.Pruned)), "thread"), p.Before,
		cli.ByteSize(float64(p.Bytes)))
}
