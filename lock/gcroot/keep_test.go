package gcroot_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/gcroot"
)

const place = "/project/rye.lock"

// A world is a store on disk, which a test may close, damage and open again.
type world struct {
	t   *testing.T
	dir string
	*disk.Store
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: filepath.Join(t.TempDir(), "store")}
	w.open()
	t.Cleanup(func() { w.Close() })
	return w
}

func (w *world) open() {
	w.t.Helper()
	s, err := disk.Open(w.dir, disk.Options{Create: true})
	w.must(err)
	w.Store = s
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// objects puts a document, a blob and a tree that only this lock names.
func (w *world) objects(name string) (all []lock.Object) {
	w.t.Helper()
	texts := map[cas.Kind]string{cas.Document: "document " + name + "\n", cas.Blob: "blob " + name, cas.TreeKind: ""}
	for kind, text := range texts {
		b := []byte(text)
		if kind == cas.TreeKind {
			inside, err := w.Put(w.t.Context(), cas.Blob, strings.NewReader("file of "+name))
			w.must(err)
			b, err = cas.AppendTree(nil, []cas.Entry{{Name: "file", Digest: inside.Digest, Mode: cas.File,
				Size: inside.Size}})
			w.must(err)
		}
		info, err := w.Put(w.t.Context(), kind, bytes.NewReader(b))
		w.must(err)
		all = append(all, lock.Object{ID: info.ID, Size: info.Size})
	}
	return all
}

// kept reports how many objects are left when all garbage is collected.
func (w *world) kept(objects []lock.Object) int {
	w.t.Helper()
	for range 2 { // the second one removes what the first one found unreachable
		_, err := w.GC(w.t.Context(), disk.GCOptions{Grace: time.Nanosecond})
		w.must(err)
	}
	return w.left(objects)
}

// left reports how many objects are in the store.
func (w *world) left(objects []lock.Object) int {
	w.t.Helper()
	ids := make([]cas.ID, len(objects))
	for i, o := range objects {
		ids[i] = o.ID
	}
	gone, err := w.Missing(w.t.Context(), ids)
	w.must(err)
	return len(ids) - len(gone)
}

// placeRef returns the ref that was made for a lock.
func (w *world) placeRef() disk.Ref {
	w.t.Helper()
	refs, err := w.Refs()
	w.must(err)
	for _, r := range refs {
		if strings.HasPrefix(r.Name, gcroot.Refs) && strings.Count(r.Name, "/") == 1 {
			return r
		}
	}
	w.t.Fatalf("no lock has a ref: %v", refs)
	return disk.Ref{}
}

var errDisk = errors.New("the disk failed")

// faulty is a store that fails once, when its operations are counted down.
type faulty struct {
	*disk.Store
	left int
}

func (f *faulty) step() error {
	if f.left--; f.left == -1 {
		return errDisk
	}
	return nil
}

func (f *faulty) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	if err := f.step(); err != nil {
		return cas.Object{}, err
	}
	return f.Store.Get(ctx, id)
}

func (f *faulty) Ref(name string) (cas.ID, error) {
	if err := f.step(); err != nil {
		return cas.ID{}, err
	}
	return f.Store.Ref(name)
}

func (f *faulty) SetRef(ctx context.Context, name string, old, id cas.ID) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.Store.SetRef(ctx, name, old, id)
}

func (f *faulty) Batch(ctx context.Context) (cas.Batch, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	b, err := f.Store.Batch(ctx)
	return &faultyBatch{b, f}, err
}

type faultyBatch struct {
	cas.Batch
	f *faulty
}

func (b *faultyBatch) PutBytes(ctx context.Context, kind cas.Kind, data []byte) (cas.Digest, error) {
	if err := b.f.step(); err != nil {
		return cas.Digest{}, err
	}
	return b.Batch.PutBytes(ctx, kind, data)
}

func (b *faultyBatch) Commit(ctx context.Context) error {
	if err := b.f.step(); err != nil {
		return err
	}
	return b.Batch.Commit(ctx)
}

