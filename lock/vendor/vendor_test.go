package vendor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

var (
	noon       = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	alice, bob = keytest.Alice(), keytest.Bob()
)

// A world is a store, the objects of a lock, and the directory.
type world struct {
	t       testing.TB
	dir     string
	store   *cas.Memory
	objects []Object
}

func newWorld(t testing.TB) *world {
	return &world{t: t, dir: filepath.Join(t.TempDir(), "vendor"), store: new(cas.Memory)}
}

// put adds an object.
func (w *world) put(kind cas.Kind, b []byte) *Object {
	w.t.Helper()
	info, err := w.store.Put(w.t.Context(), kind, bytes.NewReader(b))
	if err != nil {
		w.t.Fatal(err)
	}
	w.objects = append(w.objects, Object{ID: info.ID, Size: info.Size})
	return &w.objects[len(w.objects)-1]
}

// bundle adds a document with signatures.
func (w *world) bundle(version string, keys ...key.Private) *Object {
	w.t.Helper()
	files := []manifest.File{{Path: "a.txt", Digest: cas.Sum([]byte("a")), Size: 1, Mode: cas.File}}
	body, l, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: "acme/demo", Version: version}, files)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, k := range keys {
		if err := l.Sign(k, noon); err != nil {
			w.t.Fatal(err)
		}
	}
	o := w.put(cas.Document, body)
	o.Signatures = l.Signatures
	return o
}

func (w *world) write() Result {
	w.t.Helper()
	r, err := Write(w.t.Context(), w.dir, w.objects, w.store)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// inOrder reports whether Write would change nothing.
func inOrder(r *Report) bool { return len(r.Stale)+len(r.Missing)+len(r.Damaged) == 0 }

func (w *world) check() *Report {
	w.t.Helper()
	r, err := Check(w.t.Context(), w.dir, w.objects)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// files returns what is in the directory.
func (w *world) files() map[string]string {
	w.t.Helper()
	all := make(map[string]string)
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() {
			b, err := os.ReadFile(filepath.Join(w.dir, e.Name()))
			if err != nil {
				w.t.Fatal(err)
			}
			all[e.Name()] = string(b)
		}
	}
	return all
}

// whole looks at every object, and says what is wrong.
func (w *world) whole(objects []Object) error {
	v, err := Open(w.dir)
	if err != nil {
		return err
	}
	defer v.Close()
	for _, o := range objects {
		if err := same(v, w.store, o.ID); err != nil {
			return err
		}
		if len(o.Signatures) == 0 {
			continue
		}
		s, err := bundle.ReadSignatures(context.Background(), v, v, o.Digest)
		if err != nil {
			return err
		}
		for _, l := range o.Signatures {
			if !slices.Contains(s, l) {
				return fmt.Errorf("%s isn't signed by %s", o.ID, l.Key)
			}
		}
	}
	return nil
}

func same(v, store cas.Getter, id cas.ID) error {
	got, err := get(v, id)
	if err != nil {
		return err
	}
	if want, err := get(store, id); err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("%s is another one: %v", id, err)
	}
	return nil
}

func get(src cas.Getter, id cas.ID) ([]byte, error) {
	o, err := src.Get(context.Background(), id)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	if o.ID != id {
		return nil, fmt.Errorf("%s was asked for, and %s given", id, o.ID)
	}
	return io.ReadAll(o)
}

// text is like a source file, and another one for each n.
func text(n, size int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	b := fmt.Appendf(nil, "# file %d\nimport os\n\n", n)
	for len(b) < size {
		b = strconv.AppendUint(append(b, "    value = os.environ.get(\""...), r.Uint64(), 16)
		b = append(b, "\")\n"...)
	}
	return b
}

// many is a world of so many small files.
func many(t testing.TB, n, size int) *world {
	w := newWorld(t)
	for i := range n {
		w.put(cas.Blob, text(i, size))
	}
	return w
}

