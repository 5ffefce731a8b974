//go:build unix

package key_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

func wantMode(t *testing.T, what string, err error, reason string) {
	t.Helper()
	if err == nil || fault.CodeOf(err) != fault.Denied || !strings.Contains(err.Error(), reason) {
		t.Errorf("%s: %v", what, err)
	}
}

func TestDirModes(t *testing.T) {
	d, path := newDir(t)
	if err := d.Add("a", private(t, 0), ""); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(path, "a.private.pem")
	for _, c := range []struct {
		path string
		mode os.FileMode
	}{{path, 0o700}, {file, 0o600}, {filepath.Join(path, "a.public.pem"), 0o644}} {
		if info, err := os.Stat(c.path); err != nil || info.Mode().Perm() != c.mode {
			t.Errorf("%s was made with %v, %v", c.path, info.Mode(), err)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602, 0o610, 0o644, 0o666} {
		write(t, file, load(t).Good[0].Private, mode)
		_, err := d.Private("a", nil)
		wantMode(t, mode.String(), err, "gives others access: expected 0600")
		if list, err := d.List(); err != nil || len(list) != 1 {
			t.Errorf("%v, %v", list, err)
		} else {
			wantMode(t, mode.String(), list[0].Err, "gives others access")
		}
		wantMode(t, mode.String(), d.SetDefault("a"), "gives others access")
	}
	write(t, file, load(t).Good[0].Private, 0o400)
	if _, err := d.Private("a", nil); err != nil {
		t.Errorf("read-only for its owner: %v", err)
	}
	write(t, filepath.Join(path, "a.public.pem"), load(t).Good[0].Public, 0o664)
	_, err := d.Private("a", nil)
	wantMode(t, "public half", err, "expected 0644")
	for _, mode := range []os.FileMode{0o750, 0o705, 0o770, 0o711, 0o1777} {
		write(t, path, "", mode)
		for _, err := range []error{second(d.Private("a", nil)), second(d.Public("a")), second(d.List()),
			second(d.Default()),
			d.Add("b", private(t, 1), ""), d.Remove("a"), d.SetDefault("a")} {
			wantMode(t, mode.String(), err, "gives others access: expected 0700")
		}
	}
}

// Links, pipes and directories are refused without being followed or waited for.
func TestDirOddFiles(t *testing.T) {
	d, path := newDir(t)
	real := filepath.Join(t.TempDir(), "real.pem")
	write(t, real, load(t).Good[0].Private, 0o600)
	err := errors.Join(
		os.Symlink(real, filepath.Join(path, "link.private.pem")),
		os.Symlink("nowhere", filepath.Join(path, "dangling.private.pem")),
		syscall.Mkfifo(filepath.Join(path, "pipe.private.pem"), 0o600),
		os.Mkdir(filepath.Join(path, "dir.private.pem"), 0o700),
		os.Symlink(path, path+"-link"))
	if err != nil {
		t.Fatal(err)
	}
	for name, reason := range map[string]string{"link": "symbolic link", "dangling": "symbolic link",
		"pipe": "not a regular file", "dir": "not a regular file"} {
		_, err := d.Private(name, nil)
		wantMode(t, name, err, reason)
	}
	_, err = key.OpenDir(path + "-link").List()
	wantMode(t, "directory", err, "symbolic link")
	wantMode(t, "directory", key.OpenDir(path+"-link").Add("x", private(t, 0), ""), "symbolic link")
	_, err = key.OpenDir(real).List()
	wantMode(t, "directory", err, "not a directory")
	// A link in the place of a file that is written is replaced, not followed.
	if err := os.Symlink(real, filepath.Join(path, "new.public.pem")); err != nil {
		t.Fatal(err)
	}
	if err := d.Add("new", private(t, 1), ""); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(real); err != nil || string(b) != load(t).Good[0].Private {
		t.Errorf("wrote through a link: %s, %v", b, err)
	}
}
