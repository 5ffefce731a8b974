package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// A Change is one field in which two policies differ.
type Change struct {
	Section string `json:"section"` // as in "names"
	Entry   string `json:"entry"`   // as in "acme/**"; "" in override and exec
	Field   string `json:"field"`   // as in "threshold"; "" for an entry without fields
	Old     string `json:"old"`     // "" if New was added
	New     string `json:"new"`     // "" if Old was removed
}

func (c Change) String() string {
	where := c.Section
	for _, part := range []string{c.Entry, c.Field} {
		if part != "" {
			where += " " + yamltree.Quote(part)
		}
	}
	switch {
	case c.Old == "":
		return fmt.Sprintf("+ %s: %s", where, c.New)
	case c.New == "":
		return fmt.Sprintf("- %s: %s", where, c.Old)
	}
	return fmt.Sprintf("~ %s: %s -> %s", where, c.Old, c.New)
}

// Diff returns the sorted differences in meaning between two policies. It is empty exactly if both answer every
// question alike: order of entries, comments, layout and explicit defaults have no meaning.
func Diff(before, after *Policy) []Change {
	b, a := before.facts(), after.facts()
	var changes []Change
	for at, text := range b {
		if a[at] != text {
			changes = append(changes, Change{at.section, at.entry, at.field, text, a[at]})
		}
	}
	for at, text := range a {
		if _, ok := b[at]; !ok {
			changes = append(changes, Change{at.section, at.entry, at.field, "", text})
		}
	}
	slices.SortFunc(changes, func(x, y Change) int {
		return cmp.Or(cmp.Compare(slices.Index(order, x.Section), slices.Index(order, y.Section)),
			cmp.Compare(x.Entry, y.Entry), cmp.Compare(x.Field, y.Field))
	})
	return changes
}

type place struct{ section, entry, field string }

// facts returns the content of a policy, each fact with its text.
func (p *Policy) facts() map[place]string {
	all := map[place]string{}
	add := func(section, entry, field, text string) {
		if text != "" {
			all[place{section, entry, field}] = text
		}
	}
	sections := &p.sections
	for _, k := range sections.Keys {
		add("keys", k.Name, "key", k.Public.String())
		add("keys", k.Name, "owner", word(k.Owner))
		add("keys", k.Name, "not-before", yamltree.DateText(k.NotBefore))
		add("keys", k.Name, "expires", yamltree.DateText(k.Expires))
	}
	for _, r := range sections.Rules {
		add("names", r.Glob, "keys", set(r.Keys))
		add("names", r.Glob, "threshold", strconv.Itoa(r.Threshold))
		add("names", r.Glob, "accept", map[bool]string{false: "[v2]", true: "[v1, v2]"}[r.V1])
		if len(r.Except) > 0 {
			add("names", r.Glob, "except", set(r.Except))
		}
	}
	for _, d := range sections.Digests {
		add("digests", d.Digest.String(), "", "admitted")
		if !d.Tree.IsZero() {
			add("digests", d.Digest.String(), "tree", d.Tree.String())
		}
		add("digests", d.Digest.String(), "as", word(d.As))
		add("digests", d.Digest.String(), "reason", word(d.Reason))
	}
	for _, r := range sections.Revoked {
		add("revoked", r.What(), "", "revoked")
		add("revoked", r.What(), "reason", word(r.Reason))
		add("revoked", r.What(), "date", yamltree.DateText(r.Date))
	}
	for _, l := range sections.Lists {
		add("lists", l.Name, "from", word(l.From))
		add("lists", l.Name, "key", l.Key)
		add("lists", l.Name, "max-age", l.MaxAge.String())
		add("lists", l.Name, "stale", map[bool]string{false: "refuse", true: "warn"}[l.Warn])
	}
	for _, g := range sections.Override {
		add("override", g, "", "may be replaced")
	}
	for _, h := range sections.Inside {
		add("inside", h, "", "may be asked")
	}
	for _, g := range sections.Grants {
		add("grants", g.Glob, "", set(g.Allow))
	}
	p.execFacts(add)
	for _, l := range sections.Ask {
		add("ask", l.Name, "", l.String())
	}
	for _, a := range sections.Advisories {
		add("advisories", a.Registry, "load", a.Load.String())
		add("advisories", a.Registry, "call", a.Call.String())
		add("advisories", a.Registry, "max-age", yamltree.AgeText(a.MaxAge))
		add("advisories", a.Registry, "stale", map[bool]string{false: "refuse", true: "warn"}[a.Warn])
	}
	return all
}

func (p *Policy) execFacts(add func(section, entry, field, text string)) {
	exec := p.sections.Exec
	add("exec", "", "floor", exec.Floor.String())
	add("exec", "", "strangers", exec.Strangers.String())
	if exec.Network.Bound {
		add("exec", "", "network", set(exec.Network.Hosts))
	}
	if exec.Enforce {
		add("exec", "", "toolchain", "enforce")
	}
	if exec.Audit {
		add("exec", "", "audit", "required")
	}
	add("exec", "", "dotenv", exec.DotEnv.String())
	if n := exec.Limits.Memory; n > 0 {
		add("exec", "memory", "limits", strconv.FormatInt(n>>20, 10)+"MiB")
	}
	if n := exec.Limits.Processes; n > 0 {
		add("exec", "processes", "limits", strconv.FormatInt(n, 10))
	}
	if p.sections.Secrets != nil {
		add("exec", "", "secrets", "named here alone")
	}
	for _, s := range p.sections.Secrets {
		add("exec", s.Name, "secrets", set(s.Items))
	}
}

// word quotes a text unless it is empty.
func word(s string) string {
	if s == "" {
		return ""
	}
	return yamltree.Quote(s)
}

// set formats a list whose order has no meaning.
func set(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = yamltree.Quote(w)
	}
	slices.Sort(quoted)
	return "[" + strings.Join(quoted, ", ") + "]"
}
