package control

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// Grace is how long a process may take to kill its thread, before it is killed itself.
const Grace = 5 * time.Second

// killed is how long the system is given to end a process that was killed.
const killed = 100 * time.Millisecond

// An Ended is what became of a request to end a thread.
type Ended struct {
	Thread string `json:"thread"`
	// cancelled or killed, or as before while its process comes to its next safe point
	Status  string `json:"status"`
	Process int    `json:"process,omitempty"` // that drove it
}

// Cancel ends a thread at its next safe point: between two calls, and before a model is asked. The process that drives
// it does that; a thread that no process drives ends at once, with those below it.
func (c *Controller) Cancel(ctx context.Context, name, reason string) (*Ended, error) {
	return c.ask(ctx, name, roster.Request{For: roster.Cancel, Reason: reason})
}

// Kill ends a thread at once, and all below it. A process that doesn't end them within Grace is killed, with all that
// it has started, if it is the one that drives the thread, and drives no other.
func (c *Controller) Kill(ctx context.Context, name, reason string) (*Ended, error) {
	return c.ask(ctx, name, roster.Request{For: roster.Kill, Reason: reason})
}

func (c *Controller) ask(ctx context.Context, name string, request roster.Request) (*Ended, error) {
	row, err := c.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	for row.State == roster.Continued && row.Next != "" { // the last of its chain has its work
		if row, err = LastRow(ctx, c.Roster, row.Next); err != nil {
			return nil, err
		}
	}
	if row.State.Ended() {
		return nil, fault.New(fault.Conflict, "the thread %s has ended: %s", row.ID, row.State).On("thread",
			row.ID).On("state", string(row.State)).Permanent().
			Try("rye thread result " + fault.Quote(row.ID))
	}
	rows, err := c.subtree(ctx, row)
	if err != nil {
		return nil, err
	}
	ended := &Ended{Thread: row.ID}
	if busy(row) {
		ended.Process = row.Driver.Process
	}
	var errs []error
	for _, below := range rows {
		switch {
		case below.State.Ended():
		case !driven(below), !busy(below) && (below == row || request.For == roster.Kill):
			errs = append(errs, c.close(ctx, below, request))
		// what becomes of the children of a cancelled thread its process decides
		case below == row || request.For == roster.Kill:
			if _, err := c.Roster.Ask(ctx, below.ID, request); err != nil && fault.CodeOf(err) != fault.Conflict {
				errs = append(errs, err)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if request.For == roster.Kill {
		if err := c.enforce(ctx, rows, request); err != nil {
			return nil, err
		}
	}
	now, err := roster.Get(ctx, c.Roster, row.ID)
	if err == nil {
		ended.Status = string(now.State)
	}
	return ended, err
}

// driven reports whether a process does something for a thread.
func driven(row *roster.Thread) bool {
	host, _ := os.Hostname()
	elsewhere := row.Driver.Host != "" && row.Driver.Host != host
	return (row.State == roster.Running || row.State == roster.Waiting) && (row.Alive || elsewhere)
}

// busy reports whether a process runs a thread. One that waits for an answer ends with its request.
func busy(row *roster.Thread) bool { return row.State == roster.Running && driven(row) }

// subtree returns a thread and those below it, parents first.
func (c *Controller) subtree(ctx context.Context, row *roster.Thread) ([]*roster.Thread, error) {
	all, err := c.Roster.Threads(ctx, roster.Filter{})
	if err != nil {
		return nil, err
	}
	rows := []*roster.Thread{row}
	in := map[string]bool{row.ID: true}
	for _, t := range slices.Backward(all) { // parents begin before their children
		if in[t.Parent] && !in[t.ID] {
			in[t.ID] = true
			rows = append(rows, t)
		}
	}
	return rows, nil
}

// enforce waits until threads have ended, and kills the processes that don't end them.
func (c *Controller) enforce(ctx context.Context, rows []*roster.Thread, request roster.Request) error {
	in := map[string]bool{}
	for _, row := range rows {
		in[row.ID] = true
	}
	grace, mark := time.Now().Add(cmp.Or(c.Grace, Grace)), ""
	for {
		var rest []*roster.Thread
		for _, row := range rows {
			now, err := roster.Get(ctx, c.Roster, row.ID)
			if err != nil {
				return err
			}
			switch {
			case now.State.Ended():
			case !busy(now):
				if err := c.close(ctx, now, request); err != nil {
					return err
				}
			default:
				rest = append(rest, now)
			}
		}
		if len(rest) == 0 {
			return nil
		}
		if time.Now().After(grace) {
			for _, row := range rest {
				if err := c.killDriver(ctx, row, in); err != nil {
					return err
				}
			}
			grace, mark = time.Now().Add(killed), ""
		}
		until, stop := context.WithDeadline(ctx, grace)
		var err error
		if mark, err = c.Roster.Changed(until, mark); err != nil && (ctx.Err() != nil || until.Err() == nil) {
			stop()
			return err
		}
		stop()
	}
}

// killDriver kills the process that drives a thread, unless it also drives one that isn't to be killed.
func (c *Controller) killDriver(ctx context.Context, row *roster.Thread, in map[string]bool) error {
	if host, _ := os.Hostname(); row.Driver.Host != "" && row.Driver.Host != host {
		return fault.New(fault.Conflict, "the thread %s is driven by process %d on %s: it can't be killed from here",
			row.ID, row.Driver.Process, row.Driver.Host).
			On("thread", row.ID).On("host", row.Driver.Host)
	}
	all, err := c.Roster.Threads(ctx, roster.Filter{})
	if err != nil {
		return err
	}
	for _, o := range all {
		if o.Driver == row.Driver && driven(o) && !in[o.ID] {
			return fault.New(fault.Conflict, "the process %d that drives %s also drives %s, and doesn't end it",
				row.Driver.Process, row.ID, o.ID).
				On("thread", row.ID).On("process", row.Driver.Process).Try("rye thread kill " + fault.Quote(o.ID))
		}
	}
	if err := proc.KillTree(row.Driver.Process, row.Driver.Start); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fault.Wrap(err, "the process %d that drives %s can't be killed: %v", row.Driver.Process, row.ID, err)
	}
	return nil
}

// close records the end of a thread that no process drives.
func (c *Controller) close(ctx context.Context, row *roster.Thread, request roster.Request) error {
	state, asked := roster.Cancelled, &roster.Requested{Request: request}
	if request.For == roster.Kill {
		state = roster.Killed
	}
	if err := row.Gone(); err != nil {
		return err
	}
	lease, err := roster.ClaimLease(ctx, c.Roster, row)
	if err != nil {
		return err
	}
	done := context.WithoutCancel(ctx)
	if err := c.record(done, lease, asked, state); err != nil {
		return errors.Join(err, lease.Leave(done, roster.Interrupted, ""))
	}
	if err := lease.Leave(done, state, ""); err != nil {
		return err
	}
	if c.Forget != nil {
		if err := c.Forget(done, row.ID, asked.Error()); err != nil {
			return err
		}
	}
	a, err := ledger.Get(done, c.Ledger, row.ID)
	if err != nil || a == nil || a.Closed {
		return err
	}
	return c.Ledger.Do(done, ledger.Close(row.ID, max(a.Epoch, lease.Epoch), c.Now()))
}

// record writes the end of a thread into its transcript, if it has one.
func (c *Controller) record(ctx context.Context, lease *roster.Lease, asked *roster.Requested,
	state roster.State) error {
	soFar, err := SoFar(lease.Dir)
	if err != nil || !transcript.Exists(lease.Dir) {
		return err
	}
	k, err := c.Kernel()
	if err != nil {
		return err
	}
	writer, err := transcript.Open(lease.Dir, lease.Driver(k, c.Program),
		transcript.Options{Key: k.Machine, Now: c.Now, Guard: lease.Guard})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = writer.Append(transcript.Cancelled{Reason: asked.Error(), Killed: asked.For == roster.Kill,
		Cost: soFar.Used()}, transcript.Checkpoint{Turn: soFar.Cost.Turns})
	if err = errors.Join(err, writer.Close()); err != nil {
		return err
	}
	_ = Summarise(lease.Dir, writer.Report(), string(state)) // nothing needs it
	return nil
}
