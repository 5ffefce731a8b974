package toolcall

import (
	"context"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/consent"
)

// The answers of gates.
const (
	Pass    = "yes"
	Refuse  = "no"
	Expired = "expired"
)

// Gate has a person answer what a gate of a graph asks. Nothing answers it beforehand: each visit of a gate is a call
// of its own.
func (a *Approver) Gate(ctx context.Context, thread, call string, graph *ai.Item, text, principal string,
	span time.Duration) (answer string, err error) {
	ref := graph.Ref.String()
	if a == nil || a.controller == nil {
		return "", fault.New(fault.Approval, "%q asks, and nothing can answer: %s", ref, text).On("ref",
			ref).Try("rye docs approvals")
	}
	controller := a.at(thread)
	if a.ask != nil {
		controller.Ask = func(ctx context.Context, _ *approval.Request, _ *consent.Question) (approval.Answer, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if ctx.Err() != nil { // it was answered while another question was asked
				return approval.Answer{}, context.Cause(ctx)
			}
			reply, err := a.ask(ctx, &consent.Question{Ref: graph.Ref, Digest: graph.Raw, Text: text,
				Principal: principal})
			return approval.Answer{Yes: reply != No, By: principal, Through: "terminal"}, err
		}
	}
	r, err := controller.Gate(ctx, call, ref, graph.Raw, text, principal, span)
	switch {
	case err != nil:
		return "", err
	case r.State == approval.Approved:
		return Pass, nil
	case r.State == approval.Denied:
		return Refuse, nil
	}
	return Expired, nil
}
