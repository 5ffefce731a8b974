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
func door(app *cli.App, s *Opened) *consent.Door {
	return &consent.Door{Approve: func(ctx context.Context, question *consent.Question) (*consent.Approval, error) {
		if app.Globals.Yes && !question.Separate {
			return &consent.Approval{By: "--yes"}, nil
		}
		controller, requests, err := approval.At(s.Session, app.Now, approval.Exec)
		if err != nil {
			return nil, err
		}
		s.also = append(s.also, requests) // closed with the session, because the call is made later
		controller.NoWait, controller.Command = true, app.With()
		if app.CanAsk() {
			controller.Ask = func(ctx context.Context, _ *approval.Request, q *consent.Question) (approval.Answer,
				error) {
				live.Question(app, q)
				line, err := app.Ask(ctx, "run it?", "[y/N]")
				return approval.Answer{Yes: line == "y" || line == "yes", By: q.Principal, Through: "terminal"}, err
			}
		}
		got, err := controller.Approve(ctx, question, "")
		if errors.Is(err, approval.ErrWaits) && !question.Separate {
			err = fault.Of(err).Try(app.With("--yes"))
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
func signer(app *cli.App, view *live.View, flag trusts.KeyFlag, allowed bool) toolcall.Sign {
	if !allowed {
		return nil
	}
	return func(ctx context.Context, thread string, ref model.Ref) (_ map[string]any, err error) {
		if !app.CanAsk() {
			return nil, fault.New(fault.Approval, "no terminal to ask whether %q may be signed",
				ref).On("ref", ref.String()).
				Try(fault.Command("rye sign", ref.String()))
		}
		var s *signing.Signed
		view.Ask(func() { s, err = signs.SignAsked(ctx, app, flag, "thread "+thread, ref.String()) })
		if err != nil {
			return nil, err
		}
		return map[string]any{"ref": s.Name, "file": s.File, "key": s.Key, "digest": s.Raw, "changed": s.Changed,
			"allowed": s.Allowed}, nil
	}
}
