package disk

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// A clock is set by tests.
type clock struct{ t time.Time }

func (c *clock) now() time.Time      { return c.t }
func (c *clock) add(d time.Duration) { c.t = c.t.Add(d) }
func newClock() *clock               { return &clock{time.Unix(1e9, 0)} }
func (c *clock) store(t *testing.T) *run {
	return &run{Store: tinyStore(t, Options{Now: c.now}), w: newWorld()}
}

func removed(t *testing.T, r *run, o GCOptions, want int64) {
	t.Helper()
	got, err := r.GC(t.Context(), o)
	if err != nil || got.Removed != want {
		t.Errorf("gc: %+v, %v; wanted %d to be removed", got, err, want)
	}
}

func TestGrace(t *testing.T) {
	c := newClock()
	r := c.store(t)
	grace := GCOptions{Grace: time.Hour}
	must(t, r.put("main", text(1, 100), text(2, 200)))
	id, err := r.one(text(3, 300))
	must(t, err)
	removed(t, r, grace, 0) // seen now for the first time
	c.add(time.Hour - 1)
	removed(t, r, grace, 0)
	c.add(-48 * time.Hour)
	removed(t, r, grace, 0) // it begins again
	c.add(time.Hour - 1)
	removed(t, r, grace, 0)
	must(t, r.ref("other", id))
	removed(t, r, grace, 0) // reachable, so no more garbage
	must(t, r.ref("other", cas.ID{}))
	c.add(time.Hour)
	removed(t, r, grace, 0)
	c.add(time.Hour)
	must(t, r.w.check(r.Store))
	removed(t, r, GCOptions{Grace: time.Hour, DryRun: true}, 1)
	must(t, r.w.check(r.Store))
	removed(t, r, grace, 1)
	if _, err := r.Get(t.Context(), id); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after gc: %v", err)
	}
	r.w.drop()
	must(t, r.w.check(r.Store))
}

// TestGraceRenewed: putting garbage again begins a new grace period.
func TestGraceRenewed(t *testing.T) {
	c := newClock()
	r := c.store(t)
	grace := GCOptions{Grace: time.Hour}
	r.packObjects = 1000      // so that the two copies are not merged, which would begin the grace again
	blob := noise(1, 300<<10) // in chunks, which are garbage, too
	id, err := r.one(blob)
	must(t, err)
	removed(t, r, grace, 0)
	c.add(time.Hour)
	_, err = r.one(blob)
	must(t, err)
	got, err := r.GC(t.Context(), grace)
	if err != nil || got.Removed == 0 || got.Removed*2 != got.Unreachable {
		t.Errorf("of two copies the old one should go: %+v, %v", got, err)
	}
	must(t, r.w.check(r.Store))
	must(t, r.ref("main", id))
	must(t, clean(r.Store))
}

// TestGraceRenewedBetween: an object that is put again while it is garbage has a grace of its own, also when a gc sees
// both copies before the first one's grace ends.
func TestGraceRenewedBetween(t *testing.T) {
	c := newClock()
	r := c.store(t)
	grace := GCOptions{Grace: time.Hour}
	r.packObjects = 1000
	blob := noise(1, 300<<10)
	id, err := r.one(blob)
	must(t, err)
	removed(t, r, grace, 0)
	c.add(time.Hour / 2)
	_, err = r.one(blob)
	must(t, err)
	removed(t, r, grace, 0)
	c.add(time.Hour / 2)
	_, err = r.GC(t.Context(), grace)
	must(t, err)
	must(t, r.w.check(r.Store))
	must(t, r.ref("main", id))
	must(t, clean(r.Store))
}

// Who began before a gc saw something to be garbage counts on it, and has the whole grace to refer to what needs it.
func TestGraceOfNeeded(t *testing.T) {
	c := newClock()
	r := c.store(t)
	r.packObjects, r.fanout = 1000, 1000
	grace := GCOptions{Grace: time.Hour}
	first := noise(1, 300<<10)
	old, err := r.one(first)
	must(t, err)
	b, err := r.Batch(t.Context())
	must(t, err)
	absent, err := b.Missing(t.Context(), []cas.ID{old}) // which reads the record of garbage
	if err != nil || len(absent) > 0 {
		t.Fatal(absent, err)
	}
	removed(t, r, grace, 0)
	edited := append(first[:len(first):len(first)], text(1, 100)...)
	d, err := b.PutBytes(t.Context(), cas.Blob, edited)
	must(t, err)
	must(t, b.Commit(t.Context()))
	must(t, b.Close())
	id := cas.ID{Kind: cas.Blob, Digest: d}
	r.w.objects[id] = edited
	c.add(time.Hour)
	_, err = r.GC(t.Context(), grace)
	must(t, err)
	delete(r.w.objects, old)
	must(t, r.ref("main", id))
	must(t, r.w.check(r.Store))
	must(t, clean(r.Store))
	must(t, r.ref("main", cas.ID{}))
	for range 2 { // seen to be garbage, and past its grace
		_, err = r.GC(t.Context(), grace)
		must(t, err)
		c.add(time.Hour)
	}
	if got, err := r.GC(t.Context(), grace); err != nil || got.Unreachable != 0 {
		t.Errorf("at last: %+v, %v", got, err)
	}
}

