package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
)

var errDead = errors.New("dead")

// dying lets so many changes happen and none after that, as when a process dies.
type dying struct {
	mu   sync.Mutex
	left int
	ops  int
}

func (d *dying) do() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ops++
	if d.left--; d.left < 0 {
		return errDead
	}
	return nil
}

func (d *dying) disk(disk.Op) error         { return d.do() }
func (d *dying) space(string, string) error { return d.do() }

// TestDying lets the process die before each change on disk, of the store's files and of the space's: there is the old
// version or the new one, whole, and what was interrupted can be done again.
func TestDying(t *testing.T) {
	_, first := packed(t, "acme/demo", "1.0.0", "one", alice)
	second, secondB := packed(t, "acme/demo", "2.0.0", "two", alice)
	firstL, _ := packed(t, "acme/demo", "1.0.0", "one", alice)
	steps := map[string]struct {
		run  func(s *Space, store Store) error
		good []string // states that may be found
		end  string   // after doing it again
	}{
		"import and install": {func(s *Space, store Store) error {
			if _, err := Import(context.Background(), store, bytes.NewReader(secondB), options()); err != nil {
				return err
			}
			_, err := s.Install(context.Background(), Request{ID: second.ID, ByName: true}, options())
			return err
		}, []string{"1.0.0", "2.0.0 1.0.0"}, "2.0.0 1.0.0"},
		"remove": {func(s *Space, store Store) error {
			err := s.Remove(context.Background(), "acme/demo")
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			return err
		}, []string{"1.0.0", ""}, ""},
	}
	before := newWorld(t)
	if _, err := Import(t.Context(), before.store, bytes.NewReader(first), options()); err != nil {
		t.Fatal(err)
	}
	if err := before.install(firstL, true); err != nil {
		t.Fatal(err)
	}
	const lanes = 4
	for name, step := range steps {
		for lane := range lanes {
			t.Run(fmt.Sprint(name, lane), func(t *testing.T) {
				t.Parallel()
				n := lane
				for diesBefore(t, n, before, second, step.run, step.good, step.end) {
					n += lanes
				}
				if n < 10 {
					t.Errorf("only %d changes were seen", n)
				}
			})
		}
	}
}

// diesBefore lets a process die before its change n, and reports whether it came to that.
func diesBefore(t *testing.T, n int, before *world, second *manifest.FileList, run func(*Space, Store) error,
	good []string, end string) bool {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	if err := os.CopyFS(w.dir, os.DirFS(before.dir)); err != nil {
		t.Fatal(err)
	}
	d := &dying{left: n}
	store := w.openStore(d.disk)
	err := run(w.open(store, d.space), store)
	if err == nil && d.left >= 0 {
		return false
	}
	if err != nil && !errors.Is(err, errDead) {
		t.Fatalf("before change %d: %v", n, err)
	}
	w.store = w.openStore(nil)
	w.space = w.open(w.store, nil)
	if !slices.Contains(good, w.state()) {
		t.Fatalf("before change %d: the state %q", n, w.state())
	}
	whole := func(what string, src bundle.Source) {
		if r, err := bundle.Verify(t.Context(), src, options()); err != nil || !r.OK() {
			t.Fatalf("before change %d: %s and not whole: %v, %v", n, what, err, r)
		}
	}
	if w.state() != "" {
		at, err := w.space.Get("acme/demo")
		if err != nil {
			t.Fatal(err)
		}
		whole("installed", bundle.Given(at.Bundle, w.store))
	}
	if _, err := w.store.Ref(Ref(second.ID)); err == nil {
		whole("named in the store", bundle.InStore(w.store, w.store, second.ID))
	}
	if err := run(w.space, w.store); err != nil || w.state() != end {
		t.Fatalf("again, after change %d: %v, %s", n, err, w.state())
	}
	return true
}

