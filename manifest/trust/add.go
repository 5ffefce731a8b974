package trust

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy"
)

// An Addition trusts a key for names.
type Addition struct {
	Key       policy.Key
	Named     bool     // the user chose the key's name: report a conflict, don't rename
	Names     []string // globs
	Threshold *int     // of the rules for them; nil keeps it
	Accept    string   // "v1" or "v2"; empty keeps it
}

// To returns the policy with the addition. second is set if the key's owner already has another key: usually the new
// one is an impostor's, so a person must confirm it.
func (n Addition) To(terms *policy.Policy) (after *policy.Policy, second *policy.OwnerError, err error) {
	k := n.Key
	after = terms
	if known, ok := terms.Key(k.Public.Fingerprint()); ok && (!n.Named || k.Name == known.Name) &&
		(known.Owner == k.Owner || known.Owner == "") {
		k.Name = known.Name
		if known.Owner != k.Owner {
			after, err = after.SetOwner(k.Name, k.Owner)
		}
		if err == nil && (!known.NotBefore.Equal(k.NotBefore) || !known.Expires.Equal(k.Expires)) {
			after, err = after.SetDates(k.Name, k.NotBefore, k.Expires)
		}
	} else if after, err = terms.AddKey(k, false); errors.As(err, &second) {
		if second.Known.Name == k.Name && second.Known.Owner != k.Owner {
			return nil, nil, fault.New(fault.Validation, "the policy calls another key %q", k.Name).
				Because("known  "+second.Known.Public.Fingerprint().String(),
					"new    "+k.Public.Fingerprint().String()).
				Try("rye trust add " + k.Public.String() + " --owner " + fault.Quote(k.Owner) + " --name OTHER")
		}
		for i := 2; !n.Named && isTaken(terms, k.Name); i++ {
			k.Name = fmt.Sprintf("%s-%d", n.Key.Name, i)
		}
		after, err = terms.AddKey(k, true)
	}
	for _, glob := range n.Names {
		if err != nil {
			break
		}
		rule := policy.Rule{Glob: glob, Threshold: 1}
		rules := after.Sections().Rules
		if i := slices.IndexFunc(rules, func(r policy.Rule) bool { return r.Glob == glob }); i >= 0 {
			rule = rules[i]
		}
		if !slices.Contains(rule.Keys, k.Name) {
			rule.Keys = append(slices.Clone(rule.Keys), k.Name)
		}
		if n.Threshold != nil {
			rule.Threshold = *n.Threshold
		}
		if n.Accept != "" {
			rule.V1 = n.Accept == "v1"
		}
		after, err = after.SetRule(rule)
	}
	if err != nil {
		return nil, second, err
	}
	return after, second, nil
}

func isTaken(p *policy.Policy, name string) bool {
	_, ok := p.KeyNamed(name)
	return ok
}

// A Loss is a set of names that a new rule takes from one of the user's own keys.
type Loss struct {
	Key   string
	Names string // the glob of the new rule
	Rule  string // the glob of the rule that gave them to the key
}

// Losses returns the names that the addition takes from the user's own keys. It tries each glob with one matching
// name.
func (n Addition) Losses(own []KeyState, before, after *policy.Policy) (lost []Loss) {
	for _, glob := range n.Names {
		name := strings.ReplaceAll(strings.ReplaceAll(glob, "**", "x"), "*", "x")
		if !strings.Contains(name, ":") {
			name = "tool:" + name
		}
		oldRule, _ := before.RuleOf(name)
		newRule, _ := after.RuleOf(name)
		for _, k := range own {
			if k.InPolicy != "" && k.InPolicy != n.Key.Name && slices.Contains(oldRule.Keys, k.InPolicy) &&
				!slices.Contains(newRule.Keys, k.InPolicy) {
				lost = append(lost, Loss{k.InPolicy, glob, oldRule.Glob})
			}
		}
	}
	return lost
}
