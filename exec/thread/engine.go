package thread

import (
	"context"
	"errors"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
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
	"github.com/rye-build/rye/manifest/jcs"
)

// An Engine runs threads. Open returns one, which its caller closes. It is safe for many goroutines.
type Engine struct {
	Session *session.Session
	Loops   *loop.Host
	Dir     string // of the threads: .ai/threads of the project
	Program string // that drives them, as in "rye 2.0.0"
	Now     func() time.Time

	Roster roster.Roster
	Ledger ledger.Ledger
	// Detach returns the command that runs a directive in a process of its own, for its job; nil: there are none.
	Detach func(directive model.Ref) (proc.Command, error)
	// Hook sees each change of a transcript before it is made. Tests inject faults this way.
	Hook func(op, path string, b []byte) error

	opened []func() error // by Open, for Close
}

// Agents runs the items that decide beside the loop.
func (e *Engine) Agents() *plan.Agents { return &plan.Agents{Session: e.Session, Loops: e.Loops} }

// A Start is a thread to run.
type Start struct {
	Directive model.Ref
	Inputs    func(*params.Schema) (map[string]any, error) // given once; nil for none
	// a tier or a model, instead of the directive's; "" for that
	Model     string
	Limits    []string // NAME=VALUE, instead of the directive's
	Replay    string   // the directory of a thread whose answers the model gives; "" for a real one
	Principal string
	Approver  *toolcall.Approver // of calls that need an approval; nil: there is none
	Live      Live
	ID        string          // of the new thread; "" for one that is made here
	Above     *toolcall.Above // of a child that another process has started; nil for none
	After     *plan.After     // the thread whose work it goes on with; nil for none
	// is called with its limits when it is registered and has a budget and a record; an error ends it
	Began func(limits.Set) error

	family family
}

// Live receives events while the thread runs. Functions may be nil.
type Live struct {
	Text  func(text string) // of the model, as it comes
	Event func(*transcript.Event)
	State func(State) // of the thread or one of its children, after each change
}

// below is what children show: of their model's text only the record.
func (l Live) below() Live {
	l.Text = nil
	return l
}

// A State is how far a thread is.
type State = control.State

// A Result is how a thread ended.
type Result = control.Result

// The states that a thread ends in.
const (
	Completed   = control.StatusCompleted
	Failed      = control.StatusFailed
	Interrupted = control.StatusInterrupted
	Waiting     = control.StatusWaiting
	Cancelled   = control.StatusCancelled
	Continued   = control.StatusContinued
)

// Run runs a directive to its end. With an error no thread was begun; otherwise the result is how it ended.
func (e *Engine) Run(ctx context.Context, s *Start) (*Result, error) {
	if s.family.parent == nil {
		if _, err := control.Tidy(ctx, e.Roster, e.Ledger, roster.Filter{Live: true}, e.Now()); err != nil {
			return nil, err
		}
	}
	t, err := e.begin(ctx, s)
	if err != nil {
		return nil, err
	}
	return t.follow(ctx)
}

// begin decides everything about a thread, and writes the first line of its transcript.
func (e *Engine) begin(ctx context.Context, s *Start) (*thread, error) {
	t := e.newThread(s)
	if a := s.After; a != nil {
		t.family.under, t.family.foreign, t.family.chosen, t.family.continues = a.Under, a.Foreign, a.Chosen, a.Thread
	}
	if err := t.load(ctx); err != nil {
		return nil, err
	}
	var err error
	if t.inputs, err = t.plan.Complete(s.Inputs); err != nil {
		return nil, err
	}
	t.money.limits = t.start.After.Bound(t.plan.Limits())
	if err := t.money.limits.Override(s.Limits); err != nil {
		return nil, err
	}
	if err := t.inherit(ctx); err != nil {
		return nil, err
	}
	if err := t.plan.Offer(ctx); err != nil {
		return nil, err
	}
	t.plan.Signs = t.start.Approver.CanSign() && plan.MaySign(t.plan.Caps)
	if t.dialogue.model, err = t.choose(ctx); err != nil {
		return nil, err
	}
	if t.family.handed, err = t.start.After.First(ctx, t.dialogue.model); err == nil {
		err = t.open(ctx)
	}
	if err == nil && t.start.Began != nil {
		if err = t.start.Began(t.money.limits); err != nil {
			err = t.fail(ctx, errors.Join(err, t.record.append(true,
				transcript.Failed{Error: *control.RecordedFault(fault.Of(err))}, transcript.Checkpoint{}),
				t.record.Close()))
		}
	}
	return t, err
}

