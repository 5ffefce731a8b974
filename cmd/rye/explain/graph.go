package explain

import (
	"context"
	"errors"
	"slices"

	"github.com/rye-build/rye/ai/check"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/locks"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/closure"
	lockfile "github.com/rye-build/rye/lock/file"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/workspace"
)

// A lockGraph is the graph of uses between the entries of a lock. Its nodes are refs, packages, and permissions that
// cover many items, such as "execute:tool:acme/*". Such a permission is one node for all items that have it: 10,000
// items that may each use 10,000 others would otherwise give 100 million edges.
type lockGraph struct {
	l     *paths.Lock
	set   *lock.Set
	roots []string
	uses  map[string][]whyLine // from a node to the nodes that it uses
	users map[string][]whyLine // from a node to its users, without the permissions that cover it
	cover map[string]closure.Use
}

// graph computes how the pinned items use each other, from their pinned bytes. The lock doesn't record that.
func graph(ctx context.Context, locked *paths.Lock) (*lockGraph, error) {
	set, err := locked.Set(ctx)
	if err != nil {
		return nil, err
	}
	if locked.Trust, err = locked.Policy(); err != nil {
		return nil, err
	}
	locked.AddBundles(set)
	asked := locked.Asked(ctx, locked.Dir)
	asked.Refused = nil // what is locked is explained, whether or not it may run
	v, admit, err := locked.OpenView(ctx, locked.Trust, asked, set.Spaces()...)
	if err != nil {
		return nil, err
	}
	admit.KeepTrees()
	closed, err := closure.Close(ctx, closure.Options{View: v, Admit: admit, Roots: lockedRoots(locked), Uses: true,
		Pinned: func(ref model.Ref) (pinned []cas.Digest) {
			if p := locked.Old.Pin(ref); p != nil {
				pinned = append(pinned, p.Digest)
			}
			return pinned
		}})
	if problems := locks.Problems(ctx, locked, err); len(problems) > 0 {
		return nil, unfollowed(err, problems)
	}
	if err != nil {
		return nil, err
	}
	deps := &lockGraph{l: locked, set: set, uses: map[string][]whyLine{}, users: map[string][]whyLine{},
		cover: map[string]closure.Use{}}
	for _, use := range closed.Uses {
		to := use.To.String()
		if use.To == (model.Ref{}) {
			to = use.Pattern
			deps.cover[to] = use
		}
		if use.From == (model.Ref{}) {
			if n := len(deps.roots); n == 0 || deps.roots[n-1] != to { // config is a root and counts anyway
				deps.roots = append(deps.roots, to)
			}
			continue
		}
		from := use.From.String()
		deps.uses[from] = append(deps.uses[from], whyLine{to, string(use.Why)})
		deps.users[to] = append(deps.users[to], whyLine{from, string(use.Why)})
	}
	deps.addPackages(closed.Lists)
	for pattern, use := range deps.cover {
		for i := range locked.Old.Pins {
			if ref := locked.Old.Pins[i].Ref; use.Covers(ref) {
				deps.uses[pattern] = append(deps.uses[pattern], whyLine{ref.String(), coveredBy})
			}
		}
	}
	return deps, nil
}

// lockedRoots returns the pinned items that the roots of rye.yaml match; without roots these are all items of the
// project. It warns about roots and requirements that aren't locked yet.
func lockedRoots(locked *paths.Lock) (roots []ryeyaml.Root) {
	var more []string
	all := locked.Yaml.AllRoots()
	for _, r := range all {
		if ref, err := model.ParseRef(r.Text); r.One && (err != nil || locked.Old.Pin(ref) == nil) {
			more = append(more, r.Text)
		}
		for i := range locked.Old.Pins {
			if ref := locked.Old.Pins[i].Ref; r.Match(ref, locked.Old.Pins[i].From) {
				roots = append(roots, ryeyaml.Root{Text: ref.String(), One: true})
			}
		}
	}
	if len(all) > 0 && roots == nil {
		roots = []ryeyaml.Root{{}} // an empty root matches nothing, while no roots would match everything
	}
	for _, c := range locked.RequirementChanges() {
		if c.To != "" {
			more = append(more, c.Name+" "+c.To)
		}
	}
	for i, name := range more {
		if i == fault.MaxLines {
			locked.App.Term.Warn("and %d more", len(more)-i)
			break
		}
		locked.App.Term.Warn("%s asks for %s, which isn't locked: rye lock", workspace.MarkerFile, name)
	}
	return roots
}

