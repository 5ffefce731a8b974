package policy

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

func noEdit(format string, args ...any) (*Policy, error) {
	return nil, fault.New(fault.Validation, format, args...)
}

// An OwnerError is returned for a second key of a known owner: usually an impostor's.
type OwnerError struct{ Known, New Key }

func (e *OwnerError) Error() string {
	return fmt.Sprintf("%q already has the key %q: known %s, new %s",
		e.New.Owner, e.Known.Name, e.Known.Public.Fingerprint(), e.New.Public.Fingerprint())
}

// Fault returns the error for people and programs.
func (e *OwnerError) Fault() *fault.Error {
	return fault.New(fault.Policy, "%s", e).From(e).On("reason", "second-key").On("owner", e.New.Owner).
		On("known", e.Known.Public.Fingerprint().String()).On("new", e.New.Public.Fingerprint().String())
}

// change lets edit modify a copy of the tree and parses the result, so that edits and files follow the same rules.
func (p *Policy) change(edit func(root *yamltree.Node)) (*Policy, error) {
	t := p.tree.Copy()
	if len(t.Root.Kids) == 0 {
		t.Root.Entry("rye").Set(format)
	}
	edit(t.Root)
	return Parse(t.Format())
}

// AddKey adds a key that no rule names yet. A second key of an owner is an *OwnerError, unless another is true.
func (p *Policy) AddKey(k Key, another bool) (*Policy, error) {
	if have, ok := p.KeyNamed(k.Name); ok && have.Public != k.Public {
		return nil, &OwnerError{have, k}
	} else if ok {
		return noEdit("the policy already has a key %q", k.Name)
	}
	if have, ok := p.Key(k.Public.Fingerprint()); ok {
		return noEdit("the policy already has this key, as %q", have.Name)
	}
	if found, _ := (&Side{Policy: p}).revokedKey(k.Public.Fingerprint()); found != nil {
		return noEdit("this key is revoked")
	}
	for _, have := range p.sections.Keys {
		if !another && k.Owner != "" && have.Owner == k.Owner {
			return nil, &OwnerError{have, k}
		}
	}
	return p.change(func(root *yamltree.Node) { addKey(root.Entry("keys", order...), k) })
}

// SetDates replaces the dates between which a key counts. A zero time is no limit.
func (p *Policy) SetDates(name string, notBefore, expires time.Time) (*Policy, error) {
	k, ok := p.KeyNamed(name)
	if !ok {
		return noEdit("no key %q in the policy", name)
	}
	if found, _ := (&Side{Policy: p}).revokedKey(k.Public.Fingerprint()); found != nil {
		return noEdit("the key %q is revoked", name) // dates would not change that
	}
	return p.change(func(root *yamltree.Node) {
		n := root.Entry("keys").Entry(name)
		n.SetText("not-before", yamltree.DateText(notBefore))
		n.SetText("expires", yamltree.DateText(expires))
	})
}

// SetOwner sets the owner of a key.
func (p *Policy) SetOwner(name, owner string) (*Policy, error) {
	if _, ok := p.KeyNamed(name); !ok {
		return noEdit("no key %q in the policy", name)
	}
	return p.change(func(root *yamltree.Node) { root.Entry("keys").Entry(name).SetText("owner", owner) })
}

func addKey(section *yamltree.Node, k Key) {
	n := section.Entry(k.Name)
	n.Entry("key").Set(k.Public.String())
	n.SetText("owner", k.Owner)
	n.SetText("not-before", yamltree.DateText(k.NotBefore))
	n.SetText("expires", yamltree.DateText(k.Expires))
}

// SetRule adds a rule, or replaces the one with the same glob.
func (p *Policy) SetRule(rule Rule) (*Policy, error) {
	return p.change(func(root *yamltree.Node) {
		n := root.Entry("names", order...).Entry(rule.Glob)
		n.Entry("keys").SetList(rule.Keys)
		if n.Drop("threshold", rule.Threshold == 1) {
			n.Entry("threshold").Set(strconv.Itoa(rule.Threshold)).Plain = true
		}
		if n.Drop("accept", !rule.V1) {
			n.Entry("accept").SetList([]string{"v1", "v2"})
		}
		if n.Drop("except", len(rule.Except) == 0) {
			n.Entry("except").SetList(rule.Except)
		}
	})
}

// AddDigest admits a file or a document by its digest alone, or changes the entry of the digest.
func (p *Policy) AddDigest(d DigestEntry) (*Policy, error) {
	if found, _ := (&Side{Policy: p}).revokedDigest(&Request{Raw: d.Digest}); found != nil {
		return noEdit("the digest %s is revoked", d.Digest)
	}
	return p.change(func(root *yamltree.Node) {
		n := root.Entry("digests", order...).Entry(d.Digest.String())
		n.SetText("as", d.As)
		n.SetText("reason", d.Reason)
	})
}

// SetGrants grants permissions to the items of a glob, instead of what the policy grants them now.
func (p *Policy) SetGrants(glob string, patterns []string) (*Policy, error) {
	return p.change(func(root *yamltree.Node) {
		root.Entry("grants", order...).Entry(glob).SetList(patterns)
	})
}

// Revoke adds a revocation of a key or a digest.
func (p *Policy) Revoke(r Revocation) (*Policy, error) {
	if r.Key.IsZero() == r.Digest.IsZero() {
		return noEdit("expected one key or one digest to revoke")
	}
	return p.change(func(root *yamltree.Node) {
		n := root.Entry("revoked", order...).Entry(r.What())
		n.SetText("reason", r.Reason)
		n.SetText("date", yamltree.DateText(r.Date))
	})
}

// RemoveKey removes a key, also from the rules that name it. The user must first change a rule that would lose its
// last key or no longer reach its threshold: without that rule another one would decide.
func (p *Policy) RemoveKey(name string) (*Policy, error) {
	if _, ok := p.KeyNamed(name); !ok {
		return noEdit("no key %q in the policy", name)
	}
	for _, r := range p.sections.Rules {
		if left := len(r.Keys) - 1; slices.Contains(r.Keys, name) && left < r.Threshold {
			return noEdit("%q requires %s and would have %d left: change or remove that rule first", r.Glob,
				fault.Count(int64(r.Threshold), "key"), left)
		}
	}
	for _, l := range p.sections.Lists {
		if l.Key == name {
			return noEdit("the revocation list %q is signed by %q: change or remove it first", l.Name, name)
		}
	}
	return p.change(func(root *yamltree.Node) {
		root.Get("keys").Drop(name, true)
		if names := root.Get("names"); names != nil {
			for _, rule := range names.Kids {
				rule.Get("keys").DropItem(name)
			}
		}
	})
}

// Remove removes an entry of any section except keys (see RemoveKey) and exec. Without a rule, a less specific one
// decides; the changes don't show that.
func (p *Policy) Remove(section, entry string) (*Policy, error) {
	n := p.tree.Root.Get(section)
	switch {
	case section == "keys":
		return p.RemoveKey(entry)
	case section == "rye" || section == "exec" || !slices.Contains(order, section):
		return noEdit("nothing can be removed from %q", section)
	case n == nil || n.Get(entry) == nil && !n.HasItem(entry):
		return noEdit("%q not found under %q", entry, section)
	}
	return p.change(func(root *yamltree.Node) {
		n := root.Get(section)
		n.Drop(entry, true)
		n.DropItem(entry)
	})
}
