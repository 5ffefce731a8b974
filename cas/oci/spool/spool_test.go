package spool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

var old, fresh = strings.Repeat("0a", 32), strings.Repeat("0b", 32)

// filled returns a directory with two layers and a file that is none; the first and the last are a week old and more.
func filled(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "spool")
	must(t, os.Mkdir(dir, 0o700))
	before := time.Now().Add(-8 * 24 * time.Hour)
	for name, at := range map[string]time.Time{old: before, fresh: time.Now(), "other": before} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("abc"), 0o600))
		must(t, os.Chtimes(filepath.Join(dir, name), at, at))
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, dir string, want ...string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range all {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != strings.Join(want, " ") {
		t.Errorf("%s is left", got)
	}
}

// TestTake: layers that no pull went on with are removed after a week, and nothing else. Meanwhile they can't be
// cleared.
func TestTake(t *testing.T) {
	dir := filled(t)
	s, err := Take(t.Context(), dir)
	must(t, err)
	holds(t, dir, fresh, lockFile, "other")
	if s.Path("sha256:"+fresh) != filepath.Join(dir, fresh) {
		t.Error(s.Path("sha256:" + fresh))
	}
	if err := Clear(t.Context(), dir); fault.CodeOf(err) != fault.Busy {
		t.Errorf("cleared beside a pull: %v", err)
	}
	s.Release()
	must(t, Clear(t.Context(), dir))
	holds(t, dir, lockFile, "other")
}

// TestSize: only layers count, and there need be none.
func TestSize(t *testing.T) {
	dir := filled(t)
	if n, bytes := Size(t.Context(), dir); n != 2 || bytes != 6 {
		t.Errorf("%d layers of %d bytes", n, bytes)
	}
	none := filepath.Join(dir, "none")
	if n, bytes := Size(t.Context(), none); n != 0 || bytes != 0 {
		t.Errorf("%d layers of %d bytes", n, bytes)
	}
	must(t, Clear(t.Context(), none))
	if _, err := os.Stat(none); !os.IsNotExist(err) {
		t.Error("clearing makes a directory")
	}
	if _, err := Take(t.Context(), filepath.Join(dir, "other", "below")); err == nil {
		t.Error("a directory below a file is taken")
	}
}
