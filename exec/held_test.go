package exec_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestPackagesOfLink: the packages may be those of what runs the tool, such as the item of a server. The configuration
// names their directory, and what is held outlives the plan.
func TestPackagesOfLink(t *testing.T) {
	w, r := newWorld(t), &registry{TB: t}
	w.put(map[string]string{
		".ai/tools/acme/servers/s.yaml": tool("acme/servers/s", "rye/core/primitives/probe",
			"config: {start: '{packages_path}/node_modules/a/index.js'}",
			"anchor: {lib: _s}", "packages: _s/package-lock.json"),
		".ai/tools/acme/servers/_s/package-lock.json": packageLock(r.npm("node_modules/a", "a", "1.0.0",
			map[string]string{"index.js": "a1"})),
		".ai/tools/acme/s/one.yaml": tool("acme/s/one", "acme/servers/s"),
	})
	w.signed("tool:acme/servers/s", alice)
	w.signed("tool:acme/s/one", alice)
	for _, ref := range []string{"tool:acme/s/one", "tool:acme/servers/s"} {
		p := w.planned(w.packed(r), ref)
		dir, files := packagesOf(t, p)
		if want := filepath.Join(dir, "node_modules", "a", "index.js"); p.Config["start"] != want ||
			p.Action.Config["start"] != want || files["node_modules/a/index.js"] != "a1" {
			t.Errorf("%s: %v, %v", ref, p.Config, files)
		}
		if !slices.Contains(p.Action.Links, "tool:acme/servers/s") || p.Action.Scratch == "" || p.Action.Share == "" {
			t.Errorf("%+v", p.Action)
		}
		release := p.Action.Hold()
		again := p.Action.Hold()
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		again()
		again()
		if _, err := os.Stat(p.Action.Scratch); err != nil {
			t.Errorf("what is held is gone: %v", err)
		}
		release()
		if _, err := os.Stat(p.Action.Scratch); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what nothing holds is there: %v", err)
		}
	}
}
