package cas_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/castest"
	"github.com/rye-build/rye/cas/portable"
)

// stores are the ways a store may be written: with batches, and without.
func stores(m *cas.Memory) map[string]cas.Store {
	return map[string]cas.Store{"batches": m, "puts": struct{ cas.Store }{m}}
}

// everyWay runs f with each kind of source and destination, which is empty.
func (b *builder) everyWay(f func(name string, dst cas.Store, m *cas.Memory, src cas.Getter)) {
	for read, src := range getters(&b.store) {
		for _, write := range []string{"batches", "puts"} {
			m := new(cas.Memory)
			f(read+" to "+write, stores(m)[write], m, src)
		}
	}
}

// wantSame checks that a store holds these objects and no others.
func wantSame(t *testing.T, what string, m *cas.Memory, want []cas.ID) {
	t.Helper()
	left := make(map[cas.ID]bool)
	for _, id := range want {
		left[id] = true
	}
	for info, err := range m.List(t.Context()) {
		if err != nil || !left[info.ID] {
			t.Errorf("%s: %v is there, %v", what, info, err)
		}
		delete(left, info.ID)
	}
	for id := range left {
		t.Errorf("%s: %v is not there", what, id)
	}
}

func TestCopy(t *testing.T) {
	b := newBuilder(t)
	root := b.sample()
	sample := slices.Clone(b.ids)
	document := cas.ID{Kind: cas.Document, Digest: b.put(cas.Document, []byte("rye: \"manifest/2\"\n"))}
	alone := cas.ID{Kind: cas.Blob, Digest: b.put(cas.Blob, castest.Random(1, 400<<10))}
	empty := b.tree()
	b.put(cas.Blob, []byte("unrelated"))
	all := append(slices.Clone(sample), document, alone, empty)
	b.everyWay(func(name string, dst cas.Store, m *cas.Memory, src cas.Getter) {
		stats, err := cas.Copy(t.Context(), dst, src, root)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		wantSame(t, name, m, sample)
		var size int64
		for _, id := range sample {
			size += int64(len(b.bytes[id]))
		}
		if want := (cas.CopyStats{Objects: int64(len(sample)), Bytes: size}); stats != want {
			t.Errorf("%s: %+v, want %+v", name, stats, want)
		}

		stats, err = cas.Copy(t.Context(), dst, src, root)
		if want := (cas.CopyStats{Present: int64(len(sample))}); err != nil || stats != want {
			t.Errorf("%s: again: %+v, %v; want %+v", name, stats, err, want)
		}
		// All of it is there, so nothing is asked of the source.
		if _, err = cas.Copy(t.Context(), dst, new(cas.Memory), root); err != nil {
			t.Errorf("%s: from nowhere: %v", name, err)
		}

		stats, err = cas.Copy(t.Context(), dst, src, alone, root, document, root, empty, alone)
		if err != nil || stats.Objects != 3 || stats.Present != int64(len(sample)) {
			t.Errorf("%s: several: %+v, %v", name, stats, err)
		}
		wantSame(t, name, m, all)
		if stats, err = cas.Copy(t.Context(), dst, src); err != nil || stats != (cas.CopyStats{}) {
			t.Errorf("%s: nothing: %+v, %v", name, stats, err)
		}
	})
}

// TestCopyCompletes: whichever objects are there already, the rest come, and only the rest.
func TestCopyCompletes(t *testing.T) {
	b := newBuilder(t)
	root := b.sample()
	for n, without := range b.ids {
		b.everyWay(func(name string, dst cas.Store, m *cas.Memory, src cas.Getter) {
			for i, id := range b.ids {
				if id != without && (i+n)%3 != 0 {
					put(t, m, id.Kind, b.bytes[id])
				}
			}
			before := count(m)
			stats, err := cas.Copy(t.Context(), dst, src, root)
			if err != nil || stats.Objects != int64(len(b.ids)-before) || stats.Present != int64(before) {
				t.Errorf("%s: %+v, %v; %d of %d were there", name, stats, err, before, len(b.ids))
			}
			wantSame(t, name, m, b.ids)
		})
	}
}

func count(m *cas.Memory) (n int) {
	for range m.List(context.Background()) {
		n++
	}
	return n
}

