package create

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/bundle/secret"
)

// What a bundle lacks as a whole.
var (
	ErrEmpty      = errors.New("no file belongs to the bundle")
	ErrEntrypoint = errors.New("the entrypoint is no item of the bundle")

	errMore   = errors.New("there is more that can't be in a bundle")
	errNoKind = errors.New("is in no directory of a kind: the extractor that adds it is not in the bundle, or not admitted")
	// Where case doesn't count these would be items that nobody has looked at.
	errOtherAI = errors.New("is in .ai where upper and lower case are one, and not elsewhere")
	errNoAI    = errors.New("is a file, where a directory with items is expected")
)

// A Problem is one thing that keeps files from being a bundle.
type Problem struct {
	Path string // relative to the directory that holds .ai; "" where it is about the bundle as a whole
	Ref  string // of an item, if it is one
	Err  error
}

func (p *Problem) Error() string {
	if p.Path == "" {
		return p.Err.Error()
	}
	return fmt.Sprintf("%+q: %v", p.Path, p.Err)
}

// Unwrap returns what is wrong.
func (p *Problem) Unwrap() error { return p.Err }

// A RefusedError is all that keeps files from being a bundle, sorted by path.
type RefusedError struct {
	Problems []Problem
	Unused   []*recipe.UnusedError // as in a Result
}

// Error gives one line to each problem.
func (e *RefusedError) Error() string {
	lines := make([]string, len(e.Problems))
	for i := range e.Problems {
		lines[i] = e.Problems[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the reasons.
func (e *RefusedError) Unwrap() []error {
	errs := make([]error, len(e.Problems))
	for i := range e.Problems {
		errs[i] = e.Problems[i].Err
	}
	return errs
}

// An InvalidError says that an item doesn't say what it must.
type InvalidError struct {
	Ref      model.Ref
	Problems []*value.Problem // warnings too
}

func (e *InvalidError) Error() string {
	first, n := (*value.Problem)(nil), 0
	for _, p := range e.Problems {
		if p.Warning {
			continue
		}
		if n++; first == nil {
			first = p
		}
	}
	if n > 1 {
		return fmt.Sprintf("%q is invalid: %v, and %d more", e.Ref, first, n-1)
	}
	return fmt.Sprintf("%q is invalid: %v", e.Ref, first)
}

// A SecretError says that something looks like a secret, and where.
type SecretError struct{ secret.Finding }

func (e *SecretError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("files of this name hold secrets (%+q)", e.Excerpt)
	}
	return fmt.Sprintf("line %d, column %d: looks like a secret (%s: %s)", e.Line, e.Column, e.Rule, e.Excerpt)
}

// A HelperError says which files of a tool don't come with it.
type HelperError struct {
	Ref     model.Ref
	Dir     string   // that the tool works from
	Missing []string // sorted
}

func (e *HelperError) Error() string {
	if len(e.Missing) > 1 {
		return fmt.Sprintf("%q works from %+q, of which %+q and %d more are not in the bundle", e.Ref, e.Dir, e.Missing[0], len(e.Missing)-1)
	}
	return fmt.Sprintf("%q works from %+q, of which %+q is not in the bundle", e.Ref, e.Dir, e.Missing[0])
}

// An UnlistedError says which other files of a tool no manifest lists, where only a manifest can vouch for them.
type UnlistedError struct {
	Ref   model.Ref
	Files []string // relative to the directory that the tool works from, sorted
}

func (e *UnlistedError) Error() string {
	more := ""
	if n := len(e.Files) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more of its files", n)
	}
	return fmt.Sprintf("%q is signed in the first format (v1), which says nothing of %+q%s: no admitted manifest lists it", e.Ref, e.Files[0], more)
}

// problem notes what keeps the files from being a bundle. It may be called by many goroutines.
func (c *creation) problem(path, ref string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, Problem{path, ref, err})
}

// refused returns the problems, if there are any, in an order that doesn't depend on who was first.
func (c *creation) refused() error {
	if len(c.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(c.problems, func(a, b Problem) int {
		if n := strings.Compare(a.Path, b.Path); n != 0 {
			return n
		}
		return strings.Compare(inFile(a.Err), inFile(b.Err))
	})
	return &RefusedError{c.problems, c.result.Unused}
}

// inFile orders the problems of one file: its secrets, and what bundle.yaml includes, by line.
func inFile(err error) string {
	if u, ok := errors.AsType[*recipe.UnusedError](err); ok {
		return fmt.Sprintf("%10d %10d", u.Line, u.Column)
	}
	if s, ok := errors.AsType[*SecretError](err); ok {
		return fmt.Sprintf("%10d %10d", s.Line, s.Column)
	}
	return err.Error()
}
