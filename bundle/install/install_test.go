package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/snapshot"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/sign"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var alice, eve = keytest.Alice(), keytest.Eve()

func options() bundle.VerifyOptions {
	return bundle.VerifyOptions{Signers: []key.Public{alice.Public()}, Now: noon}
}

const noteAt = ".ai/knowledge/acme/note.md"

// large is the text of a bundle with a file that isn't put at once.
const large = "large"

// packed returns the archive of a bundle with one item and some assets.
func packed(t testing.TB, id, version, text string, keys ...key.Private) (*manifest.FileList, []byte) {
	t.Helper()
	note := fmt.Sprintf("---\nid: note\ntitle: Note\nversion: %s\nentry_type: reference\n---\n%s\n", version, text)
	signed, err := sign.Sign([]byte(note), sign.StyleOf(noteAt),
		sign.Claim{Domain: sign.Item, Name: "knowledge:acme/note"}, alice, noon, nil)
	if err != nil {
		t.Fatal(err)
	}
	size := 100
	if text == large {
		size = 100_000
	}
	var store cas.Memory
	var files []manifest.File
	for _, f := range []struct {
		path, ref string
		b         []byte
		mode      cas.Mode
	}{
		{noteAt, "knowledge:acme/note", signed, cas.File},
		{"README.md", "", []byte("# " + text), cas.File},
		{"bin/run.sh", "", []byte("#!/bin/sh\n"), cas.Exec},
		{"bin/deep/er/data", "", bytes.Repeat([]byte(text), size), cas.File},
		{"bin.txt", "", nil, cas.File},
	} {
		info, err := store.Put(t.Context(), cas.Blob, bytes.NewReader(f.b))
		if err != nil {
			t.Fatal(err)
		}
		m := manifest.File{Path: f.path, Digest: info.Digest, Size: info.Size, Mode: f.mode, Ref: f.ref}
		if f.ref != "" {
			m.Version = version
		}
		files = append(files, m)
	}
	sbom, err := store.Put(t.Context(), cas.Blob, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	l := &manifest.FileList{BundleID: id, Version: version,
		Requires: []manifest.Require{{BundleID: "acme/base", Version: "^1.0.0"}},
		Evidence: []manifest.Evidence{{Name: "sbom.json", Digest: sbom.Digest, Size: 2, Type: bundle.TypeCycloneDX}}}
	body, list, err := manifest.AppendFileList(nil, l, files)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if err := list.Sign(k, noon); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := archive.Write(t.Context(), &b, body, list.Signatures, &store); err != nil {
		t.Fatal(err)
	}
	return list, b.Bytes()
}

// A world is a user with a store.
type world struct {
	t     testing.TB
	dir   string
	store *disk.Store
	space *Space
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.store = w.openStore(nil)
	w.space = w.open(w.store, nil)
	return w
}

func (w *world) openStore(hook func(disk.Op) error) *disk.Store {
	s, err := disk.Open(filepath.Join(w.dir, "store"), disk.Options{Create: true, Hook: hook})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { s.Close() })
	return s
}

func (w *world) open(store Store, hook func(op, name string) error) *Space {
	return &Space{Dir: filepath.Join(w.dir, "home", ".ai"), Store: store,
		Journal: &rollback.Journal{Path: filepath.Join(w.dir, "state", "rollback")},
		Now:     func() time.Time { return noon }, Hook: hook}
}

// bring imports a bundle and returns its manifest.
func (w *world) bring(version, text string) *manifest.FileList {
	w.t.Helper()
	l, b := packed(w.t, "acme/demo", version, text, alice)
	if _, err := Import(w.t.Context(), w.store, bytes.NewReader(b), options()); err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) install(l *manifest.FileList, byName bool) error {
	_, err := w.space.Install(w.t.Context(), Request{ID: l.ID, ByName: byName}, options())
	return err
}

// state is what is installed: the version and those before it; "" if nothing is.
func (w *world) state() string {
	w.t.Helper()
	at, err := w.space.Get("acme/demo")
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		w.t.Fatal(err)
	}
	text := at.Version
	for _, v := range at.Previous {
		text += " " + v.Version
	}
	return text
}

func (w *world) refs() (names []string) {
	all, err := w.store.Refs()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range all {
		names = append(names, r.Name)
	}
	return names
}

