package exec_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rye-build/rye/manifest/policy/floor"
)

// TestDev: an unsigned tool runs if Dev names it, as a stranger's. Other unsigned tools don't.
func TestDev(t *testing.T) {
	w := newWorld(t)
	w.put(map[string]string{
		".ai/tools/acme/x.yaml":     tool("acme/x", "acme/r", "network: [api.example.com]"),
		".ai/tools/acme/r.yaml":     tool("acme/r", probing),
		".ai/tools/acme/d/d.yaml":   tool("acme/d/d", "rye/core/runtimes/r"),
		".ai/tools/acme/d/parts":    "a part",
		".ai/tools/acme/d/evil.txt": "another",
	})
	w.signed("tool:acme/r", alice)
	b := w.base()
	b.Dev = parseRef(x)
	p, err := w.kernel.Prepare(t.Context(), b, call(x, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if !p.Dev || !p.Stranger || p.Action.Sandbox.Level != floor.Landlock ||
		!slices.Equal(p.Chain[0].Signers, []string{"dev"}) {
		t.Errorf("%+v", p)
	}
	r, err := p.Run(t.Context(), nil)
	if err != nil || !slices.Equal(w.proved(r).Call.Signers, []string{"dev"}) {
		t.Errorf("%+v, %v", r, err)
	}
	// Its other files come with it.
	b.Dev = parseRef("tool:acme/d/d")
	p, err = w.kernel.Prepare(t.Context(), b, call("tool:acme/d/d", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if text, err := os.ReadFile(filepath.Join(p.Config["anchor"].(string), "evil.txt")); string(text) != "another" {
		t.Errorf("%q, %v", text, err)
	}
	// Another tool isn't meant.
	if _, err := w.kernel.Prepare(t.Context(), b, call(x, nil)); err == nil {
		t.Error("what is unsigned and isn't meant may run")
	}
}