func TestGolden(t *testing.T) {
	w := newWorld(t)
	w.put(cas.Blob, nil)
	w.put(cas.Blob, []byte("a"))
	w.put(cas.Blob, []byte("line\nCR LF\r\nnul\x00 back\\slash \\n \xff\n"))
	w.put(cas.Blob, []byte("<<<<<<< HEAD\n=======\n>>>>>>> x\n"))
	tree, err := cas.AppendTree(nil, []cas.Entry{{Name: "a.txt", Mode: cas.File, Digest: cas.Sum([]byte("a")),
		Size: 1}})
	if err != nil {
		t.Fatal(err)
	}
	w.put(cas.TreeKind, tree)
	w.put(cas.Blob, tree) // the same bytes are another object
	w.bundle("1.0.0", alice, bob)
	w.bundle("1.1.0")
	large := w.put(cas.Blob, text(1, maxSmall+1))
	if r := w.write(); r != (Result{Files: 2, Objects: 10, Bytes: r.Bytes, Written: 2}) || r.Bytes < maxSmall {
		t.Errorf("%+v", r)
	}
	files := w.files()
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got,
		slices.Sorted(slices.Values([]string{".gitattributes", "all.pack", hex(large.Digest) + ".blob"}))) {
		t.Error(got)
	}
	if files[hex(large.Digest)+".blob"] != string(text(1, maxSmall+1)) {
		t.Error("the large file isn't the object")
	}
	for name, at := range map[string]string{"all.pack": "testdata/all.pack",
		".gitattributes": "testdata/gitattributes"} {
		goldentest.File(t, at, []byte(files[name]))
	}
	if err := w.whole(w.objects); err != nil {
		t.Error(err)
	}
	if r := w.check(); !inOrder(r) || len(r.Superfluous)+len(r.Foreign) > 0 {
		t.Errorf("%+v", r)
	}
}

// TestOnlyObjectsCount writes the same objects in another order, and over others: the files are the same, and those
// that are right aren't touched.
func TestOnlyObjectsCount(t *testing.T) {
	a := many(t, 600, 4000)
	a.bundle("1.0.0", alice)
	a.write()
	b := many(t, 700, 4000)
	b.write()
	b.objects = slices.Concat(b.objects[:600], a.objects[600:], a.objects[600:]) // one of them twice
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(b.objects), func(i, j int) {
		b.objects[i], b.objects[j] = b.objects[j], b.objects[i]
	})
	b.store = a.store
	b.write()
	if want := a.files(); !maps.Equal(b.files(), want) || len(want) != 17 {
		t.Errorf("%d files", len(want))
	}
	before := b.stats()
	if r := b.write(); r.Written+r.Removed > 0 || r.Files != 16 || r.Objects != 602 {
		t.Errorf("again: %+v", r)
	}
	for name, info := range b.stats() {
		if was := before[name]; was == nil || !os.SameFile(was, info) || !was.ModTime().Equal(info.ModTime()) {
			t.Errorf("%s was touched", name)
		}
	}
}

func (w *world) stats() map[string]fs.FileInfo {
	all := make(map[string]fs.FileInfo)
	for name := range w.files() {
		info, err := os.Lstat(filepath.Join(w.dir, name))
		if err != nil {
			w.t.Fatal(err)
		}
		all[name] = info
	}
	return all
}

// TestFewChange adds and takes away one object at a time: one file changes, if not where it comes to be too large.
func TestFewChange(t *testing.T) {
	w := many(t, 80, 40_000)
	w.write()
	for i := range 8 {
		w.put(cas.Blob, text(10_000+i, 40_000))
		if r := w.write(); r.Written != 1 || r.Removed != 0 {
			t.Errorf("one more: %+v", r)
		}
		w.objects = slices.Delete(w.objects, i, i+1)
		if r := w.write(); r.Written != 1 || r.Removed != 0 {
			t.Errorf("one less: %+v", r)
		}
	}
	w.put(cas.Blob, text(1, 1<<20))
	if r := w.write(); r.Written != 1 || r.Removed != 0 {
		t.Errorf("a large one more: %+v", r)
	}
	w.objects = w.objects[:len(w.objects)-1]
	if r := w.write(); r.Written != 0 || r.Removed != 1 {
		t.Errorf("a large one less: %+v", r)
	}
}

func TestSizes(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	for _, c := range []struct{ n, size, files int }{{0, 0, 0}, {1, 0, 1}, {200, 4000, 1}, {1000, 4000, 16},
		{5200, 4000, 256}} {
		w := many(t, c.n, c.size)
		r := w.write()
		if r.Files != c.files || r.Objects != c.n {
			t.Errorf("%d objects: %+v", c.n, r)
		}
		for name, b := range w.files() {
			if len(b) > 2*maxWeight {
				t.Errorf("%s has %d bytes", name, len(b))
			}
		}
		if err := w.whole(w.objects); err != nil {
			t.Errorf("%d objects: %v", c.n, err)
		}
		if rep := w.check(); !inOrder(rep) {
			t.Errorf("%d objects: %+v", c.n, rep.Stale)
		}
	}
}

