package policy

import (
	"net/url"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/canon"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy/ask"
	"github.com/rye-build/rye/manifest/policy/floor"
	"github.com/rye-build/rye/manifest/policy/glob"
	"github.com/rye-build/rye/manifest/policy/globlist"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

const (
	format   = "policy/2"
	maxRules = 1000 // also of grants
	maxAge   = 3650 * 24 * time.Hour
)

// order is the order of sections, for inserting a new one.
var order = []string{"rye", "keys", "names", "digests", "revoked", "lists", "override", "inside", "grants", "exec",
	"ask", "advisories"}

// read fills p from its tree and checks it.
func (p *Policy) read() error {
	root := p.tree.Root
	if n := root.Get("rye"); n != nil && (n.Shape != yamltree.Scalar || n.Text != format) {
		if n.Shape == yamltree.Scalar && strings.HasPrefix(n.Text, "policy/") {
			return &canon.VersionError{Found: yamltree.Clip(n.Text), Want: format}
		}
		return n.Errorf("expected %q", format)
	}
	if err := root.Fields(order...); err != nil {
		return err
	}
	for _, section := range []struct {
		name string
		read func(*yamltree.Node) error
	}{
		{"keys", p.readKeys}, {"names", p.readRules}, {"digests", p.readDigests}, {"revoked", p.readRevoked},
		{"lists", p.readLists}, {"override", func(n *yamltree.Node) (err error) {
			p.sections.Override, p.override, err = globlist.Read(n)
			return err
		}}, {"inside", p.readInside}, {"grants", p.readGrants}, {"exec", p.readExec},
		{"ask", func(n *yamltree.Node) (err error) { p.sections.Ask, err = ask.Read(n); return err }},
		{"advisories", p.readAdvisories},
	} {
		n := root.Get(section.name)
		if n == nil {
			continue
		}
		if want := yamltree.Mapping; section.name == "override" || section.name == "inside" {
			if n.Shape != yamltree.List {
				return n.Errorf("expected a list under %q", section.name)
			}
		} else if n.Shape != want {
			return n.Errorf("expected entries under %q", section.name)
		}
		if err := section.read(n); err != nil {
			return err
		}
	}
	return nil
}

func (p *Policy) readKeys(section *yamltree.Node) error {
	for _, n := range section.Kids {
		k := Key{Name: n.Key}
		if err := n.CheckWord(n.Key, "the name of a key"); err != nil {
			return err
		}
		if err := n.Fields("key", "owner", "not-before", "expires"); err != nil {
			return err
		}
		text, err := n.Need("key")
		if err != nil {
			return err
		}
		if k.Public, err = key.ParsePublic(text); err != nil {
			return n.Get("key").Errorf("%s", err)
		}
		if k.Owner, err = n.TextOf("owner"); err != nil {
			return err
		}
		if k.NotBefore, err = n.Date("not-before"); err != nil {
			return err
		}
		if k.Expires, err = n.Date("expires"); err != nil {
			return err
		}
		if !k.Expires.IsZero() && !k.NotBefore.Before(k.Expires) {
			return n.Errorf("%q expires before it is valid", k.Name)
		}
		f := k.Public.Fingerprint()
		if i, ok := p.prints[f]; ok {
			return n.Errorf("%q is the same key as %q: a key has one name", k.Name, p.sections.Keys[i].Name)
		}
		p.names[k.Name], p.prints[f] = len(p.sections.Keys), len(p.sections.Keys)
		p.sections.Keys = append(p.sections.Keys, k)
	}
	return nil
}

func (p *Policy) readRules(section *yamltree.Node) error {
	if len(section.Kids) > maxRules {
		return section.Errorf("has more than %d rules", maxRules)
	}
	for _, n := range section.Kids {
		pattern, err := globlist.Parse(n, n.Key)
		if err != nil {
			return err
		}
		for i := range p.rules {
			if other := &p.rules[i].glob; glob.Collide(other, &pattern) {
				return n.Errorf("%q and %q can match the same name, and neither is more specific",
					pattern.Text(), other.Text())
			}
		}
		if err := n.Fields("keys", "threshold", "accept", "except"); err != nil {
			return err
		}
		rule, compiledRule := Rule{Glob: n.Key}, compiledRule{glob: pattern, keys: map[key.Fingerprint]bool{}}
		if rule.Keys, err = p.ruleKeys(n, compiledRule.keys); err != nil {
			return err
		}
		if rule.Threshold, err = readThreshold(n, len(rule.Keys)); err != nil {
			return err
		}
		if rule.V1, err = readAccept(n); err != nil {
			return err
		}
		if f := n.Get("except"); f != nil {
			if rule.Except, compiledRule.except, err = globlist.Read(f); err != nil {
				return err
			}
		}
		p.sections.Rules = append(p.sections.Rules, rule)
		p.rules = append(p.rules, compiledRule)
	}
	return nil
}

// ruleKeys reads the names of a rule's keys and adds their fingerprints to set.
func (p *Policy) ruleKeys(n *yamltree.Node, set map[key.Fingerprint]bool) ([]string, error) {
	names, err := n.Words("keys")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, n.Errorf("%q names no keys", n.Key)
	}
	for i, item := range n.Get("keys").Kids {
		k, err := p.known(item, names[i])
		if err != nil {
			return nil, err
		}
		set[k.Public.Fingerprint()] = true
	}
	return names, nil
}

