package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
)

const plainManifest = `{"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "name": "demo", ` +
	`"version": "1.2.0", "extensions": {"io.github.rye-build": {"id": "acme/demo"}}}`

// plainPlugin writes an unsigned plugin beside the project.
func plainPlugin(t *testing.T, w *world) (dir string, src project.Source) {
	dir = filepath.Join(filepath.Dir(w.dir), "demo")
	write(t, filepath.Join(dir, "plugin.json"), []byte(plainManifest))
	write(t, filepath.Join(dir, "skills", "talk", "SKILL.md"),
		[]byte("---\nname: talk\ndescription: Talks\n---\nTalk.\n"))
	write(t, filepath.Join(dir, "docs", "note.md"), []byte("A note.\n"))
	return dir, project.Source{Where: "../demo"}
}

// admitting is the world in which the policy admits a digest.
func admitting(t *testing.T, w *world, entry policy.DigestEntry) {
	t.Helper()
	trust := *w.options.Verify.Trust
	var err error
	if trust.Root.Policy, err = trust.Root.Policy.AddDigest(entry); err != nil {
		t.Fatal(err)
	}
	w.options.Verify.Trust = &trust
}

// TestUnsigned: a plugin without a manifest is the bundle that every machine makes of its files, and the policy admits
// it by its digest alone.
func TestUnsigned(t *testing.T) {
	w := newWorld(t)
	dir, src := plainPlugin(t, w)
	if err := os.Symlink("../../docs/note.md", filepath.Join(dir, "skills", "talk", "note.md")); err != nil {
		t.Fatal(err)
	}
	s := w.sources("plugins/demo", src)
	if id, err := s.Named(t.Context(), src); err != nil || id != "plugins/demo" {
		t.Fatal(id, err)
	}
	u, err := s.Unsigned(t.Context(), "plugins/demo", src)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if !strings.HasPrefix(u.Version, "1.2.0+") || len(u.Files) != 4 || len(u.Plugin.Skills) != 1 ||
		u.Plugin.Skills[0].Name != "talk" {
		t.Fatalf("got %s with %d files and %v", u.Version, len(u.Files), u.Plugin.Skills)
	}
	if _, links := u.LeftOut(); len(links) != 1 || links[0] != "skills/talk/note.md" {
		t.Errorf("links: %v", links)
	}
	_, err = s.Versions(t.Context(), "plugins/demo")
	no, ok := errors.AsType[*UnadmittedError](err)
	if !ok || no.Manifest != u.ID || fault.CodeOf(err) != fault.Unsigned ||
		no.Admit() != "rye trust add "+u.ID.String()+" --as bundle:plugins/demo@"+u.Version {
		t.Fatalf("got %v", err)
	}
	want := file.Bundle{ID: u.BundleID, Version: u.Version, Manifest: u.ID, Source: src}
	if _, err := s.Bring(t.Context(), want, nil); fault.CodeOf(err) != fault.Unsigned || len(w.bundles()) > 0 {
		t.Fatalf("got %v, %v", err, w.bundles())
	}

	admitting(t, w, policy.DigestEntry{Digest: u.ID, As: u.Name})
	s = w.sources("plugins/demo", src)
	all, err := s.Versions(t.Context(), "plugins/demo")
	if err != nil || len(all) != 1 || all[0].Version != u.Version {
		t.Fatal(all, err)
	}
	b, err := s.Bring(t.Context(), want, nil)
	if err != nil || b.ID != u.ID || len(w.bundles()) == 0 {
		t.Fatal(err, w.bundles())
	}
	if now, err := s.Now(t.Context(), "plugins/demo", src); err != nil || now.ID != u.ID {
		t.Error(now, err)
	}
	// Its digest admits it under its own name alone.
	if _, err := s.Unsigned(t.Context(), "acme/demo", src); fault.CodeOf(err) != fault.Unsigned {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnsignedChanges: a file that changes while a plugin is added is found, whatever takes its place.
func TestUnsignedChanges(t *testing.T) {
	for name, change := range map[string]func(file string) error{
		"content": func(file string) error { return os.WriteFile(file, []byte("B note.\n"), 0o644) },
		"size":    func(file string) error { return os.WriteFile(file, []byte("Another note.\n"), 0o644) },
		"a directory": func(file string) error {
			return errors.Join(os.Remove(file), os.Mkdir(file, 0o755))
		},
		"gone": os.Remove,
		"a link out": func(file string) error {
			return errors.Join(os.Remove(file), os.Symlink("/etc/hostname", file))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			dir, src := plainPlugin(t, w)
			s := w.sources("plugins/demo", src)
			defer s.Close()
			if _, err := s.Now(t.Context(), "plugins/demo", src); err != nil {
				t.Fatal(err)
			}
			if err := change(filepath.Join(dir, "docs", "note.md")); err != nil {
				t.Fatal(err)
			}
			u, err := s.Unsigned(t.Context(), "plugins/demo", src)
			if err == nil {
				u.Close()
				t.Fatal("it was taken")
			}
		})
	}
}

// TestUnsignedHostile: what the format or rye rejects is refused before any of it is stored.
func TestUnsignedHostile(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		code  fault.Code
		says  string
	}{
		"deep JSON": {map[string]string{"plugin.json": strings.Repeat("[", 100_000)}, fault.Validation,
			"nested more than 1000 deep (rye docs plugins)"},
		"large JSON": {map[string]string{"plugin.json": strings.Repeat(" ", 2<<20)}, fault.Validation, "has more than"},
		"own directory": {map[string]string{"io.github.rye-build/items/tools/plugins/demo/x.py": "x"}, fault.Unsigned,
			"and no manifest"},
		"a stripped manifest": {map[string]string{"io.github.rye-build/keys": "x"}, fault.Unsigned, "and no manifest"},
		"twice the same path": {map[string]string{"docs/NOTE.md": "x"}, fault.Validation, "rejected"},
		"a device":            {map[string]string{"docs/aux.md": "x"}, fault.Validation, "not portable"},
		"a name of a device": {map[string]string{"plugin.json": strings.Replace(plainManifest, "demo", "aux", 1)},
			fault.Validation, "rejected"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			dir, src := plainPlugin(t, w)
			for name, text := range c.files {
				write(t, filepath.Join(dir, filepath.FromSlash(name)), []byte(text))
			}
			s := w.sources("plugins/demo", src)
			defer s.Close()
			_, err := s.Unsigned(t.Context(), "plugins/demo", src)
			if fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v", err)
			}
			note := cas.ID{Kind: cas.Blob, Digest: cas.Sum([]byte("A note.\n"))}
			missing, err := w.store.Missing(t.Context(), []cas.ID{note})
			if err != nil || len(missing) != 1 {
				t.Errorf("it was stored: %v", err)
			}
		})
	}
}

