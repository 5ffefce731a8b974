package git

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// TestUnpack: the files of a directory of a commit are written with their modes and links, and nothing leaves it.
func TestUnpack(t *testing.T) {
	r := newRepo(t)
	id := r.commit(map[string]string{"100644 p/a": "x", "100755 p/bin/run": "y", "120000 p/link": "a",
		"100644 p/left/b": "z", "100644 other": "o"})
	k := fetch(t, r.client(), id)
	defer k.Close()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := k.Unpack(t.Context(), "p", root, func(name string) bool { return name == "left" }); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "x", "bin/run": "y", "link": "x"} {
		if b, err := root.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if info, err := os.Lstat(filepath.Join(dir, "bin", "run")); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Error(info, err)
	}
	if info, err := os.Lstat(filepath.Join(dir, "link")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error(info, err)
	}
	for _, gone := range []string{"left", "other"} {
		if _, err := os.Lstat(filepath.Join(dir, gone)); !os.IsNotExist(err) {
			t.Errorf("%s was written", gone)
		}
	}
	if err := k.Unpack(t.Context(), "other", root, func(string) bool { return false }); fault.CodeOf(err) !=
		fault.Integrity {
		t.Errorf("a file: %v", err)
	}
}

// TestUnpackRefused: a submodule isn't fetched, and a tree that names its parent is damaged.
func TestUnpackRefused(t *testing.T) {
	for _, entry := range []string{"160000 sub", "100644 .."} {
		r := newRepo(t)
		id := r.commit(map[string]string{entry: "x"})
		k := fetch(t, r.client(), id)
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Unpack(t.Context(), "", root, func(string) bool { return false }); err == nil {
			t.Errorf("%q was unpacked", entry)
		}
		root.Close()
		k.Close()
	}
}
