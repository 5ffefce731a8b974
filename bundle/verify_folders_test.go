package bundle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/manifest"
)

// TestVerifyManyFolders verifies more directories than stay open, some of them changed.
func TestVerifyManyFolders(t *testing.T) {
	p := newPack(t)
	clear(p.files)
	clear(p.refs)
	for i := range 60 {
		for j := range 3 {
			name := fmt.Sprintf("d%02d/e/%d.txt", i, j)
			p.files[name] = &fstest.MapFile{Data: []byte(name), Mode: 0o644}
		}
	}
	p.make(manifest.FileList{}, alice)
	dir := p.dir()
	src := bundle.InDir(dir, "acme/demo")
	failures(t, "as it is", verify(t, src, p.options()))
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	for _, err := range []error{
		os.RemoveAll(at("d07")), os.Rename(at("d21/e"), at("d21/away")), os.Symlink("away", at("d21/e")),
		os.RemoveAll(at("d33/e")), os.WriteFile(at("d33/e"), nil, 0o644),
		os.WriteFile(at("d55/e/2.txt"), []byte("d55/e/3.txt"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	o := p.options()
	o.AllowExtra = true
	failures(t, "changed", verify(t, src, o),
		`"d07/e/0.txt": missing: `, `"d07/e/1.txt": missing: `, `"d07/e/2.txt": missing: `,
		`"d21/e/0.txt": read: open d21/e/0.txt: is a symbolic link`,
		`"d21/e/1.txt": read: open d21/e/1.txt: is a symbolic link`,
		`"d21/e/2.txt": read: open d21/e/2.txt: is a symbolic link`,
		`"d33/e/0.txt": read: open d33/e/0.txt: is not a directory`,
		`"d33/e/1.txt": read: open d33/e/1.txt: is not a directory`,
		`"d33/e/2.txt": read: open d33/e/2.txt: is not a directory`,
		`"d55/e/2.txt": digest: `)
}
