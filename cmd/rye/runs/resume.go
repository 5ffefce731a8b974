package runs

import (
	"context"
	"path/filepath"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/threads/live"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/resume"
)

type resumeRun struct {
	Thread    string   `arg:"" complete:"thread" help:"Thread id, or the beginning of one."`
	Message   string   `short:"m" placeholder:"TEXT" sep:"none" help:"Continue a thread that has ended: say TEXT to the model."`
	Limit     []string `placeholder:"NAME=N" sep:"none" help:"Limit to use from here on (repeatable)."`
	Allow     []string `placeholder:"REF" sep:"none" help:"Approve calls of this tool beforehand (glob, repeatable)."`
	AllowSign bool     `help:"Let the model ask to sign items with your key."`
	NoWait    bool     `help:"Stop the thread at a call that waits for an approval."`
	Events    bool     `help:"Write each recorded event to standard error as a line of JSON."`
	Pinned    bool     `help:"Run the locked version despite changes in the working tree."`
	Unlocked  bool     `help:"Run without a lock (refused in CI)."`
	trusts.KeyFlag

	handoff bool
}

// handoffRun hands the work of a thread over to a new one.
type handoffRun struct{ resumeRun }

func (c *handoffRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	c.handoff = true
	return c.resumeRun.Run(ctx, a)
}

func (c *resumeRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	mode := session.Mode{Pinned: c.Pinned, Unlocked: c.Unlocked}
	opened, err := Open(ctx, app, mode)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	engine, err := openEngine(app, opened.Session, mode)
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	v := live.Watch(app, c.Events)
	defer v.End()
	approver, err := opened.approver(app, v, c.Allow, signer(app, v, c.KeyFlag, c.AllowSign))
	if err != nil {
		return nil, err
	}
	live := v.Live()
	controller := &control.Controller{Roster: engine.Roster, Ledger: engine.Ledger, Now: app.Now,
		Root: filepath.Dir(filepath.Dir(engine.Dir))}
	r, err := resume.Go(ctx, engine, controller, &resume.Order{Thread: c.Thread, Message: c.Message,
		Handoff: c.handoff, Limits: c.Limit, Approver: approver, Live: live})
	if err == nil {
		by := &thread.Attendance{NoWait: c.NoWait, Waits: waits(app)}
		r.Result, err = engine.Follow(ctx, r.Result, by, &thread.Resume{Approver: approver, Live: live})
	}
	if err != nil {
		return nil, Reworded(app, thread.Unfinished(r.Result, err))
	}
	return runAnswer{Result: *r.Result, Carried: r.From, shown: live.Text != nil}, r.Failure()
}
