package oci

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
)

// bundle stores a bundle like those that people make: small texts, large texts, and large files that don't compress;
// half of its bytes are text.
func bundle(b *testing.B) (Content, *disk.Store) {
	b.Helper()
	store, err := disk.Open(b.TempDir(), disk.Options{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	batch, err := store.Batch(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer batch.Close()
	content := Content{Document: []byte("rye: \"bundle/2\"\n"), Source: store}
	add := func(data []byte) {
		id, err := batch.PutBytes(b.Context(), cas.Blob, data)
		if err != nil {
			b.Fatal(err)
		}
		info := cas.Info{ID: cas.ID{Kind: cas.Blob, Digest: id}, Size: int64(len(data))}
		content.Objects = append(content.Objects, info)
	}
	text := func(seed, n int) []byte {
		var out bytes.Buffer
		for i := seed; out.Len() < n; i = i*1_103_515_245 + 12_345 {
			fmt.Fprintf(&out, "the agent %d reads its directive, then calls tool %x\n", i%1000, i&0xffff)
		}
		return out.Bytes()[:n]
	}
	for i := range 2000 {
		add(text(i+1, 4096))
	}
	for i := range 3 {
		add(text(i+5000, 8<<20))
		add(noise(uint64(i+1), 10<<20))
	}
	if err := batch.Commit(b.Context()); err != nil {
		b.Fatal(err)
	}
	return content, store
}

func size(c Content) (n int64) {
	for _, o := range c.Objects {
		n += o.Size
	}
	return n
}

// BenchmarkPush makes the layers of a bundle, and writes them to an image layout.
func BenchmarkPush(b *testing.B) {
	content, _ := bundle(b)
	b.SetBytes(size(content))
	for b.Loop() {
		place, err := Open(Reference{Dir: filepath.Join(b.TempDir(), "layout")}, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := place.Push(b.Context(), content, "1.0.0"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPull stores the objects of an image layout in an empty store on disk.
func BenchmarkPull(b *testing.B) {
	content, _ := bundle(b)
	place, err := Open(Reference{Dir: filepath.Join(b.TempDir(), "layout")}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := place.Push(b.Context(), content, "1.0.0"); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size(content))
	for b.Loop() {
		store, err := disk.Open(b.TempDir(), disk.Options{Create: true})
		if err != nil {
			b.Fatal(err)
		}
		image, err := place.Get(b.Context(), "1.0.0")
		if err != nil {
			b.Fatal(err)
		}
		_, release, err := image.Objects(b.Context(), content.Objects, store, filepath.Join(b.TempDir(), "spool"))
		if err != nil {
			b.Fatal(err)
		}
		release()
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
