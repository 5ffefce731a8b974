package thread

import (
	"context"
	"time"

	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/replay"
)

// A deadline cancels what a thread does when its time is over.
type deadline struct {
	outer  context.Context // goes on when the thread's time is over: the hooks of the limit have it
	cancel context.CancelCauseFunc
	timer  *time.Timer
	late   error // by which the thread then ends
}

// begin returns the context of what the thread does.
func (d *deadline) begin(ctx context.Context) context.Context {
	running, cancel := context.WithCancelCause(ctx)
	d.outer, d.cancel = ctx, cancel
	return running
}

// start lets the time run, once: lasts is the limit, and before how much of it is over.
func (d *deadline) start(lasts, before time.Duration) {
	if d.timer == nil && lasts != limits.Unlimited {
		d.timer = time.AfterFunc(lasts-before, func() { d.cancel(replay.ErrTime) })
	}
}

// stop stops the time.
func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
