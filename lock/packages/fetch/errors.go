package fetch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

var errLarge = fault.New(fault.Limit, "larger than %d GiB", maxFile>>30)

// inPackage adds the package to an error about its file, unless the error names it already.
func inPackage(name, where string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	f := fault.Of(err)
	if f.Details["package"] != nil {
		return err
	}
	if f.Text = err.Error(); strings.HasPrefix(f.Text, strconv.Quote(where)) {
		f.Text = name + ": " + f.Text
	} else {
		f.Text = fmt.Sprintf("%s from %q: %s", name, where, f.Text)
	}
	return f.From(err).On("package", name)
}

// An OfflineError is the error for a file that rye may not fetch.
type OfflineError struct{ Package, Where string }

func (e *OfflineError) Error() string {
	return fmt.Sprintf("%s is not in the store, and rye is offline: it would be fetched from %q", e.Package, e.Where)
}

// Offline marks the error for package lock.
func (e *OfflineError) Offline() bool { return true }

// Fault implements the interface of package fault.
func (e *OfflineError) Fault() *fault.Error {
	return fault.New(fault.Offline, "%v", e).From(e).On("package", e.Package).On("url", e.Where).Try("rye fetch",
		"rye vendor")
}

// notFound is the error for a package without a usable file that the list allows. others is how many of its files
// aren't wheels.
func notFound(name, where string, others int) error {
	e := fault.New(fault.NotFound, "%q has no file of %s with a digest of the list", where, name).On("package",
		name).On("where", where).Try("rye docs packages")
	if others > 0 {
		e.Text = fmt.Sprintf("the list names no wheel of %s, and rye runs no source builds", name)
	}
	return e
}

// wrongDigest is the error for a file that differs from the list or the lock.
func wrongDigest(name, where, expected, found string) error {
	return fault.New(fault.Integrity, "%s from %q has the digest %s, expected %s", name, where, found, expected).
		On("package", name).On("where", where).On("expected", expected).On("found", found).
		Because("the list was made with another file of this name; rye discarded this file")
}
