package main

import (
	"cmp"
	"errors"
	"path"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/lock/index"
	ryeyaml "github.com/rye-build/rye/lock/project"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/exam"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/sign"
)

// ofTrust recognises what the rooms manifest/key, manifest/sign and manifest/policy say.
func (f *fault) ofTrust() bool {
	var (
		mode      *key.ModeError
		refused   *key.RefusedError
		integrity *sign.IntegrityError
		invalid   *sign.SignatureInvalidError
		unknown   *sign.UnknownKeyError
		version   *sign.VersionError
		claim     *sign.ClaimError
		file      *yamltree.Error
		edit      *policy.EditError
		owner     *policy.OwnerError
		list      *policy.ListError
		step      *policy.RotationError
	)
	if f.ofExam() {
		return true
	}
	because := func(c code, reason string) {
		f.code, f.details = c, map[string]any{"reason": reason}
	}
	switch {
	case errors.As(f.err, &mode):
		because(codeDenied, "key-"+string(mode.By))
		f.details["path"] = mode.Path
		f.why = []string{"whoever else can read or write a key can sign as its owner"}
		f.hint = []string{"chmod go= " + quoteArg(mode.Path), "ls -ld " + quoteArg(mode.Path)}
		if dir, err := isDir(mode.Path); mode.By != key.ByMode && err != nil && !dir {
			// A key of our own, in a file of our own: that is what importing makes of it.
			f.hint = []string{"ls -ld " + quoteArg(mode.Path), "rye key import " + quoteArg(mode.Path) + " " + keyNameFor(mode.Path)}
		}
	case errors.As(f.err, &refused):
		because(codeValidation, "no-key")
	case errors.Is(f.err, key.ErrPassphrase):
		because("AUTH_FAILED", "passphrase")
	case errors.Is(f.err, key.ErrLocked):
		because("APPROVAL_REQUIRED", "passphrase")
		f.hint = []string{"export " + envPassphrase + "=…"}
	case errors.Is(f.err, key.ErrFingerprint):
		f.code = codeValidation
	case errors.As(f.err, &integrity):
		f.integrity(integrity)
	case errors.As(f.err, &invalid):
		because("SIGNATURE_INVALID", "signature-invalid")
		f.details["key"] = invalid.Key.String()
	case errors.As(f.err, &unknown):
		because("UNTRUSTED_KEY", policy.UntrustedKey.String())
		f.details["keys"] = unknown.Keys
		f.hint = []string{"rye trust add KEYFILE --owner OWNER --names GLOB"}
	case errors.As(f.err, &version):
		because("VERSION_MISMATCH", "signature-version")
		f.hint = []string{"rye version"}
	case errors.Is(f.err, sign.ErrUnsigned):
		because("UNSIGNED", policy.Unsigned.String())
	case errors.Is(f.err, sign.ErrV1):
		because("POLICY_DENIED", policy.FormatNotAccepted.String())
	case errors.Is(f.err, sign.ErrTooMany):
		because("LIMIT_EXCEEDED", "too-many-signatures")
	case errors.Is(f.err, sign.ErrChanged):
		because("CONFLICT", "changed")
	case errors.Is(f.err, sign.ErrNoStyle), errors.Is(f.err, sign.ErrNoPlace), errors.As(f.err, &claim), errors.As(f.err, &edit):
		f.code = codeValidation
	case errors.As(f.err, &file):
		f.code, f.details = codeConfig, map[string]any{"line": file.Line, "column": file.Column}
	case errors.As(f.err, &owner):
		because("POLICY_DENIED", "second-key")
		f.details["owner"] = owner.New.Owner
		f.details["known"], f.details["new"] = owner.Known.Public.Fingerprint().String(), owner.New.Public.Fingerprint().String()
	case errors.As(f.err, &list):
		because(codeOf(list.Code), list.Code.String())
		f.details["list"] = list.Name
	case errors.Is(f.err, policy.ErrNoList):
		because("POLICY_DENIED", "list-not-named")
	case errors.As(f.err, &step):
		because(codeOf(step.Code), step.Code.String())
		f.details["rule"] = step.Rule
		f.revoked(step.Revoked, step.List)
	default:
		return false
	}
	return true
}

// revoked adds what was revoked, why, and by which list.
func (f *fault) revoked(r *policy.Revocation, list string) {
	if r != nil {
		f.details["revoked"], f.details["revoked_because"] = r.What(), r.Reason
	}
	if list != "" {
		f.details["list"] = list
	}
}

