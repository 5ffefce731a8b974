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
func (e *Engine) RunAttended(ctx context.Context, start *Start, attendance *Attendance) (*Result, error) {
	end := func(*Result, error) error { return nil }
	if attendance.Graph != nil && start.Replay == "" && start.Above == nil {
		var err error
		if end, err = e.permit(ctx, start, attendance); err != nil {
			return nil, err
		}
	}
	r, err := e.Run(ctx, start)
	if err == nil && start.Replay == "" {
		r, err = e.Follow(ctx, r, attendance, &Resume{Approver: start.Approver, Live: start.Live})
	}
	ended := end(r, err)
	if err != nil {
		return nil, errors.Join(Unfinished(r, err), ended)
	}
	return r, ended
}

// permit asks the policies about a run of a graph. end records what came of it.
func (e *Engine) permit(ctx context.Context, start *Start, attendance *Attendance) (end func(*Result, error) error,
	err error) {
	given, consented, err := e.Session.Consent(ctx, &exec.Call{Ref: attendance.Graph.Ref, Door: attendance.Door,
		Params: start.Inputs}, attendance.Graph)
	if start.Inputs = params.Values(given); err != nil || consented == nil || consented.Take == nil {
		return func(*Result, error) error { return nil }, err
	}
	start.ID = cmp.Or(start.ID, roster.NewID(attendance.Graph.Ref.ID, e.Now()))
	record, err := consented.Take(ctx, start.ID)
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
func (e *Engine) Follow(ctx context.Context, result *Result, attendance *Attendance, how *Resume) (*Result, error) {
	for !attendance.NoWait && result.Status == Waiting {
		attendance.Waits(result)
		if err := how.Approver.Await(ctx, result.Error); err != nil {
			if ctx.Err() != nil { // the thread waits on
				return result, nil
			}
			return nil, err
		}
		next, err := e.GoOn(ctx, result.Thread, how) // unless it was ended meanwhile
		if err != nil {
			return next, err
		}
		result = next
	}
	return result, nil
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