func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			b, err := os.ReadFile(path)
			files[path] = string(b)
			return err
		}
		return err
	}))
	return files
}

func TestDryRun(t *testing.T) {
	r := newClock().store(t)
	must(t, r.put("", text(1, 100), text(2, 200)))
	for _, name := range []string{"tmp/janitor-1", "tmp/ref-1", "tmp/dead-1", "writers/dead", "pins/dead",
		condemnedFile} {
		must(t, os.WriteFile(filepath.Join(r.dir, name), []byte("left behind"), 0o600))
	}
	before := listing(t, r.dir)
	removed(t, r, GCOptions{DryRun: true}, 3)
	if after := listing(t, r.dir); !maps.Equal(before, after) {
		t.Error("a dry run changed the store")
	}
	removed(t, r, GCOptions{}, 3)
	must(t, swept(r.dir))
}

func TestPin(t *testing.T) {
	r := newClock().store(t)
	must(t, r.put("main", text(1, 100), text(2, 200)))
	tree, err := r.Ref("main")
	must(t, err)
	release, err := r.Pin(t.Context(), tree)
	must(t, err)
	must(t, r.ref("main", cas.ID{}))
	removed(t, r, GCOptions{}, 0)
	must(t, r.w.check(r.Store))
	must(t, release())
	removed(t, r, GCOptions{}, 3)
	if _, err := r.Pin(t.Context(), tree); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("pin of what isn't there: %v", err)
	}
	must(t, swept(r.dir))
}

// A ref to a damaged tree might keep anything, so nothing is removed.
func TestGCRefusesDamage(t *testing.T) {
	r := newClock().store(t)
	must(t, r.put("main", noise(1, 100)))
	_, err := r.one(text(3, 300))
	must(t, err)
	tree, err := r.Ref("main")
	must(t, err)
	eachPack(t, r.dir, func(p *pack) {
		e, ok, err := p.lookup(tree.Kind, &tree.Digest)
		must(t, err)
		if ok {
			l, err := p.loc(e.block)
			must(t, err)
			flip(t, p.path, l.off+int64(e.off)+3)
		}
	})
	before := listing(t, filepath.Join(r.dir, "packs"))
	s, err := open(r.dir, Options{})
	must(t, err)
	if _, err := s.GC(t.Context(), GCOptions{}); err == nil {
		t.Error("gc went on over a damaged tree")
	} else if d, ok := errors.AsType[*cas.DamagedError](err); !ok || d.ID != tree {
		t.Errorf("gc: %v", err)
	}
	if !maps.Equal(before, listing(t, filepath.Join(r.dir, "packs"))) {
		t.Error("gc changed packs")
	}
}

// interleave runs gc over copies of a store, each time with one other thing done, by another process, before one
// of its operations. It returns how often there was such a moment.
func interleave(t *testing.T, dir string, now func() time.Time, o GCOptions,
	other func(t *testing.T, s *Store) (after func() error)) int {
	t.Helper()
	for n := 1; ; n++ {
		at := copyDir(t, dir)
		left := n
		var after func() error
		s, err := open(at, Options{Now: now, Wait: 30 * time.Millisecond, Hook: func(op Op) error {
			if left--; left == 0 {
				s, err := open(at, Options{Now: now, Wait: 30 * time.Millisecond})
				must(t, err)
				after = other(t, s)
			}
			return nil
		}})
		must(t, err)
		if _, err = s.GC(t.Context(), o); err != nil {
			if fault.CodeOf(err) != fault.Busy {
				t.Fatalf("gc with another before operation %d: %v", n, err)
			}
		}
		if left > 0 {
			return n - 1
		}
		if after != nil {
			if err := after(); err != nil {
				t.Fatalf("before operation %d: %v", n, err)
			}
		}
		must(t, clean(s))
		must(t, s.Close())
		must(t, os.RemoveAll(at))
	}
}

// garbageStore has a tree and its files as garbage, in packs with what is reachable.
func garbageStore(t *testing.T, c *clock) (r *run, blobs [][]byte) {
	r = c.store(t)
	blobs = [][]byte{text(1, 100), noise(2, 300<<10), text(3, 3000)}
	must(t, r.put("", blobs...))
	must(t, r.put("main", text(4, 100), text(5, 200)))
	_, err := r.Repack(t.Context())
	must(t, err)
	return r, blobs
}

