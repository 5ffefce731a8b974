package closure

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/lock/project"
)

const configKind = "config"

// list lists the files of all spaces.
func (c *closer) list(ctx context.Context) error {
	l, err := c.View.Files(ctx)
	if err != nil {
		return err
	}
	c.files, c.bad = l.Files, map[model.Ref][]*ai.ItemError{}
	for _, p := range l.Problems {
		if p.Ref == (model.Ref{}) {
			if f, err := c.View.At(p.Space, p.Path); err == nil {
				p.Ref = f.Ref
			}
		}
		if p.Ref != (model.Ref{}) {
			c.bad[p.Ref] = append(c.bad[p.Ref], p)
		}
		if c.concerns(p) {
			c.problems = append(c.problems, &Problem{Ref: p.Ref, Space: p.Space, Path: p.Path, Err: p.Err})
		}
	}
	for _, w := range c.View.Warnings() {
		c.warnings = append(c.warnings, &Problem{Ref: w.Ref, Space: w.Space, Path: w.Path, Err: w.Err})
	}
	return nil
}

// filesAt returns the files with a ref.
func (c *closer) filesAt(ref model.Ref) []ai.File {
	i, _ := slices.BinarySearchFunc(c.files, ref, compareFile)
	return sameRef(c.files[i:], ref)
}

// sameRef returns the leading files that have a ref.
func sameRef(files []ai.File, ref model.Ref) []ai.File {
	n := 0
	for n < len(files) && files[n].Ref == ref {
		n++
	}
	return files[:n]
}

func compareFile(f ai.File, ref model.Ref) int { return compareIDs(f.Ref, ref) }

// compareIDs orders refs by kind, then by id.
func compareIDs(a, b model.Ref) int {
	if n := strings.Compare(a.Kind, b.Kind); n != 0 {
		return n
	}
	return strings.Compare(a.ID, b.ID)
}

// concerns reports whether a broken file could have been an item that the roots cover. An unreadable directory might
// hold any item below it.
func (c *closer) concerns(itemError *ai.ItemError) bool {
	if c.drafts[itemError.Ref] {
		return false
	}
	own, from := itemError.Space.Level == ai.Project, itemError.Space.Label
	if k, ok := c.View.Kind(configKind); ok && !itemError.Space.Builtin &&
		strings.HasPrefix(itemError.Path+"/", k.Dir+"/") {
		return true
	}
	if len(c.Roots) == 0 {
		return own
	}
	for i := range c.Roots {
		r := &c.Roots[i]
		if r.One {
			continue
		}
		if itemError.Ref == (model.Ref{}) && own && (r.From == "" || r.From == from) ||
			itemError.Ref != (model.Ref{}) &&
				r.Match(itemError.Ref, from) {
			return true
		}
	}
	return false
}

// roots returns the wants of the project, in order.
func (c *closer) roots() []want {
	var wants []want
	ask := func(why Why, ref model.Ref, pattern string) {
		w := want{ref: ref}
		c.asked = append(c.asked, wish{why, ref, pattern})
		if _, ok := c.results[w]; !ok {
			c.results[w] = result{}
			wants = append(wants, w)
		}
	}
	own := ai.Project
	if c.User {
		own = ai.User
	}
	globs := slices.Clone(c.Roots)
	slices.SortFunc(globs, func(a, b project.Root) int { return strings.Compare(a.Text, b.Text) })
	covers := make([]bool, len(globs))
	for rest := c.files; len(rest) > 0; {
		ref, files := rest[0].Ref, sameRef(rest, rest[0].Ref)
		if rest = rest[len(files):]; c.drafts[ref] {
			continue
		}
		if len(globs) == 0 && files[0].Space.Level == own {
			ask(AsRoot, ref, "")
		}
		told := false
		for i := range globs {
			if r := &globs[i]; !r.One && (!told || !covers[i]) && matchesAny(r, files) {
				covers[i] = true
				if !told && r.Text == project.Own {
					ask(AsRoot, ref, "")
				} else if !told {
					ask(AsRoot, ref, r.Text)
				}
				told = true
			}
		}
		// Config that only the library has is part of the binary, and no other file changes it.
		if ref.Kind == configKind && !files[0].Space.Builtin {
			ask(AsConfig, ref, "")
		}
	}
	for i := range globs {
		root := &globs[i]
		if !root.One {
			if !covers[i] && root.Line > 0 {
				c.warnings = append(c.warnings, &Problem{Err: &NothingError{root.Text}})
			}
			continue
		}
		ref, err := model.ParseRef(root.Text)
		if err != nil {
			c.problems = append(c.problems, &Problem{Err: err})
			continue
		}
		ask(AsRoot, ref, root.Text)
	}
	return wants
}

