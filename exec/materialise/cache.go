package materialise

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rye-build/rye/cas/osfile"
)

// The directories of a cache.
const (
	leases  = "leases"
	copies  = "copies"
	making  = "making"
	scratch = "scratch"
)

// maxWait bounds the wait for a lock.
const maxWait = 30 * time.Second

// A Cache is a directory of copies. Many goroutines may use it, and many processes its directory.
type Cache struct {
	dir  string
	wait time.Duration // limit on waiting for a lock

	making Keys
}

// Open opens the cache in a directory of this user, which it creates if necessary.
func Open(dir string) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	// Interpreters use the real paths of files.
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = os.Lstat(real)
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() || osfile.OwnedByOther(info) {
		return nil, &fs.PathError{Op: "open", Path: real, Err: errors.New("is not a directory of this user")}
	}
	if err := os.Chmod(real, 0o700); err != nil {
		return nil, err
	}
	for _, sub := range []string{leases, copies, making, scratch} {
		if err := os.Mkdir(filepath.Join(real, sub), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return &Cache{dir: real, wait: maxWait}, nil
}

func (c *Cache) at(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

// locked opens and locks a file. Closing the file releases the lock.
func (c *Cache) locked(ctx context.Context, path string, how osfile.Mode) (*os.File, error) {
	return osfile.OpenLocked(ctx, path, how, c.wait)
}

// lease takes a shared lock on a key. Nothing of the key is removed while the lock is held.
func (c *Cache) lease(ctx context.Context, key string) (*os.File, error) {
	// Leases are removed only under this lock. Otherwise the opened file might already have been removed.
	root, err := c.locked(ctx, c.at("lock"), osfile.Shared)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := c.locked(ctx, c.at(leases, key), osfile.Shared)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if err := os.Chtimes(f.Name(), now, now); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// A Scratch is the writable directory of one run.
type Scratch struct {
	Dir        string // contains Home and Temp
	Home, Temp string

	c     *Cache
	key   string
	lease *os.File
}

// Scratch creates two empty directories for one run.
func (c *Cache) Scratch(ctx context.Context) (*Scratch, error) {
	key := newKey()
	lease, err := c.lease(ctx, key)
	if err != nil {
		return nil, err
	}
	dir := c.at(scratch, key)
	s := &Scratch{Dir: dir, Home: filepath.Join(dir, "home"), Temp: filepath.Join(dir, "tmp"), c: c, key: key,
		lease: lease}
	for _, d := range []string{s.Dir, s.Home, s.Temp} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Close removes the directories. The run must have ended completely.
func (s *Scratch) Close() error {
	err := s.remove()
	if err == nil {
		err = os.Remove(s.c.at(leases, s.key))
	}
	return errors.Join(err, s.lease.Close())
}

// remove removes the directories. Most runs leave nothing in them, and then three system calls suffice instead of
// twenty.
func (s *Scratch) remove() error {
	for _, dir := range []string{s.Home, s.Temp, s.Dir} {
		if syscall.Rmdir(dir) != nil {
			return removeAll(s.Dir)
		}
	}
	return nil
}

// removeAll removes a directory, even if directories in it have restrictive modes.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	// Make the directories accessible. WalkDir doesn't follow links.
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		if err != nil {
			return fs.SkipDir
		}
		return nil
	})
	return os.RemoveAll(dir)
}