// TestGCBesideWriters puts what is garbage, and refers to it, at every moment of a gc.
func TestGCBesideWriters(t *testing.T) {
	c := newClock()
	r, blobs := garbageStore(t, c)
	for _, hold := range []bool{false, true} { // until the ref is set, or not
		n := interleave(t, r.dir, c.now, GCOptions{}, func(t *testing.T, s *Store) func() error {
			w := &run{Store: s, w: newWorld()}
			if hold {
				if err := w.put("kept", blobs...); err == nil {
					return func() error { return w.w.check(s) }
				}
			} else {
				must(t, w.put("", blobs...))
			}
			// The gc held the lock of the refs, or nothing held the objects: the ref comes afterwards.
			var tree cas.ID
			for id := range w.w.objects {
				if id.Kind == cas.TreeKind {
					tree = id
				}
			}
			return func() error {
				err := w.ref("kept", tree)
				if errors.Is(err, fs.ErrNotExist) && !hold {
					return nil // without grace a gc may come between the two
				}
				if err != nil {
					return err
				}
				return w.w.check(s)
			}
		})
		if n < 10 {
			t.Errorf("only %d moments", n)
		}
	}
}

// TestGCBesidePut puts what has been garbage for long at every moment of a gc with grace, and refers to it only
// when the gc is done.
func TestGCBesidePut(t *testing.T) {
	c := newClock()
	r, blobs := garbageStore(t, c)
	grace := GCOptions{Grace: time.Hour}
	removed(t, r, grace, 0)
	c.add(time.Hour)
	interleave(t, r.dir, c.now, grace, func(t *testing.T, s *Store) func() error {
		w := &run{Store: s, w: newWorld()}
		must(t, w.put("", blobs...))
		return func() error {
			for id := range w.w.objects {
				if err := w.ref("kept", id); err != nil {
					return err
				}
			}
			return w.w.check(s)
		}
	})
}

// TestGCBesideHealing puts a tree that was missing below a ref at every moment of a gc. What it refers to was
// garbage until then.
func TestGCBesideHealing(t *testing.T) {
	c := newClock()
	r := c.store(t)
	blob := text(1, 500)
	below, err := cas.AppendTree(nil, []cas.Entry{{Name: "f", Mode: cas.File, Digest: cas.Sum(blob),
		Size: int64(len(blob))}})
	must(t, err)
	above, err := cas.AppendTree(nil, []cas.Entry{{Name: "d", Mode: cas.Dir, Digest: cas.Sum(below)}})
	must(t, err)
	i, err := r.Put(t.Context(), cas.TreeKind, bytes.NewReader(above))
	must(t, err)
	must(t, r.PutRef(t.Context(), "main", i.ID))
	_, err = r.one(blob)
	must(t, err)
	for n := 1; ; n++ {
		at := copyDir(t, r.dir)
		early, err := open(at, Options{})
		must(t, err)
		b, err := early.Batch(t.Context()) // before gc began
		must(t, err)
		left := n
		s, err := open(at, Options{Wait: 30 * time.Millisecond, Hook: func(Op) error {
			if left--; left == 0 {
				for kind, x := range map[cas.Kind][]byte{cas.TreeKind: below, cas.Blob: blob} {
					_, err := b.PutBytes(t.Context(), kind, x)
					must(t, err)
				}
				must(t, b.Commit(t.Context()))
				must(t, b.Close())
			}
			return nil
		}})
		must(t, err)
		s.GC(t.Context(), GCOptions{}) // busy where the batch goes on
		if left > 0 {
			break
		}
		must(t, cas.Walk(t.Context(), s, i.ID, func(_ string, e cas.Entry) error {
			if e.Mode == cas.Dir {
				return nil
			}
			o, err := s.Get(t.Context(), e.ID())
			if err == nil {
				_, err = io.Copy(io.Discard, o)
			}
			return err
		}))
		must(t, clean(s))
	}
}

// A record that can't be read is taken for the worst while a gc is at work, and for none when none is.
func TestCondemnedDamaged(t *testing.T) {
	r := newClock().store(t)
	must(t, r.put("main", text(1, 100)))
	must(t, os.WriteFile(filepath.Join(r.dir, condemnedFile), []byte("?"), 0o600))
	must(t, r.w.check(r.Store))
	lock, err := r.acquire(t.Context(), janitorLock)
	must(t, err)
	if err := r.w.check(r.Store); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("beside a gc: %v", err)
	}
	must(t, r.w.readable(r.Store))
	must(t, lock.Close())
	must(t, r.w.check(r.Store))
}

// What a gc is about to remove can still be named: it sees that before it does.
func TestNameCondemned(t *testing.T) {
	r := newClock().store(t)
	id, err := r.one(text(1, 100))
	must(t, err)
	snap, err := r.load()
	must(t, err)
	defer snap.release()
	lock, err := r.acquire(t.Context(), janitorLock)
	must(t, err)
	lines := linesOf([]unreachable{{e: entry{digest: id.Digest, kind: id.Kind}}})[:keyLine]
	must(t, r.writeRecord(condemnedFile, snap.packs, lines))
	absent, err := r.Missing(t.Context(), []cas.ID{id})
	if err != nil || len(absent) != 1 {
		t.Errorf("it does not count as missing: %v", err)
	}
	release, err := r.Pin(t.Context(), id)
	must(t, err)
	must(t, release())
	must(t, r.ref("main", id))
	must(t, lock.Close())
	removed(t, r, GCOptions{}, 0)
	must(t, r.w.check(r.Store))
}
