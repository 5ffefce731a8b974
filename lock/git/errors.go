package git

import (
	"errors"
	"fmt"
	"io/fs"
)

// errTime says that a fetch took too long.
var errTime = fmt.Errorf("git takes longer than %s", maxTime)

// An Error says that git couldn't do something. What it says itself may be the words of a server.
type Error struct {
	Address string
	Command string // as in fetch
	Status  int
	Text    string // the end of what it has written; may be empty
}

func (e *Error) Error() string {
	return fmt.Sprintf("git %s (exit status %d): %+q", e.Command, e.Status, e.Text)
}

// A VersionError says that the git of this machine is too old.
type VersionError struct{ Found string } // as it says itself

func (e *VersionError) Error() string {
	return fmt.Sprintf("git %d.%d or newer is needed, and this is %+q", firstMajor, firstMinor, e.Found)
}

// A RevisionError says that a repository has no such branch or tag, or a branch and a tag that are different commits.
// If there is none it is fs.ErrNotExist.
type RevisionError struct {
	Address, Revision string // Revision is "" where the repository shows nothing
	Both              bool
}

func (e *RevisionError) Error() string {
	switch {
	case e.Both:
		return fmt.Sprintf("%+q is a branch and another commit as a tag", e.Revision)
	case e.Revision == "":
		return "the repository is empty"
	}
	return fmt.Sprintf("the repository has no branch and no tag %+q", e.Revision)
}

// Unwrap returns fs.ErrNotExist if there is none.
func (e *RevisionError) Unwrap() error {
	if e.Both {
		return nil
	}
	return fs.ErrNotExist
}

// A PathError says that a commit has no such file, or no file there. If there is nothing it is fs.ErrNotExist.
type PathError struct {
	Path   string
	Reason string // what is there; "" if nothing is
}

func (e *PathError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("the commit has no %+q", e.Path)
	}
	return fmt.Sprintf("%+q is %s", e.Path, e.Reason)
}

// Unwrap returns fs.ErrNotExist if nothing is there.
func (e *PathError) Unwrap() error {
	if e.Reason == "" {
		return fs.ErrNotExist
	}
	return nil
}

// An ObjectError says that an object isn't what its name says.
type ObjectError struct {
	Name string
	Err  error
}

func (e *ObjectError) Error() string { return fmt.Sprintf("the object %s of git: %v", e.Name, e.Err) }

// Unwrap returns what is wrong.
func (e *ObjectError) Unwrap() error { return e.Err }

var (
	errHash    = errors.New("it has other bytes than its name says")
	errMissing = errors.New("it is not there")
	errAnswer  = errors.New("git answers with what was not asked for")
	errLong    = errors.New("it is longer than is taken")
	errTree    = errors.New("it is no tree that git would write")
	errCommit  = errors.New("it is no commit that git would write")
)

// A LimitError says that something is larger than is taken.
type LimitError struct {
	What  string
	Limit int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: more than %d bytes", e.What, e.Limit)
}
