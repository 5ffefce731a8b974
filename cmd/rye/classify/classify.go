package classify

import (
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/fault"
)

// Classify gives an error its code, cause and hint, where the room below doesn't yet.
func Classify(err error) *fault.Error {
	// These take their code from a cause that may not have one of its own yet.
	switch e := err.(type) {
	case *ai.ItemError:
		if typed(e.Err) != nil {
			err = &ai.ItemError{Ref: e.Ref, Space: e.Space, Path: e.Path, Err: Classify(e.Err)}
			return fault.Of(err)
		}
	case *ai.ChainError:
		if e.Err != nil && typed(e.Err) != nil {
			err = &ai.ChainError{Code: e.Code, Ref: e.Ref, Path: e.Path, Issues: e.Issues, Err: Classify(e.Err)}
			return fault.Of(err)
		}
	}
	f := typed(err)
	var inner interface {
		error
		Fault() *fault.Error
	}
	if f == nil || errors.As(err, &inner) && (inner.Fault().Code == fault.Busy || !wraps(err)) {
		return fault.Of(err)
	}
	return f
}

// wraps reports whether one of rye's error types without a fault of its own is around the first one with a fault: then
// that type decides.
func wraps(err error) bool {
	if _, ok := err.(interface{ Fault() *fault.Error }); ok || err == nil {
		return false
	}
	if t := reflect.Indirect(reflect.ValueOf(err)).Type(); strings.HasPrefix(t.PkgPath(), "github.com/rye-build/rye/") {
		return true
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(all.Unwrap(), wraps)
	}
	return wraps(errors.Unwrap(err))
}

// typed classifies the error types that have no fault of their own yet: nil if err has none of them.
func typed(err error) *fault.Error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	f := &fault.Error{Code: fault.Unknown, Text: err.Error(), Err: err}
	if ofClosure(f) {
		return f
	}
	return nil
}
