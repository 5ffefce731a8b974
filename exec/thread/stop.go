package thread

import (
	"context"
	"errors"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// check ends the loop if a limit is reached.
func (t *thread) check(ctx context.Context) error {
	if err := t.watch.safe(); err != nil {
		return err
	}
	for {
		limit, err := t.record.Limit(func() *transcript.Limit { return t.money.limits.Reached(t.money.used()) })
		if err != nil || limit == nil {
			return err
		}
		if err := t.stop(ctx, limit, nil); err != nil {
			return err
		}
	}
}

// stop records that a limit is reached, and returns the error that ends the loop: nil if the thread went on by its
// record, perhaps with other limits. why is nil for that of a limit.
func (t *thread) stop(ctx context.Context, limit *transcript.Limit, why error) (err error) {
	if limit.Code == replay.Time { // hooks have theirs
		ctx = t.deadline.outer
		defer func() { t.deadline.late = err }()
	}
	end := t.hooks.atLimit(ctx, limit)
	if !replay.Differs(end) && !errors.Is(end, replay.ErrEnds) {
		if on, err := t.record.WentOn(); on || err != nil {
			return err
		}
	}
	if end != nil {
		return end
	}
	if why == nil {
		why = limits.Fault(limit)
	}
	declared := t.start.After.Bound(t.plan.Limits())
	return declared.Declared(fault.Of(why), limit)
}

// timeOver records that the time of the thread was over while something ran, and returns the error that ends it.
func (t *thread) timeOver(ctx context.Context) error {
	if t.deadline.late != nil {
		return t.deadline.late
	}
	limit, err := t.record.Limit(func() *transcript.Limit {
		return t.money.limits.Late(max(t.record.Elapsed(), t.money.limits.Duration))
	})
	if err != nil {
		return err
	}
	return t.stop(ctx, limit, nil)
}

// wait waits before another try. A wait that is longer than the time that the thread has left ends the thread at once.
func (t *thread) wait(ctx context.Context, why *transcript.Classified) error {
	if on, err := t.record.WentOn(); on || err != nil {
		return err
	}
	delay := why.Delay
	switch limit, err := t.record.Limit(func() *transcript.Limit {
		return t.money.limits.Late(t.record.Elapsed() + delay)
	}); {
	case err != nil:
		return err
	case limit != nil:
		return t.stop(ctx, limit, fault.New(fault.Limit, "the next try is due in %s, later than the thread may run",
			delay.Round(time.Second)).
			Because(why.Error.Message))
	case t.record.Playing():
		return t.watch.safe()
	}
	state := State{Wait: delay}
	if why.Attempt == 0 { // no event: a graph's node failed, not a model call
		state.Why = why.Error.Message
	}
	t.show(state)
	ctx, done := t.watch.Soft(ctx)
	defer done()
	return cas.Sleep(ctx, delay)
}
