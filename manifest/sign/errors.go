package sign

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

var (
	// ErrUnsigned is returned for a file without signature lines.
	ErrUnsigned = because(fault.Unsigned, "unsigned", "unsigned")
	// ErrV1 is returned where a v1 signature isn't enough, or is in the way.
	ErrV1 = because(fault.Policy, "format-not-accepted", "signed in the v1 format only")
	// ErrV1Unread is ErrV1 for a line that no rule of v1 covers, so that rye can't check it.
	ErrV1Unread error = fault.New(fault.Policy, "signed in the v1 format only").On("reason", "format-not-accepted").
			Because("the v1 line can't be checked: v1 signs directives, knowledge and tools, in their first line",
			"look at the file, delete the line, then sign it")
	// ErrTooMany is returned for more than MaxLines signature lines.
	ErrTooMany = because(fault.Limit, "too-many-signatures", fmt.Sprintf("more than %d signature lines", MaxLines))
	// ErrChanged is returned if a file changed between two reads.
	ErrChanged = because(fault.Conflict, "changed", "file changed while it was being signed")
)

func because(c fault.Code, reason, text string) error {
	return fault.New(c, "%s", text).On("reason", reason)
}

// noStyle returns the error about a file that can't carry signature lines.
func noStyle() error {
	return fault.New(fault.Validation, "files of this type have no comments, so they can't carry a signature line")
}

// noPlace returns the error about a file whose first lines leave no place for a signature line.
func noPlace() error {
	return fault.New(fault.Validation, "no place for a signature line: "+
		"the line above it doesn't end or continues in the next, or the file is UTF-16")
}

// An IntegrityError is returned for a file that changed after it was signed, or whose signature lines are damaged or
// out of place.
type IntegrityError struct {
	What     string // "content" (also if empty) or "tree", with Expected and Found; or "lines", with Reason
	Expected string // "blake3:…"; in the v1 format "sha256:…"; "none" for a missing tree
	Found    string
	// OnlyLineEndings is set if the file would match with other line endings, as git and editors change them.
	OnlyLineEndings bool
	Reason          string
}

func (e *IntegrityError) Error() string {
	s := e.Reason
	if e.What != "lines" {
		s = fmt.Sprintf("%s was changed after signing: expected %s, found %s", cmp.Or(e.What, "content"), e.Expected,
			e.Found)
	}
	if e.OnlyLineEndings {
		s += " (only line endings differ)"
	}
	return s
}

// Fault returns the error for people and programs.
func (e *IntegrityError) Fault() *fault.Error {
	failure := fault.New(fault.Integrity, "does not match its signed digest").From(e).
		On("reason", cmp.Or(e.What, "content")).On("only_line_endings_differ", e.OnlyLineEndings)
	if e.Expected != "" {
		failure.Because("expected  "+e.Expected, "found     "+e.Found).On("expected", e.Expected).On("found", e.Found)
	}
	if e.Reason != "" {
		failure.Because(strings.Split(e.Reason, "\n")...)
	}
	switch {
	case e.OnlyLineEndings:
		failure.Because("cause     only line endings differ: git or an editor has changed them").
			Try("rye docs what-to-commit")
	case e.What == "lines":
		failure.Text += ": a signature line is damaged: " + strings.ReplaceAll(e.Reason, "\n", " ")
		failure.Because("cause     delete the damaged line and sign again")
	case e.What == "tree":
		failure.Text = "the files beside it do not match the signature"
		failure.Because("cause     another file that the signature covers was changed")
	case e.Expected != "":
		failure.Because("cause     the file was changed after it was signed")
	}
	return failure
}

// A SignatureInvalidError is returned for a bad signature by a known key over the right bytes: it was damaged or
// forged, or made for another name.
type SignatureInvalidError struct {
	Key  key.Fingerprint
	Name string // that the signature was checked for; "" in the v1 format, which signs no name
}

func (e *SignatureInvalidError) Error() string {
	s := fmt.Sprintf("invalid signature by the key %s", e.Key.Short())
	if e.Name != "" {
		s += " for " + quote(e.Name)
	}
	return s
}

// Fault returns the error for people and programs.
func (e *SignatureInvalidError) Fault() *fault.Error {
	return fault.New(fault.SignatureInvalid, "%s", e).From(e).On("reason", "signature-invalid").On("key",
		e.Key.String())
}

// An UnknownKeyError is returned for an unchanged file that only unknown keys signed.
type UnknownKeyError struct {
	Keys []string // fingerprints, or the 16 digits of the v1 format
}

func (e *UnknownKeyError) Error() string {
	return "signed by unknown keys only: " + strings.Join(e.Keys, ", ")
}

// Fault returns the error for people and programs.
func (e *UnknownKeyError) Fault() *fault.Error {
	return fault.New(fault.UntrustedKey, "%s", e).From(e).On("reason", "untrusted-key").On("keys", e.Keys).
		Try("rye docs keys")
}

// A VersionError is returned for a signature line in a newer format than this package reads.
type VersionError struct{ Found string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("unsupported signature format %q, expected v2", e.Found)
}

// Fault returns the error for people and programs.
func (e *VersionError) Fault() *fault.Error {
	return fault.New(fault.VersionMismatch, "%s", e).From(e).On("reason", "signature-version").Try("rye version")
}
