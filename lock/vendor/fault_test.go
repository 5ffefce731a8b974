package vendor

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/cas"
)

var errDead = errors.New("dead")

// dying lets so many changes happen and none after that, as when a process dies.
type dying struct {
	mu        sync.Mutex
	left, ops int
}

func (d *dying) do(string, string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ops++
	if d.left--; d.left < 0 {
		return errDead
	}
	return nil
}

// TestDying lets the process die before each change on disk: all objects of the old lock are there or all of the new,
// and Write finishes what was begun. Packs gain lines, lose lines, do both, come and go.
func TestDying(t *testing.T) {
	base := many(t, 40, 50_000)
	large := []int{len(base.objects), len(base.objects) + 1}
	base.put(cas.Blob, text(1, 1<<17))
	base.put(cas.Blob, text(2, 1<<17))
	base.bundle("1.0.0", alice)
	base.bundle("2.0.0")
	all := base.objects
	without := func(out ...int) []Object {
		var kept []Object
		for i, o := range all {
			if !slices.Contains(out, i) {
				kept = append(kept, o)
			}
		}
		return kept
	}
	sparse := 4 // of those in the middle one in so many more
	if testing.Short() {
		sparse = 1
	}
	for name, c := range map[string]struct{ old, new []Object }{
		"first":       {nil, all[20:]},
		"one":         {without(1, large[0], 43), without(2, large[1], 42)},
		"packs come":  {all[:15], all},
		"packs go":    {all, all[:15]},
		"all go":      {all, nil},
		"nothing new": {all, all},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := &world{t: t, dir: filepath.Join(t.TempDir(), "vendor"), store: base.store, objects: c.old}
			if c.old != nil {
				start.write()
			}
			// Many changes are alike. Those in the middle, after the new files, are not.
			for n, step := 0, 1; ; n += step {
				step = 1 + n/sparse
				w := &world{t: t, dir: filepath.Join(t.TempDir(), "vendor"), store: base.store, objects: c.new}
				if c.old != nil {
					if err := os.CopyFS(w.dir, os.DirFS(start.dir)); err != nil {
						t.Fatal(err)
					}
				}
				d := &dying{left: n}
				_, err := write(t.Context(), w.dir, c.new, base.store, d.do)
				if err == nil && d.left >= 0 {
					if n == 0 && name != "nothing new" {
						t.Error("nothing changes")
					}
					break
				}
				if err != nil && !errors.Is(err, errDead) {
					t.Fatalf("before change %d: %v", n, err)
				}
				if old := w.whole(c.old); old != nil {
					if new := w.whole(c.new); new != nil {
						t.Fatalf("before change %d: neither the old nor the new is there: %v; %v", n, old, new)
					}
				}
				w.write()
				if err := w.whole(c.new); err != nil || !inOrder(w.check()) {
					t.Fatalf("again, after change %d: %v", n, err)
				}
				if names := slices.Collect(maps.Keys(w.files())); slices.ContainsFunc(names, func(s string) bool {
					return strings.HasPrefix(s, unfinished)
				}) {
					t.Fatalf("after change %d there is %q", n, names)
				}
			}
		})
	}
}