// TestDivided lets packs come to be too large and small again. Objects that only the directory has aren't lost.
func TestDivided(t *testing.T) {
	w := many(t, 230, 4000)
	w.write()
	full := w.store
	all := w.objects
	more := many(t, 400, 4000)
	w.objects, w.store = more.objects, new(cas.Memory)
	for _, o := range more.objects[230:] {
		b, _ := get(more.store, o.ID)
		w.store.Put(t.Context(), cas.Blob, bytes.NewReader(b))
	}
	if r := w.write(); r.Files != 16 || r.Written != 16 || r.Removed != 1 {
		t.Errorf("more: %+v", r)
	}
	w.store, w.objects = new(cas.Memory), all
	if r := w.write(); r.Files != 1 || r.Written != 1 || r.Removed != 16 {
		t.Errorf("less: %+v", r)
	}
	w.store = full
	if err := w.whole(all); err != nil {
		t.Error(err)
	}
}

func TestMissing(t *testing.T) {
	w := many(t, 5, 100)
	w.put(cas.Blob, text(1, 1<<17))
	w.write()
	before := w.files()
	gone := w.objects[:0:0]
	for i := range 3 {
		d := cas.Sum([]byte{byte(i)})
		gone = append(gone, Object{ID: cas.ID{Kind: cas.Blob, Digest: d}, Size: int64(i) << 16})
	}
	w.objects = append(w.objects, gone...)
	_, err := Write(t.Context(), w.dir, w.objects, w.store)
	missing, ok := errors.AsType[*MissingError](err)
	if !ok || len(missing.IDs) != 3 || !errors.Is(err, fs.ErrNotExist) ||
		!strings.HasSuffix(err.Error(), " and 2 more objects are missing") {
		t.Errorf("got %v", err)
	}
	if !slices.IsSortedFunc(missing.IDs, func(a, b cas.ID) int { return a.Digest.Compare(b.Digest) }) {
		t.Error("they aren't sorted")
	}
	if !maps.Equal(before, w.files()) {
		t.Error("something was changed")
	}
	if r := w.check(); !slices.Equal(r.Missing, missing.IDs) || inOrder(r) {
		t.Errorf("%+v", r)
	}
	if e := (&MissingError{missing.IDs[:1]}).Error(); e != missing.IDs[0].String()+" is missing" {
		t.Error(e)
	}
}

