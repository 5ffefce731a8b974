package resolve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest"
)

// The limits of the package comment.
const (
	maxBundles  = 10_000
	maxVersions = 10_000
	maxRequires = 4096
	maxDepth    = 100
	maxSteps    = 200_000_000
	maxRounds   = 1000
)

// A solver holds the known bundles, numbered. It loads more as they are required.
type solver struct {
	ctx   context.Context
	src   Sources
	ids   map[string]int
	nodes []node
	roots []edge
	keep  map[string]string // of the current attempt
	steps int
}

// A node is a bundle.
type node struct {
	id       string
	versions []version // in ascending order
	absent   error     // why it has no versions
	keep     int       // the version to keep, or -1
}

type version struct {
	text     string
	requires map[string]semver.Range
	ask      func(context.Context) (map[string]semver.Range, error)
	edges    []edge
	built    bool // edges are requires
}

// An edge is a requirement. It caches the last answer about the kept version, because checking a range is the
// expensive part.
type edge struct {
	to    int
	rng   semver.Range
	floor int // the least version in the range, or -1
	asked int // the kept version of the cached answer, or -1
	fits  bool
}

// A selection maps the number of each bundle to the number of a version, or -1. Bundles beyond its end aren't
// selected.
type selection []int

func (sel selection) at(i int) int {
	if i < len(sel) {
		return sel[i]
	}
	return -1
}

func (sel selection) same(o selection) bool {
	for i := range max(len(sel), len(o)) {
		if sel.at(i) != o.at(i) {
			return false
		}
	}
	return true
}

func (s *solver) start(requires map[string]semver.Range) (err error) {
	s.roots, err = s.edges(requires, func(err error) error { return err })
	return err
}

// edges returns requirements in the order of ids, so that the order of maps doesn't matter.
func (s *solver) edges(requires map[string]semver.Range, wrap func(error) error) ([]edge, error) {
	if len(requires) > maxRequires {
		return nil, wrap(tooMany("requirements of one bundle", maxRequires))
	}
	out := make([]edge, 0, len(requires))
	for _, id := range slices.Sorted(maps.Keys(requires)) {
		if err := portable.CheckID(id); err != nil {
			return nil, wrap(err)
		}
		to, err := s.node(id)
		if err != nil {
			return nil, err
		}
		rng := requires[id]
		out = append(out, edge{to: to, rng: rng, floor: s.least(to, rng), asked: -1})
	}
	return out, nil
}

// least returns the least version of a bundle that is in a range, or -1.
func (s *solver) least(bundle int, rng semver.Range) int {
	versions := s.nodes[bundle].versions
	lower, ok := rng.Lower()
	if !ok {
		return -1
	}
	i, _ := slices.BinarySearchFunc(versions, lower, func(v version, lower string) int {
		return manifest.CompareVersions(v.text, lower)
	})
	// Versions between the parts of a range are not in it.
	for ; i < len(versions) && s.steps <= maxSteps; i++ {
		s.steps++
		if rng.Contains(versions[i].text) {
			return i
		}
	}
	return -1
}

// node returns the number of a bundle. For a new bundle it asks the Sources for versions.
func (s *solver) node(id string) (int, error) {
	if i, known := s.ids[id]; known {
		return i, nil
	}
	if len(s.nodes) == maxBundles {
		return 0, tooMany("bundles", maxBundles)
	}
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n := node{id: id, keep: -1}
	found, err := s.src.Versions(s.ctx, id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		n.absent = err
	case err != nil:
		return 0, inSource(id, "", err)
	case len(found) > maxVersions:
		return 0, inSource(id, "", tooMany("versions of one bundle", maxVersions))
	}
	for _, c := range found {
		if err := manifest.CheckVersion(c.Version); err != nil {
			return 0, inSource(id, "", err)
		}
		n.versions = append(n.versions, version{text: c.Version, requires: c.Requires, ask: c.Ask})
	}
	slices.SortFunc(n.versions, func(a, b version) int {
		if c := manifest.CompareVersions(a.text, b.text); c != 0 {
			return c
		}
		return strings.Compare(a.text, b.text)
	})
	for i := 1; i < len(n.versions); i++ {
		if n.versions[i].text == n.versions[i-1].text {
			return 0, inSource(id, n.versions[i].text,
				fault.New(fault.Validation, "the source lists the version twice"))
		}
	}
	n.setKeep(s.keep)
	s.ids[id] = len(s.nodes)
	s.nodes = append(s.nodes, n)
	return len(s.nodes) - 1, nil
}

func (n *node) setKeep(keep map[string]string) {
	n.keep = -1
	if text, ok := keep[n.id]; ok {
		n.keep = slices.IndexFunc(n.versions, func(v version) bool { return v.text == text })
	}
}