// Whichever operation of the store fails while a lock is replaced, the lock that is on disk afterwards keeps all its
// objects, and the next lock leaves only its own, with no ref of a lock that never was.
func TestCommitSurvivesEveryFailure(t *testing.T) {
	for n := 0; ; n++ {
		w := newWorld(t)
		before := w.objects("before")
		w.must(gcroot.Lock(t.Context(), w, place, before))
		after := w.objects("after")
		written := false
		write := func() error { written = true; return nil }
		err := gcroot.Commit(t.Context(), &faulty{w.Store, n}, place, after, write)
		if err == nil {
			if n < 20 {
				t.Fatalf("it took %d operations to replace a lock", n)
			}
			break
		}
		if !errors.Is(err, errDisk) {
			t.Fatalf("operation %d: %v", n, err)
		}
		there := before
		if written {
			there = after
		}
		if got := w.kept(there); got != len(there) {
			t.Errorf("operation %d failed, lock written: %v: %d of %d objects are left", n, written, got, len(there))
		}
		next := w.objects("next")
		w.must(gcroot.Commit(t.Context(), w, place, next, write))
		if got := w.kept(next); got != len(next) {
			t.Errorf("operation %d: then %d of %d objects of the next lock are left", n, got, len(next))
		}
		if got := w.left(append(before, after...)); got != 0 {
			t.Errorf("operation %d: then %d objects of earlier locks are left", n, got)
		}
		w.Close()
	}
}

// If the lock can't be written, Commit returns that error, and the objects of the old lock stay.
func TestCommitOfUnwrittenLock(t *testing.T) {
	w := newWorld(t)
	before := w.objects("before")
	w.must(gcroot.Lock(t.Context(), w, place, before))
	full := errors.New("no space left")
	if err := gcroot.Commit(t.Context(), w, place, w.objects("after"), func() error { return full }); err != full {
		t.Error(err)
	}
	if got := w.kept(before); got != len(before) {
		t.Errorf("%d of %d objects are left", got, len(before))
	}
}

// Whichever operation fails, Forget and Path report it. Another lock can still take the place, and a second Forget
// releases everything.
func TestForgetAfterEveryFailure(t *testing.T) {
	w := newWorld(t)
	for n := 0; ; n++ {
		objects := w.objects("lock")
		w.must(gcroot.Lock(t.Context(), w, place, objects))
		ref := w.placeRef().Name
		path, perr := gcroot.Path(t.Context(), &faulty{w.Store, n}, ref)
		if (perr != nil || path != place) && !errors.Is(perr, errDisk) {
			t.Errorf("operation %d: path %q, %v", n, path, perr)
		}
		err := gcroot.Forget(t.Context(), &faulty{w.Store, n}, place)
		if err == nil {
			if perr != nil || n < 5 {
				t.Errorf("after %d operations: %v", n, perr)
			}
			return
		}
		if !errors.Is(err, errDisk) {
			t.Fatalf("operation %d: %v", n, err)
		}
		w.kept(objects)
		w.must(gcroot.Commit(t.Context(), w, place, nil, func() error { return nil }))
		w.must(gcroot.Forget(t.Context(), w, place))
		if got := w.kept(objects); got != 0 {
			t.Errorf("operation %d: %d objects are still kept", n, got)
		}
	}
}

// A set in use keeps what it names though no lock does any more. Where the store fails, nothing is pinned, and the
// caller gets the error.
func TestHoldOrFailure(t *testing.T) {
	w := newWorld(t)
	info, err := w.Put(t.Context(), cas.Blob, strings.NewReader("a package"))
	w.must(err)
	objects := []lock.Object{{ID: info.ID, Size: info.Size}}
	locked := &file.Lock{Artifacts: []file.Artifact{{Name: "pkg", Digest: info.Digest, Size: info.Size}}}
	set, err := lock.NewSet(t.Context(), locked, cas.Digest{}, lock.SetOptions{Objects: w})
	w.must(err)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := gcroot.Hold(canceled, w, set); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	for n := 0; ; n++ {
		f := &faulty{w.Store, n}
		release, err := gcroot.Hold(t.Context(), f, set)
		if f.left < 0 {
			if !errors.Is(err, errDisk) || release != nil {
				t.Errorf("operation %d: %v", n, err)
			}
			continue
		}
		w.must(err)
		if got := w.kept(objects); got != 1 {
			t.Error("the set's object is gone while it is in use")
		}
		w.must(release())
		break
	}
	if got := w.kept(objects); got != 0 {
		t.Error("the object is kept and nothing uses it")
	}
}

