package runs

import (
	"context"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/threads/live"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread"
)

type resumeRun struct {
	Thread    string   `arg:"" complete:"thread" help:"Thread id."`
	Limit     []string `placeholder:"NAME=N" sep:"none" help:"Limit to use from here on (repeatable)."`
	Allow     []string `placeholder:"REF" sep:"none" help:"Approve calls of this tool beforehand (glob, repeatable)."`
	AllowSign bool     `help:"Let the model ask to sign items with your key."`
	NoWait    bool     `help:"Stop the thread at a call that waits for an approval."`
	Events    bool     `help:"Write each recorded event to standard error as a line of JSON."`
	Pinned    bool     `help:"Run the locked version despite changes in the working tree."`
	Unlocked  bool     `help:"Run without a lock (refused in CI)."`
	trusts.KeyFlag
}

func (c *resumeRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	mode := session.Mode{Pinned: c.Pinned, Unlocked: c.Unlocked}
	s, err := Open(ctx, a, mode)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	engine, done, err := s.engine(a, mode)
	if err != nil {
		return nil, err
	}
	defer done()
	v := live.Watch(a, c.Events)
	defer v.End()
	approver, err := s.approver(a, v, c.Allow, signer(a, v, c.KeyFlag, c.AllowSign))
	if err != nil {
		return nil, err
	}
	live := v.Live()
	r, err := engine.Resume(ctx, &thread.Resume{Thread: c.Thread, Limits: c.Limit, Approver: approver, Live: live})
	if err != nil {
		return nil, broken(a, r, err)
	}
	return runAnswer{Result: *r, shown: live.Text != nil}, r.Failure()
}
