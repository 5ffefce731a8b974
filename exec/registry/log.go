package registry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/rows"
	"github.com/rye-build/rye/lock/index"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/tlog"
)

// A logState is the row of a log.
type logState struct {
	Size  int64     `json:"size"`  // number of its entries
	Shown int64     `json:"shown"` // number of entries that its files show
	Last  time.Time `json:"last"`  // of the last entry
}

// A leaf is the row of an entry.
type leaf struct {
	Entry string `json:"entry"`
}

// A touch is the row of a bundle's index.
type touch struct {
	Leaf int64     `json:"leaf"`
	Time time.Time `json:"time"`
}

// appendEntry gives an entry of a log the next number and a time that isn't earlier than that of the entry before it.
// The store orders transactions, so that no two get one number.
func (r *Registry) appendEntry(in rows.Writer, l *log, entry *tlog.Entry) (int64, error) {
	if err := signing(in, l); err != nil {
		return 0, err
	}
	state, err := get[logState](in, l.stateRow())
	if err != nil {
		return 0, err
	}
	if state == nil {
		state = &logState{}
		if err := r.beginList(in, l); err != nil {
			return 0, err
		}
	}
	if entry.Time = r.now(); entry.Time.Before(state.Last) {
		entry.Time = state.Last
	}
	text, err := tlog.AppendEntry(nil, entry)
	if err != nil {
		return 0, err
	}
	n := state.Size
	state.Size, state.Last = n+1, entry.Time
	if err := put(in, l.entryRow(n), leaf{string(text)}); err != nil {
		return 0, err
	}
	for _, id := range touchedBy(entry) {
		if err := put(in, l.touchedRow(id), touch{n, entry.Time}); err != nil {
			return 0, err
		}
	}
	return n, put(in, l.stateRow(), state)
}

// touchedBy returns the bundles whose indexes an entry changes.
func touchedBy(entry *tlog.Entry) (ids []string) {
	switch entry.Kind {
	case tlog.Yank, tlog.Unpublish:
		return []string{entry.Bundle}
	}
	for _, release := range entry.All() {
		ids = append(ids, release.Bundle)
	}
	return ids
}

// entriesIn returns the texts of entries of a log, from one number to before another.
func entriesIn(in rows.Reader, l *log, from, to int64) (entries [][]byte, err error) {
	for n := from; n < to; n++ {
		row, err := get[leaf](in, l.entryRow(n))
		if err != nil {
			return nil, err
		}
		if row == nil {
			return nil, damagedRow(l.entryRow(n), fs.ErrNotExist)
		}
		entries = append(entries, []byte(row.Entry))
	}
	return entries, nil
}

// eachEntry calls visit for the entries of a log before a number, in order.
func (r *Registry) eachEntry(ctx context.Context, l *log, before int64,
	visit func(n int64, entry []byte) error) error {
	for n := int64(0); n < before; {
		var some [][]byte
		if err := r.o.Rows.View(ctx, func(in rows.Reader) (err error) {
			some, err = entriesIn(in, l, n, min(before, n+flushMost))
			return err
		}); err != nil {
			return err
		}
		for _, entry := range some {
			if err := visit(n, entry); err != nil {
				return err
			}
			n++
		}
	}
	return nil
}

