package lock

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// A RefusedError lists every reason why a lock cannot become a set, in the order of the lock.
type RefusedError struct{ Problems []error }

func (e *RefusedError) Error() string {
	if more := len(e.Problems) - 1; more > 0 {
		return fmt.Sprintf("%v (and %d more)", e.Problems[0], more)
	}
	return e.Problems[0].Error()
}

// Unwrap returns the problems.
func (e *RefusedError) Unwrap() []error { return e.Problems }

// Fault implements the interface of package fault. A different library or a missing object comes first, because it
// explains the other problems.
func (e *RefusedError) Fault() *fault.Error {
	if std, ok := errors.AsType[*StdError](errors.Join(e.Problems...)); ok {
		return std.Fault()
	}
	if missing, ok := errors.AsType[*MissingError](errors.Join(e.Problems...)); ok {
		f := missing.Fault()
		f.Text = e.Error()
		return f
	}
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return fault.New(fault.LockMismatch, "the lock is inconsistent: %s",
		fault.Count(int64(len(lines)), "problem")).From(e).List(lines...).
		Try("rye lock --check", "rye lock --resolve")
}

// A MissingError names a missing object and what needs it. It is not an fs.ErrNotExist: an unreadable item must not
// pass for one that doesn't exist.
type MissingError struct {
	ID       cas.ID
	NeededBy string // a ref, or bundle:ID@VERSION
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is missing, needed by %q", e.ID, e.NeededBy)
}

// Fault implements the interface of package fault.
func (e *MissingError) Fault() *fault.Error { return Missing(e, e.ID, e.NeededBy) }

// Missing returns the fault of an object that neither the vendor directory nor the store has.
func Missing(err error, id cas.ID, neededBy string) *fault.Error {
	return fault.New(fault.NotFound, "%v", err).From(err).On("reason", "missing").On("object",
		id.String()).On("needed_by", neededBy).
		Because("it is neither in .ai/vendor nor in the store").Try("rye fetch")
}

// Unmet is the error for a requirement that the locked bundles don't meet. version is empty if the bundle isn't
// locked.
func Unmet(by, id, versions, version string) error {
	e := fault.New(fault.LockMismatch, "%s requires the bundle %q %s, which is not in the lock", by, id,
		versions).Try("rye lock")
	if version != "" {
		e.Text = fmt.Sprintf("%s requires the bundle %q %s, but %s is locked", by, id, versions, version)
	}
	return e
}

// inBundle is the error for a bundle that differs from the lock.
func inBundle(id, version string, err error) error {
	return fault.New(fault.LockMismatch, "%q: %v", BundleName(id, version), err).From(err).Try("rye lock")
}

// inPin is the error for an item that differs from its pin. A policy's refusal is returned unchanged: another lock
// would not help.
func inPin(ref model.Ref, err error) error {
	switch fault.CodeOf(err) {
	case fault.Policy, fault.Revoked, fault.Expired, fault.Unsigned, fault.UntrustedKey, fault.BelowThreshold:
		return err
	}
	return fault.New(fault.LockMismatch, "%q: %v", ref, err).From(err).Try("rye lock")
}

// A StdError lists the items of this binary's library that differ from their pins.
type StdError struct{ Items []StdItem } // in the order of the lock, at least one

// A StdItem is an item of the library that differs from its pin.
type StdItem struct {
	Ref             model.Ref
	Expected, Found cas.Digest // Found is zero if the library has no such item
	Tree            bool       // the digests are of the tool's other files
	Err             error      // why the item is unreadable; may be nil
}

func (i StdItem) String() string {
	what := ""
	if i.Tree {
		what = " with the files"
	}
	switch {
	case i.Err != nil:
		return fmt.Sprintf("%q: %v", i.Ref, i.Err)
	case i.Found.IsZero():
		return fmt.Sprintf("%q is locked as %s%s, but this library doesn't have it", i.Ref, i.Expected, what)
	}
	return fmt.Sprintf("%q is locked as %s%s, but is %s", i.Ref, i.Expected, what, i.Found)
}

func (e *StdError) Error() string {
	all := make([]string, len(e.Items))
	for i, it := range e.Items {
		all[i] = it.String()
	}
	return "the library of this rye differs from the lock: " + strings.Join(all, "; ")
}

// Fault implements the interface of package fault.
func (e *StdError) Fault() *fault.Error {
	var refs, lines []string
	for _, it := range e.Items {
		refs, lines = append(refs, it.Ref.String()), append(lines, it.String())
	}
	return fault.New(fault.LockMismatch, "the library of this rye differs from the lock: %s",
		fault.Count(int64(len(e.Items)), "item")).From(e).
		On("reason", "library").On("items", refs).Because(lines...).Try("rye lock --update " + Library)
}

// A NotLockedError is the error for an item without a pin, or with a pin that the caller can't reach.
type NotLockedError struct {
	Ref    model.Ref
	Pinned string // the space of its pin; may be empty
	Err    error  // the error of the search; may be nil
}

func (e *NotLockedError) Error() string {
	if e.Pinned != "" {
		return fmt.Sprintf("%q is locked from the space %q, but not found there: %v", e.Ref, e.Pinned, e.Err)
	}
	return fmt.Sprintf("%q is not locked", e.Ref)
}

// Unwrap returns the error of the search: an *ai.NotFoundError.
func (e *NotLockedError) Unwrap() error { return e.Err }

// Fault implements the interface of package fault.
func (e *NotLockedError) Fault() *fault.Error {
	return fault.New(fault.NotLocked, "%v", e).From(e).On("ref", e.Ref.String()).
		Try("rye lock", fault.Command("rye lock --sign", e.Ref.String())) // rye lock leaves drafts out
}

// mismatch is the error for an item that differs from its pin. what is space, path, digest, tree, version, interface,
// grants, or definition; an empty value means none.
func mismatch(ref model.Ref, what, expected, found string) error {
	name := fault.Quote(ref.String())
	return fault.New(fault.LockMismatch, "%q is locked with the %s %s, but has %s", ref, what, orNone(expected),
		orNone(found)).
		On("ref", ref.String()).On("reason", what).On("expected", expected).On("found", found).
		Try("rye diff "+name, "rye lock", "rye restore "+name)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return fmt.Sprintf("%q", s)
}

// BundleName returns the name of a bundle for errors.
func BundleName(id, version string) string { return "bundle:" + id + "@" + version }
