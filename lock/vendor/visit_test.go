package vendor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/rye-build/rye/cas"
)

// visited is what Visit gave of each of ids.
func visited(ctx context.Context, v *Vendor, ids []cas.ID) ([][]byte, error) {
	all := make([][]byte, len(ids))
	var mu sync.Mutex
	err := v.Visit(ctx, ids, func(i int, o cas.Object) error {
		b, err := io.ReadAll(o)
		mu.Lock()
		defer mu.Unlock()
		if all[i] != nil || o.ID != ids[i] || o.Size != int64(len(b)) {
			err = errors.Join(err, errors.New("another object, or one twice"))
		}
		all[i] = append([]byte{}, b...)
		return err
	})
	return all, err
}

func TestVisit(t *testing.T) {
	w := many(t, 300, 8<<10) // which are several packs
	w.put(cas.Blob, nil)
	w.put(cas.Blob, text(1000, maxSmall+1))
	w.bundle("1.0.0", alice)
	w.write()
	var ids []cas.ID
	for _, o := range w.objects {
		ids = append(ids, o.ID)
	}
	ids = append(ids, ids[3], ids[3], ids[len(ids)-1]) // some of them twice
	check := func(what string, ids []cas.ID) {
		t.Helper()
		v, err := Open(w.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		all, err := visited(t.Context(), v, ids)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for i, id := range ids {
			if want, err := get(w.store, id); err != nil || !bytes.Equal(all[i], want) {
				t.Errorf("%s: %s is another one: %v", what, id, err)
			}
		}
	}
	check("all", ids)
	check("a few", ids[:5])
	check("none", nil)

	// Two branches have made packs of different sizes, and git has merged one with itself.
	prefix := ""
	for name, b := range w.files() {
		if p, ok := packPrefix(name); ok && len(p) == 1 {
			prefix = p
			if err := os.WriteFile(filepath.Join(w.dir, name), append([]byte(b), b...), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	i := slices.IndexFunc(ids, func(id cas.ID) bool { return hasPrefix(id.Digest, prefix) })
	b, err := get(w.store, ids[i])
	if err != nil {
		t.Fatal(err)
	}
	small := packName(hex(ids[i].Digest)[:2])
	if err := os.WriteFile(filepath.Join(w.dir, small), appendLine([]byte(head), ids[i], b), 0o644); err != nil {
		t.Fatal(err)
	}
	check("merged", ids)
}

// What is missing or damaged is the error that Get gives, and what visit returns ends it.
func TestVisitBad(t *testing.T) {
	w := many(t, 40, 1000)
	w.write()
	var ids []cas.ID
	for _, o := range w.objects {
		ids = append(ids, o.ID)
	}
	path := filepath.Join(w.dir, "all.pack")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pack []byte
		is   error
	}{
		"damaged":     {bytes.Replace(whole, []byte("# file 7\\n"), []byte("# file 8\\n"), 1), cas.ErrDamaged},
		"missing":     {whole[:bytes.LastIndexByte(whole[:len(whole)-1], '\n')+1], fs.ErrNotExist},
		"cut off":     {whole[:len(whole)-1], errCutOff},
		"not a pack":  {[]byte("all\n"), errNoHead},
		"another end": {bytes.Replace(whole, []byte(" blob "), []byte(" blub "), 1), errLine},
	} {
		if err := os.WriteFile(path, c.pack, 0o644); err != nil {
			t.Fatal(err)
		}
		v, err := Open(w.dir)
		if err != nil {
			t.Fatal(err)
		}
		all, err := visited(t.Context(), v, ids)
		if !errors.Is(err, c.is) {
			t.Errorf("%s: %v", name, err)
		}
		for i, b := range all {
			if b != nil && cas.Sum(b) != ids[i].Digest {
				t.Errorf("%s: %s is another one", name, ids[i])
			}
		}
		v.Close()
	}
	if err := os.WriteFile(path, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	v, err := Open(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	enough := errors.New("enough")
	if err := v.Visit(t.Context(), ids, func(int, cas.Object) error { return enough }); !errors.Is(err, enough) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := v.Visit(ctx, ids, func(int, cas.Object) error { cancel(enough); return nil }); !errors.Is(err, enough) {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := visited(t.Context(), v, ids); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
