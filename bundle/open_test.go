package bundle_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

// Wherever a bundle is, its items can be read, as its manifest has them.
func TestOpen(t *testing.T) {
	p := newPack(t)
	p.signItems(alice)
	p.make(manifest.FileList{}, alice)
	for name, src := range p.sources() {
		err := bundle.Open(t.Context(), src, t.TempDir(), func(b *bundle.Bundle, files cas.Getter) error {
			if b.ID != p.list.ID || len(b.Files) != len(p.all) {
				t.Errorf("%s: %+v", name, b)
			}
			f, _ := b.File(".ai/tools/acme/hello.sh")
			o, err := files.Get(t.Context(), cas.ID{Kind: cas.Blob, Digest: f.Digest})
			if err != nil {
				return err
			}
			defer o.Close()
			if text, err := io.ReadAll(o); err != nil || !bytes.Equal(text, p.files[f.Path].Data) {
				t.Errorf("%s: %q, %v", name, text, err)
			}
			return io.EOF
		})
		if err != io.EOF {
			t.Errorf("%s: %v", name, err)
		}
	}
	damaged := p.archive()
	damaged = damaged[:len(damaged)/2]
	never := func(*bundle.Bundle, cas.Getter) error {
		t.Error("something was opened")
		return nil
	}
	if _, ok := errors.AsType[*bundle.Failure](bundle.Open(t.Context(), bundle.InArchive(bytes.NewReader(damaged)), t.TempDir(), never)); !ok {
		t.Error("half an archive was opened")
	}
	if err := bundle.Open(t.Context(), bundle.InDir(p.dir(), "acme/other"), "", never); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