func TestCopyMany(t *testing.T) {
	b := newBuilder(t)
	var top []cas.Entry
	for i := range 100 {
		top = append(top, b.dir(fmt.Sprintf("top%03d", i), b.generate(6)...))
	}
	root := b.tree(top...)
	b.everyWay(func(name string, dst cas.Store, m *cas.Memory, src cas.Getter) {
		asked := &asking{Store: dst}
		if batcher, ok := dst.(cas.Batcher); ok {
			asked.batcher = batcher
			dst = asked
		} else {
			dst = struct{ cas.Store }{asked}
		}
		if _, err := cas.Copy(t.Context(), dst, src, root); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		wantSame(t, name, m, b.ids)
		// Once a level, once for every further thousand trees, and once for the files.
		if n, most := int(asked.times.Load()), 8+len(b.ids)/1000+1; n > most {
			t.Errorf("%s: was asked %d times what is missing of %d, at most %d is allowed", name, n, len(b.ids), most)
		}
	})
	if len(b.ids) < 700 {
		t.Errorf("there are only %d objects", len(b.ids))
	}
}

// An asking store counts how often it is asked what is missing.
type asking struct {
	cas.Store
	batcher cas.Batcher
	times   atomic.Int32
}

func (a *asking) Missing(ctx context.Context, ids []cas.ID) ([]cas.ID, error) {
	a.times.Add(1)
	return a.Store.Missing(ctx, ids)
}

func (a *asking) Batch(ctx context.Context) (cas.Batch, error) {
	b, err := a.batcher.Batch(ctx)
	return &askingBatch{b, a}, err
}

type askingBatch struct {
	cas.Batch
	a *asking
}

func (b *askingBatch) Missing(ctx context.Context, ids []cas.ID) ([]cas.ID, error) {
	b.a.times.Add(1)
	return b.Batch.Missing(ctx, ids)
}

// A strict store takes a tree only when it has all that the tree names, and fails on request.
type strict struct {
	cas.Store
	t     *testing.T
	after atomic.Int32 // puts until it fails; never if negative
}

var errPut = errors.New("the disk is full")

func (s *strict) Put(ctx context.Context, kind cas.Kind, r io.Reader) (cas.Info, error) {
	if s.after.Add(-1) == 0 {
		return cas.Info{}, errPut
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return cas.Info{}, err
	}
	if kind == cas.TreeKind {
		err := cas.DecodeTree(b, func(e cas.Entry) error {
			if missing, err := s.Missing(ctx, []cas.ID{e.ID()}); err != nil || len(missing) > 0 {
				s.t.Errorf("a tree was put before %q of it, %v", e.Name, err)
			}
			return nil
		})
		if err != nil {
			s.t.Error(err)
		}
	}
	return s.Store.Put(ctx, kind, bytes.NewReader(b))
}

// TestCopyInOrder: without batches, what a tree names comes before it, also when the copy fails at any place
// and is begun again.
func TestCopyInOrder(t *testing.T) {
	b := newBuilder(t)
	late := b.dir("late", b.file("f", "late")) // reached at once, and again from the deepest place
	root := b.tree(late, b.dir("a", b.dir("b", b.dir("c", late, b.file("g", "g")))), b.dir("z", b.generate(4)...))
	for at := range int32(len(b.ids) + 1) {
		var m cas.Memory
		dst := &strict{Store: &m, t: t}
		dst.after.Store(at + 1)
		_, err := cas.Copy(t.Context(), struct{ cas.Store }{dst}, &b.store, root)
		if want := int(at) < len(b.ids); want != errors.Is(err, errPut) || !want && err != nil {
			t.Errorf("with put number %d failing: error %v", at+1, err)
		}
		if _, err := cas.Copy(t.Context(), struct{ cas.Store }{dst}, &b.store, root); err != nil {
			t.Errorf("again after put number %d failed: %v", at+1, err)
		}
		wantSame(t, "again", &m, b.ids)
	}
}

