package trust

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/ask"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/sign"
)

// A Listing is a policy in the form for people and programs.
type Listing struct {
	Policy   string        `json:"policy"`
	ID       string        `json:"id"`
	Origin   string        `json:"origin"`
	Keys     []KeyLine     `json:"keys"`
	Rules    []RuleLine    `json:"rules"`
	Digests  []DigestLine  `json:"digests"`
	Revoked  []RevokedLine `json:"revoked"`
	Lists    []ListLine    `json:"lists"`
	Override []string      `json:"override"` // globs over protected names that a project may replace
	Inside   []string      `json:"inside"`   // hosts in the user's network that projects may name
	Grants   []GrantLine   `json:"grants"`
	Exec     []ExecLine    `json:"exec"` // what differs from the defaults
	Ask      []AskLine     `json:"ask"`

	Advisories []AdvisoriesLine `json:"advisories"`
}

// An AdvisoriesLine is a registry whose advisories count.
type AdvisoriesLine struct {
	Registry string `json:"registry"`
	Load     string `json:"load,omitempty"` // the least severity that refuses to load
	Call     string `json:"call,omitempty"`
	MaxAge   string `json:"max_age"`
	Stale    string `json:"stale"` // refuse or warn
}

// A KeyLine is a key of a policy.
type KeyLine struct {
	Name        string `json:"name"`
	Public      string `json:"public"`
	Fingerprint string `json:"fingerprint"`
	Owner       string `json:"owner"`
	NotBefore   string `json:"not_before,omitempty"`
	Expires     string `json:"expires,omitempty"`
	Expired     bool   `json:"expired"`
	Revoked     bool   `json:"revoked"`
	Fault       string `json:"fault,omitempty"` // why a key that a rule names doesn't count
}

// A RuleLine is a rule for names.
type RuleLine struct {
	Names     string   `json:"names"`
	Keys      []string `json:"keys"`
	Threshold int      `json:"threshold"`
	Accept    []string `json:"accept"`
	Except    []string `json:"except"`
}