// needs returns the requirements of a version.
func (s *solver) needs(bundle, at int) ([]edge, error) {
	if v := &s.nodes[bundle].versions[at]; v.built {
		return v.edges, nil
	}
	id, v := s.nodes[bundle].id, s.nodes[bundle].versions[at]
	if v.ask != nil {
		var err error
		if v.requires, err = v.ask(s.ctx); err != nil {
			return nil, err // the source names the bundle
		}
	}
	edges, err := s.edges(v.requires, func(err error) error { return inSource(id, v.text, err) })
	if err != nil {
		return nil, err
	}
	// s.nodes may have been reallocated meanwhile.
	w := &s.nodes[bundle].versions[at]
	w.edges, w.built, w.requires, w.ask = edges, true, nil, nil
	return edges, nil
}

// floorOf returns the least version that a requirement allows, or -1.
func (s *solver) floorOf(edge *edge) int {
	n := &s.nodes[edge.to]
	if n.keep < 0 {
		return edge.floor
	}
	if edge.asked != n.keep {
		edge.asked, edge.fits = n.keep, edge.rng.Contains(n.versions[n.keep].text)
	}
	if edge.fits {
		return n.keep
	}
	return edge.floor
}

// walk calls visit with every requirement in force, the nearest to the project first, and the bundle that has it, or
// -1 for the project.
func (s *solver) walk(sel selection, visit func(from int, e *edge)) error {
	return s.follow(sel, maxSteps, visit)
}

// again is walk for a selection that has been walked: it discovers nothing new, so it can't fail. It needs no limit,
// because each walk is followed by only a few of these.
func (s *solver) again(sel selection, visit func(from int, e *edge)) {
	_ = s.follow(sel, math.MaxInt, visit)
}

func (s *solver) follow(sel selection, most int, visit func(from int, e *edge)) error {
	seen := make([]bool, len(s.nodes), max(len(s.nodes), 64))
	var queue []int
	enter := func(from int, edges []edge) error {
		if s.steps += len(edges) + 1; s.steps > most {
			return tooMany("steps of the solver", maxSteps)
		}
		for i := range edges {
			visit(from, &edges[i])
			to := edges[i].to
			for len(seen) <= to {
				seen = append(seen, false)
			}
			if !seen[to] && sel.at(to) >= 0 {
				seen[to] = true
				queue = append(queue, to)
			}
		}
		return nil
	}
	if err := enter(-1, s.roots); err != nil {
		return err
	}
	for depth, end := 1, len(queue); len(queue) > 0; {
		from := queue[0]
		queue, end = queue[1:], end-1
		edges, err := s.needs(from, sel[from])
		if err != nil {
			return err
		}
		if len(edges) > 0 && depth == maxDepth {
			return tooMany(fmt.Sprintf("levels of requirements, down to %q", s.nodes[from].id), maxDepth)
		}
		if err := enter(from, edges); err != nil {
			return err
		}
		if end == 0 {
			depth, end = depth+1, len(queue)
		}
	}
	return nil
}

// demand returns the highest floor of all requirements in force.
func (s *solver) demand(sel selection) (selection, error) {
	next := make(selection, 0, len(s.nodes))
	err := s.walk(sel, func(_ int, e *edge) {
		for len(next) <= e.to {
			next = append(next, -1)
		}
		next[e.to] = max(next[e.to], s.floorOf(e))
	})
	return next, err
}

// settle repeats rounds until the selection is stable.
func (s *solver) settle(keep map[string]string) (selection, error) {
	s.keep = keep
	for i := range s.nodes {
		s.nodes[i].setKeep(keep)
	}
	var sel selection
	for round := 0; ; round++ {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		if round == maxRounds {
			sel = nil
		}
		next, err := s.demand(sel)
		if err != nil {
			return nil, err
		}
		if round >= maxRounds {
			for len(next) < len(sel) {
				next = append(next, -1)
			}
			for i, v := range sel {
				next[i] = max(next[i], v)
			}
		}
		if next.same(sel) {
			return next, nil
		}
		sel = next
	}
}

// solve settles and checks the result. While the result has problems it gives up kept versions: first those in the
// problems, then those on the paths to them, then all except must.
func (s *solver) solve(keep map[string]string, must string) (selection, error) {
	keep = maps.Clone(keep)
	for {
		sel, err := s.settle(keep)
		if err != nil {
			return nil, err
		}
		problems, err := s.check(sel)
		if err != nil {
			return nil, err
		}
		if len(problems) == 0 {
			return sel, nil
		}
		before := len(keep)
		giveUp := func(id string) {
			if id != must {
				delete(keep, id)
			}
		}
		for _, p := range problems {
			giveUp(p.at())
		}
		if len(keep) == before {
			for _, p := range problems {
				for _, step := range p.steps() {
					giveUp(step.ID)
				}
			}
		}
		if len(keep) == before {
			maps.DeleteFunc(keep, func(id, _ string) bool { return id != must })
		}
		if len(keep) == before {
			return nil, joined(problems)
		}
	}
}
