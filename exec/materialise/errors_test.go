//go:build unix

package materialise

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
)

// What isn't there, or is something else, is damage of a copy and no error of the caller's.
func TestNotThere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	entry := cas.Entry{Mode: cas.File, Digest: cas.Sum([]byte("x")), Size: 1}
	for what, err := range map[string]error{
		"no directory":           directory(root, "none", 0o500),
		"no entries":             same(root, "none", nil),
		"a file for a directory": directory(root, "file", 0o500),
		"a file's entries":       same(root, "file", nil),
		"no file":                compare(t.Context(), root, "none", entry),
		"a directory for a file": compare(t.Context(), root, ".", entry),
	} {
		if _, ok := errors.AsType[*damageError](err); !ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	if f, err := new(Cache).locked(t.Context(), filepath.Join(file, "lease"), osfile.Exclusive); err == nil {
		f.Close()
		t.Error("a lease was taken below a file")
	}
	if _, err := Open(filepath.Join(file, "cache")); err == nil {
		t.Error("a cache was made below a file")
	}
}
