package runs

import (
	"context"
	"errors"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/threads/live"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/manifest/signing"
)

// This file asks the user about calls and signatures that need an approval.

// door asks about the one call of rye exec, or the calls of a graph of rye run. --yes approves them. Without a
// terminal the call files a request, and the same command later finds the answer.
func door(a *cli.App, s *Opened) *consent.Door {
	return &consent.Door{Approve: func(ctx context.Context, q *consent.Question) (*consent.Approval, error) {
		if a.Globals.Yes && !q.Separate {
			return &consent.Approval{By: "--yes"}, nil
		}
		d, requests, err := approval.At(s.Session, a.Now, approval.Exec)
		if err != nil {
			return nil, err
		}
		s.also = append(s.also, requests) // closed with the session, because the call is made later
		d.NoWait, d.Command = true, a.With()
		if a.CanAsk() {
			d.Ask = func(ctx context.Context, _ *approval.Request, q *consent.Question) (approval.Answer, error) {
				live.Question(a, q)
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

// approver returns the approver for calls of threads. allow approves tools beforehand.
func (o *Opened) approver(a *cli.App, v *live.View, allow []string, sign toolcall.Sign) (*toolcall.Approver, error) {
	approver, err := toolcall.NewApprover(allow, v.Asks(a), sign)
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

// signer returns the function that signs items at a model's request. It is nil unless the user allowed that.
func signer(a *cli.App, v *live.View, flag trusts.KeyFlag, allowed bool) toolcall.Sign {
	if !allowed {
		return nil
	}
	return func(ctx context.Context, thread string, ref model.Ref) (_ map[string]any, err error) {
		if !a.CanAsk() {
			return nil, fault.New(fault.Approval, "no terminal to ask whether %q may be signed",
				ref).On("ref", ref.String()).
				Try(fault.Command("rye sign", ref.String()))
		}
		var s *signing.Signed
		v.Ask(func() { s, err = signs.SignAsked(ctx, a, flag, "thread "+thread, ref.String()) })
		if err != nil {
			return nil, err
		}
		return map[string]any{"ref": s.Name, "file": s.File, "key": s.Key, "digest": s.Raw, "changed": s.Changed,
			"allowed": s.Allowed}, nil
	}
}
