package checkedbolt

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A day is one that a test makes go by.
type day struct{ n int }

func (d *day) now() time.Time { return time.Unix(0, 0).AddDate(0, 0, 20_000+d.n) }

func cacheAt(path string, d *day) *Cache {
	return OpenCache(path, format, CacheOptions{Now: d.now, Wait: 5 * time.Millisecond})
}

func TestCache(t *testing.T) {
	ctx, path, d := t.Context(), filepath.Join(t.TempDir(), "a", "c.db"), new(day)
	c := cacheAt(path, d)
	if c.Get(ctx, key(1)) != nil {
		t.Error("it is there")
	}
	k, v := key(1), []byte("one")
	c.Put(ctx, k, v)
	k[0], v[0] = 9, 'x' // neither is kept
	c.Put(ctx, key(2), nil)
	c.Put(ctx, nil, []byte("no key"))
	c.Put(ctx, make([]byte, maxKey+1), []byte("a key that is too long"))
	for i := range 3 { // from memory, from the file, and as another process
		if got := c.Get(ctx, key(1)); string(got) != "one" {
			t.Errorf("%d: %q", i, got)
		}
		if got := c.Get(ctx, key(2)); got == nil || len(got) > 0 {
			t.Errorf("%d: %q", i, got)
		}
		if c.Get(ctx, key(3)) != nil || c.Get(ctx, make([]byte, maxKey+1)) != nil {
			t.Error("it is there")
		}
		if c.Close(ctx); i == 1 {
			c = cacheAt(path, d)
		}
	}
	got := c.Get(ctx, key(1))
	got[0] = 'x'
	if got := c.Get(ctx, key(1)); string(got) != "one" {
		t.Error("what was returned is what is remembered")
	}
	if s := c.Stats(ctx); s.Entries != 2 || s.Bytes == 0 || s.Busy+s.Rebuilt != 0 {
		t.Errorf("%+v", s)
	}
	must(t, os.WriteFile(path+newSuffix, nil, 0o600))
	c.Put(ctx, key(4), nil)
	must(t, c.Clear())
	if s := c.Stats(ctx); s != (CacheStats{}) || c.Get(ctx, key(4)) != nil {
		t.Errorf("%+v", s)
	}
	if es, err := os.ReadDir(filepath.Dir(path)); err != nil || len(es) > 0 {
		t.Error(es, err)
	}
}

// TestCacheUse: a value that is used is written again once a day, and no more.
func TestCacheUse(t *testing.T) {
	ctx, path, d := t.Context(), filepath.Join(t.TempDir(), "c.db"), new(day)
	c := cacheAt(path, d)
	c.Put(ctx, key(1), []byte("one"))
	c.Close(ctx)
	for i := range 4 {
		d.n = (i + 1) / 2
		before, err := os.ReadFile(path)
		must(t, err)
		c.Get(ctx, key(1))
		c.Close(ctx)
		after, err := os.ReadFile(path)
		must(t, err)
		if written := !bytes.Equal(before, after); written != (i%2 == 1) {
			t.Errorf("%d: written %v", i, written)
		}
	}
}

func TestCacheForgets(t *testing.T) {
	ctx, path, d := t.Context(), filepath.Join(t.TempDir(), "c.db"), new(day)
	const limit = 6 << 20
	c := OpenCache(path, format, CacheOptions{Now: d.now, Limit: limit})
	c.Put(ctx, []byte("used"), []byte("u"))
	for d.n = range 20 {
		for i := range 10 {
			c.Put(ctx, fmt.Append(nil, d.n, " ", i), bytes.Repeat([]byte{byte(i)}, 100<<10))
		}
		if string(c.Get(ctx, []byte("used"))) != "u" {
			t.Fatalf("day %d: forgotten", d.n)
		}
		c.Close(ctx)
		if s := c.Stats(ctx); s.Bytes > limit || s.Rebuilt > 0 {
			t.Errorf("day %d: %+v", d.n, s)
		}
		if v := c.Get(ctx, fmt.Append(nil, d.n, " ", 3)); len(v) != 100<<10 {
			t.Errorf("day %d: its own are forgotten", d.n)
		}
	}
	if c.Get(ctx, []byte("0 3")) != nil {
		t.Error("nothing was forgotten")
	}
	// More than what may wait is written at once.
	for i := range 45 {
		c.Put(ctx, fmt.Append(nil, "x", i), make([]byte, 100<<10))
	}
	if c.size > maxPending || len(c.pending) == 0 {
		t.Errorf("%d bytes wait", c.size)
	}
}

