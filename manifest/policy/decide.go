package policy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy/glob"
	"github.com/rye-build/rye/manifest/sign"
)

// A Request is the question whether bytes may be used under a name. The caller has verified the signatures.
type Request struct {
	Name    string // as in "tool:rye/bash/bash" or "bundle:acme/x@1.0.0"
	Purpose Purpose
	Voucher Voucher

	Signers []sign.Signer // in any order; repetitions count once
	Unknown []string      // unknown keys, as the signature lines name them; only messages depend on them

	Raw, Stripped cas.Digest
	Tree          cas.Digest   // of a tool with other files; requires Files
	Files         []cas.Digest // of every file of the tree
	Document      cas.Digest   // the id of a document; Raw or Document is required

	Listed bool // a manifest that these policies admit lists the raw digest
	// Advice is about the bundle that an item is from, if that came from a registry whose advisories a policy names.
	Advice *Advice
	// Evidence is about a file that a manifest names as evidence: one key of the rule is enough, because as many as
	// the rule requires sign the manifest.
	Evidence bool
	Now      time.Time
}

// A Purpose is the use that the bytes are wanted for.
type Purpose uint8

// ToUse is to load as a prompt, or to bundle. ToShow is to show, list, upgrade or import; for that a signature of the
// first format is enough. ToCall is to execute: all that ToUse needs, and what policies say of calls.
const (
	ToUse Purpose = iota
	ToShow
	ToCall
)

// A Voucher is the authority for a request if it isn't keys. Revocation applies to all.
type Voucher uint8

// ByKeys uses the names rules. Builtin items are part of the running binary. Dev is the root item of one call that its
// user made with --dev.
const (
	ByKeys Voucher = iota
	Builtin
	Dev
)

// A Code is the reason for an answer in one stable word.
type Code uint8

// If no signer counts, the answer has the last fault in this order.
const (
	Undecided         Code = iota
	Admitted               // allowed
	Unsigned               // no signatures
	UntrustedKey           // no key of the policy signed
	NoRule                 // no rule covers the name, the rule excepts it, or it names other keys
	EvidenceOnly           // a signature of the first format, and no manifest or policy lists the digest
	FormatNotAccepted      // a signature of the first format, which the rule does not accept
	NotYetValid            // the key is not valid yet
	Expired                // the key has expired
	KeyRevoked             // the key is revoked
	BelowThreshold         // some keys count, but too few
	DigestRevoked          // the bytes, the tree, the document or a file of the tree is revoked
	ListStale              // a revocation list that must be fresh is not
	Ambiguous              // two rules are equally specific
	BadRequest             // the name is invalid, or a required field is missing

	// Only for issues of revocation lists; see Side.Accept.
	ListOlder  // its counter is below that of the last issue
	ListForked // it differs from the last issue but has its counter
	ListJump   // its counter is absurdly far ahead

	Advised         // an advisory covers the bundle that the item is from
	AdvisoriesStale // the advisories of the bundle's registry must be fresh and are not
)

var codes = [...]string{"undecided", "admitted", "unsigned", "untrusted-key", "no-rule", "evidence-only",
	"format-not-accepted", "not-yet-valid", "expired", "key-revoked", "below-threshold", "digest-revoked",
	"list-stale", "ambiguous", "bad-request", "list-older", "list-forked", "list-jump",
	"advisory", "advisories-stale"}

func (c Code) String() string { return codes[c] }

// words returns the code as words of a sentence.
func (c Code) words() string { return strings.ReplaceAll(codes[c], "-", " ") }

// A Verdict is one policy's judgement of one signer.
type Verdict struct {
	Key    key.Fingerprint
	Name   string // of the key in the policy, or ""
	Format sign.Format
	Code   Code // Admitted: it counts
}

// An Answer is one policy's answer to a request.
type Answer struct {
	Allowed   bool // Code is Admitted
	Code      Code
	Project   bool   // from the project's policy, not the root
	Rule      string // the glob of the rule that decided, or ""
	Excepted  bool   // Rule excepts the name
	ByDigest  bool   // admitted by its digest alone
	Voucher   Voucher
	Count     int // of distinct keys that count
	Threshold int // of the rule
	Signers   []Verdict
	Rotation  bool        // about a rotation: allowed means that Rotate would apply it
	Revoked   *Revocation // with KeyRevoked and DigestRevoked
	List      string      // the list that revokes, or that is stale
	Advice    *Advice     // with Advised and AdvisoriesStale
	Notice    *Notice     // with Advised
	Detail    string      // with ListStale, AdvisoriesStale, Ambiguous and BadRequest, and of a rotation
	Warnings  []string    // stale lists and advisories that may be stale
}

// A Decision is the answer to a request: the first refusal, otherwise the root's answer.
type Decision struct {
	Answer
	Beside *Answer // the project's answer, if both allowed
}

