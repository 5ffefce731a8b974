package vendor

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/rye-build/rye/cas"
)

var (
	errCutOff    = errors.New("the line has no end: the file was cut off")
	errCRLF      = errors.New("the line ends in CR LF, and those of a pack in LF alone: git keeps them with \"* -text\" in .gitattributes")
	errNoHead    = fmt.Errorf("a pack begins with the line %q", head[:len(head)-1])
	errLine      = errors.New("not a line of a pack: expected DIGEST KIND SIZE DATA, or DIGEST signatures DIGEST")
	errLong      = fmt.Errorf("the line has more than %d bytes", maxLine)
	errLarge     = fmt.Errorf("the file has more than %d bytes", maxPack)
	errElsewhere = errors.New("the object belongs into another file")
	errIrregular = errors.New("is no regular file")
	errDirectory = errors.New("is a directory")
	errMany      = fmt.Errorf("there are more than %d lines in the directory", maxLines)
	errLink      = errors.New("is a link, or no directory")
)

// An Error says where a file of the directory isn't what Write writes.
type Error struct {
	File         string
	Line, Column int // 0 where the file, or the line, as a whole is meant
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

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// A MissingError says which objects nothing has that Write was given. It is fs.ErrNotExist.
type MissingError struct{ IDs []cas.ID } // sorted, at least one

func (e *MissingError) Error() string {
	if len(e.IDs) == 1 {
		return e.IDs[0].String() + " is missing"
	}
	return fmt.Sprintf("%s and %d more objects are missing", e.IDs[0], len(e.IDs)-1)
}

// Unwrap makes it fs.ErrNotExist.
func (e *MissingError) Unwrap() error { return fs.ErrNotExist }

// An ObjectError says which object Write can't write as it was told.
type ObjectError struct {
	ID  cas.ID
	Err error
}

func (e *ObjectError) Error() string { return fmt.Sprintf("%s: %v", e.ID, e.Err) }

// Unwrap returns what is wrong.
func (e *ObjectError) Unwrap() error { return e.Err }
