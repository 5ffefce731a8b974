package statcache

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

const second = int64(time.Second)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestGetAndPut(t *testing.T) {
	db := filepath.Join(t.TempDir(), "db")
	now := Moment{Wall: 1_800_000_000 * second, Up: second, Boot: 1}
	open := func() *Cache { return Open(db, Options{Now: func() Moment { return now }}) }
	c, d := open(), someDir()
	begin := c.Now()
	if c.Get(t.Context(), d.Dev, d.Path, begin) != nil {
		t.Error("it is there")
	}
	c.Put(t.Context(), nil, d, begin)
	for range 2 { // from memory, and from the file
		if got := c.Get(t.Context(), d.Dev, d.Path, begin); !says(got, d) {
			t.Errorf("%+v", got)
		}
		c.Close(t.Context())
	}
	if c.Get(t.Context(), d.Dev+1, d.Path, begin) != nil || c.Get(t.Context(), d.Dev, "/some", begin) != nil {
		t.Error("another directory's")
	}
	c.Count(3, 4)
	if s := c.Stats(t.Context()); s.Entries != 1 || s.Hits != 3 || s.Misses != 4 || s.Bytes == 0 {
		t.Errorf("%+v", s)
	}

	// What says nothing new isn't written.
	before, err := os.ReadFile(db)
	must(t, err)
	c = open()
	now.Wall += second
	c.Put(t.Context(), c.Get(t.Context(), d.Dev, d.Path, begin), d, begin)
	c.Close(t.Context())
	if after, err := os.ReadFile(db); err != nil || !bytes.Equal(after, before) {
		t.Error("it was written", err)
	}

	// What was recorded while the clock was set back isn't remembered, and what was recorded before doesn't count.
	set := now
	set.Wall -= 10 * second
	if c.Get(t.Context(), d.Dev, d.Path, set) != nil {
		t.Error("it counts after the clock was set back")
	}
	d.Tree[0]++
	begin, now = now, set
	c.Put(t.Context(), nil, d, begin)
	if got := c.Get(t.Context(), d.Dev, d.Path, begin); got == nil || got.Tree() == d.Tree {
		t.Errorf("%+v", got)
	}
	must(t, c.Clear())
	if s := c.Stats(t.Context()); s.Entries != 0 || s.Bytes != 0 {
		t.Errorf("%+v", s)
	}
	d.Path = "/" + strings.Repeat("x", 5000)
	c.Put(t.Context(), nil, d, begin)
	d.Path, d.Files = "/long", []File{{Name: strings.Repeat("x", 256)}}
	c.Put(t.Context(), nil, d, begin)
	for _, path := range []string{"/" + strings.Repeat("x", 5000), "/long"} {
		if c.Get(t.Context(), d.Dev, path, begin) != nil {
			t.Error("what is too long is remembered")
		}
	}
}

func TestStampOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, []byte("abc"), 0o600))
	f, err := os.Open(path)
	must(t, err)
	fi, err := f.Stat()
	must(t, err)
	s := StampOf(fi)
	if s.Size != 3 || s.Mtime != fi.ModTime().UnixNano() || s.Mode == 0 {
		t.Errorf("%+v", s)
	}
	if linux := runtime.GOOS == "linux"; linux != (s.Ino != 0 && s.Dev != 0 && s.Ctime >= s.Mtime) || !linux &&
		s.Ctime != 0 {
		t.Errorf("%+v", s)
	}
	must(t, f.Close())
	if OwnStamps(f.Fd()) {
		t.Error("a closed file has a file system")
	}
	if runtime.GOOS == "linux" {
		p, err := os.Open("/proc/self/status")
		must(t, err)
		defer p.Close()
		if OwnStamps(p.Fd()) {
			t.Error("what is in /proc is stamped")
		}
	}
}

// FuzzFile: whatever the file holds, a cache is nothing worse than empty, and what is written to it is there
// one run later.
func FuzzFile(f *testing.F) {
	d := someDir()
	write := func(t testing.TB, db string, wait time.Duration) bool {
		c := Open(db, Options{Wait: wait})
		now := c.Now()
		have := true
		for dev := range uint64(3) {
			old := c.Get(t.Context(), dev, d.Path, now)
			have = have && old != nil
			d := *d
			d.Dev = dev
			c.Put(t.Context(), old, &d, now)
		}
		c.Close(t.Context())
		return have
	}
	db := filepath.Join(f.TempDir(), "db")
	write(f, db, time.Second)
	good, err := os.ReadFile(db)
	must(f, err)
	f.Add(good)
	f.Add(good[:2*4096])
	f.Fuzz(func(t *testing.T, b []byte) {
		db := filepath.Join(t.TempDir(), "db")
		must(t, os.WriteFile(db, b, 0o600))
		for range 2 {
			write(t, db, time.Second)
		}
		if !write(t, db, time.Second) {
			t.Fatal("it doesn't recover")
		}
	})
}