// known returns the key with a name, or an error at n.
func (p *Policy) known(n *yamltree.Node, name string) (Key, error) {
	if k, ok := p.KeyNamed(name); ok {
		return k, nil
	}
	all := make([]string, len(p.sections.Keys))
	for i, k := range p.sections.Keys {
		all[i] = k.Name
	}
	return Key{}, n.Errorf("no key %q under \"keys:\"%s", yamltree.Clip(name), yamltree.Suggest(name, all))
}

func (p *Policy) readDigests(section *yamltree.Node) error {
	for _, n := range section.Kids {
		if err := n.Fields("tree", "as", "reason"); err != nil {
			return err
		}
		d, err := cas.ParseDigest(n.Key)
		if err != nil {
			return n.Errorf("%s", err)
		}
		digestEntry := DigestEntry{Digest: d}
		if digestEntry.As, err = n.TextOf("as"); err != nil {
			return err
		}
		if digestEntry.As != "" {
			if _, err := glob.ParseName(digestEntry.As); err != nil {
				return n.Get("as").Errorf("%s", err)
			}
		}
		if digestEntry.Reason, err = n.TextOf("reason"); err != nil {
			return err
		}
		if t := n.Get("tree"); t != nil {
			if digestEntry.Tree, err = cas.ParseDigest(t.Text); err != nil {
				return t.Errorf("%s", err)
			}
		}
		p.digests[digestEntry.Digest] = len(p.sections.Digests)
		p.sections.Digests = append(p.sections.Digests, digestEntry)
	}
	return nil
}

func (p *Policy) readRevoked(section *yamltree.Node) error {
	for _, n := range section.Kids {
		if err := n.Fields("reason", "date"); err != nil {
			return err
		}
		r, err := ParseRevocation(n.Key)
		if err != nil {
			return n.Errorf("%s", err)
		}
		if r.Reason, err = n.TextOf("reason"); err != nil {
			return err
		}
		if r.Date, err = n.Date("date"); err != nil {
			return err
		}
		p.sections.Revoked = append(p.sections.Revoked, r)
	}
	p.revoked = newRevocations(p.sections.Revoked)
	return nil
}

func (p *Policy) readLists(section *yamltree.Node) error {
	for _, n := range section.Kids {
		if err := n.CheckWord(n.Key, "the name of a list"); err != nil {
			return err
		}
		if err := n.Fields("from", "key", "max-age", "stale"); err != nil {
			return err
		}
		source := Source{Name: n.Key}
		var err error
		if source.From, err = n.Need("from"); err != nil {
			return err
		}
		if scheme, _, ok := strings.Cut(source.From, "://"); ok {
			u, err := url.Parse(source.From)
			if err != nil || scheme != "https" && scheme != "oci" || u.Host == "" || u.User != nil ||
				u.Fragment != "" {
				return n.Get("from").Errorf("expected an https or oci address, without user and fragment, or a path")
			}
		}
		if source.Key, err = n.Need("key"); err != nil {
			return err
		}
		if _, err := p.known(n.Get("key"), source.Key); err != nil {
			return err
		}
		if source.MaxAge, err = n.Age("max-age", maxAge); err != nil {
			return err
		}
		stale, err := n.Choice("stale", "refuse", "warn")
		if err != nil {
			return err
		}
		source.Warn = stale == "warn"
		p.sections.Lists = append(p.sections.Lists, source)
	}
	return nil
}

func (p *Policy) readInside(section *yamltree.Node) (err error) {
	if p.sections.Inside, err = section.ItemWords(); err != nil {
		return err
	}
	for i, h := range p.sections.Inside {
		if strings.HasPrefix(h, "*") || !floor.IsHost(h) {
			return section.Kids[i].Errorf(
				"%q is not a host, as in bundles.acme.example, 10.0.0.5 or \"acme.example:8443\"", yamltree.Clip(h))
		}
	}
	return nil
}

func (p *Policy) readGrants(section *yamltree.Node) error {
	if len(section.Kids) > maxRules {
		return section.Errorf("has more than %d globs", maxRules)
	}
	for _, n := range section.Kids {
		pattern, err := globlist.Parse(n, n.Key)
		if err != nil {
			return err
		}
		for i := range p.grants {
			if other := &p.grants[i]; glob.Collide(other, &pattern) {
				return n.Errorf("%q and %q can match the same name, and neither is more specific",
					pattern.Text(), other.Text())
			}
		}
		grant := Grant{Glob: n.Key}
		if grant.Allow, err = n.ItemWords(); err != nil {
			return err
		}
		p.sections.Grants = append(p.sections.Grants, grant)
		p.grants = append(p.grants, pattern)
	}
	return nil
}

func (p *Policy) readExec(n *yamltree.Node) (err error) {
	if p.sections.Exec, err = floor.Read(n, "secrets"); err != nil {
		return err
	}
	if s := n.Get("secrets"); s != nil {
		return p.readSecrets(s)
	}
	return nil
}

func (p *Policy) readSecrets(section *yamltree.Node) error {
	if section.Shape != yamltree.Mapping {
		return section.Errorf("expected entries under %q", section.Key)
	}
	p.sections.Secrets, p.secrets = []Secret{}, map[string][]glob.Glob{}
	for _, n := range section.Kids {
		if err := n.CheckWord(n.Key, "the name of a secret"); err != nil {
			return err
		}
		items, globs, err := globlist.Read(n)
		if err != nil {
			return err
		}
		p.sections.Secrets = append(p.sections.Secrets, Secret{n.Key, items})
		p.secrets[n.Key] = globs
	}
	return nil
}
