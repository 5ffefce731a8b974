package build_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/statcache"
)

// Where nothing changed no file is read, of sources or of what was made of them.
func TestReadsNothing(t *testing.T) {
	w := newWorld(t, diamond)
	later := func() statcache.Moment {
		m := statcache.NewClock()()
		m.Wall += int64(10 * time.Second) // what was written just now is settled
		return m
	}
	stat := filepath.Join(t.TempDir(), "stat.db")
	read := func() int64 {
		t.Helper()
		w.o.Stat = statcache.Open(stat, statcache.Options{Now: later})
		r, err := w.build()
		w.o.Stat.Close(t.Context())
		if err != nil || !r.OK() {
			t.Fatalf("%+v, %v", r, err)
		}
		return r.Read
	}
	if n := read(); n != 1 {
		t.Errorf("%d files were read, want the one source", n)
	}
	if n := read(); n != 4 {
		t.Errorf("%d files were read, want the outputs that are new", n)
	}
	w.counted()
	if n := read(); n != 0 || w.counted() != "" {
		t.Errorf("%d files were read though nothing changed", n)
	}
	w.put("src/b", "b")
	if n := read(); n != 1 {
		t.Errorf("%d files were read of one that is new", n)
	}
}
