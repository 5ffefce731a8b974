package vendor

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/file"
)

var (
	errCutOff = errors.New("the file is truncated: its last line has no end")
	errCRLF   = errors.New(
		"the line ends in CR LF: put \"* -text\" in .gitattributes to keep git from changing line ends")
	errNoHead    = fmt.Errorf("not a pack: the first line must be %q", head[:len(head)-1])
	errLine      = errors.New("invalid line: expected DIGEST KIND SIZE DATA, or DIGEST signatures DIGEST")
	errLong      = fmt.Errorf("the line is longer than %d bytes", maxLine)
	errLarge     = fmt.Errorf("the file is larger than %d bytes", maxPack)
	errElsewhere = errors.New("the object belongs in another file")
	errIrregular = errors.New("is not a regular file")
	errDirectory = errors.New("is a directory")
	errMany      = fmt.Errorf("the directory has more than %d lines", maxLines)
	errLink      = errors.New("is a symbolic link, or not a directory")
)

// An Error is a damaged file of the vendor directory.
type Error struct {
	File         string
	Line, Column int // 0 for the file, or the line, as a whole
	Err          error
}

func (e *Error) Error() string {
	switch {
	case e.Line == 0:
		return fmt.Sprintf("%+q: %v", e.File, e.Err)
	case e.Column == 0:
		return fmt.Sprintf("%+q, line %d: %v", e.File, e.Line, e.Err)
	}
	return fmt.Sprintf("%+q, line %d, column %d: %v", e.File, e.Line, e.Column, e.Err)
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// Is makes it cas.ErrDamaged.
func (e *Error) Is(target error) bool { return target == cas.ErrDamaged }

// Fault implements the interface of package fault.
func (e *Error) Fault() *fault.Error {
	return fault.New(fault.Integrity, "%v", e).From(e).On("reason", "vendor").On("file",
		e.File).Try("git restore .ai/vendor",
		"mv .ai/vendor .ai/vendor.bad && rye vendor")
}

// A MissingError names the objects that Write could not find. It is fs.ErrNotExist.
type MissingError struct{ IDs []cas.ID } // sorted, at least one

func (e *MissingError) Error() string {
	if len(e.IDs) == 1 {
		return e.IDs[0].String() + " is missing"
	}
	return fmt.Sprintf("%s and %d more objects are missing", e.IDs[0], len(e.IDs)-1)
}

// Unwrap makes it fs.ErrNotExist.
func (e *MissingError) Unwrap() error { return fs.ErrNotExist }

// Fault implements the interface of package fault.
func (e *MissingError) Fault() *fault.Error {
	id := e.IDs[0].String()
	return fault.New(fault.NotFound, "%v", e).From(e).On("reason", "missing").On("object", id).On("needed_by",
		file.Name).
		Because("it is neither in .ai/vendor nor in the store").Try("rye fetch")
}

// badObject is the error for an object that the caller describes wrongly.
func badObject(id cas.ID, format string, args ...any) error {
	return fmt.Errorf("%s: %w", id, fmt.Errorf(format, args...))
}