// begin writes the checkpoint of an empty log.
func (r *Registry) begin(ctx context.Context, l *log) error {
	file, err := r.o.Blobs.Open(ctx, l.checkpointFile())
	if err == nil {
		return file.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := tlog.Sign(l.key, l.signer, 0, new(tlog.Tail).Root())
	if err != nil {
		return err
	}
	return r.o.Blobs.Replace(ctx, l.checkpointFile(), text)
}

// grow adds entries behind the first shown ones, and writes the tiles.
func (r *Registry) grow(ctx context.Context, l *log, shown int64, entries [][]byte) (*tlog.Checkpoint, error) {
	if r.tail == nil || r.tailOf != l.name || r.tail.Size() != shown {
		tail, err := r.openTail(ctx, l, shown)
		if err != nil {
			return nil, err
		}
		r.tail, r.tailOf = tail, l.name
	}
	var files []tlog.File
	for _, entry := range entries {
		full, err := r.tail.Add(entry)
		if err != nil {
			return nil, err
		}
		files = append(files, full...)
	}
	for _, file := range append(files, r.tail.Partial()...) {
		if err := r.createSame(ctx, l.logFile(file.Name), file.Data); err != nil {
			return nil, err
		}
	}
	return r.signed(ctx, l, r.tail.Size(), r.tail.Root())
}

// signed returns the checkpoint of a log at a size, with the cosignatures of witnesses.
func (r *Registry) signed(ctx context.Context, l *log, size int64, root tlog.Hash) (*tlog.Checkpoint, error) {
	text, err := tlog.Sign(l.key, l.signer, size, root)
	if err != nil {
		return nil, err
	}
	checkpoint, err := tlog.Open(text, l.key)
	witness := r.witness(l)
	if err != nil || witness == nil {
		return checkpoint, err
	}
	return witness.Cosign(ctx, checkpoint, r.tree(l, checkpoint))
}

// openTail returns the right edge of the log at a size. The checkpoint on disk may be newer, if a process ended
// between it and its row: then the edge is made again from the entries.
func (r *Registry) openTail(ctx context.Context, l *log, size int64) (*tlog.Tail, error) {
	if size == 0 {
		return new(tlog.Tail), nil
	}
	checkpoint, err := r.shownCheckpoint(ctx, l)
	if err != nil {
		return nil, err
	}
	if checkpoint.Size == size {
		return tlog.OpenTail(ctx, checkpoint, LogFiles{r.o.Blobs, l.dir})
	}
	if checkpoint.Size < size {
		return nil, fault.New(fault.Registry, "the log's checkpoint has %d entries, and %d were shown",
			checkpoint.Size, size).Try("ryed registry verify")
	}
	tail := new(tlog.Tail)
	return tail, r.eachEntry(ctx, l, size, func(_ int64, entry []byte) error {
		_, err := tail.Add(entry)
		return err
	})
}

// createSame creates a file that may be there already with these bytes.
func (r *Registry) createSame(ctx context.Context, name string, b []byte) error {
	err := r.o.Blobs.Create(ctx, name, bytes.NewReader(b), int64(len(b)))
	if fault.CodeOf(err) != fault.Conflict {
		return err
	}
	file, err := r.o.Blobs.Open(ctx, name)
	if err != nil {
		return err
	}
	there, err := readAll(file, int64(len(b)))
	if err != nil || !bytes.Equal(there, b) {
		return fault.New(fault.Registry, "the file %q has other bytes than the log", name).On("path", name).From(err).
			Try("ryed registry verify")
	}
	return nil
}

// show writes what makes new entries visible: the checkpoint, the proofs, and then the indexes.
func (r *Registry) show(ctx context.Context, l *log, c *tlog.Checkpoint, shown int64, entries [][]byte) error {
	if err := r.o.Blobs.Replace(ctx, l.checkpointFile(), c.Text); err != nil {
		return err
	}
	tree := r.tree(l, c)
	touched := map[string]bool{}
	for i, text := range entries {
		entry, err := tlog.ParseEntry(text)
		if err != nil {
			return err
		}
		for _, id := range touchedBy(entry) {
			touched[id] = true
		}
		if len(entry.All()) == 0 {
			continue
		}
		proof, err := tree.Prove(ctx, shown+int64(i), text)
		if err != nil {
			return err
		}
		for _, release := range entry.All() {
			if err := r.o.Blobs.Replace(ctx, l.dir+client.ProofFile(release.Archive), proof.Append(nil)); err != nil {
				return err
			}
		}
	}
	for id := range touched {
		if err := r.writeIndex(ctx, l, id); err != nil {
			return err
		}
	}
	return nil
}

// writeIndex writes the index of a bundle. Its bytes depend on the rows alone: the number of the issue is that of the
// last entry which changed it, and its time is that of the entry.
func (r *Registry) writeIndex(ctx context.Context, l *log, id string) error {
	text, gone, err := r.makeIndex(ctx, l, id)
	if err != nil {
		return err
	}
	if err := r.o.Blobs.Replace(ctx, l.dir+client.IndexFile(id), text); err != nil {
		return err
	}
	for _, v := range gone {
		for _, name := range []string{client.ArchiveFile(v.Archive), client.ProofFile(v.Archive)} {
			if err := r.o.Blobs.Remove(ctx, l.dir+name); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeIndex returns the signed index of a bundle, and the versions that are unpublished.
func (r *Registry) makeIndex(ctx context.Context, l *log, id string) (text []byte, gone []*Version, err error) {
	return r.indexAt(ctx, l, id, nil, math.MaxInt64)
}

// indexAt returns the index of a bundle as the first entries of a log have it; last is the last one of them that
// changed it, nil for that of the row. All comes from one state of the rows: an issue never has two contents.
func (r *Registry) indexAt(ctx context.Context, l *log, id string, last *touch, entries int64) (text []byte,
	gone []*Version, err error) {
	list := &index.Index{Label: client.IndexLabel(l.title, id)}
	newest := last == nil
	if err := r.o.Rows.View(ctx, func(in rows.Reader) (err error) {
		list.Entries, gone = nil, nil
		if newest {
			if last, err = get[touch](in, l.touchedRow(id)); err != nil || last == nil {
				return errors.Join(err, fs.ErrNotExist)
			}
		}
		return each(in, l.versionRow(id+"@"), func(_ string, v *Version) (bool, error) {
			if v.Leaf >= entries {
				return true, nil
			}
			if v.Yanked >= entries {
				v.Yanked = 0
			}
			if v.Unpublished > 0 {
				gone = append(gone, v)
				return true, nil
			}
			entry, err := v.entry()
			list.Entries = append(list.Entries, entry)
			return true, err
		})
	}); err != nil {
		return nil, nil, err
	}
	list.Counter = last.Leaf + 1
	body, made, err := index.Append(nil, list)
	if err != nil {
		return nil, nil, err
	}
	if err := made.Sign(l.indexes, last.Time); err != nil {
		return nil, nil, err
	}
	return manifest.Join(nil, body, made.Signatures), gone, nil
}

// LogFiles are the files of a log, as package tlog reads them. Dir is what the names of its registry's files begin
// with: "" for the public log.
type LogFiles struct {
	blobs.Store
	Dir string
}

// ReadFile implements tlog.Files.
func (f LogFiles) ReadFile(ctx context.Context, name string, limit int64) ([]byte, error) {
	file, err := f.Open(ctx, f.Dir+client.LogDir+"/"+name)
	if err != nil {
		return nil, err
	}
	return readAll(file, limit)
}

// readAll reads and closes a file of at most so many bytes.
func readAll(file *blobs.File, limit int64) ([]byte, error) {
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fault.New(fault.Limit, "%q has more than %d bytes", strings.TrimSpace(file.Name), limit)
	}
	return b, err
}
