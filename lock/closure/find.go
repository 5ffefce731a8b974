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

// list looks which files there are.
func (c *closer) list(ctx context.Context) error {
	l, err := c.View.Files(ctx)
	if err != nil {
		return err
	}
	c.files, c.bad = make(map[model.Ref][]ai.File, len(l.Files)), map[model.Ref][]*ai.ItemError{}
	for _, f := range l.Files {
		if _, ok := c.files[f.Ref]; !ok {
			c.refs = append(c.refs, f.Ref)
		}
		c.files[f.Ref] = append(c.files[f.Ref], f)
	}
	slices.SortFunc(c.refs, compareIDs)
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

// compareIDs orders refs by kind, then by id.
func compareIDs(a, b model.Ref) int {
	if n := strings.Compare(a.Kind, b.Kind); n != 0 {
		return n
	}
	return strings.Compare(a.ID, b.ID)
}

// concerns reports whether a file that is no item although it looks like one could have been one that the roots mean.
// Who can't tell what is in a directory can't say that nothing there is meant.
func (c *closer) concerns(p *ai.ItemError) bool {
	own, from := p.Space.Level == ai.Project, p.Space.Label
	if k, ok := c.View.Kind(configKind); ok && !p.Space.Builtin && strings.HasPrefix(p.Path+"/", k.Dir+"/") {
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
		if p.Ref == (model.Ref{}) && own && (r.From == "" || r.From == from) || p.Ref != (model.Ref{}) && r.Match(p.Ref, from) {
			return true
		}
	}
	return false
}

// roots returns what the project wants, in order.
func (c *closer) roots() []want {
	seen := map[want]bool{}
	var wants []want
	ask := func(why Why, ref model.Ref, pattern string) {
		w := want{ref: ref}
		c.asked = append(c.asked, edge{why: why, to: w, pattern: pattern})
		if !seen[w] {
			seen[w] = true
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
	for _, ref := range c.refs {
		if len(globs) == 0 && c.files[ref][0].Space.Level == own {
			ask(AsRoot, ref, "")
		}
		told := false
		for i := range globs {
			if r := &globs[i]; !r.One && (!told || !covers[i]) && c.matchesAny(r, ref) {
				covers[i] = true
				if !told && r.Text == project.Own {
					ask(AsRoot, ref, "")
				} else if !told {
					ask(AsRoot, ref, r.Text)
				}
				told = true
			}
		}
		// What the library alone has is what the binary says, and no file of anybody's changes it.
		if ref.Kind == configKind && !c.files[ref][0].Space.Builtin {
			ask(AsConfig, ref, "")
		}
	}
	for i := range globs {
		r := &globs[i]
		if !r.One {
			if !covers[i] && r.Line > 0 {
				c.warnings = append(c.warnings, &Problem{Err: &NothingError{r.Text}})
			}
			continue
		}
		ref, err := model.ParseRef(r.Text)
		if err != nil {
			c.problems = append(c.problems, &Problem{Err: err})
			continue
		}
		ask(AsRoot, ref, r.Text)
	}
	return wants
}

// matchesAny reports whether a root covers an item of any of the spaces that have it.
func (c *closer) matchesAny(r *project.Root, ref model.Ref) bool {
	return slices.ContainsFunc(c.files[ref], func(f ai.File) bool { return r.Match(ref, f.Space.Label) })
}

// find returns the item that a want means.
func (c *closer) find(ctx context.Context, w want) (*ai.Item, error) {
	if w.link {
		return c.links.Resolve(ctx, w.ref, w.from)
	}
	if w.from != nil {
		// It has to be in reach; what stands above it is used all the same.
		if _, err := c.View.Resolve(ctx, w.ref, w.from); err != nil {
			return nil, err
		}
	}
	if files := c.files[w.ref]; len(files) == 1 && len(c.bad[w.ref]) == 0 {
		it, err := c.View.Load(ctx, files[0])
		if !errors.Is(err, ai.ErrAsset) {
			return it, err
		}
	}
	it, err := c.View.Resolve(ctx, w.ref, nil)
	if err != nil {
		return nil, err
	}
	for _, p := range c.bad[w.ref] {
		if p.Space == it.Space {
			return nil, p
		}
	}
	return it, nil
}

// links finds each executor once for the many tools that it runs.
type links struct {
	ai.Resolver

	mu    sync.Mutex
	found map[want]result
}

// maxLinks bounds how many are kept.
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
		return r.item, r.err // of the first to read it: all see the same bytes
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

// expand wants all items that the permissions of an item cover. Many items have the same permissions.
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
func (c *closer) matches(p capability.Capability) (refs []model.Ref) {
	_, kind, id := parts(p)
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
		i, _ := slices.BinarySearchFunc(c.refs, model.Ref{Kind: kind, ID: begin}, compareIDs)
		for ; i < len(c.refs) && c.refs[i].Kind == kind && strings.HasPrefix(c.refs[i].ID, begin); i++ {
			if covers(p, c.refs[i]) {
				refs = append(refs, c.refs[i])
			}
		}
	}
	return refs
}

// covers reports whether a capability is about an item.
func covers(p capability.Capability, ref model.Ref) bool {
	verb, _, _ := parts(p)
	if verb == "*" {
		verb = capability.Execute
	}
	one, err := capability.For(verb, ref.Kind, ref.ID)
	return err == nil && p.Covers(one)
}

// parts takes a capability apart.
func parts(c capability.Capability) (verb, kind, id string) {
	verb, rest, _ := strings.Cut(c.String(), ":")
	kind, id, _ = strings.Cut(rest, ":")
	return verb, kind, id
}
