package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/cas/osfile"
)

// A DamagedError says that a journal can't be continued: what it said isn't there any more. It never counts as
// empty.
type DamagedError struct {
	Path   string
	Offset int64
	Reason string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the journal %q is damaged at byte %d: %s", e.Path, e.Offset, e.Reason)
}

// A Disk changes files. Its Hook, which only tests set, sees each change before it happens, and may fail it,
// and each look at whether others get on.
type Disk struct {
	Hook func(op, path string, b []byte) error
}

func (d *Disk) do(op, path string, b []byte) error {
	if d.Hook == nil {
		return nil
	}
	return d.Hook(op, path, b)
}

// Create makes a file that isn't there.
func (d *Disk) Create(path string) (*os.File, error) {
	if err := d.do("create", path, nil); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// Write writes b at an offset. If it can't, nothing of it is left there, or the error is a *CutError.
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

// A CutError says that a line may be left half written, so that nothing can follow it.
type CutError struct{ Err error }

func (e *CutError) Error() string { return e.Err.Error() }

// Unwrap returns what happened.
func (e *CutError) Unwrap() error { return e.Err }

// Cut takes away what is behind an offset.
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

// Sync makes a file's bytes durable.
func (d *Disk) Sync(f *os.File) error {
	if err := d.do("sync", f.Name(), nil); err != nil {
		return err
	}
	return f.Sync()
}

// SyncDirectory makes the names in a directory durable.
func (d *Disk) SyncDirectory(dir string) error {
	if err := d.do("syncdir", dir, nil); err != nil {
		return err
	}
	return osfile.SyncDirectory(dir)
}

// MakeDirectory makes a directory and its parents, so that they last.
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
