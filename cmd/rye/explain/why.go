// The commands rye why and rye tree.

package explain

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/lock/closure"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/workspace"
)

type whyRun struct {
	Name string `arg:"" complete:"locked" help:"Item's ref, bundle's id, or package with version."`
}

type whyAnswer struct {
	Name   string    `json:"name"`
	Pinned string    `json:"pinned"` // digest of the item or package; version and manifest of a bundle
	From   string    `json:"from"`
	Path   []whyLine `json:"path"` // a shortest path from a root
	UsedBy []whyLine `json:"used_by"`
}

// A whyLine is a node, and how it uses the next node of a path or the node in question. The node is an item, a
// package, a bundle, or a permission that covers the next one.
type whyLine struct {
	Ref string `json:"ref"`
	Use string `json:"use"` // "root", "executor", "hook" and the like
}

func compareWhy(a, b whyLine) int {
	return cmp.Or(cmp.Compare(a.Ref, b.Ref), cmp.Compare(a.Use, b.Use))
}

func (w whyAnswer) Text(term *cli.Terminal) {
	term.Printf("%s  %s  from %s\n", w.Name, w.Pinned, w.From)
	for i, l := range w.Path {
		term.Printf("%s%s\n", strings.Repeat("  ", i+1), l)
	}
	if len(w.Path) == 0 {
		term.Note("nothing uses it any more: rye lock removes it")
	}
	if n := len(w.UsedBy); n > 1 || n == 1 && !strings.Contains(w.Name, ":") {
		term.Printf("used by %s\n", fault.Count(int64(n), "item"))
		for _, l := range w.UsedBy {
			term.Printf("  %s\n", l)
		}
	}
}

func (l whyLine) String() string { return strings.TrimSuffix(l.Ref+"  "+l.Use, "  ") }

func (c *whyRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	locked, err := paths.OpenLock(a, false)
	if err != nil {
		return nil, err
	}
	defer locked.Close()
	deps, err := graph(ctx, locked)
	if err != nil {
		return nil, err
	}
	if b := locked.Old.Bundle(c.Name); b != nil {
		return deps.whyBundle(b), nil
	}
	if ans, ok := deps.whyPackage(c.Name); ok {
		return ans, nil
	}
	ref, ok := locked.Old.Named(c.Name)
	if !ok {
		return nil, paths.NotLocked(ctx, locked, c.Name)
	}
	pin := locked.Old.Pin(ref)
	ans := whyAnswer{Name: ref.String(), Pinned: pin.Digest.String(), From: pin.From, Path: deps.path(ref.String()),
		UsedBy: []whyLine{}}
	ans.UsedBy = append(ans.UsedBy, deps.usersOf(ref)...)
	return ans, nil
}

type treeRun struct {
	Ref   string `arg:"" optional:"" complete:"pinned" help:"Item to start from; default: all roots."`
	Depth int    `default:"-1" placeholder:"N" help:"Maximum depth."`
}

type treeAnswer struct {
	Roots []string `json:"roots"`
	// each node once, in breadth-first order, including permissions that cover several items
	Items []treeItem `json:"items"`
	depth int
}

type treeItem struct {
	Ref     string    `json:"ref"`
	Version string    `json:"version"`
	Digest  string    `json:"digest"`
	From    string    `json:"from"`
	Uses    []whyLine `json:"uses"`
}

func (c *treeRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	locked, err := paths.OpenLock(a, false)
	if err != nil {
		return nil, err
	}
	defer locked.Close()
	deps, err := graph(ctx, locked)
	if err != nil {
		return nil, err
	}
	roots := deps.roots
	if c.Ref != "" {
		ref, ok := locked.Old.Named(c.Ref)
		if !ok {
			return nil, paths.NotLocked(ctx, locked, c.Ref)
		}
		roots = []string{ref.String()}
	}
	ans := treeAnswer{Roots: append([]string{}, roots...), Items: []treeItem{}, depth: c.Depth}
	seen := map[string]bool{}
	for queue := slices.Clone(roots); len(queue) > 0; queue = queue[1:] {
		if at := queue[0]; !seen[at] {
			seen[at] = true
			item := deps.item(at)
			ans.Items = append(ans.Items, item)
			for _, u := range item.Uses {
				queue = append(queue, u.Ref)
			}
		}
	}
	return ans, nil
}

func (g *lockGraph) item(node string) treeItem {
	it := treeItem{Ref: node, Uses: append([]whyLine{}, g.uses[node]...)}
	if ref, err := model.ParseRef(node); err == nil {
		if p := g.l.Old.Pin(ref); p != nil {
			it.Version, it.Digest, it.From = p.Version, p.Digest.String(), p.From
		}
	}
	if all := g.artifacts(node); len(all) > 0 {
		it.Digest, it.From = all[0].Digest.String(), all[0].Source
	}
	return it
}

func (w treeAnswer) Text(term *cli.Terminal) {
	at := make(map[string]*treeItem, len(w.Items))
	for i := range w.Items {
		at[w.Items[i].Ref] = &w.Items[i]
	}
	unfolded := map[string]int{} // from a node to the depth to which it was shown
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
		if use != "" && use != coveredBy {
			line += "  " + use
		}
		if it.From != lockfile.FromProject && it.From != "" && use != workspace.UsedAsPackage {
			line += "  (" + it.From + ")"
		}
		var uses []whyLine
		for _, u := range it.Uses {
			if u.Use != string(closure.AsExtractor) || term.Verbose {
				uses = append(uses, u)
			}
		}
		if far, ok := unfolded[ref]; ok && (w.depth < 0 || far >= depth) && len(uses) > 0 {
			term.Printf("%s  (*)\n", line)
			return
		}
		term.Printf("%s\n", line)
		if depth == 0 {
			return
		}
		unfolded[ref] = depth
		for _, u := range uses {
			show(u.Ref, u.Use, indent+"  ", depth-1)
		}
	}
	if len(w.Roots) == 0 {
		term.Note("the lock pins no item")
	}
	for _, r := range w.Roots {
		show(r, "", "", w.depth)
	}
}
