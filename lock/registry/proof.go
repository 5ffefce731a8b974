package registry

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/tlog"
)

// ProofSuffix is the end of the name of the file beside an archive that has its proof.
const ProofSuffix = ".tlog-proof"

// Logs are the logs whose keys are known, and what is remembered of them: enough to check a proof without its
// registry.
type Logs struct {
	Registries []project.Registry
	Policies   []*tlog.Policy // of witnesses; each must be satisfied. Their logs are known, too.
	Journal    *rollback.Journal
	Now        func() time.Time // when Take meets a log
}

// A Proven is what a proof shows: that a log has a version, since when, and by which account.
type Proven struct {
	Log      string    `json:"log"`
	Entry    int64     `json:"entry"`
	Time     time.Time `json:"time"`
	By       string    `json:"by"`
	Cosigned int       `json:"cosigned"` // by how many witnesses of the policies
	Archive  string    `json:"archive"`  // the digest of the published archive
}

// Key returns the key of the log with a name, as far as it decides about a bundle. If a registry's names cover the
// bundle, another log is an error; known is false for a log whose key stands nowhere.
func (l *Logs) Key(origin, bundle string) (log tlog.Key, known bool, err error) {
	covered := ""
	for i := range l.Registries {
		r := &l.Registries[i]
		switch {
		case r.Log.Name == origin && r.Has(bundle):
			return r.Log, true, nil
		case r.Log.Name == origin:
			log, known = r.Log, true
		case r.Has(bundle):
			covered = r.Log.Name
		}
	}
	if covered != "" {
		return log, false, fault.New(fault.Integrity, "the proof is of the log %q, and rye.yaml takes %s from a "+
			"registry with the log %q", fault.Clip(origin, 200), bundle, covered).On("reason", "log").
			On("expected", covered).On("found", fault.Clip(origin, 200))
	}
	for _, p := range l.Policies {
		for _, at := range p.Logs {
			if at.Key.Name == origin && !known {
				log, known = at.Key, true
			}
		}
	}
	return log, known, nil
}

// Check shows by a proof that a log has a version. Nothing of the proof is believed before the log's key, the witness
// policies and the tree have vouched for it. A zero archive digest means that only the bundle is at hand, whose files
// the manifest names. known is false if the log's key stands nowhere: then nothing was checked.
func (l *Logs) Check(ctx context.Context, proof *tlog.Proof, of tlog.Release) (proven *Proven, known bool, err error) {
	log, known, err := l.Key(proof.Origin(), of.Bundle)
	if err != nil || !known {
		return nil, known, err
	}
	entry, checkpoint, err := proof.Verify(log, l.Policies...)
	if err != nil {
		return nil, true, err
	}
	release, err := releaseIn(entry, of)
	if err == nil {
		err = l.remembered(log, proof.Index, entry, checkpoint)
	}
	if err != nil {
		return nil, true, err
	}
	return &Proven{Log: log.Name, Entry: proof.Index, Time: entry.Time, By: entry.By, Cosigned: checkpoint.Cosigned(),
		Archive: release.Archive.String()}, true, nil
}

// Refuses returns why a proof that someone gives is known to be false. One of a log whose key stands nowhere isn't.
func (l *Logs) Refuses(ctx context.Context, proof *tlog.Proof, of tlog.Release) error {
	_, _, err := l.Check(ctx, proof, of)
	return err
}

// CheckEntry is Check for a version that an index names: the proof's entry must say exactly what the index says.
func (l *Logs) CheckEntry(ctx context.Context, proof *tlog.Proof, e *index.Entry) error {
	_, known, err := l.Check(ctx, proof, LogEntry(e).Release)
	if err != nil {
		return err
	}
	entry, err := tlog.ParseEntry(proof.Entry)
	if !known || err != nil || proof.Index != e.Logged.Leaf || !entrySays(entry, e) {
		return fault.New(fault.Integrity, "%s@%s: the kept proof is of something else than the index says", e.ID,
			e.Version).From(err).On("bundle", e.ID).On("version", e.Version).Try("rye docs registry-trust")
	}
	return nil
}

// releaseIn returns the release of an entry that is about a version, after comparing all that is known of it.
func releaseIn(entry *tlog.Entry, of tlog.Release) (*tlog.Release, error) {
	wrong := func(what, expected, found string) error {
		return fault.New(fault.Integrity, "the proof is of another %s: expected %s, found %s", what, expected, found).
			On("reason", what).On("bundle", of.Bundle).On("version", of.Version).On("expected", expected).
			On("found", found).Try("rye docs registry-trust")
	}
	found := "none"
	for _, release := range entry.All() {
		if release.Bundle != of.Bundle || release.Version != of.Version {
			found = release.Key()
			continue
		}
		switch {
		case release.Manifest != of.Manifest:
			return nil, wrong("manifest", of.Manifest.String(), release.Manifest.String())
		case !of.Archive.IsZero() && release.Archive != of.Archive:
			return nil, wrong("archive", of.Archive.String(), release.Archive.String())
		case !of.Archive.IsZero() && release.Size != of.Size:
			return nil, wrong("size", strconv.FormatInt(of.Size, 10), strconv.FormatInt(release.Size, 10))
		}
		return &release, nil
	}
	return nil, wrong("version", of.Key(), found)
}

