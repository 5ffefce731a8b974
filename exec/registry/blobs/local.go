package blobs

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/cas/osfile"
)

// Local keeps files in a directory of this machine.
type Local struct {
	in      osfile.In
	dir     string
	durable sync.Map // names of directories whose own names this process has made durable
}

// OpenLocal opens the files in a directory, and creates the directory if it is missing. The caller closes the store;
// hook is for tests.
func OpenLocal(dir string, hook osfile.Hook) (*Local, error) {
	watched := journal.Hook(func(op, path string, _ []byte) error { return hook.Do(op, path) })
	if err := watched.MakeDirectory(dir); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	l := &Local{in: osfile.In{Root: root, Hook: hook}, dir: dir}
	l.in.Sweep(".", time.Now())
	return l, nil
}

// Close closes the store. Files that are open stay open.
func (l *Local) Close() error { return l.in.Root.Close() }

// Create implements Store.
func (l *Local) Create(ctx context.Context, name string, r io.Reader, size int64) error {
	if err := Check(name); err != nil {
		return err
	}
	if err := CheckSize(name, size, MaxSize); err != nil {
		return err
	}
	// An early answer, before r is read.
	if _, err := l.in.Root.Lstat(name); err == nil {
		return l.exists(name)
	}
	return l.write(ctx, name, true, Exactly(ctx, name, r, size))
}

// Replace implements Store.
func (l *Local) Replace(ctx context.Context, name string, b []byte) error {
	if err := Check(name); err != nil {
		return err
	}
	if err := CheckSize(name, int64(len(b)), MaxReplace); err != nil {
		return err
	}
	return l.write(ctx, name, false, Exactly(ctx, name, bytes.NewReader(b), int64(len(b))))
}

// write stores a file.
func (l *Local) write(ctx context.Context, name string, exclusive bool, r io.Reader) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	part := osfile.Unfinished + rand.Text()
	err := l.in.Create(part, 0o600, func(f *os.File) error {
		_, err := io.Copy(f, r)
		if err == nil {
			now := time.Now()
			err = l.in.Root.Chtimes(part, now, now)
		}
		return err
	})
	if err == nil {
		err = l.makeDirectory(path.Dir(name))
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = l.in.Place(part, name, exclusive)
	}
	if err != nil {
		l.in.Root.Remove(part)
		return l.about(name, err)
	}
	return l.in.SyncDirectory(path.Dir(name))
}

// about returns the error for a file that can't be placed.
func (l *Local) about(name string, err error) error {
	if fi, bad := l.in.Root.Lstat(name); bad == nil && fi.IsDir() {
		return l.inTheWay(name, "a directory of other files has this name")
	}
	if errors.Is(err, fs.ErrExist) {
		return l.exists(name)
	}
	return err
}

// exists returns an *ExistsError. The process that has created the file may not have made its name durable yet.
func (l *Local) exists(name string) error {
	if fi, err := l.in.Root.Lstat(name); err == nil && fi.IsDir() {
		return l.inTheWay(name, "a directory of other files has this name")
	}
	if err := l.in.SyncDirectory(path.Dir(name)); err != nil {
		return err
	}
	return &ExistsError{name}
}

// inTheWay returns the error for a name that another one makes impossible.
func (l *Local) inTheWay(name, why string) error {
	at := filepath.Join(l.dir, filepath.FromSlash(name))
	return fault.New(fault.Conflict, "can't store %q: %s", name, why).On("name", name).On("path", at).Permanent().
		Try(fault.Command("ls -ld", at))
}

// makeDirectory creates a directory and its parents, and makes their names durable once in each process: another one
// may have created them without having synced them yet.
func (l *Local) makeDirectory(name string) error {
	if name == "." {
		return nil
	}
	if _, done := l.durable.Load(name); done {
		return nil
	}
	if err := l.makeDirectory(path.Dir(name)); err != nil {
		return err
	}
	if err := l.in.Hook.Do("mkdir", name); err != nil {
		return err
	}
	if err := l.in.Root.Mkdir(name, 0o700); errors.Is(err, fs.ErrExist) {
		if fi, err := l.in.Root.Lstat(name); err == nil && !fi.IsDir() {
			return l.inTheWay(name, "a file has the name of the directory")
		}
	} else if err != nil {
		return err
	}
	if err := l.in.SyncDirectory(path.Dir(name)); err != nil {
		return err
	}
	l.durable.Store(name, true)
	return nil
}

// Open implements Store.
func (l *Local) Open(ctx context.Context, name string) (*File, error) {
	if err := Check(name); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	f, err := l.in.Root.OpenFile(name, os.O_RDONLY|osfile.Nonblock, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, osfile.NotDirectory) {
		return nil, Missing(name)
	}
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = Missing(name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{f, info(name, fi)}, nil
}

func info(name string, fi fs.FileInfo) Info {
	return Info{Name: name, Size: fi.Size(), Modified: fi.ModTime(),
		ETag: fmt.Sprintf("%x-%x", fi.ModTime().UnixNano(), fi.Size())}
}

// Remove implements Store. It leaves empty directories: another process may be about to store a file there.
func (l *Local) Remove(ctx context.Context, name string) error {
	if err := Check(name); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	fi, err := l.in.Root.Lstat(name)
	if err == nil && fi.IsDir() {
		return nil
	}
	if err == nil {
		err = l.in.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, osfile.NotDirectory) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.in.SyncDirectory(path.Dir(name))
}

// List implements Store.
func (l *Local) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		err := CheckPrefix(prefix)
		if err == nil {
			dir := "."
			if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
				dir = prefix[:i]
			}
			err = l.walk(ctx, dir, prefix, yield)
		}
		if err != nil && err != errStop {
			yield(Info{}, err)
		}
	}
}

// errStop ends a walk.
var errStop = errors.New("the caller wants no more files")

// walk yields the files below a directory.
func (l *Local) walk(ctx context.Context, dir, prefix string, yield func(Info, error) bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	entries, err := fs.ReadDir(l.in.Root.FS(), dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, osfile.NotDirectory) {
		return nil
	}
	if err != nil {
		return err
	}
	// In the order of whole names, a-b comes before a/b.
	key := func(e fs.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(key(a), key(b)) })
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), osfile.Unfinished):
		case e.IsDir():
			if below := name + "/"; strings.HasPrefix(below, prefix) || strings.HasPrefix(prefix, below) {
				if err := l.walk(ctx, name, prefix, yield); err != nil {
					return err
				}
			}
		case e.Type().IsRegular() && strings.HasPrefix(name, prefix):
			fi, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if !yield(info(name, fi), nil) {
				return errStop
			}
		}
	}
	return nil
}
