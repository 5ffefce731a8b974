package worktree

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	berrors "go.etcd.io/bbolt/errors"
)

const (
	version    = "rye stat cache 1"
	maxPending = 4 << 20 // bytes of values that wait to be written
	maxKey     = 4 << 10 // longer paths aren't remembered
)

// CacheOptions say how a cache is kept. The zero CacheOptions are good.
type CacheOptions struct {
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
	path  string
	limit int64
	wait  time.Duration
	now   func() Moment

	mu      sync.Mutex
	r       *cacheFile        // open for reading, or nil
	idle    *time.Timer       // closes r, so that writers need not wait for the end of a long import
	off     bool              // it was busy, or can't be read: don't ask again
	pending map[string][]byte // sealed values to be written
	size    int               // of pending

	hits, misses, busy, rebuilt atomic.Int64
}

// CacheStats tell about a cache. Entries and Bytes are those of the file, the rest counts since it was opened.
type CacheStats struct {
	Entries int64 // directories
	Bytes   int64
	Hits    int64 // files whose digest was remembered
	Misses  int64 // files that were read
	Busy    int64 // how often another process kept the file for too long
	Rebuilt int64 // how often the file was damaged, or of another version, and removed
}

// held is how long the file is kept open, and locked, for reading.
const held = 250 * time.Millisecond

// OpenCache returns the cache in the file path, which is made when there is something to write. It opens nothing
// yet.
func OpenCache(path string, o CacheOptions) *Cache {
	c := &Cache{path: path, limit: o.Limit, wait: o.Wait, now: o.Now, pending: make(map[string][]byte)}
	if c.limit <= 0 {
		c.limit = 64 << 20
	}
	if c.wait <= 0 {
		c.wait = 2 * time.Second
	}
	if c.now == nil {
		c.now = newClock()
	}
	return c
}

// Close writes what is new, in one transaction, and closes the file. When ctx ends it gives up.
func (c *Cache) Close(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush(ctx)
	c.closeReader()
}

// Clear forgets everything.
func (c *Cache) Clear() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeReader()
	clear(c.pending)
	c.size, c.off = 0, false
	for _, path := range []string{c.path, c.path + newSuffix} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Stats tells about the cache as it is on disk, without what waits to be written.
func (c *Cache) Stats(ctx context.Context) CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := CacheStats{Hits: c.hits.Load(), Misses: c.misses.Load()}
	if fi, err := os.Stat(c.path); err == nil {
		s.Bytes = fi.Size()
	}
	if c.openReader(ctx, toRead) {
		err := guarded(func() error {
			return c.r.dirs.ForEach(func(_, _ []byte) error { s.Entries++; return nil })
		})
		if err != nil {
			c.discard()
			s.Entries = 0
		}
		c.closeReader()
	}
	s.Busy, s.Rebuilt = c.busy.Load(), c.rebuilt.Load()
	return s
}

// keyOf returns the key of a directory.
func keyOf(dev uint64, path string) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(path)), dev), path...)
}

// get returns what is remembered of a directory, and may be trusted at the moment begin.
func (c *Cache) get(ctx context.Context, dev uint64, path string, begin Moment) value {
	key := keyOf(dev, path)
	v := openValue(key, c.read(ctx, key))
	if v.b != nil && setBack(v.written(), begin) {
		return value{}
	}
	return v
}

// read returns a copy, because the file is mapped only as long as the lock is held.
func (c *Cache) read(ctx context.Context, key []byte) (b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.pending[string(key)]; ok {
		return b
	}
	if !c.openReader(ctx, toRead) {
		return nil
	}
	err := guarded(func() error {
		b = bytes.Clone(c.r.dirs.Get(key))
		return nil
	})
	if err != nil {
		c.discard()
		return nil
	}
	return b
}