func TestCopyMissing(t *testing.T) {
	b := newBuilder(t)
	root := b.sample()
	paths := map[cas.ID]string{}
	_ = cas.Walk(t.Context(), &b.store, root, func(path string, e cas.Entry) error {
		if paths[e.ID()] == "" {
			paths[e.ID()] = path
		}
		return nil
	})
	for _, absent := range b.ids {
		less := newBuilder(t)
		for id, data := range b.bytes {
			if id != absent {
				less.put(id.Kind, data)
			}
		}
		less.everyWay(func(name string, dst cas.Store, m *cas.Memory, src cas.Getter) {
			_, err := cas.Copy(t.Context(), dst, src, root)
			missing := readMissing(err)
			if !errors.Is(err, fs.ErrNotExist) || missing.id != absent {
				t.Fatalf("%s: without %q: error %v", name, paths[absent], err)
			}
			// An object at several paths is missed at any of them.
			found, inParent := absent == root, absent == root
			_ = cas.Walk(t.Context(), &b.store, root, func(path string, e cas.Entry) error {
				found = found || e.ID() == absent && path == missing.path
				return nil
			})
			_ = cas.DecodeTree(b.bytes[missing.parent], func(e cas.Entry) error {
				inParent = inParent || e.ID() == absent && (missing.path == e.Name || strings.HasSuffix(missing.path, "/"+e.Name))
				return nil
			})
			if !found || !inParent {
				t.Errorf("%s: without %q: error %v", name, paths[absent], err)
			}
			if _, ok := dst.(cas.Batcher); ok || absent.Kind == cas.TreeKind {
				wantSame(t, name, m, nil)
			}
		})
	}
}

// TestCopyCorrupt: whatever happens to any byte of any object, the copy is refused, and no object gets in that
// is not one of the source's.
func TestCopyCorrupt(t *testing.T) {
	b := newBuilder(t)
	root := b.tree(b.file("a", "some text\n"), b.exec("empty", ""), b.dir("d", b.file("long", string(castest.Text(1, 600<<10)))))
	sample := 40 // of the damages of what is long one in so many: each takes long
	if testing.Short() {
		sample = 160
	}
	for _, victim := range b.ids {
		n := 0
		for what, changed := range castest.Damages(b.bytes[victim]) {
			if n++; len(b.bytes[victim]) > 1<<16 && n%sample != 0 {
				continue
			}
			corrupt := castest.Corrupt(&b.store, replace(victim, changed))
			for read, src := range map[string]cas.Getter{"getter": corrupt, "visitor": castest.Visiting(corrupt)} {
				for _, write := range []string{"batches", "puts"} {
					m := new(cas.Memory)
					_, err := cas.Copy(t.Context(), stores(m)[write], src, root)
					if damage, ok := errors.AsType[*cas.DamagedError](err); !ok || damage.ID != victim {
						t.Errorf("%s to %s: %v with %s: error %v", read, write, victim, what, err)
					}
					if write == "batches" {
						wantSame(t, what, m, nil)
					}
					for info := range m.List(t.Context()) {
						if b.bytes[info.ID] == nil {
							t.Errorf("%s to %s: %v with %s: got in as %v", read, write, victim, what, info)
						}
					}
				}
			}
		}
	}
}

// TestCopyLyingSizes: right bytes with another length are refused too, and a length alone costs nothing.
func TestCopyLyingSizes(t *testing.T) {
	b := newBuilder(t)
	root := b.tree(b.file("a", "some text\n"), b.dir("d", b.file("long", string(castest.Text(1, 600<<10)))))
	for _, victim := range b.ids {
		for _, size := range []int64{-1, 0, int64(len(b.bytes[victim])) - 1, int64(len(b.bytes[victim])) + 1, 31 << 20, 1 << 40, 1<<63 - 1, -1 << 63} {
			lie := func(id cas.ID, b []byte) (int64, []byte) {
				if id == victim {
					return size, b
				}
				return int64(len(b)), b
			}
			for _, id := range []cas.ID{root, victim} {
				for _, write := range []string{"batches", "puts"} {
					m := new(cas.Memory)
					_, err := cas.Copy(t.Context(), stores(m)[write], castest.Corrupt(&b.store, lie), id)
					if damage, ok := errors.AsType[*cas.DamagedError](err); !ok || damage.ID != victim {
						t.Errorf("to %s: %v with the size %d: error %v", write, victim, size, err)
					}
				}
			}
		}
	}
}

