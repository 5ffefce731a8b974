// Package fault gives errors the code, the facts and the advice that every door of rye shows.
//
// An error that can reach a user is made where it arises, with its code:
//
//	return fault.New(fault.Validation, "%s is a primitive and can't be run directly", ref).On("ref", ref.String()).
//		Try("rye docs tool-format")
//
// An error has a type of its own only if a caller looks for it with errors.As. Such a type has the method
//
//	Fault() *fault.Error
//
// Doors (the command line, servers, threads) call Of, which finds the fault in an error's chain, or turns an error
// of the operating system into one. The one table of this package gives each code its exit status, and the fault
// carries the commands to try next. Doors classify nothing, so all of them show the same.
//
// How an error goes through here: New gives it a code; On, Because, List, Near and Try add facts, reasons and
// commands; From sets the cause. Callers may put more text around it, with fmt.Errorf or Wrap. A door calls Of,
// which looks for a fault (Find) and otherwise asks system. Line finds the code's line of the table, and Object is
// the form in JSON.
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
	Exit    int            // the exit status, if it isn't the code's; else 0
	Final   bool           // a retry fails again, although the code is retryable
	Plain   bool           // nothing is wrong: people see Text without "error:"
	Err     error          // the cause, or nil
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Fault returns e itself.
func (e *Error) Fault() *Error { return e }

// New returns an error with a code. From adds a cause.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Wrap returns err's fault with another text, which usually ends in err's. It keeps the code, the facts and the
// hints.
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

// Near adds the name that word may have meant, if one of names resembles it.
func (e *Error) Near(word string, names []string) *Error {
	if meant := suggest.Names(word, names); len(meant) > 0 {
		e.Because("did you mean " + meant[0] + "?")
	}
	return e
}

// Try adds commands to paste. The caller quotes their arguments with Quote. A flag alone means the failed command
// with this flag.
func (e *Error) Try(commands ...string) *Error {
	e.Hint = append(e.Hint, commands...)
	return e
}

// From sets the cause.
func (e *Error) From(err error) *Error {
	e.Err = err
	return e
}

// Missing sets the exit status to ExitMissing.
func (e *Error) Missing() *Error {
	e.Exit = ExitMissing
	return e
}

// Asked marks e as the answer to a question: the command did its work, and the answer is no.
func (e *Error) Asked() *Error {
	e.Exit = ExitNo
	return e
}

// Answer marks e as the answer to a question, like Asked, where no is as good as yes: a newer version, a difference, a
// count of what didn't pass.
func (e *Error) Answer() *Error {
	e.Plain = true
	return e.Asked()
}

// Permanent marks e as not retryable, although its code is.
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
func Find(err error) (failure *Error, ok bool) {
	var found interface {
		error
		Fault() *Error
	}
	if !errors.As(err, &found) {
		return nil, false
	}
	failure = found.Fault().clone()
	// Keep the text that callers have put around the error's own.
	if outer, inner := err.Error(), found.Error(); outer != inner && strings.Contains(outer, inner) {
		failure.Text = strings.Replace(outer, inner, failure.Text, 1)
	}
	return failure, true
}

// Of returns the fault of an error that isn't nil: the first in its chain, else one for an error of the context or
// the operating system, else Unknown. The caller may change it.
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

// CodeOf returns the code of an error's fault, and none for no error.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return Of(err).Code
}

// clone returns a copy whose lists and details can be changed.
func (e *Error) clone() *Error {
	c := *e
	c.Why, c.Hint, c.Details = slices.Clone(e.Why), slices.Clone(e.Hint), maps.Clone(e.Details)
	return &c
}
