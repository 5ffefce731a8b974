package registry

import (
	"cmp"
	"context"
	"crypto/rand"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/rows"
	"github.com/rye-build/rye/manifest/tlog"
)

// A lease is the row of the process that writes the files of the logs: one at a time, so that no checkpoint replaces a
// newer one.
type lease struct {
	Holder string    `json:"holder"`
	Until  time.Time `json:"until"`
}

const (
	leaseRow = "lease/flush"
	// leaseTime is how long processes of other machines wait for one that has ended in the middle.
	leaseTime = 10 * time.Second
	// leaseMargin is what must be left of it when a checkpoint is replaced.
	leaseMargin = 2 * time.Second
	// leasePause is how often a process looks whether another has written its entries.
	leasePause = 20 * time.Millisecond
	// flushWait is how long a change waits to be shown.
	flushWait = time.Minute
	// flushMost is the most entries that one checkpoint adds, so that its files are written within a lease.
	flushMost = 1000
)

var errLease error = fault.New(fault.Busy, "another process writes the log's files")

// Flush writes the files of all logs for entries that they don't show yet. One log that can't be shown keeps no other
// from it.
func (r *Registry) Flush(ctx context.Context) error {
	return r.eachLog(ctx, r.flush)
}

// flush writes the files of a log for entries that they don't show yet: tiles, checkpoint, proofs, indexes, in this
// order, and then the list of advisories. It may be repeated after an interruption at any point, since each file
// depends on the rows alone. Of several processes one writes, and the others wait until it has written their entries,
// too.
func (r *Registry) flush(ctx context.Context, l *log) error {
	r.flushing.Lock()
	defer r.flushing.Unlock()
	var waited time.Duration
	var brought int64 // the entries before have their archives
	for {
		state, entries, err := r.unshown(ctx, l)
		switch {
		case err != nil:
			return err
		case state == nil && l.public():
			err = r.begin(ctx, l)
		case len(entries) > 0:
			err = r.bring(ctx, l, entries)
			brought = state.Shown + int64(len(entries))
		}
		if err == nil && len(entries) == 0 {
			var due bool
			if due, err = r.listDue(ctx, l, true); err == nil && !due {
				return nil
			}
		}
		if err != nil {
			return err
		}
		until, err := r.hold(ctx)
		if err == nil {
			// Another process may have written them since.
			state, entries, err = r.unshown(ctx, l)
			if err == nil && len(entries) > 0 && state.Shown+int64(len(entries)) > brought {
				err = r.bring(ctx, l, entries)
			}
			if err == nil && len(entries) > 0 {
				err = r.write(ctx, l, state, entries, until)
			} else if err == nil {
				err = r.writeList(ctx, l)
			}
			if err = r.release(ctx, err); err != nil {
				return err
			}
			continue
		}
		if err != errLease || waited > flushWait {
			return err
		}
		if err := cas.Sleep(ctx, leasePause); err != nil {
			return err
		}
		waited += leasePause
	}
}

// unshown returns the next entries of a log that its files don't show. It refuses to go on with one that has stopped.
func (r *Registry) unshown(ctx context.Context, l *log) (state *logState, entries [][]byte, err error) {
	err = r.o.Rows.View(ctx, func(in rows.Reader) (err error) {
		if state, err = get[logState](in, l.stateRow()); err != nil || state == nil {
			return err
		}
		if entries, err = entriesIn(in, l, state.Shown, min(state.Size, state.Shown+flushMost)); err != nil {
			return err
		}
		if len(entries) > 0 {
			return signing(in, l)
		}
		return nil
	})
	return state, entries, err
}

// hold makes this process the one that writes, and returns until when. On one machine the system says whether another
// process still writes, so that the lease of one that was killed isn't waited for.
func (r *Registry) hold(ctx context.Context) (until time.Time, err error) {
	if r.locker != nil {
		unlock, free, err := r.locker.TryLock("flush")
		if err != nil || !free {
			return until, cmp.Or(err, errLease)
		}
		r.unlock = unlock
	}
	err = r.o.Rows.Update(ctx, func(in rows.Writer) error {
		held, err := get[lease](in, leaseRow)
		if err != nil {
			return err
		}
		if r.locker == nil && held != nil && held.Holder != r.process && r.o.Now().Before(held.Until) {
			return errLease
		}
		if err := r.replaced(in); err != nil {
			return err
		}
		until = r.o.Now().Add(leaseTime)
		return put(in, leaseRow, lease{r.process, until})
	})
	if err != nil {
		r.unlocked()
	}
	return until, err
}

// unlocked ends the lock that hold has taken.
func (r *Registry) unlocked() {
	if r.unlock != nil {
		r.unlock()
		r.unlock = nil
	}
}

// release lets others write, and returns err.
func (r *Registry) release(ctx context.Context, err error) error {
	defer r.unlocked()
	if err == nil {
		return nil // the lease went with the last row
	}
	// What can't be released ends by itself.
	_ = r.o.Rows.Update(context.WithoutCancel(ctx), func(in rows.Writer) error {
		held, err := get[lease](in, leaseRow)
		if err == nil && held != nil && held.Holder == r.process {
			in.Delete(leaseRow)
		}
		return err
	})
	return err
}

// write writes the files that show these entries, and then the row that says so.
func (r *Registry) write(ctx context.Context, l *log, state *logState, entries [][]byte, until time.Time) error {
	begin := time.Now()
	defer func() { r.o.Metrics.flush.Observe(time.Since(begin).Seconds()) }()
	checkpoint, err := r.grow(ctx, l, state.Shown, entries)
	if err == nil && state.Shown == 0 && !l.public() {
		err = r.describe(ctx, l)
	}
	if err == nil && r.o.Now().After(until.Add(-leaseMargin)) {
		err = fault.New(fault.Busy, "the log's files took too long to write")
	}
	if err == nil {
		err = r.show(ctx, l, checkpoint, state.Shown, entries)
	}
	if err != nil {
		r.tail = nil // what was added to it is unknown
		return err
	}
	return r.shown(ctx, l, checkpoint)
}

// shown records how many entries the files show, and lets others write.
func (r *Registry) shown(ctx context.Context, l *log, c *tlog.Checkpoint) error {
	return r.o.Rows.Update(ctx, func(in rows.Writer) error {
		now, err := get[logState](in, l.stateRow())
		if err != nil {
			return err
		}
		held, err := get[lease](in, leaseRow)
		if err != nil {
			return err
		}
		if held != nil && held.Holder == r.process {
			in.Delete(leaseRow)
		}
		if now.Shown >= c.Size {
			return nil
		}
		now.Shown = c.Size
		return put(in, l.stateRow(), now)
	})
}

// newProcess returns a name for this process among those that serve the same rows.
func newProcess() string { return rand.Text() }
