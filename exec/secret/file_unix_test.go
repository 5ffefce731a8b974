//go:build unix

package secret

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// TestModes: what other users may read is refused before it is read.
func TestModes(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(s *Store) error
		want string
	}{
		"the directory": {func(s *Store) error { return os.Chmod(s.Dir, 0o750) }, "has mode 0750"},
		"the file": {func(s *Store) error {
			return os.Chmod(filepath.Join(s.Dir, fileName), 0o640)
		}, "has mode 0640"},
		"the identity": {func(s *Store) error {
			return os.Chmod(filepath.Join(s.Dir, identityName), 0o604)
		}, "has mode 0604"},
		"a link":        {func(s *Store) error { return link(filepath.Join(s.Dir, fileName)) }, "is a symbolic link"},
		"a link to all": {func(s *Store) error { return link(s.Dir) }, "is a symbolic link"},
		"a pipe": {func(s *Store) error {
			return pipe(filepath.Join(s.Dir, identityName))
		}, "is not a regular file"},
		"no directory": {func(s *Store) error { return pipe(s.Dir) }, "is not a directory"},
		"another user's": {func(s *Store) error {
			return os.Chown(filepath.Join(s.Dir, fileName), 1, -1)
		}, "belongs to user 1"},
	} {
		if name == "another user's" && os.Geteuid() != 0 {
			continue // only root can give files away
		}
		s := newStore(t)
		s.must(t, "name", "the value")
		if err := c.harm(s); err != nil {
			t.Fatal(err)
		}
		_, err := s.Get(t.Context(), "name")
		if fault.CodeOf(err) != fault.Denied || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.Set(t.Context(), Secret{Name: "name", From: "x"}, "new value",
			false); fault.CodeOf(err) != fault.Denied {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := newStore(t)
	s.must(t, "name", "the value")
	for name, want := range map[string]os.FileMode{".": 0o700, fileName: 0o600, identityName: 0o600, lockName: 0o600} {
		if info, err := os.Stat(filepath.Join(s.Dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	// The directory can't be made.
	s.Dir = filepath.Join(s.Dir, fileName, "x", "auth")
	if _, err := s.Set(t.Context(), Secret{Name: "name", From: "x"}, "new value", false); !errors.Is(err,
		syscall.ENOTDIR) {
		t.Error(err)
	}
}

// link moves a file and leaves a link in its place.
func link(path string) error {
	return errors.Join(os.Rename(path, path+".moved"), os.Symlink(path+".moved", path))
}

func pipe(path string) error {
	return errors.Join(os.RemoveAll(path), syscall.Mkfifo(path, 0o600))
}
