package journal

import (
	"errors"

	"io/fs"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
)

// damaged returns the error for a journal that can't be continued because lines of it are lost. A lost journal never
// counts as an empty one.
func damaged(path string, offset int64, reason string) error {
	return fault.New(fault.Integrity, "corrupt journal %q at byte %d: %s", path, offset, reason).On("reason", "audit-log").On("path", path).
		Because("rye doesn't append to a damaged journal: keep a copy, then move its directory away").Try("rye audit verify")
}

// A Disk changes files. Its Hook, which only tests set, is called before each change and before each check whether
// other processes make progress; an error from it fails the operation.
type Disk struct {
	Hook func(op, path string, b []byte) error
}

func (d *Disk) do(op, path string, b []byte) error {
	if d.Hook == nil {
		return nil
	}
	return d.Hook(op, path, b)
}

// Create creates a new file and fails if it exists.
func (d *Disk) Create(path string) (*os.File, error) {
	if err := d.do("create", path, nil); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// Write writes b at an offset. If that fails it removes what was written; if that fails too the error is a *CutError.
func (d *Disk) Write(f *os.File, b []byte, off int64) error {
	err := d.do("write", f.Name(), b)
	if err == nil {
		_, err = f.WriteAt(b, off)
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, d.Cut(f, off))
}

// A CutError says that a half-written line may remain, so that nothing can be appended.
type CutError struct{ Err error }

func (e *CutError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *CutError) Unwrap() error { return e.Err }

// Cut truncates a file at an offset.
func (d *Disk) Cut(f *os.File, off int64) error {
	err := d.do("truncate", f.Name(), nil)
	if err == nil {
		err = f.Truncate(off)
	}
	if err != nil {
		return &CutError{err}
	}
	return nil
}

// Sync flushes a file to disk.
func (d *Disk) Sync(f *os.File) error {
	if err := d.do("sync", f.Name(), nil); err != nil {
		return err
	}
	return f.Sync()
}

// SyncDirectory flushes a directory's entries to disk.
func (d *Disk) SyncDirectory(dir string) error {
	if err := d.do("syncdir", dir, nil); err != nil {
		return err
	}
	return osfile.SyncDirectory(dir)
}

// MakeDirectory creates a directory and its parents durably.
func (d *Disk) MakeDirectory(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := d.MakeDirectory(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := d.do("mkdir", dir, nil); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.SyncDirectory(filepath.Dir(dir))
}
