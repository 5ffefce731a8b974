package thread

import (
	"context"
	"errors"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/hook"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A thread is one run of a directive. Its loop asks one thing at a time.
type thread struct {
	engine *Engine
	start  *Start
	id     string
	plan   *plan.Plan
	inputs map[string]any
	began  time.Time
	origin transcript.Started // of a thread that has a record
	family family

	record   record
	money    money
	dialogue dialogue
	hooks    hooks // hooks and calls are set by run
	calls    calls
	watch    watch
	deadline deadline
}

// newThread returns a thread that has neither a plan nor a record.
func (e *Engine) newThread(s *Start) *thread {
	t := &thread{engine: e, start: s, family: s.family}
	t.record.Recorder = &replay.Recorder{Now: e.Now, Limits: func(l *transcript.Limits) {
		t.money.limits.Take(l)
	}, Calls: func(n int) { t.record.called += n },
		Live: func(before time.Duration) { t.deadline.start(t.money.limits.Duration, before) }}
	t.money.record, t.dialogue.record = &t.record, &t.record
	t.watch.record, t.watch.now = &t.record, e.Now
	return t
}

// run runs the loop, and records how it ended.
func (t *thread) run(ctx context.Context) (*Result, error) {
	running := t.deadline.begin(ctx)
	defer t.deadline.cancel(nil)
	if t.record.lease != nil {
		t.watch.Watch = t.record.lease.Watch(ctx, t.deadline.cancel)
		defer t.watch.End()
		if parent := t.family.parent; parent != nil && !t.plan.Settings.Outlive {
			t.watch.With(parent.watch.Watch)
		}
	}
	t.record.Begin()
	t.hooks = hooks{plan: t.plan, id: t.id, record: &t.record, money: &t.money, dialogue: &t.dialogue,
		calls: &t.calls}
	t.calls = calls{Maker: t.maker(), plan: t.plan, record: &t.record, money: &t.money, dialogue: &t.dialogue,
		watch: &t.watch, hooks: &t.hooks}
	if t.family.continues != "" || t.origin.Format != "" || t.family.under != "" {
		t.calls.Remember(ctx, t.engine.Dir, t.family.continues, t.family.under, t.id)
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
	t.deadline.stop()
	return t.finish(ctx, end, err)
}

// maker returns what makes the calls of the model.
func (t *thread) maker() *toolcall.Maker {
	options := toolcall.Options{Plan: t.plan, Thread: t.id, Own: t.own(), Principal: t.start.Principal,
		Approver: t.start.Approver, Child: children{t}.run,
		NewID: func(directive string) string { return roster.NewID(directive, t.engine.Now()) }}
	if parent := t.family.parent; parent != nil {
		options.Parent, t.watch.chain = parent.calls.Maker, parent.watch.chain
	}
	options.Background = toolcall.Background{Command: t.engine.Detach, Roster: t.engine.Roster, Dir: t.engine.Dir,
		Limits: &t.money.limits, Chain: t.watch.chain, Now: t.engine.Now}
	return toolcall.New(options)
}

// tell tells how far the thread is.
func (t *thread) tell(status string) { t.show(State{Status: status}) }

// show tells how far the thread is, with what else the state has.
func (t *thread) show(state State) {
	if t.start.Live.State == nil || !t.record.Writes() {
		return
	}
	state.Thread, state.Parent = t.id, t.family.parentID()
	state.Turn, state.Turns = t.record.turn, t.money.limits.Turns
	state.Spend, state.Budget = t.money.spent(), t.money.limits.Spend
	t.start.Live.State(state)
}

// ask answers the loop.
func (t *thread) ask(ctx context.Context, question loop.Question) (any, error) {
	switch first := question.(type) {
	case loop.First:
		return t.first(ctx)
	case loop.Hook:
		return t.hooks.ask(ctx, first)
	case loop.Tools:
		return control.Values(t.plan.Offered()), nil
	case loop.Model:
		return t.askModel(ctx, first)
	case loop.Calls:
		return t.calls.make(ctx, first)
	case loop.Usage:
		return t.money.doc(t.dialogue.share()), nil
	case loop.Handoff:
		return nil, t.handOver(ctx, first)
	case loop.Checkpoint:
		return nil, t.record.append(true, transcript.Checkpoint{Turn: t.record.turn})
	}
	return nil, fault.New(fault.Validation, "the loop calls %s, which threads don't answer", question.Function())
}

// first returns the messages that begin the thread, with what the hooks of thread_started give.
func (t *thread) first(ctx context.Context) (any, error) {
	if t.family.handed != nil {
		return t.family.handed, nil
	}
	decision, err := t.hooks.fire(ctx, hook.Started, object{"directive": t.start.Directive.ID,
		"model": t.dialogue.model.String(), "limits": control.Values(t.money.limits.Record()), "inputs": t.inputs})
	if err != nil {
		return nil, err
	}
	return t.plan.Agents.First(ctx, t.plan.Directive.Model, t.inputs, decision.Texts)
}
