package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// A subject is a file under the name that somebody wants to use it by.
type subject struct {
	file  string
	name  string // kind:id
	kind  string
	style sign.Style
}

// newSubject takes a name apart. Whether it is one, and may be signed, is for the rooms below to say.
func newSubject(file, name string) (subject, error) {
	kind, id, ok := strings.Cut(name, ":")
	if !ok || kind == "" || id == "" {
		return subject{}, &fault{code: codeValidation, message: fmt.Sprintf("%q is not a name: expected kind:id", name),
			hint: []string{"rye help verify"}, details: map[string]any{"name": name}}
	}
	s := subject{file: file, name: name, kind: kind, style: sign.StyleOf(file)}
	if s.domain() != sign.Item {
		s.style = sign.Hash // documents, whatever their file is called
	}
	switch {
	case s.style == sign.NoStyle:
	case kind == "directive":
		s.style |= sign.V1Directive
	case kind == "knowledge":
		s.style |= sign.V1Knowledge
	case kind == "tool", kind == "bundle":
		s.style |= sign.V1Tool
	}
	return s, nil
}

// domain is what signatures of this kind of thing are made for.
func (s subject) domain() sign.Domain {
	switch s.kind {
	case "bundle":
		return sign.Manifest
	case "policy":
		return sign.Policy
	case "revocations":
		return sign.Revocations
	case "rotation":
		return sign.Rotation
	case "token":
		return sign.Token
	case "transcript":
		return sign.Transcript
	case "audit":
		return sign.Audit
	}
	return sign.Item
}

func (s subject) claim() sign.Claim { return sign.Claim{Domain: s.domain(), Name: s.name} }

// open opens the file, which must be a regular one: others never end.
func (s subject) open() (*os.File, error) {
	fi, err := os.Stat(s.file)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, &fault{code: codeValidation, message: fmt.Sprintf("%q is no regular file", s.file)}
	}
	return os.Open(s.file)
}

// An identity is what a signed document says of itself.
type identity struct {
	id      cas.Digest
	name    string
	expires time.Time
}

// readIdentity reads a document for what it says of itself. An item says nothing: its identity is empty.
func (s subject) readIdentity(r io.Reader) (id identity, err error) {
	switch s.kind {
	case "bundle":
		list, err := manifest.ReadFileList(r, func(*manifest.File) error { return nil })
		if err != nil {
			return id, err
		}
		return identity{list.ID, list.Name, list.Expires}, nil
	case "revocations":
		list, err := manifest.ReadRevocations(r)
		if err != nil {
			return id, err
		}
		return identity{list.ID, list.Name, list.Expires}, nil
	case "rotation":
		step, err := manifest.ReadRotation(r)
		if err != nil {
			return id, err
		}
		return identity{step.ID, step.Name, step.Step.Expires}, nil
	case "policy":
		b, err := io.ReadAll(io.LimitReader(r, maxPolicy+1))
		if err == nil {
			_, err = policy.Parse(b)
		}
		return id, err
	}
	return id, nil
}

// checkIdentity wants a document to be what it is asked for as, and the one whose signatures were looked at.
func (s subject) checkIdentity(r io.ReadSeeker, want cas.Digest, now time.Time) error {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	id, err := s.readIdentity(r)
	switch {
	case err != nil:
		return fmt.Errorf("%q: %w", s.file, err)
	case !id.id.IsZero() && id.id != want:
		return &fault{code: "CONFLICT", message: fmt.Sprintf("%q was changed while it was read", s.file)}
	case id.name != "" && id.name != s.name:
		return &fault{code: "INTEGRITY_FAILED", message: fmt.Sprintf("%q is not %q", s.file, s.name),
			why:     []string{"expected  " + s.name, "found     " + id.name},
			details: map[string]any{"expected": s.name, "found": id.name}}
	case !id.expires.IsZero() && !now.Before(id.expires):
		return &fault{code: "EXPIRED", message: fmt.Sprintf("%q expired at %s", s.name, id.expires.Format(time.RFC3339)),
			why: []string{"the clock says " + now.UTC().Format(time.RFC3339)}}
	}
	return nil
}

// An exam is what was found about a file, and what policy says to it.
type exam struct {
	subject
	signed   sign.Signed
	signers  []sign.Signer
	decision policy.Decision
}

