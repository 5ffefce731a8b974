package ai

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai/nofollow"
)

func TestBelow(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755),
		os.WriteFile(filepath.Join(dir, "a", "b", "x"), []byte("x"), 0o644),
		os.Symlink("a", filepath.Join(dir, "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := OpenDir(dir, "test", System)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Below("a/b")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{"none": fs.ErrNotExist, "link/b": nofollow.ErrLink,
		"a/b/x": nofollow.ErrNoDir, "../x": fs.ErrInvalid, ".": fs.ErrInvalid} {
		if _, err := s.Below(name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if x, err := fs.ReadFile(b.FS, "x"); err != nil || string(x) != "x" || b.Label != "test" ||
		b.Dir != filepath.Join(dir, "a", "b") {
		t.Errorf("%q, %v, %+v", x, err, b)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Space{FS: fstest.MapFS{}}).Below("a"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a space that isn't on disk: %v", err)
	}
}
