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
	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/file"
)

// A Problem prevents a project from being locked. As a warning it points to a possible mistake.
type Problem struct {
	Ref   model.Ref // the item concerned; for a missing item, the one that needs it; may be zero
	Space *ai.Space // nil for a root of the project
	Path  string    // the file, in the space
	At    value.Pos // zero if the problem concerns the whole file
	Field string    // such as "executor_id"; may be empty
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

// place returns the name of a file for messages.
func place(s *ai.Space, name string) string {
	if s.Dir != "" {
		return path.Join(s.Dir, name)
	}
	return s.Label + "/" + name
}

// Unwrap returns the underlying error.
func (p *Problem) Unwrap() error { return p.Err }

// An Error lists every problem that prevents a project from being locked, sorted by place.
type Error struct {
	Problems []*Problem
	drafts   map[model.Ref]bool           // nil if no problem is one of a draft
	pinned   func(model.Ref) []cas.Digest // in the present lock; may be nil
}

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

// Fault returns an error that counts the problems. It has the code of the gravest, and the commands that repair what
// they have in common.
func (e *Error) Fault() *fault.Error {
	var codes []fault.Code
	for _, p := range e.Problems {
		if code := fault.CodeOf(p.Err); code == fault.Busy {
			return fault.Of(p.Err) // a retry may succeed
		}
		code, _ := check.Words(p.Err)
		codes = append(codes, code)
	}
	failure := fault.New(fault.Gravest(codes), "the project cannot be locked: %s",
		fault.Count(int64(len(e.Problems)), "problem")).
		From(e).On("problems", len(e.Problems))
	if errors.Is(e, cas.ErrDamaged) {
		return failure.Try("rye vendor --check", "rye store fsck")
	}
	refs, ok := e.Unsigned()
	closed := e.closed()
	switch {
	case len(closed) > 0:
		return failure.Try(closed...)
	case !ok && e.Problems[0].Space == nil:
		return failure.Try("rye ls")
	case !ok:
		return failure.Try("rye check", "rye verify '**'")
	}
	sign := fault.Command("rye lock --sign", refs...)
	if len(refs) > 20 {
		sign = "rye sign --all" // a command of thousands of words is useless
	}
	changed := slices.IndexFunc(e.Problems, func(p *Problem) bool {
		return e.pinned != nil && len(e.pinned(p.Ref)) > 0
	})
	if changed < 0 {
		return failure.Try(sign)
	}
	return failure.Try(fault.Command("rye diff", refs[changed]), sign, fault.Command("rye restore", refs[changed]))
}

// closed returns the commands that make files readable.
func (e *Error) closed() (commands []string) {
	for _, p := range e.Problems {
		if p.Space != nil && errors.Is(p.Err, fs.ErrPermission) {
			item := &ai.ItemError{Ref: p.Ref, Space: p.Space, Path: p.Path, Err: p.Err}
			commands = append(commands, fault.Of(item).Hint...)
		}
	}
	slices.Sort(commands)
	return slices.Compact(commands)
}

// Unsigned returns the items that only lack a valid signature over their current content. ok is false if there are
// other problems.
func (e *Error) Unsigned() (refs []string, ok bool) {
	for _, p := range e.Problems {
		switch fault.CodeOf(p.Err) {
		case fault.Unsigned, fault.Integrity, fault.SignatureInvalid:
		default:
			return nil, false
		}
		if p.Ref == (model.Ref{}) {
			return nil, false
		}
		refs = append(refs, p.Ref.String())
	}
	return refs, true
}

// conflict is the error for two different items with one ref. by names an item that needs each; zero is the project
// itself.
func conflict(ref model.Ref, from [2]string, by [2]model.Ref) error {
	var all [2]string
	for i := range from {
		who := "the project"
		if by[i] != (model.Ref{}) {
			who = fmt.Sprintf("%q", by[i])
		}
		all[i] = fmt.Sprintf("from %q by %s", from[i], who)
	}
	return fault.New(fault.Validation, "%q is needed %s: a lock can pin only one item per ref", ref,
		strings.Join(all[:], " and "))
}

// A NothingError is a warning about a root that matches no item.
type NothingError struct{ Root string }

func (e *NothingError) Error() string { return fmt.Sprintf("the root %+q matches no item", e.Root) }

func clip(s string) string { return s[:min(len(s), 100)] }

// changed is the error for a file that changed between two reads.
func changed() error { return fault.New(fault.Validation, "changed while it was read") }

var errHidden = fault.New(fault.Validation, "not merged: the project has a config of this name")

// missing reports whether an error means that an item is missing, and not that it is invalid.
func missing(err error) bool {
	_, item := errors.AsType[*ai.ItemError](err)
	_, many := errors.AsType[*ai.AmbiguousError](err)
	_, shadow := errors.AsType[*ai.ShadowError](err)
	return !item && !many && !shadow
}

// noExecutor is the error for a tool without its executor.
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

// sorted sorts problems by place and removes duplicates. A problem that several items report at one place is kept for
// the first item.
func (c *closer) sorted(all []*Problem) []*Problem {
	rank := func(p *Problem) int { return slices.Index(c.spaces, p.Space) }
	slices.SortFunc(all, func(a, b *Problem) int {
		n := cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Path, b.Path), cmp.Compare(a.At.Line, b.At.Line),
			cmp.Compare(a.At.Column, b.At.Column), cmp.Compare(a.Field, b.Field))
		if n != 0 {
			return n // avoid formatting thousands of errors
		}
		return cmp.Or(cmp.Compare(a.Err.Error(), b.Err.Error()), file.CompareRefs(a.Ref, b.Ref))
	})
	return slices.CompactFunc(all, func(a, b *Problem) bool {
		return a.Space == b.Space && a.Path == b.Path && a.At == b.At && a.Field == b.Field &&
			a.Err.Error() == b.Err.Error()
	})
}
