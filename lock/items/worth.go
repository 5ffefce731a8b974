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
	w := Worth{Trust: "refused", Signers: []signing.SignerLine{}}
	found, err := v.Admit.Admit(ctx, it, policy.ToUse)
	if found != nil && found.Exam != nil && v.Trust != nil {
		d := &found.Decision
		au := v.Trust.Root
		if d.Project && v.Trust.Project != nil {
			au = v.Trust.Project
		}
		w.Rule = d.Rule
		w.Signers = append(w.Signers, signing.SignerLines(au, found.Exam, d.Signers)...)
	}
	if err != nil {
		f := fault.Of(err)
		reason, _ := f.Details["reason"].(string)
		w.Reason, w.Message = cmp.Or(reason, strings.ToLower(strings.ReplaceAll(string(f.Code), "_", "-"))), f.Text
		return w, nil
	}
	d := &found.Decision
	w.Reason = d.Code.String()
	if files := v.Asked.Unlisted(found); d.Allowed && len(files) > 0 {
		w.Reason, w.Message = policy.EvidenceOnly.String(), unlisted(files)
		return w, found
	}
	switch {
	case d.Allowed && d.Voucher == policy.Builtin:
		w.Trust = "builtin"
	case d.Allowed && d.ByDigest:
		w.Trust = "digest"
	case d.Allowed:
		w.Trust = "signed"
	case it.Signed.Format == sign.None && it.Broken == nil:
		w.Trust, w.Reason = "unsigned", policy.Unsigned.String()
		w.Message = "is not signed"
	default:
		w.Message = d.Reason()
	}
	return w, found
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
