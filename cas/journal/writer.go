package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/cas/osfile"
)

// A Hook, which only tests set, is called before each change to a file and before each check whether other processes
// make progress. An error from it fails the operation.
type Hook func(op, path string, b []byte) error

func (h Hook) do(op, path string, b []byte) error {
	if h == nil {
		return nil
	}
	return h(op, path, b)
}

// MakeDirectory creates a directory and its parents durably.
func (h Hook) MakeDirectory(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := h.MakeDirectory(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := h.do("mkdir", dir, nil); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return h.syncDirectory(filepath.Dir(dir))
}

func (h Hook) syncDirectory(dir string) error {
	if err := h.do("syncdir", dir, nil); err != nil {
		return err
	}
	return osfile.SyncDirectory(dir)
}

// A Writer appends to a journal that has no other writer. Its caller closes it. It is not safe for concurrent use,
// apart from Sync.
type Writer struct {
	f    *os.File
	size int64
	hook *Hook // tests set it at any time
}

// Create creates a journal with a first line and makes its name durable. It fails if the file exists.
func (h *Hook) Create(path string, first []byte) (*Writer, error) {
	if err := h.MakeDirectory(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := h.do("create", path, nil); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	w := &Writer{f: f, hook: h}
	if err = w.Append(first); err == nil {
		err = h.syncDirectory(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return w, nil
}

// Claim locks the file until it is closed, if the system can, so that other processes see that it is in use. The
// lock prevents neither reads nor writes.
func (w *Writer) Claim() { osfile.TryLock(w.f, osfile.Exclusive) }

// Append adds whole lines, which Sync makes durable. After an error none of them is in the file; if that can't be
// ensured, the error is a *CutError.
func (w *Writer) Append(lines []byte) error {
	err := w.hook.do("write", w.f.Name(), lines)
	if err == nil {
		_, err = w.f.WriteAt(lines, w.size)
	}
	if err != nil {
		return errors.Join(err, w.cut())
	}
	w.size += int64(len(lines))
	return nil
}

// A CutError means that a half-written line may remain, so that nothing can be appended.
type CutError struct{ Err error }

func (e *CutError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *CutError) Unwrap() error { return e.Err }

// cut removes everything behind the good lines.
func (w *Writer) cut() error {
	err := w.hook.do("truncate", w.f.Name(), nil)
	if err == nil {
		err = w.f.Truncate(w.size)
	}
	if err != nil {
		return &CutError{err}
	}
	return nil
}

// Sync makes the lines durable. After an error, the lines added since the last Sync may or may not be durable.
func (w *Writer) Sync() error {
	if err := w.hook.do("sync", w.f.Name(), nil); err != nil {
		return err
	}
	return w.f.Sync()
}

// Close closes the file without syncing it.
func (w *Writer) Close() error { return w.f.Close() }
