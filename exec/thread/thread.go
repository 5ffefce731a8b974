package thread

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/captoken"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A thread is one run of a directive. Its loop asks one thing at a time.
type thread struct {
	*Engine
	*Start
	id       string
	chain    *captoken.Chain // of this process; nil if it has none
	lease    *roster.Lease   // nil while a record is only compared
	watch    *roster.Watch   // nil too
	began    time.Time
	plan     *plan.Plan
	calls    *toolcall.Maker // that its model makes
	asked    int             // events of the loop in this turn
	inputs   map[string]any
	limits   limits.Set
	money    ledger.Account
	model    provider.Model
	recorder *replay.Recorder
	// the messages that a thread begins with which this one hands over to, or which was handed its work
	handed    []any
	next      *thread
	continues string             // the thread that handed its work to this one
	origin    transcript.Started // of a thread that has a record
	last      limits.Set         // that it was given last
	outer     context.Context    // goes on when the thread's time is over
	cancel    context.CancelCauseFunc
	clock     *time.Timer // cancels what the thread does when its time is over
	late      error       // by which it then ends

	turn       int64
	tokens     transcript.Cost // InputTokens and OutputTokens
	count      provider.Count  // of the last request
	tools      provider.Offers // of the loop
	offered    []provider.Tool // those of the last request that was recorded
	requests   int
	sent       []provider.Message // that the loop sent last
	recorded   int                // of them, how many the last recorded request has too
	digests    provider.Digests
	failed     int64             // what the last failed model call is taken to have cost, in nano-dollars
	lost       *transcript.Usage // the tokens that it is taken to have used, nil for none
	called     int
	unwritten  error                  // why something could not be recorded: the thread goes on from what is
	classified *transcript.Classified // what the record says of that call
}

// run runs the loop, and records how it ended.
func (t *thread) run(ctx context.Context) (*Result, error) {
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.outer, t.cancel = ctx, cancel
	if t.lease != nil {
		t.watch = t.lease.Watch(ctx, cancel)
		defer t.watch.End()
		if t.parent != nil && !t.plan.Settings.Outlive {
			t.watch.With(t.parent.watch)
		}
	}
	t.recorder.Begin()
	t.calls = t.maker()
	if t.continues != "" || t.origin.Format != "" || t.under != "" {
		t.calls.Remember(ctx, t.Dir, t.continues, t.under, t.id)
	}
	t.tell("")
	end, err := t.steps(running)
	// not all that ends with a context says why
	cancelled := err != nil && running.Err() != nil && fault.CodeOf(err) == fault.Cancelled
	if why := context.Cause(running); cancelled && ctx.Err() == nil && !errors.Is(why, replay.ErrTime) {
		err = why // killed, or driven by another process
	} else if (cancelled || errors.Is(err, replay.ErrTime)) && ctx.Err() == nil {
		err = t.timeOver(ctx)
	}
	if t.clock != nil {
		t.clock.Stop()
	}
	return t.finish(ctx, end, err)
}

// maker returns what makes the calls of the model.
func (t *thread) maker() *toolcall.Maker {
	o := toolcall.Options{Plan: t.plan, Thread: t.id, Own: t.own(), Principal: t.Principal, Approver: t.Approver,
		Child: t.runChild,
		NewID: func(directive string) string { return roster.NewID(directive, t.Now()) }}
	if t.parent != nil {
		o.Parent, t.chain = t.parent.calls, t.parent.chain
	}
	o.Background = toolcall.Background{Command: t.Detach, Roster: t.Roster, Dir: t.Dir, Limits: &t.limits,
		Chain: t.chain, Now: t.Now}
	return toolcall.New(o)
}

// timeOver records that the time of the thread was over while something ran, and returns the error that ends it.
func (t *thread) timeOver(ctx context.Context) error {
	if t.late != nil {
		return t.late
	}
	limit, err := t.recorder.Limit(func() *transcript.Limit {
		return t.limits.Late(max(t.recorder.Elapsed(), t.limits.Duration))
	})
	if err != nil {
		return err
	}
	return t.stop(ctx, limit, nil)
}

// newThread returns a thread that has neither a plan nor a record.
func (e *Engine) newThread(s *Start) *thread {
	t := &thread{Engine: e, Start: s}
	t.recorder = &replay.Recorder{Now: e.Now, Limits: func(l *transcript.Limits) {
		t.limits.Take(l)
	}, Calls: func(n int) { t.called += n },
		Live: t.goLive}
	return t
}

// goLive lets the thread's time run. It had run before.
func (t *thread) goLive(before time.Duration) {
	if t.clock == nil && t.limits.Duration != limits.Unlimited {
		t.clock = time.AfterFunc(t.limits.Duration-before, func() { t.cancel(replay.ErrTime) })
	}
}

// tell tells how far the thread is.
func (t *thread) tell(status string) {
	if t.Live.State == nil || !t.recorder.Writes() {
		return
	}
	own, below := t.money.Spent()
	t.Live.State(State{Thread: t.id, Parent: t.parentID(), Status: status, Turn: t.turn, Turns: t.limits.Turns,
		Spend: own + below, Budget: t.limits.Spend})
}