// TestDamagedManifest: a plugin whose manifest can't be read isn't taken for an unsigned one. The error names the file
// and the command that shows more.
func TestDamagedManifest(t *testing.T) {
	line := `  "a": {digest: "blake3:` + strings.Repeat("a", 64) + `", size: 1, mode: "file"}` + "\n"
	head := "rye: \"manifest/2\"\nid: \"plugins/demo\"\nversion: \"1.0.0\"\nplugin: \"1.0.0\"\nfiles:\n"
	for name, c := range map[string]struct{ text, says string }{
		"100 MB":         {"", "line is longer than"},
		"deep":           {head + `  "a": ` + strings.Repeat("{", 60_000), "line 6"},
		"the same twice": {head + line + line, "line 7"},
		"not UTF-8":      {head + strings.Replace(line, `"a"`, "\"\xff\"", 1), "line 6"},
		"JSON":           {"{}", "line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			dir, src := plainPlugin(t, w)
			file := filepath.Join(dir, "io.github.rye-build", "manifest.yaml")
			write(t, file, []byte(c.text))
			if c.text == "" {
				if err := os.Truncate(file, 100<<20); err != nil {
					t.Fatal(err)
				}
			}
			_, err := w.sources("plugins/demo", src).Versions(t.Context(), "plugins/demo")
			f := fault.Of(err)
			if f.Code != fault.Parsing || !strings.Contains(f.Text, `"io.github.rye-build/manifest.yaml": `) ||
				!strings.Contains(f.Text, c.says) || len(f.Hint) != 1 || f.Hint[0] != "rye bundle verify ../demo" {
				t.Errorf("%s: %.300s, %q", f.Code, f.Text, f.Hint)
			}
		})
	}
}

// TestUnsignedRepository: a repository names its unsigned plugin, and a commit is the same bundle as its files.
func TestUnsignedRepository(t *testing.T) {
	w, r := gitWorld(t)
	dir, local := plainPlugin(t, w)
	r.branch["refs/heads/main"] = r.commit(dir)
	src := gitSource(t, "@main")
	s := w.sources("plugins/demo", src)
	if id, err := s.Named(t.Context(), src); err != nil || id != "plugins/demo" {
		t.Fatal(id, err)
	}
	here, err := w.sources("plugins/demo", local).Unsigned(t.Context(), "plugins/demo", local)
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	there, err := s.Unsigned(t.Context(), "plugins/demo", src)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	if there.ID != here.ID || there.Version != here.Version {
		t.Errorf("%s %s of the repository, %s %s of the directory", there.ID, there.Version, here.ID, here.Version)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	// A signed one has its own id, and a repository without either can't say.
	p, top := newPack(t, "acme/base", "2.1.4", nil, alice), t.TempDir()
	write(t, filepath.Join(top, filepath.FromSlash(bundle.PluginManifest)),
		manifest.Join(nil, p.body, p.list.Signatures))
	w, r = gitWorld(t)
	r.branch["refs/heads/main"] = r.commit(top)
	if id, err := w.sources("acme/base", src).Named(t.Context(), src); err != nil || id != "acme/base" {
		t.Error(id, err)
	}
	w, r = gitWorld(t)
	empty := t.TempDir()
	write(t, filepath.Join(empty, "README.md"), []byte("Nothing."))
	r.branch["refs/heads/main"] = r.commit(empty)
	if id, err := w.sources("acme/base", src).Named(t.Context(), src); fault.CodeOf(err) != fault.Ambiguous {
		t.Error(id, err)
	}
}
