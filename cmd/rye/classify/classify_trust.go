package classify

import (
	"cmp"
	"errors"
	"path"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock/index"
	ryeyaml "github.com/rye-build/rye/lock/project"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/exam"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/sign"
)

// ofTrust recognises what the rooms manifest/key, manifest/sign and manifest/policy say.
func ofTrust(f *fault.Error) bool {
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
	if ofExam(f) {
		return true
	}
	because := func(c fault.Code, reason string) {
		f.Code, f.Details = c, map[string]any{"reason": reason}
	}
	switch {
	case errors.As(f.Err, &mode):
		because(fault.Denied, "key-"+string(mode.By))
		f.Details["path"] = mode.Path
		f.Why = []string{"whoever else can read or write a key can sign as its owner"}
		f.Hint = []string{"chmod go= " + fault.Quote(mode.Path), "ls -ld " + fault.Quote(mode.Path)}
		if dir, err := osfile.IsDir(mode.Path); mode.By != key.ByMode && err != nil && !dir {
			// A key of our own, in a file of our own: that is what importing makes of it.
			f.Hint = []string{"ls -ld " + fault.Quote(mode.Path), "rye key import " + fault.Quote(mode.Path) + " " + KeyNameFor(mode.Path)}
		}
	case errors.As(f.Err, &refused):
		because(fault.Validation, "no-key")
	case errors.Is(f.Err, key.ErrPassphrase):
		because(fault.AuthFailed, "passphrase")
	case errors.Is(f.Err, key.ErrLocked):
		because(fault.Approval, "passphrase")
		f.Hint = []string{"export " + EnvPassphrase + "=…"}
	case errors.Is(f.Err, key.ErrFingerprint):
		f.Code = fault.Validation
	case errors.As(f.Err, &integrity):
		ofIntegrity(f, integrity)
	case errors.As(f.Err, &invalid):
		because(fault.SignatureInvalid, "signature-invalid")
		f.Details["key"] = invalid.Key.String()
	case errors.As(f.Err, &unknown):
		because(fault.UntrustedKey, policy.UntrustedKey.String())
		f.Details["keys"] = unknown.Keys
		f.Hint = []string{"rye trust add KEYFILE --owner OWNER --names GLOB"}
	case errors.As(f.Err, &version):
		because(fault.VersionMismatch, "signature-version")
		f.Hint = []string{"rye version"}
	case errors.Is(f.Err, sign.ErrUnsigned):
		because(fault.Unsigned, policy.Unsigned.String())
	case errors.Is(f.Err, sign.ErrV1):
		because(fault.Policy, policy.FormatNotAccepted.String())
	case errors.Is(f.Err, sign.ErrTooMany):
		because(fault.Limit, "too-many-signatures")
	case errors.Is(f.Err, sign.ErrChanged):
		because(fault.Conflict, "changed")
	case errors.Is(f.Err, sign.ErrNoStyle), errors.Is(f.Err, sign.ErrNoPlace), errors.As(f.Err, &claim), errors.As(f.Err, &edit):
		f.Code = fault.Validation
	case errors.As(f.Err, &file):
		f.Code, f.Details = fault.Config, map[string]any{"line": file.Line, "column": file.Column}
	case errors.As(f.Err, &owner):
		because(fault.Policy, "second-key")
		f.Details["owner"] = owner.New.Owner
		f.Details["known"], f.Details["new"] = owner.Known.Public.Fingerprint().String(), owner.New.Public.Fingerprint().String()
	case errors.As(f.Err, &list):
		because(list.Code.Fault(), list.Code.String())
		f.Details["list"] = list.Name
	case errors.Is(f.Err, policy.ErrNoList):
		because(fault.Policy, "list-not-named")
	case errors.As(f.Err, &step):
		because(step.Code.Fault(), step.Code.String())
		f.Details["rule"] = step.Rule
		OfRevoked(f, step.Revoked, step.List)
	default:
		return false
	}
	return true
}

// OfRevoked adds what was revoked, why, and by which list.
func OfRevoked(f *fault.Error, r *policy.Revocation, list string) {
	if r != nil {
		f.Details["revoked"], f.Details["revoked_because"] = r.What(), r.Reason
	}
	if list != "" {
		f.Details["list"] = list
	}
}

