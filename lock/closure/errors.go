package closure

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

// A Problem is one thing that keeps a project from being locked, or, as a warning, that somebody may not have meant.
type Problem struct {
	Ref   model.Ref // the item that it is about: of something that is missing the one that needs it. Zero if there is none
	Space *ai.Space // nil for what the project itself asks for
	Path  string    // of the file, in the space
	At    value.Pos // zero if it is about the whole file
	Field string    // as in "executor_id"; may be empty
	Err   error
}

func (p *Problem) Error() string {
	text := p.Err.Error()
	if p.At != (value.Pos{}) {
		text = (&value.Problem{At: p.At, Message: text}).Error()
	}
	if p.Space == nil {
		return text
	}
	return fmt.Sprintf("%+q: %s", place(p.Space, p.Path), text)
}

// place names a file for messages.
func place(s *ai.Space, name string) string {
	if s.Dir != "" {
		return path.Join(s.Dir, name)
	}
	return s.Label + "/" + name
}

// Unwrap returns what is wrong.
func (p *Problem) Unwrap() error { return p.Err }

// An Error is everything for which a project can't be locked, sorted by place.
type Error struct{ Problems []*Problem }

func (e *Error) Error() string {
	if more := len(e.Problems) - 1; more > 0 {
		return fmt.Sprintf("%v (and %d more)", e.Problems[0], more)
	}
	return e.Problems[0].Error()
}

// Unwrap returns the problems.
func (e *Error) Unwrap() []error {
	all := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		all[i] = p
	}
	return all
}

// A ConflictError says that two items with one ref are needed, and a lock names one of them.
type ConflictError struct {
	Ref  model.Ref
	From [2]string    // the labels of the spaces, the higher one first
	By   [2]model.Ref // an item that needs the one of each; zero where the project itself does
}

func (e *ConflictError) Error() string {
	var all [2]string
	for i, from := range e.From {
		by := "the project"
		if e.By[i] != (model.Ref{}) {
			by = fmt.Sprintf("%q", e.By[i])
		}
		all[i] = fmt.Sprintf("from %q by %s", from, by)
	}
	return fmt.Sprintf("%q is needed %s: a lock has one item for each ref", e.Ref, strings.Join(all[:], " and "))
}

// An InFrontError is a warning about an item that stands in front of one of the library, as the root policy allows.
type InFrontError struct{ Over []string }

func (e *InFrontError) Error() string {
	return fmt.Sprintf("takes the place of the item in %q, as \"override:\" in the root policy allows", strings.Join(e.Over, ", "))
}

// A NothingError is a warning about a root that covers no item.
type NothingError struct{ Root string }

func (e *NothingError) Error() string { return fmt.Sprintf("the root %+q covers no item", e.Root) }

// A NameError says that what stands where an item is named is no id.
type NameError struct {
	Text string
	Err  error
}

func (e *NameError) Error() string { return fmt.Sprintf("%+q names no item: %v", clip(e.Text), e.Err) }

// Unwrap returns what is wrong with the name.
func (e *NameError) Unwrap() error { return e.Err }

func clip(s string) string { return s[:min(len(s), 100)] }

// A FirstFormatError says that other files of a tool are covered by nobody's signature.
type FirstFormatError struct{ Files int }

func (e *FirstFormatError) Error() string {
	return fmt.Sprintf("a signature of the first format (v1) doesn't speak of the other files of a tool's directory, of which there are %d", e.Files)
}

var (
	// ErrChanged is about a file that isn't what it was a moment ago.
	ErrChanged = errors.New("changed while it was read")
	// ErrHidden is a warning about config of the user that stands below the project's.
	ErrHidden = errors.New("isn't merged: the project has config of this name")
)

// missing reports whether an error says that an item isn't there, and not that something is wrong with it.
func missing(err error) bool {
	_, item := errors.AsType[*ai.ItemError](err)
	_, many := errors.AsType[*ai.AmbiguousError](err)
	_, shadow := errors.AsType[*ai.ShadowError](err)
	return !item && !many && !shadow
}

// noExecutor is the error of a tool whose executor wasn't found.
func noExecutor(tool, executor model.Ref, err error) error {
	code := fault.Files
	_, many := errors.AsType[*ai.AmbiguousError](err)
	_, shadow := errors.AsType[*ai.ShadowError](err)
	switch {
	case many:
		code = fault.Ambiguous
	case shadow:
		code = fault.Policy
	case errors.Is(err, fs.ErrNotExist):
		code = fault.ExecutorNotFound
	}
	return &ai.ChainError{Code: code, Ref: tool, Path: []string{tool.String(), executor.String()}, Err: err}
}

// sorted sorts problems by place and leaves each once. What is told of one place for several items is told for the first.
func (c *closer) sorted(all []*Problem) []*Problem {
	rank := func(p *Problem) int { return slices.Index(c.spaces, p.Space) }
	slices.SortFunc(all, func(a, b *Problem) int {
		n := cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Path, b.Path), cmp.Compare(a.At.Line, b.At.Line),
			cmp.Compare(a.At.Column, b.At.Column), cmp.Compare(a.Field, b.Field))
		if n != 0 {
			return n // before texts are made of thousands of errors
		}
		return cmp.Or(cmp.Compare(a.Err.Error(), b.Err.Error()), compareRefs(a.Ref, b.Ref))
	})
	return slices.CompactFunc(all, func(a, b *Problem) bool {
		return a.Space == b.Space && a.Path == b.Path && a.At == b.At && a.Field == b.Field && a.Err.Error() == b.Err.Error()
	})
}

// compareRefs orders refs as their texts are ordered.
func compareRefs(a, b model.Ref) int {
	if a.Kind == b.Kind {
		return strings.Compare(a.ID, b.ID)
	}
	return strings.Compare(a.Kind+":", b.Kind+":")
}
