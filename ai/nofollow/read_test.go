package nofollow

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/rye-build/rye/cas/osfile"
)

// What is read into lent memory is the file and its mode, at any length, and nothing of the file that was read before.
func TestReadInto(t *testing.T) {
	dir := t.TempDir()
	into := make([]byte, 16)
	for n := range 20 {
		text := make([]byte, n)
		for i := range text {
			text[i] = byte('a' + n)
		}
		mode := fs.FileMode(0o644 + n%2*0o111)
		if err := errors.Join(os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), text, mode),
			os.Chmod(filepath.Join(dir, fmt.Sprint(n)), mode)); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for n := range 20 {
		b, mode, err := d.ReadInto(fmt.Sprint(n), into, 18)
		if n > 18 {
			if !errors.Is(err, osfile.ErrLarge) {
				t.Errorf("%d bytes: %v", n, err)
			}
			continue
		}
		if err != nil || len(b) != n || n > 0 && (b[0] != byte('a'+n) || b[n-1] != byte('a'+n)) {
			t.Errorf("%d bytes: %q, %v", n, b, err)
		}
		if runtime.GOOS == "windows" {
			continue
		}
		if lent := cap(b) > 0 && &b[:1][0] == &into[0]; mode != fs.FileMode(0o644+n%2*0o111) ||
			lent != (n < len(into)) {
			t.Errorf("%d bytes: mode %v, in what was lent: %v", n, mode, lent)
		}
	}
	if _, _, err := d.ReadInto(".", into, 18); err == nil {
		t.Error("a directory was read")
	}
}

func TestNames(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755),
		os.WriteFile(filepath.Join(dir, "a", "c"), nil, 0o644),
		os.Symlink("a", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, want := range map[string][]string{".": {"a", "link"}, "a": {"b", "c"}, "a/b": nil} {
		got, err := d.Names(name)
		if slices.Sort(got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := d.Names("link"); !errors.Is(err, ErrLink) {
		t.Errorf("a link: %v", err)
	}
	if _, err := d.Names("no"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
}
