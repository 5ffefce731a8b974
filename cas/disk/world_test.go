package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/castest"
)

// A world is what a store was told to keep, by what has been acknowledged.
type world struct {
	objects map[cas.ID][]byte
	dropped map[cas.ID][]byte // what a gc may have removed
	refs    map[string]cas.ID
	// While a step runs, a ref may be as before or as it will be.
	maybe map[string][]cas.ID
}

func newWorld() *world {
	return &world{make(map[cas.ID][]byte), make(map[cas.ID][]byte), make(map[string]cas.ID), make(map[string][]cas.ID)}
}

func (w *world) clone() *world {
	return &world{maps.Clone(w.objects), maps.Clone(w.dropped), maps.Clone(w.refs), maps.Clone(w.maybe)}
}

// drop forgets what no ref reaches, as a gc without grace may.
func (w *world) drop() {
	keep := make(map[cas.ID]bool)
	var visit func(id cas.ID)
	visit = func(id cas.ID) {
		b, ok := w.objects[id]
		if !ok || keep[id] {
			return
		}
		keep[id] = true
		if id.Kind == cas.TreeKind {
			if err := cas.DecodeTree(b, func(e cas.Entry) error { visit(e.ID()); return nil }); err != nil {
				panic(err)
			}
		}
	}
	for _, id := range w.refs {
		visit(id)
	}
	for _, ids := range w.maybe {
		for _, id := range ids {
			visit(id)
		}
	}
	maps.DeleteFunc(w.objects, func(id cas.ID, b []byte) bool {
		if !keep[id] {
			w.dropped[id] = b
		}
		return !keep[id]
	})
}

// check reads all that was acknowledged, and asks for it. Of what a gc may have removed it reads what counts as
// present.
func (w *world) check(s *Store) error {
	ctx := context.Background()
	absent, err := s.Missing(ctx, slices.Collect(maps.Keys(w.objects)))
	if err != nil || len(absent) > 0 {
		return fmt.Errorf("of what was acknowledged, %v count as missing: %w", absent, err)
	}
	absent, err = s.Missing(ctx, slices.Collect(maps.Keys(w.dropped)))
	if err != nil {
		return err
	}
	for id, want := range w.dropped {
		if !slices.Contains(absent, id) {
			if err := reads(s, id, want); err != nil {
				return fmt.Errorf("counts as present: %w", err)
			}
		}
	}
	return w.readable(s)
}

// readable reads all that was acknowledged.
func (w *world) readable(s *Store) error {
	for id, want := range w.objects {
		if err := reads(s, id, want); err != nil {
			return fmt.Errorf("acknowledged: %w", err)
		}
	}
	names := slices.Collect(maps.Keys(w.refs))
	names = append(names, slices.Collect(maps.Keys(w.maybe))...)
	for _, name := range names {
		got, err := s.Ref(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if got != w.refs[name] && !slices.Contains(w.maybe[name], got) {
			return fmt.Errorf("ref %s is %s, acknowledged was %s", name, got, w.refs[name])
		}
	}
	return nil
}

// reads wants an object to have its bytes.
func reads(s *Store, id cas.ID, want []byte) error {
	o, err := s.Get(context.Background(), id)
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	got, err := io.ReadAll(o)
	o.Close()
	if err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("%s: %d bytes, %v", id, len(got), err)
	}
	return nil
}

// clean wants a store without problems.
func clean(s *Store) error {
	r, err := s.Fsck(context.Background(), nil)
	if err != nil {
		return err
	}
	if len(r.Problems) > 0 {
		return fmt.Errorf("fsck: %d problems, first: %+v", len(r.Problems), r.Problems[0])
	}
	return nil
}

// swept wants nothing temporary to be left.
func swept(dir string) error {
	for _, d := range []string{"tmp", writers, pins} {
		names, err := os.ReadDir(filepath.Join(dir, d))
		if err != nil {
			return err
		}
		for _, n := range names {
			return fmt.Errorf("left behind: %s/%s", d, n.Name())
		}
	}
	for _, name := range []string{condemnedFile, doomedFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("left behind: %s", name)
		}
	}
	return nil
}

// A run is one process at work on a store: acknowledged objects go to its world.
type run struct {
	*Store
	w *world
	// mark, if set, is called after an acknowledgement.
	mark func()
}

func (r *run) acked() {
	if r.mark != nil {
		r.mark()
	}
}