// ofExam recognises what the room manifest/exam says of documents.
func (f *fault) ofExam() bool {
	var (
		name  *exam.NameError
		ended *exam.ExpiredError
	)
	switch {
	case errors.As(f.err, &name):
		f.code, f.why = "INTEGRITY_FAILED", []string{"expected  " + name.Want, "found     " + name.Found}
		f.details = map[string]any{"reason": "other-document", "expected": name.Want, "found": name.Found}
	case errors.As(f.err, &ended):
		f.code, f.why = "EXPIRED", []string{"the clock says " + ended.Now.UTC().Format(time.RFC3339)}
		f.details = map[string]any{"reason": "document-expired", "expires": ended.Expires.UTC().Format(time.RFC3339)}
	case errors.Is(f.err, exam.ErrUnread):
		f.code, f.details = "POLICY_DENIED", map[string]any{"reason": "first-format-unread"}
	case errors.Is(f.err, exam.ErrChanged):
		f.code, f.details = "CONFLICT", map[string]any{"reason": "changed"}
	default:
		return false
	}
	return true
}

// integrity says what was signed and what is there.
func (f *fault) integrity(e *sign.IntegrityError) {
	// What the errors around it say is where the document is.
	where, _ := strings.CutSuffix(f.err.Error(), e.Error())
	if !strings.HasSuffix(where, ": ") {
		where = ""
	}
	f.code, f.message = "INTEGRITY_FAILED", where+"not as it was signed"
	f.details = map[string]any{"reason": cmp.Or(e.What, "content"), "only_line_endings_differ": e.OnlyLineEndings}
	if e.Expected != "" {
		f.why = []string{"expected  " + e.Expected, "found     " + e.Found}
		f.details["expected"], f.details["found"] = e.Expected, e.Found
	}
	if e.Reason != "" {
		f.why = append(f.why, strings.Split(e.Reason, "\n")...)
	}
	switch {
	case e.What == "lines" && !e.OnlyLineEndings:
		f.message = where + "not as it was signed: a signature line is damaged: " + strings.ReplaceAll(e.Reason, "\n", " ")
		f.why = append(f.why, "cause     delete the damaged line; whoever vouches for the rest signs again")
	case e.OnlyLineEndings:
		f.why = append(f.why, "cause     only line endings differ: git or an editor has changed them")
		f.hint = []string{"rye docs what-to-commit"}
	case e.What == "tree":
		f.message = "a file beside it is not as it was signed"
		f.why = append(f.why, "cause     the other files that the signature covers were changed")
	case e.Expected != "":
		f.why = append(f.why, "cause     the file was changed after it was signed")
	}
	f.inSource()
}

// inSource says of a document of a source which one it is, and what tells more about it where that is a file.
func (f *fault) inSource() {
	signed, ok := errors.AsType[*sources.SignedError](f.err)
	if !ok {
		return
	}
	f.details["file"] = signed.Path
	source, ok := errors.AsType[*sources.Error](f.err)
	if !ok {
		return
	}
	f.details["source"] = source.Where
	if (ryeyaml.Source{Where: source.Where}).Remote() {
		return
	}
	if signed.Path == index.File {
		f.hint = append(f.hint, "rye verify "+quoteArg(path.Join(source.Where, signed.Path))+" --as index:NAME")
	} else {
		f.hint = append(f.hint, "rye bundle verify "+quoteArg(source.Where))
	}
}

// ofDocuments recognises what the room manifest says of documents and of its journal.
func (f *fault) ofDocuments() bool {
	var (
		document *manifest.DocumentError
		list     *manifest.ListError
		syntax   *canon.SyntaxError
		version  *canon.VersionError
		back     *rollback.Error
		journal  *rollback.DamagedError
		format   *rollback.VersionError
	)
	switch {
	case errors.As(f.err, &version), errors.As(f.err, &format):
		f.code, f.hint = "VERSION_MISMATCH", []string{"rye version"}
	case errors.As(f.err, &document), errors.As(f.err, &list), errors.As(f.err, &syntax):
		f.code = "PARSING_ERROR"
	case errors.As(f.err, &back):
		f.code, f.details = "ROLLBACK_DETECTED", map[string]any{"reason": back.Reason(), "name": back.Step.Name}
		if strings.HasPrefix(back.Step.Name, "revocations:") {
			// In the same words whether it is the journal that tells or the last issue.
			f.details["reason"] = map[string]policy.Code{rollback.Older: policy.ListOlder, rollback.Other: policy.ListForked}[back.Reason()].String()
		}
	case errors.As(f.err, &journal):
		f.code, f.details = "INTEGRITY_FAILED", map[string]any{"reason": "journal", "path": journal.Path}
		f.why = []string{"it remembers what was seen, so that nothing older is taken: without it nobody can tell",
			"bring it back from a copy; without both files rye begins anew, and believes what it sees first"}
		f.hint = []string{"rm -f " + quoteArg(journal.Path) + " " + quoteArg(journal.Path+".lock")}
	default:
		return false
	}
	return true
}
