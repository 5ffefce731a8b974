package signing

import (
	"io"
	"slices"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
	"github.com/rye-build/rye/manifest/trust"
)

// Evidence is the result of verifying one file, admitted or refused.
type Evidence struct {
	Name    string `json:"name"`
	File    string `json:"file"`
	Space   string `json:"space,omitempty"` // of an item
	Allowed bool   `json:"allowed"`
	Trust   string `json:"trust"` // "signed", "digest", "builtin", "unsigned", "refused"
	// one word for the result: the policy's, or that of the error about the file
	Reason    string       `json:"reason"`
	Code      fault.Code   `json:"code,omitempty"` // of the refusal
	Message   string       `json:"message,omitempty"`
	Raw       string       `json:"raw"`
	Stripped  string       `json:"stripped"`       // without signature lines; of a document its id
	Tree      string       `json:"tree,omitempty"` // of the tool's other files
	TreeFiles int          `json:"tree_files"`
	Format    string       `json:"format"` // "none", "v1", "v2"
	Rule      string       `json:"rule"`
	Count     int          `json:"count"`     // of keys that count
	Threshold int          `json:"threshold"` // required by the rule
	Signers   []SignerLine `json:"signers"`
	Policy    string       `json:"policy"` // the file that decided
	PolicyID  string       `json:"policy_id"`
	Origin    string       `json:"origin"`            // "user", "--trust", "RYE_TRUST", "project"
	Beside    string       `json:"project,omitempty"` // the project's policy, which allows it too
	Revoked   string       `json:"revoked,omitempty"` // the revoked key or digest
	List      string       `json:"list,omitempty"`    // the revocation list that revokes it, or that is stale
	Warnings  []string     `json:"warnings"`
	Next      string       `json:"next,omitempty"` // the command that applies an allowed rotation
	Expected  string       `json:"expected,omitempty"`
	Found     string       `json:"found,omitempty"`
	LineEnds  bool         `json:"only_line_endings_differ,omitempty"`
	// of a refused file: the line of its signatures or of the mistake; 0 for the whole file
	Line     int      `json:"line,omitempty"`
	Sentence string   `json:"-"` // the policy's reason in full
	Hint     []string `json:"-"` // for the report, where the hints about items don't fit
}

// Verify reads a file, checks its signatures and asks the policies. The fault is the refusal, nil if the file may
// be used. lists remembers the rotations that were applied.
func Verify(t *trust.Trust, lists trust.Lists, s Subject, file io.ReadSeeker) (*Evidence, *fault.Error) {
	examined, err := examine(t, s, file, policy.ToUse)
	ans := newEvidence(t, examined)
	failure := examined.refusal(t)
	if err != nil {
		failure = s.Broken(err)
	} else if failure == nil && examined.Decision.Rotation {
		if err = lists.CheckOnce(t.Root.RotationStep(examined.Identity.Name, examined.Identity.ID,
			t.Now)); err != nil {
			failure = fault.Of(err)
		}
	}
	if err != nil {
		ans.refuse(failure)
	}
	if failure != nil {
		ans.Code, ans.Message, ans.Line = failure.Line().Code, failure.Text, examined.Signed.Line()
	}
	return ans, failure
}

// Refused returns the evidence about a file that can't be examined.
func Refused(t *trust.Trust, name, file, space string, err error) (*Evidence, *fault.Error) {
	f := fault.Of(err)
	v := &Evidence{Name: name, File: file, Space: space, Format: "none", Signers: []SignerLine{}, Warnings: []string{},
		Policy: t.Root.Path, PolicyID: t.Root.Side.Policy.ID().String(), Origin: t.Root.Origin, Code: f.Line().Code,
		Message: f.Text}
	v.Line, _ = f.Details["line"].(int)
	v.refuse(f)
	return v, f
}

