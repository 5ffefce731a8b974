package resolve

import (
	"errors"
	"fmt"
	"strings"
)

// A Path is a way from the project to a bundle, each step required by the one before, the first by the project.
type Path []Step

func (p Path) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case i == 0:
			b.WriteString("the project needs ")
		default:
			b.WriteString(", which needs ")
		}
		fmt.Fprintf(&b, "%q %s", s.ID, s.Range)
		if i < len(p)-1 {
			fmt.Fprintf(&b, " (%s)", s.Version)
		}
	}
	return b.String()
}

// A problem is why there is no answer.
type problem interface {
	error
	at() string // the bundle that shows it
	steps() []Step
}

func isProblem(err error) bool {
	var p problem
	return errors.As(err, &p)
}

// joined makes one error of problems.
func joined(problems []problem) error {
	if len(problems) == 1 {
		return problems[0]
	}
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

// A ConflictError says that the version of a bundle that one requirement asks for is excluded by another.
type ConflictError struct {
	ID, Version string
	Holds       Path // to the requirement that asks for Version; empty if it came from a version that isn't chosen
	Against     Path // to one that doesn't contain it
}

func (e *ConflictError) Error() string {
	if len(e.Holds) == 0 {
		return fmt.Sprintf("%q %s doesn't suit everybody: %s", e.ID, e.Version, e.Against)
	}
	return fmt.Sprintf("%q %s doesn't suit everybody: %s; %s", e.ID, e.Version, e.Holds, e.Against)
}

func (e *ConflictError) at() string { return e.ID }

func (e *ConflictError) steps() []Step {
	return append(e.Holds[:len(e.Holds):len(e.Holds)], e.Against...)
}

// A NoVersionError says that there is no version that a requirement contains. If there is no such bundle at all it is
// an fs.ErrNotExist.
type NoVersionError struct {
	Path    Path     // to the requirement
	Newest  []string // the newest versions there are, at most three
	Version string   // that another requirement asks for; empty if no other is met either
	Holds   Path     // to that one
	Err     error    // why there are none; may be nil
}

func (e *NoVersionError) Error() string {
	last := e.Path[len(e.Path)-1]
	switch {
	case e.Err != nil:
		return fmt.Sprintf("there is no bundle %q: %s: %v", last.ID, e.Path, e.Err)
	case len(e.Newest) == 0:
		return fmt.Sprintf("there is no version of %q: %s", last.ID, e.Path)
	}
	text := fmt.Sprintf("no version of %q is in %s, the newest is %s: %s", last.ID, last.Range, strings.Join(e.Newest, ", then "), e.Path)
	if len(e.Holds) > 0 {
		text += fmt.Sprintf("; %s", e.Holds)
	}
	return text
}

// Unwrap returns why there are no versions.
func (e *NoVersionError) Unwrap() error { return e.Err }

func (e *NoVersionError) at() string { return e.Path[len(e.Path)-1].ID }

func (e *NoVersionError) steps() []Step { return e.Path }

// A CycleError says that bundles need each other in a circle. Path begins and ends with the same bundle, and each
// step is required by the one before.
type CycleError struct{ Path []Step }

func (e *CycleError) Error() string {
	var b strings.Builder
	b.WriteString("bundles need each other in a circle: ")
	for i, s := range e.Path {
		if i > 0 {
			b.WriteString(" needs ")
		}
		fmt.Fprintf(&b, "%q %s", s.ID, s.Version)
	}
	return b.String()
}

func (e *CycleError) at() string { return e.Path[0].ID }

func (e *CycleError) steps() []Step { return e.Path }

// A SourceError says that versions couldn't be had, or that what a source says of one is nonsense.
type SourceError struct {
	ID, Version string // Version is empty when it is about all of them
	Err         error
}

func (e *SourceError) Error() string {
	if e.Version == "" {
		return fmt.Sprintf("versions of %q: %v", e.ID, e.Err)
	}
	return fmt.Sprintf("%q %s: %v", e.ID, e.Version, e.Err)
}

// Unwrap returns what is wrong.
func (e *SourceError) Unwrap() error { return e.Err }

// A LimitError says that there is more than is looked at.
type LimitError struct {
	What string
	Most int
}

func (e *LimitError) Error() string { return fmt.Sprintf("more than %d %s", e.Most, e.What) }

// A NotUsedError says that a bundle that is to be updated isn't used.
type NotUsedError struct {
	ID   string
	Used []string // those that are, sorted
}

func (e *NotUsedError) Error() string { return fmt.Sprintf("no bundle %q is used", e.ID) }
