package checkedbolt

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"
)

// TestPutAll: values that are read while others are written are those that Put would write. An error of one of them,
// or of the file, ends the reading.
func TestPutAll(t *testing.T) {
	const n, size = 300, 64 << 10
	values := func(read *int, bad int) func(yield func(Value) bool) {
		return func(yield func(Value) bool) {
			for i := range n {
				v := Value{key(i), size, func(to []byte) error {
					*read++
					copy(to, valueOf(i, size))
					if i == bad {
						return fs.ErrInvalid
					}
					return nil
				}}
				if !yield(v) {
					return
				}
			}
		}
	}
	path := filepath.Join(t.TempDir(), "x.db")
	for _, bad := range []int{-1, 0, n / 2} {
		read := 0
		err := Update(t.Context(), path, format, time.Second, func(b *Batch) error {
			must(t, b.Clear())
			return b.PutAll(values(&read, bad))
		})
		if bad >= 0 {
			if !errors.Is(err, fs.ErrInvalid) || read <= bad || read > bad+valuesAhead+3 {
				t.Errorf("%d: %v, and %d were read", bad, err, read)
			}
			continue
		}
		must(t, err)
		if good, err := readAll(t, path, n, size); good != n || err != nil {
			t.Errorf("%d of %d, %v", good, n, err)
		}
	}
	read := 0
	err := Update(t.Context(), path, format, time.Second, func(b *Batch) error {
		must(t, b.tx.Rollback())
		return b.PutAll(values(&read, -1))
	})
	if err == nil || read > valuesAhead+2 {
		t.Errorf("%v, and %d were read", err, read)
	}
}
