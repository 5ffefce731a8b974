// Package resume goes on with the work of threads:
//
//	resume                   a thread that was interrupted, under its own id
//	resume with a message    a thread that has ended; the new one knows what was said, and what the user adds
//	handoff                  a thread that has ended or was interrupted; the new one knows a summary and the last
//	                         turns
//
// A new thread has the old one's directive, inputs, model and parent. It may do at most what the old one could, and
// has the rest of its limits and its budget, unless the caller raises them. A thread has one such successor at most:
// the next message goes to that.
//
// # How a thread goes on
//
// Go resumes a thread under its own id by Engine.Resume. With a message or a handoff, work.find takes the thread that
// has the work now, Engine.Under opens the lock that it began with, read verifies its record and counts what is left,
// start says how the new thread begins, take holds the old one against other processes, summarise has a thread
// summarise it, and run runs the new thread with the messages of first.
//
// Functions has the function of the tool rye/agent/threads/orchestrator: what a thread does with those below it, and
// what a person's own tools do with threads.
package resume

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"sync"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/hook"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key"
)

// An Order names the thread whose work goes on, and how.
type Order struct {
	Thread    string
	Message   string   // what the user adds; "" for a resume under the same id, or a handoff
	Handoff   bool     // with a summary in place of what was said
	Limits    []string // NAME=VALUE, instead of the rest of its limits
	Principal string
	Approver  *toolcall.Approver
	Live      thread.Live
}

// A Resumed is the result of the thread that went on, nil if none did.
type Resumed struct {
	*thread.Result
	*From // nil if it is the same thread
}

// A From names the thread whose work goes on.
type From struct {
	Old        string `json:"old_thread"`
	Turns      int64  `json:"reconstructed_turns"`
	Summarised bool   `json:"summary_generated"`
}

// work is the old thread, and the order to go on with its work.
type work struct {
	engine *thread.Engine
	order  *Order
	row    *roster.Thread
	*record
	rest     limits.Set
	settings *plan.Handoff
	foreign  bool
	summary  any
}

// Go goes on with the work of a thread, to its end. The result is never nil.
func Go(ctx context.Context, engine *thread.Engine, controller *control.Controller, order *Order) (*Resumed, error) {
	if order.Message == "" && !order.Handoff {
		row, err := controller.Find(ctx, order.Thread)
		if err != nil {
			return new(Resumed), err
		}
		result, err := engine.Resume(ctx, &thread.Resume{Thread: row.ID, Limits: order.Limits,
			Principal: order.Principal, Approver: order.Approver, Live: order.Live})
		return &Resumed{Result: result}, err
	}
	w := &work{engine: engine, order: order}
	result, err := w.goOn(ctx, controller)
	if result == nil {
		return new(Resumed), err
	}
	return &Resumed{result, &From{Old: w.row.ID, Turns: w.used.Turns, Summarised: w.summary != nil}}, err
}

// goOn begins the new thread, and runs it to its end.
func (w *work) goOn(ctx context.Context, d *control.Controller) (*thread.Result, error) {
	if err := w.find(ctx, d); err != nil {
		return nil, err
	}
	var err error
	if w.engine, err = w.engine.Under(ctx, w.row.Dir()); err != nil {
		return nil, err
	}
	defer w.engine.Close()
	if err := w.read(ctx); err != nil {
		return nil, err
	}
	start, err := w.start(ctx)
	if err != nil {
		return nil, err
	}
	if w.order.Handoff { // before a summary is paid for
		if err := w.engine.Check(ctx, start); err != nil {
			return nil, err
		}
	}
	begun, stop, err := w.take(ctx)
	if err != nil {
		return nil, err
	}
	if w.order.Handoff {
		w.summarise(ctx)
	}
	r, err := w.run(ctx, start, begun)
	return r, errors.Join(err, stop())
}