// OwnedBy reports whether the item counts as the user's own: a builtin one, or one admitted by one of the user's keys.
func (a *Answer) OwnedBy(own func(key.Fingerprint) bool) bool {
	return a.Voucher == Builtin || own != nil && slices.ContainsFunc(a.Signers, func(v Verdict) bool {
		return v.Code == Admitted && own(v.Key)
	})
}

// A Side is a policy with the last good issue of each revocation list that it names.
type Side struct {
	Policy *Policy
	Lists  map[string]*List
}

// Decide reports whether the root and, if it exists, the project's policy allow a request. It asks each policy
// separately, so a project can forbid but never allow. It depends on its arguments alone, and answers every request.
func Decide(request Request, root Side, project *Side) Decision {
	if root.Policy == nil || project != nil && project.Policy == nil {
		return Decision{Answer: Answer{Code: BadRequest, Detail: "no policy given"}}
	}
	n, err := request.check()
	if err != nil {
		return Decision{Answer: Answer{Code: BadRequest, Detail: err.Error()}}
	}
	d := Decision{Answer: root.answer(&request, n)}
	if !d.Allowed || project == nil {
		return d
	}
	a := project.answer(&request, n)
	a.Project = true
	if !a.Allowed {
		return Decision{Answer: a}
	}
	d.Beside = &a
	return d
}

// check rejects requests without a field that a refusal could depend on.
func (r *Request) check() (glob.Name, error) {
	n, err := glob.ParseName(r.Name)
	switch {
	case err != nil:
	case r.Now.IsZero():
		err = fmt.Errorf("%q: the request has no time", r.Name)
	case r.Raw.IsZero() && r.Document.IsZero():
		err = fmt.Errorf("%q: the request has no digest", r.Name)
	case !r.Tree.IsZero() && r.Files == nil:
		err = fmt.Errorf("%q: the request does not list the files of its tree", r.Name)
	case r.Voucher > Dev || r.Purpose > ToCall:
		err = fmt.Errorf("%q: unknown voucher or purpose", r.Name)
	}
	return n, err
}

// answer evaluates one policy.
func (s *Side) answer(request *Request, n glob.Name) Answer {
	var answer Answer
	if answer.Revoked, answer.List = s.revokedDigest(request); answer.Revoked != nil {
		return answer.end(DigestRevoked)
	}
	if s.stale(&answer, request.Now) {
		return answer.end(ListStale)
	}
	if code := s.advised(&answer, request); code != Admitted {
		return answer.end(code)
	}
	if answer.Voucher = request.Voucher; answer.Voucher != ByKeys {
		return answer.end(Admitted)
	}
	if answer.ByDigest = s.Policy.admits(request); answer.ByDigest {
		return answer.end(Admitted)
	}
	i, err := glob.Most(s.Policy.rules, func(c *compiledRule) *glob.Glob { return &c.glob }, n)
	if err != nil {
		answer.Detail = err.Error()
		return answer.end(Ambiguous)
	}
	var rule *compiledRule
	if i >= 0 {
		rule = &s.Policy.rules[i]
		answer.Rule, answer.Threshold = rule.glob.Text(), s.Policy.sections.Rules[i].Threshold
		if request.Evidence {
			answer.Threshold = 1
		}
		if answer.Excepted = glob.MatchAny(rule.except, n); answer.Excepted {
			rule = nil
		}
	}
	var v1 Code
	if rule != nil {
		v1 = acceptV1(s.Policy.sections.Rules[i].V1, request, n)
	}
	s.judge(&answer, request, rule, v1)
	switch {
	case rule != nil && answer.Count >= answer.Threshold:
		return answer.end(Admitted)
	case answer.Count > 0:
		return answer.end(BelowThreshold)
	case len(request.Signers) == 0 && len(request.Unknown) == 0:
		return answer.end(Unsigned)
	}
	code := UntrustedKey
	for _, v := range answer.Signers {
		code = max(code, v.Code)
	}
	if code == KeyRevoked {
		for _, v := range answer.Signers {
			if v.Code == KeyRevoked {
				answer.Revoked, answer.List = s.revokedKey(v.Key)
				break
			}
		}
	}
	return answer.end(code)
}

func (a Answer) end(c Code) Answer {
	a.Code, a.Allowed = c, c == Admitted
	return a
}

// acceptV1 returns the code of a signature of the first format. Such a signature covers neither the name of an item
// nor all of its content, so something else must vouch for the digest; a manifest's signature covers all of it, and
// its id is inside.
func acceptV1(accepted bool, r *Request, n glob.Name) Code {
	switch {
	case !accepted:
		return FormatNotAccepted
	case r.Purpose == ToShow, r.Listed, n.Kind == "bundle":
		return Admitted
	}
	return EvidenceOnly
}

