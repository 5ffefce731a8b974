package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// publicLog is the name of the log of the public namespaces.
const publicLog = "public"

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

func entryRow(log string, n int64) string { return fmt.Sprintf("entry/%s/%012d", log, n) }

// A touch is the row of a bundle's index.
type touch struct {
	Leaf int64     `json:"leaf"`
	Time time.Time `json:"time"`
}

// appendEntry gives an entry the next number and a time that isn't earlier than that of the entry before it. The store
// orders transactions, so that no two get one number.
func (r *Registry) appendEntry(in rows.Writer, entry *tlog.Entry) (int64, error) {
	if err := signing(in); err != nil {
		return 0, err
	}
	state, err := get[logState](in, "log/"+publicLog)
	if err != nil {
		return 0, err
	}
	if state == nil {
		state = &logState{}
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
	if err := put(in, entryRow(publicLog, n), leaf{string(text)}); err != nil {
		return 0, err
	}
	for _, id := range touchedBy(entry) {
		if err := put(in, "touched/"+id, touch{n, entry.Time}); err != nil {
			return 0, err
		}
	}
	return n, put(in, "log/"+publicLog, state)
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

// entriesIn returns the texts of entries of the log, from one number to before another.
func entriesIn(in rows.Reader, from, to int64) (entries [][]byte, err error) {
	for n := from; n < to; n++ {
		row, err := get[leaf](in, entryRow(publicLog, n))
		if err != nil {
			return nil, err
		}
		if row == nil {
			return nil, damagedRow(entryRow(publicLog, n), fs.ErrNotExist)
		}
		entries = append(entries, []byte(row.Entry))
	}
	return entries, nil
}

// eachEntry calls visit for the entries of the log before a number, in order.
func (r *Registry) eachEntry(ctx context.Context, before int64, visit func(n int64, entry []byte) error) error {
	for n := int64(0); n < before; {
		var some [][]byte
		if err := r.o.Rows.View(ctx, func(in rows.Reader) (err error) {
			some, err = entriesIn(in, n, min(before, n+flushMost))
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
func (r *Registry) begin(ctx context.Context) error {
	file, err := r.o.Blobs.Open(ctx, client.LogDir+"/"+tlog.CheckpointFile)
	if err == nil {
		return file.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := tlog.Sign(r.log, r.o.LogKey, 0, new(tlog.Tail).Root())
	if err != nil {
		return err
	}
	return r.o.Blobs.Replace(ctx, client.LogDir+"/"+tlog.CheckpointFile, text)
}

// grow adds entries behind the first shown ones, and writes the tiles.
func (r *Registry) grow(ctx context.Context, shown int64, entries [][]byte) (*tlog.Checkpoint, error) {
	if r.tail == nil || r.tail.Size() != shown {
		tail, err := r.openTail(ctx, shown)
		if err != nil {
			return nil, err
		}
		r.tail = tail
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
		if err := r.createSame(ctx, client.LogDir+"/"+file.Name, file.Data); err != nil {
			return nil, err
		}
	}
	return r.signed(ctx, r.tail.Size(), r.tail.Root())
}

// signed returns the checkpoint of the log at a size, with the cosignatures of witnesses.
func (r *Registry) signed(ctx context.Context, size int64, root tlog.Hash) (*tlog.Checkpoint, error) {
	text, err := tlog.Sign(r.log, r.o.LogKey, size, root)
	if err != nil {
		return nil, err
	}
	checkpoint, err := tlog.Open(text, r.log)
	if err != nil || r.o.Witness == nil {
		return checkpoint, err
	}
	return r.o.Witness.Cosign(ctx, checkpoint, tlog.NewTree(checkpoint, LogFiles{r.o.Blobs}))
}

// openTail returns the right edge of the log at a size. The checkpoint on disk may be newer, if a process ended
// between it and its row: then the edge is made again from the entries.
func (r *Registry) openTail(ctx context.Context, size int64) (*tlog.Tail, error) {
	if size == 0 {
		return new(tlog.Tail), nil
	}
	files := LogFiles{r.o.Blobs}
	text, err := files.ReadFile(ctx, tlog.CheckpointFile, tlog.MaxCheckpoint)
	if err != nil {
		return nil, err
	}
	checkpoint, err := tlog.Open(text, r.log)
	if err != nil {
		return nil, err
	}
	if checkpoint.Size == size {
		return tlog.OpenTail(ctx, checkpoint, files)
	}
	if checkpoint.Size < size {
		return nil, fault.New(fault.Registry, "the log's checkpoint has %d entries, and %d were shown",
			checkpoint.Size, size).Try("ryed registry verify")
	}
	tail := new(tlog.Tail)
	return tail, r.eachEntry(ctx, size, func(_ int64, entry []byte) error {
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
func (r *Registry) show(ctx context.Context, c *tlog.Checkpoint, shown int64, entries [][]byte) error {
	if err := r.o.Blobs.Replace(ctx, client.LogDir+"/"+tlog.CheckpointFile, c.Text); err != nil {
		return err
	}
	tree := tlog.NewTree(c, LogFiles{r.o.Blobs})
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
			if err := r.o.Blobs.Replace(ctx, client.ProofFile(release.Archive), proof.Append(nil)); err != nil {
				return err
			}
		}
	}
	for id := range touched {
		if err := r.writeIndex(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// writeIndex writes the index of a bundle. Its bytes depend on the rows alone: the number of the issue is that of the
// last entry which changed it, and its time is that of the entry.
func (r *Registry) writeIndex(ctx context.Context, id string) error {
	text, gone, err := r.makeIndex(ctx, id)
	if err != nil {
		return err
	}
	if err := r.o.Blobs.Replace(ctx, client.IndexFile(id), text); err != nil {
		return err
	}
	for _, v := range gone {
		for _, name := range []string{client.ArchiveFile(v.Archive), client.ProofFile(v.Archive)} {
			if err := r.o.Blobs.Remove(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeIndex returns the signed index of a bundle, and the versions that are unpublished.
func (r *Registry) makeIndex(ctx context.Context, id string) (text []byte, gone []*Version, err error) {
	return r.indexAt(ctx, id, nil, math.MaxInt64)
}

// indexAt returns the index of a bundle as the first entries of the log have it; last is the last one of them that
// changed it, nil for that of the row. All comes from one state of the rows: an issue never has two contents.
func (r *Registry) indexAt(ctx context.Context, id string, last *touch, entries int64) (text []byte, gone []*Version,
	err error) {
	list := &index.Index{Label: client.IndexLabel(r.o.Name, id)}
	newest := last == nil
	if err := r.o.Rows.View(ctx, func(in rows.Reader) (err error) {
		list.Entries, gone = nil, nil
		if newest {
			if last, err = get[touch](in, "touched/"+id); err != nil || last == nil {
				return errors.Join(err, fs.ErrNotExist)
			}
		}
		return each(in, "version/"+id+"@", func(_ string, v *Version) (bool, error) {
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
	if err := made.Sign(r.o.IndexKey, last.Time); err != nil {
		return nil, nil, err
	}
	return manifest.Join(nil, body, made.Signatures), gone, nil
}

// LogFiles are the files of the log, as package tlog reads them.
type LogFiles struct{ blobs.Store }

// ReadFile implements tlog.Files.
func (f LogFiles) ReadFile(ctx context.Context, name string, limit int64) ([]byte, error) {
	file, err := f.Open(ctx, client.LogDir+"/"+name)
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
