package resolve

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// A Path leads from the project to a bundle. Each step is required by the one before, the first by the project.
type Path []Step

func (p Path) String() string {
	var text strings.Builder
	text.WriteString("the project")
	for i, s := range p {
		if i > 0 {
			text.WriteString(", which")
		}
		fmt.Fprintf(&text, " requires %q %s", s.ID, s.Range)
		if i < len(p)-1 {
			fmt.Fprintf(&text, " (%s)", s.Version)
		}
	}
	return text.String()
}

// A problem is a reason why there is no solution.
type problem interface {
	error
	at() string // the bundle concerned
	steps() []Step
	Fault() *fault.Error
}

func isProblem(err error) bool {
	var p problem
	return errors.As(err, &p)
}

// problems are several reasons of one kind, the nearest to the project first.
type problems []problem

func (p problems) Error() string {
	texts := make([]string, len(p))
	for i, one := range p {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns the problems.
func (p problems) Unwrap() []error {
	all := make([]error, len(p))
	for i, one := range p {
		all[i] = one
	}
	return all
}

// Fault implements the interface of package fault.
func (p problems) Fault() *fault.Error {
	f := p[0].Fault().From(p)
	for _, other := range p[1:] {
		text := other.Error()
		if none, ok := other.(*NoVersionError); ok && none.Err != nil {
			text = none.Fault().Text
		}
		f.Because(text)
	}
	f.Why = f.Why[:min(len(f.Why), fault.MaxLines)]
	return f
}

// joined returns one error for problems.
func joined(all []problem) error {
	if len(all) == 1 {
		return all[0]
	}
	return problems(all)
}

// A ConflictError is a pair of requirements for a bundle: one needs Version, and the other excludes it.
type ConflictError struct {
	ID, Version string
	Holds       Path // to the requirement for Version; empty if it comes from a version that is no longer selected
	Against     Path // to the requirement that excludes it
}

func (e *ConflictError) Error() string {
	text := conflictText(e.ID, e.Version) + ": "
	if len(e.Holds) > 0 {
		text += e.Holds.String() + "; "
	}
	return text + e.Against.String()
}

func conflictText(id, version string) string {
	return fmt.Sprintf("conflicting requirements for %q %s", id, version)
}

// Fault implements the interface of package fault.
func (e *ConflictError) Fault() *fault.Error {
	f := conflict(e, e.ID, e.Version).Permanent()
	for _, path := range []Path{e.Holds, e.Against} {
		if len(path) > 0 {
			f.Because(path.String())
		}
	}
	return f
}

func conflict(err error, id, version string) *fault.Error {
	f := fault.New(fault.Conflict, "%s", conflictText(id, version)).From(err).On("reason", "versions").On("bundle",
		id).On("version", version).
		Try("rye add "+id+"@RANGE", "rye outdated")
	f.Exit = fault.ExitRefused
	return f
}

func (e *ConflictError) at() string { return e.ID }

func (e *ConflictError) steps() []Step {
	return append(e.Holds[:len(e.Holds):len(e.Holds)], e.Against...)
}

// A NoVersionError is a requirement that no version meets. If the bundle doesn't exist at all, it is an
// fs.ErrNotExist.
type NoVersionError struct {
	Path    Path     // to the requirement
	Newest  []string // the newest versions, at most three
	Version string   // another requirement needs this one; empty if no version meets that either
	Holds   Path     // to the other requirement
	Err     error    // why there are no versions; may be nil
}

func (e *NoVersionError) Error() string {
	switch {
	case e.Err != nil:
		return fmt.Sprintf("bundle %q not found: %s: %v", e.at(), e.Path, e.Err)
	case len(e.Newest) == 0:
		return fmt.Sprintf("bundle %q has no versions: %s", e.at(), e.Path)
	}
	text := fmt.Sprintf("%s: %s", e.noMatch(), e.Path)
	if len(e.Holds) > 0 {
		text += "; " + e.Holds.String()
	}
	return text
}

func (e *NoVersionError) noMatch() string {
	last := e.Path[len(e.Path)-1]
	return fmt.Sprintf("no version of %q matches %s (newest: %s)", last.ID, last.Range, strings.Join(e.Newest, ", "))
}

// Fault implements the interface of package fault.
func (e *NoVersionError) Fault() *fault.Error {
	id := e.at()
	if len(e.Holds) > 0 {
		return conflict(e, id, e.Version).Because(e.Holds.String(), e.Path.String(), e.noMatch())
	}
	failure, ok := fault.Find(e.Err)
	if e.Err == nil || !ok {
		return fault.New(fault.NotFound, "%v", e).From(e).On("bundle", id)
	}
	// The source's message is better, because it knows what is missing and how to fix it.
	if failure.Code = fault.NotFound; !strings.Contains(failure.Text, fmt.Sprintf("%q", id)) {
		failure.Text = fmt.Sprintf("bundle %q not found: %s", id, failure.Text)
	}
	if failure.Hint == nil {
		failure.Try("rye docs sources")
	}
	failure.Why = append([]string{e.Path.String()}, failure.Why...)
	return failure.From(e).On("bundle", id)
}

// Unwrap returns why there are no versions.
func (e *NoVersionError) Unwrap() error { return e.Err }

func (e *NoVersionError) at() string { return e.Path[len(e.Path)-1].ID }

func (e *NoVersionError) steps() []Step { return e.Path }

// A CycleError is a circle of bundles that require each other. Path begins and ends with the same bundle.
type CycleError struct{ Path []Step }

func (e *CycleError) Error() string {
	names := make([]string, len(e.Path))
	for i, s := range e.Path {
		names[i] = fmt.Sprintf("%q %s", s.ID, s.Version)
	}
	return "bundles require each other in a cycle: " + strings.Join(names, " → ")
}

// Fault implements the interface of package fault.
func (e *CycleError) Fault() *fault.Error { return fault.New(fault.Circular, "%v", e).From(e) }

func (e *CycleError) at() string { return e.Path[0].ID }

func (e *CycleError) steps() []Step { return e.Path }

// inSource adds the bundle to an error about its versions, or about one of them.
func inSource(id, version string, err error) error {
	if version == "" {
		return fmt.Errorf("versions of %q: %w", id, err)
	}
	return fmt.Errorf("%q %s: %w", id, version, err)
}

func tooMany(what string, most int) error {
	return fault.New(fault.Limit, "more than %d %s", most, what)
}
