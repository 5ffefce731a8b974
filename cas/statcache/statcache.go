package statcache

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rye-build/rye/cas/checkedbolt"
)

// format names the format of the file. A file of another format is replaced.
const format = "rye stat cache 3"

// Options are the options of Open. The zero value is valid.
type Options struct {
	// Limit is the size of the file above which the least recently used directories are forgotten; 64 MiB when
	// zero.
	Limit int64
	// Wait is how long to wait for another process before continuing without the cache; 2 s when zero.
	Wait time.Duration
	// Now is the clock; the machine's when nil.
	Now func() Moment
}

// A Cache remembers the digests of files that have not changed. No problem with its file is an error: at worst the
// Cache remembers nothing. It is safe for concurrent use, also by several processes. The caller of Open closes it.
type Cache struct {
	file         *checkedbolt.Cache
	now          func() Moment
	hits, misses atomic.Int64
}

// Stats describe a cache. Entries are directories.
type Stats struct {
	checkedbolt.CacheStats
	Hits   int64 // files whose digest was remembered
	Misses int64 // files that were read
}

// Open returns the cache in the file at path. It opens nothing yet; the first write creates the file.
func Open(path string, o Options) *Cache {
	if o.Now == nil {
		o.Now = NewClock()
	}
	return &Cache{now: o.Now, file: checkedbolt.OpenCache(path, format, checkedbolt.CacheOptions{
		Limit: o.Limit, Wait: o.Wait, Now: func() time.Time { return time.Unix(0, o.Now().Wall) },
	})}
}

// Now returns the moment to pass to Get and Put as begin. The caller takes it before it looks at any of the files.
func (c *Cache) Now() Moment { return c.now() }

// Get returns the remembered directory if its records may be used at the moment begin, or nil.
func (c *Cache) Get(ctx context.Context, dev uint64, path string, begin Moment) *Known {
	k := &Known{dev, c.file.Get(ctx, keyOf(dev, path))}
	if !wellFormed(k.b) || begin.SetBackSince(k.written()) {
		return nil
	}
	return k
}

// Put remembers a directory that was read after begin, unless the clock was set back since or d is equal to old,
// which Get returned. Files must have Settled stamps of a file system with OwnStamps.
func (c *Cache) Put(ctx context.Context, old *Known, d *Dir, begin Moment) {
	if c.now().SetBackSince(begin) {
		return
	}
	if b := d.encode(begin); !old.matches(b) {
		c.file.Put(ctx, keyOf(d.Dev, d.Path), b)
	}
}

// Count adds to the Stats.
func (c *Cache) Count(hits, misses int64) {
	c.hits.Add(hits)
	c.misses.Add(misses)
}

// Close writes the new directories, in one transaction, and closes the file. It gives up when ctx ends.
func (c *Cache) Close(ctx context.Context) { c.file.Close(ctx) }

// Flush writes the new directories now, so that Close has less to do.
func (c *Cache) Flush(ctx context.Context) { c.file.Flush(ctx) }

// Clear forgets everything.
func (c *Cache) Clear() error { return c.file.Clear() }

// Stats describes the cache on disk, without unwritten directories.
func (c *Cache) Stats(ctx context.Context) Stats {
	return Stats{c.file.Stats(ctx), c.hits.Load(), c.misses.Load()}
}
