package trust

import (
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy"
)

// FindKey returns the key with a name, or with the first digits of a fingerprint, at least four.
func FindKey(p *policy.Policy, text string) (policy.Key, error) {
	if k, ok := p.KeyNamed(text); ok {
		return k, nil
	}
	var found []policy.Key
	var names []string
	for _, k := range p.Sections().Keys {
		names = append(names, k.Name)
		if len(text) >= 4 && strings.HasPrefix(k.Public.Fingerprint().String(), text) {
			found = append(found, k)
		}
	}
	switch len(found) {
	case 0:
		return policy.Key{}, fault.New(fault.NotFound, "the policy has no key %q", text).On("key", text).Near(text,
			names).Try("rye trust list")
	case 1:
		return found[0], nil
	}
	f := fault.New(fault.Ambiguous, "%q is ambiguous: it matches %d keys", text, len(found)).On("key", text)
	for _, k := range found {
		f.Because(k.Public.Fingerprint().String() + "  " + k.Name)
	}
	return policy.Key{}, f
}
