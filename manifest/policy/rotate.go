package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/sign"
)

// A Rotation is what a rotation document says: in one rule, one key takes the place of another. What reads it
// (package manifest) has verified who signed it.
type Rotation struct {
	Rule    string            // the glob of the rule
	Before  []key.Fingerprint // all keys of the rule as it stands: the step starts there and nowhere else
	Retire  key.Fingerprint   // the one of them that goes
	Key     Key               // the one that comes
	Expires time.Time         // of the document; the zero time: never
}

// A RotationError says why a rotation is not taken.
type RotationError struct {
	Rule   string
	Code   Code // KeyRevoked, Expired, NotYetValid, BelowThreshold, FormatNotAccepted, NoRule, BadRequest
	Reason string
}

func (e *RotationError) Error() string { return fmt.Sprintf("rotation of %q: %s", e.Rule, e.Reason) }

// Rotate carries out one rotation. The document must be signed by as many of the rule's keys as the rule asks
// for, the one that retires may be among them, and by the new key, all valid now. It must start from the very
// keys that the rule has, so that steps can't be left out or made twice.
func (s *Side) Rotate(r Rotation, signers []sign.Signer, now time.Time) (Edit, error) {
	rule := slices.IndexFunc(s.Policy.sections.Rules, func(x Rule) bool { return x.Glob == r.Rule })
	bad := func(code Code, format string, args ...any) (Edit, error) {
		return Edit{}, &RotationError{r.Rule, code, fmt.Sprintf(format, args...)}
	}
	if rule < 0 {
		return bad(NoRule, "the policy has no such rule")
	}
	old := s.Policy.rules[rule].keys
	fresh := r.Key.Public.Fingerprint()
	switch {
	case r.Key.Public.IsZero():
		return bad(BadRequest, "it names no new key")
	case now.IsZero():
		return bad(BadRequest, "no time is given to compare with")
	case !sameKeys(old, r.Before):
		return bad(NoRule, "it starts from %s, the rule has %s: each step must be taken, in order", prints(r.Before), prints(ofSet(old)))
	case !old[r.Retire]:
		return bad(NoRule, "%s, which is to go, is no key of the rule", r.Retire.Short())
	case old[fresh]:
		return bad(NoRule, "%s, which is to come, is a key of the rule already", fresh.Short())
	case !r.Expires.IsZero() && !now.Before(r.Expires):
		return bad(Expired, "it expired at %s; the clock says %s", clock(r.Expires), clock(now))
	}
	if err := s.rotationSigners(r, rule, fresh, signers, now); err != nil {
		return Edit{}, err
	}
	return s.exchange(r, rule)
}

// rotationSigners wants the threshold of old keys and the new one.
func (s *Side) rotationSigners(r Rotation, rule int, fresh key.Fingerprint, signers []sign.Signer, now time.Time) error {
	// The policy's own words about a key it knows already hold, not those of the document.
	incoming := r.Key
	if known, ok := s.Policy.Key(fresh); ok {
		incoming = known
	}
	if fault := s.keyFault(incoming, now); fault != Admitted {
		return &RotationError{r.Rule, fault, fmt.Sprintf("the new key %s: %s", fresh.Short(), fault)}
	}
	old := s.Policy.rules[rule].keys
	counted := map[key.Fingerprint]bool{}
	worst, own := BelowThreshold, false
	for _, signer := range signers {
		f := signer.Key.Fingerprint()
		switch {
		case signer.Format != sign.V2:
		case f == fresh:
			own = true
		case old[f]:
			k, _ := s.Policy.Key(f)
			fault := s.keyFault(k, now)
			if fault == Admitted {
				counted[f] = true
			} else if worst == BelowThreshold || fault > worst {
				worst = fault
			}
		}
	}
	want := s.Policy.sections.Rules[rule].Threshold
	if len(counted) < want {
		return &RotationError{r.Rule, worst, fmt.Sprintf("it is signed by %d of the %s that the rule asks for: %s", len(counted), keys(want), worst)}
	}
	if !own {
		return &RotationError{r.Rule, BelowThreshold, fmt.Sprintf("it is not signed by the new key %s", fresh.Short())}
	}
	return nil
}

// exchange makes the new policy. The old key stays under "keys:" as long as another rule or a list names it.
func (s *Side) exchange(r Rotation, rule int) (Edit, error) {
	p := s.Policy
	retired, _ := p.Key(r.Retire)
	name := r.Key.Name
	known, have := p.Key(r.Key.Public.Fingerprint())
	if have {
		name = known.Name
	} else if other, taken := p.KeyNamed(name); taken && other.Public != retired.Public {
		return Edit{}, &OwnerError{other, r.Key}
	}
	used := slices.ContainsFunc(p.sections.Lists, func(l Source) bool { return l.Key == retired.Name })
	for i, other := range p.sections.Rules {
		used = used || i != rule && slices.Contains(other.Keys, retired.Name)
	}
	if used && name == retired.Name {
		return Edit{}, &OwnerError{retired, r.Key}
	}
	return p.change(func(root *yamltree.Node) {
		if !used {
			root.Get("keys").Drop(retired.Name, true)
		}
		if !have {
			addKey(root.Entry("keys", order...), r.Key)
		}
		for _, item := range root.Get("names").Get(r.Rule).Get("keys").Kids {
			if item.Text == retired.Name {
				item.Text, item.Plain = name, false
			}
		}
	})
}

func sameKeys(set map[key.Fingerprint]bool, all []key.Fingerprint) bool {
	seen := map[key.Fingerprint]bool{}
	for _, f := range all {
		if !set[f] || seen[f] {
			return false
		}
		seen[f] = true
	}
	return len(seen) == len(set)
}

func ofSet(set map[key.Fingerprint]bool) []key.Fingerprint {
	var all []key.Fingerprint
	for f := range set {
		all = append(all, f)
	}
	return all
}

func prints(all []key.Fingerprint) string {
	words := make([]string, len(all))
	for i, f := range all {
		words[i] = f.Short()
	}
	slices.Sort(words)
	return "[" + strings.Join(words, ", ") + "]"
}
