package control

import (
	"context"
	"errors"
	"time"

	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A Writer writes the end of a thread that this process drives.
type Writer struct {
	Kernel  func() (*exec.Kernel, error)
	Program string
	Now     func() time.Time
	Hook    func(op, path string, b []byte) error // of tests
}

// HandOver records that another thread, next, has the work of an interrupted one. With an error the record doesn't
// have it: the thread still has its work.
func (w *Writer) HandOver(ctx context.Context, lease *roster.Lease, next string) error {
	progress, err := SoFar(lease.Dir)
	if err != nil {
		return err
	}
	k, err := w.Kernel()
	if err != nil {
		return err
	}
	cost := progress.Used()
	out, err := transcript.Open(lease.Dir, lease.Driver(k, w.Program),
		transcript.Options{Key: k.Machine, Now: w.Now, Guard: lease.Guard, Hook: w.Hook})
	if err != nil {
		return err
	}
	_, err = out.Append(transcript.HandedOff{Next: next, Reason: "handoff", Cost: cost},
		transcript.Checkpoint{Turn: cost.Turns})
	if err = errors.Join(err, out.Close()); err != nil {
		// After a failed sync the lines may be there, and then they count.
		if is, unfinished := ResultOf(lease.Dir); unfinished != nil || is.Next != next {
			return err
		}
	}
	_ = Summarise(lease.Dir, out.Report(), StatusContinued) // nothing needs it
	return nil
}

// Last returns the thread that has the work of one, and isn't gone: see Holder and LastRow.
func (w *Writer) Last(ctx context.Context, r roster.Roster, thread string) (*roster.Thread, error) {
	row, err := LastRow(ctx, r, thread)
	if err == nil {
		row, err = w.Holder(ctx, r, row)
	}
	if err == nil {
		err = row.Gone()
	}
	return row, err
}

// Holder returns the thread that has the work of one: itself, unless a process died that had begun the thread to hand
// it over to, and had not recorded that yet. It is recorded now. A thread that hands over by itself does so again.
func (w *Writer) Holder(ctx context.Context, r roster.Roster, row *roster.Thread) (*roster.Thread, error) {
	if row.State.Ended() || row.Gone() != nil || row.State == roster.Running && !row.Dead || Hands(row.Dir()) {
		return row, nil
	}
	next, err := Begun(ctx, r, row.ID)
	if err != nil || next == nil {
		return row, err
	}
	lease, err := roster.ClaimLease(ctx, r, row)
	if err != nil {
		return nil, err
	}
	state, to := roster.Continued, next.ID
	if err = w.HandOver(ctx, lease, next.ID); err != nil {
		state, to = roster.Interrupted, ""
	}
	return next, errors.Join(err, lease.Leave(ctx, state, to))
}
