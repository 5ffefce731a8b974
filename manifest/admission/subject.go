package admission

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/sign"
)

// A Subject is a file and the name for its use.
type Subject struct {
	Name  string     // kind:id
	From  string     // the label of the space that has it; "" for files that no space has
	Style sign.Style // of the file's comments; ignored for documents, which use Hash

	// Tree and Files are the other files of a tool: the digest of their listing, and their digests.
	Tree  cas.Digest
	Files []cas.Digest

	// Known is the result of an earlier sign.Read of the same bytes, which makes reading them again unnecessary;
	// optional. Documents are read anyway.
	Known *Known

	Voucher policy.Voucher // the authority, if it isn't keys
	Advice  *policy.Advice // what a registry says about the bundle that it is from; optional
	Listed  bool           // a manifest that this Trust allows lists the raw digest

	// V1 reads the identity of a manifest of the first format, since its signature doesn't cover that. If it is nil,
	// such a manifest may be shown but not used.
	V1 func(io.Reader) (Identity, error)
}

// Known is the result of sign.Read.
type Known struct {
	Signed sign.Signed
	Err    error
}

// KnownOf returns s and err as a Known, or nil if s isn't about these bytes.
func KnownOf(file []byte, s sign.Signed, err error) *Known {
	if s.Raw != cas.Sum(file) {
		return nil
	}
	return &Known{s, err}
}

// Kind is the part of the name before the colon.
func (s Subject) Kind() string {
	kind, _, _ := strings.Cut(s.Name, ":")
	return kind
}

// Domain returns the domain of signatures under a name.
func Domain(name string) sign.Domain {
	switch (Subject{Name: name}).Kind() {
	case "bundle":
		return sign.Manifest
	case "policy":
		return sign.Policy
	case "revocations":
		return sign.Revocations
	case "rotation":
		return sign.Rotation
	case "index":
		return sign.Index
	case "token":
		return sign.Token
	case "transcript":
		return sign.Transcript
	case "audit":
		return sign.Audit
	case "advisories":
		return sign.Advisories
	}
	return sign.Item
}

// IsDocument reports whether the name is that of a document, not of an item.
func (s Subject) IsDocument() bool { return Domain(s.Name) != sign.Item }

// Claim returns the claim that the subject's signatures make.
func (s Subject) Claim() sign.Claim {
	return sign.Claim{Domain: Domain(s.Name), Name: s.Name, Tree: s.Tree}
}

// Signing returns the style of the subject's signature lines, with the rule for the first format if its kind has one.
func (s Subject) Signing() sign.Style {
	style := s.Style
	if s.IsDocument() {
		style = sign.Hash
	}
	if style == sign.NoStyle {
		return style
	}
	switch s.Kind() {
	case "directive":
		return style | sign.V1Directive
	case "knowledge":
		return style | sign.V1Knowledge
	case "tool", "bundle":
		return style | sign.V1Tool
	}
	return style
}

// An Identity is the name, id and expiry in a document. For an item, and for documents that this package can't read,
// it is zero.
type Identity struct {
	ID      cas.Digest
	Name    string    // as in Subject; "" for a policy
	Expires time.Time // zero for never
}

// A NameError is returned for a document with another name than the requested one.
type NameError struct{ Want, Found string }

func (e *NameError) Error() string {
	return fmt.Sprintf("the document is %+q, not %+q", e.Found, e.Want)
}

// Fault returns the error for people and programs.
func (e *NameError) Fault() *fault.Error {
	return fault.New(fault.Integrity, "%s", e).From(e).On("reason", "other-document").On("expected",
		e.Want).On("found", e.Found).
		Because("expected  "+e.Want, "found     "+e.Found)
}

// An ExpiredError is returned for a document that has expired.
type ExpiredError struct {
	Name         string
	Expires, Now time.Time
}

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("%+q expired at %s; the clock says %s", e.Name, e.Expires.UTC().Format(time.RFC3339),
		e.Now.UTC().Format(time.RFC3339))
}

// Fault returns the error for people and programs.
func (e *ExpiredError) Fault() *fault.Error {
	return fault.New(fault.Expired, "%s", e).From(e).On("reason", "document-expired").On("expires",
		e.Expires.UTC().Format(time.RFC3339)).
		Because("the clock says " + e.Now.UTC().Format(time.RFC3339))
}

// unread is the error about a document that is admitted by a v1 signature and can't be read as a v1 manifest. Such a
// signature binds no name, so the document could be any file that its signer ever signed.
func unread() error {
	return fault.New(fault.Policy, "signed in the v1 format, which binds no name, and not readable as a v1 manifest").
		On("reason", "first-format-unread")
}

// ErrChanged is returned for a file that changed between two reads.
var ErrChanged error = fault.New(fault.Conflict, "changed while it was read").On("reason", "changed")

// Identify reads a document from its beginning and checks that it is the subject, not expired, and has this id; the
// zero id matches any. For an item it reads nothing.
func (s Subject) Identify(r io.ReadSeeker, id cas.Digest, now time.Time) (Identity, error) {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return Identity{}, err
	}
	found, err := s.identity(r)
	if err != nil {
		return Identity{}, err
	}
	return found, s.is(found, id, now)
}

// identity reads the identity of a document.
func (s Subject) identity(in io.Reader) (Identity, error) {
	switch s.Kind() {
	case "bundle":
		list, err := manifest.ReadFileList(in, func(*manifest.File) error { return nil })
		if err != nil {
			return Identity{}, err
		}
		return Identity{list.ID, list.Name, list.Expires}, nil
	case "revocations":
		list, err := manifest.ReadRevocations(in)
		if err != nil {
			return Identity{}, err
		}
		return Identity{list.ID, list.Name, list.Expires}, nil
	case "rotation":
		step, err := manifest.ReadRotation(in)
		if err != nil {
			return Identity{}, err
		}
		return Identity{step.ID, step.Name, step.Step.Expires}, nil
	case "policy":
		b, err := io.ReadAll(io.LimitReader(in, yamltree.MaxBytes+1))
		if err != nil {
			return Identity{}, err
		}
		p, err := policy.Parse(b)
		if err != nil {
			return Identity{}, err
		}
		return Identity{ID: p.ID()}, nil
	}
	return Identity{}, nil
}

// is compares a document's identity with the subject.
func (s Subject) is(found Identity, id cas.Digest, now time.Time) error {
	switch {
	case !found.ID.IsZero() && !id.IsZero() && found.ID != id:
		return ErrChanged
	case found.Name != "" && found.Name != s.Name:
		return &NameError{s.Name, found.Name}
	case !found.Expires.IsZero() && !now.Before(found.Expires):
		return &ExpiredError{s.Name, found.Expires, now}
	}
	return nil
}