func newEvidence(trusted *trust.Trust, examined examined) *Evidence {
	decision := &examined.Decision
	ans := &Evidence{
		Name: examined.Name, File: examined.About.File, Allowed: decision.Allowed, Trust: "refused",
		Raw:      examined.Signed.Raw.String(),
		Stripped: examined.Signed.Stripped.String(),
		Format:   examined.Signed.Format.String(), Rule: decision.Rule, Count: decision.Count,
		Threshold: decision.Threshold,
		Signers:   []SignerLine{}, Warnings: append([]string{}, decision.Warnings...),
	}
	au := trusted.Root
	if decision.Project && trusted.Project != nil {
		au = trusted.Project
	}
	ans.Policy, ans.PolicyID, ans.Origin = au.Path, au.Side.Policy.ID().String(), au.Origin
	if decision.Code != policy.Undecided {
		ans.Reason, ans.Sentence = decision.Code.String(), decision.Reason()
	}
	if !examined.Tree.IsZero() {
		ans.Tree = examined.Tree.String()
	}
	switch {
	case decision.Allowed && decision.Voucher == policy.Builtin:
		ans.Trust = "builtin"
	case decision.Allowed && decision.ByDigest:
		ans.Trust = "digest"
	case decision.Allowed:
		ans.Trust = "signed"
	case examined.Signed.Format == sign.None:
		ans.Trust = "unsigned"
	}
	if decision.Revoked != nil {
		ans.Revoked = decision.Revoked.What()
	}
	ans.List = decision.List
	if decision.Rotation && decision.Allowed {
		ans.Next = "rye trust add --rotation " + fault.Quote(examined.About.File)
	}
	if decision.Beside != nil {
		ans.Beside = trusted.Project.Path
		ans.Warnings = append(ans.Warnings, decision.Beside.Warnings...)
	}
	ans.Signers = append(ans.Signers, SignerLines(au, examined.Exam, decision.Signers)...)
	return ans
}

// refuse turns v into a refusal because of the file itself, regardless of the policies' answer.
func (v *Evidence) refuse(f *fault.Error) {
	v.Allowed, v.Trust = false, "refused"
	v.Reason, _ = f.Details["reason"].(string)
	v.Expected, _ = f.Details["expected"].(string)
	v.Found, _ = f.Details["found"].(string)
	v.LineEnds, _ = f.Details["only_line_endings_differ"].(bool)
}

// A SignerLine is a policy's verdict on one signer of a file.
type SignerLine struct {
	Key     string `json:"key"`  // its fingerprint
	Name    string `json:"name"` // in the policy; empty if it has none
	Owner   string `json:"owner"`
	Format  string `json:"format"`
	Time    string `json:"time"` // claimed by the signature: information
	Verdict string `json:"verdict"`
}

// SignerLines joins a policy's verdict on each signer with the time that the signature claims.
func SignerLines(au *trust.Authority, e *admission.Exam, verdicts []policy.Verdict) (lines []SignerLine) {
	for _, v := range verdicts {
		l := SignerLine{Key: v.Key.String(), Name: v.Name, Format: v.Format.String(), Verdict: v.Code.String()}
		if au != nil { // without a policy owners are unknown
			k, _ := au.Side.Policy.Key(v.Key)
			l.Owner = k.Owner
		}
		for _, s := range e.Signers {
			if s.Key.Fingerprint() == v.Key && !s.Time.IsZero() {
				l.Time = s.Time.Format(time.RFC3339)
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// A Report is the evidence about all requested files.
type Report struct {
	Files   []*Evidence `json:"files"`
	Allowed int         `json:"allowed"`
	Refused int         `json:"refused"`
}

// NewReport counts the allowed and the refused files. Its error is the refusal: one, unless that is nil, else a
// summary.
func NewReport(files []*Evidence, one *fault.Error) (*Report, error) {
	report := &Report{Files: files}
	for _, v := range files {
		if v.Allowed {
			report.Allowed++
		} else {
			report.Refused++
		}
	}
	switch {
	case report.Refused == 0:
		return report, nil
	case one != nil:
		return report, one.Asked()
	}
	return report, report.fault().Asked()
}

// fault counts the refused files. Its code is the gravest of theirs.
func (r *Report) fault() *fault.Error {
	var codes []fault.Code
	unsigned := false
	for _, v := range r.Files {
		if !v.Allowed {
			codes = append(codes, v.Code)
		}
		unsigned = unsigned || v.Code == fault.Unsigned && v.Space != ""
	}
	failure := fault.New(fault.Gravest(codes), "%d of %s refused", r.Refused, fault.Count(int64(len(r.Files)), "item"))
	if unsigned {
		failure.Try("rye sign ITEM")
	}
	for _, v := range r.Files {
		for _, hint := range v.Hint {
			if !slices.Contains(failure.Hint, hint) {
				failure.Try(hint)
			}
		}
	}
	return failure
}