// put puts some blobs and a tree of them in one batch, and returns the tree.
func (r *run) put(ref string, blobs ...[]byte) error {
	ctx := context.Background()
	b, err := r.Batch(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	put := make(map[cas.ID][]byte)
	add := func(k cas.Kind, x []byte) (cas.ID, error) {
		d, err := b.PutBytes(ctx, k, x)
		put[cas.ID{Kind: k, Digest: d}] = x
		return cas.ID{Kind: k, Digest: d}, err
	}
	var es []cas.Entry
	for i, x := range blobs {
		id, err := add(cas.Blob, x)
		if err != nil {
			return err
		}
		es = append(es, cas.Entry{Name: fmt.Sprintf("f%04d", i), Mode: cas.File, Digest: id.Digest,
			Size: int64(len(x))})
	}
	text, err := cas.AppendTree(nil, es)
	if err != nil {
		return err
	}
	tree, err := add(cas.TreeKind, text)
	if err != nil {
		return err
	}
	if err := b.Commit(ctx); err != nil {
		return err
	}
	maps.Copy(r.w.objects, put)
	r.acked()
	if ref != "" {
		if err := r.ref(ref, tree); err != nil {
			return err
		}
	}
	return b.Close()
}

// one puts a single blob.
func (r *run) one(x []byte) (cas.ID, error) {
	i, err := r.Put(context.Background(), cas.Blob, bytes.NewReader(x))
	if err == nil {
		r.w.objects[i.ID] = x
		r.acked()
	}
	return i.ID, err
}

// ref sets a ref, or removes it.
func (r *run) ref(name string, id cas.ID) error {
	r.w.maybe[name] = append(slices.Clone(r.w.maybe[name]), id)
	r.acked()
	err := r.PutRef(context.Background(), name, id)
	if err == nil {
		if id == (cas.ID{}) {
			delete(r.w.refs, name)
		} else {
			r.w.refs[name] = id
		}
		delete(r.w.maybe, name)
		r.acked()
	}
	return err
}

// gc removes all that no ref reaches.
func (r *run) gc() error {
	r.w.drop()
	r.acked()
	_, err := r.GC(context.Background(), GCOptions{})
	return err
}

// text and noise are short names for contents.
func text(seed uint64, n int) []byte  { return castest.Text(seed, n) }
func noise(seed uint64, n int) []byte { return castest.Random(seed, n) }

// A step is one command of a history.
type step struct {
	name string
	do   func(r *run) error
}

// history is a store's life: every operation that writes, on few bytes.
func history() []step {
	ctx := context.Background()
	long := noise(1, 300<<10)
	edited := slices.Concat(long[:150<<10], []byte("edit"), long[150<<10:])
	// With long's chunk that edited hasn't: when both are garbage, one pack needs what is removed from another.
	shared := slices.Concat(long[:100<<10], []byte("more"), long[100<<10:])
	big := make([][]byte, 40)
	for i := range big {
		big[i] = text(uint64(100+i), 50+i)
	}
	return []step{
		{"put", func(r *run) error { _, err := r.one(text(2, 900)); return err }},
		{"batch", func(r *run) error { return r.put("main", text(3, 100), text(4, 2000), long) }},
		{"again", func(r *run) error { return r.put("same", text(3, 100), text(4, 2000), long) }},
		{"edit", func(r *run) error { return r.put("main", text(3, 100), text(5, 2000), edited) }},
		{"merge", func(r *run) error {
			for i := range 4 {
				if _, err := r.one(text(uint64(10+i), 30+i)); err != nil {
					return err
				}
			}
			return nil
		}},
		{"packs", func(r *run) error { return r.put("big", big...) }},
		{"shared", func(r *run) error { _, err := r.one(shared); return err }},
		{"unref", func(r *run) error { return r.ref("same", cas.ID{}) }},
		{"grace", func(r *run) error {
			_, err := r.GC(ctx, GCOptions{Grace: time.Hour})
			return err
		}},
		{"gc", func(r *run) error { return r.gc() }},
		{"repack", func(r *run) error { _, err := r.Repack(ctx); return err }},
		{"after", func(r *run) error { return r.put("main", text(3, 100), text(2, 900), long) }},
	}
}

// open opens a store that rolls and merges packs of a few objects.
func open(dir string, o Options) (*Store, error) {
	o.Create = true
	if o.Wait == 0 {
		o.Wait = time.Second
	}
	s, err := Open(dir, o)
	if err == nil {
		s.packObjects, s.fanout, s.files.lazy = 24, 3, true
	}
	return s, err
}

func tinyStore(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := open(ramDir(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ramDir returns an empty directory, in memory where there is a place for that.
func ramDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "rye-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// copyDir copies a store's files.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := ramDir(t)
	must(t, os.CopyFS(to, os.DirFS(from)))
	return to
}