func TestCacheIsBusy(t *testing.T) {
	ctx, path, d := t.Context(), filepath.Join(t.TempDir(), "c.db"), new(day)
	c := cacheAt(path, d)
	c.Put(ctx, key(1), []byte("one"))
	c.Close(ctx)
	must(t, Update(ctx, path, format, 0, func(*Batch) error {
		c := cacheAt(path, d)
		for range 3 {
			if c.Get(ctx, key(1)) != nil {
				t.Error("read during a write")
			}
		}
		c.Put(ctx, key(2), []byte("two"))
		c.Close(ctx)
		if s := c.Stats(ctx); s.Busy != 3 || s.Entries != 0 { // once each: Get, Close, Stats
			t.Errorf("%+v", s)
		}
		return nil
	}))
	if c.Get(ctx, key(1)) == nil || c.Get(ctx, key(2)) != nil {
		t.Error("afterwards")
	}
	// The file is released even without Close.
	must(t, Update(ctx, path, format, 10*time.Second, func(*Batch) error { return nil }))

	ended, cancel := context.WithCancel(ctx)
	cancel()
	c = cacheAt(path, d)
	c.Put(ctx, key(3), []byte("three"))
	f, err := Open(ctx, path, format, 0)
	must(t, err)
	defer f.Close()
	c.Close(ended) // doesn't wait for f
}

// TestCacheOfNoFile: where no file can be made, nothing is remembered beyond Close.
func TestCacheOfNoFile(t *testing.T) {
	ctx, dir, d := t.Context(), t.TempDir(), new(day)
	blocked := filepath.Join(dir, "file")
	must(t, os.WriteFile(blocked, nil, 0o600))
	for _, path := range []string{dir, filepath.Join(blocked, "c.db")} {
		c := cacheAt(path, d)
		c.Put(ctx, key(1), []byte("one"))
		if string(c.Get(ctx, key(1))) != "one" {
			t.Error("not even in memory")
		}
		c.Close(ctx)
		if c.Get(ctx, key(1)) != nil || c.Stats(ctx).Entries != 0 {
			t.Error("where is it?")
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
	if err := cacheAt(dir, d).Clear(); err == nil {
		t.Error("a directory was removed")
	}
}

// TestCacheDamage damages the file in every state of a cache.
func TestCacheDamage(t *testing.T) {
	ctx, path, d := t.Context(), filepath.Join(t.TempDir(), "c.db"), new(day)
	put := func() *Cache {
		c := cacheAt(path, d)
		for i := range 300 {
			c.Put(ctx, key(i), bytes.Repeat([]byte{1}, 100))
		}
		c.Close(ctx)
		return c
	}
	garbage := []byte(strings.Repeat("garbage ", 4096))
	c := put()
	must(t, os.WriteFile(path, garbage, 0o600))
	if c.Get(ctx, key(1)) != nil || c.Stats(ctx).Rebuilt != 1 {
		t.Error("before reading")
	}
	c = put()
	must(t, os.WriteFile(path, garbage, 0o600))
	c.Put(ctx, key(1), []byte("one"))
	c.Close(ctx)
	if s := c.Stats(ctx); s.Rebuilt != 1 || s.Entries != 1 {
		t.Errorf("before writing: %+v", s)
	}
	// A file that is cut while it is mapped.
	for _, use := range []func(c *Cache){
		func(c *Cache) { c.Get(ctx, key(299)) }, func(c *Cache) { c.Stats(ctx) },
	} {
		c = put()
		c.Get(ctx, key(1))
		must(t, os.Truncate(path, 2*pageSize))
		use(c)
		if c.Stats(ctx).Rebuilt != 1 {
			t.Error("while reading")
		}
	}
	// A value that is too short to have a day.
	c = put()
	c.Close(ctx)
	must(t, Update(ctx, path, format, time.Second, func(b *Batch) error { return b.Put(key(1), []byte("abc")) }))
	if c.Get(ctx, key(1)) != nil || c.Get(ctx, key(2)) == nil || c.Stats(ctx).Rebuilt != 0 {
		t.Error("a value without a day")
	}
}

func TestCacheForMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	var wg sync.WaitGroup
	shared := OpenCache(path, format, CacheOptions{Wait: 20 * time.Second})
	for g := range 30 {
		wg.Go(func() {
			c := shared
			if g%2 == 0 {
				c = OpenCache(path, format, CacheOptions{Wait: 20 * time.Second})
				defer c.Close(t.Context())
			}
			for i := range 50 {
				if v := c.Get(t.Context(), key(i)); v != nil && !bytes.Equal(v, valueOf(i, 100)) {
					t.Errorf("value %d is another one", i)
				}
				c.Put(t.Context(), key(i), valueOf(i, 100))
			}
			if g == 7 {
				c.Stats(t.Context())
			}
		})
	}
	wg.Wait()
	shared.Close(t.Context())
	if s := shared.Stats(t.Context()); s.Entries != 50 || s.Rebuilt != 0 {
		t.Errorf("%+v", s)
	}
}
