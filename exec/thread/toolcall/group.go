package toolcall

import (
	"context"
	"sync"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/jcs"
)

// A Group is calls that end together: the first that fails cancels the rest. It is safe for concurrent use.
type Group struct {
	once   sync.Once
	failed chan struct{} // closed by the first
}

// NewGroup returns a group, nil unless the calls depend on each other.
func NewGroup(depend bool) *Group {
	if !depend {
		return nil
	}
	return &Group{failed: make(chan struct{})}
}

// make makes a call of the group.
func (g *Group) make(ctx context.Context, call *Call) (string, error) {
	select {
	case <-g.failed:
		return call.Refuse(fault.New(fault.Cancelled, "the call was not made, because another one had failed")).
			begin(ctx)
	default:
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-g.failed:
			stop()
		case <-inner.Done():
		}
	}()
	text, err := call.begin(inner)
	switch {
	case err != nil && ctx.Err() == nil && inner.Err() != nil:
		return call.End(transcript.CallCancelled, fault.New(fault.Cancelled,
			"the call was cancelled, because another one had failed"))
	case err == nil && call.Waits == nil && call.Result.Status != transcript.CallOK:
		g.once.Do(func() { close(g.failed) })
	}
	return text, err
}

// End makes an error the result of a call that has begun, and returns it as JSON.
func (c *Call) End(status string, e *fault.Error) (text string, err error) {
	c.Result = transcript.CallResult{Call: c.Record, Status: status, Error: control.RecordedFault(e)}
	b, err := jcs.Append(nil, control.FaultOf(e))
	return string(b), err
}
