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

// A lockGraph is how what is in a lock uses each other. Its nodes are refs, and the permissions that cover many items,
// as "execute:tool:acme/*": one node for all who have it, since 10,000 items that may each use 10,000 would be more
// edges than anybody can follow.
type lockGraph struct {
	l     *paths.Lock
	set   *lock.Set
	roots []string
	uses  map[string][]whyLine // what a node uses, and how
	users map[string][]whyLine // its users; the permissions that cover it aren't among them
	cover map[string]closure.Use
}

// graph finds out again how the pinned items use each other, from their pinned bytes.
func graph(ctx context.Context, l *paths.Lock) (*lockGraph, error) {
	set, err := l.Set(ctx)
	if err != nil {
		return nil, err
	}
	if l.Trust, err = l.Policy(); err != nil {
		return nil, err
	}
	for i := range l.Old.Bundles {
		l.Listed.AddAdmitted(l.Trust, set.Bundle(l.Old.Bundles[i].ID))
	}
	v, admit, err := l.OpenView(ctx, l.Trust, l.Asked(ctx, l.Dir), set.Spaces()...)
	if err != nil {
		return nil, err
	}
	admit.KeepTrees()
	c, err := closure.Close(ctx, closure.Options{View: v, Admit: admit, Roots: lockedRoots(l), Uses: true})
	if problems := locks.Problems(ctx, l, err); len(problems) > 0 {
		return nil, unfollowed(err, problems)
	}
	if err != nil {
		return nil, err
	}
	g := &lockGraph{l: l, set: set, uses: map[string][]whyLine{}, users: map[string][]whyLine{},
		cover: map[string]closure.Use{}}
	for _, u := range c.Uses {
		to := u.To.String()
		if u.To == (model.Ref{}) {
			to = u.Pattern
			g.cover[to] = u
		}
		if u.From == (model.Ref{}) {
			if n := len(g.roots); n == 0 || g.roots[n-1] != to { // config is a root and counts anyway
				g.roots = append(g.roots, to)
			}
			continue
		}
		from := u.From.String()
		g.uses[from] = append(g.uses[from], whyLine{to, string(u.Why)})
		g.users[to] = append(g.users[to], whyLine{from, string(u.Why)})
	}
	g.addPackages(c.Lists)
	for pattern, u := range g.cover {
		for i := range l.Old.Pins {
			if ref := l.Old.Pins[i].Ref; u.Covers(ref) {
				g.uses[pattern] = append(g.uses[pattern], whyLine{ref.String(), coveredBy})
			}
		}
	}
	return g, nil
}

// lockedRoots are the pinned items that rye.yaml has as roots; if it has no roots, all of the project are. Of what
// isn't locked yet it warns.
func lockedRoots(l *paths.Lock) (roots []ryeyaml.Root) {
	var more []string
	all := l.Yaml.AllRoots()
	for _, r := range all {
		if ref, err := model.ParseRef(r.Text); r.One && (err != nil || l.Old.Pin(ref) == nil) {
			more = append(more, r.Text)
		}
		for i := range l.Old.Pins {
			if ref := l.Old.Pins[i].Ref; r.Match(ref, l.Old.Pins[i].From) {
				roots = append(roots, ryeyaml.Root{Text: ref.String(), One: true})
			}
		}
	}
	if len(all) > 0 && roots == nil {
		roots = []ryeyaml.Root{{}} // which covers nothing
	}
	for _, c := range l.RequirementChanges() {
		if c.To != "" {
			more = append(more, c.Name+" "+c.To)
		}
	}
	for i, name := range more {
		if i == fault.MaxLines {
			l.App.Term.Warn("and %d more", len(more)-i)
			break
		}
		l.App.Term.Warn("%s asks for %s, which isn't locked: rye lock", workspace.MarkerFile, name)
	}
	return roots
}

// unfollowed says why it can't be found out how pinned items use each other: the policy doesn't let something count
// any more.
func unfollowed(err error, problems []check.Problem) *fault.Error {
	f := fault.Of(err)
	f.Text = "what uses what in the lock can't be told: " + fault.Count(int64(len(problems)), "problem")
	if !errors.Is(err, cas.ErrDamaged) {
		f.Hint = []string{"rye lock"}
	}
	for _, p := range problems[:min(len(problems), fault.MaxLines)] {
		f.Why = append(f.Why, p.At()+": "+p.Message)
	}
	return f
}

// coveredBy is how a permission uses what it covers.
const coveredBy = "covers"

// usersOf are the items that use one, directly or by a permission that covers it.
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

// path is a shortest way from a root to an item, the first in order where there are several.
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

// bundlePath is a shortest way from rye.yaml to a bundle.
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

// whyBundle says who requires a bundle, and which items of others use those of it.
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
