package items

import (
	"github.com/rye-build/rye/manifest/signing"

	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

// This file shows whether an item is trusted and locked.

// A Worth is the policy's verdict on an item: its signers, and whether it is admitted.
type Worth struct {
	Trust string `json:"trust"` // "builtin", "signed", "digest", "unsigned", "refused"
	// one word: the policy's reason, the file's problem, or "admitted"
	Reason  string               `json:"reason"`
	Message string               `json:"message,omitempty"`
	Rule    string               `json:"rule,omitempty"`
	Signers []signing.SignerLine `json:"signers"`
}

// Worth asks the policy whether an item may be used.
func (v *Items) Worth(ctx context.Context, it *ai.Item) (Worth, *ai.Admission) {
	worth := Worth{Trust: "refused", Signers: []signing.SignerLine{}}
	found, err := v.Admit.Admit(ctx, it, policy.ToUse)
	if found != nil && found.Exam != nil && v.Trust != nil {
		d := &found.Decision
		au := v.Trust.Root
		if d.Project && v.Trust.Project != nil {
			au = v.Trust.Project
		}
		worth.Rule = d.Rule
		worth.Signers = append(worth.Signers, signing.SignerLines(au, found.Exam, d.Signers)...)
	}
	if err != nil {
		f := fault.Of(err)
		reason, _ := f.Details["reason"].(string)
		worth.Reason, worth.Message = cmp.Or(reason, strings.ToLower(strings.ReplaceAll(string(f.Code), "_", "-"))),
			f.Text
		return worth, nil
	}
	decision := &found.Decision
	worth.Reason = decision.Code.String()
	if files := v.Asked.Unlisted(found); decision.Allowed && len(files) > 0 {
		worth.Reason, worth.Message = policy.EvidenceOnly.String(), unlisted(files)
		return worth, found
	}
	switch {
	case decision.Allowed && decision.Voucher == policy.Builtin:
		worth.Trust = "builtin"
	case decision.Allowed && decision.ByDigest:
		worth.Trust = "digest"
	case decision.Allowed:
		worth.Trust = "signed"
	case it.Signed.Format == sign.None && it.Broken == nil:
		worth.Trust, worth.Reason = "unsigned", policy.Unsigned.String()
		worth.Message = "is not signed"
	default:
		worth.Message = decision.Reason()
	}
	return worth, found
}

// unlisted returns an error text that names a file of a tool without a covering signature or manifest.
func unlisted(files []string) string {
	return fmt.Sprintf(
		"has only a v1 signature, which does not cover %q in its directory, and no admitted manifest lists it",
		files[0])
}

// Words returns the verdict for a column of a table.
func (w *Worth) Words() string {
	switch w.Trust {
	case "signed":
		var names []string
		for _, s := range w.Signers {
			if s.Verdict == policy.Admitted.String() {
				names = append(names, cmp.Or(s.Name, short(s.Key)))
			}
		}
		return "signed by " + strings.Join(names, ", ")
	case "digest":
		return "by its digest"
	case "refused":
		switch w.Reason {
		case "content":
			return "refused: changed since it was signed"
		case "tree":
			return "refused: its tree changed since it was signed"
		}
		return "refused: " + w.Reason
	}
	return w.Trust
}

// Locked compares an item with the project's lock: "locked", "differs" or "not locked".
func (v *Items) Locked(it *ai.Item, tree cas.Digest) string {
	if v.Lock == nil || v.Lock.Old == nil {
		return ""
	}
	p := v.Lock.Old.Pin(it.Ref)
	switch {
	case p == nil:
		return "not locked"
	case p.From != it.Space.Label, p.Digest != it.Raw, p.Tree != tree:
		return "differs"
	}
	return "locked"
}

// short returns the first digits of a fingerprint.
func short(s string) string { return s[:min(len(s), 12)] }
