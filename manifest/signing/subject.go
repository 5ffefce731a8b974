// Package signing signs and verifies files under the names they are used by, and says why one is refused.
//
// A Subject is a file and its name. Verify reads it, checks its signatures, asks the policies and returns the
// Evidence. A Signer adds a signature, in either format, and reports what the policies say about the result. Both work
// on bytes: the caller opens files and puts them in their place.
package signing

import (
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/sign"
)

// A Subject is a file and the name to use it by.
type Subject struct {
	admission.Subject
	File string
	Item bool // of a space, which is called by its name alone
}

// typed is how a command line names the subject.
func (s Subject) typed() string {
	if s.Item {
		return fault.Quote(s.Name)
	}
	return fault.Quote(s.File) + " --as " + fault.Quote(s.Name)
}

// NewSubject returns a file under a name, which must have the form kind:id. Signing and verifying check the rest.
func NewSubject(file, name string) (Subject, error) {
	kind, id, ok := strings.Cut(name, ":")
	if !ok || kind == "" || id == "" {
		return Subject{}, fault.New(fault.Validation, "%q is not a name: expected kind:id", name).
			Try("rye help verify").On("name", name)
	}
	return Subject{Subject: admission.Subject{Name: name, Style: sign.StyleOf(file)}, File: filepath.Clean(file)}, nil
}
