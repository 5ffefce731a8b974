package registry

import (
	"context"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/rows"
	"github.com/rye-build/rye/manifest/tlog"
)

// A halt is the row of a log that signs nothing: after a restore, until the newest checkpoint that others have was
// compared with it, or for good, when a checkpoint of its own key shows entries that it doesn't have.
type halt struct {
	Since time.Time `json:"since"`
	Made  time.Time `json:"made,omitzero"`  // when the backup was made
	Least int64     `json:"least"`          // entries of the backup's checkpoint: an older one shows nothing
	Lost  string    `json:"lost,omitempty"` // the checkpoint that the log doesn't continue
}

const (
	haltRow = "halt/" + publicLog
	// unfinishedRow is there while a restore is under way.
	unfinishedRow = "restore/unfinished"
)

// signing returns why the log gets no new entries and no new checkpoint.
func signing(in rows.Reader) error {
	stopped, err := get[halt](in, haltRow)
	if err != nil || stopped == nil {
		return err
	}
	return stopped.fault()
}

func (h *halt) fault() error {
	const docs = "rye docs registry-host"
	if h.Lost != "" {
		return fault.New(fault.Rollback, "the registry has lost entries of its log, and signs nothing under its name").
			Because("a checkpoint with its own signature has entries that its rows don't have",
				"clients that have seen them would refuse whatever it signs: restore a newer backup, or begin a new log").
			Try("ryed registry restore DIR --from BACKUP --new-log --name NAME", docs)
	}
	return fault.New(fault.Unavailable, "the registry was restored from a backup of %s, and signs nothing yet",
		h.Made.Format(time.RFC3339)).
		Because("what it published after the backup would be contradicted",
			"it goes on when all its witnesses, or a checkpoint of a mirror or a client, show nothing newer").
		Try("ryed registry restore DIR --seen FILE", docs)
}

// checkFinished refuses rows that a restore has not written to the end.
func checkFinished(in rows.Reader) error {
	unfinished, err := get[restoring](in, unfinishedRow)
	if err == nil && unfinished != nil {
		err = fault.New(fault.Unavailable, "the registry is not restored to the end").
			Because("the restore that was interrupted goes on when it is made again").
			Try("ryed registry restore DIR --from BACKUP")
	}
	return err
}

// stopped returns why the log signs nothing; nil if it does.
func (r *Registry) stopped(ctx context.Context) (stopped *halt, err error) {
	err = r.o.Rows.View(ctx, func(in rows.Reader) error {
		stopped, err = get[halt](in, haltRow)
		return err
	})
	return stopped, err
}

// Signing reports whether the log gets new entries.
func (r *Registry) Signing(ctx context.Context) (bool, error) {
	stopped, err := r.stopped(ctx)
	return stopped == nil, err
}

// wake reports whether the log may sign. It lets a restored one go on if all its witnesses say that they know no newer
// checkpoint.
func (r *Registry) wake(ctx context.Context) (bool, error) {
	stopped, err := r.stopped(ctx)
	if err != nil || stopped == nil {
		return true, err
	}
	if stopped.Lost == "" && r.o.Witness != nil {
		if err = r.confirm(ctx); err == nil {
			return true, r.resume(ctx)
		}
	}
	r.o.Warn(stopped.fault())
	if err != nil {
		r.o.Warn(err)
	}
	return false, nil
}

// confirm asks the witnesses whether the checkpoint that the files show is the newest.
func (r *Registry) confirm(ctx context.Context) error {
	checkpoint, err := r.shownCheckpoint(ctx)
	if err != nil {
		return err
	}
	return r.o.Witness.Confirm(ctx, checkpoint, tlog.NewTree(checkpoint, LogFiles{r.o.Blobs}))
}

// shownCheckpoint returns the checkpoint that clients read.
func (r *Registry) shownCheckpoint(ctx context.Context) (*tlog.Checkpoint, error) {
	text, err := LogFiles{r.o.Blobs}.ReadFile(ctx, tlog.CheckpointFile, tlog.MaxCheckpoint)
	if err != nil {
		return nil, err
	}
	return tlog.Open(text, r.log)
}

// resume lets the log sign again, unless it was shown meanwhile that it must not.
func (r *Registry) resume(ctx context.Context) error {
	return r.o.Rows.Update(ctx, func(in rows.Writer) error {
		stopped, err := get[halt](in, haltRow)
		if err != nil || stopped == nil {
			return err
		}
		if stopped.Lost != "" {
			return stopped.fault()
		}
		in.Delete(haltRow)
		return nil
	})
}

