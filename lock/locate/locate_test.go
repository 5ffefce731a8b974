package locate_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/locate"
	"github.com/rye-build/rye/lock/workspace"
)

// finder finds bundles in a new project with some files, and a user who has nothing.
func finder(t *testing.T, files map[string]string) *locate.Finder {
	t.Helper()
	dir, home := t.TempDir(), t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) workspace.Place { return workspace.Place{Path: filepath.Join(home, name)} }
	w, err := workspace.Open(context.Background(), workspace.Paths{Dir: dir, Version: "devel", User: workspace.Place{Path: home},
		Store: at("store"), State: at("state"), Cache: at("cache")}, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return &locate.Finder{Workspace: w, Stdin: strings.NewReader("x"), Abs: func(p string) (string, error) { return filepath.Join(dir, p), nil }}
}

// noProject is the error of a directory that is in no project.
func noProject(t *testing.T) error {
	t.Helper()
	_, err := (&workspace.Paths{Dir: t.TempDir(), Version: "devel"}).OpenProject()
	return err
}

func TestFind(t *testing.T) {
	ctx := context.Background()
	const damaged = "version: 2"
	one := map[string]string{"rye.yaml": "", ".ai/bundles/acme/a/manifest.yaml": damaged, "a.tar.zst": "x"}
	two := map[string]string{"rye.yaml": "", ".ai/bundles/acme/a/manifest.yaml": damaged, ".ai/bundles/acme/b/manifest.yaml": damaged}
	named := map[string]string{"rye.yaml": "", ".ai/bundles/acme/a/manifest.yaml": damaged, ".ai/bundles/acme/b/manifest.yaml": damaged, "bundle.yaml": "id: acme/b\nversion: 1.0.0\n"}
	for _, test := range []struct {
		files       map[string]string
		text        string
		where, id   string
		code        fault.Code
		onlyIDs     bool
		description string
	}{
		{files: nil, text: "", code: fault.CodeOf(noProject(t)), description: "no project"},
		{files: one, text: "", where: locate.InProject, id: "acme/a"},
		{files: one, text: "acme/a", where: locate.InProject, id: "acme/a"},
		{files: one, text: "acme/a@1.0.0", code: fault.NotFound, description: "a project's bundle is never asked for a version"},
		{files: two, text: "", code: fault.Ambiguous},
		{files: named, text: "", where: locate.InProject, id: "acme/b", description: "bundle.yaml names one"},
		{files: one, text: ".ai", where: locate.InProject, id: "acme/a"},
		{files: one, text: ".ai/bundles/acme/a", where: locate.InProject, id: "acme/a"},
		{files: one, text: ".ai/bundles/acme/a/manifest.yaml", where: locate.InProject, id: "acme/a"},
		{files: one, text: "a.tar.zst", where: locate.InArchive},
		{files: one, text: "a.tar.zst", onlyIDs: true, code: fault.NotFound},
		{files: one, text: "./none", code: fault.Files},
		{files: map[string]string{"rye.yaml": "", "empty/x": ""}, text: "./empty", code: fault.NotFound},
		{files: one, text: "-", where: locate.InArchive},
		{files: one, text: "rye/std", where: locate.InBinary, id: "rye/std"},
		{files: one, text: "blake3:abcd", code: fault.NotFound, description: "no store"},
	} {
		f := finder(t, test.files)
		if test.onlyIDs {
			f.Abs = nil
		}
		b, err := f.Find(ctx, test.text)
		if test.code != "" {
			if err == nil || fault.CodeOf(err) != test.code {
				t.Errorf("%q (%s): %+v, %v", test.text, test.description, b, err)
			}
			continue
		}
		if err != nil || b.Where != test.where || b.ID != test.id {
			t.Errorf("%q (%s): %+v, %v", test.text, test.description, b, err)
		}
	}
}

func TestLoad(t *testing.T) {
	ctx := context.Background()
	f := finder(t, map[string]string{"rye.yaml": "", ".ai/bundles/acme/a/manifest.yaml": "version: 2"})
	b, err := f.Find(ctx, "acme/a")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Load(ctx); err == nil {
		t.Error("a damaged manifest was read")
	}
	if id, requires, err := b.Requires(ctx); id != "" || requires != nil || err != nil {
		t.Errorf("%q, %v, %v", id, requires, err)
	}
	std, err := f.Find(ctx, "rye/std")
	if err != nil {
		t.Fatal(err)
	}
	src, below, err := std.Source(ctx, nil)
	if err != nil || len(below) != 1 || std.Size() == 0 || std.Load(ctx) != nil || std.NeedV2() != nil {
		t.Errorf("%v, %v", below, err)
	}
	if n, err := bundle.Inspect(ctx, src, nil, ""); err != nil || n.BundleID != "rye/std" {
		t.Errorf("%+v, %v", n, err)
	}
	if h, err := locate.ArchiveHead(ctx, filepath.Join(f.Root.Root, "rye.yaml")); err == nil {
		t.Errorf("%+v", h)
	}
}
