package closure

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/packages"
	"github.com/rye-build/rye/lock/project"
)

// A Store takes the bytes of the project's and the user's items, like a cas.Batch, which the caller commits. Many
// goroutines call its methods.
type Store interface {
	Put(ctx context.Context, kind cas.Kind, r io.Reader) (cas.Info, error)
	PutBytes(ctx context.Context, kind cas.Kind, b []byte) (cas.Digest, error)
}

// Options configures Close.
type Options struct {
	View  *ai.View     // the project, the user if allowed, the bundles of the lock, and the library
	Admit *ai.Admitter // KeepTrees makes it much faster where many tools share a directory
	Roots []project.Root
	User  bool  // true for the user's own lock: without roots, all items of the user are roots
	Store Store // nil: nothing is stored
	Uses  bool  // record why items are in the closure
	// Pinned returns the digests with which the present lock has an item. Such an item is no draft, and its names of
	// fields are not judged again. nil: there are no drafts, and nothing is pinned.
	Pinned func(model.Ref) []cas.Digest
}

// A Closure is the result of Close: all items that the roots reach.
type Closure struct {
	Pins        []file.Pin        // sorted by ref
	Definitions []file.Definition // sorted by name
	Lists       []List            // sorted by tool
	Uses        []Use             // sorted by From, To, Pattern and Why, each once; nil unless asked for
	Warnings    []*Problem        // sorted by place
	Drafts      []*Problem        // why items are left out, sorted by place
}

// A List holds the packages that a tool requires from other registries.
type List struct {
	Tool     model.Ref
	Path     string // the file, in the tool's space
	Packages []packages.Package
}

// A Use is the reason why an item is in the closure.
type Use struct {
	From model.Ref // zero for the project itself
	To   model.Ref // zero if Pattern is set and From is an item: all items that the capability covers
	Why  Why
	// Pattern is the root, or the permission, that covers To: "tool:acme/**", "execute:tool:acme/*".
	Pattern string
	Line    int // in the file of From; 0 if unknown
}

// Covers reports whether this use includes an item.
func (u *Use) Covers(ref model.Ref) bool {
	if u.To != (model.Ref{}) {
		return u.To == ref
	}
	p, err := capability.Parse(u.Pattern)
	return err == nil && covers(p, ref)
}

// A Why is the way in which an item is used, by the names in the package comment.
type Why string

// The ways.
const (
	AsRoot       Why = "root"
	AsConfig     Why = "config"
	AsExecutor   Why = "executor"
	AsHook       Why = "hook"
	AsExtractor  Why = "extractor"
	AsOffer      Why = "offer"
	AsAction     Why = "action"
	AsPermission Why = "permission"
	AsReference  Why = "reference"
	AsProvider   Why = "provider"
)

// needed reports whether an item that is used in this way must exist.
func (w Why) needed() bool {
	return w == AsRoot || w == AsConfig || w == AsExecutor || w == AsHook || w == AsOffer || w == AsExtractor
}

// Close finds all items that the roots reach. It returns an *Error with all problems, or an error of the context or
// the store. Drafts are left out.
func Close(ctx context.Context, o Options) (*Closure, error) {
	all, err := closeOver(ctx, o, nil)
	wrong, ok := errors.AsType[*Error](err)
	if !ok || wrong.drafts == nil {
		return all, err
	}
	// Without the drafts the result has all other problems. What a draft alone needs isn't reached any more.
	left, err := closeOver(ctx, o, wrong.drafts)
	if err != nil {
		return nil, err
	}
	left.Drafts = slices.DeleteFunc(wrong.Problems, func(p *Problem) bool { return !wrong.drafts[p.Ref] })
	return left, nil
}

// closeOver finds all items that the roots reach, without the drafts.
func closeOver(ctx context.Context, o Options, drafts map[model.Ref]bool) (*Closure, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	closer := &closer{Options: o, drafts: drafts, spaces: o.View.Spaces(), stop: stop, nodes: map[nodeKey]*node{},
		results: map[want]result{},
		covered: map[pattern]bool{}, first: map[want]source{},
		links: links{Resolver: o.View, found: map[want]result{}},
		trees: map[treeKey]*madeTree{}}
	if err := closer.list(ctx); err != nil {
		return nil, err
	}
	if err := closer.follow(ctx, closer.roots()); err != nil {
		return nil, err
	}
	return closer.result(ctx)
}

// A closer holds the state of one Close.
type closer struct {
	Options
	spaces []*ai.Space // from the highest to the lowest
	drafts map[model.Ref]bool
	stop   context.CancelCauseFunc

	// The files listed in the spaces.
	files []ai.File // sorted by ref, those of one ref from the highest space to the lowest
	bad   map[model.Ref][]*ai.ItemError

	asked    []wish // edges from the project
	problems []*Problem
	warnings []*Problem
	results  map[want]result
	covered  map[pattern]bool // the patterns already expanded
	first    map[want]source  // the first permission with "*" that covered the item
	order    []*node          // in the order of discovery

	links links
	mu    sync.Mutex
	nodes map[nodeKey]*node
	trees map[treeKey]*madeTree
}

