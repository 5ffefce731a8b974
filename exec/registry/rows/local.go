package rows

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/cas/osfile"
)

// Local keeps rows in a directory of this machine. It is a Locker.
type Local struct{ book journal.Book[*table] }

// OpenLocal opens the rows in a directory. The first update creates the directory and its file. The caller closes the
// store; hook is for tests.
func OpenLocal(dir string, hook journal.Hook) (*Local, error) {
	l := &Local{journal.Book[*table]{Path: filepath.Join(dir, "rows"), Format: "rye rows", Hook: hook,
		Empty: func() *table { return new(table) },
		Lost: []string{"it has all accounts, versions and log entries: restore the directory from a backup",
			"a registry that starts without them would publish another history under the same name"}}}
	// Report damage now instead of in the middle of a request.
	if err := l.book.View(func(*table) error { return nil }); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close implements Store.
func (l *Local) Close() error { return l.book.Close() }

// TryLock implements Locker, by a file beside that of the rows.
func (l *Local) TryLock(name string) (unlock func(), free bool, err error) {
	dir := filepath.Dir(l.book.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, false, err
	}
	file, err := os.OpenFile(filepath.Join(dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, err
	}
	if free, err = osfile.TryLock(file, osfile.Exclusive); !free {
		file.Close()
	}
	return func() { file.Close() }, free, err
}

// View implements Store.
func (l *Local) View(ctx context.Context, look func(Reader) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return l.book.View(func(t *table) error { return View(t, look) })
}

// Update implements Store. It waits at most 30 seconds for another process, also after ctx ends.
func (l *Local) Update(ctx context.Context, change func(Writer) error) error {
	var thrown any
	err := l.book.Change(ctx, func(t *table) (records []any, err error) {
		// The book may run this in a goroutine of another caller, which a panic must not end.
		defer func() {
			if thrown = recover(); thrown != nil {
				err = errThrown
			}
		}()
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		writes, err := Change(t, change)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		return recordsOf(writes), nil
	})
	if thrown != nil {
		panic(thrown)
	}
	return err
}

var errThrown = errors.New("the change has panicked")

// A record is one write, or a piece of one.
type record struct {
	Put    string          `json:"put,omitempty"`
	Delete string          `json:"delete,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`
	Piece  []byte          `json:"piece,omitempty"`
	Part   int             `json:"part,omitempty"` // of an update with several records, from 1
	Of     int             `json:"of,omitempty"`
}

// A line has room for a value of maxWhole bytes beside the longest name, all of whose characters may be escaped.
// A piece is longer in base64.
const (
	maxWhole = journal.MaxLine - 8<<10
	maxPiece = maxWhole / 4 * 3
)

// recordsOf returns the records of an update.
func recordsOf(writes []Row) (all []any) {
	var parts []*record
	for _, row := range writes {
		if row.Value == nil {
			parts = append(parts, &record{Delete: row.Name})
		} else if len(row.Value) <= maxWhole {
			parts = append(parts, &record{Put: row.Name, Value: row.Value})
		} else {
			for piece := range slices.Chunk(row.Value, maxPiece) {
				parts = append(parts, &record{Put: row.Name, Piece: piece})
			}
		}
	}
	for i, r := range parts {
		if len(parts) > 1 {
			r.Part, r.Of = i+1, len(parts)
		}
		all = append(all, r)
	}
	return all
}

// Take implements journal.Total.
func (t *table) Take(text []byte) error {
	var r record
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return err
	}
	name, kinds := r.Put, 0
	for _, has := range []bool{r.Delete != "", r.Value != nil, len(r.Piece) > 0} {
		if has {
			kinds++
		}
	}
	if r.Delete != "" {
		name = r.Delete
	}
	if (r.Put == "") == (r.Delete == "") || kinds != 1 || CheckName(name) != nil || r.Part > r.Of || r.Part < 0 {
		return errors.New("not a write")
	}
	if r.Part == 0 && r.Of == 0 {
		r.Part, r.Of = 1, 1
	}
	if r.Part == 1 {
		t.parts = nil // an update that was not written to its end
	} else if len(t.parts) != r.Part-1 || r.Part == 0 || t.parts[0].Of != r.Of {
		return fmt.Errorf("part %d of an update without the part before it", r.Part)
	}
	t.parts = append(t.parts, r)
	if r.Part < r.Of {
		return nil
	}
	parts := t.parts
	t.parts = nil
	return t.apply(parts)
}

// apply applies the records of an update.
func (t *table) apply(parts []record) error {
	for i := 0; i < len(parts); i++ {
		r := parts[i]
		if r.Delete != "" {
			t.delete(r.Delete)
			continue
		}
		value := []byte(r.Value)
		if r.Piece != nil {
			for ; i < len(parts) && parts[i].Piece != nil && parts[i].Put == r.Put; i++ {
				value = append(value, parts[i].Piece...)
			}
			i--
		}
		if value[0] != '{' || len(value) > MaxValue || r.Piece != nil && !json.Valid(value) {
			return errors.New("not a value")
		}
		t.put(Row{r.Put, value})
	}
	return nil
}

// Records implements journal.Total.
func (t *table) Records() (all [][]byte) {
	for row := range t.from("") {
		for _, r := range recordsOf([]Row{row}) {
			b, _ := json.Marshal(r) // of texts and valid JSON
			all = append(all, b)
		}
	}
	return all
}
