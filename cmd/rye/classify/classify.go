package classify

import (
	"context"
	"errors"
	"os"

	"github.com/rye-build/rye/cas/fault"
)

// Classify gives an error its code, cause and hint, where the room below doesn't yet.
func Classify(err error) *fault.Error {
	f := typed(err)
	var inner interface {
		error
		Fault() *fault.Error
	}
	// A type that is classified here decides if it wraps the fault, not if the fault wraps it.
	if f == nil || errors.As(err, &inner) && (inner.Fault().Code == fault.Busy || typed(inner) != nil) {
		return fault.Of(err)
	}
	return f
}

// typed classifies the error types that have no fault of their own yet: nil if err has none of them.
func typed(err error) *fault.Error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	f := &fault.Error{Code: fault.Unknown, Text: err.Error(), Err: err}
	if ofPlaces(f) || ofSecrets(f) || ofBuilds(f) || ofCalls(f) || ofLocks(f) || ofSources(f) || ofBundles(f) || ofWeb(f) ||
		ofItems(f) || ofTrust(f) || ofDocuments(f) {
		return f
	}
	return nil
}
