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
	result := &Result{Thread: t.id, Directive: t.start.Directive.ID, Outputs: t.calls.Returned()}
	why, known := control.EndOf(over, result, err)
	if !known {
		why = result.Take(end.Value, end.Ended, end.Reason, len(t.plan.Says.Outputs) > 0)
	}
	defer func() { t.tell(result.Status) }()
	cost := t.money.cost()
	result.Cost, result.Error = control.CostOf(cost), why
	if t.record.Playing() && err != nil && (replay.Differs(err) || over.Err() != nil ||
		errors.Is(err, replay.ErrEnds)) {
		return t.stay(ctx, result, err)
	}
	if t.record.unwritten != nil {
		return t.stay(ctx, result, t.record.unwritten)
	}
	if result.Status == Continued {
		if result.Next = t.id; t.record.Writes() { // the id is not compared
			if result.Next, err = t.handTo(ctx); err != nil {
				return t.stay(ctx, result, err)
			}
		}
	}
	last := result.Last(cost)
	if q := roster.RequestOf(err); q != nil && t.record.Writes() {
		err = t.record.lease.Pass(ctx, q, t.plan.Settings.Outlive)
	} else {
		err = t.hooks.afterEnd(over, result, why)
	}
	if err != nil {
		return t.stay(ctx, result, err)
	}
	if err := t.record.append(true, last, transcript.Checkpoint{Turn: t.record.turn}); err != nil {
		return t.stay(ctx, result, err)
	}
	if !t.record.Writes() {
		return result, nil
	}
	// nothing needs it, and a full disk takes no result away
	_ = control.Summarise(t.record.lease.Dir, t.record.Report(), result.Status)
	ended := result.Status != Interrupted && result.Status != Waiting
	return result, t.leave(ctx, ended, roster.State(result.Status), result.Next)
}

// leave closes the record, the account and the lease of a thread. The account of one that never goes on is closed for
// good.
func (t *thread) leave(ctx context.Context, ended bool, state roster.State, next string) error {
	return errors.Join(t.record.Close(), t.money.account.End(ctx, ended, t.engine.Now()),
		t.record.lease.Leave(ctx, state, next))
}

// stay closes a thread without recording an end: replay failed, or another process took it over.
func (t *thread) stay(ctx context.Context, result *Result, err error) (*Result, error) {
	if !t.record.Writes() {
		t.record.Close()
		return result, err
	}
	all := t.leave(ctx, false, roster.Interrupted, "")
	if t.family.next != nil { // it has begun, and is found again
		_, nextErr := t.family.next.stay(ctx, new(Result), nil)
		all = errors.Join(all, nextErr)
	}
	if !replay.Differs(err) {
		return result, errors.Join(err, all)
	}
	result.Status, result.Error = Interrupted, fault.Of(err)
	return result, all
}
