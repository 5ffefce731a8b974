//go:build unix

package bundle_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/manifest"
)

// TestVerifyFIFO: what would wait for a writer isn't opened.
func TestVerifyFIFO(t *testing.T) {
	p := newPack(t)
	p.signItems(alice)
	p.make(manifest.FileList{}, alice)
	dir := p.dir()
	for _, name := range []string{"README.md", ".ai/tools/acme/hello.sh"} {
		if err := os.Remove(dir + "/" + name); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(dir+"/"+name, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(dir+"/docs/pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	failures(t, "FIFOs", verify(t, bundle.InDir(dir, "acme/demo"), p.options()),
		`".ai/tools/acme/hello.sh": type: expected a file, found a special file`,
		`"README.md": type: expected a file, found a special file`,
		`"docs/pipe": extra: expected none, found a special file`)
	if _, err := bundle.Inspect(t.Context(), bundle.InDir(dir, "acme/demo"), nil, ""); err != nil {
		t.Error(err)
	}
}
