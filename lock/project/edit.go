package project

import (
	"io/fs"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// change edits a copy of the tree and parses the result, so that one set of rules decides what is valid.
func (p *Project) change(edit func(root *yamltree.Node)) (*Project, error) {
	t := p.tree.Copy()
	edit(t.Root)
	return Parse(t.Format(), p.running)
}

// Add adds a requirement, or replaces the one with its id.
func (p *Project) Add(r Requirement) (*Project, error) {
	return p.change(func(root *yamltree.Node) {
		n := root.Entry("requires", order...).Entry(r.ID)
		from, index := r.Source.Where, ""
		if r.Source.Index {
			from, index = index, from
		}
		if _, registry := r.Source.Registry(); registry {
			from = "" // the names under registries say so
		}
		for i, text := range []string{r.Text, from, index} {
			if n.Drop(requireKeys[i], text == "") {
				n.Entry(requireKeys[i], requireKeys...).Set(text)
			}
		}
	})
}

// SetVersion changes the range of an existing requirement.
func (p *Project) SetVersion(id, versions string) (*Project, error) {
	if err := p.required(id); err != nil {
		return nil, err
	}
	return p.change(func(root *yamltree.Node) { root.Get("requires").Get(id).Entry("version").Set(versions) })
}

// Remove removes an existing requirement.
func (p *Project) Remove(id string) (*Project, error) {
	if err := p.required(id); err != nil {
		return nil, err
	}
	return p.change(func(root *yamltree.Node) { root.Get("requires").Drop(id, true) })
}

// AddRoot adds an item or a glob to the roots. If there are none yet, all items of the project stay roots.
func (p *Project) AddRoot(text string) (*Project, error) {
	return p.change(func(root *yamltree.Node) {
		words := []string{Own}
		if len(p.Roots) > 0 {
			words = nil
		}
		for _, r := range p.Roots {
			words = append(words, r.Text)
		}
		if !slices.Contains(words, text) {
			words = append(words, text)
		}
		root.Entry("roots", order...).SetList(words)
	})
}

// RemoveRoot removes an existing root, and the whole section with the last one.
func (p *Project) RemoveRoot(text string) (*Project, error) {
	if !slices.ContainsFunc(p.Roots, func(r Root) bool { return r.Text == text }) {
		return nil, fault.New(fault.NotFound, "%s has no root %+q", family, text).From(fs.ErrNotExist).On("root",
			text).
			Because("rye remove takes a line out of rye.yaml; rye rm deletes an item").Try("rye tree")
	}
	return p.change(func(root *yamltree.Node) {
		if root.Get("roots").DropItem(text); len(p.Roots) == 1 {
			root.Drop("roots", true)
		}
	})
}

func (p *Project) required(id string) error {
	if _, ok := p.Requirement(id); ok {
		return nil
	}
	all := make([]string, len(p.Requires))
	for i, r := range p.Requires {
		all[i] = r.ID
	}
	return fault.New(fault.NotFound, "%s does not require the bundle %+q%s", family, id,
		yamltree.Suggest(id, all)).From(fs.ErrNotExist).
		On("bundle", id).Try("rye tree")
}