func TestSignatures(t *testing.T) {
	w := newWorld(t)
	o := w.bundle("1.0.0", alice)
	one := *o
	w.write()
	first := w.files()["all.pack"]
	w.objects = nil
	w.bundle("1.0.0", bob)
	w.write()
	second := w.files()["all.pack"]
	// What git makes of two branches.
	merged := head + strings.TrimPrefix(first, head) + strings.TrimPrefix(second, head)
	if err := os.WriteFile(filepath.Join(w.dir, "all.pack"), []byte(merged), 0o644); err != nil {
		t.Fatal(err)
	}
	v, err := Open(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	b, err := bundle.ReadStored(t.Context(), v, v, one.Digest)
	if err != nil || len(b.Signatures) != 2 {
		t.Errorf("got %v, %v", b, err)
	}
	if id, err := v.Ref("bundles/" + hex(one.Digest)); err != nil || id != one.ID {
		t.Errorf("got %v, %v", id, err)
	}
	for _, name := range []string{"", "bundles", "bundles/", "bundles/x", "signatures/" + hex(cas.Sum(nil)),
		"bundles/" + hex(cas.Sum(nil)), "x/" + hex(one.Digest),
		"bundles/" + hex(one.Digest) + "/files"} {
		if _, err := v.Ref(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if r := w.check(); inOrder(r) || !slices.Equal(r.Stale, []string{"all.pack"}) || len(r.Superfluous) != 1 ||
		len(r.Missing)+len(r.Damaged) > 0 {
		t.Errorf("%+v", r)
	}
	w.objects[0].Signatures = b.Signatures
	w.write()
	if r := w.check(); !inOrder(r) {
		t.Errorf("%+v", r)
	}
	if got := strings.Count(w.files()["all.pack"], " signatures "); got != 1 {
		t.Errorf("%d sets", got)
	}
	// A large document is found as well.
	doc := w.put(cas.Document, text(1, 1<<17))
	w.write()
	v2, err := Open(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer v2.Close()
	if id, err := v2.Ref("bundles/" + hex(doc.Digest)); err != nil || id != doc.ID {
		t.Errorf("got %v, %v", id, err)
	}
}

func TestRefused(t *testing.T) {
	w := newWorld(t)
	o := *w.bundle("1.0.0", alice)
	p := *w.bundle("2.0.0", bob)
	blob := *w.put(cas.Blob, []byte("x"))
	change := func(o Object, f func(*Object)) Object { f(&o); return o }
	for name, objects := range map[string][]Object{
		"no kind":                {change(o, func(o *Object) { o.Kind = 0 })},
		"another kind":           {change(o, func(o *Object) { o.Kind = 9 })},
		"no digest":              {change(blob, func(o *Object) { o.Digest = cas.Digest{} })},
		"no size":                {change(blob, func(o *Object) { o.Size = -1 })},
		"another size":           {change(blob, func(o *Object) { o.Size = 2 })},
		"a large size":           {change(blob, func(o *Object) { o.Size = 1 << 20 })},
		"a huge size":            {change(blob, func(o *Object) { o.Size = 1 << 50 })},
		"two sizes":              {blob, change(blob, func(o *Object) { o.Size = 2 })},
		"another's signatures":   {change(o, func(o *Object) { o.Signatures = p.Signatures })},
		"two sets of signatures": {o, change(o, func(o *Object) { o.Signatures = w.signedBy(bob) })},
		"a blob with signatures": {change(o, func(o *Object) { o.Kind = cas.Blob })},
		"signatures out of order": {change(o, func(o *Object) {
			o.Signatures = append(o.Signatures[:1:1], o.Signatures...)
		})},
	} {
		_, err := Write(t.Context(), w.dir, objects, w.store)
		if err == nil || !strings.Contains(err.Error(), objects[0].Digest.String()+": ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Write(t.Context(), w.dir, make([]Object, MaxObjects+1), w.store); err == nil {
		t.Error("too many objects")
	}
	if _, err := Check(t.Context(), w.dir, make([]Object, MaxObjects+1)); err == nil {
		t.Error("too many objects")
	}
	if _, err := Write(t.Context(), filepath.Join(w.dir, "no", "such"), nil, w.store); !errors.Is(err,
		fs.ErrNotExist) {
		t.Error(err)
	}
	if len(w.files()) > 0 {
		t.Errorf("there are files: %v", w.files())
	}
}

func (w *world) signedBy(k key.Private) manifest.Signatures {
	other := newWorld(w.t)
	return other.bundle("1.0.0", k).Signatures
}

// TestLargeSizes looks at large objects whose sizes aren't as they were said to be.
func TestLargeSizes(t *testing.T) {
	w := newWorld(t)
	o := w.put(cas.Blob, text(1, 1<<17))
	w.write()
	o.Size++
	if _, err := Write(t.Context(), w.dir, w.objects, w.store); err == nil ||
		!strings.Contains(err.Error(), " bytes, expected ") {
		t.Error(err)
	}
	if r := w.check(); inOrder(r) || len(r.Stale) != 1 {
		t.Errorf("%+v", r)
	}
	o.Size--
	for _, bad := range []string{"", "x", string(text(2, 1<<17))} {
		if err := os.WriteFile(filepath.Join(w.dir, largeName(o.ID)), []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if r := w.check(); len(r.Missing) != 1 || len(r.Damaged) != 1 || inOrder(r) {
			t.Errorf("%+v", r)
		}
		if err := w.whole(w.objects); err == nil {
			t.Error("damaged, and read")
		}
		if r := w.write(); r.Written != 1 {
			t.Errorf("%+v", r)
		}
		if err := w.whole(w.objects); err != nil {
			t.Error(err)
		}
	}
}

// A pack that was read stays open: an object in it is found whatever becomes of the file's name, a new one in the file
// that takes its place, and damaged bytes are no answer.
func TestKeptOpen(t *testing.T) {
	w := many(t, 3, 100)
	w.write()
	v, err := Open(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	look := func(id cas.ID, want bool) {
		t.Helper()
		if err := same(v, w.store, id); (err == nil) != want {
			t.Errorf("%s: %v", id, err)
		}
	}
	look(w.objects[0].ID, true)
	pack := filepath.Join(w.dir, "all.pack")
	if err := os.Rename(pack, pack+".old"); err != nil {
		t.Fatal(err)
	}
	look(w.objects[1].ID, true)
	w.put(cas.Blob, text(3, 100))
	look(w.objects[3].ID, false)
	w.write()
	look(w.objects[3].ID, true)
	b, err := os.ReadFile(pack)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pack, bytes.ReplaceAll(b, []byte("import os"), []byte("import OS")), 0o644); err != nil {
		t.Fatal(err)
	}
	look(w.objects[2].ID, false)
	w.write()
	look(w.objects[2].ID, true)
}
