package cas_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/castest"
	"github.com/rye-build/rye/cas/portable"
)

// A builder puts generated trees into a store and remembers what it put.
type builder struct {
	t     testing.TB
	store cas.Memory
	ids   []cas.ID          // of all objects below the root, children first, each once
	bytes map[cas.ID][]byte // of all
	r     *rand.Rand
}

func newBuilder(t testing.TB) *builder {
	return &builder{t: t, bytes: make(map[cas.ID][]byte), r: rand.New(rand.NewPCG(3, 4))}
}

func (b *builder) put(kind cas.Kind, data []byte) cas.Digest {
	b.t.Helper()
	info, err := b.store.Put(context.Background(), kind, strings.NewReader(string(data)))
	if err != nil {
		b.t.Fatal(err)
	}
	if _, ok := b.bytes[info.ID]; !ok {
		b.ids = append(b.ids, info.ID)
		b.bytes[info.ID] = data
	}
	return info.Digest
}

func (b *builder) file(name, data string) cas.Entry {
	return cas.Entry{Name: name, Mode: cas.File, Digest: b.put(cas.Blob, []byte(data)), Size: int64(len(data))}
}

func (b *builder) exec(name, data string) cas.Entry {
	e := b.file(name, data)
	e.Mode = cas.Exec
	return e
}

func (b *builder) tree(entries ...cas.Entry) cas.ID {
	b.t.Helper()
	slices.SortFunc(entries, func(x, y cas.Entry) int { return strings.Compare(x.Name, y.Name) })
	doc, err := cas.AppendTree(nil, entries)
	if err != nil {
		b.t.Fatal(err)
	}
	return cas.ID{Kind: cas.TreeKind, Digest: b.put(cas.TreeKind, doc)}
}

func (b *builder) dir(name string, entries ...cas.Entry) cas.Entry {
	return dirOf(name, b.tree(entries...))
}

func dirOf(name string, id cas.ID) cas.Entry {
	return cas.Entry{Name: name, Mode: cas.Dir, Digest: id.Digest}
}

// generate puts a tree of some depth, in which some files and directories are the same.
func (b *builder) generate(depth int) []cas.Entry {
	var entries []cas.Entry
	for i := range 1 + b.r.IntN(5) {
		name, data := fmt.Sprintf("f%d", i), fmt.Sprint("content ", b.r.IntN(60))
		if b.r.IntN(3) == 0 {
			entries = append(entries, b.exec(name, data))
		} else {
			entries = append(entries, b.file(name, data))
		}
	}
	for i := range b.r.IntN(5) {
		if depth > 0 {
			entries = append(entries, b.dir(fmt.Sprintf("d%d", i), b.generate(depth-1-b.r.IntN(2))...))
		}
	}
	return entries
}

// sample is a small tree with everything in it.
func (b *builder) sample() cas.ID {
	shared := b.dir("shared", b.file("one", "1"), b.exec("two", "2"))
	again := shared
	again.Name = "again"
	return b.tree(
		b.file("README", "read me"), b.file("empty", ""), b.exec("run.sh", "#!/bin/sh\n"),
		shared, again, b.dir("deep", b.dir("er", b.dir("still", b.file("end", strings.Repeat("e", 3000)))),
			b.file("copy", "read me")),
		b.file("large", string(castest.Text(1, 300<<10))),
	)
}

// getters are the ways a store may be read.
func getters(m *cas.Memory) map[string]cas.Getter {
	return map[string]cas.Getter{"visitor": m, "getter": struct{ cas.Getter }{m}}
}

func TestWalk(t *testing.T) {
	b := newBuilder(t)
	root := b.sample()
	for name, src := range getters(&b.store) {
		var got []string
		err := cas.Walk(t.Context(), src, root, func(path string, e cas.Entry) error {
			got = append(got, e.Mode.String()+" "+path)
			if want := b.bytes[e.ID()]; want == nil || e.Mode != cas.Dir && e.Size != int64(len(want)) {
				t.Errorf("%s: %q is %v", name, path, e)
			}
			return nil
		})
		want := []string{
			"file README", "dir again", "file again/one", "exec again/two",
			"dir deep", "file deep/copy", "dir deep/er", "dir deep/er/still", "file deep/er/still/end",
			"file empty", "file large", "exec run.sh", "dir shared", "file shared/one", "exec shared/two",
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, want)
		}
	}
}

