package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/tlog"
)

// A Check is what Verify has compared, and what differs.
type Check struct {
	Entries  int64    `json:"entries"`  // of the logs
	Versions int      `json:"versions"` // that aren't unpublished
	Bytes    int64    `json:"bytes"`    // of their archives
	Wrong    []string `json:"wrong"`    // one line each
}

func (c *Check) wrong(format string, args ...any) {
	c.Wrong = append(c.Wrong, fmt.Sprintf(format, args...))
}

// Verify makes the logs and the indexes again from the rows, and compares them with the files; and it reads every
// archive. Rows that are newer than the files, because a publish is under way, are left out.
func (r *Registry) Verify(ctx context.Context) (*Check, error) {
	r.flushing.Lock()
	defer r.flushing.Unlock()
	check := &Check{Wrong: []string{}}
	return check, r.eachLog(ctx, func(ctx context.Context, l *log) error { return r.verify(ctx, check, l) })
}

func (r *Registry) verify(ctx context.Context, check *Check, l *log) error {
	var versions []*Version
	last := map[string]*touch{} // of the indexes that the files show
	var shown int64
	tail := new(tlog.Tail)
	var files []tlog.File
	if err := r.o.Rows.View(ctx, func(in rows.Reader) error {
		versions, files, *tail = nil, nil, tlog.Tail{}
		state, err := get[logState](in, l.stateRow())
		if err != nil || state == nil {
			return err
		}
		shown = state.Shown
		for n := range shown {
			row, err := get[leaf](in, l.entryRow(n))
			if err != nil {
				return err
			}
			if row == nil {
				return damagedRow(l.entryRow(n), fs.ErrNotExist)
			}
			full, err := tail.Add([]byte(row.Entry))
			if err != nil {
				return err
			}
			files = append(files, full...)
			entry, err := tlog.ParseEntry([]byte(row.Entry))
			if err != nil {
				return damagedRow(l.entryRow(n), err)
			}
			for _, id := range touchedBy(entry) {
				last[id] = &touch{n, entry.Time}
			}
		}
		return each(in, l.versionRows(), func(name string, v *Version) (bool, error) {
			if name = l.within + name; v.Key() != name {
				check.wrong("the row of %s is that of %s", name, v.Key())
			}
			if v.Leaf < shown && v.Unpublished == 0 {
				versions = append(versions, v)
			}
			return true, nil
		})
	}); err != nil {
		return err
	}
	check.Entries += tail.Size()
	check.Versions += len(versions)
	for _, file := range append(files, tail.Partial()...) {
		if err := r.same(ctx, check, l.logFile(file.Name), file.Data); err != nil {
			return err
		}
	}
	if err := r.checkCheckpoint(ctx, check, l, tail); err != nil {
		return err
	}
	for id, at := range last {
		text, _, err := r.indexAt(ctx, l, id, at, shown)
		if err != nil {
			return err
		}
		newest, _, err := r.makeIndex(ctx, l, id) // another process may have shown more meanwhile
		if err != nil {
			return err
		}
		if err := r.same(ctx, check, l.dir+client.IndexFile(id), text, newest); err != nil {
			return err
		}
	}
	for _, v := range versions {
		if err := r.checkVersion(ctx, check, l, v); err != nil {
			return err
		}
	}
	return r.checkAdvisories(ctx, check, l)
}

// same compares a file with the bytes that it should have, or may have by now.
func (r *Registry) same(ctx context.Context, check *Check, name string, want ...[]byte) error {
	file, err := r.o.Blobs.Open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		check.wrong("%s is missing", name)
		return nil
	}
	if err != nil {
		return err
	}
	limit := 0
	for _, b := range want {
		limit = max(limit, len(b))
	}
	got, err := readAll(file, int64(limit))
	if err != nil || !slices.ContainsFunc(want, func(b []byte) bool { return bytes.Equal(got, b) }) {
		check.wrong("%s differs from the rows", name)
	}
	return nil
}

func (r *Registry) checkCheckpoint(ctx context.Context, check *Check, l *log, tail *tlog.Tail) error {
	text, err := LogFiles{r.o.Blobs, l.dir}.ReadFile(ctx, tlog.CheckpointFile, tlog.MaxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		check.wrong("the checkpoint of %s is missing", l.key.Name)
		return nil
	}
	if err != nil {
		return err
	}
	checkpoint, err := tlog.Open(text, l.key)
	switch {
	case err != nil:
		check.wrong("%v", err)
	case checkpoint.Size != tail.Size() || checkpoint.Root != tail.Root():
		check.wrong("the checkpoint of %s has %d entries and another root, the rows have %d", l.key.Name,
			checkpoint.Size, tail.Size())
	}
	return nil
}

// checkVersion reads an archive, and opens its proof.
func (r *Registry) checkVersion(ctx context.Context, check *Check, l *log, v *Version) error {
	file, err := r.o.Blobs.Open(ctx, l.dir+client.ArchiveFile(v.Archive))
	if errors.Is(err, fs.ErrNotExist) {
		check.wrong("the archive of %s is missing", v.Key())
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	hasher := cas.NewHasher()
	size, err := io.Copy(hasher, cas.Until(ctx, file))
	if err != nil {
		return err
	}
	check.Bytes += size
	if hasher.Digest() != v.Archive || size != v.Size {
		check.wrong("the archive of %s is damaged", v.Key())
	}
	text, err := r.o.Blobs.Open(ctx, l.dir+client.ProofFile(v.Archive))
	if errors.Is(err, fs.ErrNotExist) {
		check.wrong("the proof of %s is missing", v.Key())
		return nil
	}
	if err != nil {
		return err
	}
	b, err := readAll(text, tlog.MaxProof)
	if err == nil {
		var proof *tlog.Proof
		if proof, err = tlog.ParseProof(b); err == nil {
			var entry *tlog.Entry
			if entry, _, err = proof.Verify(l.key); err == nil && !publishes(entry, v) {
				err = errors.New("it is that of another version")
			}
		}
	}
	if err != nil {
		check.wrong("the proof of %s: %v", v.Key(), err)
	}
	return nil
}

// publishes reports whether an entry publishes a version.
func publishes(entry *tlog.Entry, v *Version) bool {
	for _, release := range entry.All() {
		if release.Key() == v.Key() && release.Archive == v.Archive && release.Manifest == v.Manifest {
			return true
		}
	}
	return false
}