func TestCopyHostileTrees(t *testing.T) {
	b := newBuilder(t)
	wrong := b.file("a", "some text\n")
	wrong.Size++
	for name, root := range map[string]cas.ID{
		"a wrong size":      b.tree(wrong),
		"two sizes":         b.tree(b.dir("d", wrong), b.file("a", "some text\n")),
		"not a tree":        {Kind: cas.TreeKind, Digest: b.put(cas.TreeKind, []byte("rye: \"tree/2\"\nfiles:\n"))},
		"a later tree":      {Kind: cas.TreeKind, Digest: b.put(cas.TreeKind, []byte("rye: \"tree/3\"\n"))},
		"below, not a tree": b.tree(dirOf("d", cas.ID{Kind: cas.TreeKind, Digest: b.put(cas.TreeKind, []byte("x"))})),
		"a blob as a tree":  b.tree(dirOf("d", cas.ID{Kind: cas.TreeKind, Digest: wrong.Digest})),
	} {
		for _, write := range []string{"batches", "puts"} {
			m := new(cas.Memory)
			if _, err := cas.Copy(t.Context(), stores(m)[write], &b.store, root); err == nil {
				t.Errorf("%s was copied to %s", name, write)
			}
			if write == "batches" || name != "a wrong size" {
				wantSame(t, name, m, nil)
			}
		}
	}
}

// TestCopyLongPaths: a path that is too long is found, whether it is the first to its end or another.
func TestCopyLongPaths(t *testing.T) {
	b := newBuilder(t)
	long := strings.Repeat("n", 99)
	short := b.chain(5, long)
	far := short
	for range 5 {
		far = b.tree(dirOf(long, far))
	}
	// Level by level, "a" is seen long before the far end leads to the same tree.
	fits := b.tree(dirOf("a", short), dirOf("b", b.chain(8, long)))
	two := b.tree(dirOf("a", short), dirOf("b", far))
	for _, test := range []struct {
		name  string
		root  []cas.ID
		fails bool
	}{
		{"one", []cas.ID{b.chain(9, long)}, false},
		{"one too long", []cas.ID{b.chain(10, long)}, true},
		{"deep", []cas.ID{b.chain(499, "d")}, false},
		{"too deep", []cas.ID{b.chain(500, "d")}, true},
		{"much too deep", []cas.ID{b.chain(5000, "d")}, true},
		{"two ways", []cas.ID{two}, true},
		{"two short ways", []cas.ID{fits}, false},
		{"two roots", []cas.ID{short, fits}, false},
		{"two roots, one too long", []cas.ID{short, far}, true},
		{"a root in a root", []cas.ID{short, two}, true},
	} {
		for _, write := range []string{"batches", "puts"} {
			m := new(cas.Memory)
			_, err := cas.Copy(t.Context(), stores(m)[write], &b.store, test.root...)
			bad, ok := errors.AsType[*portable.Error](err)
			if ok != test.fails || err != nil && !ok {
				t.Errorf("%s to %s: error %v", test.name, write, err)
			}
			if ok && (bad.Rule != "path-length" || len(bad.Path) <= portable.MaxPath) {
				t.Errorf("%s to %s: error %v, about %d bytes", test.name, write, err, len(bad.Path))
			}
			if test.fails {
				wantSame(t, test.name, m, nil)
			}
		}
	}
}

// TestCopyRepairs: a tree that the destination says it has and can't give back is brought again.
func TestCopyRepairs(t *testing.T) {
	b := newBuilder(t)
	root := b.sample()
	for _, victim := range b.ids {
		if victim.Kind != cas.TreeKind {
			continue
		}
		for _, write := range []string{"batches", "puts"} {
			m := new(cas.Memory)
			for _, id := range b.ids {
				if id != victim {
					put(t, m, id.Kind, b.bytes[id])
				}
			}
			put(t, m, victim.Kind, b.bytes[victim])
			dst := &rotten{Memory: m, bad: castest.Corrupt(m, replace(victim, []byte("rye: \"tree/2\"\n")))}
			var to cas.Store = dst
			if write == "puts" {
				to = struct{ cas.Store }{dst}
			}
			stats, err := cas.Copy(t.Context(), to, &b.store, root)
			if err != nil || stats.Objects != 1 {
				t.Errorf("to %s: with %v rotten: %+v, %v", write, victim, stats, err)
			}
			if _, err := cas.Copy(t.Context(), to, new(cas.Memory), root); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("to %s: with %v rotten and nowhere else: error %v", write, victim, err)
			}
		}
	}
}

