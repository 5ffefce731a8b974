package thread

import (
	"context"
	"math"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// children runs the threads that the calls of a thread start.
type children struct{ parent *thread }

// run runs a child to its end. A child that was begun by another process goes on.
func (c children) run(ctx context.Context, call *toolcall.Call) (*toolcall.Answer, error) {
	result, err := c.rejoin(ctx, call)
	if err != nil {
		return nil, err
	}
	return c.hear(result)
}

// hear returns the result of a child that stopped, for its parent, and counts what the child has spent. A child that
// waits has the parent wait too, unless it was cancelled meanwhile: then its result says so.
func (c children) hear(result *Result) (*toolcall.Answer, error) {
	if result.Status == Waiting {
		return nil, result.Error
	}
	spent := int64(math.Round((result.Cost.Spend + result.Cost.Below) * limits.Nano))
	c.parent.money.account.Child(spent)
	c.parent.tell("")
	return &toolcall.Answer{Value: result.Shown(), Failed: !result.Success, Cost: spent}, nil
}

// rejoin starts a child, or finds the one that was begun.
func (c children) rejoin(ctx context.Context, call *toolcall.Call) (*Result, error) {
	start, engine := c.parent.start, c.parent.engine
	var row *roster.Thread // that it has although it never began
	if call.Begun {
		var err error
		if row, err = roster.Get(ctx, engine.Roster, call.Child); err == nil && transcript.Exists(row.Dir()) ||
			err != nil && fault.CodeOf(err) != fault.NotFound {
			return engine.GoOn(ctx, call.Child, &Resume{Principal: start.Principal, Approver: start.Approver,
				Live: start.Live.below(), parent: c.parent, spawned: call.Spawn.Limits})
		}
	}
	return engine.Run(ctx, &Start{Directive: call.Spawn.Directive, Inputs: params.Values(call.Spawn.Inputs),
		Model: call.Spawn.Model, Limits: call.Spawn.Limits, Principal: start.Principal,
		Approver: start.Approver, Live: start.Live.below(), ID: call.Child,
		family: family{parent: c.parent, chosen: call.Chosen, part: call.Part, row: row}})
}