// find finds the thread that has the work now, and refuses one that can't go on in a new thread.
func (w *work) find(ctx context.Context, d *control.Controller) error {
	row, err := d.Last(ctx, w.order.Thread)
	if err != nil {
		return err
	}
	if err := row.Gone(); err != nil {
		return err
	}
	w.row = row
	id, words := row.ID, fault.Quote(row.ID)
	refused := fault.New(fault.Conflict, "the thread %s is %s", id, row.State).On("thread", id).On("state",
		string(row.State))
	switch {
	case row.State.Ended():
		return nil
	case row.State == roster.Interrupted || row.State == roster.Running && row.Dead:
		if w.order.Handoff {
			next, err := w.writer().Holder(ctx, w.engine.Roster, row)
			if err == nil && next.ID != id {
				err = follows(next, row)
			}
			return err
		}
		return refused.Because("it goes on under its own id").Try("rye thread resume " + words)
	}
	return refused.Because("a thread that runs can't go on in another").Try("rye thread wait " + words)
}

// follows refuses a second thread that goes on with the work of one.
func follows(next, row *roster.Thread) error {
	return fault.New(fault.Conflict, "the thread %s goes on with the work of %s", next.ID, row.ID).On("thread",
		next.ID).Try("rye thread show " + fault.Quote(next.ID))
}

func (w *work) writer() *control.Writer {
	return &control.Writer{Kernel: w.engine.Session.Kernel, Program: w.engine.Program, Now: w.engine.Now,
		Hook: w.engine.Hook}
}

// read reads the record of the old thread, which must be intact.
func (w *work) read(ctx context.Context) error {
	k, err := w.engine.Session.Kernel()
	if err != nil {
		return err
	}
	id, dir := w.row.ID, w.row.Dir()
	report, err := transcript.Verify(ctx, dir, transcript.Check{Keys: []key.Public{k.Machine.Public()}, Thread: id,
		Unfinished: !w.row.State.Ended()})
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, "the thread %s has no transcript", id).From(err).On("thread",
			id).Try(fault.Command("rye run", w.row.Directive))
	}
	if err != nil {
		return err
	}
	p := report.Problem
	if p != nil && p.Kind == transcript.Unsigned && !w.row.State.Ended() {
		return fault.New(fault.Unsigned, "nothing of the thread %s is signed yet: it was stopped in its first turn",
			id).On("thread", id).Try("rye thread resume "+fault.Quote(id), "rye thread verify "+fault.Quote(id))
	}
	if p != nil {
		return fault.New(fault.Integrity, "transcript integrity check failed: %s", p.Reason).On("thread",
			id).Try("rye thread verify " + fault.Quote(id))
	}
	if w.record, err = read(dir); err != nil {
		return err
	}
	run := fault.Command("rye run", w.row.Directive)
	switch {
	case w.started.Kind != "directive":
		return fault.New(fault.Validation, "the thread %s is a run of a graph, which no message continues",
			id).On("thread", id).Try(run)
	case w.started.Model == provider.Replayed:
		return fault.New(fault.Validation, "the thread %s can't go on: a record answered it, not a model",
			id).On("thread", id).Try(run)
	case len(w.messages) == 0:
		return fault.New(fault.Validation, "the thread %s has no messages: no model was asked", id).On("thread",
			id).Try(run)
	}
	w.rest = w.limits.Rest(limits.Usage{Turns: w.used.Turns, Tokens: w.used.InputTokens + w.used.OutputTokens,
		Elapsed: w.used.Elapsed}, w.used.Spend+w.used.Below, w.row.Spawned)
	if err := w.rest.Override(w.order.Limits); err != nil {
		return err
	}
	if reached := w.rest.Reached(limits.Usage{}); reached != nil {
		e := limits.Fault(reached)
		e.Text, e.Exit = "the thread "+id+" has nothing left of a limit: "+reached.Code, fault.ExitRefused
		return e.Try("rye thread resume " + fault.Quote(id) + " --message TEXT --limit NAME=N")
	}
	config, err := w.engine.Session.Config(ctx, hook.Coordination)
	if err != nil {
		return err
	}
	w.settings, err = plan.ReadHandoff(config.Value)
	return err
}