// load reads the items of a thread.
func (t *thread) load(ctx context.Context) (err error) {
	t.began = t.engine.Now()
	t.plan, err = plan.Read(ctx, t.engine.Agents(), t.start.Directive,
		func(ctx context.Context, ref model.Ref) (*ai.Item, error) {
			it, err := t.engine.Session.Item(ctx, ref)
			// it was chosen when the thread began
			if err != nil && fault.CodeOf(err) == fault.NotLocked && (t.family.chosen || t.id != "") {
				if of, missing := t.engine.Session.Chosen(ctx, ref); missing == nil {
					return of, nil
				}
			}
			return it, err
		})
	return err
}

// choose finds the model.
func (t *thread) choose(ctx context.Context) (provider.Model, error) {
	return t.plan.Model(ctx, provider.Wanted{Name: t.start.Model, Replay: t.start.Replay,
		Priced: t.money.limits.Spend != limits.Unlimited})
}

// open registers the thread, gives it its budget, and makes its directory and its transcript.
func (t *thread) open(ctx context.Context) error {
	if t.id = t.start.ID; t.id == "" {
		t.id = roster.NewID(t.start.Directive.ID, t.began)
	}
	if err := t.register(ctx); err != nil {
		return err
	}
	err := t.fund(ctx)
	if err == nil {
		err = t.writeStart(ctx)
	}
	if err != nil {
		return t.fail(ctx, err)
	}
	return nil
}

// fail ends a thread that never ran.
func (t *thread) fail(ctx context.Context, err error) error {
	ctx = context.WithoutCancel(ctx)
	return errors.Join(err, t.money.account.End(ctx, true, t.engine.Now()),
		t.record.lease.Leave(ctx, roster.Failed, ""))
}

// register makes this process the driver of the new thread.
func (t *thread) register(ctx context.Context) (err error) {
	if t.family.row != nil {
		t.record.lease, err = roster.Reclaim(ctx, t.engine.Roster, t.family.row)
		return err
	}
	row := &roster.Thread{ID: t.id, Kind: t.plan.Kind(), Directive: t.start.Directive.String(),
		Created: t.began.UTC().Round(0), Parent: t.family.parentID(), Continues: t.family.continues,
		Most: roster.Most{Children: t.plan.Settings.Concurrent, Total: t.plan.Settings.Total}}
	spawns := int64(limits.Unlimited)
	if t.family.parent != nil {
		spawns = t.family.parent.money.limits.Spawns
	} else if t.start.Above != nil {
		spawns = t.start.Above.Most.Spawns
	}
	t.record.lease, err = roster.BeginLease(ctx, t.engine.Roster, t.engine.Dir, row, spawns)
	return err
}

// options say how the transcript is written.
func (t *thread) options() (transcript.Driver, transcript.Options, error) {
	k, err := t.engine.Session.Kernel()
	if err != nil {
		return transcript.Driver{}, transcript.Options{}, err
	}
	return t.record.lease.Driver(k, t.engine.Program),
		transcript.Options{Key: k.Machine, Now: replay.Steady(t.engine.Now), Guard: t.record.lease.Guard,
			Show: t.start.Live.Event, Hook: t.engine.Hook}, nil
}

// writeStart begins the transcript.
func (t *thread) writeStart(ctx context.Context) error {
	started, err := t.started(ctx)
	if err != nil {
		return err
	}
	driver, options, err := t.options()
	if err != nil {
		return err
	}
	handed, err := replay.Hand(t.family.handed)
	if err != nil {
		return err
	}
	if err := t.keepLock(ctx); err != nil {
		return err
	}
	w, err := transcript.Create(t.record.lease.Dir, t.id, *started, driver, options, handed...)
	if err == nil {
		t.record.Write(w)
	}
	return err
}

// started is the first event of the thread.
func (t *thread) started(ctx context.Context) (*transcript.Started, error) {
	s, err := t.plan.Started(ctx, t.dialogue.model)
	if err != nil {
		return nil, err
	}
	inputs, err := jcs.Append(nil, t.inputs)
	if err != nil {
		return nil, err
	}
	s.Limits, s.Inputs, s.Given, s.Principal, s.Parent, s.Continues = t.money.limits.Record(), cas.Sum(inputs),
		t.inputs, t.start.Principal, t.family.parentID(), t.family.continues
	if t.money.limits.Depth != limits.Unlimited {
		s.Depth = t.money.limits.Depth
	}
	return s, nil
}