// A want is a ref and the space from which it is resolved.
type want struct {
	ref  model.Ref
	from *ai.Space // nil for the project
	link bool      // a link of an executor chain
}

// A result is the outcome of a want.
type result struct {
	item *ai.Item // set for links only, to save memory
	node *node
	err  error
}

// An edge is a place that names an item.
type edge struct {
	why     Why
	to      want
	pattern string // the root or permission; then only at is set as well
	at      value.Pos
	field   string
}

// A wish is an edge from the project.
type wish struct {
	why     Why
	ref     model.Ref
	pattern string
}

func (w wish) edge() edge { return edge{why: w.why, to: want{ref: w.ref}, pattern: w.pattern} }

// A source is an edge with the node that it starts from.
type source struct {
	from *node
	edge edge
}

// A nodeKey identifies an item: its ref and space.
type nodeKey struct {
	ref   model.Ref
	space *ai.Space
}

// A node holds the facts about a reached item.
type node struct {
	nodeKey
	path       string
	pin        *file.Pin  // nil for an item with problems
	definition cas.Digest // of config
	list       *List      // of a tool that names a list
	patterns   []pattern
	edges      []edge
	problems   []*Problem
	warnings   []*Problem
	echoes     []*Problem // problems that another item reports too
	unsigned   bool       // its file has no signature
	reached    bool
}

func (n *node) problem(at value.Pos, field string, err error) {
	n.problems = append(n.problems, n.about(at, field, err))
}

// about makes a problem from an error. The error's text need not name the file.
func (n *node) about(at value.Pos, field string, err error) *Problem {
	if e, ok := err.(*ai.ItemError); ok && e.Space == n.space && e.Path == n.path {
		err = e.Err
	}
	return &Problem{Ref: n.ref, Space: n.space, Path: n.path, At: at, Field: field, Err: err}
}

// follow resolves the wants, then the wants of the items found, until there are no new ones. Each round has a fixed
// order, so that the result doesn't depend on the speed of goroutines.
func (c *closer) follow(ctx context.Context, wants []want) error {
	defer c.View.Hold()()
	for len(wants) > 0 {
		found := make([]result, len(wants))
		if err := cas.Parallel(ctx, 0, len(wants), func(_ context.Context, i int) error {
			found[i] = c.fulfil(ctx, wants[i])
			return nil
		}); err != nil {
			return err
		}
		var next []want
		add := func(w want) {
			if _, ok := c.results[w]; !ok {
				c.results[w] = result{}
				next = append(next, w)
			}
		}
		for i, w := range wants {
			c.results[w] = found[i]
			n := found[i].node
			if n == nil || n.reached {
				continue
			}
			n.reached = true
			c.order = append(c.order, n)
			for _, e := range n.edges {
				if e.pattern == "" {
					add(e.to)
				}
			}
			c.expand(n, add)
		}
		wants = next
	}
	return nil
}

// fulfil finds an item and examines it once.
func (c *closer) fulfil(ctx context.Context, w want) result {
	if w.ref.Kind == configKind {
		return c.config(ctx, w.ref)
	}
	it, err := c.find(ctx, w)
	if err != nil {
		return result{err: err}
	}
	n, mine := c.claim(it)
	if mine {
		c.look(ctx, n, it)
	}
	return result{node: n}
}

// claim returns the node of an item and reports whether the caller must fill it. Others may use its content once the
// round is over.
func (c *closer) claim(it *ai.Item) (n *node, mine bool) {
	key := nodeKey{it.Ref, it.Space}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n, ok := c.nodes[key]; ok {
		return n, false
	}
	n = &node{nodeKey: key, path: it.Path}
	c.nodes[key] = n
	return n, true
}

// result assembles the closure.
func (c *closer) result(ctx context.Context) (*Closure, error) {
	rank := func(s *ai.Space) int { return slices.Index(c.spaces, s) }
	slices.SortFunc(c.order, func(a, b *node) int {
		return cmp.Or(file.CompareRefs(a.ref, b.ref), cmp.Compare(rank(a.space), rank(b.space)))
	})
	out := &Closure{Pins: make([]file.Pin, 0, len(c.order))}
	var echoes []*Problem
	twice := map[*node]*model.Ref{} // refs with two items, with the first user of each
	for _, w := range c.asked {
		c.edge(out, nil, w.edge())
	}
	for i, n := range c.order {
		c.problems = append(c.problems, n.problems...)
		c.warnings = append(c.warnings, n.warnings...)
		echoes = append(echoes, n.echoes...)
		for _, e := range n.edges {
			c.edge(out, n, e)
		}
		if i > 0 && c.order[i-1].ref == n.ref {
			twice[c.order[i-1]], twice[n] = nil, nil
		}
		if over := c.behind(n); len(over) > 0 {
			c.warnings = append(c.warnings, n.about(value.Pos{}, "",
				fault.New(fault.Validation, "overrides the item in %q, as \"override:\" in your policy allows",
					strings.Join(over, ", "))))
		}
		if n.pin != nil {
			out.Pins, n.pin = append(out.Pins, *n.pin), nil
		}
		if n.list != nil {
			out.Lists = append(out.Lists, *n.list)
		}
		if !n.definition.IsZero() {
			out.Definitions = append(out.Definitions, file.Definition{Name: n.ref.String(), Digest: n.definition})
		}
	}
	c.conflicts(twice)
	for w, s := range c.first {
		if err := c.results[w].err; err != nil && !missing(err) {
			c.problems = append(c.problems, s.from.about(s.edge.at, s.edge.field, err))
		}
	}
	if len(c.problems) == 0 {
		c.problems = echoes
	}
	if len(c.problems) > 0 {
		c.problems = c.sorted(c.problems)
		c.suggest(ctx)
		return nil, &Error{c.problems, c.findDrafts(), c.Pinned}
	}
	slices.SortFunc(out.Uses, func(a, b Use) int {
		return cmp.Or(file.CompareRefs(a.From, b.From), file.CompareRefs(a.To, b.To),
			cmp.Compare(a.Pattern, b.Pattern), cmp.Compare(a.Why, b.Why), cmp.Compare(a.Line, b.Line))
	})
	out.Uses = slices.CompactFunc(out.Uses, func(a, b Use) bool {
		return a.From == b.From && a.To == b.To && a.Pattern == b.Pattern && a.Why == b.Why
	})
	out.Warnings = c.sorted(c.warnings)
	return out, nil
}