func TestImport(t *testing.T) {
	w := newWorld(t)
	l, b := packed(t, "acme/demo", "1.0.0", large, alice)
	r, err := Import(t.Context(), w.store, bytes.NewReader(b), options())
	if err != nil || !r.OK() || r.Good != 5 {
		t.Fatal(r, err)
	}
	h := hex(l.ID)
	if want := []string{"bundles/" + h, "bundles/" + h + "/evidence", "bundles/" + h + "/files",
		"signatures/" + h}; !slices.Equal(w.refs(), want) {
		t.Errorf("refs %q, want %q", w.refs(), want)
	}
	// What the refs keep is all of it.
	if _, err := w.store.GC(t.Context(), disk.GCOptions{}); err != nil {
		t.Fatal(err)
	}
	r, err = bundle.Verify(t.Context(), bundle.InStore(w.store, w.store, l.ID), options())
	if err != nil || !r.OK() {
		t.Errorf("after gc: %v, %+v", err, r.Failures)
	}
	tree, err := w.store.Ref(Ref(l.ID) + "/files")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	err = cas.Walk(t.Context(), w.store, tree, func(p string, e cas.Entry) error {
		paths = append(paths, p+" "+e.Mode.String())
		return nil
	})
	want := []string{".ai dir", ".ai/knowledge dir", ".ai/knowledge/acme dir", ".ai/knowledge/acme/note.md file",
		"README.md file", "bin dir", "bin/deep dir", "bin/deep/er dir",
		"bin/deep/er/data file", "bin/run.sh exec", "bin.txt file"}
	if slices.Sort(paths); err != nil {
		t.Error(err)
	}
	slices.Sort(want)
	if !slices.Equal(paths, want) {
		t.Errorf("got %q, want %q", paths, want)
	}
}

// TestImportRefuses: nothing of a bundle that isn't what it should be has a name.
func TestImportRefuses(t *testing.T) {
	_, good := packed(t, "acme/demo", "1.0.0", large, alice)
	_, stranger := packed(t, "acme/demo", "1.0.0", "one", eve)
	odd := options()
	odd.Require = []string{bundle.Provenance}
	for name, c := range map[string]struct {
		b    []byte
		o    bundle.VerifyOptions
		want string
	}{
		"stranger": {stranger, options(), `"bundle:acme/demo@1.0.0" `},
		"cut off":  {good[:len(good)-1], options(), "corrupt archive: "},
		"more":     {append(bytes.Clone(good), 0), options(), "corrupt archive: "},
		"no trust": {good, bundle.VerifyOptions{}, bundle.ErrNoTrust.Error()},
		"no proof": {good, odd, "invalid bundle: evidence: expected provenance, found none"},
		"no chains": {good, bundle.VerifyOptions{Signers: []key.Public{alice.Public()}, Now: noon.AddDate(-100, 0, 0)},
			""},
	} {
		w := newWorld(t)
		_, err := Import(t.Context(), w.store, bytes.NewReader(c.b), c.o)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || len(w.refs()) > 0 {
			t.Errorf("%s: got %v and the refs %q, want %s", name, err, w.refs(), c.want)
		}
	}
}

