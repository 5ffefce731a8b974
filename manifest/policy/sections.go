package policy

import (
	"fmt"
	"slices"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy/ask"
	"github.com/rye-build/rye/manifest/policy/floor"
	"github.com/rye-build/rye/manifest/policy/glob"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// Sections is the content of a policy, in file order. Callers must not modify the result of Policy.Sections.
type Sections struct {
	Keys     []Key
	Rules    []Rule // the section "names"
	Digests  []DigestEntry
	Revoked  []Revocation
	Lists    []Source
	Override []string // globs over the protected names that a project may replace
	Inside   []string // hosts, some with a port, in the user's network that projects may use
	Grants   []Grant
	Exec     floor.Exec
	Ask      ask.Rules
	Secrets  []Secret // in the section "exec"; nil if that does not mention secrets

	Advisories []AdvisorySource
}

// A Key is a public key that rules may name.
type Key struct {
	Name      string
	Public    key.Public
	Owner     string
	NotBefore time.Time // the zero time: always
	Expires   time.Time // the first moment at which it is invalid; the zero time: never
}

// A Rule names the keys that vouch for the names that a glob covers.
type Rule struct {
	Glob      string
	Keys      []string // names of keys
	Threshold int      // how many of them must sign
	V1        bool     // signatures of the first format count as well
	Except    []string // globs over names that the rule refuses
}

// String returns the rule as in the file: keys: [alice, bob], threshold: 2, except: ["rye/**"].
func (r Rule) String() string {
	text := fmt.Sprintf("keys: %s, threshold: %d", set(r.Keys), r.Threshold)
	if r.V1 {
		text += ", accept: [v1, v2]"
	}
	if len(r.Except) > 0 {
		text += ", except: " + set(r.Except)
	}
	return text
}

// A DigestEntry is a file or document that needs no signature.
type DigestEntry struct {
	Digest cas.Digest // of the raw bytes, or the id of a document
	Tree   cas.Digest // of a tool's other files; the zero digest: it has none
	As     string     // the one name it is admitted under; "": any
	Reason string
}

// A Revocation revokes a key or a digest, regardless of other entries: exactly one of the two is set.
type Revocation struct {
	Key    key.Fingerprint
	Digest cas.Digest // of raw bytes, stripped bytes, a tree, a document, or any file of a tree
	Reason string
	Date   time.Time // of the entry; a revocation applies at any time
}

// A Source is a signed revocation list that this policy uses.
type Source struct {
	Name   string
	From   string        // an https or oci address, or a path
	Key    string        // the name of the key that signs it
	MaxAge time.Duration // how long an issue is valid
	Warn   bool          // without a fresh list, warn instead of refusing everything
}

// A Grant is the permissions for the items that a glob covers.
type Grant struct {
	Glob  string
	Allow []string // permission patterns; package exec knows what they mean
}

// A Secret names the items that may receive a secret.
type Secret struct {
	Name  string
	Items []string // globs
}

// A Policy is a parsed policy file: immutable, and safe for concurrent use.
type Policy struct {
	id       cas.Digest
	tree     yamltree.Tree
	sections Sections
	names    map[string]int          // key name → index of Keys
	prints   map[key.Fingerprint]int // → index of Keys
	rules    []compiledRule
	grants   []glob.Glob
	override []glob.Glob
	secrets  map[string][]glob.Glob
	revoked  revocations
	digests  map[cas.Digest]int // → index of Digests
}

type compiledRule struct {
	glob   glob.Glob
	keys   map[key.Fingerprint]bool
	except []glob.Glob
}

// ID returns the id of the policy as a document: the digest of its bytes without signature lines.
func (p *Policy) ID() cas.Digest { return p.id }

// Sections returns the content of the policy.
func (p *Policy) Sections() Sections { return p.sections }

// Format returns the policy in the layout of the package comment, with comments, without signature lines: any change
// of a byte makes them invalid.
func (p *Policy) Format() []byte { return p.tree.Format() }

// Key returns the key with a fingerprint.
func (p *Policy) Key(f key.Fingerprint) (Key, bool) {
	i, ok := p.prints[f]
	if !ok {
		return Key{}, false
	}
	return p.sections.Keys[i], true
}

// KeyNamed returns the key with a name.
func (p *Policy) KeyNamed(name string) (Key, bool) {
	i, ok := p.names[name]
	if !ok {
		return Key{}, false
	}
	return p.sections.Keys[i], true
}

// RulesNaming returns the globs of the rules that name a key.
func (p *Policy) RulesNaming(key string) (globs []string) {
	for _, r := range p.sections.Rules {
		if slices.Contains(r.Keys, key) {
			globs = append(globs, r.Glob)
		}
	}
	return globs
}

// MayOverride reports whether a project may replace the protected item of this name. Only the root policy counts.
func (p *Policy) MayOverride(item string) bool {
	n, err := glob.ParseName(item)
	return err == nil && glob.MatchAny(p.override, n)
}

// RuleOf returns the rule for a name, if one exists and does not except the name. Decide knows which of its keys count
// today, and revocations.
func (p *Policy) RuleOf(name string) (Rule, bool) {
	n, err := glob.ParseName(name)
	if err != nil {
		return Rule{}, false
	}
	i, err := glob.Most(p.rules, func(c *compiledRule) *glob.Glob { return &c.glob }, n)
	if err != nil || i < 0 || glob.MatchAny(p.rules[i].except, n) {
		return Rule{}, false
	}
	return p.sections.Rules[i], true
}

// Grants returns the permission patterns for an item, by the one most specific glob that covers it, and whether a glob
// does. A permission needs both the root policy's and the project's grant.
func (p *Policy) Grants(item string) ([]string, bool) {
	n, err := glob.ParseName(item)
	if err != nil {
		return nil, false
	}
	i, err := glob.Most(p.grants, func(g *glob.Glob) *glob.Glob { return g }, n)
	if err != nil || i < 0 {
		return nil, false
	}
	return p.sections.Grants[i].Allow, true
}
