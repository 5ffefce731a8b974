package osfile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// A Hook sees each step of writing a file, "create", "write", "sync", "name" or "syncdir", before it happens. An error
// stops the write there: tests inject faults this way. A nil Hook does nothing.
type Hook func(op, path string) error

// Do calls h unless it is nil.
func (h Hook) Do(op, path string) error {
	if h == nil {
		return nil
	}
	return h(op, path)
}

// WriteFile creates or replaces a file, atomically and durably: a reader, or a crash, sees the old file or the new
// one. With exclusive, an existing file is fs.ErrExist. If path is a symbolic link, WriteFile replaces its target.
func WriteFile(path string, mode fs.FileMode, exclusive bool, write func(io.Writer) error) error {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	return Hook(nil).WriteFile(path, mode, exclusive, write)
}

// WriteFile is the function WriteFile, watched by h, for rye's own directories: it replaces a symbolic link itself.
func (h Hook) WriteFile(path string, mode fs.FileMode, exclusive bool, write func(io.Writer) error) error {
	if err := h.Do("create", path); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), Unfinished+"*")
	if bad, ok := errors.AsType[*fs.PathError](err); ok {
		bad.Path = path // the name that the caller knows
	}
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if err = h.Do("write", file.Name()); err == nil {
		err = write(file)
	}
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = h.Do("sync", file.Name())
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = h.Do("name", path)
	}
	if err != nil {
		return err
	}
	if exclusive {
		err = os.Link(file.Name(), path) // a link never replaces a file
	} else {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return err
	}
	return h.SyncDirectory(filepath.Dir(path))
}

// SyncDirectory is the function SyncDirectory, watched by h.
func (h Hook) SyncDirectory(path string) error {
	if err := h.Do("syncdir", path); err != nil {
		return err
	}
	return SyncDirectory(path)
}

// Sweep recognises the unfinished files of dead processes by a prefix of the name, which no tree accepts, and by their
// age.
const (
	Unfinished    = ".rye-tmp-write-"
	UnfinishedAge = time.Hour
)

// Sweep removes the unfinished files and the sites of dead processes from a small directory of rye's own. It
// ignores errors: the next Sweep tries again.
func Sweep(dir string, now time.Time) {
	if root, err := os.OpenRoot(dir); err == nil {
		defer root.Close()
		In{Root: root}.Sweep(".", now)
	}
}

// tempAge is the age at which the process of a TempDir directory has surely ended.
const tempAge = 24 * time.Hour

// TempDir creates a private temporary directory, and removes those of the same name that dead processes of this user
// have left.
func TempDir(name string) (string, error) {
	name = Unfinished + name + "-*"
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), name))
	for _, dir := range left {
		if fi, err := os.Lstat(dir); err == nil && time.Since(fi.ModTime()) > tempAge && CheckPrivateDir(dir) == nil {
			_ = os.RemoveAll(dir)
		}
	}
	dir, err := os.MkdirTemp("", name)
	if errors.Is(err, fs.ErrNotExist) {
		err = fault.New(fault.Config, "no directory for temporary files: %q does not exist", os.TempDir()).From(err)
	}
	return dir, err
}

// BytesOf returns a function that writes b.
func BytesOf(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// OpenRegular opens a regular file for reading; the caller closes it. It refuses devices and pipes, because reading
// them may block or never end.
func OpenRegular(path string) (*os.File, error) {
	// The check is on the open file, which no process can replace. Without O_NONBLOCK, a pipe would wait for a
	// writer.
	file, err := os.OpenFile(path, os.O_RDONLY|Nonblock, 0)
	if err != nil {
		return nil, err
	}
	fi, err := file.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fault.New(fault.Files, "%q is not a regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// ErrLarge is the error for a file above the size limit.
var ErrLarge = errors.New("too large")

// ReadSmall reads a regular file of at most so many bytes.
func ReadSmall(path string, most int64) ([]byte, error) {
	b, regular, err := readSmall(path, most)
	switch {
	case err == ErrLarge || err == nil && int64(len(b)) > most:
		return nil, fault.New(fault.Limit, "%q has more than %d bytes", path, most)
	case err == nil && !regular:
		return nil, fault.New(fault.Files, "%q is not a regular file", path)
	}
	return b, err
}

// ReadIfThere reads a small file as ReadSmall does; a missing file is fs.ErrNotExist. A symbolic link without a
// target is a different error, because the user expects a file there.
func ReadIfThere(what, path string, most int64) ([]byte, error) {
	b, err := ReadSmall(path, most)
	if !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	fi, gone := os.Lstat(path)
	if gone != nil {
		return nil, err
	}
	if fi.Mode()&fs.ModeSymlink == 0 {
		return ReadSmall(path, most) // another process has just created it
	}
	if _, terr := os.Stat(path); errors.Is(terr, fs.ErrNotExist) {
		return nil, fault.New(fault.Config, "%s %q is a symbolic link that leads nowhere", what, path).On("path",
			path).Try(fault.Command("ls -l", path))
	}
	return ReadSmall(path, most)
}

// LockWait bounds how long one process waits for another.
const LockWait = 30 * time.Second

// LockFile locks the file at path, and creates it if it is missing. The lock ends when the caller calls unlock, or
// with the process.
func LockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := OpenLocked(ctx, path, Exclusive, LockWait)
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// BytesIn returns the size of the files in a directory. It skips unreadable ones.
func BytesIn(dir string) (n int64) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}
