package bundle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// A Check is the kind of a failure.
type Check string

// The checks.
const (
	CheckArchive    Check = "archive"    // the archive is invalid, or has trailing bytes
	CheckManifest   Check = "manifest"   // unreadable, or the manifest of another bundle
	CheckSignatures Check = "signatures" // the manifest's signatures are invalid, or too few for the policy
	CheckExpired    Check = "expired"    // the bundle has expired
	CheckMissing    Check = "missing"    // a file of the manifest is missing
	CheckExtra      Check = "extra"      // a file that isn't in the manifest
	CheckType       Check = "type"       // a link or device where a file should be
	CheckSize       Check = "size"
	CheckDigest     Check = "digest"
	CheckMode       Check = "mode"
	CheckRead       Check = "read"     // unreadable
	CheckRef        Check = "ref"      // the manifest gives an item another ref, or an asset a ref
	CheckVersion    Check = "version"  // the manifest gives an item another version
	CheckRevoked    Check = "revoked"  // a file other than an item, by its digest
	CheckParts      Check = "parts"    // an item of a plugin isn't what its skills and servers give
	CheckItem       Check = "item"     // an item's signature or tree is invalid, or policy doesn't admit it
	CheckRequires   Check = "requires" // a required bundle is missing, or in another version
	CheckEvidence   Check = "evidence" // required evidence is missing or invalid
	CheckProof      Check = "proof"    // the proof of a registry's log is of something else, or not believed
)

// A Failure is one reason why a bundle fails verification.
type Failure struct {
	Check           Check
	Path            string // of a file or, in CheckEvidence, its name; "" for the bundle as a whole
	Ref             string // of an item, else ""
	Expected, Found string // set if two values differ
	OnlyLineEndings bool   // the content would match with other line ends
	Err             error  // the cause, or nil
}

func (f *Failure) Error() string {
	text := string(f.Check)
	if f.Path != "" {
		text = fmt.Sprintf("%+q: %s", f.Path, text)
	}
	if f.Expected != "" || f.Found != "" {
		text += fmt.Sprintf(": expected %s, found %s", cmp.Or(f.Expected, "none"), cmp.Or(f.Found, "none"))
	}
	if f.OnlyLineEndings {
		text += " (only line endings differ)"
	}
	if f.Err != nil {
		text += ": " + f.Err.Error()
	}
	return text
}

func sortFailures(all []*Failure) {
	slices.SortStableFunc(all, func(a, b *Failure) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(string(a.Check), string(b.Check)))
	})
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// A Finding is a failure in the form for output.
type Finding struct {
	Check    string     `json:"check"`
	Code     fault.Code `json:"code"`
	Path     string     `json:"path"` // empty for the bundle as a whole
	Ref      string     `json:"ref,omitempty"`
	Expected string     `json:"expected,omitempty"`
	Found    string     `json:"found,omitempty"`
	LineEnds bool       `json:"only_line_endings_differ,omitempty"`
	Message  string     `json:"message"`
}

// Finding returns the failure with its code and its message.
func (f *Failure) Finding() Finding {
	out := Finding{Check: string(f.Check), Code: fault.Integrity, Path: f.Path, Ref: f.Ref, Expected: f.Expected,
		Found:    f.Found,
		LineEnds: f.OnlyLineEndings, Message: checkWords[f.Check]}
	if f.OnlyLineEndings {
		out.Message += ": only line endings differ"
	}
	code := fault.Unknown
	if f.Err != nil {
		cause := fault.Of(f.Err)
		code = cause.Line().Code
		out.Message += ": " + strings.TrimPrefix(cause.Text, "corrupt archive: ")
		if ends, _ := cause.Details["only_line_endings_differ"].(bool); ends {
			out.LineEnds = true
		}
		if out.Expected == "" && out.Found == "" {
			out.Expected, _ = cause.Details["expected"].(string)
			out.Found, _ = cause.Details["found"].(string)
		}
	}
	switch f.Check {
	case CheckExpired:
		out.Code = fault.Expired
	case CheckEvidence:
		out.Code = fault.Policy
	case CheckRequires:
		out.Code = fault.NotFound
	case CheckManifest, CheckSignatures, CheckRevoked, CheckItem, CheckRead, CheckProof:
		if code != fault.Unknown {
			out.Code = code
		}
	}
	return out
}

// Findings returns all failures of a report, never nil.
func Findings(all []*Failure) []Finding {
	out := make([]Finding, 0, len(all))
	for _, f := range all {
		out = append(out, f.Finding())
	}
	return out
}

// checkWords are the messages of the checks.
var checkWords = map[Check]string{
	CheckArchive: "corrupt archive", CheckManifest: "invalid manifest",
	CheckSignatures: "insufficient signatures of the manifest",
	CheckExpired:    "the bundle has expired", CheckMissing: "is missing", CheckExtra: "is not in the manifest",
	CheckType: "is not a regular file", CheckSize: "has another size", CheckDigest: "has other content",
	CheckMode: "has another mode", CheckRead: "is unreadable", CheckRef: "has another ref in the manifest",
	CheckVersion: "has another version in the manifest", CheckRevoked: "is revoked", CheckItem: "invalid item",
	CheckParts: "is not what rye makes of the plugin", CheckRequires: "a required bundle is missing",
	CheckEvidence: "required evidence is missing or invalid", CheckProof: "its proof doesn't count",
}

// Text returns the finding in one line.
func (f Finding) Text() string {
	if f.Path == "" {
		return f.Message
	}
	return fmt.Sprintf("%q %s", f.Path, f.Message)
}

// Compared returns the lines that compare the expected and the found value.
func (f Finding) Compared() (lines []string) {
	if f.Expected != "" || f.Found != "" {
		lines = append(lines, "expected  "+cmp.Or(f.Expected, "none"), "found     "+cmp.Or(f.Found, "none"))
	}
	return lines
}

// Fault returns the error for a bundle with failures. It lists all of them and has the code of the gravest.
func (r *Report) Fault() *fault.Error {
	name := "bundle"
	if r.Bundle != nil {
		name = r.BundleID + "@" + r.Version
	}
	findings := Findings(r.Failures)
	failure := fault.New("", "the bundle %q is refused: %s", name,
		fault.Count(int64(len(findings)), "failure")).On("failures", findings)
	var codes []fault.Code
	for i, l := range findings {
		if codes = append(codes, l.Code); i < fault.MaxLines {
			failure.Because(append([]string{l.Text()}, l.Compared()...)...)
		}
	}
	if more := len(findings) - fault.MaxLines; more > 0 {
		failure.Because(fmt.Sprintf("and %d more", more))
	}
	failure.Code = fault.Gravest(codes)
	return failure
}