// puts counts the batches that a store is asked for.
type puts struct {
	*disk.Store
	n int
}

func (p *puts) Batch(ctx context.Context) (cas.Batch, error) {
	p.n++
	return p.Store.Batch(ctx)
}

// The tree of a set that was in use before is found in the store; what gc has removed of it is put again.
func TestHoldAgain(t *testing.T) {
	w := newWorld(t)
	info, err := w.Put(t.Context(), cas.Blob, strings.NewReader("a package"))
	w.must(err)
	w.must(w.SetRef(t.Context(), "package", cas.ID{}, info.ID))
	objects := []lock.Object{{ID: info.ID, Size: info.Size}}
	locked := &file.Lock{Artifacts: []file.Artifact{{Name: "pkg", Digest: info.Digest, Size: info.Size}}}
	set, err := lock.NewSet(t.Context(), locked, cas.Digest{}, lock.SetOptions{Objects: w})
	w.must(err)
	p := &puts{Store: w.Store}
	hold := func(want int) (release func() error) {
		t.Helper()
		release, err := gcroot.Hold(t.Context(), p, set)
		w.must(err)
		if p.n != want {
			t.Errorf("%d batches, want %d", p.n, want)
		}
		return release
	}
	w.must(hold(1)())
	w.must(hold(1)())
	if w.kept(objects) != 1 {
		t.Fatal("the object is gone, which has a ref")
	}
	release := hold(2)
	w.must(w.SetRef(t.Context(), "package", info.ID, cas.ID{}))
	if w.kept(objects) != 1 {
		t.Error("the set's object is gone while it is in use")
	}
	w.must(release())
}

// rival is a store in which another process acts just before a ref of the lock is set.
type rival struct {
	*disk.Store
	first func()
}

func (r *rival) SetRef(ctx context.Context, name string, old, id cas.ID) error {
	if first := r.first; first != nil && strings.Count(name, "/") == 1 {
		r.first = nil
		first()
	}
	return r.Store.SetRef(ctx, name, old, id)
}

// If another process locks or forgets the same place at the same time, the last writer's objects are kept.
func TestLastWriterWins(t *testing.T) {
	for name, act := range map[string]func(w *world) error{
		"locked":    func(w *world) error { return gcroot.Lock(t.Context(), w, place, w.objects("rival")) },
		"forgotten": func(w *world) error { return gcroot.Forget(t.Context(), w, place) },
	} {
		w := newWorld(t)
		w.must(gcroot.Lock(t.Context(), w, place, w.objects("before")))
		mine := w.objects("mine")
		acted := false
		s := &rival{w.Store, func() { acted = true; w.must(act(w)) }}
		if err := gcroot.Lock(t.Context(), s, place, mine); err != nil || !acted {
			t.Errorf("%s: %v, acted: %v", name, err, acted)
		}
		if got := w.kept(mine); got != len(mine) {
			t.Errorf("%s: %d of %d objects are left", name, got, len(mine))
		}
	}
}

