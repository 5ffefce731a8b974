package explain

import (
	"slices"
	"strings"

	"github.com/rye-build/rye/lock/closure"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/workspace"
)

// addPackages adds the packages that tools list to the graph, with one node for each version.
func (g *lockGraph) addPackages(lists []closure.List) {
	for _, l := range lists {
		tool := l.Tool.String()
		var all []string
		for i := range l.Packages {
			all = append(all, l.Packages[i].String())
		}
		slices.Sort(all)
		for _, name := range slices.Compact(all) {
			g.uses[tool] = append(g.uses[tool], whyLine{name, workspace.UsedAsPackage})
			g.users[name] = append(g.users[name], whyLine{tool, workspace.UsedAsPackage})
		}
	}
}

// artifacts returns the files of a package NAME@VERSION.
func (g *lockGraph) artifacts(name string) []lockfile.Artifact {
	at := strings.LastIndexByte(name, '@')
	if at < 0 {
		return nil
	}
	return g.l.Old.ArtifactsOf(name[:at], name[at+1:])
}

// whyPackage answers rye why for a package: which tools list it. name is NAME@VERSION, or the name of one of its
// files.
func (g *lockGraph) whyPackage(name string) (whyAnswer, bool) {
	i := slices.IndexFunc(g.l.Old.Artifacts, func(a lockfile.Artifact) bool {
		return a.String() == name || workspace.PackageName(a) == name
	})
	if i < 0 {
		return whyAnswer{}, false
	}
	a := g.l.Old.Artifacts[i]
	pkg := workspace.PackageName(a)
	ans := whyAnswer{Name: name, Pinned: a.Digest.String(), From: a.Source, Path: g.path(pkg),
		UsedBy: append([]whyLine{}, g.users[pkg]...)}
	slices.SortFunc(ans.UsedBy, compareWhy)
	return ans, true
}
