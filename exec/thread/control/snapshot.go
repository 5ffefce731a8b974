package control

import (
	"context"
	"fmt"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// Lost is the status of a thread whose directory is missing.
const Lost = "lost"

// A Snapshot is a thread as it is when it is looked at: its result if it has ended, else how far it is.
type Snapshot struct {
	Asked string `json:"asked,omitempty"` // the thread that was asked for, if another has its work now
	Result
	Failed *Failure `json:"error,omitempty"`  // why it hasn't completed
	Pruned bool     `json:"pruned,omitempty"` // its transcript was removed: only state and spend are known

	ended, stands bool
}

// A Failure is an error of a thread.
type Failure struct {
	Code    fault.Code `json:"code"`
	Message string     `json:"message"`
}

// Done reports whether the thread does nothing by itself any more.
func (s *Snapshot) Done() bool { return s.stands }

// Ended reports whether the thread never goes on.
func (s *Snapshot) Ended() bool { return s.ended }

// Results returns what became of threads, without waiting.
func (c *Controller) Results(ctx context.Context, names []string) ([]*Snapshot, error) {
	found, err := c.FindAll(ctx, names)
	if err != nil {
		return nil, err
	}
	asked := make([]string, len(found))
	for i, row := range found {
		asked[i] = row.ID
	}
	rows, err := c.lastOf(ctx, asked)
	if err != nil {
		return nil, err
	}
	return c.snapshots(ctx, asked, rows)
}

// snapshots returns the threads that were asked for, whose work these have now.
func (c *Controller) snapshots(ctx context.Context, asked []string, rows []*roster.Thread) (all []*Snapshot,
	err error) {
	for i, row := range rows {
		o, err := snapshot(row)
		if err != nil {
			return nil, err
		}
		if row.ID != asked[i] {
			o.Asked = asked[i]
			if err := c.addBefore(ctx, o, asked[i], row.ID); err != nil {
				return nil, err
			}
		}
		all = append(all, o)
	}
	return all, nil
}

// addBefore adds what the threads before the last of a chain have cost.
func (c *Controller) addBefore(ctx context.Context, snapshot *Snapshot, from, last string) error {
	for id := from; id != last; {
		row, err := roster.Get(ctx, c.Roster, id)
		if err != nil {
			return err
		}
		before, err := ResultOf(row.Dir())
		if err != nil {
			return err
		}
		snapshot.Cost.Add(before.Cost)
		id = row.Next
	}
	return nil
}

// snapshot reads one thread.
func snapshot(row *roster.Thread) (taken *Snapshot, err error) {
	taken = &Snapshot{ended: row.State.Ended(), stands: Stands(row)}
	var result *Result
	switch {
	case row.Lost:
		result = &Result{Status: Lost, Error: fault.Of(row.Gone())}
	case row.Pruned != nil:
		result = &Result{Success: row.State == roster.Completed,
			Cost: CostOf(transcript.Cost{Spend: row.Pruned.Spend, Below: row.Pruned.Below})}
		taken.Pruned = true
	case taken.ended:
		if result, err = ResultOf(row.Dir()); err != nil && !transcript.Exists(row.Dir()) {
			why := "the thread %s could not be started" // it ended before it had a transcript
			if row.State != roster.Failed {
				why = "the transcript of the thread %s was removed"
			}
			result, err = &Result{Error: fault.New(fault.Failed, why, row.ID)}, nil
		}
	default:
		var p *Progress
		if p, err = SoFar(row.Dir()); err == nil {
			result = p.Result
		}
	}
	if err != nil {
		return nil, fault.Wrap(err, "the thread %s: %v", row.ID, err)
	}
	taken.Result = *result
	taken.Thread, taken.Directive = row.ID, directiveOf(row)
	if taken.Status == "" || !row.Lost {
		taken.Status = string(row.State)
	}
	if !Stands(row) {
		taken.Error = nil
	} else if taken.Pruned && !taken.Success {
		taken.Error = fault.New(fault.Failed, "the thread %s ended: %s; it was pruned", row.ID, row.State)
	} else if taken.Error == nil && row.State == roster.Interrupted {
		taken.Error = fault.New(fault.Cancelled, "the thread was interrupted: its process ended, or could not write")
	}
	if e := taken.Error; e != nil {
		taken.Failed = &Failure{e.Code, e.Text}
	}
	return taken, nil
}

// Why returns the error of a thread that has not completed, with what to do next; nil if it has, or goes on.
func (s *Snapshot) Why() error {
	if s.Status == Lost {
		return s.Error.On("thread", s.Thread)
	}
	err := s.Failure()
	if s.Status == StatusKilled {
		s.Error.Text = fmt.Sprintf("the thread %s was killed", s.Thread)
	}
	return err
}
