package roster

import (
	"context"
	"errors"
	"sync"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A Watch looks at the row of a thread that this process drives: another process may ask it to end, or claim it.
type Watch struct {
	soft   context.Context // ends when the thread was asked to end
	ask    context.CancelCauseFunc
	cancel context.CancelCauseFunc // of what the thread does
	gone   sync.WaitGroup
	stop   context.CancelFunc
}

// A Requested error ends a thread that another process has asked to end.
type Requested struct {
	Request
	said string // by the record
}

// RecordedRequest is the request by which a thread has ended.
func RecordedRequest(c *transcript.Cancelled) *Requested {
	q := &Requested{Request{For: Cancel}, c.Reason}
	if c.Killed {
		q.For = Kill
	}
	return q
}

// Error implements error.
func (r *Requested) Error() string {
	if r.said != "" {
		return r.said
	}
	text := "the thread was cancelled"
	if r.For == Kill {
		text = "the thread was killed"
	}
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

// Status is what a thread ends with that it ends.
func (r *Requested) Status() string {
	if r.For == Kill {
		return string(Killed)
	}
	return string(Cancelled)
}

// Fault makes it an error of every door.
func (r *Requested) Fault() *fault.Error { return fault.New(fault.Cancelled, "%s", r.Error()).From(r) }

// RequestOf returns the *Requested in an error, or nil.
func RequestOf(err error) *Requested {
	q, _ := errors.AsType[*Requested](err)
	return q
}

// Watch looks until End. At the request to kill it, and when another process has claimed it, it ends what the thread
// does by cancel, with a *Requested or CONFLICT; at that to cancel it, it only says so.
func (s *Lease) Watch(ctx context.Context, cancel context.CancelCauseFunc) *Watch {
	w := &Watch{cancel: cancel}
	w.soft, w.ask = context.WithCancelCause(ctx)
	ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	w.gone.Go(func() { w.look(ctx, s) })
	return w
}

func (w *Watch) look(ctx context.Context, s *Lease) {
	mark := ""
	for {
		next, err := s.Roster.Changed(ctx, mark)
		if ctx.Err() != nil {
			return
		}
		if err == nil && next != mark {
			var row *Thread
			if row, err = Get(ctx, s.Roster, s.ID); err == nil && w.see(s, row) {
				return
			}
		}
		if err != nil { // the driver's next write reports the error
			return
		}
		mark = next
	}
}

// see reads a row, and reports whether the watch is over.
func (w *Watch) see(s *Lease, row *Thread) (over bool) {
	if row.Epoch != s.Epoch {
		w.cancel(fault.New(fault.Conflict, "another process drives the thread %s now", s.ID).On("thread",
			s.ID).On("epoch", row.Epoch).
			Try("rye thread wait " + fault.Quote(s.ID)).Permanent())
		return true
	}
	if row.Asked.For != "" {
		w.ask(&Requested{Request: row.Asked})
	}
	if row.Asked.For == Kill {
		w.cancel(&Requested{Request: row.Asked})
		return true
	}
	return false
}

// With asks the thread what another is asked: the one that waits for it.
func (w *Watch) With(other *Watch) {
	if w != nil && other != nil {
		context.AfterFunc(other.soft, func() {
			if q := other.Asked(); q != nil {
				w.ask(q)
			}
		})
	}
}

// Asked returns what the thread was asked, nil for nothing. A nil Watch was asked nothing.
func (w *Watch) Asked() *Requested {
	if w == nil {
		return nil
	}
	return RequestOf(context.Cause(w.soft))
}

// Soft returns a context that ends with ctx, and when the thread is asked to end: for waits that need not be waited
// out.
func (w *Watch) Soft(ctx context.Context) (context.Context, context.CancelFunc) {
	if w == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(w.soft, func() { cancel(context.Cause(w.soft)) })
	return ctx, func() { stop(); cancel(nil) }
}

// End ends the watch.
func (w *Watch) End() {
	if w != nil {
		w.stop()
		w.gone.Wait()
		w.ask(nil)
	}
}

// Pass asks the children of the thread that haven't ended for what it was asked: they may run in other processes. With
// outlive they go on when it is cancelled.
func (s *Lease) Pass(ctx context.Context, q *Requested, outlive bool) error {
	if outlive && q.For == Cancel {
		return nil
	}
	live, err := s.Roster.Threads(ctx, Filter{Live: true})
	for _, row := range live {
		if row.Parent != s.ID {
			continue
		}
		if _, err := s.Roster.Ask(ctx, row.ID, Request{For: q.For, Reason: q.Reason}); err != nil &&
			fault.CodeOf(err) != fault.Conflict {
			return err
		}
	}
	return err
}
