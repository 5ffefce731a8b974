package registry

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var errLarge = fmt.Errorf("is larger than %d GiB", maxFile>>30)

// An Error says why a package can't be had from where it was looked for.
type Error struct {
	Package string // as in "pypi:requests@2.32.3"
	Where   string // an address, or a directory or file
	Err     error
}

func (e *Error) Error() string {
	if text := e.Err.Error(); strings.HasPrefix(text, strconv.Quote(e.Where)) {
		return e.Package + ": " + text // which names the place already
	}
	return fmt.Sprintf("%s from %q: %v", e.Package, e.Where, e.Err)
}

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// about says of an error which package it is about, unless that says it itself.
func about(name, where string, err error) error {
	if err == nil {
		return nil
	}
	_, offline := errors.AsType[*OfflineError](err)
	_, absent := errors.AsType[*NotFoundError](err)
	_, digest := errors.AsType[*DigestError](err)
	_, told := errors.AsType[*Error](err)
	if offline || absent || digest || told {
		return err
	}
	return &Error{name, where, err}
}

// An OfflineError says that a file would have to be fetched.
type OfflineError struct{ Package, Where string }

func (e *OfflineError) Error() string {
	return fmt.Sprintf("%s isn't here, and nothing is fetched from %q: rye is offline", e.Package, e.Where)
}

// Offline reports that nothing else is wrong.
func (e *OfflineError) Offline() bool { return true }

// A NotFoundError says that a registry has no file that the list allows and that can be used.
type NotFoundError struct {
	Package, Where string
	Others         int // files that the list allows and that are no wheels
}

func (e *NotFoundError) Error() string {
	if e.Others > 0 {
		return fmt.Sprintf("%s has no wheel among the files that its list allows, and source builds never run", e.Package)
	}
	return fmt.Sprintf("%q has no file of %s with a digest that its list allows", e.Where, e.Package)
}

// A DigestError says that a file isn't the one that was asked for.
type DigestError struct{ Package, Where, Expected, Found string }

func (e *DigestError) Error() string {
	return fmt.Sprintf("%s from %q is %s, and should be %s", e.Package, e.Where, e.Found, e.Expected)
}