// A damaged list of an old lock doesn't stop a new one: the new objects are kept, and the refs that the list named
// stay.
func TestDamagedListKeepsItsRefs(t *testing.T) {
	w := newWorld(t)
	before := w.objects("before")
	packs := func() map[string]bool {
		names := map[string]bool{}
		w.must(filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".pack") {
				names[path] = true
			}
			return err
		}))
		return names
	}
	old := packs()
	w.must(gcroot.Lock(t.Context(), w, place, before))
	ref := w.placeRef()
	refs, err := w.Refs()
	w.must(err)
	w.must(w.Close())
	damaged := 0
	for path := range packs() {
		if old[path] {
			continue
		}
		b, err := os.ReadFile(path)
		w.must(err)
		for i := range b[:len(b)*3/4] {
			if i < 64 {
				continue
			}
			b[i] ^= 0xff
		}
		w.must(os.Chmod(path, 0o600))
		w.must(os.WriteFile(path, b, 0o600))
		damaged++
	}
	w.open()
	if _, err := gcroot.Path(t.Context(), w, ref.Name); damaged != 1 || !errors.Is(err, cas.ErrDamaged) {
		t.Fatalf("%d packs damaged: %v", damaged, err)
	}
	after := w.objects("after")
	w.must(gcroot.Lock(t.Context(), w, place, after))
	now, err := w.Refs()
	w.must(err)
	if len(now) != len(refs)+1 { // the new document's
		t.Errorf("%d refs, had %d", len(now), len(refs))
	}
	if path, err := gcroot.Path(t.Context(), w, ref.Name); path != place || err != nil {
		t.Errorf("%q, %v", path, err)
	}
}

// A damaged ref is reported by each call that needs it, and is not replaced.
func TestDamagedRef(t *testing.T) {
	w := newWorld(t)
	objects := w.objects("lock")
	w.must(gcroot.Lock(t.Context(), w, place, objects))
	ref := w.placeRef()
	file := filepath.Join(w.dir, "refs", strings.ReplaceAll(ref.Name, "/", "+")+".ref")
	w.must(os.WriteFile(file, []byte("nothing\n"), 0o600))
	_, perr := gcroot.Path(t.Context(), w, ref.Name)
	written := false
	for name, err := range map[string]error{
		"path":   perr,
		"lock":   gcroot.Lock(t.Context(), w, place, objects),
		"forget": gcroot.Forget(t.Context(), w, place),
		"commit": gcroot.Commit(t.Context(), w, place, objects, func() error { written = true; return nil }),
	} {
		if e, ok := errors.AsType[*disk.RefError](err); !ok || e.Name != ref.Name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, err := os.ReadFile(file); string(b) != "nothing\n" || err != nil || written {
		t.Errorf("%q, %v, lock written: %v", b, err, written)
	}
}

// Path finds only the paths of locks: other refs have none, and neither has a tree without a path or with one that is
// too long.
func TestPathOfOtherRefs(t *testing.T) {
	w := newWorld(t)
	long, err := w.Put(t.Context(), cas.Blob, strings.NewReader(strings.Repeat("x", 64<<10+1)))
	w.must(err)
	for name, entries := range map[string][]cas.Entry{
		"locked/empty":     {},
		"locked/long":      {{Name: "path", Digest: long.Digest, Mode: cas.File, Size: long.Size}},
		"other/tree":       {},
		"locked/empty/abc": {},
	} {
		b, err := cas.AppendTree(nil, entries)
		w.must(err)
		info, err := w.Put(t.Context(), cas.TreeKind, bytes.NewReader(b))
		w.must(err)
		w.must(w.PutRef(t.Context(), name, info.ID))
		if path, err := gcroot.Path(t.Context(), w, name); path != "" || err != nil {
			t.Errorf("%s: %q, %v", name, path, err)
		}
	}
	if _, err := gcroot.Path(t.Context(), w, "locked/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A list that names an object twice, or one that the store lacks, is refused; what the place kept stays.
func TestRefusedObjects(t *testing.T) {
	w := newWorld(t)
	before := w.objects("before")
	w.must(gcroot.Lock(t.Context(), w, place, before))
	blob, err := w.Put(t.Context(), cas.Blob, strings.NewReader("twice"))
	w.must(err)
	twice := lock.Object{ID: blob.ID, Size: blob.Size}
	if err := gcroot.Lock(t.Context(), w, place, []lock.Object{twice, twice}); err == nil {
		t.Error("an object was named twice")
	}
	lacking := lock.Object{ID: cas.ID{Kind: cas.Document, Digest: cas.Sum([]byte("nowhere"))}}
	if err := gcroot.Lock(t.Context(), w, place, []lock.Object{lacking}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a document is missing: %v", err)
	}
	if got := w.kept(before); got != len(before) {
		t.Errorf("%d of %d objects are left", got, len(before))
	}
}
