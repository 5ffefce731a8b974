package toolcall

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// Bound bounds what this process may use: memory, processes with those that it starts, and CPU time, which a thread
// whose time has a limit gets as much of. What is over the limits ends the thread by cancel, so that it can go on;
// memory ends the process. Tools have limits of their own: the hard limits stay as they are.
func Bound(ctx context.Context, cancel context.CancelCauseFunc, memory, processes int64, cpu time.Duration) {
	debug.SetMemoryLimit(memory / 10 * 9) // collect before it is too late
	bound(ctx, func(what string, most int64) {
		cancel(fault.New(fault.Resource, "the process of the thread has used more than its limit of %s: %d", what,
			most).On("limit", what).On("max", most).Try("rye docs sandbox"))
	}, memory, processes, int64(cpu/time.Second)+1)
}
