package classify

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/vendor"
)

const EnvPassphrase = "RYE_KEY_PASSPHRASE"

// BundleFailure is one thing that is wrong with a bundle.
type BundleFailure struct {
	Check    string     `json:"check"`
	Code     fault.Code `json:"code"`
	Path     string     `json:"path"` // empty for the bundle as a whole
	Ref      string     `json:"ref,omitempty"`
	Expected string     `json:"expected,omitempty"`
	Found    string     `json:"found,omitempty"`
	LineEnds bool       `json:"only_line_endings_differ,omitempty"`
	Message  string     `json:"message"`
}

// NewBundleFailure says what is wrong in the words of this program.
func NewBundleFailure(f *bundle.Failure) BundleFailure {
	out := BundleFailure{Check: string(f.Check), Code: failureCode(f), Path: f.Path, Ref: f.Ref, Expected: f.Expected, Found: f.Found, LineEnds: f.OnlyLineEndings,
		Message: failureWords(f)}
	if f.Err != nil {
		inner := Classify(f.Err)
		if out.Expected == "" && out.Found == "" {
			out.Expected, _ = inner.Details["expected"].(string)
			out.Found, _ = inner.Details["found"].(string)
		}
		if ends, _ := inner.Details["only_line_endings_differ"].(bool); ends {
			out.LineEnds = true
		}
	}
	return out
}

// failureCode is the code of what is wrong.
func failureCode(f *bundle.Failure) fault.Code {
	switch f.Check {
	case bundle.CheckExpired:
		return fault.Expired
	case bundle.CheckManifest, bundle.CheckSignatures, bundle.CheckRevoked, bundle.CheckItem, bundle.CheckRead:
		if f.Err != nil {
			if c := Classify(f.Err).Line().Code; c != fault.Unknown {
				return c
			}
		}
	case bundle.CheckEvidence:
		return fault.Policy
	}
	return fault.Integrity
}

// failureWords says in a line what is wrong with a file, or with the bundle as a whole.
func failureWords(f *bundle.Failure) string {
	words := map[bundle.Check]string{
		bundle.CheckArchive: "is no archive of a bundle", bundle.CheckManifest: "the manifest is wrong", bundle.CheckSignatures: "the manifest's signatures are not enough",
		bundle.CheckExpired: "the bundle has expired", bundle.CheckMissing: "is missing", bundle.CheckExtra: "is not in the manifest",
		bundle.CheckType: "not a regular file", bundle.CheckSize: "has another size", bundle.CheckDigest: "has other bytes",
		bundle.CheckMode: "has another mode", bundle.CheckRead: "can't be read", bundle.CheckRef: "is called by another name in the manifest",
		bundle.CheckVersion: "has another version in the manifest", bundle.CheckRevoked: "is revoked", bundle.CheckItem: "the item is refused",
		bundle.CheckEvidence: "evidence is wanted that isn't there or doesn't hold",
	}[f.Check]
	if f.OnlyLineEndings {
		words += ": only line endings differ"
	}
	if f.Err != nil {
		words += ": " + strings.TrimPrefix(Classify(f.Err).Text, "corrupt archive: ")
	}
	return words
}

// Text is a failure in one line.
func (f BundleFailure) Text() string {
	if f.Path == "" {
		return f.Message
	}
	return fmt.Sprintf("%q %s", f.Path, f.Message)
}

// Compared is what was expected and what was found.
func (f BundleFailure) Compared() (lines []string) {
	if f.Expected != "" || f.Found != "" {
		lines = append(lines, "expected  "+cmp.Or(f.Expected, "none"), "found     "+cmp.Or(f.Found, "none"))
	}
	return lines
}

// WordsFor returns the code of an error about a file, and what it says without naming the file again.
func WordsFor(err error) (fault.Code, string) {
	if e, ok := errors.AsType[*ai.ItemError](err); ok && error(e) == err {
		err = e.Err
	}
	f := Classify(err)
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return fault.Files, pe.Err.Error()
	}
	if f.Code == fault.Unknown {
		f.Code = fault.Validation
	}
	return f.Code, f.Text
}

func DigestText(d cas.Digest) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}

// IsDamaged reports whether an error says that bytes aren't what they were.
func IsDamaged(err error) bool {
	_, inVendor := errors.AsType[*vendor.Error](err)
	_, object := errors.AsType[*cas.DamagedError](err)
	return inVendor || object
}
