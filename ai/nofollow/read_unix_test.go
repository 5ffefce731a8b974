//go:build unix

package nofollow

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rye-build/rye/cas/osfile"
)

// A file is read alike whether its directory is held or not, and nothing else is: no link is followed, nothing is
// waited for.
func TestReadSmall(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(dir, "a/dir"), 0o755))
	must(os.WriteFile(filepath.Join(dir, "a/file"), []byte("12345"), 0o644))
	must(os.WriteFile(filepath.Join(dir, "a/none"), nil, 0o644))
	must(os.Symlink("file", filepath.Join(dir, "a/link")))
	must(os.Symlink("a", filepath.Join(dir, "b")))
	must(syscall.Mkfifo(filepath.Join(dir, "a/pipe"), 0o600))
	d, err := Open(dir)
	must(err)
	defer d.Close()
	for _, held := range []bool{false, true} {
		if held {
			defer d.Hold()()
			must(func() error { _, err := d.ReadSmall("a/file", 5); return err }())
		}
		for name, want := range map[string]error{"a/file": nil, "a/none": nil, "a/link": ErrLink, "a/pipe": ErrSpecial,
			"a/dir": ErrSpecial, "b/file": ErrLink,
			"a/gone": fs.ErrNotExist, "c/file": fs.ErrNotExist, "../a/file": fs.ErrInvalid} {
			b, err := d.ReadSmall(name, 5)
			if !errors.Is(err, want) || err == nil && name == "a/file" && string(b) != "12345" {
				t.Errorf("held %v: %s: %q, %v, want %v", held, name, b, err, want)
			}
		}
		if _, err := d.ReadSmall("a/file", 4); !errors.Is(err, osfile.ErrLarge) {
			t.Errorf("held %v: %v", held, err)
		}
	}
}

// While a link takes the place of a file again and again the file is read, or refused.
func TestReadSmallSwapped(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.Mkdir(at("a"), 0o755), os.WriteFile(at("a/file"), []byte("file"), 0o644),
		os.WriteFile(at("other"), []byte("other"), 0o644)); err != nil {
		t.Fatal(err)
	}
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	defer d.Hold()()
	var done atomic.Bool
	ended := make(chan error)
	go func() {
		var err error
		for err == nil && !done.Load() {
			err = errors.Join(os.Symlink("../other", at("a/new")), os.Rename(at("a/new"), at("a/file")),
				os.WriteFile(at("a/new"), []byte("file"), 0o644), os.Rename(at("a/new"), at("a/file")))
		}
		ended <- err
	}()
	read, refused := 0, 0
	for i := 0; i < 20_000 && (i < 2000 || read == 0 || refused == 0); i++ {
		switch b, err := d.ReadSmall("a/file", 100); {
		case err == nil && string(b) == "file":
			read++
		case errors.Is(err, ErrLink):
			refused++
		default:
			t.Errorf("%q, %v", b, err)
		}
	}
	done.Store(true)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if read == 0 {
		t.Error("nothing was read")
	}
}
