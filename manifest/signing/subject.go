// Package signing signs and verifies files under the names of their use, and explains refusals.
//
// How a file goes through here: NewSubject joins it with its name. Verify reads it, checks its signatures and asks
// the policies (examine, package admission), and returns the Evidence (newEvidence) and the reason for a refusal
// (refusal, Broken). A Signer adds a signature in either format (Sign, signV2, signV1), and examines the result
// (signed). SignFile also writes the file to its place.
package signing

import (
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/sign"
)

// A Subject is a file and the name of its use.
type Subject struct {
	admission.Subject
	File string
	Item bool // an item of a space, which commands call by its name alone
}

// typed returns the subject's arguments on a command line.
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
