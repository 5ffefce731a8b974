package worktree

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// pageSize is the same on every machine, so that damage is the same.
const pageSize = 4096

// newSuffix is of the file that replaces one that was too big.
const newSuffix = ".new"

var (
	formatBucket = []byte("format")
	versionKey   = []byte("version")
	dirsBucket   = []byte("dirs")
)

// errDamaged says that a cache must be made anew.
var errDamaged = errors.New("damaged, or of another version")

// A cacheMode says what a file is opened for.
type cacheMode int

const (
	toRead  cacheMode = iota
	toCheck           // to look whether it may be written to
	toWrite
)

// A cacheFile is an open bbolt file.
type cacheFile struct {
	file *os.File // that of db
	db   *bolt.DB
	tx   *bolt.Tx     // for reading; nil when open for writing
	dirs *bolt.Bucket // of tx
}

// guarded calls f and makes an error of whatever damage does to bbolt, which trusts its file: it panics, and it
// reads where nothing is mapped.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	return f()
}

// openCacheFile opens a file without waiting for its lock: it may end in ErrTimeout. With errDamaged it
// returns what must be dropped.
func openCacheFile(path string, m cacheMode) (*cacheFile, error) {
	f := new(cacheFile)
	o := &bolt.Options{
		Timeout: time.Nanosecond, ReadOnly: m != toWrite, PageSize: pageSize, NoStatistics: true,
		NoSync: true, NoGrowSync: true, FreelistType: bolt.FreelistMapType,
		// The list of free pages is kept in the file. Without it bbolt looks for them in a goroutine of its own,
		// where a panic over a damaged file can't be caught.
		NoFreelistSync: false,
		OpenFile: func(path string, flag int, mode os.FileMode) (_ *os.File, err error) {
			f.file, err = os.OpenFile(path, flag, mode)
			return f.file, err
		},
	}
	err := guarded(func() (err error) {
		if f.db, err = bolt.Open(path, 0o600, o); err != nil {
			return openError(err)
		}
		if m == toWrite {
			return nil
		}
		return f.begin(m == toCheck)
	})
	if err != nil && !errors.Is(err, errDamaged) {
		return nil, err
	}
	return f, err
}

// openError tells a file that is locked, or that the system doesn't open, from one that is no good.
func openError(err error) error {
	_, system := errors.AsType[syscall.Errno](err)
	if system || errors.Is(err, berrors.ErrTimeout) {
		return err
	}
	return fmt.Errorf("%w: %w", errDamaged, err)
}

// begin begins to read, and looks whether that is safe.
func (f *cacheFile) begin(thorough bool) (err error) {
	if f.tx, err = f.db.Begin(false); err != nil {
		return err
	}
	if err := checkPages(f.file, uint64(f.tx.Cursor().Bucket().Root()), thorough); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	format := f.tx.Bucket(formatBucket)
	f.dirs = f.tx.Bucket(dirsBucket)
	if format == nil || f.dirs == nil || string(format.Get(versionKey)) != version {
		return errDamaged
	}
	return nil
}

// close ends reading or writing.
func (f *cacheFile) close() {
	err := guarded(func() error {
		if f.tx != nil {
			if err := f.tx.Rollback(); err != nil {
				return err
			}
		}
		return f.db.Close()
	})
	if err != nil {
		f.drop()
	}
}

// drop gives up a file in which bbolt may have stopped anywhere, with its own locks held: closing the database
// might wait for ever. The file's lock goes with the descriptor, the mapping stays until the process ends.
func (f *cacheFile) drop() {
	if f.file != nil {
		f.file.Close()
	}
}

// put writes values, and the version into a new file.
func (f *cacheFile) put(values map[string][]byte) error {
	return f.db.Update(func(tx *bolt.Tx) error {
		format, err := tx.CreateBucketIfNotExists(formatBucket)
		if err != nil {
			return err
		}
		if v := format.Get(versionKey); v == nil {
			err = format.Put(versionKey, []byte(version))
		} else if string(v) != version {
			err = errDamaged
		}
		if err != nil {
			return err
		}
		dirs, err := tx.CreateBucketIfNotExists(dirsBucket)
		if err != nil {
			return err
		}
		for _, key := range sortedKeys(values) {
			if err := dirs.Put([]byte(key), values[key]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *cacheFile) tooBig(limit int64) bool {
	fi, err := f.file.Stat()
	return err == nil && fi.Size() > limit
}

// shrink puts a smaller file in the place of this one: bbolt's never shrink. It holds the values used last, as
// many as fit into limit bytes. Who has the old one open loses at most what he writes into it.
func (f *cacheFile) shrink(path string, limit int64) error {
	keep, err := f.latest(limit)
	if err != nil {
		return err
	}
	os.Remove(path + newSuffix)
	n, err := openCacheFile(path+newSuffix, toWrite)
	if err != nil {
		return err
	}
	err = f.db.View(func(tx *bolt.Tx) error {
		dirs := tx.Bucket(dirsBucket)
		values, size := make(map[string][]byte), 0
		for i, key := range keep {
			v := dirs.Get([]byte(key))
			values[key], size = v, size+len(v)
			if size < maxPending && i < len(keep)-1 {
				continue
			}
			if err := n.put(values); err != nil {
				return err
			}
			clear(values)
			size = 0
		}
		return nil
	})
	if err == nil {
		err = os.Rename(path+newSuffix, path)
	}
	n.close()
	if err != nil {
		os.Remove(path + newSuffix)
	}
	return err
}

// latest returns the keys of the values used last, as many as have limit bytes together.
func (f *cacheFile) latest(limit int64) ([]string, error) {
	type use struct {
		key  string
		day  uint32
		size int64
	}
	var uses []use
	err := f.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(dirsBucket).ForEach(func(k, v []byte) error {
			if len(v) >= valueHead {
				uses = append(uses, use{string(k), value{v}.day(), int64(len(k) + len(v))})
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(uses, func(a, b use) int { return cmp.Compare(b.day, a.day) })
	var keep []string
	for _, u := range uses {
		if limit -= u.size; limit < 0 {
			break
		}
		keep = append(keep, u.key)
	}
	return keep, nil
}