// matchesAny reports whether a root covers an item in any of the spaces that have it.
func matchesAny(r *project.Root, files []ai.File) bool {
	return slices.ContainsFunc(files, func(f ai.File) bool { return r.Match(f.Ref, f.Space.Label) })
}

// find returns the item of a want.
func (c *closer) find(ctx context.Context, want want) (*ai.Item, error) {
	if want.link {
		return c.links.Resolve(ctx, want.ref, want.from)
	}
	if want.from != nil {
		// The item must be within reach; an item that overrides it is then used instead.
		if _, err := c.View.Resolve(ctx, want.ref, want.from); err != nil {
			return nil, err
		}
	}
	if files := c.filesAt(want.ref); len(files) == 1 && len(c.bad[want.ref]) == 0 {
		it, err := c.View.Load(ctx, files[0])
		if !errors.Is(err, ai.ErrAsset) {
			return it, err
		}
	}
	it, err := c.View.Resolve(ctx, want.ref, nil)
	if err != nil {
		return nil, err
	}
	for _, p := range c.bad[want.ref] {
		if p.Space == it.Space {
			return nil, p
		}
	}
	return it, nil
}

// links resolves each executor once for the many tools that it runs.
type links struct {
	ai.Resolver

	mu    sync.Mutex
	found map[want]result
}

// maxLinks is how many links are cached.
const maxLinks = 500

// Resolve implements ai.Resolver.
func (l *links) Resolve(ctx context.Context, ref model.Ref, from *ai.Space) (*ai.Item, error) {
	key := want{ref, from, true}
	l.mu.Lock()
	r, ok := l.found[key]
	l.mu.Unlock()
	if ok {
		return r.item, r.err
	}
	it, err := l.Resolver.Resolve(ctx, ref, from)
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := l.found[key]; ok {
		return r.item, r.err // from the first read: all see the same bytes
	}
	if ctx.Err() == nil && len(l.found) < maxLinks {
		l.found[key] = result{item: it, err: err}
	}
	return it, err
}

// A pattern is a permission with "*", as seen from a space.
type pattern struct {
	capability capability.Capability
	from       *ai.Space
}

// expand adds wants for all items that the permissions of an item cover. Many items have the same permissions, so
// each pattern is expanded once.
func (c *closer) expand(n *node, add func(want)) {
	for i, e := range n.edges {
		if e.pattern == "" {
			continue
		}
		p := n.patterns[0]
		n.patterns = n.patterns[1:]
		if c.covered[p] {
			continue
		}
		c.covered[p] = true
		for _, ref := range c.matches(p.capability) {
			w := want{ref: ref, from: p.from}
			if _, ok := c.first[w]; !ok {
				c.first[w] = source{n, n.edges[i]}
			}
			add(w)
		}
	}
}

// matches returns the refs of files that a capability with "*" covers.
func (c *closer) matches(capability capability.Capability) (refs []model.Ref) {
	_, kind, id := parts(capability)
	begin, _, _ := strings.Cut(id, "*")
	begin = strings.TrimSuffix(begin, "/")
	kinds := []string{kind}
	if kind == "*" {
		kinds = nil
		for _, k := range c.View.Kinds() {
			kinds = append(kinds, k.Name)
		}
	}
	for _, kind := range kinds {
		i, _ := slices.BinarySearchFunc(c.files, model.Ref{Kind: kind, ID: begin}, compareFile)
		for ; i < len(c.files) && c.files[i].Ref.Kind == kind && strings.HasPrefix(c.files[i].ID, begin); i++ {
			if ref := c.files[i].Ref; covers(capability, ref) && !c.drafts[ref] {
				refs = append(refs, ref)
			}
		}
	}
	return refs
}

// covers reports whether a capability includes an item.
func covers(p capability.Capability, ref model.Ref) bool {
	verb, _, _ := parts(p)
	if verb == "*" {
		verb = capability.Execute
	}
	one, err := capability.For(verb, ref.Kind, ref.ID)
	return err == nil && p.Covers(one)
}

// parts splits a capability.
func parts(c capability.Capability) (verb, kind, id string) {
	verb, rest, _ := strings.Cut(c.String(), ":")
	kind, id, _ = strings.Cut(rest, ":")
	return verb, kind, id
}
