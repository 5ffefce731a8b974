package vendor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rye-build/rye/cas"
)

// TestProofs: the directory has exactly the proofs that it was given, and touches none that is there already.
func TestProofs(t *testing.T) {
	w := newWorld(t)
	w.put(cas.Blob, []byte("object"))
	ctx := t.Context()
	if _, err := Write(ctx, w.dir, w.objects, w.store); err != nil {
		t.Fatal(err)
	}
	one, two := cas.Sum([]byte("one")), cas.Sum([]byte("two"))
	give := func(written, removed int, proofs map[cas.Digest][]byte) {
		t.Helper()
		w, r, err := WriteProofs(ctx, w.dir, proofs)
		if err != nil || w != written || r != removed {
			t.Errorf("written %d, removed %d, %v", w, r, err)
		}
	}
	read := func(id cas.Digest) string {
		t.Helper()
		v, err := Open(w.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		text, err := v.Proof(id)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		return string(text)
	}
	give(2, 0, map[cas.Digest][]byte{one: []byte("1"), two: []byte("2")})
	give(0, 0, map[cas.Digest][]byte{one: []byte("1"), two: []byte("2")})
	give(1, 1, map[cas.Digest][]byte{two: []byte("3")})
	if read(one) != "" || read(two) != "3" {
		t.Errorf("%q, %q", read(one), read(two))
	}
	// They are no objects, and writing these leaves them alone.
	if r, err := Write(ctx, w.dir, w.objects, w.store); err != nil || r.Removed+r.Written != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	report, err := Check(ctx, w.dir, w.objects)
	if err != nil || !slices.Equal(report.Proofs, []cas.Digest{two}) || len(report.Foreign)+len(report.Stale) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
	// A link in the place of a proof is replaced, never followed, and other names are those of others.
	path := filepath.Join(w.dir, proofName(two))
	secret := filepath.Join(t.TempDir(), "secret")
	for _, err := range []error{os.Remove(path), os.WriteFile(secret, []byte("secret"), 0o600),
		os.Symlink(secret, path), os.WriteFile(filepath.Join(w.dir, "x.tlog-proof"), nil, 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	v, err := Open(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if text, err := v.Proof(two); err == nil {
		t.Errorf("read %q through a link", text)
	}
	give(1, 0, map[cas.Digest][]byte{two: []byte("3")})
	if b, err := os.ReadFile(secret); err != nil || string(b) != "secret" || read(two) != "3" {
		t.Errorf("%q, %v", b, err)
	}
	give(0, 1, nil)
	report, err = Check(ctx, w.dir, w.objects)
	if err != nil || !slices.Equal(report.Foreign, []string{"x.tlog-proof"}) {
		t.Errorf("%+v, %v", report, err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := WriteProofs(cancelled, w.dir, map[cas.Digest][]byte{one: nil}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, _, err := WriteProofs(ctx, filepath.Join(w.dir, "none"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