// TestSignatures: what one place has and another brings is joined.
func TestSignatures(t *testing.T) {
	w := newWorld(t)
	l, b := packed(t, "acme/demo", "1.0.0", "one", alice)
	_, both := packed(t, "acme/demo", "1.0.0", "one", alice, eve)
	for _, archive := range [][]byte{b, both, b} {
		if _, err := Import(t.Context(), w.store, bytes.NewReader(archive), options()); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := bundle.ReadSignatures(t.Context(), w.store, w.store, l.ID); err != nil || len(s) != 2 {
		t.Errorf("%d signatures: %v", len(s), err)
	}
	// Unreadable ones are ignored.
	info, err := w.store.Put(t.Context(), cas.Blob, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.PutRef(t.Context(), bundle.SignaturesRef(l.ID), info.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := Import(t.Context(), w.store, bytes.NewReader(b), options()); err != nil {
		t.Fatal(err)
	}
	if s, err := bundle.ReadSignatures(t.Context(), w.store, w.store, l.ID); err != nil || len(s) != 1 {
		t.Errorf("%d signatures: %v", len(s), err)
	}
	unsigned := &bundle.Bundle{FileList: &manifest.FileList{}}
	if err := KeepSignatures(t.Context(), w.store, unsigned, options()); err != nil {
		t.Errorf("none at all: %v", err)
	}
}

func TestInstall(t *testing.T) {
	w := newWorld(t)
	if w.state() != "" {
		t.Error("something is installed")
	}
	one, two := w.bring("1.0.0", "one"), w.bring("2.0.0+linux", "two")
	if err := w.install(one, true); err != nil || w.state() != "1.0.0" {
		t.Fatal(err, w.state())
	}
	if err := w.install(two, true); err != nil || w.state() != "2.0.0+linux 1.0.0" {
		t.Fatal(err, w.state())
	}
	if err := w.install(two, true); err != nil || w.state() != "2.0.0+linux 1.0.0" {
		t.Fatal(err, w.state())
	}
	at, err := w.space.Get("acme/demo")
	if err != nil || at.ID != two.ID || at.Previous[0].ID != one.ID {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(w.space.Dir, "bundles/acme/demo/manifest.yaml"))
	if err != nil || !strings.HasPrefix(string(text), "# rye:signed:v2:") {
		t.Errorf("the pointer isn't the document with its signatures: %.100s, %v", text, err)
	}

	// By name it doesn't go back, asked for by its digest it does.
	var back *rollback.Error
	if err := w.install(one, true); !errors.As(err, &back) || back.Reason() != rollback.Older ||
		w.state() != "2.0.0+linux 1.0.0" {
		t.Errorf("back by name: %v, %s", err, w.state())
	}
	if err := w.install(one, false); err != nil || w.state() != "1.0.0 2.0.0+linux" {
		t.Errorf("back by digest: %v, %s", err, w.state())
	}
	if _, err := w.space.Rollback(t.Context(), "acme/demo", two.ID, options()); err != nil ||
		w.state() != "2.0.0+linux 1.0.0" {
		t.Errorf("rolled forth: %v, %s", err, w.state())
	}
	if _, err := w.space.Rollback(t.Context(), "acme/demo", one.ID, options()); err != nil ||
		w.state() != "1.0.0 2.0.0+linux" {
		t.Errorf("rolled back: %v, %s", err, w.state())
	}
	other := w.bring("2.0.0+linux", "another two")
	if err := w.install(other, false); !errors.As(err, &back) || back.Reason() != rollback.Other ||
		w.state() != "1.0.0 2.0.0+linux" {
		t.Errorf("another bundle of that version: %v, %s", err, w.state())
	}
	if _, err := w.space.Rollback(t.Context(), "acme/demo", other.ID, options()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("rolled back to what never was installed: %v", err)
	}
	if _, err := w.space.Rollback(t.Context(), "acme/gone", other.ID, options()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("rolled back what never was installed: %v", err)
	}
	if err := w.install(&manifest.FileList{Document: manifest.Document{ID: cas.Sum(nil)}}, false); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("installed what isn't there: %v", err)
	}
	seen, err := w.space.Journal.Seen()
	if err != nil || len(seen) != 2 || seen[0].Source != LocalSource {
		t.Errorf("remembered: %+v, %v", seen, err)
	}

	// What is kept for the space outlives the import.
	for _, name := range w.refs() {
		if strings.HasPrefix(name, "bundles/") {
			id, _ := w.store.Ref(name)
			if err := w.store.SetRef(t.Context(), name, id, cas.ID{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := w.store.GC(t.Context(), disk.GCOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.space.Rollback(t.Context(), "acme/demo", two.ID, options()); err != nil {
		t.Errorf("after gc: %v", err)
	}
	if err := w.space.Remove(t.Context(), "acme/demo"); err != nil || w.state() != "" {
		t.Errorf("removed: %v, %s", err, w.state())
	}
	for _, name := range w.refs() {
		if strings.HasPrefix(name, "installed/") {
			t.Errorf("%s is left", name)
		}
	}
	if left, err := os.ReadDir(filepath.Join(w.space.Dir, "bundles")); err != nil || len(left) > 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := w.space.Remove(t.Context(), "acme/demo"); !errors.Is(err, fs.ErrNotExist) ||
		err.Error() != `bundle "acme/demo" is not installed` {
		t.Errorf("removed twice: %v", err)
	}
	if err := w.space.Remove(t.Context(), "../x"); err == nil {
		t.Error("removed what is no id")
	}
	w.bring("1.0.0", "one")
	if err := w.install(one, true); !errors.As(err, &back) {
		t.Errorf("removing has made it forget: %v", err)
	}
}

// TestInstallSources: a source has a memory of its own, and all have one together.
func TestInstallSources(t *testing.T) {
	w := newWorld(t)
	one, two := w.bring("1.0.0", "one"), w.bring("2.0.0", "two")
	if _, err := w.space.Install(t.Context(), Request{two.ID, "https://a.example", true}, options()); err != nil {
		t.Fatal(err)
	}
	_, err := w.space.Install(t.Context(), Request{one.ID, "https://b.example", true}, options())
	if _, ok := errors.AsType[*rollback.Error](err); !ok {
		t.Errorf("another source takes it back: %v", err)
	}
	seen, err := w.space.Journal.Seen()
	if err != nil || len(seen) != 2 {
		t.Errorf("remembered: %+v, %v", seen, err)
	}
}

func TestInstallRefuses(t *testing.T) {
	w := newWorld(t)
	one := w.bring("1.0.0", "one")
	o := options()
	o.Signers = []key.Public{eve.Public()}
	r, err := w.space.Install(t.Context(), Request{ID: one.ID}, o)
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || refused.Report != r || len(refused.Unwrap()) != len(r.Failures) ||
		!strings.HasSuffix(err.Error(), fmt.Sprintf("(and %d more)", len(r.Failures)-1)) || w.state() != "" {
		t.Errorf("%v, %s", err, w.state())
	}
}

func TestList(t *testing.T) {
	w := newWorld(t)
	if all, err := w.space.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("at first: %v, %v", all, err)
	}
	for _, id := range []string{"acme/demo", "acme", "acme/demo/history", "zoo"} {
		l, b := packed(t, id, "1.0.0", "one", alice)
		if _, err := Import(t.Context(), w.store, bytes.NewReader(b), options()); err != nil {
			t.Fatal(err)
		}
		if _, err := w.space.Install(t.Context(), Request{ID: l.ID}, options()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.install(w.bring("1.1.0", "two"), true); err != nil {
		t.Fatal(err)
	}
	names := func(all []*Installed) (names []string) {
		for _, at := range all {
			names = append(names, fmt.Sprint(at.BundleID, " ", at.Version, " ", len(at.Previous)))
		}
		return names
	}
	all, err := w.space.List(t.Context())
	want := []string{"acme 1.0.0 0", "acme/demo 1.1.0 1", "acme/demo/history 1.0.0 0", "zoo 1.0.0 0"}
	if err != nil || !slices.Equal(names(all), want) {
		t.Errorf("got %q, want %q: %v", names(all), want, err)
	}
	// A damaged one is reported and the others are listed.
	zoo := filepath.Join(w.space.Dir, "bundles/zoo/manifest.yaml")
	if err := os.WriteFile(zoo, []byte("rye: \"manifest/2\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err = w.space.List(t.Context())
	if bad, ok := errors.AsType[*ManifestError](err); !ok || bad.Path != "bundles/zoo/manifest.yaml" || len(all) != 3 {
		t.Errorf("with a damaged one: %q, %v", names(all), err)
	}
	text, err := os.ReadFile(filepath.Join(w.space.Dir, "bundles/acme/manifest.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(zoo, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := w.space.Get("zoo"); err == nil ||
		err.Error() != `"bundles/zoo/manifest.yaml": found the manifest of "acme"` {
		t.Errorf("in another's place: %v", err)
	}
	// It can be replaced, and removed.
	l, _ := packed(t, "zoo", "1.0.0", "one", alice)
	if _, err := w.space.Install(t.Context(), Request{ID: l.ID}, options()); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(zoo, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := w.space.Remove(t.Context(), "zoo"); err != nil {
		t.Error(err)
	}
	if err := w.space.Remove(t.Context(), "acme/demo"); err != nil {
		t.Error(err)
	}
	if all, err := w.space.List(t.Context()); err != nil ||
		!slices.Equal(names(all), []string{"acme 1.0.0 0", "acme/demo/history 1.0.0 0"}) {
		t.Errorf("at last: %q, %v", names(all), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.space.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestOpen(t *testing.T) {
	w := newWorld(t)
	if _, err := w.space.Open(t.Context(), "acme/demo"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("at first: %v", err)
	}
	if _, err := w.space.Get(".."); err == nil {
		t.Error("an id that is none was taken")
	}
	if err := w.install(w.bring("1.0.0", "one"), true); err != nil {
		t.Fatal(err)
	}
	s, err := w.space.Open(t.Context(), "acme/demo")
	if err != nil || s.Label != "system:acme/demo" || !slices.Equal(s.Requires, []string{"system:acme/base"}) {
		t.Fatal(s, err)
	}
	if err := fstest.TestFS(s.FS, "knowledge/acme/note.md"); err != nil {
		t.Error(err)
	}
	at, err := w.space.Get("acme/demo")
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(snapshot.FS(t.Context(), w.store, at.Files, "."), "bin/deep/er/data",
		"bin.txt"); err != nil {
		t.Error(err)
	}
	view, err := ai.NewView(t.Context(), ai.Options{Spaces: []*ai.Space{s,
		{Label: "system:rye/std", FS: std.FS(), Builtin: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if l, err := view.Files(t.Context(), "knowledge"); err != nil ||
		!slices.ContainsFunc(l.Files, func(f ai.File) bool { return f.Space == s && f.ID == "acme/note" }) {
		t.Errorf("%v, %+v", err, l)
	}
}
