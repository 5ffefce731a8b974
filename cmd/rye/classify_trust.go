package main

import (
	"errors"
	"strings"

	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/yamltree"
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
	switch {
	case errors.As(f.err, &mode):
		f.code, f.details = codeDenied, map[string]any{"path": mode.Path}
		f.why = []string{"whoever else can read or write a key can sign as its owner"}
		f.hint = []string{"ls -ld " + quoteArg(mode.Path), "chmod go= " + quoteArg(mode.Path)}
	case errors.As(f.err, &refused):
		f.code, f.exit = codeValidation, exitRefused
	case errors.Is(f.err, key.ErrPassphrase):
		f.code = "AUTH_FAILED"
	case errors.Is(f.err, key.ErrLocked):
		f.code, f.hint = "APPROVAL_REQUIRED", []string{"export " + envPassphrase + "=…"}
	case errors.Is(f.err, key.ErrFingerprint):
		f.code = codeValidation
	case errors.As(f.err, &integrity):
		f.integrity(integrity)
	case errors.As(f.err, &invalid):
		f.code, f.details = "SIGNATURE_INVALID", map[string]any{"key": invalid.Key.String()}
	case errors.As(f.err, &unknown):
		f.code, f.details = "UNTRUSTED_KEY", map[string]any{"keys": unknown.Keys}
		f.hint = []string{"rye trust add KEYFILE --owner OWNER"}
	case errors.As(f.err, &version):
		f.code, f.hint = "VERSION_MISMATCH", []string{"rye version"}
	case errors.Is(f.err, sign.ErrUnsigned):
		f.code = "UNSIGNED"
	case errors.Is(f.err, sign.ErrV1):
		f.code = "POLICY_DENIED"
	case errors.Is(f.err, sign.ErrTooMany):
		f.code = "LIMIT_EXCEEDED"
	case errors.Is(f.err, sign.ErrChanged):
		f.code = "CONFLICT"
	case errors.Is(f.err, sign.ErrNoStyle), errors.Is(f.err, sign.ErrNoPlace), errors.As(f.err, &claim), errors.As(f.err, &edit):
		f.code = codeValidation
	case errors.As(f.err, &file):
		f.code, f.details = codeConfig, map[string]any{"line": file.Line, "column": file.Column}
	case errors.As(f.err, &owner):
		f.code = "POLICY_DENIED"
		f.details = map[string]any{"owner": owner.New.Owner, "known": owner.Known.Public.Fingerprint().String(), "new": owner.New.Public.Fingerprint().String()}
	case errors.As(f.err, &list), errors.Is(f.err, policy.ErrNoList):
		f.code = "POLICY_DENIED"
	case errors.As(f.err, &step):
		f.code = codeOf(step.Code)
	default:
		return false
	}
	return true
}

// integrity says what was signed and what is there.
func (f *fault) integrity(e *sign.IntegrityError) {
	f.code, f.message = "INTEGRITY_FAILED", "not as it was signed"
	f.details = map[string]any{"only_line_endings_differ": e.OnlyLineEndings}
	if e.Expected != "" {
		f.why = []string{"expected  " + e.Expected, "found     " + e.Found}
		f.details["expected"], f.details["found"] = e.Expected, e.Found
	}
	if e.Reason != "" {
		f.why = append(f.why, strings.Split(e.Reason, "\n")...)
	}
	switch {
	case e.OnlyLineEndings:
		f.why = append(f.why, "cause     only line endings differ: git or an editor has changed them")
		f.hint = []string{"echo '.ai/** -text' >> .gitattributes"}
	case e.What == "tree":
		f.why = append(f.why, "cause     the other files that the signature covers were changed")
	case e.Expected != "":
		f.why = append(f.why, "cause     the file was changed after it was signed")
	}
}

// ofDocuments recognises what the room manifest says of documents and of its journal.
func (f *fault) ofDocuments() bool {
	var (
		document *manifest.DocumentError
		list     *manifest.ListError
		syntax   *canon.SyntaxError
		version  *canon.VersionError
		rollback *manifest.RollbackError
		journal  *manifest.JournalError
		format   *manifest.JournalVersionError
		busy     *manifest.BusyError
	)
	switch {
	case errors.As(f.err, &version), errors.As(f.err, &format):
		f.code, f.hint = "VERSION_MISMATCH", []string{"rye version"}
	case errors.As(f.err, &document), errors.As(f.err, &list), errors.As(f.err, &syntax):
		f.code = "PARSING_ERROR"
	case errors.As(f.err, &rollback):
		f.code = "ROLLBACK_DETECTED"
	case errors.As(f.err, &journal):
		f.code, f.details = "INTEGRITY_FAILED", map[string]any{"path": journal.Path}
		f.why = []string{"it remembers what was seen, so that nothing older is taken: without it nobody can tell"}
	case errors.As(f.err, &busy):
		f.code = "BUSY"
	default:
		return false
	}
	return true
}
