package control

import (
	"cmp"
	"context"
	"errors"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/thread/roster"
)

// The errors that end the steps of a thread that has done its work.
var (
	ErrReturned  = errors.New("the outputs were returned")
	ErrHandedOff = errors.New("the work was handed over")
)

// EndOf decides the status of a thread whose steps have ended with an error, and why it isn't completed. Without one
// it isn't known.
func EndOf(ctx context.Context, result *Result, err error) (why *fault.Error, known bool) {
	result.Status = StatusFailed
	asked := cmp.Or(roster.RequestOf(err), roster.RequestOf(context.Cause(ctx)))
	switch {
	case errors.Is(err, ErrHandedOff):
		result.Status = StatusContinued
		return nil, true
	case errors.Is(err, ErrReturned):
		result.Status = StatusCompleted
		return nil, true
	case asked != nil:
		result.Status = asked.Status()
		return fault.Of(asked), true
	case errors.Is(err, approval.ErrWaits):
		result.Status = StatusWaiting
		return fault.Of(err), true
	case ctx.Err() != nil:
		result.Status = StatusInterrupted
		return fault.New(fault.Cancelled, "the thread was interrupted").From(context.Cause(ctx)), true
	case err != nil:
		e := fault.Of(err)
		switch e.Code {
		case fault.Limit, fault.Budget:
			result.Status = StatusInterrupted
		case fault.Cancelled:
			result.Status = StatusCancelled
		}
		return e, true
	}
	return nil, false
}
