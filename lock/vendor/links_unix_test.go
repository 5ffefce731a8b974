//go:build unix

package vendor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestForeign leaves alone what isn't ours, and takes nothing else for a file.
func TestForeign(t *testing.T) {
	w := small(t)
	outside := filepath.Join(t.TempDir(), "all.pack")
	if err := os.WriteFile(outside, []byte(w.files()["all.pack"]), 0o644); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(w.dir, name) }
	for name, text := range map[string]string{"README.md": "x", "ALL.pack": "x", "0g.pack": "x", ".pack": "x",
		"x.blob": "x", unfinished + "x": "x"} {
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	large := largeName(w.objects[4].ID)
	if err := errors.Join(os.Mkdir(at("ff.pack"), 0o755), os.Symlink(outside, at("f.pack")),
		os.Rename(at("all.pack"), at("moved")), os.Symlink("moved", at("all.pack")),
		os.Rename(at(large), at("moved.large")), os.Symlink("moved.large", at(large)),
		os.Remove(at(attributesName)), os.Symlink("README.md", at(attributesName))); err != nil {
		t.Fatal(err)
	}
	foreign := []string{".gitattributes", ".pack", "0g.pack", "ALL.pack", "README.md", large, "all.pack", "f.pack",
		"ff.pack/", "moved", "moved.large", "x.blob"}
	slices.Sort(foreign)
	r := w.check()
	if inOrder(r) || !slices.Equal(r.Foreign, foreign) || len(r.Missing) != 6 || len(r.Damaged) != 2 ||
		!slices.Contains(r.Stale, unfinished+"x") {
		t.Errorf("%+v", r)
	}
	if err := w.whole(w.objects); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link was followed: %v", err)
	}
	if res := w.write(); res.Written != 2 || res.Removed != 0 {
		t.Errorf("%+v", res)
	}
	r = w.check()
	foreign = slices.DeleteFunc(foreign, func(s string) bool {
		return s == "all.pack" || s == large || s == attributesName
	})
	if !inOrder(r) || !slices.Equal(r.Foreign, foreign) || len(r.Superfluous) > 0 {
		t.Errorf("%+v", r)
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != w.files()["all.pack"] {
		t.Error("the file that a link named was changed")
	}
	// A directory in the place of a file is in the way.
	if err := errors.Join(os.Remove(at("all.pack")), os.MkdirAll(at("all.pack/x"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(t.Context(), w.dir, w.objects, w.store); err == nil {
		t.Error("a directory was replaced")
	}
	if r := w.check(); inOrder(r) || len(r.Damaged) != 1 {
		t.Errorf("%+v", r)
	}
}

// TestLinkedDirectory refuses a directory that is a link, or none.
func TestLinkedDirectory(t *testing.T) {
	w := small(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(w.dir, link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(w.dir, "all.pack")
	for _, dir := range []string{link, file} {
		_, a := Open(dir)
		_, b := Check(t.Context(), dir, w.objects)
		_, c := Write(t.Context(), dir, w.objects, w.store)
		for _, err := range []error{a, b, c} {
			if err == nil {
				t.Errorf("%s was opened", dir)
			}
		}
	}
	if err := w.whole(w.objects); err != nil {
		t.Error(err)
	}
	if _, err := Open(filepath.Join(w.dir, "no")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Check(t.Context(), filepath.Join(w.dir, "no"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestFIFO doesn't wait for a writer.
func TestFIFO(t *testing.T) {
	w := small(t)
	v, err := Open(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for name := range w.files() {
		at := filepath.Join(w.dir, name)
		if err := errors.Join(os.Remove(at), syscall.Mkfifo(at, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range w.objects {
		if _, err := get(v, o.ID); err == nil {
			t.Errorf("%s was read from a FIFO", o.ID)
		}
	}
	if r := w.check(); len(r.Missing) != 6 || len(r.Foreign) != 3 {
		t.Errorf("%+v", r)
	}
	if w.write(); w.whole(w.objects) != nil {
		t.Error(w.whole(w.objects))
	}
}
