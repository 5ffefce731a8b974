package bundle_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

func TestRead(t *testing.T) {
	p := newPack(t).make(manifest.FileList{}, alice)
	b, err := bundle.Parse(manifest.Join(nil, p.body, p.list.Signatures))
	if err != nil || b.ID != p.list.ID || len(b.Signatures) != 1 {
		t.Fatalf("%v, %v", b, err)
	}
	if f, ok := b.File("README.md"); !ok || f.Size != int64(len("# demo\r\n")) {
		t.Errorf("%v, %v", f, ok)
	}
	if _, ok := b.File("docs"); ok {
		t.Error("a directory is a file")
	}
	body, err := b.Body()
	if err != nil || cas.Sum(body) != b.ID {
		t.Errorf("%q, %v", body, err)
	}
	var before, after runtime.MemStats
	junk := bytes.Repeat([]byte("x"), 16<<20)
	runtime.ReadMemStats(&before)
	if _, err := bundle.Parse(junk); err == nil {
		t.Error("what is no manifest is read")
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 1<<20 {
		t.Errorf("it takes %d bytes of memory", after.TotalAlloc-before.TotalAlloc)
	}
	if p, err := bundle.ManifestPath("acme/demo"); err != nil || p != ".ai/bundles/acme/demo/manifest.yaml" {
		t.Errorf("%s, %v", p, err)
	}
	if _, err := bundle.ManifestPath("../x"); err == nil {
		t.Error("an id that leads out")
	}
}
