package control

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key"
)

// PruneOptions choose the threads to prune.
type PruneOptions struct {
	Roster roster.Roster
	Ledger ledger.Ledger
	Rows   []*roster.Thread // of the project, or of all projects, tidied
	Keys   []key.Public     // that count when transcripts are verified
	Before time.Time        // threads that ended before then
	Now    time.Time
	DryRun bool
	Hook   osfile.Hook // of tests
	// Confirm is asked about what would be pruned, before any of it is. An error keeps all of it; nil: nothing asks.
	Confirm func(context.Context, *Pruned) error
	// Release has the store no longer keep what the lock of a thread, at this path, names; nil: it keeps nothing for
	// threads.
	Release func(ctx context.Context, path string) error
}

// A Kept is a thread that is old enough and stays.
type Kept struct {
	Thread string `json:"thread"`
	Reason string `json:"reason"`
	Err    error  `json:"-"` // why its transcript can't be verified; nil for another reason
}

// A Pruned lists what was pruned, or would be.
type Pruned struct {
	Pruned []*roster.Thread
	Kept   []Kept
	Bytes  int64 // that the directories had
}

// Prune prunes.
func Prune(ctx context.Context, options PruneOptions) (*Pruned, error) {
	every, err := options.Roster.Threads(ctx, roster.Filter{})
	if err != nil {
		return nil, err
	}
	mine := map[string]*roster.Thread{} // whose project is where the caller found it
	for _, row := range options.Rows {
		mine[row.ID] = row
		if row.Pruned == nil && !row.Updated.Before(options.Before) {
			continue
		}
		// Before any row is written: what lies behind a link isn't removed, so no row may say so.
		if err := osfile.RefuseLinks(row.Dir(), filepath.Join(row.Project.Root, ".ai", "threads")); err != nil {
			return nil, err
		}
	}
	pruned := &Pruned{}
	for _, group := range roster.Related(every) {
		if err := options.group(ctx, pruned, group, mine); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(pruned.Pruned, func(a, b *roster.Thread) int { return a.Created.Compare(b.Created) })
	if options.DryRun || len(pruned.Pruned) == 0 {
		return pruned, nil
	}
	if options.Confirm != nil {
		if err := options.Confirm(ctx, pruned); err != nil {
			return nil, err
		}
	}
	for _, row := range pruned.Pruned {
		if err := options.one(ctx, row); err != nil {
			return nil, err
		}
	}
	return pruned, nil
}

// group finds which of related threads are pruned, or notes why they stay.
func (p *PruneOptions) group(ctx context.Context, pruned *Pruned, group []*roster.Thread,
	mine map[string]*roster.Thread) error {
	var old []*roster.Thread
	young := false
	for _, row := range group {
		young = young || !row.Updated.Before(p.Before)
		if row.Pruned != nil && mine[row.ID] != nil {
			if err := p.finish(ctx, pruned, mine[row.ID]); err != nil {
				return err
			}
		}
		if row.Pruned == nil && mine[row.ID] != nil && !mine[row.ID].Lost && row.Updated.Before(p.Before) {
			old = append(old, mine[row.ID])
		}
	}
	if len(old) == 0 {
		return nil
	}
	stays := ""
	if b := roster.Blocks(group); b != nil {
		stays = "the thread " + b.ID + " is " + string(b.State)
	} else if young {
		stays = "a thread that it is related to ended later"
	}
	for _, row := range old {
		if stays != "" {
			pruned.Kept = append(pruned.Kept, Kept{Thread: row.ID, Reason: stays})
			continue
		}
		remains, err := p.remains(ctx, row)
		if f, bad := fault.Find(err); bad && f.Details["reason"] == "transcript" {
			pruned.Kept = append(pruned.Kept, Kept{row.ID, f.Text, err})
			continue
		}
		if err != nil {
			return err
		}
		row.Pruned = remains
		pruned.Pruned, pruned.Bytes = append(pruned.Pruned, row), pruned.Bytes+osfile.BytesIn(row.Dir())
	}
	return nil
}

// one prunes a thread. The roster checks again that the related ones have ended.
func (p *PruneOptions) one(ctx context.Context, row *roster.Thread) error {
	if err := p.Hook.Do("row", row.Dir()); err != nil {
		return err
	}
	if err := p.Roster.Prune(ctx, map[string]roster.Pruned{row.ID: *row.Pruned}); err != nil {
		return err
	}
	return p.remove(ctx, row)
}

// finish removes what a process that died has left of a thread that was pruned.
func (p *PruneOptions) finish(ctx context.Context, pruned *Pruned, row *roster.Thread) error {
	if p.DryRun {
		return nil
	}
	pruned.Bytes += osfile.BytesIn(row.Dir())
	return p.remove(ctx, row)
}

// remove removes a directory, which goes at once: under its name no reader finds a part of it. A link that was put in
// a thread's id meanwhile leads nowhere else.
func (p *PruneOptions) remove(ctx context.Context, row *roster.Thread) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Join(row.Project.Root, ".ai", "threads"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	doomed := osfile.Unfinished + "pruned-" + strings.ReplaceAll(row.ID, "/", "-")
	if err := p.Hook.Do("rename", row.Dir()); err != nil {
		return err
	}
	err = root.RemoveAll(doomed) // of a directory that came back, as from a backup
	if err == nil {
		err = root.Rename(filepath.FromSlash(row.ID), doomed)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := p.Hook.Do("remove", doomed); err != nil {
		return err
	}
	if err := root.RemoveAll(doomed); err != nil || p.Release == nil {
		return err
	}
	return p.Release(ctx, filepath.Join(row.Dir(), transcript.LockFile))
}

// remains returns what the row of a thread keeps of it.
func (p *PruneOptions) remains(ctx context.Context, row *roster.Thread) (*roster.Pruned, error) {
	pruned := &roster.Pruned{At: p.Now.UTC().Round(0)}
	account, err := ledger.Get(ctx, p.Ledger, row.ID)
	if err != nil {
		return nil, err
	}
	if account != nil {
		pruned.Spend, pruned.Below = account.Own, account.Below
	}
	if !transcript.Exists(row.Dir()) { // it failed before it began
		return pruned, nil
	}
	report, err := transcript.Verify(ctx, row.Dir(), transcript.Check{Keys: p.Keys, Thread: row.ID})
	// it proves no less afterwards
	if err == nil && report.Problem != nil && report.Problem.Kind != transcript.Unsigned {
		err = report.Problem.Fault()
	}
	if err != nil {
		return nil, err
	}
	pruned.Lines, pruned.Line, pruned.Digest = report.Lines, report.Signed.Seq, report.Signed.Digest
	if n := len(report.Machines); n > 0 {
		pruned.Signer = report.Machines[n-1].Key.Fingerprint().String()
	}
	pruned.Uses, err = uses(row.Dir())
	return pruned, err
}

// uses adds up the model calls of a thread. Without an account, as after the loss of the ledger, they are also its
// cost.
func uses(dir string) ([]roster.Use, error) {
	table, _ := transcript.NewSpendTable([]string{"model", "day"}) // which it knows
	to := table.Thread("", false)
	for e, err := range transcript.Read(dir) {
		var p transcript.Payload
		if err == nil {
			p, err = e.Says()
		}
		if err != nil {
			return nil, err
		}
		to.Take(e.Time, p)
	}
	var all []roster.Use
	for _, row := range table.Rows() {
		use := roster.Use{Model: row.Model, Day: row.Day, Calls: row.Calls, Input: row.Input, Output: row.Output,
			Spend: row.Spend}
		if len(all) == roster.MaxUses { // the rest counts with the last
			last := &all[len(all)-1]
			last.Calls, last.Input, last.Output, last.Spend = last.Calls+use.Calls, last.Input+use.Input,
				last.Output+use.Output, last.Spend+use.Spend
			continue
		}
		all = append(all, use)
	}
	return all, nil
}