// A rotten store gives out something else than it has.
type rotten struct {
	*cas.Memory
	bad cas.Getter
}

func (r *rotten) Get(ctx context.Context, id cas.ID) (cas.Object, error) { return r.bad.Get(ctx, id) }
func (r *rotten) Visit(ctx context.Context, ids []cas.ID, visit func(int, cas.Object) error) error {
	return castest.Visiting(r.bad).(cas.Visitor).Visit(ctx, ids, visit)
}

// TestCopyCarelessStores: a store that breaks its contract doesn't make a copy that looks whole.
func TestCopyCarelessStores(t *testing.T) {
	b := newBuilder(t)
	root := b.sample()
	if _, err := cas.Copy(t.Context(), new(cas.Memory), passing{&b.store}, root); err == nil {
		t.Error("a visitor passed over an object, and it was not noticed")
	}
	if _, err := cas.Copy(t.Context(), struct{ cas.Store }{misnaming{new(cas.Memory)}}, &b.store, root); err == nil {
		t.Error("a store named what it was given wrongly, and it was not noticed")
	}
	if _, err := cas.Copy(t.Context(), struct{ cas.Store }{muddled{new(cas.Memory)}}, &b.store, root); err == nil {
		t.Error("a store lacked what it was not asked for, and it was not noticed")
	}
}

type passing struct{ *cas.Memory }

func (p passing) Visit(ctx context.Context, ids []cas.ID, visit func(int, cas.Object) error) error {
	return p.Memory.Visit(ctx, ids[:len(ids)-1], visit)
}

type misnaming struct{ cas.Store }

func (m misnaming) Put(ctx context.Context, kind cas.Kind, r io.Reader) (cas.Info, error) {
	info, err := m.Store.Put(ctx, kind, r)
	info.Digest[0]++
	return info, err
}

type muddled struct{ cas.Store }

func (m muddled) Missing(ctx context.Context, ids []cas.ID) ([]cas.ID, error) {
	return append(slices.Clone(ids), cas.ID{Kind: cas.Blob}), nil
}

func TestCopyCancelled(t *testing.T) {
	b := newBuilder(t)
	root := b.sample()
	for at := range len(b.ids) + 3 {
		b.everyWay(func(name string, dst cas.Store, m *cas.Memory, src cas.Getter) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var gets atomic.Int32
			counted := castest.Corrupt(src, func(_ cas.ID, b []byte) (int64, []byte) {
				if int(gets.Add(1)) == at {
					cancel()
				}
				return int64(len(b)), b
			})
			if at == 0 {
				cancel()
			}
			_, err := cas.Copy(ctx, dst, counted, root)
			if ctx.Err() == nil {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				wantSame(t, name, m, b.ids)
				return
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: cancelled at %d: error %v", name, at, err)
			}
			if _, ok := dst.(cas.Batcher); ok {
				wantSame(t, name, m, nil)
			}
			if _, err := cas.Copy(t.Context(), dst, src, root); err != nil {
				t.Errorf("%s: again: %v", name, err)
			}
			wantSame(t, name, m, b.ids)
		})
	}
}

func TestCopyTogether(t *testing.T) {
	b := newBuilder(t)
	root := b.tree(b.generate(6)...)
	b.everyWay(func(name string, dst cas.Store, m *cas.Memory, src cas.Getter) {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if _, err := cas.Copy(t.Context(), dst, src, root); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		wg.Wait()
		wantSame(t, name, m, b.ids)
	})
}

func BenchmarkCopy(b *testing.B) {
	src := newBuilder(b)
	var top []cas.Entry
	for i := range 100 {
		var files []cas.Entry
		for j := range 100 {
			files = append(files, src.file(fmt.Sprintf("file-%02d.txt", j), fmt.Sprint(i, j, strings.Repeat("text ", j*10))))
		}
		top = append(top, src.dir(fmt.Sprintf("dir-%02d", i), files...))
	}
	root := src.tree(top...)
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := cas.Copy(b.Context(), new(cas.Memory), &src.store, root); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("present", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := cas.Copy(b.Context(), &src.store, &src.store, root); err != nil {
				b.Fatal(err)
			}
		}
	})
}
