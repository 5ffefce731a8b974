package thread

import (
	"context"
	"math"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// inherit bounds a thread by the policies, and a child by its parent: it may do what both may, and its limits are at
// most those of the parent.
func (t *thread) inherit(ctx context.Context) error {
	if t.parent == nil && t.Above == nil {
		return t.After.Permit(ctx, t.plan)
	}
	if a := t.Above; a != nil {
		t.under, t.part, t.chosen, t.foreign, t.chain = a.Parent, a.Part, a.Chosen,
			!roster.Owned(ctx, t.Roster, t.Session, a.Parent), a.Chain
		if err := t.plan.Narrow(a.Chain.Last().Grants); err != nil {
			return err
		}
		a.Bound(&t.limits)
	} else {
		if err := t.plan.Narrow(t.parent.plan.Caps); err != nil {
			return err
		}
		t.limits.Cap(&t.parent.limits)
	}
	if t.limits.Depth < 0 {
		return fault.New(fault.Limit, "the thread has reached a limit: depth_exceeded").On("limit", "depth_exceeded")
	}
	return nil
}

// own reports whether the directives of the thread and of those above it are the user's own.
func (t *thread) own() bool { return t.plan.Owned && !t.foreign && (t.parent == nil || t.parent.own()) }

// fund opens the account of the thread. Of what its parent has left it gets what it asks for, or as much as there is;
// if neither the directive nor the caller says how much, a share of that.
func (t *thread) fund(ctx context.Context) error {
	wanted := t.limits.Spend
	open := func(part int64) error {
		t.limits.Spend = min(wanted, part)
		if err := t.Ledger.Do(ctx, ledger.Open(t.id, t.parentID(), t.lease.Epoch, t.limits.Budget(),
			t.Now())); err != nil {
			return err
		}
		t.money.Attach(t.Ledger, &ledger.Balance{Thread: t.id, Epoch: t.lease.Epoch}, t.lease.Guard)
		return nil
	}
	switch {
	case t.parent != nil:
		return ledger.Part(ctx, t.parent.money.Left, t.part, open)
	case t.under != "":
		return ledger.Part(ctx, func(ctx context.Context) (int64, error) {
			return ledger.Left(ctx, t.Ledger, t.under)
		}, t.part, open)
	}
	return open(limits.Unlimited)
}

// runChild runs a child to its end. A child that was begun by another process goes on.
func (t *thread) runChild(ctx context.Context, c *toolcall.Call) (*toolcall.Outcome, error) {
	r, err := t.rejoin(ctx, c)
	if err != nil {
		return nil, err
	}
	if r.Status == Waiting {
		return nil, r.Error
	}
	spent := int64(math.Round((r.Cost.Spend + r.Cost.Below) * limits.Nano))
	t.money.Child(spent)
	t.tell("")
	return &toolcall.Outcome{Value: r.Shown(), Failed: !r.Success, Cost: spent}, nil
}

// rejoin starts a child, or finds the one that was begun.
func (t *thread) rejoin(ctx context.Context, c *toolcall.Call) (*Result, error) {
	var row *roster.Thread // that it has although it never began
	if c.Begun {
		var err error
		if row, err = roster.Get(ctx, t.Roster, c.Child); err == nil && transcript.Exists(row.Dir()) || err != nil &&
			fault.CodeOf(err) != fault.NotFound {
			return t.GoOn(ctx, c.Child, &Resume{Principal: t.Principal, Approver: t.Approver, Live: t.Live.below(),
				parent: t, spawned: c.Spawn.Limits})
		}
	}
	return t.Run(ctx, &Start{Directive: c.Spawn.Directive, Inputs: params.Values(c.Spawn.Inputs), Model: c.Spawn.Model,
		Limits: c.Spawn.Limits, Principal: t.Principal,
		Approver: t.Approver, Live: t.Live.below(), parent: t, chosen: c.Chosen, ID: c.Child, part: c.Part, row: row})
}

// GoOn returns what becomes of a thread that another process has begun, to the end of the last that it is handed over
// to.
func (e *Engine) GoOn(ctx context.Context, id string, how *Resume) (*Result, error) {
	row, err := control.FindRow(ctx, e.Roster, id)
	if err != nil {
		return nil, err
	}
	if !row.State.Ended() {
		how.Thread = id
		return e.Resume(ctx, how)
	}
	r, err := control.ResultOf(row.Dir())
	if err != nil || r.Status != Continued {
		return r, err
	}
	before := r.Cost
	if r, err = e.GoOn(ctx, r.Next, how); r != nil {
		r.Cost.Add(before)
	}
	return r, err
}

// parentID returns the thread above, "" if there is none. A child that is resumed alone has one that this process
// doesn't drive.
func (s *Start) parentID() string {
	if s.parent != nil {
		return s.parent.id
	}
	return s.under
}
