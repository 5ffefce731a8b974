package canon

import (
	"fmt"

	"github.com/rye-build/rye/cas/fault"
)

// A SyntaxError reports bytes that are not a canonical document of the expected family, or exceed a limit.
type SyntaxError struct {
	Family string // expected, as in "tree"
	Line   int    // from 1; 0 for the document as a whole
	Column int    // in bytes, from 1; 0 for the line as a whole
	Msg    string
}

func (e *SyntaxError) Error() string {
	return fault.In(e.Family, e.Line, e.Column, e.Msg)
}

// Fault returns the error as people and programs see it.
func (e *SyntaxError) Fault() *fault.Error {
	f := fault.New(fault.Parsing, "%s", e).From(e)
	if e.Line > 0 {
		f.On("line", e.Line)
	}
	return f
}

// A VersionError reports a document of the right family and another version.
type VersionError struct {
	Found string // as in "tree/3"
	Want  string // as in "tree/2"
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("document has format %q, expected %q", e.Found, e.Want)
}

// Fault returns the error as people and programs see it.
func (e *VersionError) Fault() *fault.Error {
	return fault.New(fault.VersionMismatch, "%s", e).From(e).Try("rye version")
}
