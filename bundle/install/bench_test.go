package install

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/sign"
)

// benchArchive is a bundle of many items.
func benchArchive(b *testing.B) (*manifest.FileList, []byte) {
	var store cas.Memory
	var files []manifest.File
	for i := range 2000 {
		ref := fmt.Sprintf("knowledge:acme/note%d", i)
		text := fmt.Appendf(nil, "---\nid: note%d\ntitle: Note\nversion: 2.0.0\nentry_type: reference\n---\n%s\n", i,
			bytes.Repeat([]byte("text "), 200+i%100))
		signed, err := sign.Sign(text, sign.Angle, sign.Claim{Domain: sign.Item, Name: ref}, alice, noon, nil)
		if err != nil {
			b.Fatal(err)
		}
		info, err := store.Put(b.Context(), cas.Blob, bytes.NewReader(signed))
		if err != nil {
			b.Fatal(err)
		}
		files = append(files, manifest.File{Path: fmt.Sprintf(".ai/knowledge/acme/note%d.md", i), Digest: info.Digest,
			Size: info.Size, Mode: cas.File, Ref: ref, Version: "2.0.0"})
	}
	body, l, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: "acme/demo", Version: "1.0.0"}, files)
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Sign(alice, noon); err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	if err := archive.Write(b.Context(), &out, body, l.Signatures, &store); err != nil {
		b.Fatal(err)
	}
	return l, out.Bytes()
}

func BenchmarkImport(b *testing.B) {
	l, text := benchArchive(b)
	b.SetBytes(l.Bytes)
	for b.Loop() {
		w := newWorld(b)
		if _, err := Import(b.Context(), w.store, bytes.NewReader(text), options()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkInstall(b *testing.B) {
	w := newWorld(b)
	l, text := benchArchive(b)
	if _, err := Import(b.Context(), w.store, bytes.NewReader(text), options()); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(l.Bytes)
	for b.Loop() {
		if err := w.install(l, true); err != nil {
			b.Fatal(err)
		}
	}
}
