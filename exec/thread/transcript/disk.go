package transcript

import (
	"errors"
	"os"

	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/cas/osfile"
)

// A disk changes files. The caller ensures a single writer. Hook is called before each change.
type disk struct{ Hook journal.Hook }

// Do calls the hook, if any.
func (d disk) Do(op, path string, b []byte) error {
	if d.Hook == nil {
		return nil
	}
	return d.Hook(op, path, b)
}

// Write writes b at the end of a file. If it fails, it cuts off the written part, and returns a *journal.CutError
// if it can't.
func (d disk) Write(f *os.File, b []byte, end int64) error {
	err := d.Do("write", f.Name(), b)
	if err == nil {
		_, err = f.WriteAt(b, end)
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, d.Cut(f, end))
}

// Cut truncates a file to an offset.
func (d disk) Cut(f *os.File, end int64) error {
	err := d.Do("truncate", f.Name(), nil)
	if err == nil {
		err = f.Truncate(end)
	}
	if err != nil {
		return &journal.CutError{Err: err}
	}
	return nil
}

// Sync makes written bytes durable.
func (d disk) Sync(f *os.File) error {
	if err := d.Do("sync", f.Name(), nil); err != nil {
		return err
	}
	return f.Sync()
}

// SyncDirectory makes the names in a directory durable.
func (d disk) SyncDirectory(dir string) error {
	if err := d.Do("syncdir", dir, nil); err != nil {
		return err
	}
	return osfile.SyncDirectory(dir)
}
