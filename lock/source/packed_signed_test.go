package source

import (
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
)

// signedPlugin are the files of a signed plugin below a prefix, and its manifest.
func signedPlugin(t *testing.T, prefix string, by key.Private) ([]packedFile, *manifest.FileList) {
	t.Helper()
	all := []packedFile{{"bin/run", "#!/bin/sh\n", 0o755}, {"docs/note.md", "A note.\n", 0},
		{"plugin.json", plainManifest, 0}}
	var files []manifest.File
	for _, f := range all {
		mode := cas.File
		if f.mode != 0 {
			mode = cas.Exec
		}
		files = append(files, manifest.File{Path: f.name, Digest: cas.Sum([]byte(f.text)), Size: int64(len(f.text)),
			Mode: mode})
	}
	body, list, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: "acme/demo", Version: "1.2.0",
		Plugin: manifest.PluginVersion}, files)
	if err == nil {
		err = list.Sign(by, noon)
	}
	if err != nil {
		t.Fatal(err)
	}
	keys, err := manifest.AppendSigners(nil, []manifest.SignerKey{{Public: by.Public(), Owner: "Someone"}})
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, packedFile{bundle.PluginManifest, string(manifest.Join(nil, body, list.Signatures)), 0},
		packedFile{bundle.PluginKeys, string(keys), 0})
	for i := range all {
		all[i].name = prefix + all[i].name
	}
	return all, list
}

// TestPackedSigned: a signed plugin in an archive is the bundle that its manifest says, wherever the archive comes
// from, and is requested once.
func TestPackedSigned(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for name, pack := range map[string]func(testing.TB, []packedFile) []byte{"demo.zip": zipOf, "demo.tar.gz": tarOf} {
		all, list := signedPlugin(t, "demo-main/", alice)
		for _, remote := range []bool{false, true} {
			w := newWorld(t)
			src := project.Source{Where: "../" + name}
			if remote {
				src = w.at("/"+name, false)
				w.put("/"+name, pack(t, all))
			} else {
				write(t, filepath.Join(filepath.Dir(w.dir), name), pack(t, all))
			}
			s := w.sources("acme/demo", src)
			if id, err := s.Named(t.Context(), src); err != nil || id != "acme/demo" {
				t.Fatalf("%s: %q, %v", src.Where, id, err)
			}
			if u, err := s.Unsigned(t.Context(), "acme/demo", src); u != nil || err != nil {
				t.Errorf("%s: unsigned: %v, %v", src.Where, u, err)
			}
			if found, err := s.Versions(t.Context(), "acme/demo"); err != nil || len(found) != 1 ||
				found[0].Version != "1.2.0" {
				t.Errorf("%s: %v, %v", src.Where, found, err)
			}
			want := file.Bundle{ID: "acme/demo", Version: "1.2.0", Manifest: list.ID, Source: src}
			if b, err := s.Bring(t.Context(), want, library); err != nil || b.ID != list.ID || len(b.Files) != 3 {
				t.Errorf("%s: %v, %v", src.Where, b, err)
			}
			if n := w.requests("/" + name); remote && n != 1 {
				t.Errorf("%s was requested %d times", name, n)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if left := unpackedIn(temp); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if claim, err := ReadClaim(t.Context(), w.options.Fetch, w.sources().place(src)); err != nil ||
				len(claim.Keys) != 1 || claim.Keys[0].Public != alice.Public() {
				t.Errorf("%s: %+v, %v", src.Where, claim, err)
			}
		}
	}
}

// TestPackedSignedRefused: each is refused, and nothing of it is stored.
func TestPackedSignedRefused(t *testing.T) {
	changed := func(name, text string) func([]packedFile) []packedFile {
		return func(all []packedFile) []packedFile {
			for i := range all {
				if all[i].name == name {
					all[i].text = text
				}
			}
			return all
		}
	}
	for name, c := range map[string]struct {
		by     key.Private
		change func([]packedFile) []packedFile
		code   fault.Code
		says   string
	}{
		"a stranger's": {eve, nil, fault.UntrustedKey, "is not signed by a key of the policy"},
		"another file": {alice, changed("docs/note.md", "B note.\n"), fault.Integrity, `"docs/note.md": digest`},
		"a file less":  {alice, changed("docs/note.md", ""), fault.Integrity, `"docs/note.md": size`},
		"no manifest":  {alice, changed(bundle.PluginManifest, "{}"), "", "line 1"},
		"another mode": {alice, func(all []packedFile) []packedFile { all[0].mode = 0; return all }, fault.Integrity,
			"mode"},
		"a link for a file": {alice, func(all []packedFile) []packedFile { all[1] = linked(all[1]); return all },
			fault.Integrity, "docs/note.md"},
		"a link as its manifest": {alice, func(all []packedFile) []packedFile { all[3] = linked(all[3]); return all },
			"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			all, list := signedPlugin(t, "", c.by)
			if c.change != nil {
				all = c.change(all)
			}
			write(t, filepath.Join(filepath.Dir(w.dir), "x.zip"), zipOf(t, all))
			src := project.Source{Where: "../x.zip"}
			s := w.sources("acme/demo", src)
			defer s.Close()
			want := file.Bundle{ID: "acme/demo", Version: "1.2.0", Manifest: list.ID, Source: src}
			_, err := s.Versions(t.Context(), "acme/demo")
			if err == nil {
				_, err = s.Bring(t.Context(), want, library)
			}
			if err == nil || c.code != "" && fault.CodeOf(err) != c.code ||
				!strings.Contains(strings.Join(append(fault.Of(err).Why, err.Error()), "\n"), c.says) {
				t.Errorf("%v", err)
			}
			if found := w.bundles(); len(found) > 0 {
				t.Errorf("the store names %q", found)
			}
		})
	}
}

