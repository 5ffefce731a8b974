package registry

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
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

// unfinishedRow is there while a restore is under way.
const unfinishedRow = "restore/unfinished"

// signing returns why a log gets no new entries and no new checkpoint.
func signing(in rows.Reader, l *log) error {
	stopped, err := get[halt](in, l.haltRow())
	if err != nil || stopped == nil {
		return err
	}
	return stopped.fault(l)
}

func (h *halt) fault(l *log) error {
	const docs = "rye docs registry-host"
	what, shows := "the registry", "all its witnesses, or a checkpoint of a mirror or a client, show nothing newer"
	if !l.public() {
		what = fmt.Sprintf("the private namespace %q", l.space)
		shows = "a checkpoint of a client shows nothing newer: no witness sees a private log"
	}
	if h.Lost != "" {
		return fault.New(fault.Rollback, "%s has lost entries of its log, and signs nothing under its name", what).
			Because("a checkpoint with its own signature has entries that its rows don't have",
				"clients that have seen them would refuse whatever it signs: restore a newer backup, or begin a new log").
			Try("ryed registry restore DIR --from BACKUP --new-log --name NAME", docs)
	}
	return fault.New(fault.Unavailable, "%s was restored from a backup of %s, and signs nothing yet", what,
		h.Made.Format(time.RFC3339)).
		Because("what it published after the backup would be contradicted", "it goes on when "+shows).
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

// stopped returns why a log signs nothing; nil if it does.
func (r *Registry) stopped(ctx context.Context, l *log) (stopped *halt, err error) {
	err = r.o.Rows.View(ctx, func(in rows.Reader) error {
		stopped, err = get[halt](in, l.haltRow())
		return err
	})
	return stopped, err
}

// Signing reports whether the public log gets new entries.
func (r *Registry) Signing(ctx context.Context) (bool, error) {
	stopped, err := r.stopped(ctx, r.public)
	return stopped == nil, err
}

// Stopped returns the private namespaces whose logs get no new entries.
func (r *Registry) Stopped(ctx context.Context) (spaces []string, err error) {
	spaces = []string{}
	return spaces, r.eachLog(ctx, func(ctx context.Context, l *log) error {
		stopped, err := r.stopped(ctx, l)
		if stopped != nil && !l.public() {
			spaces = append(spaces, l.space)
		}
		return err
	})
}

// wake reports whether a log may sign. It lets a restored one go on if all its witnesses say that they know no newer
// checkpoint.
func (r *Registry) wake(ctx context.Context, l *log) (bool, error) {
	stopped, err := r.stopped(ctx, l)
	if err != nil || stopped == nil {
		return true, err
	}
	if stopped.Lost == "" && r.witness(l) != nil {
		if err = r.confirm(ctx, l); err == nil {
			return true, r.resume(ctx, l)
		}
	}
	r.o.Warn(stopped.fault(l))
	if err != nil {
		r.o.Warn(err)
	}
	return false, nil
}

// confirm asks the witnesses whether the checkpoint that the files show is the newest.
func (r *Registry) confirm(ctx context.Context, l *log) error {
	checkpoint, err := r.shownCheckpoint(ctx, l)
	if err != nil {
		return err
	}
	return r.witness(l).Confirm(ctx, checkpoint, r.tree(l, checkpoint))
}

// shownCheckpoint returns the checkpoint of a log that clients read.
func (r *Registry) shownCheckpoint(ctx context.Context, l *log) (*tlog.Checkpoint, error) {
	text, err := LogFiles{r.o.Blobs, l.dir}.ReadFile(ctx, tlog.CheckpointFile, tlog.MaxCheckpoint)
	if err != nil {
		return nil, err
	}
	return tlog.Open(text, l.key)
}

// resume lets a log sign again, unless it was shown meanwhile that it must not.
func (r *Registry) resume(ctx context.Context, l *log) error {
	return r.o.Rows.Update(ctx, func(in rows.Writer) error {
		stopped, err := get[halt](in, l.haltRow())
		if err != nil || stopped == nil {
			return err
		}
		if stopped.Lost != "" {
			return stopped.fault(l)
		}
		in.Delete(l.haltRow())
		return nil
	})
}

// A Sighting says what a checkpoint that was seen elsewhere means for the log.
type Sighting struct {
	Private string `json:"private,omitempty"` // the namespace of a private log
	Seen    int64  `json:"seen"`              // entries of the checkpoint
	Entries int64  `json:"entries"`           // entries of the log
	Signing bool   `json:"signing"`           // the log gets new entries
}

// maxSeen is the most bytes of what shows a checkpoint.
const maxSeen = max(tlog.MaxCheckpoint, tlog.MaxProof)

// seenText returns the text of a checkpoint, from its file or from a proof that has it, and the namespace of the
// private log that it says it is of; "" for the public one, and for what is of none.
func seenText(text []byte, registry string) (checkpoint []byte, space string, err error) {
	if len(text) > maxSeen {
		return nil, "", fault.New(fault.Limit, "a checkpoint has at most %d bytes", maxSeen)
	}
	if strings.HasPrefix(string(text), "c2sp.org/tlog-proof") {
		proof, err := tlog.ParseProof(text)
		if err != nil {
			return nil, "", err
		}
		text = proof.Checkpoint
	}
	origin, _, _ := strings.Cut(string(text), "\n")
	if host, space, ok := client.SplitPrivate(origin); ok && host == registry && portable.CheckID(space) == nil {
		return text, space, nil
	}
	return text, "", nil
}

// Seen compares a checkpoint that a client has seen with its log. One that the log has signed and doesn't continue
// stops the log for good: only the holder of its key can make one. Any other changes nothing, since who shows an old
// one says nothing about newer ones. To a caller who may not see a private namespace, its log is none of this
// registry's.
func (r *Registry) Seen(ctx context.Context, by *Caller, text []byte) (*Sighting, error) {
	text, space, err := seenText(text, r.o.Name)
	if err != nil {
		return nil, err
	}
	l := r.public
	if space != "" {
		sees, err := r.Sees(ctx, by, space)
		if err != nil {
			return nil, err
		}
		if sees {
			if l, err = r.private(space); err != nil {
				return nil, err
			}
		}
	}
	return r.seenIn(ctx, l, text)
}

func (r *Registry) seenIn(ctx context.Context, l *log, text []byte) (*Sighting, error) {
	checkpoint, err := tlog.Open(text, l.key)
	if err != nil {
		return nil, err
	}
	entries, contained, err := r.contains(ctx, l, checkpoint)
	if err != nil {
		return nil, err
	}
	if !contained {
		return nil, r.lose(ctx, l, checkpoint)
	}
	stopped, err := r.stopped(ctx, l)
	return &Sighting{l.space, checkpoint.Size, entries, stopped == nil}, err
}

// Resume lets a restored log go on: its host says that a checkpoint is the newest that was ever shown.
func (r *Registry) Resume(ctx context.Context, text []byte) (*Sighting, error) {
	sighting, err := r.Seen(ctx, Host, text)
	if err != nil || sighting.Signing {
		return sighting, err
	}
	l, err := r.logNamed(sighting.Private)
	if err != nil {
		return nil, err
	}
	stopped, err := r.stopped(ctx, l)
	if err != nil {
		return nil, err
	}
	if stopped != nil && sighting.Seen < stopped.Least {
		return nil, olderThanBackup(sighting.Seen, stopped.Least)
	}
	if err := r.resume(ctx, l); err != nil {
		return nil, err
	}
	sighting.Signing = true
	return sighting, r.flush(ctx, l)
}

func olderThanBackup(seen, least int64) error {
	return fault.New(fault.Validation, "the checkpoint with %d entries is older than the backup, which has %d", seen,
		least).Because("what was published after the backup can only be seen in a newer one").On("seen", seen).
		On("backup", least)
}

// contains reports whether a log begins with the entries of a checkpoint, and how many entries it has.
func (r *Registry) contains(ctx context.Context, l *log, c *tlog.Checkpoint) (entries int64, contained bool,
	err error) {
	now, err := r.shownCheckpoint(ctx, l)
	if err != nil {
		return 0, false, err
	}
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		state, err := get[logState](in, l.stateRow())
		if state != nil {
			entries = state.Size
		}
		return err
	}); err != nil {
		return 0, false, err
	}
	if c.Size <= now.Size {
		err := r.tree(l, now).Extends(ctx, c)
		if fault.CodeOf(err) == fault.Rollback {
			return entries, false, nil
		}
		return entries, err == nil, err
	}
	if c.Size > entries {
		return entries, false, nil
	}
	tail := new(tlog.Tail) // of entries that aren't shown yet
	if err := r.eachEntry(ctx, l, c.Size, func(_ int64, entry []byte) error {
		_, err := tail.Add(entry)
		return err
	}); err != nil {
		return 0, false, err
	}
	return entries, tail.Root() == c.Root, nil
}

// lose stops a log for good.
func (r *Registry) lose(ctx context.Context, l *log, c *tlog.Checkpoint) error {
	err := fault.Wrap((&halt{Lost: c.Body}).fault(l), "a checkpoint of this log with %d entries was seen, which its "+
		"rows don't continue: the log signs nothing any more", c.Size)
	known := false
	if err := r.o.Rows.Update(ctx, func(in rows.Writer) error {
		stopped, err := get[halt](in, l.haltRow())
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
		return put(in, l.haltRow(), stopped)
	}); err != nil {
		return err
	}
	if !known {
		r.o.Warn(err)
	}
	return err
}
