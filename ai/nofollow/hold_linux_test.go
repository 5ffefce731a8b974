package nofollow

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// While directories are held the way to them isn't gone again, and afterwards it is. A link that was put in the place
// of one is never followed.
func TestHold(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/b/file", "other/file"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	read := func() string {
		b, err := fs.ReadFile(d, "a/b/file")
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	release := d.Hold()
	also := d.Hold()
	if got := read(); got != "a/b/file" {
		t.Fatal(got)
	}
	if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("moved", filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	release()
	release()
	if got := read(); got != "a/b/file" {
		t.Errorf("what is held is gone: %s", got)
	}
	also()
	if got := read(); got != "open a/b/file: "+ErrLink.Error() {
		t.Errorf("a link is followed, or a directory held for too long: %s", got)
	}
	if len(d.holder.at) != 0 {
		t.Error("directories stay open")
	}
}

// Many directories at once are read as few are, and no more than maxHeld stay open.
func TestHoldMany(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 * maxHeld {
		if err := os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i), "file"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	release := d.Hold()
	var all sync.WaitGroup
	for from := range 4 {
		all.Go(func() {
			for i := range 12 * maxHeld {
				if _, err := fs.ReadFile(d, fmt.Sprintf("%d/file", (i*(from+1))%(3*maxHeld))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := len(d.holder.at); n == 0 || n > maxHeld {
		t.Errorf("%d directories are held", n)
	}
	release()
	if len(d.holder.at) != 0 {
		t.Error("directories stay open")
	}
}
