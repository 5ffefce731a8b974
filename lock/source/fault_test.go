package source

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/lock/project"
)

var errFault = errors.New("the disk is full")

// A faulty store fails in one of its operations, and works before and after.
type faulty struct {
	*disk.Store
	left atomic.Int64 // operations until it fails
}

func (s *faulty) fail() error {
	if s.left.Add(-1) == 0 {
		return errFault
	}
	return nil
}

func (s *faulty) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	if err := s.fail(); err != nil {
		return cas.Object{}, err
	}
	return s.Store.Get(ctx, id)
}

func (s *faulty) Put(ctx context.Context, kind cas.Kind, r io.Reader) (cas.Info, error) {
	if err := s.fail(); err != nil {
		return cas.Info{}, err
	}
	return s.Store.Put(ctx, kind, r)
}

func (s *faulty) Missing(ctx context.Context, ids []cas.ID) ([]cas.ID, error) {
	if err := s.fail(); err != nil {
		return nil, err
	}
	return s.Store.Missing(ctx, ids)
}

func (s *faulty) Ref(name string) (cas.ID, error) {
	if err := s.fail(); err != nil {
		return cas.ID{}, err
	}
	return s.Store.Ref(name)
}

func (s *faulty) SetRef(ctx context.Context, name string, old, id cas.ID) error {
	if err := s.fail(); err != nil {
		return err
	}
	return s.Store.SetRef(ctx, name, old, id)
}

func (s *faulty) Batch(ctx context.Context) (cas.Batch, error) {
	if err := s.fail(); err != nil {
		return nil, err
	}
	b, err := s.Store.Batch(ctx)
	return &faultyBatch{b, s}, err
}

type faultyBatch struct {
	cas.Batch
	store *faulty
}

func (b *faultyBatch) Put(ctx context.Context, kind cas.Kind, r io.Reader) (cas.Info, error) {
	if err := b.store.fail(); err != nil {
		return cas.Info{}, err
	}
	return b.Batch.Put(ctx, kind, r)
}

func (b *faultyBatch) PutBytes(ctx context.Context, kind cas.Kind, text []byte) (cas.Digest, error) {
	if err := b.store.fail(); err != nil {
		return cas.Digest{}, err
	}
	return b.Batch.PutBytes(ctx, kind, text)
}

func (b *faultyBatch) Commit(ctx context.Context) error {
	if err := b.store.fail(); err != nil {
		return err
	}
	return b.Batch.Commit(ctx)
}

// Wherever the store fails, the bundle is whole or isn't to be found, and comes when it is tried again.
func TestFaults(t *testing.T) {
	every := 1
	if testing.Short() {
		every = 5
	}
	for _, where := range []string{"directory", "index", "offline"} {
		p := newPack(t, "acme/base", "2.1.4", nil, alice)
		for n := 1; ; n += every {
			if n > 200 {
				t.Fatal("no end of operations")
			}
			w := newWorld(t)
			src := project.Source{Where: "base"}
			if where == "directory" {
				p.dir(filepath.Join(w.dir, "base"))
			} else {
				src = w.at("/index.yaml", true)
				w.put("/index.yaml", signed(t, index.Index{Label: "all", Counter: 1,
					Entries: []index.Entry{p.entry("base.rye")}}, alice))
				w.put("/base.rye", p.archive())
			}
			if where == "offline" {
				if _, err := w.bring(w.sources("acme/base", src), "acme/base", "2.1.4"); err != nil {
					t.Fatal(err)
				}
				w.offline()
			}
			store := &faulty{Store: w.store}
			store.left.Store(int64(n))
			w.options.Store = store
			_, err := w.bring(w.sources("acme/base", src), "acme/base", "2.1.4")
			if store.left.Load() > 0 {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			if _, gone := errors.AsType[*OfflineError](err); err != nil && !errors.Is(err, errFault) && !gone {
				t.Errorf("%s, operation %d: %v", where, n, err)
			}
			if _, missing := w.store.Ref(install.Ref(p.list.ID)); missing == nil {
				w.whole(p)
			} else if err == nil || !errors.Is(missing, fs.ErrNotExist) {
				t.Errorf("%s, operation %d: brought, and not to be found: %v, %v", where, n, err, missing)
			}
			if _, err := w.bring(w.sources("acme/base", src), "acme/base", "2.1.4"); err != nil {
				t.Errorf("%s, after operation %d: %v", where, n, err)
			}
			w.whole(p)
		}
	}
}

// What is neither a directory nor a file isn't opened.
func TestDevice(t *testing.T) {
	w := newWorld(t)
	if err := os.Symlink(os.DevNull, filepath.Join(w.dir, "device")); err != nil {
		t.Fatal(err)
	}
	p := newPack(t, "acme/base", "2.1.4", nil, alice)
	s := w.sources("acme/base", project.Source{Where: "device"})
	if _, err := s.Versions(t.Context(), "acme/base"); !errors.Is(err, errNotRegular) {
		t.Error(err)
	}
	if _, err := s.Bring(t.Context(), p.want(project.Source{Where: "device"}), nil); !errors.Is(err, errNotRegular) {
		t.Error(err)
	}
}

// An index in a directory may name addresses, and later issues may have forgotten a version, or say otherwise.
func TestLaterIssue(t *testing.T) {
	w := newWorld(t)
	p, q := newPack(t, "acme/base", "2.1.4", nil, alice), newPack(t, "acme/base", "2.1.4", []string{"a *"}, alice)
	src := project.Source{Index: true, Where: "list"}
	counter := int64(0)
	issue := func(entries ...index.Entry) {
		counter++
		write(t, filepath.Join(w.dir, "list", "index.yaml"),
			signed(t, index.Index{Label: "all", Counter: counter, Entries: entries}, alice))
	}
	at := w.url() + "/base.rye"
	online := w.options.Fetch
	w.offline()
	issue(p.entry(at))
	_, err := w.sources("acme/base", src).Bring(t.Context(), p.want(src), nil)
	if offline, ok := errors.AsType[*OfflineError](err); !ok || offline.Address != at {
		t.Error(err)
	}
	w.options.Fetch = online
	issue()
	if _, err := w.sources("acme/base", src).Bring(t.Context(), p.want(src), nil); !errors.Is(err, fs.ErrNotExist) ||
		err.Error() != `"acme/base" 2.1.4 from "list": "acme/base" 2.1.4 is not in the index "list"` {
		t.Error(err)
	}
	issue(q.entry(at))
	_, err = w.sources("acme/base", src).Bring(t.Context(), p.want(src), nil)
	if other := fault.Of(err).Details; other["what"] != "manifest" || other["found"] != q.list.ID.String() {
		t.Error(err)
	}
	w.put("/base.rye", p.archive())
	issue(p.entry(at))
	if _, err := w.sources("acme/base", src).Bring(t.Context(), p.want(src), library); err != nil {
		t.Error(err)
	}
	w.whole(p)
	// What a lock has says more than what an index says later.
	issue(q.entry(at))
	if _, err := w.sources("acme/base", src).Bring(t.Context(), p.want(src), library); err != nil {
		t.Error(err)
	}
}
