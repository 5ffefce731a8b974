package worktree

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
)

// FuzzCacheFile: whatever the file holds, a cache is nothing worse than empty, and what is written to it is there
// one run later.
func FuzzCacheFile(f *testing.F) {
	d := &dir{files: []file{{name: "a", stamp: stamp{ino: 1, size: 2, mtime: 3, ctime: 4, mode: 5}}}}
	write := func(t testing.TB, db string, wait time.Duration) bool {
		c := OpenCache(db, CacheOptions{Wait: wait})
		now := c.now()
		have := true
		for dev := range uint64(3) {
			v := c.get(t.Context(), dev, "/some/where", now)
			have = have && v.b != nil
			c.put(t.Context(), dev, "/some/where", v, appendValue(nil, d, cas.EmptyTree, now), now)
		}
		c.Close(t.Context())
		return have
	}
	db := filepath.Join(f.TempDir(), "db")
	write(f, db, time.Second)
	good, err := os.ReadFile(db)
	must(f, err)
	f.Add(good)
	f.Add(good[:2*pageSize])
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
