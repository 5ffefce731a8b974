package oci

import (
	"path/filepath"
	"testing"
)

// TestShared: a layer that several objects have is fetched once, and stays in the spool until the last of them has used it.
func TestShared(t *testing.T) {
	t.Parallel()
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