// judge gives every signer its verdict, one for each key, in the order of fingerprints. Without a rule, no signer
// counts.
func (s *Side) judge(answer *Answer, request *Request, rule *compiledRule, v1 Code) {
	if len(request.Signers) == 0 {
		return
	}
	answer.Signers = make([]Verdict, 0, len(request.Signers))
	for _, signer := range request.Signers {
		verdict := Verdict{Key: signer.Key.Fingerprint(), Format: signer.Format}
		k, known := s.Policy.Key(verdict.Key)
		verdict.Name = k.Name
		switch {
		case !known:
			verdict.Code = UntrustedKey
		case rule == nil || !rule.keys[verdict.Key]:
			verdict.Code = NoRule
		case signer.Format == sign.V1:
			verdict.Code = v1
		case signer.Format == sign.V2:
			verdict.Code = Admitted
		default:
			verdict.Code = FormatNotAccepted
		}
		if known {
			if fault := s.KeyFault(k, request.Now); fault != Admitted {
				verdict.Code = fault
			}
		}
		answer.add(verdict)
	}
	for _, v := range answer.Signers {
		if v.Code == Admitted {
			answer.Count++
		}
	}
}

// add inserts a verdict. Of two about one key it keeps the one that counts, otherwise the graver one.
func (a *Answer) add(v Verdict) {
	i, found := slices.BinarySearchFunc(a.Signers, v, func(x, y Verdict) int {
		return bytes.Compare(x.Key[:], y.Key[:])
	})
	switch {
	case !found:
		a.Signers = slices.Insert(a.Signers, i, v)
	case a.Signers[i].Code == Admitted && v.Code != Admitted:
	case v.Code == Admitted && a.Signers[i].Code != Admitted, v.Code > a.Signers[i].Code,
		v.Code == a.Signers[i].Code && v.Format > a.Signers[i].Format:
		a.Signers[i] = v
	}
}

// KeyFault returns why a key of the policy does not count now, or Admitted.
func (s *Side) KeyFault(k Key, now time.Time) Code {
	if revoked, _ := s.revokedKey(k.Public.Fingerprint()); revoked != nil {
		return KeyRevoked
	}
	switch {
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return Expired
	case now.Before(k.NotBefore):
		return NotYetValid
	}
	return Admitted
}

// admits reports whether the policy lists the digest. The digest of a tool does not cover its other files, so the
// policy must list their tree with it.
func (p *Policy) admits(r *Request) bool {
	for _, d := range [...]cas.Digest{r.Raw, r.Document} {
		i, ok := p.digests[d]
		if !ok || d.IsZero() {
			continue
		}
		a := &p.sections.Digests[i]
		if a.Tree == r.Tree && (a.As == "" || a.As == r.Name) {
			return true
		}
	}
	return false
}

// list returns the last good issue of a list, or nil without an issue signed by the policy's key for it.
func (s *Side) list(src Source) *List {
	l := s.Lists[src.Name]
	if k, _ := s.Policy.KeyNamed(src.Key); l == nil || l.Name != src.Name || !l.signedBy(k.Public) {
		return nil
	}
	return l
}

// revokedBy searches the policy and then each list that counts. It returns the revocation and the list that has it.
func (s *Side) revokedBy(find func(*revocations) *Revocation) (found *Revocation, list string) {
	if found = find(&s.Policy.revoked); found != nil {
		return found, ""
	}
	for _, src := range s.Policy.sections.Lists {
		// A stale list counts here: revoked entries stay revoked.
		if l := s.list(src); l != nil {
			if found = find(&l.revoked); found != nil {
				return found, src.Name
			}
		}
	}
	return nil, ""
}

func (s *Side) revokedDigest(r *Request) (found *Revocation, list string) {
	return s.revokedBy(func(v *revocations) *Revocation { return v.find(r) })
}

func (s *Side) revokedKey(f key.Fingerprint) (found *Revocation, list string) {
	return s.revokedBy(func(v *revocations) *Revocation { return v.keys[f] })
}

func (v *revocations) find(r *Request) *Revocation {
	if len(v.digests) == 0 {
		return nil
	}
	for _, d := range [...]cas.Digest{r.Raw, r.Stripped, r.Tree, r.Document} {
		if found := v.digests[d]; found != nil {
			return found
		}
	}
	for i := range r.Files {
		if found := v.digests[r.Files[i]]; found != nil {
			return found
		}
	}
	return nil
}

// stale reports whether a list that must be fresh is stale, and notes the stale lists that may be.
func (s *Side) stale(answer *Answer, now time.Time) bool {
	for _, src := range s.Policy.sections.Lists {
		k, _ := s.Policy.KeyNamed(src.Key)
		why := stale(src, s.list(src), now)
		if fault := s.KeyFault(k, now); why == "" && fault != Admitted {
			why = fmt.Sprintf("is signed by %q: %s", src.Key, fault.words())
		}
		switch {
		case why == "":
		case src.Warn:
			answer.Warnings = append(answer.Warnings, fmt.Sprintf("revocation list %q %s", src.Name, why))
		default:
			answer.List, answer.Detail = src.Name, why
			return true
		}
	}
	return false
}
