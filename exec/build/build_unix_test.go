//go:build unix

package build_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/exec/build"
)

// A key that others may have read vouches for nothing.
func TestKeyModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "build.key")
	first, err := build.Key(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if second, err := build.Key(path); err != nil || string(second) == string(first) {
		t.Errorf("it is taken again (%v)", err)
	}
}

// A link in the way of an output leads nowhere outside of the project.
func TestLinks(t *testing.T) {
	w := newWorld(t, diamond)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(w.dir, "out")); err != nil {
		t.Fatal(err)
	}
	w.want("other failed", "other")
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("%v was written outside (%v)", entries, err)
	}
}
