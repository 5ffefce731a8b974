package exec

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

// NotExecutable returns the error that a call names a primitive instead of a tool.
func NotExecutable(ref model.Ref) error {
	return fault.New(fault.Validation, "%q is a primitive and can't be run directly: run a tool that uses it",
		ref).On("ref", ref.String()).Try("rye docs tool-format")
}

// noPrimitive returns the error that this program lacks the primitive that a chain ends in.
func noPrimitive(ref model.Ref, id string) error {
	return fault.New(fault.ExecutorNotFound, "%q needs the primitive %q, which this rye doesn't have", ref, id).
		On("ref", ref.String()).On("primitive", id).Try("rye docs runtimes")
}

// inputError returns the error that the parameters of a call are invalid.
func inputError(ref model.Ref, err error) error {
	return invalid(err, ref, "invalid parameters for %q").Try(fault.Command("rye exec", ref.String()) + " --help")
}

// ConfigError returns the error that a declaration of a chain is invalid.
func ConfigError(ref model.Ref, err error) error {
	e := invalid(err, ref, "invalid configuration of %q")
	if len(e.Hint) == 0 {
		e.Try(fault.Command("rye show", ref.String()))
	}
	return e
}

// invalid returns err with the code Validation and with the ref of the tool. A failed program keeps its code.
func invalid(err error, ref model.Ref, format string) *fault.Error {
	text := fmt.Sprintf(format, ref)
	e, ok := fault.Find(err)
	if !ok {
		if e = fault.New(fault.Validation, "%v", err); ended(err) {
			return fault.Of(err)
		}
	}
	if e.Code != fault.Failed {
		e.Code = fault.Validation
	}
	e.Text, e.Err = text+": "+e.Text, err
	return e.On("ref", ref.String())
}

// ended reports whether the end of a context caused an error.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// filesError returns the error that a path of the project which a call is granted can't be given to it.
func filesError(ref model.Ref, path string, err error) error {
	return fault.New(fault.Denied, "%q is granted %q but can't use it: %v", ref, path, err).On("ref",
		ref.String()).On("path", path).From(err)
}

// A pin compares a program that a call starts with its line in the lock.
type pin struct {
	ref         model.Ref
	name, path  string
	want, found cas.Digest // want is zero where the lock has none
}

func (p pin) mismatch() error {
	text := func(d cas.Digest) string {
		if d.IsZero() {
			return ""
		}
		return d.String()
	}
	e := fault.New(fault.LockMismatch, "%q needs the program %q, and %s is not the one that the lock pins", p.ref,
		p.name, p.path)
	if p.want.IsZero() {
		e = fault.New(fault.NotLocked, "%q needs the program %q, and the lock doesn't pin %s", p.ref, p.name, p.path).
			Because("the policy has toolchain: enforce, so programs must be pinned too")
		e.Try("rye lock")
	} else { // a changed program is a weakening, which rye lock wants accepted by name
		e.Because("expected  "+p.want.String(), "found     "+p.found.String()).
			Try(fault.Command("rye lock --accept", p.name+" "+runtime.GOOS+"/"+runtime.GOARCH))
	}
	return e.On("ref", p.ref.String()).On("program", p.name).On("path", p.path).On("expected",
		text(p.want)).On("found", text(p.found))
}

// NotLogged returns the error that a call was not made because it can't be logged, or, if it ran, that its end can't
// be.
func NotLogged(ref model.Ref, ran bool, err error) error {
	text := "%q was not run because it can't be logged: %w"
	if ran {
		text = "%q was run, but its end can't be logged: %w"
	}
	logged := fmt.Errorf(text, ref, err)
	cause := fault.Of(err)
	if cause.Code == fault.Busy {
		return logged
	}
	e := fault.New(fault.Files, "%v", logged)
	if len(cause.Hint) == 0 { // the operating system's errors bring better advice
		cause.Hint = []string{"rye audit verify"}
	}
	return e.On("ref", ref.String()).On("reason", "audit").Because(cause.Why...).Try(cause.Hint...).From(err)
}
