// Package checkedbolt stores rebuildable data in one bbolt file and detects each damaged, torn or foreign value.
//
// The file has one bucket, named after its format. Each value is
//
//	sum   = the first 16 bytes of the BLAKE3 hash of the bucket and the key, each with its length before it (4
//	        bytes, little-endian), and the rest of the value
//	rest  = the value that was put
//
// so that a value of another key, of another format or with a flipped bit is rejected. A file without the bucket
// has another format, and is removed like a damaged one. The sums don't prove that the pages form a tree, and bbolt
// trusts its file: it would follow a cycle of pages until the stack overflows. So opening the file checks every
// page, and any panic within Guarded counts as damage. Opening it for writing also checks the order of the keys and
// the list of free pages.
//
// A digest of the whole file in a second file, compared at each open, would need less code. But then a file of 60
// MB with values of 200 KiB opens in 44 ms instead of 0.8, because the check reads one page of each value, and rye
// search takes 1.05 times the CPU time with 10,000 items and 1.12 times with 100,000. A process that ends between
// the write and the digest would also cost all processes the cache.
//
// A sealed value may be outdated, because a power failure can bring back replaced pages. Values that belong
// together must show by their content that they do.
//
// Processes open the file for a short time, many for reading or one for writing. Nothing is synced.
//
// How an update goes through here: Update opens the file for reading (openThere, openNow), which checks it
// (File.begin, checkPages). It removes a damaged file (Discard) and starts again. Then open waits for the lock,
// Batch.begin starts a transaction, and the caller puts values (Batch.Put, PutAll, Flush). Finally shrink, or
// Cache.evict, replaces a file that is too large (rewrite). A read needs only Open, which does the first half, and
// File.Get, which compares the sum of each value (unseal).
//
// # Two ways to use it
//
// Open and Update are for values that belong together. A Cache is for many independent values: it waits only
// briefly for other processes, drops values rather than failing, and evicts the least recently used ones. Its
// values begin with
//
//	day (4 bytes, little-endian)   when the value was last used, in days since 1970
package checkedbolt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/rye-build/rye/cas"
)

var (
	// ErrDamaged reports content that this package can't have written.
	ErrDamaged = errors.New("damaged, or of another version")
	// ErrBusy means that another process holds a file for too long.
	ErrBusy = errors.New("another process holds the file")
)

const (
	sumSize   = 16
	newSuffix = ".new"
	// slack is how much larger than twice its content a file may be, so that small files aren't copied all the
	// time.
	slack = 4 << 20
	// portion is how much one transaction copies. All of it is in memory.
	portion = 4 << 20
	// valuesAhead is how many values PutAll reads ahead.
	valuesAhead = 32
	// mapped is how much of a file is mapped into memory when it is opened for writing. When a file outgrows its
	// mapping, bbolt maps twice the size, and copies everything that the transaction has read or changed.
	mapped = 64 << 20
)

// A File is an open file, for one goroutine. The caller of Open closes it.
type File struct {
	path   string
	format string   // also the name of the bucket
	file   *os.File // the file of db
	db     *bolt.DB
	tx     *bolt.Tx // nil if the file is open for writing
	b      *bolt.Bucket
	hash   cas.Hasher
	head   []byte // buffer of sumOf
}

// Guarded calls f, which uses open files. It returns ErrDamaged if damage makes bbolt panic or read unmapped
// memory.
func Guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
		}
	}()
	return f()
}

// Open opens the file at path, which must have the format, for reading. It waits for a writer, but at most for
// wait: then it returns ErrBusy. A missing or empty file is fs.ErrNotExist. Open removes a damaged file.
func Open(ctx context.Context, path, format string, wait time.Duration) (*File, error) {
	return openThere(ctx, path, format, toRead, wait)
}

// A mode is the purpose of opening a file.
type mode int

const (
	toRead  mode = iota
	toCheck      // to check whether it is safe to write to
	toWrite
)