// take makes sure that no other process goes on with the thread. begun is called when the new one is registered, stop
// in the end.
func (w *work) take(ctx context.Context) (begun func(id string) error, stop func() error, err error) {
	engine, row, done := w.engine, w.row, context.WithoutCancel(ctx)
	var release func()
	if row.State.Ended() {
		if release, err = engine.Roster.Hold(ctx, row.ID, row.Epoch); err != nil {
			return nil, nil, err
		}
		release = sync.OnceFunc(release)
		if next, err := control.Begun(ctx, engine.Roster, row.ID); err != nil || next != nil {
			release()
			if err == nil {
				err = follows(next, row)
			}
			return nil, nil, err
		}
		begun = func(string) error { release(); return nil }
		stop = func() error { release(); return nil }
	} else {
		lease, err := roster.ClaimLease(ctx, engine.Roster, row)
		if err != nil {
			return nil, nil, err
		}
		state, next := roster.Interrupted, ""
		left := func() error { return lease.Leave(done, state, next) }
		begun = func(id string) error {
			err := w.writer().HandOver(done, lease, id)
			if err == nil {
				state, next = roster.Continued, id
				if left() == nil { // else later: its record has it already
					left = func() error { return nil }
				}
			}
			return err
		}
		stop = func() error { return left() }
		if err := engine.Ledger.Do(ctx, ledger.Close(row.ID, lease.Epoch, engine.Now())); err != nil &&
			fault.CodeOf(err) != fault.NotFound {
			return nil, nil, errors.Join(err, stop())
		}
	}
	above, err := ledger.OpenAbove(ctx, engine.Ledger, row.Parent, w.rest.Budget(), engine.Now())
	first := stop
	stop = func() error { return errors.Join(first(), above.Close(done, engine.Ledger, engine.Now())) }
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return begun, stop, nil
}

// summarise has a thread summarise what was said. Without a summary the last messages have to do.
func (w *work) summarise(ctx context.Context) {
	var messages []provider.Message
	if w.settings.Directive == "" || provider.Decode(w.messages, &messages) != nil {
		return
	}
	_, room := w.settings.Room(0)
	bound := limits.None()
	child, err := toolcall.ParseChild(w.settings.Child(w.row.Directive, messages, room))
	if err != nil || bound.Override(child.Limits) != nil {
		return
	}
	bound.Cap(&w.rest)
	result, err := w.engine.Run(ctx, &thread.Start{Directive: child.Directive, Inputs: params.Values(child.Inputs),
		Model: child.Model, Principal: w.order.Principal,
		After: &plan.After{Under: w.row.Parent, Foreign: w.foreign, Chosen: true, Limits: bound}})
	if result == nil {
		return
	}
	if w.rest.Spend != limits.Unlimited {
		w.rest.Spend = max(w.rest.Spend-int64(math.Round((result.Cost.Spend+result.Cost.Below)*limits.Nano)), 0)
	}
	if err == nil && result.Success && result.Result != "" {
		w.summary = result.Result
	}
}

// start returns how the new thread begins.
func (w *work) start(ctx context.Context) (*thread.Start, error) {
	w.foreign = !roster.Owned(ctx, w.engine.Roster, w.engine.Session, w.row.Parent)
	ref, err := model.ParseRef(w.started.Directive.Ref)
	if err != nil {
		return nil, err
	}
	caps, err := capability.ParseSet(w.started.Grants)
	if err != nil {
		return nil, err
	}
	return &thread.Start{Directive: ref, Inputs: params.Values(w.started.Given), Model: w.started.Model,
		Principal: w.order.Principal, Approver: w.order.Approver, Live: w.order.Live,
		ID: roster.NewID(ref.ID, w.engine.Now()),
		After: &plan.After{Thread: w.row.ID, Under: w.row.Parent, Foreign: w.foreign, Caps: caps, Limits: w.rest,
			Messages: w.first}}, nil
}

// run runs the new thread, with what a summary has left of the limits.
func (w *work) run(ctx context.Context, start *thread.Start, begun func(id string) error) (*thread.Result, error) {
	start.After.Limits = w.rest
	start.Began = func(limits.Set) error { return begun(start.ID) }
	return w.engine.Run(ctx, start)
}

// first returns the messages that the new thread begins with.
func (w *work) first(ctx context.Context, window int64) ([]any, error) {
	reason, room := "resume", int64(math.MaxInt32)
	if w.order.Handoff {
		reason = "handoff"
		room, _ = w.settings.Room(window)
	} else if window > 0 {
		room = int64(float64(window) * w.settings.Threshold)
	}
	var message any
	if w.order.Message != "" {
		message = w.order.Message
	}
	return w.engine.Agents().Continue(ctx, map[string]any{"reason": reason, "summary": w.summary,
		"messages": w.messages, "message": message,
		"ceiling": min(room, math.MaxInt32) * provider.PerToken})
}
