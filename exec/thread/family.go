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

// A family is the place of a thread among others: the one above it, the one before it and the one that goes on with
// its work.
type family struct {
	parent  *thread        // that starts this one; nil if this process doesn't drive one above it
	under   string         // the thread above then
	foreign bool           // a directive above that isn't the user's own
	chosen  bool           // rye itself chooses the directive
	row     *roster.Thread // of this thread, which a process has registered that died then; nil for a new one
	// of what is left of the parent's budget it may have one such part, unless it names an amount
	part int64

	continues string  // the thread that handed its work to this one
	handed    []any   // the messages that this thread was handed, or hands over
	next      *thread // that goes on with its work
}

// parentID returns the thread above, or "". A child that is resumed alone has one that this process doesn't drive.
func (f *family) parentID() string {
	if f.parent != nil {
		return f.parent.id
	}
	return f.under
}

// inherit bounds a thread by the policies, and a child by its parent: it may do what both may, and its limits are at
// most those of the parent.
func (t *thread) inherit(ctx context.Context) error {
	if t.family.parent == nil && t.start.Above == nil {
		return t.start.After.Permit(ctx, t.plan)
	}
	if a := t.start.Above; a != nil {
		t.family.under, t.family.part, t.family.chosen, t.family.foreign = a.Parent, a.Part, a.Chosen,
			!roster.Owned(ctx, t.engine.Roster, t.engine.Session, a.Parent)
		t.watch.chain = a.Chain
		if err := t.plan.Narrow(a.Chain.Last().Grants); err != nil {
			return err
		}
		a.Bound(&t.money.limits)
	} else {
		if err := t.plan.Narrow(t.family.parent.plan.Caps); err != nil {
			return err
		}
		t.money.limits.Cap(&t.family.parent.money.limits)
	}
	if t.money.limits.Depth < 0 {
		return fault.New(fault.Limit, "the thread has reached a limit: depth_exceeded").On("limit", "depth_exceeded")
	}
	return nil
}

// own reports whether the directives of the thread and of those above it are the user's own.
func (t *thread) own() bool {
	return t.plan.Owned && !t.family.foreign && (t.family.parent == nil || t.family.parent.own())
}

// fund opens the account of the thread. It gets what it asks for of the rest of its parent's budget, at most all of
// that; if neither the directive nor the caller asks for an amount, a share.
func (t *thread) fund(ctx context.Context) error {
	wanted := t.money.limits.Spend
	open := func(part int64) error {
		t.money.limits.Spend = min(wanted, part)
		if err := t.engine.Ledger.Do(ctx, ledger.Open(t.id, t.family.parentID(), t.record.lease.Epoch,
			t.money.limits.Budget(), t.engine.Now())); err != nil {
			return err
		}
		t.money.account.Attach(t.engine.Ledger, &ledger.Balance{Thread: t.id, Epoch: t.record.lease.Epoch},
			t.record.lease.Guard)
		return nil
	}
	switch {
	case t.family.parent != nil:
		return ledger.Part(ctx, t.family.parent.money.account.Left, t.family.part, open)
	case t.family.under != "":
		return ledger.Part(ctx, func(ctx context.Context) (int64, error) {
			return ledger.Left(ctx, t.engine.Ledger, t.family.under)
		}, t.family.part, open)
	}
	return open(limits.Unlimited)
}

// runChild runs a child to its end. A child that was begun by another process goes on.
func (t *thread) runChild(ctx context.Context, c *toolcall.Call) (*toolcall.Answer, error) {
	r, err := t.rejoin(ctx, c)
	if err != nil {
		return nil, err
	}
	return t.hear(r)
}

// hear returns the result of a child that stopped, for its parent, and counts what the child has spent. A child that
// waits has the parent wait too, unless it was cancelled meanwhile: then its result says so.
func (t *thread) hear(r *Result) (*toolcall.Answer, error) {
	if r.Status == Waiting {
		return nil, r.Error
	}
	spent := int64(math.Round((r.Cost.Spend + r.Cost.Below) * limits.Nano))
	t.money.account.Child(spent)
	t.tell("")
	return &toolcall.Answer{Value: r.Shown(), Failed: !r.Success, Cost: spent}, nil
}

// rejoin starts a child, or finds the one that was begun.
func (t *thread) rejoin(ctx context.Context, c *toolcall.Call) (*Result, error) {
	var row *roster.Thread // that it has although it never began
	if c.Begun {
		var err error
		if row, err = roster.Get(ctx, t.engine.Roster, c.Child); err == nil && transcript.Exists(row.Dir()) ||
			err != nil && fault.CodeOf(err) != fault.NotFound {
			return t.engine.GoOn(ctx, c.Child, &Resume{Principal: t.start.Principal, Approver: t.start.Approver,
				Live: t.start.Live.below(), parent: t, spawned: c.Spawn.Limits})
		}
	}
	return t.engine.Run(ctx, &Start{Directive: c.Spawn.Directive, Inputs: params.Values(c.Spawn.Inputs),
		Model: c.Spawn.Model, Limits: c.Spawn.Limits, Principal: t.start.Principal,
		Approver: t.start.Approver, Live: t.start.Live.below(), ID: c.Child,
		family: family{parent: t, chosen: c.Chosen, part: c.Part, row: row}})
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