// TestObstacles puts something else in the place of each file that is needed: nothing is installed, and nothing hangs.
func TestObstacles(t *testing.T) {
	before := newWorld(t)
	one, two := before.bring("1.0.0", "one"), before.bring("2.0.0", "two")
	if err := before.install(one, true); err != nil {
		t.Fatal(err)
	}
	home := ".ai/bundles/acme/demo"
	for name, c := range map[string]struct {
		dirs, files     []string // to be made in the place of what is there
		install, remove bool     // whether that fails
	}{
		"nothing":      {},
		"no directory": {files: []string{".ai"}, install: true, remove: true},
		"no bundles":   {files: []string{".ai/bundles"}, install: true, remove: true},
		"lock":         {dirs: []string{".ai/bundles/.lock"}, install: true, remove: true},
		"home":         {files: []string{".ai/bundles/acme"}, install: true, remove: true},
		"pointer":      {dirs: []string{home + "/manifest.yaml/x"}, install: true, remove: true},
		"history":      {files: []string{home + "/history"}, install: true, remove: true},
		"its history": {dirs: []string{home + "/history/1.0.0-" + one.ID.Short() + ".yaml/x"}, install: true,
			remove: true},
		"a broken history": {files: []string{home + "/history/0.1.0-000000000000.yaml"}},
		"state":            {files: []string{"../state"}, install: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t, dir: t.TempDir()}
			if err := os.CopyFS(w.dir, os.DirFS(before.dir)); err != nil {
				t.Fatal(err)
			}
			w.store = w.openStore(nil)
			w.space = w.open(w.store, nil)
			for i, p := range slices.Concat(c.dirs, c.files) {
				p = filepath.Join(w.dir, "home", filepath.FromSlash(p))
				if err := errors.Join(os.RemoveAll(strings.TrimSuffix(p, "/x")),
					os.MkdirAll(filepath.Dir(p), 0o755)); err != nil {
					t.Fatal(err)
				}
				if i < len(c.dirs) {
					if err := os.Mkdir(p, 0o755); err != nil {
						t.Fatal(err)
					}
				} else if err := os.WriteFile(p, []byte("x"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			err := w.install(two, true)
			at, bad := w.space.Get("acme/demo")
			if (err != nil) != c.install || err == nil && (bad != nil || at.ID != two.ID) || err != nil &&
				bad == nil && at.ID != one.ID {
				t.Errorf("install: %v; then there is %+v, %v", err, at, bad)
			}
			if err := w.space.Remove(t.Context(), "acme/demo"); (err != nil) != c.remove {
				t.Errorf("remove: %v", err)
			}
			if _, err := w.space.List(t.Context()); err != nil && !c.install {
				t.Errorf("list: %v", err)
			}
			if _, err := w.space.Rollback(t.Context(), "acme/demo", one.ID, options()); err == nil {
				t.Error("rolled back to what is gone")
			}
		})
	}
}

// A failing store fails one of its methods.
type failing struct {
	*disk.Store
	ref, set, batch, put error
}

func (f failing) Ref(name string) (cas.ID, error) {
	if f.ref != nil {
		return cas.ID{}, f.ref
	}
	return f.Store.Ref(name)
}

func (f failing) SetRef(ctx context.Context, name string, old, id cas.ID) error {
	if f.set != nil {
		return f.set
	}
	return f.Store.SetRef(ctx, name, old, id)
}

func (f failing) Batch(ctx context.Context) (cas.Batch, error) {
	if f.batch != nil {
		return nil, f.batch
	}
	b, err := f.Store.Batch(ctx)
	if f.put != nil {
		return failingBatch{b, f.put}, err
	}
	return b, err
}

type failingBatch struct {
	cas.Batch
	err error
}

func (b failingBatch) PutBytes(ctx context.Context, kind cas.Kind, x []byte) (cas.Digest, error) {
	if kind == cas.TreeKind {
		return cas.Digest{}, b.err
	}
	return b.Batch.PutBytes(ctx, kind, x)
}

func TestStoreFails(t *testing.T) {
	w := newWorld(t)
	one := w.bring("1.0.0", "one")
	if err := w.install(one, true); err != nil {
		t.Fatal(err)
	}
	_, b := packed(t, "acme/demo", "2.0.0", "two", alice)
	for name, s := range map[string]failing{"ref": {ref: fs.ErrInvalid}, "set": {set: fs.ErrInvalid},
		"batch": {batch: fs.ErrInvalid}, "tree": {put: fs.ErrInvalid}} {
		s.Store = w.store
		if _, err := Import(t.Context(), s, bytes.NewReader(b), options()); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		space := w.open(s, nil)
		if _, err := space.Install(t.Context(), Request{ID: one.ID}, options()); !errors.Is(err, fs.ErrInvalid) &&
			name != "set" {
			t.Errorf("%s, install: %v", name, err)
		}
		if w.state() != "1.0.0" {
			t.Errorf("%s: the state is %s", name, w.state())
		}
	}
	if err := w.open(failing{Store: w.store, set: fs.ErrInvalid}, nil).Remove(t.Context(),
		"acme/demo"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("remove: %v", err)
	}
	if err := w.space.Remove(t.Context(), "acme/demo"); err != nil || w.state() != "" {
		t.Errorf("again: %v", err)
	}
	bad := &bundle.Bundle{FileList: &manifest.FileList{Document: manifest.Document{ID: cas.Sum(nil)}}}
	if err := Keep(t.Context(), w.store, bad, []byte("x"), options()); err == nil {
		t.Error("another manifest was kept")
	}
	if e := notInstalled("a", cas.Sum(nil)).Error(); e != `bundle "a" was never installed as `+cas.Sum(nil).String() {
		t.Error(e)
	}
}

// A busyStore is one whose refs always change.
type busyStore struct{ Store }

func (busyStore) SetRef(context.Context, string, cas.ID, cas.ID) error { return &disk.ConflictError{} }

func TestRefsChange(t *testing.T) {
	w := newWorld(t)
	_, b := packed(t, "acme/demo", "1.0.0", "one", alice)
	_, err := Import(t.Context(), busyStore{w.store}, bytes.NewReader(b), options())
	if err == nil || fault.CodeOf(err) != fault.Busy {
		t.Errorf("got %v", err)
	}
}