// A Sighting says what a checkpoint that was seen elsewhere means for the log.
type Sighting struct {
	Seen    int64 `json:"seen"`    // entries of the checkpoint
	Entries int64 `json:"entries"` // entries of the log
	Signing bool  `json:"signing"` // the log gets new entries
}

// maxSeen is the most bytes of what shows a checkpoint.
const maxSeen = max(tlog.MaxCheckpoint, tlog.MaxProof)

// seenCheckpoint reads a checkpoint that the log has signed, from its file or from a proof that has it.
func seenCheckpoint(text []byte, log tlog.Key) (*tlog.Checkpoint, error) {
	if len(text) > maxSeen {
		return nil, fault.New(fault.Limit, "a checkpoint has at most %d bytes", maxSeen)
	}
	if strings.HasPrefix(string(text), "c2sp.org/tlog-proof") {
		proof, err := tlog.ParseProof(text)
		if err != nil {
			return nil, err
		}
		text = proof.Checkpoint
	}
	return tlog.Open(text, log)
}

// Seen compares a checkpoint that a client has seen with the log. One that the log has signed and doesn't continue
// stops the log for good: only the holder of its key can make one. Any other changes nothing, since who shows an old
// one says nothing about newer ones.
func (r *Registry) Seen(ctx context.Context, text []byte) (*Sighting, error) {
	checkpoint, err := seenCheckpoint(text, r.log)
	if err != nil {
		return nil, err
	}
	entries, contained, err := r.contains(ctx, checkpoint)
	if err != nil {
		return nil, err
	}
	if !contained {
		return nil, r.lose(ctx, checkpoint)
	}
	stopped, err := r.stopped(ctx)
	return &Sighting{checkpoint.Size, entries, stopped == nil}, err
}

// Resume lets a restored log go on: its host says that a checkpoint is the newest that was ever shown.
func (r *Registry) Resume(ctx context.Context, text []byte) (*Sighting, error) {
	sighting, err := r.Seen(ctx, text)
	if err != nil || sighting.Signing {
		return sighting, err
	}
	stopped, err := r.stopped(ctx)
	if err != nil {
		return nil, err
	}
	if stopped != nil && sighting.Seen < stopped.Least {
		return nil, olderThanBackup(sighting.Seen, stopped.Least)
	}
	if err := r.resume(ctx); err != nil {
		return nil, err
	}
	sighting.Signing = true
	return sighting, r.Flush(ctx)
}

func olderThanBackup(seen, least int64) error {
	return fault.New(fault.Validation, "the checkpoint with %d entries is older than the backup, which has %d", seen,
		least).Because("what was published after the backup can only be seen in a newer one").On("seen", seen).
		On("backup", least)
}

// contains reports whether the log begins with the entries of a checkpoint, and how many entries it has.
func (r *Registry) contains(ctx context.Context, c *tlog.Checkpoint) (entries int64, contained bool, err error) {
	now, err := r.shownCheckpoint(ctx)
	if err != nil {
		return 0, false, err
	}
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		state, err := get[logState](in, "log/"+publicLog)
		if state != nil {
			entries = state.Size
		}
		return err
	}); err != nil {
		return 0, false, err
	}
	if c.Size <= now.Size {
		err := tlog.NewTree(now, LogFiles{r.o.Blobs}).Extends(ctx, c)
		if fault.CodeOf(err) == fault.Rollback {
			return entries, false, nil
		}
		return entries, err == nil, err
	}
	if c.Size > entries {
		return entries, false, nil
	}
	tail := new(tlog.Tail) // of entries that aren't shown yet
	if err := r.eachEntry(ctx, c.Size, func(_ int64, entry []byte) error {
		_, err := tail.Add(entry)
		return err
	}); err != nil {
		return 0, false, err
	}
	return entries, tail.Root() == c.Root, nil
}

// lose stops the log for good.
func (r *Registry) lose(ctx context.Context, c *tlog.Checkpoint) error {
	err := fault.Wrap((&halt{Lost: c.Body}).fault(), "a checkpoint of this log with %d entries was seen, which its "+
		"rows don't continue: the log signs nothing any more", c.Size)
	known := false
	if err := r.o.Rows.Update(ctx, func(in rows.Writer) error {
		stopped, err := get[halt](in, haltRow)
		if err != nil {
			return err
		}
		if stopped == nil {
			stopped = &halt{Since: r.now()}
		}
		if known = stopped.Lost != ""; known {
			return nil
		}
		stopped.Lost = string(c.Text)
		return put(in, haltRow, stopped)
	}); err != nil {
		return err
	}
	if !known {
		r.o.Warn(err)
	}
	return err
}
