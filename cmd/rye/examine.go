package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rye-build/rye/manifest/exam"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// A subject is a file under the name that somebody wants to use it by.
type subject struct {
	exam.Subject
	file string
	item bool // of a space, which is called by its name alone
}

// typed is how a command line names the subject.
func (s subject) typed() string {
	if s.item {
		return quoteArg(s.Name)
	}
	return quoteArg(s.file) + " --as " + quoteArg(s.Name)
}

// newSubject wants a name that can be taken apart. Whether it is one, and may be signed, is for the rooms below to
// say.
func newSubject(file, name string) (subject, error) {
	kind, id, ok := strings.Cut(name, ":")
	if !ok || kind == "" || id == "" {
		return subject{}, &fault{code: codeValidation, message: fmt.Sprintf("%q is not a name: expected kind:id", name),
			hint: []string{"rye help verify"}, details: map[string]any{"name": name}}
	}
	return subject{Subject: exam.Subject{Name: name, Style: sign.StyleOf(file)}, file: file}, nil
}

// open opens the file.
func (s subject) open() (*os.File, error) {
	f, err := openRegular(s.file)
	if other, ok := errors.AsType[*fault](err); ok {
		other.code = codeValidation // a directory is the wrong argument, not an unreadable file
	}
	return f, err
}

// An examined file is what was found about it, with where it is.
type examined struct {
	*exam.Exam
	subject subject
}

// examine reads a file, verifies its signatures and asks the policies.
func (t *trust) examine(s subject, r io.ReadSeeker, purpose policy.Purpose) (examined, error) {
	e, err := t.exam().Examine(s.Subject, r, purpose)
	return examined{e, s}, err
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
	case policy.ListOlder, policy.ListForked, policy.ListJump:
		return "ROLLBACK_DETECTED"
	}
	return "POLICY_DENIED" // no rule, evidence only, format not accepted, digest revoked
}

// refusal says why a decision is no; nil if it is yes.
func (e examined) refusal(t *trust) *fault {
	d := &e.Decision
	if d.Allowed {
		return nil
	}
	name := quoteArg(e.Name)
	f := &fault{code: codeOf(d.Code), message: fmt.Sprintf("%q, as %q, %s", e.subject.file, e.Name, d.Reason())}
	f.why = append(f.why, "policy    "+t.describe(d.Project))
	f.details = map[string]any{"reason": d.Code.String(), "rule": d.Rule, "file": e.subject.file, "name": e.Name}
	f.revoked(d.Revoked, d.List)
	for _, l := range e.Signed.Lines {
		f.why = append(f.why, "signed    by "+l.Key.String())
	}
	switch d.Code {
	case policy.NoRule:
		f.hint = []string{"rye trust check " + name}
		if d.Rotation {
			f.hint = []string{"rye trust list"}
		}
	case policy.Unsigned, policy.BelowThreshold:
		f.hint = []string{"rye sign " + e.subject.typed()}
	case policy.UntrustedKey:
		f.hint = []string{"rye trust add KEYFILE --owner OWNER", "rye trust check " + name}
	case policy.EvidenceOnly, policy.FormatNotAccepted:
		f.hint = []string{"rye sign --upgrade " + e.subject.typed()}
	case policy.DigestRevoked:
		f.why = append(f.why, "whoever signed it: what is revoked is not used")
		f.hint = []string{"rye trust list"}
	case policy.ListStale:
		f.hint = []string{"rye trust update"}
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
	var name *exam.NameError
	var ended *exam.ExpiredError
	switch {
	case errors.As(err, &name):
		f.message = fmt.Sprintf("%q is not %q", s.file, s.Name)
	case errors.As(err, &ended):
		f.message = fmt.Sprintf("%q expired at %s", s.Name, ended.Expires.UTC().Format(time.RFC3339))
	case errors.Is(err, exam.ErrChanged):
		f.message = fmt.Sprintf("%q was changed while it was read", s.file)
	case errors.As(err, &wrong):
		f.message = fmt.Sprintf("%q is not as it was signed", s.file)
	case errors.As(err, &invalid):
		f.message = fmt.Sprintf("%q, as %q: the %s", s.file, s.Name, invalid)
		f.why = append(f.why, "it was damaged, forged, or made for another name")
	case f.code != codeUnknown && f.err != err:
		return f
	default:
		f.message = fmt.Sprintf("%q: %s", s.file, f.message)
	}
	if f.details == nil {
		f.details = map[string]any{}
	}
	f.details["file"], f.details["name"] = s.file, s.Name
	return f
}
