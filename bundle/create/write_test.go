package create

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

// Who makes the first manifest while another one signs it keeps the signature, and so does the other.
func TestCreateMeanwhile(t *testing.T) {
	w := newWorld(t)
	locks := 0
	w.o.Lock = func(_ context.Context, path string) (func(), error) {
		if path != filepath.Join(w.dir, filepath.FromSlash(at)) {
			t.Errorf("%s is locked", path)
		}
		locks++
		return func() { locks-- }, nil
	}
	theirs := w.o
	theirs.Sign = func(d *manifest.Document) error { return d.Sign(eve, created) }
	mine := w.o.Sign
	w.o.Sign = func(d *manifest.Document) error {
		if w.signs.Load() == 0 {
			if _, err := Create(t.Context(), theirs); err != nil {
				t.Error(err)
			}
		}
		return mine(d)
	}
	r := w.create()
	if len(r.Signatures) != 2 || !r.Written || w.signs.Load() != 2 || strings.Count(w.read(at), "# rye:signed:") != 2 {
		t.Errorf("signed %d times, %d signatures:\n%s", w.signs.Load(), len(r.Signatures), w.read(at))
	}
	if r := w.create(); r.Written || len(r.Signatures) != 2 {
		t.Errorf("written again: %v", r.Signatures)
	}
	if locks != 0 {
		t.Errorf("%d locks are held", locks)
	}
	busy := errors.New("busy")
	w.o.Lock = func(context.Context, string) (func(), error) { return nil, busy }
	if _, err := Create(t.Context(), w.o); err != busy {
		t.Error(err)
	}
}

// A dry run says what would be made, and neither signs nor writes nor remembers.
func TestDryRun(t *testing.T) {
	w := newWorld(t)
	w.remember()
	w.o.DryRun = true
	r := w.create()
	if r.Written || r.Items == 0 || len(r.Signatures) != 0 || w.signs.Load() != 0 || r.ID.IsZero() {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(w.path(".ai/bundles")); err == nil {
		t.Error("a manifest was written")
	}
	if missing, err := w.o.Store.Missing(t.Context(), []cas.ID{{Kind: cas.Document, Digest: r.ID}}); err != nil ||
		len(missing) != 1 {
		t.Errorf("the document is in the store: %v", err)
	}
	w.o.DryRun = false
	if made := w.create(); made.ID != r.ID || made.Remembered {
		t.Errorf("%+v", made)
	}
	w.write("docs/a.md", "api_key = \"Xk29sLq84mZp0Rt7Vw3Nc6Bj1Hf5\"\n")
	w.o.DryRun = true
	w.refused(`"docs/a.md": line 1, column 1: looks like a secret (assignment: api_key= …)`)
}
