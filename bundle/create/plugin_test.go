package create

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
)

// newPlugin makes the directory of a plugin whose bundle has an id, with the items of newWorld.
func newPlugin(t *testing.T, id string) *world {
	w := newWorld(t)
	w.intoPlugin(id)
	return w
}

// intoPlugin makes the directory that of a plugin.
func (w *world) intoPlugin(id string) {
	w.Helper()
	if err := os.MkdirAll(w.path("io.github.rye-build"), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.Rename(w.path(".ai"), w.path("io.github.rye-build/items")); err != nil {
		w.Fatal(err)
	}
	w.write("plugin.json", "{}")
	made, err := recipe.New(id, "1.0.0")
	if err != nil {
		w.Fatal(err)
	}
	made.Plugin = true
	w.o.Recipe, w.o.Lock = made, nil
	w.o.Keys = func(manifest.Signatures) []manifest.SignerKey {
		return []manifest.SignerKey{{Public: alice.Public(), Owner: "Alice"}}
	}
}

// TestPlugin: every file of a plugin's directory is signed, and a change of any of them is refused.
func TestPlugin(t *testing.T) {
	w := newPlugin(t, "acme")
	made := w.create()
	if made.Path != bundle.PluginManifest || made.Plugin != manifest.PluginVersion || made.Items != 5 {
		t.Errorf("%s, %q, %d items", made.Path, made.Plugin, made.Items)
	}
	if text := w.read(bundle.PluginKeys); !strings.Contains(text, alice.Public().String()) {
		t.Errorf("the keys are %s", text)
	}
	verify := func() *bundle.Report {
		t.Helper()
		report, err := bundle.Verify(t.Context(), bundle.InDir(w.dir, "acme"),
			bundle.VerifyOptions{Trust: w.o.Trust, Below: w.o.Below})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if report := verify(); !report.OK() || report.Good != int64(len(made.Bundle.Files)) {
		t.Fatalf("%d files are good: %v", report.Good, report.Failures)
	}
	if again := w.create(); again.Written || again.ID != made.ID {
		t.Error("an unchanged plugin has another manifest")
	}
	seen := map[string]bool{}
	for _, f := range made.Bundle.Files {
		seen[f.Path] = true
		old, mode := w.read(f.Path), os.FileMode(0o644)
		if f.Mode == cas.Exec {
			mode = 0o755
		}
		for what, change := range map[string]func() error{
			"more":   func() error { return os.WriteFile(w.path(f.Path), []byte(old+"x"), mode) },
			"gone":   func() error { return os.Remove(w.path(f.Path)) },
			"a mode": func() error { return os.Chmod(w.path(f.Path), mode^0o111) },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if verify().OK() {
				t.Errorf("%s: %s is accepted", f.Path, what)
			}
			if err := os.WriteFile(w.path(f.Path), []byte(old), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(w.path(f.Path), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !seen["plugin.json"] || !seen["docs/a.md"] || !seen["src/main.c"] || seen[bundle.PluginManifest] ||
		seen[bundle.PluginKeys] {
		t.Errorf("the manifest lists %v", seen)
	}
	for _, name := range []string{"more", "docs/more", ".ai/tools/x.yaml", "io.github.rye-build/more",
		"io.github.rye-build/items/tools/acme/more.txt"} {
		w.write(name, "x")
		if verify().OK() {
			t.Errorf("a new file %s is accepted", name)
		}
		if err := os.Remove(w.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	if report := verify(); !report.OK() {
		t.Errorf("after all of it: %v", report.Failures)
	}
}

// TestPluginOfOtherIDs: a plugin has no item outside of its own id, or it could take the place of another's.
func TestPluginOfOtherIDs(t *testing.T) {
	w := newPlugin(t, "acme/deploy")
	_, err := Create(t.Context(), w.o)
	if err == nil || !strings.Contains(err.Error(), bundle.ErrOtherID.Error()) ||
		!strings.Contains(err.Error(), "tools/acme/other.yaml") || strings.Contains(err.Error(), "deploy/one.yaml") {
		t.Errorf("%v", err)
	}
	// A list that was signed by other means is refused when it is verified.
	w = newPlugin(t, "acme")
	made := w.create()
	list := *made.FileList
	list.BundleID = "other"
	body, signed, err := manifest.AppendFileList(nil, &list, made.Bundle.Files)
	if err != nil {
		t.Fatal(err)
	}
	if err := signed.Sign(alice, created); err != nil {
		t.Fatal(err)
	}
	at := w.path(bundle.PluginManifest)
	if err := os.WriteFile(at, append(signed.Signatures.Append(nil), body...), 0o644); err != nil {
		t.Fatal(err)
	}
	report, err := bundle.Verify(t.Context(), bundle.InDir(filepath.Dir(filepath.Dir(at)), "other"),
		bundle.VerifyOptions{Trust: w.o.Trust, Below: w.o.Below})
	if err != nil || report.OK() || report.Failures[0].Err != bundle.ErrOtherID {
		t.Errorf("%v, %+v", err, report)
	}
}

// TestPluginOfOthers: no item of a bundle uses the files of another's plugin, nor those of a bundle that isn't one.
func TestPluginOfOthers(t *testing.T) {
	for of, refused := range map[string]bool{"acme": false, "acme/other": true, "acme/deploy": true} {
		w := newWorld(t)
		w.write(".ai/tools/acme/deploy/one.yaml", toolText("acme/deploy/one", subprocess, "plugin: "+of))
		w.signAll(alice, "tool:acme/deploy/one")
		if of != "acme/deploy" { // the bundle of the world, which is no plugin
			w.intoPlugin("acme")
		}
		_, err := Create(t.Context(), w.o)
		if refused != (err != nil && strings.Contains(err.Error(), bundle.ErrOtherPlugin.Error())) ||
			!refused && err != nil {
			t.Errorf("%s: %v", of, err)
		}
	}
}