// TestSynced: what packs gain is durable before anything else is replaced or removed, and all is durable in the end:
// after a power failure a clone would have neither the old lock's objects nor the new one's.
func TestSynced(t *testing.T) {
	w := many(t, 40, 50_000)
	all := w.objects
	w.objects = all[:30]
	w.write()
	var ops []string
	_, err := write(t.Context(), w.dir, all[10:], w.store, func(op, name string) error {
		if name == "." || op == "rename" || op == "remove" {
			ops = append(ops, op)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ops = slices.Compact(ops)
	if !slices.Equal(ops, []string{"rename", "syncdir", "rename", "syncdir"}) {
		t.Errorf("%q", ops)
	}
}

// A store that fails in one way.
type failing struct {
	cas.Getter
	change func(*cas.Object) error
}

func (f failing) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	o, err := f.Getter.Get(ctx, id)
	if err == nil {
		err = f.change(&o)
	}
	return o, err
}

type readCloser struct {
	io.Reader
	io.Closer
}

// TestStoreFails believes nothing that the store says, and leaves no file behind.
func TestStoreFails(t *testing.T) {
	w := newWorld(t)
	w.put(cas.Blob, []byte("small"))
	w.put(cas.Blob, text(1, 1<<17))
	w.put(cas.Blob, nil)
	w.write()
	errBroken := errors.New("broken")
	for name, c := range map[string]struct {
		change func(*cas.Object) error
		want   func(error) bool
	}{
		"get": {func(*cas.Object) error {
			return errBroken
		}, func(err error) bool { return errors.Is(err, errBroken) }},
		"other bytes": {func(o *cas.Object) error {
			o.ReadCloser = readCloser{strings.NewReader("other"), o.ReadCloser}
			return nil
		}, isOurs},
		"too long": {func(o *cas.Object) error {
			o.ReadCloser = readCloser{io.MultiReader(o.ReadCloser, strings.NewReader("x")), o.ReadCloser}
			return nil
		}, isOurs},
		"too short": {func(o *cas.Object) error {
			o.ReadCloser = readCloser{io.LimitReader(o.ReadCloser, o.Size-1), o.ReadCloser}
			return nil
		}, isOurs},
		"another size": {func(o *cas.Object) error { o.Size++; return nil }, func(err error) bool {
			return err != nil && strings.Contains(err.Error(), "expected")
		}},
		"while reading": {func(o *cas.Object) error {
			o.ReadCloser = readCloser{io.MultiReader(io.LimitReader(o.ReadCloser, 1), errReader{errBroken}),
				o.ReadCloser}
			return nil
		}, func(err error) bool { return errors.Is(err, errBroken) }},
	} {
		src := failing{w.store, c.change}
		for i := range w.objects[:2] {
			dir := filepath.Join(t.TempDir(), "vendor")
			if _, err := Write(t.Context(), dir, w.objects[i:i+1], src); !c.want(err) {
				t.Errorf("%s, object %d: %v", name, i, err)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("%s: there is %v, %v", name, entries, err)
			}
		}
		// What is there already isn't asked for.
		if _, err := Write(t.Context(), w.dir, w.objects, src); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// TestMeanwhile reads objects while they are written over and over. What both locks name can always be read.
func TestMeanwhile(t *testing.T) {
	w := many(t, 700, 2000)
	always := w.objects[:50]
	w.write()
	done := make(chan struct{})
	var wg sync.WaitGroup
	v, err := Open(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				for _, o := range always {
					if err := same(v, w.store, o.ID); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	all := w.objects
	for i := range 8 {
		w.objects = all[:650+50*(i%2)]
		w.write()
	}
	close(done)
	wg.Wait()
}

func BenchmarkWrite(b *testing.B) { benchmarkWrite(b, true) }
func BenchmarkAgain(b *testing.B) { benchmarkWrite(b, false) }

func benchmarkWrite(b *testing.B, anew bool) {
	w := many(b, 10_000, 4000)
	w.write()
	for b.Loop() {
		if anew {
			w.dir = filepath.Join(b.TempDir(), "vendor")
		}
		w.write()
	}
}

func BenchmarkOpen(b *testing.B) {
	w := many(b, 10_000, 4000)
	w.write()
	for b.Loop() {
		v, err := Open(w.dir)
		if err != nil {
			b.Fatal(err)
		}
		for _, o := range w.objects[:20] {
			if _, err := v.small(o.ID); err != nil {
				b.Fatal(err)
			}
		}
		v.Close()
	}
}

func BenchmarkReadAll(b *testing.B) {
	w := many(b, 10_000, 4000)
	w.write()
	for b.Loop() {
		if err := w.whole(w.objects); err != nil {
			b.Fatal(err)
		}
	}
}
