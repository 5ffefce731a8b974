package thread

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/roster"
)

// Options say how an engine is opened.
type Options struct {
	Program string // that drives the threads, as in "rye 2.0.0"
	Now     func() time.Time
	// Detach returns the command that runs a directive in a process of its own, for its job; nil: there are none.
	Detach func(directive model.Ref) (proc.Command, error)
	// Hook sees each change of a journal or a transcript before it is made. Tests inject faults this way.
	Hook func(op, path string, b []byte) error
}

// Open opens an engine that runs the threads of a session's project, with the roster and the ledger of its user. The
// caller closes the engine, and the session after it.
func Open(s *session.Session, o Options) (*Engine, error) {
	state := s.State()
	if state.Err != nil {
		return nil, state.Err
	}
	rows, money := local(state.Path, o.Now, o.Hook)
	loops := s.Loops()
	return &Engine{Session: s, Loops: loops, Dir: s.Threads(), Program: o.Program, Now: o.Now, Roster: rows,
		Ledger: money,
		Detach: o.Detach, Hook: o.Hook, opened: []func() error{money.Shut, rows.Close, loops.Close}}, nil
}

// Close ends the loops of an engine, and closes the roster and the ledger that Open opened.
func (e *Engine) Close() error {
	var all error
	for i := len(e.opened) - 1; i >= 0; i-- {
		all = errors.Join(all, e.opened[i]())
	}
	e.opened = nil
	return all
}

// Local returns the roster and the ledger of this machine, which are in a user's state directory. The caller closes
// them.
func Local(state string, now func() time.Time) (*roster.Local, *ledger.Local) {
	return local(state, now, nil)
}

func local(state string, now func() time.Time, hook func(op, path string, b []byte) error) (*roster.Local,
	*ledger.Local) {
	return roster.Open(filepath.Join(state, "threads", "registry"), now, hook),
		ledger.In(filepath.Join(state, "threads", "ledger"), hook)
}
