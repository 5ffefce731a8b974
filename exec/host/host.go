// Package host is a project that a server hosts: its set as it is now, the turns of its calls, and the calls that were
// approved. Each door of a server (package mcp, package gateway) makes its calls through one host, so that what one of
// them may do at once, and what happens to a call that had to be approved, doesn't depend on the door.
//
//	h := host.New(host.Options{Open: open, State: state, Now: time.Now, Warn: warn})
//	err := h.Open(ctx)
//
// # How a call goes through here
//
// A door waits for its turn (Turn) and takes the session of the set (Take). Where the policies ask, the call's Asking
// makes a request, and the call ends with APPROVAL_REQUIRED. Later serveApproved finds the approved request, and
// makeApproved makes the call and keeps its outcome for an hour: the same call again gets it (Kept).
//
// # The set
//
// The host holds the set of the lock that it began with. Before each call it looks at rye.lock: one that was replaced
// is opened, and counts for this call and those after it. Calls that run keep theirs. One that can't be opened leaves
// the old set, and is reported once.
package host

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/session"
)

// Options configure a host.
type Options struct {
	Open  Open   // of its own project; nil: it has none
	State string // the user's state directory, which has requests and tokens; "": no approved call is made
	Now   func() time.Time
	Warn  func(error) // receives errors that no answer reports, such as a lock that can't be opened

	// Changed gets each session of the own project that is opened, before a call has it. Optional.
	Changed func(context.Context, *session.Session) error
}

// A Host is safe for concurrent use.
type Host struct {
	o      Options
	sets   sets
	others projects
	asks   asks
	began  sync.Once
	end    context.CancelFunc // of what makes approved calls; nil before
	ended  sync.WaitGroup

	turns   chan struct{} // calls that run
	waiting atomic.Int64  // calls that run or wait
}

// How many calls run at once, and how many more may wait. Threads count as one call.
const (
	atOnce  = 64
	waiting = 4096
)

// New returns a host. Nothing is opened before Open.
func New(o Options) *Host {
	return &Host{o: o, sets: sets{open: o.Open, warn: o.Warn, changed: o.Changed}, others: projects{warn: o.Warn},
		turns: make(chan struct{}, atOnce)}
}

// Open opens the own project, so that an invalid one is an error before anyone calls.
func (h *Host) Open(ctx context.Context) error {
	if h.o.Open != nil {
		held, done, err := h.sets.take(ctx)
		if err != nil {
			return err
		}
		h.asks.note(held.Root(), Project{})
		done()
	}
	h.began.Do(h.startApproved)
	return nil
}

// Ready returns why no call can be made; nil if one can.
func (h *Host) Ready() error {
	if !h.sets.opened() {
		return fault.New(fault.Unavailable, "no set is open")
	}
	return nil
}

// Close stops making approved calls, and closes the projects once no call uses them.
func (h *Host) Close() {
	if h.end != nil {
		h.end()
		h.ended.Wait()
	}
	h.sets.close()
	h.others.close()
}

// Take returns the session for a call, which calls done at its end. Without a root the call is about the own project.
func (h *Host) Take(ctx context.Context, of Project) (_ *session.Session, done func(), err error) {
	if of.Root == "" {
		return h.sets.take(ctx)
	}
	return h.others.take(ctx, of)
}

// Running is how many calls run or wait to.
func (h *Host) Running() int64 { return h.waiting.Load() }

// Turn waits until a call may run, and end is called when it has.
func (h *Host) Turn(ctx context.Context) (end func(), err error) {
	if h.waiting.Add(1) > atOnce+waiting {
		h.waiting.Add(-1)
		return nil, fault.New(fault.Busy, "the server has %d calls already", atOnce+waiting)
	}
	select {
	case h.turns <- struct{}{}:
		return func() { <-h.turns; h.waiting.Add(-1) }, nil
	case <-ctx.Done():
		h.waiting.Add(-1)
		return nil, ctx.Err()
	}
}
