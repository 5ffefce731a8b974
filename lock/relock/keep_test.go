package relock_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/gcroot"
)

// TestKeep: gc leaves alone what the lock of a project names, and what a set in use names, until both
// are gone.
func TestKeep(t *testing.T) {
	w := shop(t).build()
	set := w.set()
	objects, err := set.Objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	store, err := disk.Open(filepath.Join(t.TempDir(), "store"), disk.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ids := make([]cas.ID, len(objects))
	put := func() {
		t.Helper()
		for i, o := range objects {
			ids[i] = o.ID
			from, err := w.Get(t.Context(), o.ID)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Put(t.Context(), o.Kind, from); err != nil {
				t.Fatal(err)
			}
			from.Close()
		}
	}
	put()
	lacking := func() int {
		t.Helper()
		for range 2 { // what one gc has seen unreachable, the next one removes
			if _, err := store.GC(t.Context(), disk.GCOptions{Grace: time.Nanosecond}); err != nil {
				t.Fatal(err)
			}
		}
		missing, err := store.Missing(t.Context(), ids)
		if err != nil {
			t.Fatal(err)
		}
		return len(missing)
	}
	const path = "/somewhere/rye.lock"
	if err := gcroot.Lock(t.Context(), store, path, objects); err != nil {
		t.Fatal(err)
	}
	if n := lacking(); n > 0 {
		t.Fatalf("%d objects of the lock are gone", n)
	}
	refs, err := store.Refs()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, r := range refs {
		switch at, err := gcroot.Path(t.Context(), store, r.Name); {
		case err != nil:
			t.Error(err)
		case at == path:
			found++
		case at != "":
			t.Errorf("%s is of %q", r.Name, at)
		}
	}
	if found != 1 {
		t.Errorf("%d refs are of the lock", found)
	}
	// While another lock is written in its place both are kept, a second time too; then the new one alone.
	fewer := slices.DeleteFunc(slices.Clone(objects), func(o lock.Object) bool { return o.Kind != cas.Blob })[:1]
	for range 2 {
		died := errors.New("died")
		if err := gcroot.Commit(t.Context(), store, path, fewer, func() error { return died }); err != died {
			t.Fatal(err)
		}
	}
	if err := gcroot.Commit(t.Context(), store, path, fewer, func() error {
		if n := lacking(); n > 0 {
			t.Errorf("%d objects of the lock that is there are gone", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := len(ids) - 1
	for _, id := range ids {
		if id.Digest == cas.Sum(nil) {
			want-- // the list of no documents has the same bytes
		}
	}
	if n := lacking(); n != want {
		t.Errorf("%d of %d objects are gone, want %d: the new lock names one", n, len(ids), want)
	}
	put()
	if err := gcroot.Lock(t.Context(), store, path, objects); err != nil {
		t.Fatal(err)
	}
	if n := lacking(); n > 0 {
		t.Errorf("%d objects of the lock are gone", n)
	}
	release, err := gcroot.Hold(t.Context(), store, set)
	if err != nil {
		t.Fatal(err)
	}
	if err := gcroot.Forget(t.Context(), store, path); err != nil {
		t.Fatal(err)
	}
	if n := lacking(); n > 0 {
		t.Errorf("%d objects are gone while the set is in use", n)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if n := lacking(); n != len(ids) {
		t.Errorf("%d of %d objects are gone, and nothing needs any", n, len(ids))
	}
}
