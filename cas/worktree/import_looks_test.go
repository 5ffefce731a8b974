package worktree

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
)

// What is looked at may be refused, at any length, and need not be read to its end to be stored.
func TestImportLooks(t *testing.T) {
	for _, text := range []string{"short", strings.Repeat("long ", readWhole)} {
		dir, no := t.TempDir(), errors.New("no")
		put(t, dir, "a", text)
		var s cas.Memory
		for _, read := range []int64{0, 3, math.MaxInt64} {
			look := func(_ string, r io.Reader) error {
				io.CopyN(io.Discard, r, read)
				return no
			}
			if _, err := tryImport(t.Context(), &s, dir, Options{Look: look}); !errors.Is(err, no) {
				t.Errorf("%d bytes, %d of them read: %v", len(text), read, err)
			}
			no = nil
			r := importInto(t, &s, dir, Options{Look: look})
			same(t, contents(t, &s, r.ID, "", map[string]string{}), map[string]string{"a": text})
			no = errors.New("no")
		}
	}
}

// A file that can't be read, or stored, isn't looked at for ever.
func TestImportLooksAtWhatFails(t *testing.T) {
	dir, no := t.TempDir(), errors.New("full")
	put(t, dir, "a", strings.Repeat("long ", readWhole))
	var seen error
	look := func(_ string, r io.Reader) error {
		_, seen = io.Copy(io.Discard, r)
		return seen
	}
	batch := fullBatch{hashing{}, no}
	if _, err := Import(t.Context(), batch, dir, Options{Look: look}); !errors.Is(err, no) || !errors.Is(seen, no) {
		t.Errorf("%v, and seen was %v", err, seen)
	}
}

// A fullBatch fails in the middle of a long object.
type fullBatch struct {
	cas.Batch
	err error
}

func (b fullBatch) Put(_ context.Context, _ cas.Kind, r io.Reader) (cas.Info, error) {
	io.CopyN(io.Discard, r, readWhole)
	return cas.Info{}, b.err
}
