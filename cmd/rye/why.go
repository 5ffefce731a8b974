package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/lock/closure"
	lockfile "github.com/rye-build/rye/lock/file"
)

func whyCommand() command {
	return command{
		path: "why", group: "lock", help: "Show why an item or a bundle is in the lock.",
		more: "It shows a shortest way from a root of the project, and every item that uses it directly.\n\nExamples:\n\n    rye why tool:rye/core/primitives/subprocess\n" +
			"    rye why acme/base",
		aka: []string{"explain"},
		new: func() runner { return new(whyRun) }, schema: "why/1", output: whyAnswer{},
	}
}

type whyRun struct {
	Name string `arg:"" complete:"locked" help:"The ref of an item, or the id of a bundle."`
}

type whyAnswer struct {
	Name   string    `json:"name"`
	Pinned string    `json:"pinned"` // its digest, or the bundle's manifest
	From   string    `json:"from"`
	Path   []whyLine `json:"path"` // from a root to it
	UsedBy []whyLine `json:"used_by"`
}

// A whyLine is an item, and how it uses the next one, or what is asked about.
type whyLine struct {
	Ref string `json:"ref"`
	Use string `json:"use"` // "root", "executor", "hook" and the like
}

func (w whyAnswer) text(t *terminal) {
	t.printf("%s  %s  from %s\n", w.Name, w.Pinned, w.From)
	for i, l := range w.Path {
		t.printf("%s%s  %s\n", strings.Repeat("  ", i+1), l.Ref, l.Use)
	}
	if n := len(w.UsedBy); n > 1 {
		t.printf("used by %s\n", counted(int64(n), "item"))
		for _, l := range w.UsedBy {
			t.printf("  %s  %s\n", l.Ref, l.Use)
		}
	}
}

func (c *whyRun) run(ctx context.Context, a *app) (answer, error) {
	l, err := a.locking(false)
	if err != nil {
		return nil, err
	}
	defer l.close()
	g, err := l.graph(ctx)
	if err != nil {
		return nil, err
	}
	if b := l.old.Bundle(c.Name); b != nil {
		return g.whyBundle(b), nil
	}
	ref, err := model.ParseRef(c.Name)
	pin := l.old.Pin(ref)
	if err != nil || pin == nil {
		return nil, l.notLocked(c.Name)
	}
	ans := whyAnswer{Name: c.Name, Pinned: pin.Digest.String(), From: pin.From, Path: g.path(ref), UsedBy: []whyLine{}}
	for _, u := range g.users[ref] {
		ans.UsedBy = append(ans.UsedBy, whyLine{u.From.String(), string(u.Why)})
	}
	return ans, nil
}

// A lockGraph is how the items of a lock use each other.
type lockGraph struct {
	l     *locking
	roots []model.Ref
	uses  map[model.Ref][]closure.Use
	users map[model.Ref][]closure.Use
}

// graph finds out again how the pinned items use each other, from their pinned bytes.
func (l *locking) graph(ctx context.Context) (*lockGraph, error) {
	set, err := l.set(ctx)
	if err != nil {
		return nil, err
	}
	if l.trust, err = l.app.trust(); err != nil {
		return nil, err
	}
	v, err := ai.NewView(ctx, ai.Options{Spaces: set.Spaces(), Trust: l.exam(), MayOverride: l.trust.root.side.Policy.MayOverride})
	if err != nil {
		return nil, err
	}
	admit := ai.NewAdmitter(v, l.exam())
	admit.KeepTrees()
	c, err := closure.Close(ctx, closure.Options{View: v, Admit: admit, Roots: l.yaml.Roots})
	if err != nil {
		return nil, err
	}
	g := &lockGraph{l: l, uses: map[model.Ref][]closure.Use{}, users: map[model.Ref][]closure.Use{}}
	for _, u := range c.Uses {
		if u.From == (model.Ref{}) {
			g.roots = append(g.roots, u.To)
			continue
		}
		g.uses[u.From] = append(g.uses[u.From], u)
		g.users[u.To] = append(g.users[u.To], u)
	}
	return g, nil
}

// path is a shortest way from a root to an item, the first in order where there are several.
func (g *lockGraph) path(to model.Ref) []whyLine {
	before := map[model.Ref]*closure.Use{}
	queue := slices.Clone(g.roots)
	for _, r := range queue {
		before[r] = nil
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if at == to {
			break
		}
		for i, u := range g.uses[at] {
			if _, seen := before[u.To]; !seen {
				before[u.To] = &g.uses[at][i]
				queue = append(queue, u.To)
			}
		}
	}
	out := []whyLine{}
	if _, found := before[to]; !found {
		return out
	}
	use := ""
	for at := to; ; {
		out = append(out, whyLine{at.String(), use})
		u := before[at]
		if u == nil {
			break
		}
		use, at = string(u.Why), u.From
	}
	slices.Reverse(out)
	return out
}

