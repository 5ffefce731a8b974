package lock

import (
	"fmt"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
)

// A RefusedError says why a lock makes no set: all of it, in the order of the lock. Each is a *BundleError, a *PinError,
// a *MissingError, a *RequirementError, a *StdError, or about two paths.
type RefusedError struct{ Problems []error }

func (e *RefusedError) Error() string {
	if more := len(e.Problems) - 1; more > 0 {
		return fmt.Sprintf("%v (and %d more)", e.Problems[0], more)
	}
	return e.Problems[0].Error()
}

// Unwrap returns the problems.
func (e *RefusedError) Unwrap() []error { return e.Problems }

// A MissingError says that an object isn't there, and who needs it. It is no fs.ErrNotExist: an item that can't be read
// must not be taken for one that doesn't exist.
type MissingError struct {
	ID       cas.ID
	NeededBy string // a ref, or bundle:ID@VERSION
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is missing, which %q needs", e.ID, e.NeededBy)
}

// A RequirementError says that what is required isn't what is locked.
type RequirementError struct {
	By      string // who requires it: "the project", or bundle:ID@VERSION
	ID      string // of the bundle
	Range   string
	Version string // that is locked; empty if there is none
}

func (e *RequirementError) Error() string {
	if e.Version == "" {
		return fmt.Sprintf("%s requires the bundle %q %s, which isn't in the lock", e.By, e.ID, e.Range)
	}
	return fmt.Sprintf("%s requires the bundle %q %s, which is locked as %s", e.By, e.ID, e.Range, e.Version)
}

// A BundleError says why what a lock says of a bundle doesn't fit.
type BundleError struct {
	ID, Version string
	Err         error
}

func (e *BundleError) Error() string {
	return fmt.Sprintf("%q: %v", bundleName(e.ID, e.Version), e.Err)
}

// Unwrap returns what is wrong.
func (e *BundleError) Unwrap() error { return e.Err }

// A PinError says why a pin doesn't fit.
type PinError struct {
	Ref model.Ref
	Err error
}

func (e *PinError) Error() string { return fmt.Sprintf("%q: %v", e.Ref, e.Err) }

// Unwrap returns what is wrong.
func (e *PinError) Unwrap() error { return e.Err }

// A StdError says that the library of this binary isn't the one that was pinned.
type StdError struct{ Items []StdItem } // in the order of the lock, at least one

// A StdItem is an item of the library that is another one.
type StdItem struct {
	Ref             model.Ref
	Expected, Found cas.Digest // Found is zero if there is no such item
	Tree            bool       // the digests are of the other files
	Err             error      // why nothing can be found; may be nil
}

func (e *StdError) Error() string {
	all := make([]string, len(e.Items))
	for i, it := range e.Items {
		what := ""
		if it.Tree {
			what = " with the files"
		}
		switch {
		case it.Err != nil:
			all[i] = fmt.Sprintf("%q: %v", it.Ref, it.Err)
		case it.Found.IsZero():
			all[i] = fmt.Sprintf("%q is locked as %s%s, and isn't part of it", it.Ref, it.Expected, what)
		default:
			all[i] = fmt.Sprintf("%q is locked as %s%s, and is %s", it.Ref, it.Expected, what, it.Found)
		}
	}
	return "this rye has another library: " + strings.Join(all, "; ")
}

// A NotLockedError says that an item isn't pinned, or not for whoever asks.
type NotLockedError struct {
	Ref    model.Ref
	Pinned string // the space that it is pinned from, where it is, and is out of reach
	Err    error  // what finding it said; may be nil
}

func (e *NotLockedError) Error() string {
	if e.Pinned != "" {
		return fmt.Sprintf("%q is locked from the space %q, and isn't found there from here: %v", e.Ref, e.Pinned, e.Err)
	}
	return fmt.Sprintf("%q isn't in the lock", e.Ref)
}

// Unwrap returns what finding it said: a *ai.NotFoundError.
func (e *NotLockedError) Unwrap() error { return e.Err }

// A MismatchError says that what was found under a ref isn't what is pinned.
type MismatchError struct {
	Ref             model.Ref
	What            string // space, path, digest, tree, version, interface, grants, or definition
	Expected, Found string // "" for nothing
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%q is locked with the %s %s, and has %s", e.Ref, e.What, orNone(e.Expected), orNone(e.Found))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return fmt.Sprintf("%q", s)
}

// A KindError says that items of a kind wouldn't mean what was pinned.
type KindError struct {
	Kind      string
	Extractor model.Ref
	Err       error
}

func (e *KindError) Error() string {
	return fmt.Sprintf("the kind %q is made by %q: %v", e.Kind, e.Extractor, e.Err)
}

// Unwrap returns what is wrong.
func (e *KindError) Unwrap() error { return e.Err }

// A ListedError says why a package of a tool's list can't be pinned.
type ListedError struct {
	Tool model.Ref
	Err  error
}

func (e *ListedError) Error() string { return fmt.Sprintf("%q needs a package: %v", e.Tool, e.Err) }

// Unwrap returns why.
func (e *ListedError) Unwrap() error { return e.Err }

// An UnpinnedError says that a package that a list names isn't in the lock.
type UnpinnedError struct{ Package string }

func (e *UnpinnedError) Error() string { return fmt.Sprintf("%s isn't in the lock", e.Package) }

// A TwoFilesError says that the lists of two tools name different files by one name, of which a lock has one.
type TwoFilesError struct {
	Name    string
	Sources [2]string
	Tools   [2]model.Ref
}

func (e *TwoFilesError) Error() string {
	return fmt.Sprintf("%s is %s for %q and %s for %q", e.Name, e.Sources[0], e.Tools[0], e.Sources[1], e.Tools[1])
}

func bundleName(id, version string) string { return "bundle:" + id + "@" + version }
