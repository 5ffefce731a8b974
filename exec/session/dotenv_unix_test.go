//go:build unix

package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDotEnv: a project's .env is a file of the project, and reading it never waits.
func TestDotEnv(t *testing.T) {
	if _, err := dotEnv(filepath.Join(t.TempDir(), "gone")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a project that is gone: %v", err)
	}
	dir := t.TempDir()
	project, outside := filepath.Join(dir, "project"), filepath.Join(dir, "secret")
	at := filepath.Join(project, ".env")
	if err := errors.Join(os.Mkdir(project, 0o755), os.WriteFile(outside, []byte("SECRET=outside\n"), 0o600),
		os.WriteFile(filepath.Join(project, "other"), []byte("NAME=inside\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if all, err := dotEnv(project); len(all) != 0 || err != nil {
		t.Errorf("without a file: %v, %v", all, err)
	}
	for name, c := range map[string]struct {
		make      func() error
		want, bad string
	}{
		"a file":         {func() error { return os.WriteFile(at, []byte("NAME=file\n"), 0o600) }, "file", ""},
		"a link inside":  {func() error { return os.Symlink("other", at) }, "inside", ""},
		"a link outside": {func() error { return os.Symlink(outside, at) }, "", "escapes"},
		"a way outside":  {func() error { return os.Symlink("../secret", at) }, "", "escapes"},
		"a fifo":         {func() error { return syscall.Mkfifo(at, 0o600) }, "", "not a regular file"},
		"a directory":    {func() error { return os.Mkdir(at, 0o700) }, "", "not a regular file"},
		"more than is read": {func() error {
			return os.WriteFile(at, make([]byte, 1<<20), 0o600)
		}, "", "more than 65536 bytes"},
		"no lines of a .env": {func() error { return os.WriteFile(at, []byte("no\n"), 0o600) }, "", "NAME=VALUE"},
	} {
		if err := c.make(); err != nil {
			t.Fatal(err)
		}
		all, err := dotEnv(project)
		switch {
		case c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)):
			t.Errorf("%s: %v, %v; want %q", name, all, err, c.bad)
		case c.bad == "" && (err != nil || len(all) != 1 || all[0].Value != c.want):
			t.Errorf("%s: %v, %v; want %q", name, all, err, c.want)
		}
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
	}
}
