package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/roster"
)

// DefaultWait is how long a thread waits for others by default.
const DefaultWait = 10 * time.Minute

// Waiting bounds a wait.
type Waiting struct {
	Any     bool          // for the first to end
	Timeout time.Duration // 0 for none
	Show    func(rows []*roster.Thread)
}

// Wait waits until threads have ended or were interrupted, and returns what became of them, in order. After the
// timeout the error is fault.Timeout; the snapshots show then which have ended. A thread that waits for an approval
// has not ended.
func (c *Controller) Wait(ctx context.Context, names []string, how Waiting) ([]*Snapshot, error) {
	rows, err := c.FindAll(ctx, names)
	if err != nil {
		return nil, err
	}
	asked := make([]string, len(rows))
	for i, row := range rows {
		asked[i] = row.ID
	}
	outer := ctx
	if how.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, how.Timeout)
		defer stop()
	}
	mark := ""
	for {
		if mark, err = c.Roster.Changed(ctx, mark); err == nil {
			rows, err = c.lastOf(ctx, asked)
		}
		if ctx.Err() != nil && outer.Err() == nil { // the timeout
			rows, err = c.lastOf(outer, asked)
			if err == nil && !over(rows, how.Any) {
				snapshots, err := c.snapshots(outer, asked, rows)
				if err != nil {
					return nil, err
				}
				return snapshots, late(rows, how.Timeout)
			}
		}
		if err != nil {
			return nil, err
		}
		if over(rows, how.Any) {
			return c.snapshots(outer, asked, rows)
		}
		if how.Show != nil {
			how.Show(rows)
		}
	}
}

// lastOf returns the rows of the threads that have the work of these now.
func (c *Controller) lastOf(ctx context.Context, ids []string) (rows []*roster.Thread, err error) {
	for _, id := range ids {
		row, err := LastRow(ctx, c.Roster, id)
		if err != nil {
			return nil, err
		}
		if row.State == roster.Running && row.Dead {
			// Its state and its money are settled by the process that finds it.
			if _, err := Tidy(ctx, c.Roster, c.Ledger, roster.Filter{ID: row.ID}, c.Now()); err != nil {
				return nil, err
			}
			if row, err = roster.Get(ctx, c.Roster, row.ID); err != nil {
				return nil, err
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Stands reports whether a thread does nothing by itself any more: it has ended, is interrupted or lost.
func Stands(row *roster.Thread) bool {
	return row.State.Ended() || row.State == roster.Interrupted || row.Gone() != nil
}

// over reports whether a wait for threads is over.
func over(rows []*roster.Thread, first bool) bool {
	if first && len(rows) > 0 {
		return slices.ContainsFunc(rows, Stands)
	}
	return !slices.ContainsFunc(rows, func(row *roster.Thread) bool { return !Stands(row) })
}

// late is the error of a wait that took too long.
func late(rows []*roster.Thread, after time.Duration) error {
	var rest, lines, words, next []string
	for _, row := range rows {
		if !Stands(row) {
			if row.State == roster.Waiting && next == nil {
				next = []string{"rye approvals"} // it waits for an answer
			}
			rest, words = append(rest, row.ID), append(words, fault.Quote(row.ID))
			lines = append(lines, fmt.Sprintf("%s is %s", row.ID, row.State))
		}
	}
	return fault.New(fault.Timeout, "%s did not end within %s", fault.Count(int64(len(rest)), "thread"),
		after).On("threads", rest).
		List(lines...).Try(append(next, "rye thread wait "+strings.Join(words, " "))...)
}