// touch notes that a value was used, once a day.
func (c *Cache) touch(dev uint64, path string, old value, begin Moment) {
	if old.day() == begin.day() {
		return
	}
	b := bytes.Clone(old.b)
	order.PutUint32(b[valueDay:], begin.day())
	key := keyOf(dev, path)
	seal(key, b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(key, b)
}

// put remembers the value b of a directory, unless the clock was set back since begin or b tells nothing new.
func (c *Cache) put(ctx context.Context, dev uint64, path string, old value, b []byte, begin Moment) {
	if setBack(begin, c.now()) {
		return
	}
	if old.says(b) {
		c.touch(dev, path, old, begin)
		return
	}
	key := keyOf(dev, path)
	if len(key) > maxKey {
		return
	}
	b = bytes.Clone(b)
	seal(key, b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(key, b)
	if c.size > maxPending {
		c.flush(ctx)
	}
}

// add keeps a sealed value to be written. The caller holds c.mu.
func (c *Cache) add(key, b []byte) {
	c.size += len(b) - len(c.pending[string(key)])
	c.pending[string(key)] = b
}

// openReader opens the file for reading unless it is open, and reports whether it is. The caller holds c.mu.
func (c *Cache) openReader(ctx context.Context, m cacheMode) bool {
	if c.r != nil {
		return true
	}
	if c.off {
		return false
	}
	fi, err := os.Stat(c.path)
	if err != nil || fi.Size() == 0 {
		c.off = true // nothing there, or not yet
		return false
	}
	r, err := c.openFile(ctx, m)
	switch {
	case err == nil:
	case errors.Is(err, errDamaged):
		c.r = r
		c.discard()
		return false
	default: // busy, or not for us
		c.off = true
		return false
	}
	c.r = r
	var idle *time.Timer
	idle = time.AfterFunc(held, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.idle == idle {
			c.closeReader()
		}
	})
	c.idle = idle
	return true
}

func (c *Cache) closeReader() {
	if c.r == nil {
		return
	}
	c.idle.Stop()
	c.r.close()
	c.r, c.idle = nil, nil
}

// discard removes a damaged file. What is remembered from now on makes a new one.
func (c *Cache) discard() {
	c.rebuilt.Add(1)
	if c.r != nil {
		if c.idle != nil {
			c.idle.Stop()
		}
		c.r.drop()
		c.r, c.idle = nil, nil
	}
	os.Remove(c.path)
	c.off = true
}

// flush writes what waits. The caller holds c.mu.
func (c *Cache) flush(ctx context.Context) {
	if len(c.pending) == 0 {
		return
	}
	c.closeReader()
	c.off = false
	c.openReader(ctx, toCheck)
	c.closeReader()
	if c.write(ctx) {
		c.write(ctx) // into a new file
	}
	clear(c.pending)
	c.size, c.off = 0, false
}

// write reports whether it found the file damaged, and removed it.
func (c *Cache) write(ctx context.Context) bool {
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return false
	}
	f, err := c.openFile(ctx, toWrite)
	if err == nil {
		err = guarded(func() error { return f.put(c.pending) })
	}
	if err == nil && f.tooBig(c.limit) {
		err = guarded(func() error { return f.shrink(c.path, c.limit/2) })
	}
	if errors.Is(err, errDamaged) {
		c.r = f
		c.discard()
		return true
	}
	if f != nil {
		f.close()
	}
	return false
}

// openFile waits for the lock. Of several processes that wait none is preferred.
func (c *Cache) openFile(ctx context.Context, m cacheMode) (*cacheFile, error) {
	deadline := time.Now().Add(c.wait)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		f, err := openCacheFile(c.path, m)
		if !errors.Is(err, berrors.ErrTimeout) {
			return f, err
		}
		if time.Now().After(deadline) {
			c.busy.Add(1)
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// sortedKeys returns the keys in the order in which bbolt writes them fastest.
func sortedKeys(m map[string][]byte) []string { return slices.Sorted(maps.Keys(m)) }
