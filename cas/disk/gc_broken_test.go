package disk

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestGCBrokenOff ends a gc before each of its operations, and then moves what it left to other packs, which the record
// of garbage doesn't name: what counts as present can be read.
func TestGCBrokenOff(t *testing.T) {
	c := newClock()
	r := c.store(t)
	r.fanout = 1000 // each put stays in a pack of its own
	first := noise(2, 300<<10)
	must(t, r.put("", first))
	must(t, r.put("", append(first[:len(first):len(first)], text(1, 100)...))) // has most of its chunks in the first pack
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
// writers count on nothing, and no janitor goes on before somebody has decided.
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
	if d, ok := errors.AsType[*DoomedError](err); !ok || d.Path != path {
		t.Errorf("gc: %v", err)
	}
	must(t, r.put("more", text(3, 100)))
	must(t, os.Remove(path))
	removed(t, r, GCOptions{}, 0)
	must(t, r.w.check(r.Store))
	must(t, clean(r.Store))
}
