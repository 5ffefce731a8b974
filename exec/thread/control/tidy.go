package control

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// keepReserved is how long the budget of an interrupted thread stays reserved in its parent's.
const keepReserved = time.Hour

// Tidy writes down what happened to threads without a word of them, and returns their rows as they are then: a thread
// whose process has died is interrupted, or what its transcript says in the end, and one that no process came to drive
// is an error after an hour; the money of one whose directory is gone, and of one that has ended or was interrupted an
// hour ago, is settled, unless a child has some of it. What another host drives is left alone: its processes aren't
// known here.
func Tidy(ctx context.Context, threads roster.Roster, money ledger.Ledger, filter roster.Filter,
	now time.Time) ([]*roster.Thread, error) {
	rows, err := threads.Threads(ctx, filter)
	if err != nil {
		return nil, err
	}
	accounts, err := money.Accounts(ctx)
	if err != nil {
		return nil, err
	}
	below := map[string]int{} // open accounts of children
	for _, a := range accounts {
		if !a.Closed {
			below[a.Parent]++
		}
	}
	changed := false
	host, _ := os.Hostname()
	for _, row := range rows { // children stand before their parents
		over := row.State.Ended() || (row.State == roster.Interrupted || row.State == roster.Waiting) &&
			now.Sub(row.Updated) > keepReserved
		if row.State == roster.Running && (row.Alive || row.Driver.Host != host && row.Driver.Host != "") ||
			row.State == roster.Waiting && row.Alive {
			continue
		}
		if row.State == roster.Created && now.Sub(row.Updated) > keepReserved {
			changed = true
			if err := ignoreConflict(threads.Set(ctx, row.ID, row.Epoch, roster.Failed, "")); err != nil {
				return nil, err
			}
		}
		if row.Dead && !row.Lost {
			changed = true
			if over, err = bury(ctx, threads, row); err != nil {
				return nil, err
			}
		}
		settle := row.Lost || over && below[row.ID] == 0
		if a := accounts[row.ID]; settle && a != nil && !a.Closed {
			if err := ignoreConflict(money.Do(ctx, ledger.Close(row.ID, a.Epoch, now))); err != nil {
				return nil, err
			}
			below[a.Parent]--
		}
	}
	if changed {
		return threads.Threads(ctx, filter)
	}
	return rows, nil
}

// FindRow returns the row of a thread. One whose process died after it had recorded the end gets its state first: it
// must not go on.
func FindRow(ctx context.Context, threads roster.Roster, id string) (*roster.Thread, error) {
	row, err := roster.Get(ctx, threads, id)
	if err != nil || row.State.Ended() || row.Lost || row.State == roster.Running && !row.Dead {
		return row, err
	}
	if _, unfinished := ResultOf(row.Dir()); unfinished != nil {
		return row, nil
	}
	if _, err := bury(ctx, threads, row); err != nil {
		return nil, err
	}
	return roster.Get(ctx, threads, id)
}

// LastRow returns the row of the thread that goes on with the work of a thread: itself, or the last that it was handed
// over to.
func LastRow(ctx context.Context, r roster.Roster, id string) (*roster.Thread, error) {
	row, err := FindRow(ctx, r, id)
	for err == nil && row.State == roster.Continued && row.Next != "" {
		row, err = FindRow(ctx, r, row.Next)
	}
	return row, err
}

// bury gives a thread whose process has died its state, and reports whether it has ended.
func bury(ctx context.Context, r roster.Roster, row *roster.Thread) (ended bool, err error) {
	state, next := roster.Interrupted, ""
	if was, err := ResultOf(row.Dir()); err == nil {
		state, next = roster.State(was.Status), was.Next
	}
	claimed, err := r.Claim(ctx, row.ID, row.Epoch, roster.Driver{})
	if err == nil {
		err = r.Set(ctx, row.ID, claimed.Epoch, state, next)
	}
	return state.Ended(), ignoreConflict(err)
}

// ignoreConflict drops the error that another process was faster.
func ignoreConflict(err error) error {
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Code == fault.Conflict {
		return nil
	}
	return err
}

// Follower returns the thread that was begun to go on with the work of another one, nil without one. A thread that
// failed before its first turn doesn't count.
func Follower(ctx context.Context, r roster.Roster, thread string) (*roster.Thread, error) {
	rows, err := r.Threads(ctx, roster.Filter{})
	for _, row := range slices.Backward(rows) { // the first
		if row.Continues != thread {
			continue
		}
		if follows(row) {
			return row, err
		}
	}
	return nil, err
}

// follows reports whether a thread that was begun to go on with another's work does, or may.
func follows(row *roster.Thread) bool {
	if is, unfinished := ResultOf(row.Dir()); unfinished == nil {
		return is.Status != StatusFailed || is.Cost.Turns > 0
	}
	return !row.State.Ended() || row.Pruned != nil
}

// Follows is that for a thread which has begun.
func Follows(row *roster.Thread) bool {
	return follows(row) && (row.Pruned != nil || row.Alive || transcript.Exists(row.Dir()))
}

// Begun is Follower. One that its process has left before it had a record fails first: another one may begin.
func Begun(ctx context.Context, r roster.Roster, thread string) (*roster.Thread, error) {
	next, err := Follower(ctx, r, thread)
	for err == nil && next != nil && !transcript.Exists(next.Dir()) && !next.Alive {
		if err = r.Set(ctx, next.ID, next.Epoch, roster.Failed, ""); err == nil {
			next, err = Follower(ctx, r, thread)
		}
	}
	return next, err
}