// function reports whether a library item's permission is for a function of the binary, such as system:paths, which is
// no item.
func (c *closer) function(from *node, to model.Ref) bool {
	_, kind := c.View.Kind(to.Kind)
	return from != nil && from.space.Builtin && !kind
}

// edge turns an edge into a use, or reports why it names no item.
func (c *closer) edge(out *Closure, from *node, edge edge) {
	use := Use{To: edge.to.ref, Why: edge.why, Pattern: edge.pattern, Line: edge.at.Line}
	about := func(err error) *Problem {
		if at, ok := err.(*ai.ItemError); ok {
			return &Problem{Ref: edge.to.ref, Space: at.Space, Path: at.Path, Err: at.Err}
		}
		return &Problem{Ref: edge.to.ref, Err: err}
	}
	if from != nil {
		use.From = from.ref
		about = func(err error) *Problem { return from.about(edge.at, edge.field, err) }
	}
	var err error
	if edge.to != (want{}) {
		err = c.results[edge.to].err
	}
	switch {
	case err == nil && !c.Uses:
	case err == nil:
		out.Uses = append(out.Uses, use)
	case edge.why == AsExecutor:
		c.problems = append(c.problems, about(noExecutor(from.ref, edge.to.ref, err)))
	case edge.why.needed() && edge.why != AsRoot || !missing(err):
		c.problems = append(c.problems, about(err))
	case edge.why == AsRoot:
		// A glob may cover a file that is an asset, but a file that is named must be an item.
		if edge.pattern == edge.to.ref.String() {
			c.problems = append(c.problems, about(err))
		}
	case edge.why != AsProvider && !c.function(from, edge.to.ref):
		c.warnings = append(c.warnings, about(err))
	}
}

// conflicts reports the refs that have two items.
func (c *closer) conflicts(twice map[*node]*model.Ref) {
	if len(twice) == 0 {
		return
	}
	note := func(e edge, by model.Ref) {
		n := c.results[e.to].node
		if first, ok := twice[n]; ok && first == nil && n.ref != by {
			twice[n] = &by
		}
	}
	for _, w := range c.asked {
		note(w.edge(), model.Ref{})
	}
	for _, n := range c.order {
		for _, e := range n.edges {
			note(e, n.ref)
		}
	}
	for i := 1; i < len(c.order); i++ {
		before, after := c.order[i-1], c.order[i]
		if before.ref != after.ref {
			continue
		}
		var by [2]model.Ref
		for i, n := range []*node{before, after} {
			if first := twice[n]; first != nil {
				by[i] = *first
			}
		}
		c.problems = append(c.problems, before.about(value.Pos{}, "",
			conflict(before.ref, [2]string{before.space.Label, after.space.Label}, by)))
	}
}

// behind returns the labels of the spaces whose items of the library an item overrides.
func (c *closer) behind(n *node) (over []string) {
	if first, _, _ := strings.Cut(n.ref.ID, "/"); n.space.Builtin || !strings.EqualFold(first, "rye") {
		return nil
	}
	for _, f := range c.filesAt(n.ref) {
		if f.Space.Level < n.space.Level || f.Space.Builtin {
			over = append(over, f.Space.Label)
		}
	}
	return over
}

// maxSuggested is how many missing refs get suggestions: each search for similar refs reads all of them.
const maxSuggested = 10

// suggest adds similar refs to problems about missing items.
func (c *closer) suggest(ctx context.Context) {
	left := maxSuggested
	for _, p := range c.problems {
		gone, ok := errors.AsType[*ai.NotFoundError](p.Err)
		if !ok || gone.Above != "" || len(gone.Assets) > 0 || left == 0 {
			continue
		}
		left--
		_, err := c.View.Find(ctx, gone.Ref)
		if found, ok := errors.AsType[*ai.NotFoundError](err); ok {
			gone.Near = found.Near
		}
	}
}
