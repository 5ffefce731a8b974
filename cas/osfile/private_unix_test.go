//go:build unix

package osfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

type ownedBy struct {
	fs.FileInfo
	uid uint32
}

func (o ownedBy) Sys() any { return &syscall.Stat_t{Uid: o.uid} }

func TestOwner(t *testing.T) {
	path := t.TempDir()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkPrivate(path, info, true, "", 0); err != nil {
		t.Error(err)
	}
	err = checkPrivate(path, ownedBy{info, uint32(os.Geteuid()) + 1}, true, "", 0)
	if e, ok := errors.AsType[*UnsafeError](err); !ok || e.By != "owner" || OwnedByOther(info) ||
		!OwnedByOther(ownedBy{info, uint32(os.Geteuid()) + 1}) {
		t.Errorf("another user's: %v", err)
	}
}

// TestPrivate: only a file and a directory that no other user can reach are accepted.
func TestPrivate(t *testing.T) {
	for name, c := range map[string]struct {
		harm      func(dir, file string) error
		by        string // that refuses the file
		dir, file string // in the errors; "" for none
	}{
		"as it should be": {func(string, string) error { return nil }, "", "", ""},
		"readable": {func(_, file string) error {
			return os.Chmod(file, 0o640)
		}, "mode", "", "has mode 0640, which gives others access: expected 0600"},
		"an open directory": {func(dir, _ string) error { return os.Chmod(dir, 0o711) }, "", "has mode 0711", ""},
		"a link": {func(_, file string) error {
			return errors.Join(os.Remove(file), os.Symlink(os.DevNull, file))
		}, "link", "", "is a symbolic link"},
		"a pipe": {func(_, file string) error {
			return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600))
		}, "kind", "", "is not a regular file"},
		"a file for directory": {func(dir, _ string) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		}, "", "is not a directory", "not a directory"},
		"nothing": {func(dir, _ string) error { return os.RemoveAll(dir) }, "", "no such file", "no such file"},
	} {
		dir := filepath.Join(t.TempDir(), "d")
		file := filepath.Join(dir, "f")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file, []byte("x"), 0o600),
			c.harm(dir, file)); err != nil {
			t.Fatal(err)
		}
		if err := CheckPrivateDir(dir); (err == nil) != (c.dir == "") || err != nil &&
			!strings.Contains(err.Error(), c.dir) {
			t.Errorf("%s: directory: %v", name, err)
		}
		f, err := OpenPrivate(file, true)
		if (err == nil) != (c.file == "") || err != nil && !strings.Contains(err.Error(), c.file) {
			t.Errorf("%s: file: %v", name, err)
		}
		if e, ok := errors.AsType[*UnsafeError](err); ok != (c.by != "") || ok && (e.By != c.by || e.Path != file) {
			t.Errorf("%s: %+v", name, err)
		}
		if err == nil {
			f.Close()
		}
	}
}

// TestTempDir: what a process that died long ago left is removed. What is new, open to others or of another name
// stays.
func TestTempDir(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	make := func(name string, mode fs.FileMode, age time.Duration) string {
		dir := filepath.Join(temp, name)
		if err := errors.Join(os.Mkdir(dir, mode), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600),
			os.Chtimes(dir, time.Time{}, time.Now().Add(-age))); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	old := make(Unfinished+"x-1", 0o700, 25*time.Hour)
	kept := []string{make(Unfinished+"x-2", 0o700, 23*time.Hour), make(Unfinished+"x-3", 0o755, 25*time.Hour),
		make(Unfinished+"y-1", 0o700, 25*time.Hour)}
	dir, err := TempDir("x")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range append(kept, dir) {
		if _, err := os.Lstat(dir); err != nil {
			t.Error(err)
		}
	}
	if err := CheckPrivateDir(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it stays: %v", err)
	}
	t.Setenv("TMPDIR", filepath.Join(temp, "none"))
	if _, err := TempDir("x"); err == nil || !strings.HasPrefix(err.Error(), "no directory for temporary files: ") {
		t.Errorf("without a directory: %v", err)
	}
}