// examine reads a file, verifies its signatures and asks the policies: what the file is worth for a purpose. It is
// refused by an error that is about the file itself, or by a decision.
func (t *trust) examine(s subject, r io.ReadSeeker, purpose policy.Purpose) (*exam, error) {
	e := &exam{subject: s}
	var err error
	e.signed, err = sign.Read(r, s.style)
	if err != nil {
		return e, err
	}
	request := policy.Request{Name: s.name, Purpose: purpose, Raw: e.signed.Raw, Stripped: e.signed.Stripped}
	if s.domain() != sign.Item {
		request.Document = e.signed.Stripped
	}
	if e.signed.Format == sign.V1 {
		e.signers, err = sign.CheckV1(e.signed, t.findV1)
	} else {
		e.signers, err = sign.Check(e.signed, s.claim(), t.find)
	}
	// Unsigned, or signed by strangers alone: the policy has the word, which may list the digest.
	if unknown, ok := errors.AsType[*sign.UnknownKeyError](err); ok {
		request.Unknown, err = unknown.Keys, nil
	}
	if errors.Is(err, sign.ErrUnsigned) {
		err = nil
	}
	if err != nil {
		return e, err
	}
	request.Signers = e.signers
	e.decision = t.decide(request)
	if e.decision.Allowed && s.domain() != sign.Item && e.signed.Format != sign.V1 {
		return e, s.checkIdentity(r, e.signed.Stripped, t.now)
	}
	return e, nil
}

// codeOf is the code of a refusal by policy.
func codeOf(c policy.Code) code {
	switch c {
	case policy.Unsigned:
		return "UNSIGNED"
	case policy.UntrustedKey:
		return "UNTRUSTED_KEY"
	case policy.NotYetValid, policy.Expired, policy.ListStale:
		return "EXPIRED"
	case policy.KeyRevoked:
		return "KEY_REVOKED"
	case policy.BelowThreshold:
		return "BELOW_THRESHOLD"
	case policy.Ambiguous:
		return codeConfig
	case policy.BadRequest:
		return codeValidation
	}
	return "POLICY_DENIED" // no rule, evidence only, format not accepted, digest revoked
}

// refusal says why a decision is no; nil if it is yes.
func (e *exam) refusal(t *trust) *fault {
	d := &e.decision
	if d.Allowed {
		return nil
	}
	file, name := quoteArg(e.file), quoteArg(e.name)
	f := &fault{code: codeOf(d.Code), message: fmt.Sprintf("%q, as %q, %s", e.file, e.name, d.Reason())}
	f.why = append(f.why, "policy    "+t.describe(d.Project))
	f.details = map[string]any{"reason": d.Code.String(), "rule": d.Rule, "file": e.file, "name": e.name}
	for _, l := range e.signed.Lines {
		f.why = append(f.why, "signed    by "+l.Key.String())
	}
	switch d.Code {
	case policy.Unsigned, policy.BelowThreshold:
		f.hint = []string{"rye sign " + file + " --as " + name}
	case policy.UntrustedKey:
		f.hint = []string{"rye trust add KEYFILE --owner OWNER", "rye trust check " + name}
	case policy.EvidenceOnly, policy.FormatNotAccepted:
		f.hint = []string{"rye sign --upgrade " + file + " --as " + name}
	case policy.ListStale:
		f.hint = []string{"rye trust update"}
	case policy.NoRule:
		f.hint = []string{"rye trust check " + name}
	default:
		f.hint = []string{"rye trust list"}
	}
	return f
}

// describe names the policy that decided.
func (t *trust) describe(project bool) string {
	au := t.root
	if project && t.project != nil {
		au = t.project
	}
	return fmt.Sprintf("%s (%s, %s)", au.path, au.origin, au.side.Policy.ID().Short())
}

// brokenFile adds to an error about a file's own signatures what a person needs beside it.
func (s subject) broken(err error) *fault {
	f := classify(err)
	var wrong *sign.IntegrityError
	var invalid *sign.SignatureInvalidError
	switch {
	case errors.As(err, &wrong):
		f.message = fmt.Sprintf("%q is not as it was signed", s.file)
	case errors.As(err, &invalid):
		f.message = fmt.Sprintf("%q, as %q: the %s", s.file, s.name, invalid)
		f.why = append(f.why, "it was damaged, forged, or made for another name")
	case f.code != codeUnknown && f.err != err:
		return f
	default:
		f.message = fmt.Sprintf("%q: %s", s.file, f.message)
	}
	if f.details == nil {
		f.details = map[string]any{}
	}
	f.details["file"], f.details["name"] = s.file, s.name
	return f
}