// A DigestLine is a digest that needs no signature.
type DigestLine struct {
	Digest string `json:"digest"`
	As     string `json:"as,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// A RevokedLine is a revoked key or digest.
type RevokedLine struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
	Date   string `json:"date"`
}

// A GrantLine is the permissions for the items that a glob covers.
type GrantLine struct {
	Names string   `json:"names"`
	Allow []string `json:"allow"`
}

// An ExecLine is one setting of execution.
type ExecLine struct {
	Field  string `json:"field"`
	Secret string `json:"secret,omitempty"`
	Value  string `json:"value"`
}

// An AskLine is the answer to some calls.
type AskLine struct {
	Line   string `json:"line"`   // its name
	Answer string `json:"answer"` // allow, ask or refuse
	Text   string `json:"text"`   // the line as in the file
}

func newAskLines(rules ask.Rules) []AskLine {
	all := []AskLine{}
	for i := range rules {
		all = append(all, AskLine{rules[i].Name, rules[i].Answer.String(), rules[i].String()})
	}
	return all
}

// A ListLine is a revocation list that a policy names.
type ListLine struct {
	Name    string `json:"name"`
	From    string `json:"from"`
	Key     string `json:"key"`
	Counter int64  `json:"counter"` // of the last good issue, or 0
	Issued  string `json:"issued,omitempty"`
	Expires string `json:"expires,omitempty"`
	Changed bool   `json:"changed"` // by this update
}

// NewListing lists a policy with the last issues of its revocation lists.
func NewListing(au *Authority, lists map[string]*policy.List, now time.Time) Listing {
	sections := au.Side.Policy.Sections()
	listing := Listing{Policy: au.Path, Origin: au.Origin, Keys: []KeyLine{}, Rules: []RuleLine{},
		Digests: []DigestLine{},
		Revoked: []RevokedLine{},
		Lists:   []ListLine{}, Override: append([]string{}, sections.Override...),
		Inside: append([]string{}, sections.Inside...),
		Grants: []GrantLine{}, Exec: []ExecLine{},
		Ask: newAskLines(sections.Ask), Advisories: []AdvisoriesLine{}}
	if au.File != nil {
		listing.ID = au.Side.Policy.ID().String()
	}
	for _, k := range sections.Keys {
		line := NewKeyLine(k, now)
		line.Revoked = slices.ContainsFunc(sections.Revoked, func(r policy.Revocation) bool {
			return r.Key == k.Public.Fingerprint()
		})
		listing.Keys = append(listing.Keys, line)
	}
	for _, r := range sections.Rules {
		accept := []string{"v2"}
		if r.V1 {
			accept = []string{"v1", "v2"}
		}
		listing.Rules = append(listing.Rules, RuleLine{r.Glob, r.Keys, r.Threshold, accept,
			append([]string{}, r.Except...)})
	}
	for _, d := range sections.Digests {
		listing.Digests = append(listing.Digests, DigestLine{d.Digest.String(), d.As, d.Reason})
	}
	for _, r := range sections.Revoked {
		listing.Revoked = append(listing.Revoked, RevokedLine{r.What(), r.Reason, yamltree.DateText(r.Date)})
	}
	for _, g := range sections.Grants {
		listing.Grants = append(listing.Grants, GrantLine{g.Glob, append([]string{}, g.Allow...)})
	}
	silent, _ := policy.Parse(nil) // an empty policy is valid
	for _, c := range policy.Diff(silent, au.Side.Policy) {
		if c.Section == "exec" {
			listing.Exec = append(listing.Exec, ExecLine{c.Field, c.Entry, c.New})
		}
	}
	for _, a := range sections.Advisories {
		listing.Advisories = append(listing.Advisories, AdvisoriesLine{a.Registry, a.Load.String(), a.Call.String(),
			yamltree.AgeText(a.MaxAge), map[bool]string{false: "refuse", true: "warn"}[a.Warn]})
	}
	for _, src := range sections.Lists {
		listing.Lists = append(listing.Lists, newListLine(src, lists[src.Name]))
	}
	return listing
}

// NewKeyLine describes a key of a policy.
func NewKeyLine(k policy.Key, now time.Time) KeyLine {
	return KeyLine{Name: k.Name, Public: k.Public.String(), Fingerprint: k.Public.Fingerprint().String(),
		Owner:     k.Owner,
		NotBefore: yamltree.DateText(k.NotBefore), Expires: yamltree.DateText(k.Expires),
		Expired: !k.Expires.IsZero() && !now.Before(k.Expires)}
}

func newListLine(src policy.Source, l *policy.List) ListLine {
	line := ListLine{Name: src.Name, From: src.From, Key: src.Key}
	if l != nil {
		line.Counter, line.Issued, line.Expires = l.Counter, yamltree.DateText(l.Issued), yamltree.DateText(l.Expires)
	}
	return line
}

// A NameCheck is one policy's answer to the question who may sign a name.
type NameCheck struct {
	Policy    string    `json:"policy"`
	Origin    string    `json:"origin"`
	Rule      string    `json:"rule"` // empty if none covers the name
	Excepted  bool      `json:"excepted"`
	Threshold int       `json:"threshold"`
	Count     int       `json:"count"` // of keys that may sign now
	Keys      []KeyLine `json:"keys"`
	Ask       []AskLine `json:"ask"` // the lines that can match calls of a tool with this name

	others []string // further keys of the policy, by name
}

// CheckName returns the keys that a policy lets sign a name. It decides about bytes that every key has signed.
func (au *Authority) CheckName(name string, now time.Time) (NameCheck, error) {
	nameCheck := NameCheck{Policy: au.Path, Origin: au.Origin, Keys: []KeyLine{},
		Ask: newAskLines(au.Side.Policy.Sections().Ask.About(name))}
	r := policy.Request{Name: name, Raw: cas.Sum([]byte(name)), Now: now}
	for _, k := range au.Side.Policy.Sections().Keys {
		r.Signers = append(r.Signers, sign.Signer{Key: k.Public, Format: sign.V2})
	}
	decision := policy.Decide(r, au.Side, nil)
	switch decision.Code {
	case policy.Ambiguous, policy.BadRequest, policy.ListStale:
		return nameCheck, fault.New(decision.Code.Fault(), "%q %s", name, decision.Reason())
	}
	nameCheck.Rule, nameCheck.Excepted, nameCheck.Threshold, nameCheck.Count = decision.Rule, decision.Excepted,
		decision.Threshold, decision.Count
	for _, rule := range au.Side.Policy.Sections().Rules {
		if rule.Glob != decision.Rule || decision.Excepted {
			continue
		}
		for _, n := range rule.Keys {
			k, _ := au.Side.Policy.KeyNamed(n)
			l := NewKeyLine(k, now)
			for _, v := range decision.Signers {
				if v.Key == k.Public.Fingerprint() && v.Code != policy.Admitted {
					l.Revoked, l.Fault = v.Code == policy.KeyRevoked, v.Code.String()
				}
			}
			nameCheck.Keys = append(nameCheck.Keys, l)
		}
	}
	for _, k := range au.Side.Policy.Sections().Keys {
		if !slices.ContainsFunc(nameCheck.Keys, func(l KeyLine) bool { return l.Name == k.Name }) {
			nameCheck.others = append(nameCheck.others, k.Name)
		}
	}
	return nameCheck, nil
}

// Refusal returns the reason why no file with the checked name can pass, or nil.
func (c *NameCheck) Refusal(name string) *fault.Error {
	switch {
	case c.Rule == "":
		return fault.New(fault.Policy, "no rule of %q covers %q: no key may sign it", c.Policy,
			name).Try(c.allow(name)...)
	case c.Excepted:
		return fault.New(fault.Policy, "%q excepts %q: no key may sign it", c.Rule, name)
	case c.Count < c.Threshold:
		return fault.New(fault.BelowThreshold,
			"%q requires %s, but only %d of its keys may sign: nothing named %q can pass",
			c.Rule, fault.Count(int64(c.Threshold), "key"), c.Count, name).
			Try(c.allow(c.Rule)...)
	}
	return nil
}

// allow returns commands that let other keys of the policy sign some names.
func (c *NameCheck) allow(names string) (commands []string) {
	for _, k := range c.others[:min(len(c.others), 3)] {
		commands = append(commands, fault.Command("rye trust add", k, "--names", names))
	}
	return append(commands, "rye trust list")
}

// A ListUpdate is the outcome of updating revocation lists.
type ListUpdate struct {
	Lists   []ListLine    `json:"lists"`
	Refused []RefusedList `json:"refused"` // rejected issues
}

// A RefusedList is a rejected issue of a revocation list.
type RefusedList struct {
	Name    string     `json:"name"`
	Code    fault.Code `json:"code"`
	Reason  string     `json:"reason"` // in one word; empty if the issue was unreadable
	Message string     `json:"message"`
}

// UpdateAll updates the lists that policies name, or only the one named only, from a file if from is set. It returns a
// fault for each rejected issue. Addresses that only a project names are untrusted.
func (k Lists) UpdateAll(ctx context.Context, root, project *Authority, only, from string) (listUpdate ListUpdate,
	faults []*fault.Error) {
	listUpdate = ListUpdate{Lists: []ListLine{}, Refused: []RefusedList{}}
	for _, au := range []*Authority{root, project} {
		if au == nil || au == project && au.Side.Policy.ID() == root.Side.Policy.ID() {
			continue
		}
		for _, src := range au.Side.Policy.Sections().Lists {
			if only != "" && only != src.Name {
				continue
			}
			read := src
			if from != "" {
				read.From = from
			}
			known := slices.ContainsFunc(root.Side.Policy.Sections().Lists, func(own policy.Source) bool {
				return own.From == src.From
			})
			list, changed, err := k.Update(ctx, au, read, !known)
			if err != nil {
				f := fault.Of(fmt.Errorf("revocation list %q: %w", src.Name,
					err)).Because("the last good issue stays in force")
				reason, _ := f.Details["reason"].(string)
				listUpdate.Refused = append(listUpdate.Refused, RefusedList{src.Name, f.Code, reason, f.Text})
				faults = append(faults, f)
				continue
			}
			line := newListLine(src, list)
			line.Changed = changed
			listUpdate.Lists = append(listUpdate.Lists, line)
		}
	}
	return listUpdate, faults
}
