package cas

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

// ErrDamaged matches, with errors.Is, every error about stored bytes that have changed.
var ErrDamaged = errors.New("damaged")

// A DamagedError reports an object whose stored bytes do not match its ID or can't be read.
type DamagedError struct {
	ID    ID
	Found Digest // of the stored bytes; zero if they were not hashed
	Err   error  // why they were not hashed, or nil
}

func (e *DamagedError) Error() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("%s is damaged: %v", e.ID, e.Err)
	case e.Found.IsZero():
		return fmt.Sprintf("%s is damaged", e.ID)
	}
	return fmt.Sprintf("%s is damaged: its bytes have the digest %s", e.ID, e.Found)
}

func (e *DamagedError) Unwrap() error { return e.Err }

func (e *DamagedError) Is(target error) bool { return target == ErrDamaged }

// Fault returns e with its code and the commands that find and repair damage.
func (e *DamagedError) Fault() *fault.Error {
	f := fault.New(fault.Integrity, "%s %s is damaged", e.ID.Kind, e.ID.Digest.Short()).From(e).
		On("kind", e.ID.Kind.String()).On("expected", e.ID.Digest.String()).Because("expected  "+e.ID.Digest.String()).
		Try("rye store fsck", "rye fetch")
	switch {
	case !e.Found.IsZero():
		f.On("found", e.Found.String()).Because("found     " + e.Found.String())
	case e.Err != nil:
		f.Because(e.Err.Error())
	}
	return f
}

// ErrTooLong is the cause of a DamagedError when an object has more bytes than its declared size.
var ErrTooLong = errors.New("more bytes than the declared size")

// NotFound returns the error of a store that lacks an object. It is an fs.ErrNotExist.
func NotFound(id ID) *fault.Error {
	return fault.New(fault.NotFound, "%s is missing", id).From(fs.ErrNotExist).Try("rye store fsck")
}

// TooLarge returns the error of a walk or copy that met more than MaxWalk entries below root.
func TooLarge(root ID) *fault.Error {
	return fault.New(fault.Limit, "%s has more than %d entries", root, MaxWalk)
}

// missing returns NotFound with the path from the root and the tree that lists it; both are empty for the root itself.
func missing(id ID, path string, parent ID, cause error) error {
	f := NotFound(id).From(cause)
	if path != "" {
		f.Text = fmt.Sprintf("%q is missing: %s, listed in %s", path, id, parent)
	}
	return f
}

// A TreeError reports the first invalid entry of a tree.
type TreeError struct {
	Line int    // in the document; 0 for a tree that was to be written
	Name string // of the entry
	Err  error  // the cause; *portable.Error for an invalid name
}

func (e *TreeError) Error() string {
	where := "tree"
	if e.Line > 0 {
		where = fmt.Sprintf("tree: line %d", e.Line)
	}
	if _, ok := errors.AsType[*portable.Error](e.Err); ok {
		return fmt.Sprintf("%s: %v", where, e.Err) // e.Err quotes the name
	}
	return fmt.Sprintf("%s: entry %q: %v", where, e.Name, e.Err)
}

func (e *TreeError) Unwrap() error { return e.Err }

// Fault returns e with its code.
func (e *TreeError) Fault() *fault.Error { return fault.New(fault.Integrity, "%s", e).From(e) }

// The causes of a TreeError, apart from *portable.Error.
var (
	errMode     = errors.New("invalid mode")
	errDigest   = errors.New("no digest")
	errSize     = errors.New("invalid size")
	errEmptyDir = errors.New("empty directory: trees list only directories that hold files")
	errOrder    = errors.New("out of order: entries are sorted by name, each once")
	errBoth     = errors.New("both a file and a directory")
)