// unfollowed returns the error of a graph that can't be computed, for example because the policy no longer admits a
// pinned item.
func unfollowed(err error, problems []check.Problem) *fault.Error {
	f := fault.Of(err)
	f.Text = "can't follow the dependencies in the lock: " + fault.Count(int64(len(problems)), "problem")
	if !errors.Is(err, cas.ErrDamaged) {
		f.Hint = []string{"rye lock"}
	}
	for _, p := range problems[:min(len(problems), fault.MaxLines)] {
		f.Why = append(f.Why, p.At()+": "+p.Message)
	}
	return f
}

// coveredBy is the use between a permission and an item that it covers.
const coveredBy = "covers"

// usersOf returns the items that use ref, directly or by a permission that covers it.
func (g *lockGraph) usersOf(ref model.Ref) []whyLine {
	out := slices.Clone(g.users[ref.String()])
	for pattern, u := range g.cover {
		if u.Covers(ref) {
			for _, by := range g.users[pattern] {
				out = append(out, whyLine{by.Ref, by.Use + " " + pattern})
			}
		}
	}
	slices.SortFunc(out, compareWhy)
	return slices.Compact(out)
}

// path returns a shortest path from a root to a node, the first in order if there are several. It is empty if no
// root reaches the node.
func (g *lockGraph) path(to string) []whyLine {
	type step struct{ from, use string }
	before := map[string]step{}
	queue := slices.Clone(g.roots)
	for _, r := range queue {
		before[r] = step{}
	}
	for ; len(queue) > 0 && queue[0] != to; queue = queue[1:] {
		for _, u := range g.uses[queue[0]] {
			if _, seen := before[u.Ref]; !seen {
				before[u.Ref] = step{queue[0], u.Use}
				queue = append(queue, u.Ref)
			}
		}
	}
	out := []whyLine{}
	if _, found := before[to]; !found {
		return out
	}
	for at, use := to, ""; at != ""; {
		out = append(out, whyLine{at, use})
		at, use = before[at].from, before[at].use
	}
	slices.Reverse(out)
	if len(out) == 1 {
		out[0].Use = string(closure.AsRoot)
	}
	return out
}

// bundlePath returns a shortest path of requirements from rye.yaml to a bundle.
func (g *lockGraph) bundlePath(id string) []whyLine {
	type step struct{ from, use string }
	before := map[string]step{}
	var queue []string
	reach := func(from, id, versions string) {
		if _, seen := before[id]; !seen {
			before[id] = step{from, "requires " + id + " " + versions}
			queue = append(queue, id)
		}
	}
	for _, r := range g.l.Old.Requires {
		reach(workspace.MarkerFile, r.ID, r.Text)
	}
	for ; len(queue) > 0; queue = queue[1:] {
		if b := g.set.Bundle(queue[0]); b != nil {
			for _, r := range b.Requires {
				reach(queue[0], r.BundleID, r.Version)
			}
		}
	}
	out := []whyLine{}
	for at, ok := before[id]; ok; at, ok = before[at.from] {
		out = append(out, whyLine{at.from, at.use})
	}
	slices.Reverse(out)
	return out
}

// whyBundle answers rye why for a bundle: who requires it, and which items from elsewhere use its items.
func (g *lockGraph) whyBundle(b *lockfile.Bundle) whyAnswer {
	ans := whyAnswer{Name: b.ID, Pinned: b.Version + " " + b.Manifest.String(), From: b.Source.Where,
		Path: g.bundlePath(b.ID), UsedBy: []whyLine{}}
	for i := range g.l.Old.Pins {
		p := &g.l.Old.Pins[i]
		if p.From != lockfile.System+b.ID {
			continue
		}
		for _, u := range g.usersOf(p.Ref) {
			if ref, err := model.ParseRef(u.Ref); err == nil && g.from(ref) != p.From {
				ans.UsedBy = append(ans.UsedBy, whyLine{u.Ref, u.Use + " " + p.Ref.String()})
			}
		}
	}
	slices.SortFunc(ans.UsedBy, compareWhy)
	return ans
}

func (g *lockGraph) from(ref model.Ref) string {
	if p := g.l.Old.Pin(ref); p != nil {
		return p.From
	}
	return ""
}