// ofExam recognises what the room manifest/exam says of documents.
func ofExam(f *fault.Error) bool {
	var (
		name  *exam.NameError
		ended *exam.ExpiredError
	)
	switch {
	case errors.As(f.Err, &name):
		f.Code, f.Why = fault.Integrity, []string{"expected  " + name.Want, "found     " + name.Found}
		f.Details = map[string]any{"reason": "other-document", "expected": name.Want, "found": name.Found}
	case errors.As(f.Err, &ended):
		f.Code, f.Why = fault.Expired, []string{"the clock says " + ended.Now.UTC().Format(time.RFC3339)}
		f.Details = map[string]any{"reason": "document-expired", "expires": ended.Expires.UTC().Format(time.RFC3339)}
	case errors.Is(f.Err, exam.ErrUnread):
		f.Code, f.Details = fault.Policy, map[string]any{"reason": "first-format-unread"}
	case errors.Is(f.Err, exam.ErrChanged):
		f.Code, f.Details = fault.Conflict, map[string]any{"reason": "changed"}
	default:
		return false
	}
	return true
}

// ofIntegrity shows the digest that was signed and the one found.
func ofIntegrity(f *fault.Error, e *sign.IntegrityError) {
	// What the errors around it say is where the document is.
	where, _ := strings.CutSuffix(f.Err.Error(), e.Error())
	if !strings.HasSuffix(where, ": ") {
		where = ""
	}
	f.Code, f.Text = fault.Integrity, where+"not as it was signed"
	f.Details = map[string]any{"reason": cmp.Or(e.What, "content"), "only_line_endings_differ": e.OnlyLineEndings}
	if e.Expected != "" {
		f.Why = []string{"expected  " + e.Expected, "found     " + e.Found}
		f.Details["expected"], f.Details["found"] = e.Expected, e.Found
	}
	if e.Reason != "" {
		f.Why = append(f.Why, strings.Split(e.Reason, "\n")...)
	}
	switch {
	case e.What == "lines" && !e.OnlyLineEndings:
		f.Text = where + "not as it was signed: a signature line is damaged: " + strings.ReplaceAll(e.Reason, "\n", " ")
		f.Why = append(f.Why, "cause     delete the damaged line; whoever vouches for the rest signs again")
	case e.OnlyLineEndings:
		f.Why = append(f.Why, "cause     only line endings differ: git or an editor has changed them")
		f.Hint = []string{"rye docs what-to-commit"}
	case e.What == "tree":
		f.Text = "a file beside it is not as it was signed"
		f.Why = append(f.Why, "cause     the other files that the signature covers were changed")
	case e.Expected != "":
		f.Why = append(f.Why, "cause     the file was changed after it was signed")
	}
	inSource(f)
}

// inSource says of a document of a source which one it is, and what tells more about it where that is a file.
func inSource(f *fault.Error) {
	signed, ok := errors.AsType[*sources.SignedError](f.Err)
	if !ok {
		return
	}
	f.Details["file"] = signed.Path
	source, ok := errors.AsType[*sources.Error](f.Err)
	if !ok {
		return
	}
	f.Details["source"] = source.Where
	if (ryeyaml.Source{Where: source.Where}).Remote() {
		return
	}
	if signed.Path == index.File {
		f.Hint = append(f.Hint, "rye verify "+fault.Quote(path.Join(source.Where, signed.Path))+" --as index:NAME")
	} else {
		f.Hint = append(f.Hint, "rye bundle verify "+fault.Quote(source.Where))
	}
}

// ofDocuments recognises what the room manifest says of documents and of its journal.
func ofDocuments(f *fault.Error) bool {
	var (
		document *manifest.DocumentError
		list     *manifest.ListError
		envelope *attest.EnvelopeError
		syntax   *canon.SyntaxError
		version  *canon.VersionError
		back     *rollback.Error
		journal  *rollback.DamagedError
		format   *rollback.VersionError
	)
	switch {
	case errors.As(f.Err, &version), errors.As(f.Err, &format):
		f.Code, f.Hint = fault.VersionMismatch, []string{"rye version"}
	case errors.As(f.Err, &document), errors.As(f.Err, &list), errors.As(f.Err, &syntax), errors.As(f.Err, &envelope):
		f.Code = fault.Parsing
	case errors.As(f.Err, &back):
		f.Code, f.Details = fault.Rollback, map[string]any{"reason": back.Reason(), "name": back.Step.Name}
		if strings.HasPrefix(back.Step.Name, "revocations:") {
			// In the same words whether it is the journal that tells or the last issue.
			f.Details["reason"] = map[string]policy.Code{rollback.Older: policy.ListOlder, rollback.Other: policy.ListForked}[back.Reason()].String()
		}
	case errors.As(f.Err, &journal):
		f.Code, f.Details = fault.Integrity, map[string]any{"reason": "journal", "path": journal.Path}
		f.Why = []string{"it remembers what was seen, so that nothing older is taken: without it nobody can tell",
			"bring it back from a copy; without both files rye begins anew, and believes what it sees first"}
		f.Hint = []string{"rm -f " + fault.Quote(journal.Path) + " " + fault.Quote(journal.Path+".lock")}
	default:
		return false
	}
	return true
}