// remembered compares a proof with what this user saw of the log, and what witnesses saw in proofs that were taken.
func (l *Logs) remembered(log tlog.Key, leaf int64, entry *tlog.Entry, checkpoint *tlog.Checkpoint) error {
	if l.Journal == nil {
		return nil
	}
	number, id, err := lastKey(l.Journal, log.Name)
	if err == nil && number > 0 && id != keyID(log) {
		err = otherKey(log, nil)
	}
	if err != nil {
		return err
	}
	seen, err := l.Journal.Seen()
	if err != nil {
		return err
	}
	timed := []string{checkpointName}
	for _, w := range witnessKeys(l.Policies) {
		timed = append(timed, witnessName(w))
	}
	for i := range seen {
		step := &seen[i]
		who := "a witness"
		if step.Name == checkpointName {
			who = "this user"
		}
		if step.Source != log.Name || !step.ByName ||
			step.Name != checkpointName && !strings.HasPrefix(step.Name, witnessedNames) {
			continue
		}
		size, err := strconv.ParseInt(step.Position, 10, 64)
		if err != nil {
			return err
		}
		lastSight(seen, step)
		if size == checkpoint.Size && step.ID != cas.Digest(checkpoint.Root) {
			return rewritten(checkpoint)
		}
		// The log has signed the root in any case. The time is that of a witness, which must be believed here.
		if slices.Contains(timed, step.Name) && tooEarly(leaf, entry, size, step.At) {
			return fault.New(fault.Integrity, "entry %d of the log %q says that it was made at %s, and %s saw the "+
				"log without it at %s", leaf, log.Name, entry.Time.Format(time.RFC3339), who,
				step.At.UTC().Format(time.RFC3339)).On("reason", "time").On("log", log.Name).On("leaf", leaf).
				Try("rye docs registry-trust")
		}
	}
	return nil
}

// Take is Check for a proof that is kept from now on. It remembers the key of the log, and the checkpoint with the
// times at which witnesses signed it: these don't depend on the clock of a machine which never asks the registry.
func (l *Logs) Take(ctx context.Context, proof *tlog.Proof, of tlog.Release) error {
	_, known, err := l.Check(ctx, proof, of)
	if err != nil || !known || l.Journal == nil {
		return err
	}
	log, _, err := l.Key(proof.Origin(), of.Bundle)
	if err != nil {
		return err
	}
	checkpoint, err := tlog.OpenFor(proof.Checkpoint, log, l.Policies...)
	if err != nil {
		return err
	}
	if _, err := sameKey(ctx, l.Journal, log, l.Now()); err != nil {
		return err
	}
	return witnessed(ctx, l.Journal, checkpoint, l.Policies)
}

// sameKey remembers the key of a log, or refuses another one than that with which it was seen last. The id is that
// one's.
func sameKey(ctx context.Context, journal *rollback.Journal, log tlog.Key, now time.Time) (last cas.Digest,
	err error) {
	number, last, err := lastKey(journal, log.Name)
	switch {
	case err != nil || number > 0 && last == keyID(log):
		return last, err
	case number > 0:
		return last, otherKey(log, nil)
	}
	err = journal.Record(ctx, rollback.Step{Source: log.Name, Name: keyName, Position: "1", ID: keyID(log), At: now})
	if _, other := errors.AsType[*rollback.Error](err); other {
		err = otherKey(log, err)
	}
	return last, err
}

// witnessed remembers when each witness has signed a checkpoint, unless a larger one that it signed is remembered. The
// times of different witnesses stay apart: a project may name a witness that lies, and all projects of a user share
// the memory.
func witnessed(ctx context.Context, journal *rollback.Journal, c *tlog.Checkpoint, policies []*tlog.Policy) error {
	for _, w := range witnessKeys(policies) {
		at, signed := c.CosignedAt(w)
		if !signed {
			continue
		}
		err := journal.Record(ctx, rollback.Step{Source: c.Origin, Name: witnessName(w),
			Position: strconv.FormatInt(c.Size, 10), ID: cas.Digest(c.Root), ByName: true, At: at})
		older, ok := errors.AsType[*rollback.Error](err)
		if err != nil && !(ok && older.Reason() == rollback.Older) {
			return err
		}
	}
	return nil
}

func witnessKeys(policies []*tlog.Policy) (keys []tlog.Key) {
	for _, p := range policies {
		keys = append(keys, p.Keys()...)
	}
	return keys
}

// witnessName returns under which name the journal has what a witness signed.
func witnessName(w tlog.Key) string { return witnessedNames + hex(keyID(w)) }

// grace is how much earlier than the log was seen without it an entry may claim to be: clocks differ, and an entry is
// dated before it is in the log.
const grace = 10 * time.Minute

// tooEarly reports whether an entry claims to be older than it can be, because the log had that size at a time and so
// didn't have it.
func tooEarly(leaf int64, entry *tlog.Entry, size int64, seen time.Time) bool {
	return leaf >= size && entry.Time.Before(seen.Add(-grace))
}

func rewritten(c *tlog.Checkpoint) error {
	return fault.New(fault.Rollback, "the log %q has rewritten its history: it has signed two different checkpoints "+
		"of size %d", c.Origin, c.Size).On("log", c.Origin).On("size", c.Size).Try("rye docs registry-trust")
}

func keyID(log tlog.Key) cas.Digest { return cas.Sum([]byte(log.String())) }

func otherKey(log tlog.Key, err error) error {
	return fault.New(fault.Rollback, "the log %q has another key than before", log.Name).From(err).
		Because("its key in rye.yaml is "+log.String(),
			"a log changes its key by a document that the old key has signed, and never without one").
		On("log", log.Name).Try("rye docs registry-trust")
}
