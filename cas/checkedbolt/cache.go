package checkedbolt

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
)

const (
	daySize    = 4
	maxPending = 4 << 20 // bytes of values that wait to be written
	maxKey     = 4 << 10 // values of longer keys aren't remembered

	// held is how long the file is kept open, and locked, for reading.
	held = 250 * time.Millisecond
)

// CacheOptions say how a cache is kept. The zero CacheOptions are good.
type CacheOptions struct {
	// Limit is the size of the file beyond which the values that were not used for longest are forgotten; 64 MiB
	// when zero.
	Limit int64
	// Wait is how long to wait for another process before going on without the cache; 2 s when zero.
	Wait time.Duration
	// Now is the clock, which tells the day; the machine's when nil.
	Now func() time.Time
}

// A Cache remembers values. Nothing that befalls its file is an error: at worst nothing is remembered. It is safe
// for concurrent use, by several processes, too.
type Cache struct {
	path, format string
	o            CacheOptions

	mu      sync.Mutex
	r       *File             // open for reading, or nil
	idle    *time.Timer       // closes r, so that writers need not wait for the end of a long run
	off     bool              // it was busy, or can't be read: don't ask again
	pending map[string][]byte // values to be written, with their days
	size    int               // of pending
	busy    int64
	rebuilt int64
}

// CacheStats tell about a cache. Entries and Bytes are those of the file, the rest counts since it was opened.
type CacheStats struct {
	Entries int64
	Bytes   int64
	Busy    int64 // how often another process kept the file for too long
	Rebuilt int64 // how often the file was damaged, or of another format, and removed
}

// OpenCache returns the cache in the file path, which is made when there is something to write. It opens nothing
// yet.
func OpenCache(path, format string, o CacheOptions) *Cache {
	if o.Limit <= 0 {
		o.Limit = 64 << 20
	}
	if o.Wait <= 0 {
		o.Wait = 2 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Cache{path: path, format: format, o: o, pending: make(map[string][]byte)}
}

func (c *Cache) today() uint32 { return uint32(c.o.Now().Unix() / (24 * 60 * 60)) }

// Get returns a copy of what is remembered of a key, or nil. It counts as a use.
func (c *Cache) Get(ctx context.Context, key []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.pending[string(key)]; ok {
		return slices.Clone(b[daySize:])
	}
	if !c.open(ctx) {
		return nil
	}
	var b []byte
	err := Guarded(func() error {
		if v, err := c.r.Get(key); err == nil {
			b = slices.Clone(v) // the file is mapped only as long as the lock is held
		}
		return nil
	})
	if err != nil {
		c.discard()
		return nil
	}
	if len(b) < daySize {
		return nil
	}
	if today := c.today(); binary.LittleEndian.Uint32(b) != today {
		c.add(ctx, key, b[daySize:], today)
	}
	return b[daySize:]
}

// Put remembers the value of a key. It keeps neither.
func (c *Cache) Put(ctx context.Context, key, value []byte) {
	if len(key) == 0 || len(key) > maxKey {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(ctx, key, value, c.today())
}

// add has a value wait to be written. The caller holds c.mu.
func (c *Cache) add(ctx context.Context, key, value []byte, day uint32) {
	b := append(binary.LittleEndian.AppendUint32(make([]byte, 0, daySize+len(value)), day), value...)
	c.size += len(b) - len(c.pending[string(key)])
	c.pending[string(key)] = b
	if c.size > maxPending {
		c.flush(ctx)
	}
}

// Close writes what is new, in one transaction, and closes the file. When ctx ends it gives up.
func (c *Cache) Close(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush(ctx)
	c.close()
}

// Flush writes what is new, as Close does, and may be called while others use the cache, who wait for it.
func (c *Cache) Flush(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush(ctx)
}

// Clear forgets everything.
func (c *Cache) Clear() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close()
	c.forget()
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
	var s CacheStats
	if fi, err := os.Stat(c.path); err == nil {
		s.Bytes = fi.Size()
	}
	if c.open(ctx) {
		err := Guarded(func() error {
			return c.r.b.ForEach(func(_, _ []byte) error { s.Entries++; return nil })
		})
		if err != nil {
			c.discard()
			s.Entries = 0
		}
		c.close()
	}
	s.Busy, s.Rebuilt = c.busy, c.rebuilt
	return s
}

// open opens the file for reading unless it is open, and reports whether it is. The caller holds c.mu.
func (c *Cache) open(ctx context.Context) bool {
	if c.r != nil || c.off {
		return c.r != nil
	}
	r, err := Open(ctx, c.path, c.format, c.o.Wait)
	if err != nil { // nothing there, or not yet; damaged; busy; or not for us
		c.count(err)
		c.off = true
		return false
	}
	c.r = r
	var idle *time.Timer
	idle = time.AfterFunc(held, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.idle == idle {
			c.close()
		}
	})
	c.idle = idle
	return true
}

// count notes why a file could not be used.
func (c *Cache) count(err error) {
	switch {
	case errors.Is(err, ErrBusy):
		c.busy++
	case errors.Is(err, ErrDamaged):
		c.rebuilt++
	}
}

func (c *Cache) close() {
	if c.r != nil {
		c.idle.Stop()
		c.r.Close()
		c.r, c.idle = nil, nil
	}
}

// discard removes a damaged file. What is remembered from now on makes a new one.
func (c *Cache) discard() {
	c.idle.Stop()
	c.r.Discard()
	c.r, c.idle = nil, nil
	c.rebuilt++
	c.off = true
}

// forget drops what waits.
func (c *Cache) forget() {
	clear(c.pending)
	c.size, c.off = 0, false
}

// flush writes what waits. The caller holds c.mu.
func (c *Cache) flush(ctx context.Context) {
	if len(c.pending) == 0 {
		return
	}
	c.close()
	err := update(ctx, c.path, c.format, c.o.Wait, func(b *Batch) error {
		if b.Rebuilt() {
			c.rebuilt++
		}
		for _, key := range slices.Sorted(maps.Keys(c.pending)) { // in which order bbolt writes them fastest
			if err := b.Put([]byte(key), c.pending[key]); err != nil {
				return err
			}
		}
		return nil
	}, c.evict)
	c.count(err)
	c.forget()
}

// evict makes a file that is too large one of at most half the limit.
func (c *Cache) evict(f *File) error {
	fi, err := f.file.Stat()
	if err != nil || fi.Size() <= c.o.Limit {
		return nil
	}
	keep, err := f.latest(c.o.Limit / 2)
	if err != nil {
		return err
	}
	return f.rewrite(func(key []byte) bool { return keep[string(key)] })
}

// latest returns the keys of the values used last, as many as have limit bytes together.
func (f *File) latest(limit int64) (map[string]bool, error) {
	type use struct {
		key  string
		day  uint32
		size int64
	}
	var uses []use
	err := f.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte(f.format)).ForEach(func(k, v []byte) error {
			if b, err := f.unseal(k, v); err == nil && len(b) >= daySize {
				uses = append(uses, use{string(k), binary.LittleEndian.Uint32(b), int64(len(k) + len(v))})
			}
			return nil
		})
	})
	slices.SortStableFunc(uses, func(a, b use) int { return cmp.Compare(b.day, a.day) })
	keep := make(map[string]bool)
	for _, u := range uses {
		if limit -= u.size; limit < 0 {
			break
		}
		keep[u.key] = true
	}
	return keep, err
}
