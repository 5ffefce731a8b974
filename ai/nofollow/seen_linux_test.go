package nofollow

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/statcache"
)

// later is a clock by which whatever is written now was written long ago.
func later(ahead *time.Duration) func() statcache.Moment {
	clock := statcache.NewClock()
	return func() statcache.Moment {
		m := clock()
		m.Wall, m.Up = m.Wall+int64(*ahead), m.Up+int64(10*time.Second)
		return m
	}
}

// What was looked at is unchanged until any of it changes, and nothing else matters.
func TestSeen(t *testing.T) {
	write := func(path, text string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644) }
	}
	for name, c := range map[string]struct {
		change func(dir string) error
		same   bool
	}{
		"nothing":                     {func(string) error { return nil }, true},
		"a file elsewhere":            {write("other/file", "x"), true},
		"another entry on the way":    {write("on/new", "x"), true},
		"an entry of what was passed": {write("new", "x"), true},
		"the file":                    {write("on/file", "not"), false},
		"the file, as long":           {write("on/file", "taxt"), false},
		"the same bytes again":        {write("on/file", "text"), false},
		"the file is gone": {func(dir string) error {
			return os.Remove(filepath.Join(dir, "on/file"))
		}, false},
		"its mode": {func(dir string) error { return os.Chmod(filepath.Join(dir, "on/file"), 0o755) }, false},
		"its old time": {func(dir string) error {
			at := filepath.Join(dir, "on/file")
			return os.Chtimes(at, time.Time{}, time.Unix(1, 1))
		}, false},
		"what was missing": {write("on/missing", ""), false},
		"a listed entry":   {write("listed/new", ""), false},
		"a listed entry is gone": {func(dir string) error {
			return os.Remove(filepath.Join(dir, "listed/a"))
		}, false},
		"the contents of a listed entry": {write("listed/a", "longer"), true},
		"a link to the same": {func(dir string) error {
			if err := os.Rename(filepath.Join(dir, "on"), filepath.Join(dir, "moved")); err != nil {
				return err
			}
			return os.Symlink("moved", filepath.Join(dir, "on"))
		}, false},
		"a file instead of the directory": {func(dir string) error {
			if err := os.RemoveAll(filepath.Join(dir, "on")); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "on"), nil, 0o644)
		}, false},
	} {
		dir := t.TempDir()
		for _, d := range []string{"on", "listed", "other"} {
			if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range []error{write("on/file", "text")(dir), write("listed/a", "a")(dir)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		ahead := 10 * time.Second
		seen := look(t, dir, later(&ahead))
		if !seen.Settled() {
			t.Fatalf("%s: not settled", name)
		}
		if err := c.change(dir); err != nil {
			t.Fatal(err)
		}
		if got := seen.Unchanged(); got != c.same {
			t.Errorf("%s: unchanged %v", name, got)
		}
		ahead = 5 * time.Second
		if seen.Unchanged() || seen.Settled() {
			t.Errorf("%s: unchanged after the clock was set back", name)
		}
	}
}

// look looks at some of a directory.
func look(t *testing.T, dir string, clock func() statcache.Moment) *Seen {
	t.Helper()
	seen := NewSeen(clock)
	seen.Path(dir)
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	d.Note(seen, dir)
	_, read := fs.ReadFile(d, "on/file")
	_, list := d.ReadDir("listed")
	lstat, done, folder := d.Folder("on")
	for _, err := range []error{read, list, folder} {
		if err != nil {
			t.Fatal(err)
		}
	}
	defer done()
	if _, err := lstat("missing"); err == nil {
		t.Fatal("missing is there")
	}
	return seen
}

// Files that were written just now, links and more files than are noted can't be told again.
func TestSeenBlind(t *testing.T) {
	ahead := 10 * time.Second
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "on"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"file":   os.WriteFile(filepath.Join(dir, "on/file"), nil, 0o644),
		"listed": os.Mkdir(filepath.Join(dir, "listed"), 0o755),
		"link":   os.Symlink("on", filepath.Join(dir, "link")),
	} {
		if err != nil {
			t.Fatal(name, err)
		}
	}
	if look(t, dir, statcache.NewClock()).Settled() {
		t.Error("a file that was written just now is settled")
	}
	seen := look(t, dir, later(&ahead))
	seen.Path(filepath.Join(dir, "link"))
	if seen.Settled() {
		t.Error("a link is settled")
	}
	seen = look(t, dir, later(&ahead))
	if err := os.WriteFile(filepath.Join(dir, "on/file"), []byte("more"), 0o644); err != nil {
		t.Fatal(err)
	}
	seen.Path(filepath.Join(dir, "on/file"))
	if seen.Settled() {
		t.Error("what changes while it is looked at is settled")
	}
	seen = look(t, dir, later(&ahead))
	for range maxSeen {
		seen.Path(filepath.Join(dir, "on", time.Now().Format(time.RFC3339Nano)))
	}
	if len(seen.at) > maxSeen {
		t.Error("more is noted than may be")
	}
	seen = look(t, dir, later(&ahead))
	seen.Path("/proc/self/status")
	if seen.Settled() {
		t.Error("a file of another file system is settled")
	}
}
