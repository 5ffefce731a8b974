package statcache

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rye-build/rye/cas/checkedbolt"
)

// format names what is in the file; another name makes another cache.
const format = "rye stat cache 3"

// Options say how a cache is kept. The zero Options are good.
type Options struct {
	// Limit is the size of the file beyond which the directories that were not used for longest are
	// forgotten; 64 MiB when zero.
	Limit int64
	// Wait is how long to wait for another process before going on without the cache; 2 s when zero.
	Wait time.Duration
	// Now is the clock; the machine's when nil.
	Now func() Moment
}

// A Cache remembers the digests of files that have not changed; the package comment tells when. Nothing that
// befalls its file is an error: at worst nothing is remembered. It is safe for concurrent use, by several
// processes, too.
type Cache struct {
	file         *checkedbolt.Cache
	now          func() Moment
	hits, misses atomic.Int64
}

// Stats tell about a cache. Entries are directories.
type Stats struct {
	checkedbolt.CacheStats
	Hits   int64 // files whose digest was remembered
	Misses int64 // files that were read
}

// Open returns the cache in the file path, which is made when there is something to write. It opens nothing yet.
func Open(path string, o Options) *Cache {
	if o.Now == nil {
		o.Now = NewClock()
	}
	return &Cache{now: o.Now, file: checkedbolt.OpenCache(path, format, checkedbolt.CacheOptions{
		Limit: o.Limit, Wait: o.Wait, Now: func() time.Time { return time.Unix(0, o.Now().Wall) },
	})}
}

// Now is the moment that must be asked for before anything is looked at that Get and Put are about.
func (c *Cache) Now() Moment { return c.now() }

// Get returns what is remembered of a directory and may be trusted at the moment begin, or nil.
func (c *Cache) Get(ctx context.Context, dev uint64, path string, begin Moment) *Known {
	k := &Known{dev, c.file.Get(ctx, keyOf(dev, path))}
	if !wellFormed(k.b) || begin.SetBackSince(k.written()) {
		return nil
	}
	return k
}

// Put remembers a directory that was looked at after begin, unless the clock was set back since or d says what old,
// which Get returned, said. Files must have Settled stamps of a file system with OwnStamps.
func (c *Cache) Put(ctx context.Context, old *Known, d *Dir, begin Moment) {
	if c.now().SetBackSince(begin) {
		return
	}
	if b := d.encode(begin); !old.says(b) {
		c.file.Put(ctx, keyOf(d.Dev, d.Path), b)
	}
}

// Count adds to the Stats.
func (c *Cache) Count(hits, misses int64) {
	c.hits.Add(hits)
	c.misses.Add(misses)
}

// Close writes what is new, in one transaction, and closes the file. When ctx ends it gives up.
func (c *Cache) Close(ctx context.Context) { c.file.Close(ctx) }

// Flush writes what is new already now, so that Close has less to do.
func (c *Cache) Flush(ctx context.Context) { c.file.Flush(ctx) }

// Clear forgets everything.
func (c *Cache) Clear() error { return c.file.Clear() }

// Stats tells about the cache as it is on disk, without what waits to be written.
func (c *Cache) Stats(ctx context.Context) Stats {
	return Stats{c.file.Stats(ctx), c.hits.Load(), c.misses.Load()}
}
