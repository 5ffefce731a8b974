package thread

import (
	"context"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// An Engine runs threads. Open returns one, which its caller closes. It is safe for concurrent use.
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
	Lower     bool     // Limits only lower the directive's: they come from a client, not from the user
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
func (e *Engine) Run(ctx context.Context, start *Start) (*Result, error) {
	if start.family.parent == nil {
		if _, err := control.Tidy(ctx, e.Roster, e.Ledger, roster.Filter{Live: true}, e.Now()); err != nil {
			return nil, err
		}
	}
	t, err := e.begin(ctx, start)
	if err != nil {
		return nil, err
	}
	return t.follow(ctx)
}
