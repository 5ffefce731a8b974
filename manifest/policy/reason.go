package policy

import (
	"fmt"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/sign"
)

// Fault returns the fault code of a refusal.
func (c Code) Fault() fault.Code { return faults[c] }

var faults = [...]fault.Code{fault.Policy, fault.Policy, fault.Unsigned, fault.UntrustedKey, fault.Policy,
	fault.Policy,
	fault.Policy, fault.Expired, fault.Expired, fault.Revoked, fault.BelowThreshold, fault.Policy,
	fault.Expired, fault.Config, fault.Validation, fault.Rollback, fault.Rollback, fault.Rollback,
	fault.Policy, fault.Expired}

// Details adds the facts of a refusal to an error: its reason, the revocation, and the list that has it.
func (a *Answer) Details(f *fault.Error) *fault.Error {
	if a.Advice != nil {
		f.On("registry", a.Advice.Registry).On("bundle", a.Advice.Bundle)
	}
	if a.Notice != nil {
		f.On("advisory", a.Notice.ID).On("severity", a.Notice.Severity.String())
	}
	return addRevoked(f.On("reason", a.Code.String()), a.Revoked, a.List)
}

func addRevoked(f *fault.Error, r *Revocation, list string) *fault.Error {
	if r != nil {
		f.On("revoked", r.What()).On("revoked_because", r.Reason)
	}
	if list != "" {
		f.On("list", list)
	}
	return f
}

// Reason returns one sentence for people without its subject, the name, as in `signed by "alice", 1 of 1 under
// "acme/**"`. It quotes text from outside.
func (a *Answer) Reason() string {
	s := a.reason()
	if a.Project {
		s += " (by the project's policy)"
	}
	return s
}

func (a *Answer) reason() string {
	if a.Rotation {
		return a.rotation()
	}
	switch a.Code {
	case Admitted:
		return a.admitted()
	case Unsigned:
		if a.Rule == "" {
			return "is unsigned, and no rule of the policy covers its name"
		}
		return fmt.Sprintf("is unsigned; %q requires %s", a.Rule, fault.Count(int64(a.Threshold), "key"))
	case UntrustedKey:
		return "is not signed by a key of the policy" + a.signers()
	case NoRule:
		switch {
		case a.Rule == "":
			return "has a name that no rule of the policy covers" + a.signers()
		case a.Excepted:
			return fmt.Sprintf("has a name that the rule %q excepts", a.Rule) + a.signers()
		}
		return fmt.Sprintf("has a name that %q gives to other keys", a.Rule) + a.signers()
	case EvidenceOnly:
		return fmt.Sprintf(
			"is signed in the first format (v1), which may be shown and upgraded but not used: neither a manifest nor \"digests:\" lists its digest%s",
			a.signers())
	case FormatNotAccepted:
		return fmt.Sprintf("is signed in the first format (v1), which %q does not accept%s", a.Rule, a.signers())
	case NotYetValid:
		return "is signed by a key that is not valid yet" + a.signers()
	case Expired:
		return "is signed by a key that has expired" + a.signers()
	case KeyRevoked:
		return "is signed by a revoked key" + a.revocation() + a.signers()
	case BelowThreshold:
		return fmt.Sprintf("is signed by %d of the %s that %q requires%s", a.Count,
			fault.Count(int64(a.Threshold), "key"), a.Rule, a.signers())
	case DigestRevoked:
		return "is revoked" + a.revocation()
	case ListStale:
		return fmt.Sprintf("can't be checked: the revocation list %q %s", a.List, a.Detail)
	case Advised, AdvisoriesStale:
		return a.advisory()
	case Ambiguous, BadRequest:
		return "can't be decided: " + a.Detail
	}
	return "was not decided"
}

func (a *Answer) admitted() string {
	switch {
	case a.Voucher == Builtin:
		return "is part of this binary"
	case a.Voucher == Dev:
		return "is used as it is, for this one call"
	case a.ByDigest:
		return "is admitted by its digest"
	}
	return fmt.Sprintf("is signed by %d of %s under %q%s", a.Count, fault.Count(int64(a.Threshold), "key"), a.Rule,
		a.signers())
}

// rotation returns whether Rotate would apply the rotation.
func (a *Answer) rotation() string {
	if a.Code == Admitted {
		return fmt.Sprintf("can be applied: signed by %d of %s under %q and by the new key%s", a.Count,
			fault.Count(int64(a.Threshold), "key"), a.Rule, a.signers())
	}
	return "can't be applied: " + a.Detail + a.signers()
}

// signers lists the signers: those that count by name alone, the others with their fault.
func (a *Answer) signers() string {
	var all []string
	for _, v := range a.Signers {
		s := v.Key.Short()
		if v.Name != "" {
			s = fmt.Sprintf("%q", v.Name)
		}
		if v.Format == sign.V1 {
			s += " (v1)"
		}
		if v.Code != Admitted && v.Code != a.Code {
			s += ": " + v.Code.words()
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return ""
	}
	return "; signed by " + strings.Join(all, ", ")
}

func (a *Answer) revocation() string {
	if a.Revoked == nil {
		return ""
	}
	s := ": " + a.Revoked.What()
	if a.Revoked.Reason != "" {
		s += fmt.Sprintf(", %q", a.Revoked.Reason)
	}
	if date := yamltree.DateText(a.Revoked.Date); date != "" {
		s += ", " + date
	}
	if a.List != "" {
		s += fmt.Sprintf(", by the list %q", a.List)
	}
	return s
}
