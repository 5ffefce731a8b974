package project

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy/glob"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/tlog"
)

// A Registry is a registry of bundles that the project names, with the keys that it was met with.
type Registry struct {
	URL   string     // without a slash at the end
	Names []string   // globs of the bundles that come from it
	Log   tlog.Key   // the key of its log
	Key   key.Public // the key that signs its indexes

	globs []glob.Glob
}

const (
	registryPrefix = "registry:"
	maxRegistries  = 100
)

var registryKeys = []string{"names", "log", "key"}

// RegistryAt returns the source of bundles in a registry.
func RegistryAt(url string) Source { return Source{Where: registryPrefix + url} }

// Registry returns the address of the registry that a source names; false if it isn't one.
func (s Source) Registry() (url string, ok bool) {
	if s.Index {
		return "", false
	}
	return strings.CutPrefix(s.Where, registryPrefix)
}

// badRegistry returns the reason why a text is not the address of a registry.
func badRegistry(url string) string {
	switch reason := badAddress(url); {
	case reason != "":
		return reason
	case strings.HasSuffix(url, "/"), strings.Contains(url, "?"):
		return "the address of a registry has no query and no slash at its end"
	}
	return ""
}

// Has reports whether a bundle comes from the registry.
func (r *Registry) Has(id string) bool {
	return glob.MatchAny(r.globs, glob.Name{Kind: "bundle", ID: id})
}

// RegistriesOf returns the registries whose names cover a bundle.
func (p *Project) RegistriesOf(id string) (all []*Registry) {
	for i := range p.Registries {
		if p.Registries[i].Has(id) {
			all = append(all, &p.Registries[i])
		}
	}
	return all
}

// registryOf returns the source of a requirement that names none.
func (p *Project) registryOf(id string) (Source, error) {
	all := p.RegistriesOf(id)
	switch len(all) {
	case 0:
		return Source{}, fmt.Errorf("%q needs exactly one source: from or index, or a registry whose names cover it",
			id)
	case 1:
		return RegistryAt(all[0].URL), nil
	}
	return Source{}, fmt.Errorf("the names of several registries cover %q: %s and %s", id, all[0].URL, all[1].URL)
}

func (p *Project) readBundleRegistries(section *yamltree.Node) error {
	if section.Shape != yamltree.Mapping {
		return section.Errorf("expected the address of a registry under %q, as in \"https://registry.example\": "+
			"{names: [\"acme/**\"], log: …, key: …}", section.Key)
	}
	if len(section.Kids) > maxRegistries {
		return section.Errorf("more than %d registries", maxRegistries)
	}
	for _, n := range section.Kids {
		r, err := readRegistry(n)
		if err != nil {
			return err
		}
		p.Registries = append(p.Registries, *r)
	}
	return nil
}

func readRegistry(n *yamltree.Node) (*Registry, error) {
	if reason := badRegistry(n.Key); reason != "" {
		return nil, n.Errorf("%s", badSource(n.Key, reason))
	}
	if n.Shape != yamltree.Mapping {
		return nil, n.Errorf("expected names, log and key, as in {names: [\"acme/**\"], log: …, key: …}")
	}
	if err := n.Fields(registryKeys...); err != nil {
		return nil, err
	}
	r := &Registry{URL: n.Key}
	texts := map[string]string{}
	for _, field := range registryKeys[1:] {
		text, err := n.Need(field)
		if err != nil {
			return nil, err
		}
		texts[field] = text
	}
	var err error
	if r.Log, err = tlog.ParseKey(texts["log"]); err == nil && !r.Log.IsLog() {
		err = fmt.Errorf("it is not the key of a log")
	}
	if err != nil {
		return nil, n.Get("log").Errorf("%s", err)
	}
	if r.Key, err = key.ParsePublic(texts["key"]); err != nil {
		return nil, n.Get("key").Errorf("%s", err)
	}
	names := n.Get("names")
	if names == nil || len(names.Kids) == 0 {
		return nil, n.Errorf("names is missing: expected globs of bundles, as in names: [\"acme/**\"]")
	}
	if r.Names, err = names.ItemWords(); err != nil {
		return nil, err
	}
	for i, text := range r.Names {
		g, err := glob.Parse(text)
		if err == nil && strings.Contains(text, ":") {
			err = fmt.Errorf("%q is not a glob of bundles: expected one as in acme/**", text)
		}
		if err != nil {
			return nil, names.Kids[i].Errorf("%s", err)
		}
		r.globs = append(r.globs, g)
	}
	return r, nil
}

// AddRegistry adds a registry, or adds names to the one with its address.
func (p *Project) AddRegistry(r Registry) (*Project, error) {
	names := r.Names
	for _, old := range p.Registries {
		if old.URL == r.URL {
			names = slices.Clone(old.Names)
			for _, name := range r.Names {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return p.change(func(root *yamltree.Node) {
		n := root.Entry("registries", order...).Entry(r.URL)
		n.Entry("names", registryKeys...).SetList(names)
		n.Entry("log", registryKeys...).Set(r.Log.String())
		n.Entry("key", registryKeys...).Set(r.Key.String())
	})
}
