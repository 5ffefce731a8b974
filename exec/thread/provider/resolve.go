package provider

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// A Choice is a model of a provider.
type Choice struct {
	Provider *Provider
	Model    string
}

// String returns the name that resolves to the choice wherever its provider is listed.
func (c Choice) String() string { return c.Provider.Ref.ID + "/" + c.Model }

// Resolve returns the model that a name means. The first of these that applies is used:
//
//	a tier            of the first provider that maps it: the order of the providers is the caller's preference
//	a model's id      that one provider names; if several do, it is ambiguous
//	PROVIDER/NAME     a tier, or any model's id, of the provider with that id, or whose id ends in that segment
//	a prefix          of the ids of one provider's model, such as claude-haiku-4-5 for claude-haiku-4-5-20251001
func Resolve(providers []*Provider, name string) (Choice, error) {
	if len(providers) == 0 {
		return Choice{}, fault.New(fault.NotFound, "no provider of models was found").On("model",
			name).Try("rye docs providers")
	}
	for _, p := range providers {
		if id := p.Tiers[name]; id != "" {
			return Choice{p, id}, nil
		}
	}
	exact := find(providers, func(id string) bool { return id == name })
	if len(exact) == 0 {
		exact = qualified(providers, name)
	}
	if len(exact) == 0 && name != "" {
		exact = find(providers, func(id string) bool { return strings.HasPrefix(id, name) })
	}
	switch len(exact) {
	case 0:
		return Choice{}, unknown(providers, name)
	case 1:
		return exact[0], nil
	}
	e := fault.New(fault.Ambiguous, "the model %q is ambiguous", name).On("model", name).Try("rye docs providers")
	lines := make([]string, len(exact))
	for i, c := range exact {
		lines[i] = c.String()
	}
	return Choice{}, e.On("candidates", lines).List(lines...)
}

// find returns the models whose ids match.
func find(providers []*Provider, fits func(string) bool) (all []Choice) {
	for _, p := range providers {
		for _, id := range p.Models() {
			if fits(id) {
				all = append(all, Choice{p, id})
			}
		}
	}
	return all
}

// qualified returns the models that match a name with a provider.
func qualified(providers []*Provider, name string) (all []Choice) {
	for _, long := range []bool{true, false} {
		for _, provider := range providers {
			prefix := provider.Name
			if long {
				prefix = provider.Ref.ID
			}
			id, ok := strings.CutPrefix(name, prefix+"/")
			if !ok || id == "" {
				continue
			}
			if tier := provider.Tiers[id]; tier != "" {
				id = tier
			}
			all = append(all, Choice{provider, id})
		}
		if len(all) > 0 {
			break
		}
	}
	return all
}

// unknown returns the error for an unknown model, with the known ones.
func unknown(providers []*Provider, name string) error {
	tiers, names := map[string]bool{}, []string{}
	var lines []string
	for _, p := range providers {
		for tier := range p.Tiers {
			tiers[tier] = true
		}
		names = append(names, p.Models()...)
		shown := p.Name
		if slices.ContainsFunc(providers, func(o *Provider) bool { return o != p && o.Name == p.Name }) {
			shown = p.Ref.ID
		}
		lines = append(lines, fmt.Sprintf("%s: %s", shown, strings.Join(p.Models(), ", ")))
	}
	all := slices.Sorted(maps.Keys(tiers))
	return fault.New(fault.NotFound, "unknown model %q", name).On("model", name).On("tiers", all).
		Near(name, slices.Concat(all, names)).Because("tiers: " + strings.Join(all,
		", ")).List(lines...).Try("rye docs providers")
}
