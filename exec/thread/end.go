package thread

import (
	"context"
	"errors"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// finish records how the thread ended.
func (t *thread) finish(ctx context.Context, end *loop.End, err error) (*Result, error) {
	ctx, over := context.WithoutCancel(ctx), ctx
	r := &Result{Thread: t.id, Directive: t.start.Directive.ID, Outputs: t.calls.Returned()}
	why, known := control.EndOf(over, r, err)
	if !known {
		why = r.Take(end.Value, end.Ended, end.Reason, len(t.plan.Says.Outputs) > 0)
	}
	defer func() { t.tell(r.Status) }()
	cost := t.money.cost()
	r.Cost, r.Error = control.CostOf(cost), why
	if t.record.Playing() && err != nil && (replay.Differs(err) || over.Err() != nil ||
		errors.Is(err, replay.ErrEnds)) {
		return t.stay(ctx, r, err)
	}
	if t.record.unwritten != nil {
		return t.stay(ctx, r, t.record.unwritten)
	}
	if r.Status == Continued {
		if r.Next = t.id; t.record.Writes() { // the id is not compared
			if r.Next, err = t.handTo(ctx); err != nil {
				return t.stay(ctx, r, err)
			}
		}
	}
	last := r.Last(cost)
	if q := roster.RequestOf(err); q != nil && t.record.Writes() {
		err = t.record.lease.Pass(ctx, q, t.plan.Settings.Outlive)
	} else {
		err = t.hooks.afterEnd(over, r, why)
	}
	if err != nil {
		return t.stay(ctx, r, err)
	}
	if err := t.record.append(true, last, transcript.Checkpoint{Turn: t.record.turn}); err != nil {
		return t.stay(ctx, r, err)
	}
	if !t.record.Writes() {
		return r, nil
	}
	// nothing needs it, and a full disk takes no result away
	_ = control.Summarise(t.record.lease.Dir, t.record.Report(), r.Status)
	return r, t.leave(ctx, r.Status != Interrupted && r.Status != Waiting, roster.State(r.Status), r.Next)
}

// leave closes the record, the account and the lease of a thread. The account of one that never goes on is closed for
// good.
func (t *thread) leave(ctx context.Context, ended bool, state roster.State, next string) error {
	return errors.Join(t.record.Close(), t.money.account.End(ctx, ended, t.engine.Now()),
		t.record.lease.Leave(ctx, state, next))
}

// stay closes a thread without recording an end: replay failed, or another process took it over.
func (t *thread) stay(ctx context.Context, r *Result, err error) (*Result, error) {
	if !t.record.Writes() {
		t.record.Close()
		return r, err
	}
	bad := t.leave(ctx, false, roster.Interrupted, "")
	if t.family.next != nil { // it has begun, and is found again
		_, worse := t.family.next.stay(ctx, new(Result), nil)
		bad = errors.Join(bad, worse)
	}
	if !replay.Differs(err) {
		return r, errors.Join(err, bad)
	}
	r.Status, r.Error = Interrupted, fault.Of(err)
	return r, bad
}
