package resolve

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/semver"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/manifest"
)

// Sources provides the existing versions. Versions returns all versions of a bundle, in any order, and is called once
// for each bundle; an error that is fs.ErrNotExist means that the bundle doesn't exist.
type Sources interface {
	Versions(ctx context.Context, id string) ([]Candidate, error)
}

// A Candidate is one version of a bundle. It must not change while Resolve runs.
type Candidate struct {
	Version  string
	Requires map[string]semver.Range // by the ids of bundles

	// Ask returns the version's requirements when they are needed first, instead of Requires. May be nil.
	Ask func(context.Context) (map[string]semver.Range, error)
}

// A Request is the input of Resolve.
type Request struct {
	Requires map[string]semver.Range // of the project
	// id → version, as selected before; unneeded and missing versions are ignored
	Keep      map[string]string
	Update    []string // ids to bring to the newest version allowed
	UpdateAll bool
}

// A Resolution is a solution. It is immutable and safe for concurrent use.
type Resolution struct {
	Bundles []Bundle // sorted by id

	solver *solver // read only from now on
	sel    selection
	force  map[int][]*edge // the requirements in force, by bundle
}

// A Bundle is a bundle with its selected version.
type Bundle struct{ ID, Version string }

// A Step is one requirement: a bundle, its selected version (empty without one), and the allowed range.
type Step struct{ ID, Version, Range string }

// Resolve selects a version of every needed bundle.
func Resolve(ctx context.Context, src Sources, req Request) (*Resolution, error) {
	return (&solver{ctx: ctx, src: src, ids: map[string]int{}}).resolve(req)
}

func (s *solver) resolve(req Request) (*Resolution, error) {
	if err := s.start(req.Requires); err != nil {
		return nil, err
	}
	sel, err := s.solve(req.Keep, "")
	if err != nil {
		return nil, err
	}
	if req.UpdateAll {
		sel, err = s.updateAll(sel)
	} else {
		sel, err = s.update(sel, req.Update)
	}
	if err != nil {
		return nil, err
	}
	return s.resolution(sel), nil
}

func (s *solver) resolution(sel selection) *Resolution {
	r := &Resolution{solver: s, sel: sel, force: s.allowed(sel)}
	for to := range r.force {
		r.Bundles = append(r.Bundles, Bundle{s.nodes[to].id, s.version(sel, to)})
	}
	slices.SortFunc(r.Bundles, func(a, b Bundle) int { return strings.Compare(a.ID, b.ID) })
	return r
}

// A Newer is a bundle with a newer version than the selected one.
type Newer struct {
	ID, Version string
	Allowed     string // the newest that all requirements in force contain; may be Version itself
	Latest      string // the newest; a pre-release only if Version is one
}

// Outdated returns the bundles with newer versions, sorted by id.
func (r *Resolution) Outdated() []Newer {
	s := r.solver
	var out []Newer
	for _, b := range r.Bundles {
		node := &s.nodes[s.ids[b.ID]]
		n := Newer{ID: b.ID, Version: b.Version, Allowed: b.Version, Latest: b.Version}
		if best := s.newest(s.ids[b.ID], r.force); best > r.sel.at(s.ids[b.ID]) {
			n.Allowed = node.versions[best].text
		}
		for _, v := range slices.Backward(node.versions) {
			if manifest.CompareVersions(v.text, b.Version) <= 0 {
				break
			}
			if !manifest.IsPrerelease(v.text) || manifest.IsPrerelease(b.Version) {
				n.Latest = v.text
				break
			}
		}
		if n.Allowed != n.Version || n.Latest != n.Version {
			out = append(out, n)
		}
	}
	return out
}

// texts returns a selection as ids and versions, without unneeded bundles.
func (s *solver) texts(sel selection) map[string]string {
	out := map[string]string{}
	for _, e := range s.parents(sel) {
		if e.edge != nil && sel.at(e.edge.to) >= 0 {
			out[s.nodes[e.edge.to].id] = s.version(sel, e.edge.to)
		}
	}
	return out
}

// update raises each of the bundles to the newest version that has a solution.
func (s *solver) update(sel selection, ids []string) (selection, error) {
	sorted := slices.Compact(slices.Sorted(slices.Values(ids)))
	used := s.texts(sel)
	for _, id := range sorted {
		if _, ok := used[id]; !ok {
			return nil, notUsed(id, slices.Sorted(maps.Keys(used)))
		}
	}
	for _, id := range sorted {
		var err error
		if sel, _, err = s.updateOne(sel, id); err != nil {
			return nil, err
		}
	}
	return sel, nil
}

// notUsed is the error for a bundle that can't be updated because nothing requires it.
func notUsed(id string, used []string) error {
	f := fault.New(fault.NotFound, "nothing requires the bundle %q", id).On("bundle", id).Try("rye tree")
	if meant := suggest.Names(id, used); len(meant) > 0 {
		f.Because("did you mean "+meant[0]+"?").On("did_you_mean", meant)
	}
	return f
}

// maxPasses is how often all bundles are updated. Each pass but the last changes something that may enable further
// updates.
const maxPasses = 10

func (s *solver) updateAll(sel selection) (selection, error) {
	for range maxPasses {
		var order []string
		s.again(sel, func(_ int, e *edge) { order = append(order, s.nodes[e.to].id) })
		changed := false
		done := map[string]bool{}
		for _, id := range order {
			if done[id] {
				continue
			}
			done[id] = true
			var moved bool
			var err error
			if sel, moved, err = s.updateOne(sel, id); err != nil {
				return nil, err
			}
			changed = changed || moved
		}
		if !changed {
			break
		}
	}
	return sel, nil
}

// updateOne tries the newer versions that all requirements allow, the newest first.
func (s *solver) updateOne(sel selection, id string) (selection, bool, error) {
	to := s.ids[id]
	now := sel.at(to)
	if now < 0 {
		return sel, false, nil // an earlier update has made it unneeded
	}
	allowed := s.allowed(sel)[to]
	for i := len(s.nodes[to].versions) - 1; i > now; i-- {
		text := s.nodes[to].versions[i].text
		if !all(allowed, text) {
			continue
		}
		keep := s.texts(sel)
		if _, needed := keep[id]; !needed {
			return sel, false, nil
		}
		keep[id] = text
		next, err := s.solve(keep, id)
		if err == nil && next.at(to) == i {
			return next, true, nil
		}
		if err != nil && !isProblem(err) {
			return nil, false, err
		}
	}
	return sel, false, nil
}

// allowed returns, for each bundle, the ranges of the requirements in force.
func (s *solver) allowed(sel selection) map[int][]*edge {
	ranges := map[int][]*edge{}
	s.again(sel, func(_ int, e *edge) { ranges[e.to] = append(ranges[e.to], e) })
	return ranges
}

func (s *solver) newest(to int, allowed map[int][]*edge) int {
	for i, v := range slices.Backward(s.nodes[to].versions) {
		if all(allowed[to], v.text) {
			return i
		}
	}
	return -1
}

func all(edges []*edge, version string) bool {
	for _, e := range edges {
		if !e.rng.Contains(version) {
			return false
		}
	}
	return true
}
