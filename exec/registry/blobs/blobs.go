// Package blobs keeps files under names: the registry's archives, indexes, checkpoints, and the tiles of its log.
//
// A name is a portable path (package portable) of at most 500 bytes. No name may be a directory of another one, such
// as index/a.yaml of index/a.yaml/b.yaml: mirrors are directories, so a caller must not choose such names. The local
// store refuses them.
//
// A file is created once, whole (Create), or is small and replaced as often as needed (Replace). Check, CheckSize,
// CheckPrefix and Exactly apply the rules for every store.
//
// # The local store
//
// OpenLocal keeps each file under its name below a directory, with mode 0600 in directories with mode 0700. A file is
// first written at the top of the directory under a name that begins with ".rye-tmp-write-", which no portable path
// does, and synced. Then it is linked (Create) or renamed (Replace) to its name, whose directory is synced. A store
// that is opened removes unfinished files that are older than an hour.
//
// The modification time is set in nanoseconds, so that size and time distinguish the versions of a file: together
// they are its ETag.
package blobs

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

// A Store keeps files under names. It is safe for concurrent use, also by several processes.
type Store interface {
	// Create stores a new file with the size bytes of r. One that exists stays as it is: an *ExistsError (code
	// CONFLICT). The file appears whole or not at all: r with more or fewer bytes, or with an error, stores nothing.
	Create(ctx context.Context, name string, r io.Reader, size int64) error
	// Replace stores a small file in place of what was there, at once.
	Replace(ctx context.Context, name string, b []byte) error
	// Open returns a file, or fs.ErrNotExist if there is none. The caller closes it. Reads show one version of the
	// file; after Replace or Remove they may also fail.
	Open(ctx context.Context, name string) (*File, error)
	// Remove removes a file. A missing file is no error.
	Remove(ctx context.Context, name string) error
	// List returns the files whose names begin with prefix, sorted by the bytes of their names. It ends with the
	// first error. A file that is stored or removed meanwhile may be missing.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
}

// A File is a stored file, for http.ServeContent.
type File struct {
	io.ReadSeekCloser
	Info
}

// Info describes a file.
type Info struct {
	Name     string
	Size     int64
	ETag     string // differs between versions of a file; without quotes
	Modified time.Time
}

// The limits of a file.
const (
	MaxName    = 500
	MaxSize    = 5 << 30  // of a file to create: what S3 takes in one request
	MaxReplace = 16 << 20 // of a file to replace
)

// An ExistsError is the error for a file that exists already.
type ExistsError struct{ Name string }

func (e *ExistsError) Error() string { return e.Fault().Text }

// Unwrap makes the error fs.ErrExist.
func (e *ExistsError) Unwrap() error { return fs.ErrExist }

// Fault returns the error as people and programs see it.
func (e *ExistsError) Fault() *fault.Error {
	return fault.New(fault.Conflict, "%q exists", e.Name).From(fs.ErrExist).On("name", e.Name).Permanent()
}

// Missing returns the error for a file that doesn't exist.
func Missing(name string) error { return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist} }

// Check refuses an invalid name.
func Check(name string) error {
	err := portable.Check(name)
	switch {
	case err != nil:
		return fault.New(fault.Validation, "invalid name of a file: %v", err).From(err)
	case len(name) > MaxName:
		return fault.New(fault.Validation, "invalid name of a file: %.40q… has %d bytes, at most %d are allowed", name,
			len(name), MaxName)
	}
	return nil
}

// CheckPrefix refuses a prefix with which no name begins. Only what follows its last slash may be a part of a segment.
func CheckPrefix(prefix string) error {
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		return Check(prefix[:i])
	}
	return nil
}

// CheckSize refuses an invalid size of a file to create.
func CheckSize(name string, size, most int64) error {
	switch {
	case size < 0:
		return fault.New(fault.Validation, "invalid size %d of %q", size, name)
	case size > most:
		return fault.New(fault.Limit, "%q has %d bytes, at most %d are allowed", name, size, most).On("bytes", size).
			On("most", most)
	}
	return nil
}

// Exactly returns a reader of the size bytes of r. It returns the last one only after r has ended there, so that who
// reads it to the end has a whole file. It fails when ctx ends, and when r has more or fewer bytes.
func Exactly(ctx context.Context, name string, r io.Reader, size int64) *Exact {
	return &Exact{ctx, name, r, size, size, nil}
}

// Exact is the reader that Exactly returns.
type Exact struct {
	ctx        context.Context
	name       string
	r          io.Reader
	size, left int64
	err        error // of the last Read, and of all after it
}

// Err returns the error with which the reader has failed: a library may hide it behind one of its own.
func (e *Exact) Err() error {
	if e.err == io.EOF {
		return nil
	}
	return e.err
}

// Read implements io.Reader.
func (e *Exact) Read(b []byte) (n int, err error) {
	if e.err != nil {
		return 0, e.err
	}
	if n, e.err = e.read(b); e.err != nil && e.err != io.EOF {
		n = 0
	}
	return n, e.err
}

func (e *Exact) read(b []byte) (int, error) {
	if err := context.Cause(e.ctx); err != nil {
		return 0, err
	}
	if len(b) == 0 && e.left > 0 {
		return 0, nil
	}
	n, err := e.r.Read(b[:min(int64(len(b)), e.left)])
	e.left -= int64(n)
	switch {
	case err == io.EOF && e.left > 0:
		return 0, fault.New(fault.Validation, "%q ends after %d bytes, expected %d", e.name, e.size-e.left, e.size).
			From(io.ErrUnexpectedEOF)
	case err != nil || e.left > 0:
		return n, err
	}
	// The last byte: r must end here.
	for {
		if err := context.Cause(e.ctx); err != nil {
			return 0, err
		}
		more, err := e.r.Read(make([]byte, 1))
		switch {
		case more > 0:
			return 0, fault.New(fault.Validation, "%q has more than the %d bytes announced", e.name, e.size)
		case err != nil:
			return n, err
		}
	}
}
