package find_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/rollback"
)

// finder finds bundles in a new project with some files, for a user who has a store and nothing installed.
func finder(t *testing.T, files map[string]string) (*find.Finder, *disk.Store) {
	t.Helper()
	dir, home := t.TempDir(), t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := disk.Open(filepath.Join(home, "store"), disk.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	f := &find.Finder{Dir: dir, Project: dir, User: home, Input: strings.NewReader("x"), Now: now,
		Installed: &install.Space{Dir: filepath.Join(home, ".ai"), Store: s,
			Journal: &rollback.Journal{Path: filepath.Join(home, "rollback")}},
		Store: func() (*disk.Store, error) { return s, nil },
		Keep:  func(c io.Closer) { t.Cleanup(func() { c.Close() }) },
		Warn:  func(what string, err error) { t.Errorf("%s: %v", what, err) },
		Below: func(context.Context, string, []manifest.Require) ([]*ai.Space, []bundle.Need, error) {
			return []*ai.Space{find.LibrarySpace()}, nil, nil
		},
	}
	return f, s
}

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

const damaged = "version: 2"

func TestFind(t *testing.T) {
	one := map[string]string{".ai/bundles/acme/a/manifest.yaml": damaged, "a.tar.zst": "x"}
	two := map[string]string{".ai/bundles/acme/a/manifest.yaml": damaged, ".ai/bundles/acme/b/manifest.yaml": damaged}
	named := map[string]string{".ai/bundles/acme/a/manifest.yaml": damaged,
		".ai/bundles/acme/b/manifest.yaml": damaged, "bundle.yaml": "id: acme/b\nversion: 1.0.0\n"}
	for _, test := range []struct {
		files     map[string]string
		name      string
		where, id string
		code      fault.Code
		onlyIDs   bool
	}{
		{files: nil, name: "", code: fault.NotFound},
		{files: one, name: "", where: find.InProject, id: "acme/a"},
		{files: one, name: "acme/a", where: find.InProject, id: "acme/a"},
		{files: one, name: "acme/a@1.0.0", code: fault.NotFound}, // the project's bundle has one version
		{files: two, name: "", code: fault.Ambiguous},
		{files: named, name: "", where: find.InProject, id: "acme/b"}, // bundle.yaml names one
		{files: one, name: ".ai", where: find.InProject, id: "acme/a"},
		{files: one, name: ".ai/bundles/acme/a", where: find.InProject, id: "acme/a"},
		{files: one, name: ".ai/bundles/acme/a/manifest.yaml", where: find.InProject, id: "acme/a"},
		{files: one, name: "a.tar.zst", where: find.InArchive},
		{files: one, name: "a.tar.zst", onlyIDs: true, code: fault.NotFound},
		{files: map[string]string{"dir/.ai/bundles/acme/a/manifest.yaml": damaged}, name: "dir", where: find.InProject,
			id: "acme/a"},
		{files: one, name: "./none", code: fault.Files},
		{files: map[string]string{"empty/x": ""}, name: "./empty", code: fault.NotFound},
		{files: one, name: "-", where: find.InArchive},
		{files: one, name: "rye/std", where: find.InBinary, id: "rye/std"},
		{files: one, name: "blake3:abcd", code: fault.NotFound},
		{files: one, name: "blake3:xyz", code: fault.NotFound},
		{files: one, name: "blake3:" + strings.Repeat("0", 64), code: fault.NotFound},
	} {
		f, _ := finder(t, test.files)
		f.OnlyIDs = test.onlyIDs
		found, err := f.Find(t.Context(), test.name)
		if test.code != "" {
			if err == nil || fault.CodeOf(err) != test.code {
				t.Errorf("%q: %+v, %v", test.name, found, err)
			}
			continue
		}
		if err != nil || found.Where != test.where || found.ID != test.id {
			t.Errorf("%q: %+v, %v", test.name, found, err)
		}
	}
}

// Without a store, bundles in it are unknown, and no error.
func TestNoStore(t *testing.T) {
	f, _ := finder(t, nil)
	f.Store = func() (*disk.Store, error) { return nil, fs.ErrNotExist }
	if _, err := f.Find(t.Context(), "blake3:abcd"); fault.CodeOf(err) != fault.NotFound {
		t.Error(err)
	}
	if ids := f.IDs(t.Context()); !slices.Equal(ids, []string{"rye/std"}) {
		t.Error(ids)
	}
}

func TestRead(t *testing.T) {
	f, _ := finder(t, map[string]string{".ai/bundles/acme/a/manifest.yaml": damaged, "a.tar.zst": "x"})
	found, err := f.Find(t.Context(), "acme/a")
	if err != nil {
		t.Fatal(err)
	}
	if err := found.Read(t.Context()); err == nil {
		t.Error("a damaged manifest was read")
	}
	if below, needs, err := found.Below(t.Context()); len(below) != 1 || needs != nil || err != nil {
		t.Errorf("%v, %v, %v", below, needs, err)
	}
	if found, err = f.Find(t.Context(), "a.tar.zst"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := found.Below(t.Context()); err != nil { // others report that the archive is corrupt
		t.Error(err)
	}
	same := func(r io.Reader) io.Reader { return r }
	if err := found.Unpack(t.Context(), same); err == nil || !strings.HasPrefix(err.Error(), `"a.tar.zst": `) {
		t.Error(err)
	}
	library, err := f.Find(t.Context(), "rye/std")
	if err != nil {
		t.Fatal(err)
	}
	if library.Size() == 0 || library.Read(t.Context()) != nil || library.NeedV2() != nil || library.Format() != "v2" {
		t.Errorf("%+v", library)
	}
	if n, err := bundle.Inspect(t.Context(), library.Source(same), nil, ""); err != nil ||
		n.Bundle.BundleID != "rye/std" {
		t.Errorf("%+v, %v", n, err)
	}
}

// Of the bundles in the store the newest is meant, a v2 bundle before a v1 bundle. Two of one version are ambiguous.
func TestStored(t *testing.T) {
	f, s := finder(t, nil)
	info, err := s.Put(t.Context(), cas.Blob, strings.NewReader("a"))
	if err != nil {
		t.Fatal(err)
	}
	keep := func(version, description string) cas.Digest {
		body, l, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: "acme/a", Version: version,
			Description: description}, []manifest.File{{Path: "a", Digest: info.Digest, Size: 1, Mode: cas.File}})
		if err != nil {
			t.Fatal(err)
		}
		if err := install.Keep(t.Context(), s, &bundle.Bundle{FileList: l,
			Files: []manifest.File{{Path: "a", Digest: info.Digest, Size: 1, Mode: cas.File}}}, body,
			bundle.VerifyOptions{}); err != nil {
			t.Fatal(err)
		}
		return l.ID
	}
	keep("1.0.0", "")
	last := keep("1.10.0", "")
	keep("1.9.0", "")
	for _, name := range []string{"acme/a", "acme/a@1.10.0", last.String(), last.String()[:20]} {
		found, err := f.Find(t.Context(), name)
		if err != nil || found.Where != find.InStore || found.Bundle.ID != last {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
	if found, open, err := f.Newest(t.Context(), "acme/a@1.9.0"); err != nil || open ||
		found.Bundle.Version != "1.9.0" {
		t.Errorf("%+v, %t, %v", found, open, err)
	}
	if found, open, err := f.Newest(t.Context(), "acme/a"); err != nil || !open || found.Bundle.ID != last {
		t.Errorf("%+v, %t, %v", found, open, err)
	}
	if _, open, err := f.Newest(t.Context(), last.String()); err != nil || open {
		t.Errorf("%t, %v", open, err)
	}
	lines, err := f.List(t.Context(), true)
	var versions []string
	for _, l := range lines {
		versions = append(versions, l.Bundle+"@"+l.Version)
	}
	if got := strings.Join(versions[:3], " "); err != nil || got != "acme/a@1.0.0 acme/a@1.9.0 acme/a@1.10.0" ||
		len(lines) != 4 {
		t.Errorf("%q, %v", versions, err)
	}
	keep("1.10.0", "another one")
	if _, err := f.Find(t.Context(), "acme/a"); fault.CodeOf(err) != fault.Ambiguous {
		t.Error(err)
	}
	if _, err := f.Find(t.Context(), "acme/b"); fault.CodeOf(err) != fault.NotFound ||
		!slices.Contains(fault.Of(err).Why, "did you mean acme/a?") {
		t.Error(err)
	}
}

// A bundle's project may hold something else than its manifest says: the error names the file.
func TestChanged(t *testing.T) {
	f, s := finder(t, map[string]string{"README.md": "other"})
	files := []manifest.File{{Path: "README.md", Digest: cas.Sum([]byte("hello")), Size: 5, Mode: cas.File}}
	body, l, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: "acme/a", Version: "1.0.0"}, files)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Sign(keytest.Alice(), now); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(f.Dir, ".ai/bundles/acme/a/manifest.yaml")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
		os.WriteFile(path, manifest.Join(nil, body, l.Signatures), 0o644)); err != nil {
		t.Fatal(err)
	}
	found, err := f.Find(t.Context(), "acme/a")
	if err != nil {
		t.Fatal(err)
	}
	if err := found.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = found.Changed(archive.Write(t.Context(), io.Discard, body, l.Signatures, found.Files))
	if fault.CodeOf(err) != fault.Integrity ||
		!strings.Contains(err.Error(), `"README.md" differs from the manifest of "acme/a"`) {
		t.Error(err)
	}
	o := bundle.VerifyOptions{Signers: []key.Public{keytest.Alice().Public()}, Now: now}
	if _, err := found.Import(t.Context(), s, o, func(r io.Reader) io.Reader {
		return r
	}); fault.CodeOf(err) != fault.Integrity {
		t.Error(err)
	}
}
