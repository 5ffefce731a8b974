package oci

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
)

// TestShared: a layer that several objects have is fetched once, and stays in the spool until the last of them has
// used it.
func TestShared(t *testing.T) {
	t.Parallel()
	if testing.Short() { // TestPushPull has the same goroutines
		t.Skip("many megabytes")
	}
	d := newDouble(t)
	alike := make([]byte, batchBytes+1) // after as many bytes, what came is made durable, and used layers are removed
	w := newWorld(t, alike[:batchBytes], alike)
	p := d.place(t)
	pushed, err := p.Push(t.Context(), w.content, "1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.pull(t.Context(), p, "1", filepath.Join(t.TempDir(), "spool")); err != nil {
		t.Fatal(err)
	}
	if got, want := d.Count("GET /v2/acme/deploy/blobs/"), 3; got != want || pushed.Layers != 9 {
		t.Errorf("%d blobs fetched for %d layers, want %d: a document and two layers", got, pushed.Layers, want)
	}
}

// asked is a store that says when it was asked what it lacks.
type asked struct {
	cas.Memory
	lacks chan bool
}

func (s *asked) Missing(ctx context.Context, ids []cas.ID) ([]cas.ID, error) {
	missing, err := s.Memory.Missing(ctx, ids)
	s.lacks <- len(missing) > 0
	return missing, err
}

// TestPulledMeanwhile: what another process has pulled while this one waited for it isn't fetched again.
func TestPulledMeanwhile(t *testing.T) {
	t.Parallel()
	d, spool := newDouble(t), filepath.Join(t.TempDir(), "spool")
	w := newWorld(t, noise(1, 5<<20))
	p := d.place(t)
	if _, err := p.Push(t.Context(), w.content, "1"); err != nil {
		t.Fatal(err)
	}
	m, err := p.Get(t.Context(), "1")
	if err == nil {
		err = os.Mkdir(spool, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	other, err := osfile.LockFile(t.Context(), filepath.Join(spool, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	store, before, ended := &asked{lacks: make(chan bool, 2)}, d.Count("GET "), make(chan error, 1)
	go func() {
		_, release, err := m.Objects(t.Context(), w.content.Objects, store, spool)
		if err == nil {
			release()
		}
		ended <- err
	}()
	if !<-store.lacks {
		t.Error("nothing is missing at first")
	}
	o, err := w.Get(t.Context(), w.content.Objects[0].ID)
	if err == nil {
		_, err = store.Put(t.Context(), cas.Blob, o)
	}
	other()
	if err := errors.Join(err, <-ended); err != nil {
		t.Fatal(err)
	}
	if n := d.Count("GET ") - before; n > 0 {
		t.Errorf("%d requests", n)
	}
}