// whyBundle says which requirements a bundle meets.
func (g *lockGraph) whyBundle(b *lockfile.Bundle) whyAnswer {
	ans := whyAnswer{Name: b.ID, Pinned: b.Version + " " + b.Manifest.String(), From: b.Source.Where, Path: []whyLine{}, UsedBy: []whyLine{}}
	if r, ok := g.l.yaml.Requirement(b.ID); ok {
		ans.Path = append(ans.Path, whyLine{markerFile, "requires " + r.Text})
	}
	for _, p := range g.l.old.Pins {
		if p.From != lockfile.System+b.ID {
			continue
		}
		for _, u := range g.users[p.Ref] {
			if from := g.l.old.Pin(u.From); from != nil && from.From != p.From {
				ans.UsedBy = append(ans.UsedBy, whyLine{u.From.String(), string(u.Why) + " " + p.Ref.String()})
			}
		}
	}
	return ans
}

// notLocked says that the lock doesn't name something.
func (l *locking) notLocked(name string) error {
	f := &fault{code: "NOT_LOCKED", exit: exitMissing, message: fmt.Sprintf("%q isn't in the lock", name), hint: []string{"rye tree", "rye lock"},
		details: map[string]any{"name": name}}
	var names []string
	for i := range l.old.Pins {
		names = append(names, l.old.Pins[i].Ref.String())
	}
	for _, b := range l.old.Bundles {
		names = append(names, b.ID)
	}
	if meant := near(name, names); len(meant) > 0 {
		f.why, f.details["did_you_mean"] = []string{"did you mean " + strings.Join(meant, ", ") + "?"}, meant
	}
	return f
}

func treeCommand() command {
	return command{
		path: "tree", group: "lock", help: "Show what the lock pins, and what uses what.",
		more: "What was shown before is marked by (*) and not unfolded again. --depth 1 shows the roots and what they use.\n\nExamples:\n\n    rye tree\n" +
			"    rye tree directive:acme/release --depth 2",
		new: func() runner { return new(treeRun) }, schema: "tree/1", output: treeAnswer{},
	}
}

type treeRun struct {
	Ref   string `arg:"" optional:"" complete:"locked" help:"An item to begin at; without it all roots."`
	Depth int    `default:"-1" placeholder:"N" help:"How far to go."`
}

type treeAnswer struct {
	Roots []string   `json:"roots"`
	Items []treeItem `json:"items"` // each once, in the order in which they are reached
	depth int
}

type treeItem struct {
	Ref     string    `json:"ref"`
	Version string    `json:"version"`
	Digest  string    `json:"digest"`
	From    string    `json:"from"`
	Uses    []whyLine `json:"uses"`
}

func (c *treeRun) run(ctx context.Context, a *app) (answer, error) {
	l, err := a.locking(false)
	if err != nil {
		return nil, err
	}
	defer l.close()
	g, err := l.graph(ctx)
	if err != nil {
		return nil, err
	}
	roots := g.roots
	if c.Ref != "" {
		ref, err := model.ParseRef(c.Ref)
		if err != nil || l.old.Pin(ref) == nil {
			return nil, l.notLocked(c.Ref)
		}
		roots = []model.Ref{ref}
	}
	ans := treeAnswer{Roots: []string{}, Items: []treeItem{}, depth: c.Depth}
	seen := map[model.Ref]bool{}
	queue := slices.Clone(roots)
	for _, r := range roots {
		ans.Roots = append(ans.Roots, r.String())
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		pin := l.old.Pin(at)
		if seen[at] || pin == nil {
			continue
		}
		seen[at] = true
		item := treeItem{at.String(), pin.Version, pin.Digest.String(), pin.From, []whyLine{}}
		for _, u := range g.uses[at] {
			item.Uses = append(item.Uses, whyLine{u.To.String(), string(u.Why)})
			queue = append(queue, u.To)
		}
		ans.Items = append(ans.Items, item)
	}
	return ans, nil
}

func (w treeAnswer) text(t *terminal) {
	at := make(map[string]*treeItem, len(w.Items))
	for i := range w.Items {
		at[w.Items[i].Ref] = &w.Items[i]
	}
	shown := map[string]bool{}
	var show func(ref, use, indent string, depth int)
	show = func(ref, use, indent string, depth int) {
		it := at[ref]
		if it == nil {
			return
		}
		line := indent + ref
		if it.Version != "" {
			line += "@" + it.Version
		}
		if use != "" {
			line += "  " + use
		}
		if it.From != lockfile.FromProject {
			line += "  (" + it.From + ")"
		}
		again := shown[ref] && len(it.Uses) > 0
		shown[ref] = true
		if again {
			t.printf("%s  (*)\n", line)
			return
		}
		t.printf("%s\n", line)
		if depth == 0 {
			return
		}
		for _, u := range it.Uses {
			show(u.Ref, u.Use, indent+"  ", depth-1)
		}
	}
	for _, r := range w.Roots {
		show(r, "", "", w.depth)
	}
}
