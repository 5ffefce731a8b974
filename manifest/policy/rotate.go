package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/sign"
)

// A Rotation is the content of a rotation document: in one rule, one key replaces another. Its reader (package
// manifest) has verified the signers.
type Rotation struct {
	ID      cas.Digest        // of the document, which may be revoked; zero for a draft
	Rule    string            // the glob of the rule
	Before  []key.Fingerprint // all keys of the rule before the step, which must match
	Retire  key.Fingerprint   // the key of Before that leaves
	Key     Key               // the key that replaces it
	Expires time.Time         // of the document; the zero time: never
}

// A RotationError is the reason for refusing a rotation.
type RotationError struct {
	Rule   string
	Code   Code // DigestRevoked, ListStale, KeyRevoked, Expired, NotYetValid, BelowThreshold, NoRule, BadRequest
	Reason string

	Revoked *Revocation // with DigestRevoked
	List    string      // the list that revokes, or that is stale
}

func (e *RotationError) Error() string { return fmt.Sprintf("rotation of %q: %s", e.Rule, e.Reason) }

// Fault returns the error for people and programs.
func (e *RotationError) Fault() *fault.Error {
	return addRevoked(fault.New(e.Code.Fault(), "%s", e).From(e).On("reason", e.Code.String()).On("rule", e.Rule),
		e.Revoked, e.List)
}

// Rotate applies one rotation. The document must be signed by the new key and by the rule's threshold of its keys,
// which may include the retiring one, all valid now. It must start from exactly the keys that the rule has, so that no
// step can be skipped or applied twice in a row. Package rollback remembers applied steps and prevents a later
// repetition, when the rule has its first keys again.
func (s *Side) Rotate(r Rotation, signers []sign.Signer, now time.Time) (*Policy, error) {
	rule, err := s.mayRotate(r, now)
	if err != nil {
		return nil, err
	}
	var a Answer
	if err := s.rotationSigners(&a, r, rule, signers, now); err != nil {
		return nil, err
	}
	return s.exchange(r, rule)
}

// DecideRotation reports whether Rotate would apply a step now, as an answer about its document.
func (s *Side) DecideRotation(r Rotation, signers []sign.Signer, unknown []string, now time.Time) Answer {
	answer := Answer{Rotation: true}
	rule, err := s.mayRotate(r, now)
	if err == nil {
		answer.Rule, answer.Threshold = r.Rule, s.Policy.sections.Rules[rule].Threshold
		err = s.rotationSigners(&answer, r, rule, signers, now)
	}
	if err == nil {
		_, err = s.exchange(r, rule)
	}
	var refused *RotationError
	switch {
	case err == nil:
		return answer.end(Admitted)
	case errors.As(err, &refused):
		answer.Detail = refused.Reason
		answer.Revoked, answer.List = refused.Revoked, refused.List
		if refused.Code == BelowThreshold && len(signers) == 0 {
			return answer.end(map[bool]Code{true: Unsigned, false: UntrustedKey}[len(unknown) == 0])
		}
		return answer.end(refused.Code)
	}
	answer.Detail = err.Error()
	return answer.end(BadRequest)
}

// mayRotate finds the rule of a step and checks everything except its signatures.
func (s *Side) mayRotate(rotation Rotation, now time.Time) (rule int, err error) {
	bad := func(code Code, format string, args ...any) (int, error) {
		return 0, &RotationError{Rule: rotation.Rule, Code: code, Reason: fmt.Sprintf(format, args...)}
	}
	if now.IsZero() {
		return bad(BadRequest, "the request has no time")
	}
	// Revocation and stale lists come first, as in every other decision.
	if found, list := s.revokedDigest(&Request{Document: rotation.ID}); found != nil && !rotation.ID.IsZero() {
		return 0, &RotationError{Rule: rotation.Rule, Code: DigestRevoked,
			Reason: "it is revoked" + (&Answer{Revoked: found, List: list}).revocation(), Revoked: found, List: list}
	}
	var a Answer
	if s.stale(&a, now) {
		return 0, &RotationError{Rule: rotation.Rule, Code: ListStale,
			Reason: fmt.Sprintf("the revocation list %q %s", a.List, a.Detail), List: a.List}
	}
	rule = slices.IndexFunc(s.Policy.sections.Rules, func(x Rule) bool { return x.Glob == rotation.Rule })
	if rule < 0 {
		return bad(NoRule, "the policy has no such rule")
	}
	old := s.Policy.rules[rule].keys
	fresh := rotation.Key.Public.Fingerprint()
	switch {
	case rotation.Key.Public.IsZero():
		return bad(BadRequest, "it has no new key")
	case !sameKeys(old, rotation.Before):
		return bad(NoRule, "it starts from %s, the rule has %s: each step must be taken, in order",
			prints(rotation.Before),
			prints(slices.Collect(maps.Keys(old))))
	case !old[rotation.Retire]:
		return bad(NoRule, "the retiring key %s is not a key of the rule", rotation.Retire.Short())
	case old[fresh]:
		return bad(NoRule, "the new key %s is already a key of the rule", fresh.Short())
	case !rotation.Expires.IsZero() && !now.Before(rotation.Expires):
		return bad(Expired, "it expired at %s; the clock says %s", clock(rotation.Expires), clock(now))
	}
	return rule, nil
}

