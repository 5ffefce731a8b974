package thread

import (
	"cmp"
	"context"
	"errors"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/roster"
)

// An Attendance is how the user who runs a thread takes part in it.
type Attendance struct {
	Graph  *ai.Item      // the tool that is run, if it is a graph and not a directive
	Door   *consent.Door // through which the policies ask about Graph
	NoWait bool          // stop at a call that waits for an approval
	Waits  func(*Result) // is called before the thread waits for an approval
}

// RunAttended runs a directive or a graph to its end. The policies are asked about a graph as about any call of a
// tool, and the thread waits for approvals that it needs, unless NoWait. Without a result the error says why none is
// known; with one, that the end of the graph's call could not be recorded.
func (e *Engine) RunAttended(ctx context.Context, s *Start, a *Attendance) (*Result, error) {
	end := func(*Result, error) error { return nil }
	if a.Graph != nil && s.Replay == "" && s.Above == nil {
		var err error
		if end, err = e.permit(ctx, s, a); err != nil {
			return nil, err
		}
	}
	r, err := e.Run(ctx, s)
	if err == nil && s.Replay == "" {
		r, err = e.Follow(ctx, r, a, &Resume{Approver: s.Approver, Live: s.Live})
	}
	ended := end(r, err)
	if err != nil {
		return nil, errors.Join(Unfinished(r, err), ended)
	}
	return r, ended
}

// permit asks the policies about a run of a graph. end records what came of it.
func (e *Engine) permit(ctx context.Context, s *Start, a *Attendance) (end func(*Result, error) error, err error) {
	given, consented, err := e.Session.Consent(ctx, &exec.Call{Ref: a.Graph.Ref, Door: a.Door, Params: s.Inputs},
		a.Graph)
	if s.Inputs = params.Values(given); err != nil || consented == nil || consented.Take == nil {
		return func(*Result, error) error { return nil }, err
	}
	s.ID = cmp.Or(s.ID, roster.NewID(a.Graph.Ref.ID, e.Now()))
	record, err := consented.Take(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	return func(r *Result, failed error) error {
		code := fault.Code("")
		if failed != nil {
			code = fault.CodeOf(failed)
		} else if r.Error != nil {
			code = r.Error.Code
		}
		return record(context.WithoutCancel(ctx), string(code))
	}, nil
}

// Follow waits for the approvals that a thread has stopped for, and resumes it.
func (e *Engine) Follow(ctx context.Context, r *Result, a *Attendance, how *Resume) (*Result, error) {
	for !a.NoWait && r.Status == Waiting {
		a.Waits(r)
		if err := how.Approver.Await(ctx, r.Error); err != nil {
			if ctx.Err() != nil { // the thread waits on
				return r, nil
			}
			return nil, err
		}
		next, err := e.GoOn(ctx, r.Thread, how) // unless it was ended meanwhile
		if err != nil {
			return next, err
		}
		r = next
	}
	return r, nil
}

// Unfinished adds the thread's id and how to resume it to an error that stopped its recording. A nil result means that
// no thread was started.
func Unfinished(r *Result, err error) error {
	if r == nil || r.Thread == "" || fault.CodeOf(err) == fault.Conflict { // or another process has it
		return err
	}
	f := fault.Of(err).On("thread", r.Thread).Because("the thread " + r.Thread + " has no end: it can go on")
	return f.Try("rye thread resume " + fault.Quote(r.Thread))
}
