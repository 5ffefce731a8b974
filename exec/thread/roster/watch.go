package roster

import (
	"context"
	"errors"
	"sync"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A Watch watches the row of a thread that this process drives, because another process may ask it to end or claim
// it. The driver calls End.
type Watch struct {
	soft    context.Context // ends at a request
	ask     context.CancelCauseFunc
	cancel  context.CancelCauseFunc // cancels the thread's work
	watcher sync.WaitGroup
	stop    context.CancelFunc
}

// A Requested is the error that ends a thread on another process's request.
type Requested struct {
	Request
	recorded string // message in the record
}

// RecordedRequest returns the request in the record of an ended thread.
func RecordedRequest(c *transcript.Cancelled) *Requested {
	q := &Requested{Request{For: Cancel}, c.Reason}
	if c.Killed {
		q.For = Kill
	}
	return q
}

// Error implements error.
func (r *Requested) Error() string {
	if r.recorded != "" {
		return r.recorded
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

// Status returns the status of a thread that ends with this error.
func (r *Requested) Status() string {
	if r.For == Kill {
		return string(Killed)
	}
	return string(Cancelled)
}

// Fault returns the request as an error with a code.
func (r *Requested) Fault() *fault.Error { return fault.New(fault.Cancelled, "%s", r.Error()).From(r) }

// RequestOf returns the *Requested in an error, or nil.
func RequestOf(err error) *Requested {
	q, _ := errors.AsType[*Requested](err)
	return q
}

// Watch watches the row until End. At a request to kill the thread, or when another process has claimed it, Watch
// cancels the work with a *Requested or CONFLICT. A request to cancel is only reported by Asked and Soft.
func (s *Lease) Watch(ctx context.Context, cancel context.CancelCauseFunc) *Watch {
	w := &Watch{cancel: cancel}
	w.soft, w.ask = context.WithCancelCause(ctx)
	ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	w.watcher.Go(func() { w.look(ctx, s) })
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

// see evaluates a row, and reports whether the watch is over.
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

// With passes requests to another watched thread, which waits for this one, on to this thread.
func (w *Watch) With(other *Watch) {
	if w != nil && other != nil {
		context.AfterFunc(other.soft, func() {
			if q := other.Asked(); q != nil {
				w.ask(q)
			}
		})
	}
}

// Asked returns the request to the thread, or nil. w may be nil.
func (w *Watch) Asked() *Requested {
	if w == nil {
		return nil
	}
	return RequestOf(context.Cause(w.soft))
}

// Soft returns a context that ends with ctx or at a request to end, for waits that needn't be completed.
func (w *Watch) Soft(ctx context.Context) (context.Context, context.CancelFunc) {
	if w == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(w.soft, func() { cancel(context.Cause(w.soft)) })
	return ctx, func() { stop(); cancel(nil) }
}

// End stops the watch and waits for it.
func (w *Watch) End() {
	if w != nil {
		w.stop()
		w.watcher.Wait()
		w.ask(nil)
	}
}

// Pass passes a request on to the thread's children that haven't ended, which may run in other processes. With
// outlive, children continue when the thread is cancelled.
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
