package runs

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/threads/live"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/approve"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/signing"
)

// maxShown is how many bytes of a parameter a question shows.
const maxShown = 4 << 10

// show shows the call that a question is about.
func show(a *cli.App, q *consent.Question) {
	a.Term.Prompt("%s needs an approval: %s\n", q.Ref.String(), q.Why())
	for _, name := range slices.Sorted(maps.Keys(q.Params)) {
		b, err := jcs.Append(nil, q.Params[name])
		text := string(b)
		if err != nil {
			text = err.Error()
		}
		if len(text) > maxShown {
			text = text[:maxShown] + "… (" + fault.Count(int64(len(text)), "byte") + ")"
		}
		a.Term.Prompt("  %s: %s\n", name, text)
	}
}

// door asks about the one call of rye exec. --yes answers. Without a terminal the call makes a request, and the same command
// finds its answer.
func (c *execRun) door(a *cli.App, s *Opened) *consent.Door {
	return &consent.Door{Approve: func(ctx context.Context, q *consent.Question) (*consent.Approval, error) {
		if a.Globals.Yes && !q.Separate {
			return &consent.Approval{By: "--yes"}, nil
		}
		d, requests, err := approval.At(s.Session, a.Now, approval.Exec)
		if err != nil {
			return nil, err
		}
		s.also = append(s.also, requests) // the call is yet to be made
		d.NoWait, d.Command = true, "rye "+cli.JoinArgs(a.Args)
		if a.CanAsk() {
			d.Ask = func(ctx context.Context, _ *approval.Request, q *consent.Question) (approval.Answer, error) {
				show(a, q)
				line, err := a.Ask(ctx, "run it?", "[y/N]")
				return approval.Answer{Yes: line == "y" || line == "yes", By: q.Principal, Through: "terminal"}, err
			}
		}
		got, err := d.Approve(ctx, q, "")
		if errors.Is(err, approval.ErrWaits) && !q.Separate {
			err = fault.Of(err).Try(a.With("--yes"))
		}
		return got, err
	}}
}

// approver returns what approves the calls of threads.
func (o *Opened) approver(a *cli.App, v *live.View, allow []string, sign approve.Sign) (*approve.Approver, error) {
	approver, err := approve.New(allow, asks(a, v), sign)
	if err != nil {
		return nil, err
	}
	d, requests, err := approval.At(o.Session, a.Now, approval.Thread)
	if err != nil {
		return nil, err
	}
	o.also = append(o.also, requests)
	approver.Use(d)
	return approver, nil
}

// follow waits for the approvals that a thread has stopped for, and lets it go on.
func follow(ctx context.Context, a *cli.App, e *thread.Engine, r *thread.Result, how *thread.Resume) (*thread.Result, error) {
	for r.Status == thread.Waiting {
		id, _ := r.Error.Details["request"].(string)
		a.Term.Note("%s: waiting for an answer until %v: %s", r.Error.Text, r.Error.Details["expires"], fault.Command("rye approve", id))
		if err := how.Approver.Await(ctx, r.Error); err != nil {
			if ctx.Err() != nil { // it goes on waiting
				return r, nil
			}
			return nil, err
		}
		how.Thread = r.Thread
		next, err := e.Resume(ctx, how)
		if err != nil {
			return next, err
		}
		r = next
	}
	return r, nil
}

// asks returns what asks about the calls of a thread; nil without a terminal.
func asks(a *cli.App, v *live.View) approve.Ask {
	if !a.CanAsk() {
		return nil
	}
	return func(ctx context.Context, q *consent.Question) (_ approve.Reply, err error) {
		var line string
		v.Ask(func() {
			show(a, q)
			line, err = a.Ask(ctx, "run it?", "[y] once, [t] always in this thread, [N] no:")
		})
		switch line {
		case "y", "yes":
			return approve.Once, err
		case "t":
			return approve.ThisThread, err
		}
		return approve.No, err
	}
}

// signer returns what signs items for a model that asks for it; nil unless it is allowed.
func signer(a *cli.App, v *live.View, flag trusts.KeyFlag, allowed bool) approve.Sign {
	if !allowed {
		return nil
	}
	return func(ctx context.Context, thread string, ref model.Ref) (_ map[string]any, err error) {
		if !a.CanAsk() {
			return nil, fault.New(fault.Approval, "there is no terminal to ask whether %q may be signed", ref).On("ref", ref.String()).
				Try(fault.Command("rye sign", ref.String()))
		}
		var s *signing.Signed
		v.Ask(func() { s, err = signs.SignAsked(ctx, a, flag, "thread "+thread, ref.String()) })
		if err != nil {
			return nil, err
		}
		return map[string]any{"ref": s.Name, "file": s.File, "key": s.Key, "digest": s.Raw, "changed": s.Changed, "allowed": s.Allowed}, nil
	}
}
