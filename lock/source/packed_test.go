package source

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest/policy"
)

// A packedFile is an entry of an archive; of a link the text is its target.
type packedFile struct {
	name, text string
	mode       fs.FileMode
}

func zipOf(t testing.TB, all []packedFile) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range all {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		h.SetMode(f.mode | 0o644)
		to, err := w.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(to, f.text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarOf(t testing.TB, all []packedFile) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, f := range all {
		h := &tar.Header{Name: f.name, Mode: int64(f.mode.Perm() | 0o644), Typeflag: tar.TypeReg,
			Size: int64(len(f.text))}
		switch {
		case f.mode&fs.ModeSymlink != 0:
			h.Typeflag, h.Linkname, h.Size, f.text = tar.TypeSymlink, f.text, 0, ""
		case f.mode&fs.ModeDevice != 0:
			h.Typeflag, h.Size, f.text = tar.TypeChar, 0, ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const talk = "---\nname: talk\ndescription: Talks\n---\nTalk.\n"

// packedPlugin are the files of plainPlugin below a prefix, with a program and a link.
func packedPlugin(prefix string, more ...packedFile) []packedFile {
	all := []packedFile{{"plugin.json", plainManifest, 0}, {"skills/talk/SKILL.md", talk, 0},
		{"docs/note.md", "A note.\n", 0}, {"bin/run", "#!/bin/sh\n", 0o755},
		{"skills/talk/note.md", "../../docs/note.md", fs.ModeSymlink | 0o777}}
	all = append(all, more...)
	for i := range all {
		all[i].name = prefix + all[i].name
	}
	return all
}

// TestPacked: a plugin in an archive is the one that a directory with its files has, wherever the archive comes from.
func TestPacked(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	w := newWorld(t)
	dir, src := plainPlugin(t, w)
	for name, text := range map[string]string{"bin/run": "#!/bin/sh\n"} {
		write(t, filepath.Join(dir, name), []byte(text))
	}
	err := errors.Join(os.Chmod(filepath.Join(dir, "bin", "run"), 0o755),
		os.Symlink("../../docs/note.md", filepath.Join(dir, "skills", "talk", "note.md")))
	if err != nil {
		t.Fatal(err)
	}
	s := w.sources("plugins/demo", src)
	inDir, err := s.Now(t.Context(), "plugins/demo", src)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	beside := filepath.Dir(w.dir)
	for name, b := range map[string][]byte{
		"demo.zip": zipOf(t, packedPlugin("")), "demo-main.zip": zipOf(t, packedPlugin("demo-main/")),
		"demo.tgz": tarOf(t, packedPlugin("")), "demo-main.tar.gz": tarOf(t, packedPlugin("./demo-main/")),
		"mac.zip":     zipOf(t, append(packedPlugin("demo/"), packedFile{"__MACOSX/demo/._plugin.json", "x", 0})),
		"without-end": zipOf(t, packedPlugin("")),
	} {
		write(t, filepath.Join(beside, name), b)
		w.put("/"+name, b)
		for _, src := range []project.Source{{Where: "../" + name}, w.at("/"+name, false)} {
			t.Run(src.Where, func(t *testing.T) {
				s := w.sources("plugins/demo", src)
				if id, err := s.Named(t.Context(), src); err != nil || id != "plugins/demo" {
					t.Fatal(id, err)
				}
				u, err := s.Unsigned(t.Context(), "plugins/demo", src)
				if err != nil {
					t.Fatal(err)
				}
				defer u.Close()
				if u.ID != inDir.ID || u.Source != src {
					t.Fatalf("another plugin: %s from %v", u.ID, u.Source)
				}
				if _, links := u.LeftOut(); len(links) != 1 {
					t.Errorf("links: %v", links)
				}
				if _, err = s.Versions(t.Context(), "plugins/demo"); fault.CodeOf(err) != fault.Unsigned {
					t.Errorf("got %v", err)
				}
				if _, err := s.Unsigned(t.Context(), "acme/demo", src); fault.CodeOf(err) != fault.Unsigned {
					t.Errorf("under its own id: %v", err)
				}
				if n := w.requests("/" + name); src.Remote() && n != 1 {
					t.Errorf("it was requested %d times", n)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if left := unpackedIn(temp); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
		}
	}
}

// TestPackedBrought: once the policy admits it, the plugin is stored, and later comes without the network.
func TestPackedBrought(t *testing.T) {
	w := newWorld(t)
	w.put("/demo.zip", zipOf(t, packedPlugin("demo-main/")))
	src := w.at("/demo.zip", false)
	s := w.sources("plugins/demo", src)
	now, err := s.Now(t.Context(), "plugins/demo", src)
	if err != nil {
		t.Fatal(err)
	}
	want := file.Bundle{ID: now.BundleID, Version: now.Version, Manifest: now.ID, Source: src}
	if _, err := s.Bring(t.Context(), want, nil); fault.CodeOf(err) != fault.Unsigned || len(w.bundles()) > 0 {
		t.Fatalf("got %v, %v", err, w.bundles())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	admitting(t, w, policy.DigestEntry{Digest: now.ID, As: now.Name})
	s = w.sources("plugins/demo", src)
	defer s.Close()
	if all, err := s.Versions(t.Context(), "plugins/demo"); err != nil || len(all) != 1 ||
		all[0].Version != now.Version {
		t.Fatal(all, err)
	}
	if b, err := s.Bring(t.Context(), want, nil); err != nil || b.ID != now.ID {
		t.Fatal(err)
	}
	if n := w.requests("/demo.zip"); n != 2 { // by two Sources
		t.Errorf("it was requested %d times", n)
	}
	w.offline()
	s = w.sources("plugins/demo", src)
	if all, err := s.Versions(t.Context(), "plugins/demo"); err != nil || len(all) != 1 {
		t.Error(all, err)
	}
	if b, err := s.Bring(t.Context(), want, nil); err != nil || b.ID != now.ID {
		t.Error(err)
	}
	if u, err := s.Unsigned(t.Context(), "plugins/demo", src); u != nil || err != nil {
		t.Error(u, err)
	}
	if _, err := s.Named(t.Context(), src); fault.CodeOf(err) != fault.Offline {
		t.Error(err)
	}
}

// TestPackedRefused: each is refused with the reason and a command, nothing of it is stored, and nothing is left.
func TestPackedRefused(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	both := func(all []packedFile) map[string][]byte {
		return map[string][]byte{"zip": zipOf(t, all), "tar": tarOf(t, all)}
	}
	hard := tarHard(t)
	for name, c := range map[string]struct {
		archives map[string][]byte
		code     fault.Code
		says     string
		hint     string
	}{
		"two folders": {both(append(packedPlugin("a/"), packedPlugin("b/")...)), fault.NotFound, "has no plugin",
			"rye docs unsigned-plugins"},
		"a file beside the folder": {both(append(packedPlugin("a/"), packedFile{"readme", "", 0})), fault.NotFound,
			"has no plugin", "rye docs unsigned-plugins"},
		"skills alone": {both([]packedFile{{"a/talk/SKILL.md", talk, 0}}), fault.NotFound, "has no plugin",
			"rye import skill ../x"},
		"out of it": {both(packedPlugin("a/", packedFile{"../../evil", "x", 0})), fault.Validation,
			"leads out of the archive", "rye docs unsigned-plugins"},
		"through a link": {both(packedPlugin("a/", packedFile{"in", "/tmp", fs.ModeSymlink | 0o777},
			packedFile{"in/evil", "x", 0})), fault.Validation, `"in" can't be unpacked: file already exists`,
			"rye docs unsigned-plugins"},
		"a file and a directory": {both(packedPlugin("a/", packedFile{"docs/note.md/x", "x", 0})), fault.Validation,
			`"a/docs/note.md/x" can't be unpacked: `, "rye docs unsigned-plugins"},
		"a long target": {both(packedPlugin("a/", packedFile{"in", strings.Repeat("x/", 3000),
			fs.ModeSymlink | 0o777})), fault.Validation, "a symbolic link with a long target",
			"rye docs unsigned-plugins"},
		"a device": {both(packedPlugin("a/", packedFile{"tty", "", fs.ModeDevice | fs.ModeCharDevice | 0o644})),
			fault.Validation, `"a/tty" is a hard link or a special file`, "rye docs unsigned-plugins"},
		"a hard link": {map[string][]byte{"tar": hard}, fault.Validation,
			`"a/again" is a hard link or a special file`, "rye docs unsigned-plugins"},
		"a path that isn't portable": {both(packedPlugin("a/", packedFile{"docs/aux.md", "x", 0})), fault.Validation,
			"docs/aux.md: rejected: the path is not portable", "rye docs plugins"},
		"two of one name": {both(packedPlugin("a/", packedFile{"docs/NOTE.md", "x", 0})), fault.Validation,
			"the plugin is rejected", "rye docs plugins"},
		"no archive": {map[string][]byte{"zip": []byte("PK\x03\x04"), "tar": {0x1f, 0x8b, 8}}, fault.Validation,
			`"the archive" is `, "rye docs unsigned-plugins"},
	} {
		for kind, b := range c.archives {
			t.Run(name+" "+kind, func(t *testing.T) {
				w := newWorld(t)
				write(t, filepath.Join(filepath.Dir(w.dir), "x"), b)
				src := project.Source{Where: "../x"}
				s := w.sources("plugins/demo", src)
				want := file.Bundle{ID: "plugins/demo", Version: "1.0.0", Source: src}
				for what, err := range map[string]error{"named": second(s.Named(t.Context(), src)),
					"taken":   second(s.Unsigned(t.Context(), "plugins/demo", src)),
					"listed":  second(s.Versions(t.Context(), "plugins/demo")),
					"brought": second(s.Bring(t.Context(), want, nil))} {
					f := fault.Of(err)
					if err == nil || f.Code != c.code || !strings.Contains(f.Text, c.says) ||
						!slices.Contains(f.Hint, c.hint) {
						t.Errorf("%s: %v, %q", what, err, f.Hint)
					}
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if left := unpackedIn(temp); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
		}
	}
}

func second[T any](_ T, err error) error { return err }

// tarHard is an archive in which a file has a second name.
func tarHard(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	err := errors.Join(w.WriteHeader(&tar.Header{Name: "a/plugin.json", Typeflag: tar.TypeReg, Mode: 0o644}),
		w.WriteHeader(&tar.Header{Name: "a/again", Typeflag: tar.TypeLink, Linkname: "a/plugin.json", Mode: 0o644}),
		w.Close(), z.Close())
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpackedIn lists what is unpacked in a directory for temporary files.
func unpackedIn(dir string) []string {
	all, _ := filepath.Glob(filepath.Join(dir, osfile.Unfinished+"plugin-*"))
	return all
}

// TestPackedLarge: an archive of more than may be packed is refused before it is unpacked.
func TestPackedLarge(t *testing.T) {
	w := newWorld(t)
	name := filepath.Join(filepath.Dir(w.dir), "x")
	write(t, name, []byte("PK\x03\x04"))
	if err := os.Truncate(name, 65<<20); err != nil {
		t.Fatal(err)
	}
	src := project.Source{Where: "../x"}
	_, err := w.sources().Named(t.Context(), src)
	if fault.Of(err).Details["reason"] != "size" || !strings.Contains(err.Error(), "more than the limit of 67108864") {
		t.Error(err)
	}
}

// TestPackedCancel: unpacking ends with its caller, and leaves nothing.
func TestPackedCancel(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for _, b := range [][]byte{zipOf(t, packedPlugin("")), tarOf(t, packedPlugin(""))} {
		w := newWorld(t)
		write(t, filepath.Join(filepath.Dir(w.dir), "x"), b)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := readPacked(ctx, bytes.NewReader(b), -1, "../x"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if left := unpackedIn(temp); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}