func linked(f packedFile) packedFile {
	f.text, f.mode = "plugin.json", fs.ModeSymlink|0o777
	return f
}

// TestArchivesShared: what one command has read once is the same for all its Sources, whatever the server has by then.
func TestArchivesShared(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	w := newWorld(t)
	w.put("/demo.zip", zipOf(t, packedPlugin("")))
	src := w.at("/demo.zip", false)
	w.options.Archives = new(Archives)
	s := w.sources("plugins/demo", src)
	shown, err := s.Now(t.Context(), "plugins/demo", src)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	w.put("/demo.zip", zipOf(t, packedPlugin("", packedFile{"docs/evil.md", "Evil.\n", 0})))
	s = w.sources("plugins/demo", src)
	added, err := s.Unsigned(t.Context(), "plugins/demo", src)
	if err != nil || added.ID != shown.ID {
		t.Fatalf("%v, %v", added, err)
	}
	added.Close()
	if n := w.requests("/demo.zip"); n != 1 {
		t.Errorf("it was requested %d times", n)
	}
	if err := s.Close(); err != nil || len(unpackedIn(temp)) != 1 {
		t.Errorf("%v: %v", err, unpackedIn(temp))
	}
	if err := w.options.Archives.Close(); err != nil || len(unpackedIn(temp)) > 0 {
		t.Errorf("%v: %v", err, unpackedIn(temp))
	}
	// An archive of rye isn't unpacked, and is read by each.
	p := newPack(t, "acme/base", "1.0.0", nil, alice)
	w.options.Archives = new(Archives)
	w.put("/base", p.archive())
	w.answer("/gone.zip", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNotFound) })
	src = w.at("/base", false)
	for range 2 {
		s := w.sources("acme/base", src)
		if id, err := s.Named(t.Context(), src); err != nil || id != "acme/base" {
			t.Error(id, err)
		}
		if _, err := s.Bring(t.Context(), p.want(src), library); err != nil {
			t.Error(err)
		}
		if _, err := s.Named(t.Context(), w.at("/gone.zip", false)); err == nil {
			t.Error("an archive that is gone was read")
		}
	}
	if err := w.options.Archives.Close(); err != nil {
		t.Error(err)
	}
}
