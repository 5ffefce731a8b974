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
	maxPending = 4 << 20 // bytes of unwritten values
	maxKey     = 4 << 10 // values of longer keys aren't remembered

	// openTime is how long the file stays open, and locked, for reading.
	openTime = 250 * time.Millisecond
)

// CacheOptions are the options of OpenCache. The zero value is valid.
type CacheOptions struct {
	// Limit is the size of the file above which the least recently used values are forgotten; 64 MiB when zero.
	Limit int64
	// Wait is how long to wait for another process before continuing without the cache; 2 s when zero.
	Wait time.Duration
	// Now is the clock, used for the day; the machine's when nil.
	Now func() time.Time
}

// A Cache remembers values. No problem with its file is an error: at worst the Cache remembers nothing. It is safe
// for concurrent use, also by several processes. The caller of OpenCache closes it.
type Cache struct {
	path, format string
	o            CacheOptions

	mu      sync.Mutex
	r       *File             // open for reading, or nil
	idle    *time.Timer       // closes r, so that writers need not wait for the end of a long run
	off     bool              // the file was busy or unreadable: don't open it again
	pending map[string][]byte // unwritten values, with their days
	size    int               // of pending
	busy    int64
	rebuilt int64
}

// CacheStats describe a cache. Entries and Bytes are those of the file; the other fields count since OpenCache.
type CacheStats struct {
	Entries int64
	Bytes   int64
	Busy    int64 // how often another process held the file for too long
	Rebuilt int64 // how often the file was damaged or had another format, and was removed
}

// OpenCache returns the cache in the file at path. It opens nothing yet; the first write creates the file.
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

// Get returns a copy of the value of a key, or nil. It counts as a use.
func (c *Cache) Get(ctx context.Context, key []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.pending[string(key)]; ok {
		return slices.Clone(b[daySize:])
	}
	if !c.open(ctx) {
		return nil
	}
	var data []byte
	err := Guarded(func() error {
		if v, err := c.r.Get(key); err == nil {
			data = slices.Clone(v) // the mapping ends with the lock
		}
		return nil
	})
	if err != nil {
		c.discard()
		return nil
	}
	if len(data) < daySize {
		return nil
	}
	if today := c.today(); binary.LittleEndian.Uint32(data) != today {
		c.add(ctx, key, data[daySize:], today)
	}
	return data[daySize:]
}

// Put remembers the value of a key. It copies both.
func (c *Cache) Put(ctx context.Context, key, value []byte) {
	if len(key) == 0 || len(key) > maxKey {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(ctx, key, value, c.today())
}

// add adds a value to the unwritten ones, and writes them if they have become many. The caller holds c.mu.
func (c *Cache) add(ctx context.Context, key, value []byte, day uint32) {
	b := append(binary.LittleEndian.AppendUint32(make([]byte, 0, daySize+len(value)), day), value...)
	c.size += len(b) - len(c.pending[string(key)])
	c.pending[string(key)] = b
	if c.size > maxPending {
		c.flush(ctx)
	}
}

// Close writes the unwritten values, in one transaction, and closes the file. It gives up when ctx ends.
func (c *Cache) Close(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush(ctx)
	c.close()
}

// Flush writes the unwritten values, as Close does. Other goroutines may use the cache meanwhile; they wait for it.
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

// Stats describes the cache on disk, without unwritten values.
func (c *Cache) Stats(ctx context.Context) CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	var cacheStats CacheStats
	if fi, err := os.Stat(c.path); err == nil {
		cacheStats.Bytes = fi.Size()
	}
	if c.open(ctx) {
		err := Guarded(func() error {
			return c.r.b.ForEach(func(_, _ []byte) error { cacheStats.Entries++; return nil })
		})
		if err != nil {
			c.discard()
			cacheStats.Entries = 0
		}
		c.close()
	}
	cacheStats.Busy, cacheStats.Rebuilt = c.busy, c.rebuilt
	return cacheStats
}

// open opens the file for reading, unless it is open already, and reports whether it is open now. The caller holds
// c.mu.
func (c *Cache) open(ctx context.Context) bool {
	if c.r != nil || c.off {
		return c.r != nil
	}
	r, err := Open(ctx, c.path, c.format, c.o.Wait)
	if err != nil { // missing, empty, damaged, busy, or not readable by this user
		c.count(err)
		c.off = true
		return false
	}
	c.r = r
	var idle *time.Timer
	idle = time.AfterFunc(openTime, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.idle == idle {
			c.close()
		}
	})
	c.idle = idle
	return true
}

// count counts the reason why a file could not be used.
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

// discard removes a damaged file. The next write creates a new one.
func (c *Cache) discard() {
	c.idle.Stop()
	c.r.Discard()
	c.r, c.idle = nil, nil
	c.rebuilt++
	c.off = true
}

// forget drops the unwritten values.
func (c *Cache) forget() {
	clear(c.pending)
	c.size, c.off = 0, false
}

// flush writes the unwritten values. The caller holds c.mu.
func (c *Cache) flush(ctx context.Context) {
	if len(c.pending) == 0 {
		return
	}
	c.close()
	err := update(ctx, c.path, c.format, c.o.Wait, func(b *Batch) error {
		if b.Rebuilt() {
			c.rebuilt++
		}
		for _, key := range slices.Sorted(maps.Keys(c.pending)) { // bbolt writes sorted keys fastest
			if err := b.Put([]byte(key), c.pending[key]); err != nil {
				return err
			}
		}
		return nil
	}, c.evict)
	c.count(err)
	c.forget()
}

// evict replaces a file above the limit by one of at most half the limit.
func (c *Cache) evict(f *File) error {
	fi, err := f.file.Stat()
	if err != nil || fi.Size() <= c.o.Limit {
		return nil
	}
	latest, err := f.latest(c.o.Limit / 2)
	if err != nil {
		return err
	}
	return f.rewrite(func(key []byte) bool { return latest[string(key)] })
}

// latest returns the keys of the most recently used values, which have at most limit bytes together.
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
	keys := make(map[string]bool)
	for _, u := range uses {
		if limit -= u.size; limit < 0 {
			break
		}
		keys[u.key] = true
	}
	return keys, err
}
