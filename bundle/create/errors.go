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
	"github.com/rye-build/rye/cas/fault"
)

// Problems of a bundle as a whole.
var (
	ErrEmpty      error = fault.New(fault.Validation, "the bundle has no files")
	ErrEntrypoint error = fault.New(fault.Validation, "the entrypoint is not an item of the bundle")
)

var (
	errMore   = errors.New("more files can't be bundled")
	errNoKind = errors.New("not in the directory of a known kind: its extractor is not in the bundle, or not admitted")
	// Case-insensitive file systems would make these unchecked items.
	errOtherAI = errors.New("differs from .ai only in case")
	errNoAI    = errors.New("expected a directory")
)

// A Problem is one reason why files can't be bundled.
type Problem struct {
	Path string // relative to the directory that holds .ai; "" for the whole bundle
	Ref  string // of an item, else ""
	Err  error
}

func (p *Problem) Error() string {
	if p.Path == "" {
		return p.Err.Error()
	}
	return fmt.Sprintf("%+q: %v", p.Path, p.Err)
}

// Unwrap returns the reason.
func (p *Problem) Unwrap() error { return p.Err }

// A RefusedError lists every reason why files can't be bundled, sorted by path.
type RefusedError struct {
	Problems []Problem
	Unused   []*recipe.UnusedError // as in a Result
}

// Error returns one line for each problem.
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

// Fault returns e as an error with a code.
func (e *RefusedError) Fault() *fault.Error { return fault.New(fault.Validation, "%s", e).From(e) }

// An InvalidError reports that an item fails validation.
type InvalidError struct {
	Ref      model.Ref
	Problems []*value.Problem // including warnings
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
		return fmt.Sprintf("invalid %q: %v, and %d more", e.Ref, first, n-1)
	}
	return fmt.Sprintf("invalid %q: %v", e.Ref, first)
}

// Fault returns e as an error with a code.
func (e *InvalidError) Fault() *fault.Error { return fault.New(fault.Validation, "%s", e).From(e) }

// A SecretError reports the place of a likely secret in a file.
type SecretError struct{ secret.Finding }

func (e *SecretError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("files of this name hold secrets (%+q)", e.Excerpt)
	}
	return fmt.Sprintf("line %d, column %d: looks like a secret (%s: %s)", e.Line, e.Column, e.Rule, e.Excerpt)
}

// Fault returns e as an error with a code.
func (e *SecretError) Fault() *fault.Error { return fault.New(fault.Validation, "%s", e).From(e) }

// missingFiles returns the error for a tool whose sorted files missing are not in the bundle. dir is the directory
// that the tool works from.
func missingFiles(ref model.Ref, dir string, missing []string) error {
	more := " is"
	if n := len(missing) - 1; n > 0 {
		more = fmt.Sprintf(" and %d more files there are", n)
	}
	return fault.New(fault.Validation, "%q needs its directory %+q: %+q%s not in the bundle", ref, dir, missing[0],
		more)
}

// unlisted returns the error for files of a tool, sorted, that neither its v1 signature nor an admitted manifest
// covers.
func unlisted(ref model.Ref, files []string) error {
	more := ""
	if n := len(files) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more of its files", n)
	}
	return fmt.Errorf("%q has a v1 signature, which doesn't cover %+q%s: no admitted manifest lists it", ref, files[0],
		more)
}

// problem records a reason why the files can't be bundled. It is safe for concurrent use.
func (c *creation) problem(path, ref string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, Problem{path, ref, err})
}

// refused returns the error with all problems, in an order that doesn't depend on timing; nil without problems.
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

// inFile is the sort key within a file: secrets and the includes of bundle.yaml go by line.
func inFile(err error) string {
	if u, ok := errors.AsType[*recipe.UnusedError](err); ok {
		return fmt.Sprintf("%10d %10d", u.Line, u.Column)
	}
	if s, ok := errors.AsType[*SecretError](err); ok {
		return fmt.Sprintf("%10d %10d", s.Line, s.Column)
	}
	return err.Error()
}