// TestWalkMany compares the walk over a large tree, mostly read ahead, with a plain recursive one.
func TestWalkMany(t *testing.T) {
	b := newBuilder(t)
	var top []cas.Entry
	for i := range 150 {
		top = append(top, b.dir(fmt.Sprintf("top%03d", i), b.generate(5)...))
	}
	root := b.tree(top...)
	var want []string
	var plain func(id cas.ID, path string)
	plain = func(id cas.ID, path string) {
		err := cas.DecodeTree(b.bytes[id], func(e cas.Entry) error {
			want = append(want, path+e.Name)
			if e.Mode == cas.Dir {
				plain(e.ID(), path+e.Name+"/")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	plain(root, "")
	for name, src := range getters(&b.store) {
		var got []string
		err := cas.Walk(t.Context(), src, root, func(path string, e cas.Entry) error {
			got = append(got, path)
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %d paths, %v; want %d", name, len(got), err, len(want))
		}
	}
	if len(want) < 2000 {
		t.Errorf("the tree has only %d entries", len(want))
	}
}

func TestWalkEnds(t *testing.T) {
	b := newBuilder(t)
	root := b.sample()
	stop := errors.New("stop")
	n := 0
	err := cas.Walk(t.Context(), &b.store, root, func(path string, e cas.Entry) error {
		if n++; path == "deep/er" {
			return stop
		}
		return nil
	})
	if err != stop || n != 7 {
		t.Errorf("error %v after %d visits", err, n)
	}

	var got []string
	err = cas.Walk(t.Context(), &b.store, root, func(path string, e cas.Entry) error {
		got = append(got, path)
		if e.Mode == cas.Dir && path != "deep" {
			return fs.SkipDir
		}
		return nil
	})
	if want := "README again deep deep/copy deep/er empty large run.sh shared"; err != nil ||
		strings.Join(got, " ") != want {
		t.Errorf("with directories skipped: got %q, %v; want %q", got, err, want)
	}

	ctx, cancel := context.WithCancel(t.Context())
	n = 0
	err = cas.Walk(ctx, &b.store, root, func(path string, e cas.Entry) error { n++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("cancelled: error %v after %d visits", err, n)
	}
	if err := cas.Walk(t.Context(), &b.store, cas.ID{Kind: cas.Blob, Digest: root.Digest}, nil); err == nil {
		t.Error("a blob was walked")
	}
}

func TestWalkMissing(t *testing.T) {
	b := newBuilder(t)
	root := b.sample()
	_ = cas.Walk(t.Context(), &b.store, root, func(path string, e cas.Entry) error {
		if e.Mode != cas.Dir || path == "shared" {
			return nil // shared is again
		}
		var less cas.Memory
		for id, data := range b.bytes {
			if id != e.ID() {
				put(t, &less, id.Kind, data)
			}
		}
		for name, src := range getters(&less) {
			err := cas.Walk(t.Context(), src, root, func(string, cas.Entry) error { return nil })
			missing := readMissing(err)
			if !errors.Is(err, fs.ErrNotExist) || missing.id != e.ID() || missing.path != path ||
				b.bytes[missing.parent] == nil {
				t.Errorf("%s: without %q: error %v", name, path, err)
			}
			// A walk that skips it doesn't need it.
			err = cas.Walk(t.Context(), src, root, func(_ string, other cas.Entry) error {
				if other.Digest == e.Digest {
					return fs.SkipDir
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s: without %q, which is skipped: %v", name, path, err)
			}
		}
		return nil
	})
	err := cas.Walk(t.Context(), new(cas.Memory), root, nil)
	if missing := readMissing(err); missing.id != root || missing.path != "" {
		t.Errorf("without the root: error %v", err)
	}
}

// missing is what the error about a missing object says.
type missing struct {
	id, parent cas.ID
	path       string
}

func readMissing(err error) (m missing) {
	var kind, parent, digest, in string
	text := fmt.Sprint(err)
	if n, _ := fmt.Sscanf(text, "%q is missing: %s %s listed in %s %s", &m.path, &kind, &digest, &parent,
		&in); n == 5 {
		m.parent.Kind, _ = cas.ParseKind(parent)
		m.parent.Digest, _ = cas.ParseDigest(in)
	} else if n, _ := fmt.Sscanf(text, "%s %s is missing", &kind, &digest); n != 2 {
		return missing{}
	}
	m.id.Kind, _ = cas.ParseKind(kind)
	m.id.Digest, _ = cas.ParseDigest(strings.TrimSuffix(digest, ","))
	return m
}

func put(t testing.TB, p cas.Putter, kind cas.Kind, data []byte) cas.ID {
	t.Helper()
	info, err := p.Put(t.Context(), kind, strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return info.ID
}

// chain puts n directories in one another, each called name, around a file x. The path of x is n times as
// long as name and the slash, and one.
func (b *builder) chain(n int, name string) cas.ID {
	id := b.tree(b.file("x", "x"))
	for range n {
		id = b.tree(dirOf(name, id))
	}
	return id
}

func TestWalkHostile(t *testing.T) {
	visit := func(string, cas.Entry) error { return nil }
	b := newBuilder(t)
	long := strings.Repeat("n", 99) // ten of them with slashes are a path of 1,000
	for _, test := range []struct {
		root cas.ID
		ok   bool
	}{
		{b.chain(9, long), true},
		{b.chain(10, long), false},
		{b.chain(499, "d"), true},
		{b.chain(500, "d"), false},
		{b.chain(5000, "d"), false},
	} {
		err := cas.Walk(t.Context(), &b.store, test.root, visit)
		bad, ok := errors.AsType[*portable.Error](err)
		if ok == test.ok || ok && bad.Rule != "path-length" {
			t.Errorf("error %v, want none: %t", err, test.ok)
		}
	}
}

// TestWalkCorrupt: whatever happens to any byte of a tree, a walk doesn't go on as if nothing were.
func TestWalkCorrupt(t *testing.T) {
	b := newBuilder(t)
	root := b.sample()
	for victim, data := range b.bytes {
		if victim.Kind != cas.TreeKind {
			continue
		}
		for what, changed := range damages(data) {
			bad := corrupting(&b.store, replace(victim, changed))
			for name, src := range map[string]cas.Getter{"getter": bad, "visitor": visitingAll(bad)} {
				err := cas.Walk(t.Context(), src, root, func(path string, e cas.Entry) error {
					if b.bytes[e.ID()] == nil {
						t.Errorf("%s: %s: %q is %v", name, what, path, e)
					}
					return nil
				})
				if damage, ok := errors.AsType[*cas.DamagedError](err); !ok || damage.ID != victim {
					t.Errorf("%s: %s with %s: error %v", name, victim, what, err)
				}
			}
		}
	}
}

// replace makes a store give out other bytes for one object.
func replace(victim cas.ID, changed []byte) func(cas.ID, []byte) (int64, []byte) {
	return func(id cas.ID, b []byte) (int64, []byte) {
		if id == victim {
			b = changed
		}
		return int64(len(b)), b
	}
}
