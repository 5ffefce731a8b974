// Package fault gives errors the code, the facts and the advice that every door of rye shows.
//
// An error that can reach a user is made where it arises, with its code:
//
//	return fault.New(fault.Validation, "%s is a primitive and can't be run directly", ref).On("ref", ref.String()).
//		Try("rye docs tool-format")
//
// A type of its own is worth it only where a caller looks for it with errors.As; such a type has the method
//
//	Fault() *fault.Error
//
// Doors (the command line, servers, threads) call Of, which finds the fault in an error's chain, or makes one of what
// the operating system reported. The code decides the exit status by the one table of this package, and what to do
// next stands beside the code: nothing is classified later, so every door says the same.
//
// A fault in JSON is the error object
//
//	{"code":"LOCK_MISMATCH","message":"…","details":{…},"retryable":false,"suggestion":"rye diff tool:a/b"}
package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/suggest"
)

// A Code names a kind of error for programs.
type Code string

// An Error is an error as people and programs see it.
type Error struct {
	Code    Code
	Text    string         // one line
	Why     []string       // further lines: where, expected and found, the likely cause
	Hint    []string       // commands to paste
	Details map[string]any // the same facts for programs
	Exit    int            // the exit status, where it isn't the code's
	Final   bool           // a retry fails again, although the code is retryable
	Err     error          // the cause, or nil
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Fault returns e itself.
func (e *Error) Fault() *Error { return e }

// New returns an error with a code. A cause is given by From.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Wrap returns err's fault with another text, which usually ends in err's: code, facts and hints stay.
func Wrap(err error, format string, args ...any) *Error {
	e := Of(err)
	e.Text, e.Err = fmt.Sprintf(format, args...), err
	return e
}

// On adds a fact to the details.
func (e *Error) On(name string, value any) *Error {
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details[name] = value
	return e
}

// Because adds lines that explain the text.
func (e *Error) Because(lines ...string) *Error {
	e.Why = append(e.Why, lines...)
	return e
}

// Near adds the name that word may have meant, if one of names is near.
func (e *Error) Near(word string, names []string) *Error {
	if meant := suggest.Names(word, names); len(meant) > 0 {
		e.Because("did you mean " + meant[0] + "?")
	}
	return e
}

// Try adds commands to paste. Arguments in them are quoted with Quote. A flag alone stands for the command that
// failed, with this flag.
func (e *Error) Try(commands ...string) *Error {
	e.Hint = append(e.Hint, commands...)
	return e
}

// From sets the cause.
func (e *Error) From(err error) *Error {
	e.Err = err
	return e
}

// Missing makes the exit status that of something not found.
func (e *Error) Missing() *Error {
	e.Exit = ExitMissing
	return e
}

// Asked marks e as the answer to a question: the command did its work, and the answer is no.
func (e *Error) Asked() *Error {
	e.Exit = ExitNo
	return e
}

// Permanent says that a retry fails again, although the code is retryable.
func (e *Error) Permanent() *Error {
	e.Final = true
	return e
}

// Line returns e's line of the table, with its own exit status; a code that isn't in the table counts as Unknown.
func (e *Error) Line() Line {
	table := Table()
	i := slices.IndexFunc(table, func(l Line) bool { return l.Code == e.Code })
	if i < 0 {
		i = slices.IndexFunc(table, func(l Line) bool { return l.Code == Unknown })
	}
	l := table[i]
	if e.Exit != 0 {
		l.Exit = e.Exit
	}
	l.Retryable = l.Retryable && !e.Final
	return l
}

// Find returns the first fault in err's chain, as Of does; ok is false if there is none.
func Find(err error) (e *Error, ok bool) {
	var found interface {
		error
		Fault() *Error
	}
	if !errors.As(err, &found) {
		return nil, false
	}
	e = found.Fault().clone()
	// What was put around the error stays around its text.
	if whole, inner := err.Error(), found.Error(); whole != inner && strings.Contains(whole, inner) {
		e.Text = strings.Replace(whole, inner, e.Text, 1)
	}
	return e, true
}

// Of returns the fault of an error that isn't nil: the first in its chain, else one made of what the context or the
// operating system reported, else Unknown. The caller may change it.
func Of(err error) *Error {
	if e, ok := Find(err); ok {
		return e
	}
	switch {
	case errors.Is(err, context.Canceled):
		return New(Cancelled, "interrupted").From(err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return New(Timeout, "%s", err).From(err)
	}
	return system(err)
}

// CodeOf returns the code of an error's fault.
func CodeOf(err error) Code { return Of(err).Code }

// clone returns a copy that shares nothing that can be changed.
func (e *Error) clone() *Error {
	c := *e
	c.Why, c.Hint, c.Details = slices.Clone(e.Why), slices.Clone(e.Hint), maps.Clone(e.Details)
	return &c
}
