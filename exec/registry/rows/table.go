package rows

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/journal"
)

// A table has the rows of a local store in memory, sorted by name. It is a list of chunks, so that a new name moves
// only the rows of its chunk.
type table struct {
	chunks [][]Row  // none is empty
	parts  []record // of an update that isn't read to its end
	bytes  int64    // about how long the records of all rows are
}

// lineOf is about how many bytes a record needs beside its name and value.
const lineOf = 55

var _ journal.SizedTotal = (*table)(nil)

// Size implements journal.SizedTotal.
func (t *table) Size() int64 { return t.bytes }

// maxChunk is the most rows of a chunk. A full one is cut in half.
const maxChunk = 256

// find returns the place of the first row whose name isn't less than name, and whether it has that name.
func (t *table) find(name string) (chunk, at int, found bool) {
	chunk, found = slices.BinarySearchFunc(t.chunks, name, func(rows []Row, name string) int {
		return cmp.Compare(rows[0].Name, name)
	})
	if !found && chunk > 0 {
		chunk-- // the last one whose first name isn't greater
	}
	if chunk == len(t.chunks) {
		return chunk, 0, false
	}
	at, found = slices.BinarySearchFunc(t.chunks[chunk], name, func(row Row, name string) int {
		return cmp.Compare(row.Name, name)
	})
	return chunk, at, found
}

// put adds or replaces a row.
func (t *table) put(row Row) {
	i, at, found := t.find(row.Name)
	t.bytes += int64(len(row.Value))
	if !found {
		t.bytes += int64(len(row.Name)) + lineOf
	}
	switch {
	case found:
		t.bytes -= int64(len(t.chunks[i][at].Value))
		t.chunks[i][at] = row
		return
	case len(t.chunks) == 0:
		t.chunks = [][]Row{nil}
	}
	rows := slices.Insert(t.chunks[i], at, row)
	t.chunks[i] = rows
	if len(rows) > maxChunk {
		half := len(rows) / 2
		t.chunks[i] = slices.Clone(rows[:half])
		t.chunks = slices.Insert(t.chunks, i+1, slices.Clone(rows[half:]))
	}
}

// delete removes a row if it is there.
func (t *table) delete(name string) {
	i, at, found := t.find(name)
	if !found {
		return
	}
	t.bytes -= int64(len(name)+len(t.chunks[i][at].Value)) + lineOf
	t.chunks[i] = slices.Delete(t.chunks[i], at, at+1)
	if len(t.chunks[i]) == 0 {
		t.chunks = slices.Delete(t.chunks, i, i+1)
	}
}

// from returns all rows from a name on.
func (t *table) from(name string) iter.Seq[Row] {
	return func(yield func(Row) bool) {
		i, at, _ := t.find(name)
		for ; i < len(t.chunks); i, at = i+1, 0 {
			for _, row := range t.chunks[i][at:] {
				if !yield(row) {
					return
				}
			}
		}
	}
}

// Get implements Reader.
func (t *table) Get(name string) ([]byte, error) {
	if i, at, found := t.find(name); found {
		return t.chunks[i][at].Value, nil
	}
	return nil, nil
}

// Scan implements Reader.
func (t *table) Scan(prefix, after string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for row := range t.from(max(prefix, after)) {
			if !strings.HasPrefix(row.Name, prefix) || row.Name > after && !yield(row, nil) {
				return
			}
		}
	}
}
