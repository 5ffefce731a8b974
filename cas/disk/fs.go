package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rye-build/rye/cas/osfile"
)

// An Op is a change that the store is about to make to its files. Options.Hook sees each Op first and may fail it:
// tests inject full disks, dead processes and lost writes there.
type Op struct {
	Name string // create, write, sync, rename, syncdir, remove, mkdir
	Path string
	To   string // of a rename
	Off  int64  // of a write
	Data []byte // of a write; valid during the call
}

// files makes every change of this package on disk.
type files struct {
	hook func(Op) error // nil outside tests
	lazy bool           // skip syncs after hook has seen them, for tests that would be slow otherwise
}

func (s files) do(op Op) error {
	if s.hook == nil {
		return nil
	}
	if err := s.hook(op); err != nil {
		return &fs.PathError{Op: op.Name, Path: op.Path, Err: err}
	}
	return nil
}

// errNotRegular is the error for a directory, a link or a pipe in the place of a file.
var errNotRegular = fmt.Errorf("%w: it is not a regular file", ErrFormat)

func irregular(path string) error { return &fs.PathError{Op: "open", Path: path, Err: errNotRegular} }

// openRegular opens a regular file for reading, and returns its length.
func openRegular(path string) (*os.File, int64, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|osfile.NoFollow|osfile.Nonblock, 0)
	if errors.Is(err, syscall.ELOOP) {
		err = irregular(path)
	}
	if err != nil {
		return nil, 0, err
	}
	fi, err := file.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = irregular(path)
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, fi.Size(), nil
}

// readFile returns the bytes of a regular file, up to most bytes.
func readFile(path string, most int64) ([]byte, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > most {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: it is too long", ErrFormat)}
	}
	b := make([]byte, size)
	n, err := io.ReadFull(f, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil // truncated during the read; the content shows it
	}
	return b[:n], err
}

// A file is open for writing.
type file struct {
	*os.File
	fs files
}

// create creates a new file; an existing file is an error.
func (s files) create(path string) (*file, error) {
	if err := s.do(Op{Name: "create", Path: path}); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &file{f, s}, nil
}

func (f *file) writeAt(b []byte, off int64) error {
	if err := f.fs.do(Op{Name: "write", Path: f.Name(), Off: off, Data: b}); err != nil {
		return err
	}
	_, err := f.WriteAt(b, off)
	return err
}

// sync makes the file's bytes durable.
func (f *file) sync() error {
	if err := f.fs.do(Op{Name: "sync", Path: f.Name()}); err != nil {
		return err
	}
	if f.fs.lazy {
		return nil
	}
	return syncData(f.File)
}

func (s files) rename(from, to string) error {
	if err := s.do(Op{Name: "rename", Path: from, To: to}); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// syncDir makes the names in a directory durable.
func (s files) syncDir(path string) error {
	if err := s.do(Op{Name: "syncdir", Path: path}); err != nil {
		return err
	}
	if s.lazy {
		return nil
	}
	return osfile.SyncDirectory(path)
}

// remove removes a file; a missing file is no error.
func (s files) remove(path string) error {
	if err := s.do(Op{Name: "remove", Path: path}); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// mkdir makes a directory and its parents.
func (s files) mkdir(path string) error {
	if err := s.do(Op{Name: "mkdir", Path: path}); err != nil {
		return err
	}
	return os.MkdirAll(path, 0o700)
}

// writeFile replaces path by b, atomically and durably. The bytes go through the file tmp, which must be on the same
// file system.
func (s files) writeFile(path, tmp string, b []byte) error {
	f, err := s.create(tmp)
	if err != nil {
		return err
	}
	err = f.writeAt(b, 0)
	if err == nil {
		err = f.sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = s.rename(tmp, path)
	}
	if err != nil {
		s.remove(tmp) // the first error matters
		return err
	}
	return s.syncDir(filepath.Dir(path))
}
