package source

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/remote"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest/rollback"
)

// push puts a bundle into the layout beside the project under a tag.
func (w *world) push(p *pack, tag string) {
	w.t.Helper()
	h, err := archive.ReadHead(w.t.Context(), bytes.NewReader(p.archive()))
	if err != nil {
		w.t.Fatal(err)
	}
	place, err := oci.Open(oci.Reference{Dir: filepath.Join(w.dir, "..", "stick")}, oci.Options{})
	if err == nil {
		_, err = remote.Push(w.t.Context(), place, tag, &bundle.Bundle{FileList: h.List, Files: h.Files}, &p.store,
			&rollback.Journal{Path: filepath.Join(w.t.TempDir(), "rollback")}, time.Now(), nil)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// retag gives what a tag of the layout names another tag.
func (w *world) retag(tag, as string) {
	w.t.Helper()
	path := filepath.Join(w.dir, "..", "stick", "index.json")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, bytes.Replace(text, []byte(`ref.name":"`+tag), []byte(`ref.name":"`+as), 1), 0o644)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// A layout has the versions of its tags, and what one requires is asked only of those that matter.
func TestImages(t *testing.T) {
	w := newWorld(t)
	w.options.Spool = t.TempDir()
	first, second := newPack(t, "acme/web", "1.0.0", []string{"acme/base ^2.1"}, alice),
		newPack(t, "acme/web", "1.1.0", nil, alice)
	w.push(first, "1.0.0")
	w.push(second, "1.1.0")
	w.push(second, "stable")
	w.push(second, "lie")
	w.retag("lie", "2.0.0")
	src := project.Source{Where: "oci-layout:../stick"}
	s := w.sources("acme/web", src)
	all, err := s.Versions(t.Context(), "acme/web")
	if err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	for _, c := range all {
		needs, err := c.Ask(t.Context())
		switch _, base := needs["acme/base"]; {
		case c.Version == "2.0.0" && fault.CodeOf(err) != fault.Integrity:
			t.Errorf("a tag that lies: %v", err)
		case c.Version != "2.0.0" && (err != nil || base != (c.Version == "1.0.0")):
			t.Errorf("%s requires %v, %v", c.Version, needs, err)
		}
	}
	for _, p := range []*pack{first, second} {
		if _, err := w.bring(s, "acme/web", p.list.Version); err != nil {
			t.Fatal(err)
		}
		w.whole(p)
	}
	if id, err := s.Named(t.Context(), project.Source{Where: "oci-layout:../stick:1.0.0"}); err != nil ||
		id != "acme/web" {
		t.Error(id, err)
	}

	lie := project.Source{Where: src.Where + ":2.0.0"}
	if _, _, err := w.sources("acme/web", lie).Manifest(t.Context(), "acme/web",
		"1.1.0"); fault.CodeOf(err) != fault.Integrity {
		t.Errorf("a tag that lies, by itself: %v", err)
	}

	// A tag that is no version is at a digest, and never goes back.
	stable := project.Source{Where: "oci-layout:../stick:stable"}
	if _, at, err := w.sources("acme/web", stable).Manifest(t.Context(), "acme/web", "1.1.0"); err != nil ||
		!stable.Allows(at) || !at.Pinned() {
		t.Error(at, err)
	}
	w.push(first, "stable")
	if _, _, err := w.sources("acme/web", stable).Manifest(t.Context(), "acme/web",
		"1.0.0"); fault.CodeOf(err) != fault.Rollback {
		t.Errorf("the tag went back: %v", err)
	}

	// Another bundle of a version, one of a stranger, and none.
	w.retag("1.0.0", "first")
	w.push(newPack(t, "acme/web", "1.0.0", nil, alice), "1.0.0")
	if _, _, err := w.sources("acme/web", src).Manifest(t.Context(), "acme/web",
		"1.0.0"); fault.CodeOf(err) != fault.Rollback {
		t.Errorf("another bundle of the version: %v", err)
	}
	if _, _, err := w.sources("acme/other", src).Manifest(t.Context(), "acme/other",
		"1.1.0"); fault.CodeOf(err) != fault.Integrity {
		t.Errorf("another bundle: %v", err)
	}
	if _, err := w.sources("acme/web", project.Source{Where: "oci-layout:../none"}).Versions(t.Context(),
		"acme/web"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no layout: %v", err)
	}
	away := project.Source{Where: "oci://registry.example.com/acme/web"}
	tagged := project.Source{Where: away.Where + ":stable"}
	for _, src := range []project.Source{away, tagged} {
		s := w.sources("acme/web", src)
		_, err := s.Versions(t.Context(), "acme/web")
		_, named := s.Named(t.Context(), src)
		if codes := []fault.Code{fault.CodeOf(err), fault.CodeOf(named)}; !slices.Equal(codes,
			[]fault.Code{fault.Offline, fault.Offline}) {
			t.Errorf("%s: %v, %v", src.Where, err, named)
		}
	}
}
