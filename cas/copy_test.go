package cas_test

import (
	"context"
	"errors"
	"fmt"
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

// everyWay runs f with each kind of source, and an empty destination.
func (b *builder) everyWay(f func(name string, dst *cas.Memory, src cas.Getter)) {
	for name, src := range getters(&b.store) {
		f(name, new(cas.Memory), src)
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
	b.everyWay(func(name string, dst *cas.Memory, src cas.Getter) {
		stats, err := cas.Copy(t.Context(), dst, src, root)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		wantSame(t, name, dst, sample)
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
		wantSame(t, name, dst, all)
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
		b.everyWay(func(name string, dst *cas.Memory, src cas.Getter) {
			for i, id := range b.ids {
				if id != without && (i+n)%3 != 0 {
					put(t, dst, id.Kind, b.bytes[id])
				}
			}
			before := count(dst)
			stats, err := cas.Copy(t.Context(), dst, src, root)
			if err != nil || stats.Objects != int64(len(b.ids)-before) || stats.Present != int64(before) {
				t.Errorf("%s: %+v, %v; %d of %d were there", name, stats, err, before, len(b.ids))
			}
			wantSame(t, name, dst, b.ids)
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
	b.everyWay(func(name string, dst *cas.Memory, src cas.Getter) {
		asked := &asking{Memory: dst}
		if _, err := cas.Copy(t.Context(), asked, src, root); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		wantSame(t, name, dst, b.ids)
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
	*cas.Memory
	times atomic.Int32
}

func (a *asking) Batch(ctx context.Context) (cas.Batch, error) {
	b, err := a.Memory.Batch(ctx)
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
		less.everyWay(func(name string, dst *cas.Memory, src cas.Getter) {
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
			entries, _ := cas.ParseTree(nil, b.bytes[missing.parent])
			for _, e := range entries {
				inParent = inParent || e.ID() == absent &&
					(missing.path == e.Name || strings.HasSuffix(missing.path, "/"+e.Name))
			}
			if !found || !inParent {
				t.Errorf("%s: without %q: error %v", name, paths[absent], err)
			}
			wantSame(t, name, dst, nil)
		})
	}
}

// TestCopyCorrupt: whatever happens to any byte of any object, the copy is refused, and no object gets in.
func TestCopyCorrupt(t *testing.T) {
	b := newBuilder(t)
	root := b.tree(b.file("a", "some text\n"), b.exec("empty", ""),
		b.dir("d", b.file("long", string(castest.Text(1, 600<<10)))))
	sample := 40 // of the damages of what is long one in so many: each takes long
	if testing.Short() {
		sample = 160
	}
	for _, victim := range b.ids {
		n := 0
		for what, changed := range damages(b.bytes[victim]) {
			if n++; len(b.bytes[victim]) > 1<<16 && n%sample != 0 {
				continue
			}
			corrupt := corrupting(&b.store, replace(victim, changed))
			for read, src := range map[string]cas.Getter{"getter": corrupt, "visitor": visitingAll(corrupt)} {
				m := new(cas.Memory)
				_, err := cas.Copy(t.Context(), m, src, root)
				if damage, ok := errors.AsType[*cas.DamagedError](err); !ok || damage.ID != victim {
					t.Errorf("%s: %v with %s: error %v", read, victim, what, err)
				}
				wantSame(t, what, m, nil)
			}
		}
	}
}

// TestCopyLyingSizes: right bytes with another length are refused too, and a length alone costs nothing.
func TestCopyLyingSizes(t *testing.T) {
	b := newBuilder(t)
	root := b.tree(b.file("a", "some text\n"), b.dir("d", b.file("long", string(castest.Text(1, 600<<10)))))
	for _, victim := range b.ids {
		for _, size := range []int64{-1, 0, int64(len(b.bytes[victim])) - 1, int64(len(b.bytes[victim])) + 1, 31 << 20,
			1 << 40, 1<<63 - 1, -1 << 63} {
			lie := func(id cas.ID, b []byte) (int64, []byte) {
				if id == victim {
					return size, b
				}
				return int64(len(b)), b
			}
			for _, id := range []cas.ID{root, victim} {
				_, err := cas.Copy(t.Context(), new(cas.Memory), corrupting(&b.store, lie), id)
				if damage, ok := errors.AsType[*cas.DamagedError](err); !ok || damage.ID != victim {
					t.Errorf("%v with the size %d: error %v", victim, size, err)
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
		m := new(cas.Memory)
		if _, err := cas.Copy(t.Context(), m, &b.store, root); err == nil {
			t.Errorf("%s was copied", name)
		}
		wantSame(t, name, m, nil)
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
		m := new(cas.Memory)
		_, err := cas.Copy(t.Context(), m, &b.store, test.root...)
		bad, ok := errors.AsType[*portable.Error](err)
		if ok != test.fails || err != nil && !ok {
			t.Errorf("%s: error %v", test.name, err)
		}
		if ok && (bad.Rule != "path-length" || len(bad.Path) <= portable.MaxPath) {
			t.Errorf("%s: error %v, about %d bytes", test.name, err, len(bad.Path))
		}
		if test.fails {
			wantSame(t, test.name, m, nil)
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
		m := new(cas.Memory)
		for _, id := range b.ids {
			put(t, m, id.Kind, b.bytes[id])
		}
		dst := &rotten{Memory: m, bad: corrupting(m, replace(victim, []byte("rye: \"tree/2\"\n")))}
		stats, err := cas.Copy(t.Context(), dst, &b.store, root)
		if err != nil || stats.Objects != 1 {
			t.Errorf("with %v rotten: %+v, %v", victim, stats, err)
		}
		if _, err := cas.Copy(t.Context(), dst, new(cas.Memory), root); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("with %v rotten and nowhere else: error %v", victim, err)
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
	return visitingAll(r.bad).(cas.Visitor).Visit(ctx, ids, visit)
}

// TestCopyCarelessStores: a store that breaks its contract doesn't make a copy that looks whole.
func TestCopyCarelessStores(t *testing.T) {
	b := newBuilder(t)
	root := b.sample()
	if _, err := cas.Copy(t.Context(), new(cas.Memory), passing{&b.store}, root); err == nil {
		t.Error("a visitor passed over an object, and it was not noticed")
	}
	if _, err := cas.Copy(t.Context(), misnaming{new(cas.Memory)}, &b.store, root); err == nil {
		t.Error("a store named what it was given wrongly, and it was not noticed")
	}
	if _, err := cas.Copy(t.Context(), muddled{new(cas.Memory)}, &b.store, root); err == nil {
		t.Error("a store lacked what it was not asked for, and it was not noticed")
	}
}

type passing struct{ *cas.Memory }

func (p passing) Visit(ctx context.Context, ids []cas.ID, visit func(int, cas.Object) error) error {
	return p.Memory.Visit(ctx, ids[:len(ids)-1], visit)
}

type misnaming struct{ *cas.Memory }

func (m misnaming) Batch(ctx context.Context) (cas.Batch, error) {
	b, err := m.Memory.Batch(ctx)
	return misnamingBatch{b}, err
}

type misnamingBatch struct{ cas.Batch }

func (b misnamingBatch) PutBytes(ctx context.Context, kind cas.Kind, data []byte) (cas.Digest, error) {
	d, err := b.Batch.PutBytes(ctx, kind, data)
	d[0]++
	return d, err
}

type muddled struct{ *cas.Memory }

func (m muddled) Batch(ctx context.Context) (cas.Batch, error) {
	b, err := m.Memory.Batch(ctx)
	return muddledBatch{b}, err
}

type muddledBatch struct{ cas.Batch }

func (muddledBatch) Missing(ctx context.Context, ids []cas.ID) ([]cas.ID, error) {
	return append(slices.Clone(ids), cas.ID{Kind: cas.Blob}), nil
}

func TestCopyCancelled(t *testing.T) {
	b := newBuilder(t)
	root := b.sample()
	for at := range len(b.ids) + 3 {
		b.everyWay(func(name string, dst *cas.Memory, src cas.Getter) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var gets atomic.Int32
			counted := corrupting(src, func(_ cas.ID, b []byte) (int64, []byte) {
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
				wantSame(t, name, dst, b.ids)
				return
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: cancelled at %d: error %v", name, at, err)
			}
			wantSame(t, name, dst, nil)
			if _, err := cas.Copy(t.Context(), dst, src, root); err != nil {
				t.Errorf("%s: again: %v", name, err)
			}
			wantSame(t, name, dst, b.ids)
		})
	}
}

func TestCopyTogether(t *testing.T) {
	b := newBuilder(t)
	root := b.tree(b.generate(6)...)
	b.everyWay(func(name string, dst *cas.Memory, src cas.Getter) {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if _, err := cas.Copy(t.Context(), dst, src, root); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		wg.Wait()
		wantSame(t, name, dst, b.ids)
	})
}

func BenchmarkCopy(b *testing.B) {
	src := newBuilder(b)
	var top []cas.Entry
	for i := range 100 {
		var files []cas.Entry
		for j := range 100 {
			files = append(files, src.file(fmt.Sprintf("file-%02d.txt", j),
				fmt.Sprint(i, j, strings.Repeat("text ", j*10))))
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
