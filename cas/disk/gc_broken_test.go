package disk

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// TestGCBrokenOff ends a gc before each of its operations, and then moves what it left to other packs, which the
// record of garbage doesn't name: what counts as present can be read.
func TestGCBrokenOff(t *testing.T) {
	c := newClock()
	r := c.store(t)
	r.fanout = 1000 // each put stays in a pack of its own
	first := noise(2, 300<<10)
	must(t, r.put("", first))
	// has most of its chunks in the first pack
	must(t, r.put("", append(first[:len(first):len(first)], text(1, 100)...)))
	must(t, r.put("main", text(3, 100)))
	r.w.drop()
	for n := 1; ; n++ {
		at := copyDir(t, r.dir)
		left := n
		s, err := open(at, Options{Now: c.now, Hook: func(Op) error {
			if left--; left <= 0 {
				return syscall.EIO
			}
			return nil
		}})
		must(t, err)
		s.GC(t.Context(), GCOptions{})
		must(t, s.Close())
		if left > 0 {
			if n < 20 {
				t.Errorf("only %d operations", n)
			}
			return
		}
		s, err = open(at, Options{Now: c.now})
		must(t, err)
		for _, then := range []func() error{
			func() error { return nil },
			func() error { _, err := s.Repack(t.Context()); return err },
		} {
			must(t, then())
			for _, err := range []error{r.w.check(s), clean(s)} {
				if err != nil {
					t.Errorf("before operation %d: %v", n, err)
				}
			}
		}
		must(t, s.Close())
	}
}

// TestDoomedDamaged damages the record of packs that a gc was removing: what is left of them may lack parts, so that
// writers count on nothing, and no janitor runs before the user decides.
func TestDoomedDamaged(t *testing.T) {
	r := newClock().store(t)
	must(t, r.put("main", text(1, 100), noise(2, 300<<10)))
	path := filepath.Join(r.dir, doomedFile)
	must(t, os.WriteFile(path, []byte("odd"), 0o600))
	must(t, r.w.readable(r.Store))
	must(t, clean(r.Store))
	all := slices.Collect(maps.Keys(r.w.objects))
	if absent, err := r.Missing(t.Context(), all); err != nil || len(absent) != len(all) {
		t.Errorf("of %d objects %d are missing, %v", len(all), len(absent), err)
	}
	_, err := r.GC(t.Context(), GCOptions{})
	if fault.CodeOf(err) != fault.Integrity || !strings.Contains(err.Error(), strconv.Quote(path)) {
		t.Errorf("gc: %v", err)
	}
	must(t, r.put("more", text(3, 100)))
	must(t, os.Remove(path))
	removed(t, r, GCOptions{}, 0)
	must(t, r.w.check(r.Store))
	must(t, clean(r.Store))
}

// TestGCBesideSlowWriter has a writer that began before a gc without grace count on what that is about to remove, and
// end while it waits: what the writer put can be read, or is put again.
func TestGCBesideSlowWriter(t *testing.T) {
	r := newClock().store(t)
	r.packObjects, r.fanout = 1000, 1000
	first := noise(1, 300<<10)
	must(t, r.put("", first))
	must(t, r.put("main", text(3, 100)))
	r.w.drop()
	b, err := r.Batch(t.Context())
	must(t, err)
	for id := range r.w.dropped { // which reads the record of garbage
		absent, err := b.Missing(t.Context(), []cas.ID{id})
		if err != nil || len(absent) > 0 {
			t.Fatal(absent, err)
		}
	}
	other, err := open(r.dir, Options{Wait: time.Minute})
	must(t, err)
	defer other.Close()
	var wait sync.WaitGroup
	wait.Go(func() {
		if _, err := other.GC(t.Context(), GCOptions{}); err != nil {
			t.Error(err)
		}
	})
	for {
		if _, err := os.Lstat(filepath.Join(r.dir, condemnedFile)); err == nil {
			break
		}
		runtime.Gosched()
	}
	edited := append(first[:len(first):len(first)], text(1, 100)...)
	d, err := b.PutBytes(t.Context(), cas.Blob, edited)
	must(t, err)
	must(t, b.Commit(t.Context()))
	must(t, b.Close())
	wait.Wait()
	r.w.dropped[cas.ID{Kind: cas.Blob, Digest: d}] = edited
	must(t, r.w.check(r.Store))
	must(t, clean(r.Store))
}