// rotationSigners requires the threshold of old keys and the new key, and adds each signer's verdict to a.
func (s *Side) rotationSigners(answer *Answer, rotation Rotation, rule int, signers []sign.Signer,
	now time.Time) error {
	fresh := rotation.Key.Public.Fingerprint()
	// The policy's own dates for a known key apply, not the document's.
	incoming := rotation.Key
	if known, ok := s.Policy.Key(fresh); ok {
		incoming = known
	}
	if code := s.KeyFault(incoming, now); code != Admitted {
		return &RotationError{Rule: rotation.Rule, Code: code,
			Reason: fmt.Sprintf("the new key %s: %s", fresh.Short(), code.words())}
	}
	old := s.Policy.rules[rule].keys
	own := false
	for _, signer := range signers {
		verdict := Verdict{Key: signer.Key.Fingerprint(), Format: signer.Format, Code: UntrustedKey}
		k, known := s.Policy.Key(verdict.Key)
		verdict.Name = k.Name
		switch {
		case signer.Format != sign.V2:
			verdict.Code = FormatNotAccepted
		case verdict.Key == fresh:
			verdict.Name, verdict.Code, own = incoming.Name, Admitted, true
		case old[verdict.Key]:
			verdict.Code = s.KeyFault(k, now)
		case known:
			verdict.Code = NoRule
		}
		answer.add(verdict)
	}
	worst := BelowThreshold
	for _, v := range answer.Signers {
		switch {
		case !old[v.Key]:
		case v.Code == Admitted:
			answer.Count++
		case v.Code >= NotYetValid && (worst == BelowThreshold || v.Code > worst):
			worst = v.Code
		}
	}
	want := s.Policy.sections.Rules[rule].Threshold
	if answer.Count < want {
		return &RotationError{Rule: rotation.Rule, Code: worst,
			Reason: fmt.Sprintf("it is signed by %d of the %s that the rule requires: %s", answer.Count,
				fault.Count(int64(want), "key"), worst.words())}
	}
	if !own {
		return &RotationError{Rule: rotation.Rule, Code: BelowThreshold,
			Reason: fmt.Sprintf("it is not signed by the new key %s", fresh.Short())}
	}
	return nil
}

// exchange returns the policy after the rotation. The old key stays under "keys:" while another rule or a list
// names it.
func (s *Side) exchange(rotation Rotation, rule int) (*Policy, error) {
	rules := s.Policy
	retired, _ := rules.Key(rotation.Retire)
	name := rotation.Key.Name
	known, have := rules.Key(rotation.Key.Public.Fingerprint())
	if have {
		name = known.Name
	} else if other, taken := rules.KeyNamed(name); taken && other.Public != retired.Public {
		return nil, &OwnerError{other, rotation.Key}
	}
	used := slices.ContainsFunc(rules.sections.Lists, func(l Source) bool { return l.Key == retired.Name })
	for i, other := range rules.sections.Rules {
		used = used || i != rule && slices.Contains(other.Keys, retired.Name)
	}
	if used && name == retired.Name {
		return nil, &OwnerError{retired, rotation.Key}
	}
	return rules.change(func(root *yamltree.Node) {
		if !used {
			root.Get("keys").Drop(retired.Name, true)
		}
		if !have {
			addKey(root.Entry("keys", order...), rotation.Key)
		}
		for _, item := range root.Get("names").Get(rotation.Rule).Get("keys").Kids {
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

func prints(all []key.Fingerprint) string {
	words := make([]string, len(all))
	for i, f := range all {
		words[i] = f.Short()
	}
	slices.Sort(words)
	return "[" + strings.Join(words, ", ") + "]"
}