// ask answers the loop.
func (t *thread) ask(ctx context.Context, q loop.Question) (any, error) {
	switch q := q.(type) {
	case loop.First:
		return t.first(ctx)
	case loop.Hook:
		return t.askHook(ctx, q)
	case loop.Tools:
		return control.Values(t.plan.Tools()), nil
	case loop.Model:
		return t.askModel(ctx, q)
	case loop.Calls:
		return t.makeCalls(ctx, q)
	case loop.Usage:
		return t.usage(), nil
	case loop.Handoff:
		return nil, t.handOver(ctx, q)
	case loop.Checkpoint:
		return nil, t.append(true, transcript.Checkpoint{Turn: t.turn})
	}
	return nil, fault.New(fault.Validation, "the loop calls %s, which threads don't answer", q.Function())
}

func (t *thread) used() limits.Usage {
	return limits.Usage{Turns: t.turn, Tokens: t.tokens.InputTokens + t.tokens.OutputTokens,
		Elapsed: t.recorder.Elapsed()}
}

func (t *thread) usage() map[string]any {
	u := t.used()
	own, below := t.money.Spent()
	return map[string]any{"turns": u.Turns, "tokens": u.Tokens, "spend": float64(own+below) / limits.Nano,
		"elapsed_seconds": u.Elapsed.Seconds(), "share": t.share()}
}

// append records events. They are durable with the next that have to be.
func (t *thread) append(durable bool, events ...transcript.Payload) error {
	_, err := t.put(durable, events...)
	return err
}

// put records events, and returns those that the record has.
func (t *thread) put(durable bool, events ...transcript.Payload) ([]*transcript.Event, error) {
	had, err := t.recorder.Append(t.turn, durable, events...)
	// The others say that events can't stand in a record, or differ from it.
	if err != nil && !errors.Is(err, replay.ErrEnds) && !errors.Is(err, replay.ErrTime) &&
		!slices.Contains([]fault.Code{fault.Validation, fault.Limit, fault.Conflict}, fault.CodeOf(err)) {
		t.unwritten = err
	}
	return had, err
}

// finish records how the thread ended.
func (t *thread) finish(ctx context.Context, end *loop.End, err error) (*Result, error) {
	ctx, over := context.WithoutCancel(ctx), ctx
	r := &Result{Thread: t.id, Directive: t.Directive.ID, Outputs: t.calls.Returned()}
	why, known := control.EndOf(over, r, err)
	if !known {
		why = r.Take(end.Value, end.Ended, end.Reason, len(t.plan.Says.Outputs) > 0)
	}
	defer func() { t.tell(r.Status) }()
	own, below := t.money.Spent()
	cost := transcript.Cost{Turns: t.turn, InputTokens: t.tokens.InputTokens, OutputTokens: t.tokens.OutputTokens,
		Spend: own, Below: below, Elapsed: t.recorder.Elapsed()}
	r.Cost, r.Error = control.CostOf(cost), why
	if t.recorder.Playing() && err != nil &&
		(replay.Differs(err) || over.Err() != nil || errors.Is(err, replay.ErrEnds)) {
		return t.stay(ctx, r, err)
	}
	if t.unwritten != nil {
		return t.stay(ctx, r, t.unwritten)
	}
	if r.Status == Continued {
		if r.Next = t.id; t.recorder.Writes() { // the id is not compared
			if r.Next, err = t.handTo(ctx); err != nil {
				return t.stay(ctx, r, err)
			}
		}
	}
	last := r.Last(cost)
	if q := roster.RequestOf(err); q != nil && t.recorder.Writes() {
		err = t.lease.Pass(ctx, q, t.plan.Settings.Outlive)
	} else {
		err = t.afterEnd(over, r, why)
	}
	if err != nil {
		return t.stay(ctx, r, err)
	}
	if err := t.append(true, last, transcript.Checkpoint{Turn: t.turn}); err != nil {
		return t.stay(ctx, r, err)
	}
	if !t.recorder.Writes() {
		return r, nil
	}
	// nothing needs it, and a full disk takes no result away
	_ = control.Summarise(t.lease.Dir, t.recorder.Report(), r.Status)
	return r, errors.Join(t.recorder.Close(), t.money.End(ctx, r.Status != Interrupted && r.Status != Waiting,
		t.Now()), t.lease.Leave(ctx, roster.State(r.Status), r.Next))
}

// stay leaves a thread as it is that didn't get beyond its record, or that another process drives by now.
func (t *thread) stay(ctx context.Context, r *Result, err error) (*Result, error) {
	closed := t.recorder.Close()
	if !t.recorder.Writes() {
		return r, err
	}
	bad := errors.Join(closed, t.money.End(ctx, false, t.Now()), t.lease.Leave(ctx, roster.Interrupted, ""))
	if t.next != nil { // it has begun, and is found again
		_, worse := t.next.stay(ctx, new(Result), nil)
		bad = errors.Join(bad, worse)
	}
	if !replay.Differs(err) {
		return r, errors.Join(err, bad)
	}
	r.Status, r.Error = Interrupted, fault.Of(err)
	return r, bad
}