// openThere opens a file that must exist and not be empty.
func openThere(ctx context.Context, path, format string, mode mode, wait time.Duration) (*File, error) {
	fi, err := os.Stat(path)
	switch {
	case err == nil && !fi.Mode().IsRegular():
		err = &os.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	case err == nil && fi.Size() == 0: // another process is creating it
		err = &os.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	return open(ctx, path, format, mode, wait)
}

// open waits for the lock and opens the file. It prefers none of several waiting processes.
func open(ctx context.Context, path, format string, m mode, wait time.Duration) (*File, error) {
	deadline := time.Now().Add(wait)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		f, err := openNow(path, format, m)
		if !errors.Is(err, ErrBusy) || time.Now().After(deadline) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func openNow(path, format string, access mode) (*File, error) {
	file := &File{path: path, format: format, hash: cas.NewHasher()}
	options := &bolt.Options{
		Timeout: time.Nanosecond, ReadOnly: access != toWrite, PageSize: pageSize, NoStatistics: true,
		NoSync: true, NoGrowSync: true, FreelistType: bolt.FreelistMapType,
		OpenFile: func(path string, flag int, mode os.FileMode) (_ *os.File, err error) {
			file.file, err = os.OpenFile(path, flag, mode)
			return file.file, err
		},
	}
	if access == toWrite && runtime.GOOS != "windows" { // Windows would extend the file to this size
		options.InitialMmapSize = mapped
	}
	err := Guarded(func() (err error) {
		if file.db, err = bolt.Open(path, 0o600, options); err != nil {
			return openError(err)
		}
		if access == toWrite { // checked before, because bbolt reads the list of free pages when it opens the file
			return nil
		}
		return file.begin(access == toCheck)
	})
	if errors.Is(err, ErrDamaged) {
		file.Discard()
	} else if err != nil && file.file != nil {
		file.file.Close()
	}
	if err != nil {
		return nil, err
	}
	return file, nil
}

// openError separates a locked file, and errors of the system, from a damaged file.
func openError(err error) error {
	_, system := errors.AsType[syscall.Errno](err)
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return ErrBusy
	case system:
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// begin starts a transaction for reading, and checks that the file is safe to read.
func (f *File) begin(write bool) (err error) {
	if f.tx, err = f.db.Begin(false); err != nil {
		return err
	}
	if err := checkPages(f.file, f.tx, write); err != nil {
		return err
	}
	err = f.tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
		if string(name) != f.format {
			return ErrDamaged
		}
		return nil
	})
	if err != nil {
		return err
	}
	if f.b = f.tx.Bucket([]byte(f.format)); f.b == nil {
		return ErrDamaged
	}
	return nil
}

// Close ends reading.
func (f *File) Close() {
	err := Guarded(func() error {
		if f.tx != nil {
			if err := f.tx.Rollback(); err != nil {
				return err
			}
		}
		return f.db.Close()
	})
	if err != nil {
		f.file.Close()
	}
}

// Discard removes a file that turned out to be damaged; the caller need not close it. bbolt may have stopped
// anywhere, with its own locks held, so closing the database might wait forever. Closing the descriptor releases
// the file's lock; the mapping stays until the process ends.
func (f *File) Discard() {
	if f.file != nil {
		f.file.Close()
		os.Remove(f.path)
	}
}

// Get returns the value of a key. A missing value is ErrDamaged, because callers only ask for keys that must exist.
// The value is valid until the file is closed. The caller calls Get within Guarded.
func (f *File) Get(key []byte) ([]byte, error) { return f.unseal(key, f.b.Get(key)) }

func (f *File) sumOf(key, value []byte) (sum [sumSize]byte) {
	f.head = append(binary.LittleEndian.AppendUint32(f.head[:0], uint32(len(f.format))), f.format...)
	f.head = append(binary.LittleEndian.AppendUint32(f.head, uint32(len(key))), key...)
	f.hash.Reset()
	f.hash.Write(f.head)
	f.hash.Write(value)
	d := f.hash.Digest()
	copy(sum[:], d[:])
	return sum
}

func (f *File) unseal(key, b []byte) ([]byte, error) {
	if len(b) < sumSize || f.sumOf(key, b[sumSize:]) != [sumSize]byte(b[:sumSize]) {
		return nil, ErrDamaged
	}
	return b[sumSize:], nil
}

// A Batch is a transaction that writes.
type Batch struct {
	f       *File
	tx      *bolt.Tx
	b       *bolt.Bucket
	unsaved int // bytes that were put and not flushed
	rebuilt bool
}

// Update calls f with a batch, and writes the batch if f returns no error. After an error of f only the values that
// f flushed are written. Update creates the file if it is missing, and waits as Open does. If a file turns out to
// be damaged, Update calls f again, for a new file. It replaces a file that has become much larger than its
// content.
func Update(ctx context.Context, path, format string, wait time.Duration, f func(*Batch) error) error {
	return update(ctx, path, format, wait, f, (*File).shrink)
}

// update is Update that calls after instead of shrink if f was successful.
func update(ctx context.Context, path, format string, wait time.Duration, f func(*Batch) error,
	after func(*File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	var b Batch
	err := b.update(ctx, path, format, wait, f, after)
	if errors.Is(err, ErrDamaged) { // and removed
		b.rebuilt = true
		err = b.update(ctx, path, format, wait, f, after)
	}
	return err
}

func (b *Batch) update(ctx context.Context, path, format string, wait time.Duration, change func(*Batch) error,
	after func(*File) error) error {
	switch file, err := openThere(ctx, path, format, toCheck, wait); {
	case err == nil:
		file.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	file, err := open(ctx, path, format, toWrite, wait)
	if err != nil {
		return err
	}
	b.f = file
	err = Guarded(func() error {
		if err := b.begin(); err != nil {
			return err
		}
		if err := change(b); err != nil {
			_ = b.tx.Rollback() // closing the file also drops the transaction
			return err
		}
		return b.tx.Commit()
	})
	if err == nil {
		err = Guarded(func() error { return after(file) })
	}
	if errors.Is(err, ErrDamaged) {
		file.Discard()
	} else {
		file.Close()
	}
	return err
}

func (b *Batch) begin() (err error) {
	if b.tx, err = b.f.db.Begin(true); err == nil {
		b.b, err = b.tx.CreateBucketIfNotExists([]byte(b.f.format))
	}
	b.unsaved = 0
	return err
}

// Flush writes the values that were put so far, if they are large: a transaction has them in memory twice. Readers
// see them, and a later error doesn't remove them.
func (b *Batch) Flush() error {
	if b.unsaved < portion {
		return nil
	}
	if err := b.tx.Commit(); err != nil {
		return err
	}
	return b.begin()
}

// Rebuilt reports whether the file replaces one that was damaged or had another format.
func (b *Batch) Rebuilt() bool { return b.rebuilt }

// Get returns the value of a key, or nil if it is missing or damaged.
func (b *Batch) Get(key []byte) []byte {
	v, err := b.f.unseal(key, b.b.Get(key))
	if err != nil {
		return nil
	}
	return v
}

// Put writes a value.
func (b *Batch) Put(key, value []byte) error {
	b.unsaved += len(value)
	sum := b.f.sumOf(key, value)
	return b.b.Put(key, append(append(make([]byte, 0, sumSize+len(value)), sum[:]...), value...))
}

// A Value is a value to put.
type Value struct {
	Key  []byte
	Size int
	Read func(to []byte) error // reads all Size bytes
}

// PutAll puts and flushes values. Another goroutine reads and hashes the next ones meanwhile.
func (b *Batch) PutAll(values iter.Seq[Value]) error {
	type sealed struct {
		key, value []byte
		err        error
	}
	ahead, over := make(chan sealed, valuesAhead), make(chan struct{})
	go func() {
		defer close(ahead)
		h := &File{format: b.f.format, hash: cas.NewHasher()}
		for v := range values {
			s := sealed{key: v.Key, value: make([]byte, sumSize+v.Size)}
			if s.err = v.Read(s.value[sumSize:]); s.err == nil {
				sum := h.sumOf(s.key, s.value[sumSize:])
				copy(s.value, sum[:])
			}
			select {
			case ahead <- s:
			case <-over:
				return
			}
		}
	}()
	defer func() {
		close(over)
		for range ahead { // until the goroutine has ended and reads nothing
		}
	}()
	for s := range ahead {
		if s.err != nil {
			return s.err
		}
		b.unsaved += len(s.value)
		if err := b.b.Put(s.key, s.value); err != nil {
			return err
		}
		if err := b.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// Clear removes everything.
func (b *Batch) Clear() (err error) {
	if err = b.tx.DeleteBucket([]byte(b.f.format)); err == nil {
		b.b, err = b.tx.CreateBucket([]byte(b.f.format))
	}
	return err
}

// Keep removes the keys for which keep returns false. keep may also return the next key to look at, if all keys
// before it stay: pages that aren't read don't become memory of this process.
func (b *Batch) Keep(keep func(key []byte) (ok bool, next []byte)) error {
	var removed [][]byte
	c := b.b.Cursor()
	for k, _ := c.First(); k != nil; {
		ok, next := keep(k)
		if !ok {
			removed = append(removed, slices.Clone(k))
		}
		if next != nil {
			k, _ = c.Seek(next)
		} else {
			k, _ = c.Next()
		}
	}
	for _, k := range removed {
		if err := b.b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// shrink replaces a file if more than half of it is unused.
func (f *File) shrink() error {
	fi, err := f.file.Stat()
	if err != nil || fi.Size() <= 2*f.size()+slack {
		return nil
	}
	return f.rewrite(func([]byte) bool { return true })
}

// rewrite replaces the file by a smaller one with the values of some keys, because bbolt's files never shrink. A
// process that has the old file open loses at most its own writes. If rewrite fails, the file stays as large as it
// is.
func (f *File) rewrite(keep func(key []byte) bool) error {
	next := f.path + newSuffix
	os.Remove(next)
	n, err := openNow(next, f.format, toWrite)
	if err != nil {
		return nil
	}
	err = f.db.View(func(from *bolt.Tx) error { return f.copy(from, n, keep) })
	if err == nil {
		err = os.Rename(next, f.path)
	}
	n.Close()
	if err != nil {
		os.Remove(next)
	}
	return nil
}

func (f *File) copy(from *bolt.Tx, n *File, keep func(key []byte) bool) error {
	c := from.Bucket([]byte(f.format)).Cursor()
	k, data := c.First()
	for more := true; more; more = k != nil {
		err := n.db.Update(func(to *bolt.Tx) error {
			b, err := to.CreateBucketIfNotExists([]byte(f.format))
			if err != nil {
				return err
			}
			b.FillPercent = 0.9 // the keys are sorted
			for size := 0; k != nil && size < portion; k, data = c.Next() {
				if !keep(k) {
					continue
				}
				if err := b.Put(k, data); err != nil {
					return err
				}
				size += len(k) + len(data)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// size returns the bytes of all keys and values. It reads the file, not the mapping, whose pages would become
// memory of this process.
func (f *File) size() (n int64) {
	_ = f.db.View(func(tx *bolt.Tx) error {
		c, err := newChecker(f.file, false)
		if err == nil {
			err = c.page(uint64(tx.Cursor().Bucket().Root()), true)
		}
		n = c.held
		return err
	})
	return n
}
