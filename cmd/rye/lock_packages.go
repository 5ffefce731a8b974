package main

import (
	"slices"
	"strings"

	"github.com/rye-build/rye/lock/closure"
	lockfile "github.com/rye-build/rye/lock/file"
)

// usedAsPackage is how a tool uses what it lists.
const usedAsPackage = "package"

// packageName is what people call the package of an artifact: without what tells the wheels of a version from each other.
func packageName(a lockfile.Artifact) string {
	version, _ := a.Tags()
	return a.Name + "@" + version
}

// addPackages puts the packages that tools list into the graph: a node for each version.
func (g *lockGraph) addPackages(lists []closure.List) {
	for _, l := range lists {
		tool := l.Tool.String()
		var all []string
		for i := range l.Packages {
			all = append(all, l.Packages[i].String())
		}
		slices.Sort(all)
		for _, name := range slices.Compact(all) {
			g.uses[tool] = append(g.uses[tool], whyLine{name, usedAsPackage})
			g.users[name] = append(g.users[name], whyLine{tool, usedAsPackage})
		}
	}
}

// artifacts are the files of a package.
func (g *lockGraph) artifacts(name string) []lockfile.Artifact {
	at := strings.LastIndexByte(name, '@')
	if at < 0 {
		return nil
	}
	return g.l.old.ArtifactsOf(name[:at], name[at+1:])
}

// whyPackage says which tools list a package, by its name with its version or by the name of one of its files.
func (g *lockGraph) whyPackage(name string) (whyAnswer, bool) {
	i := slices.IndexFunc(g.l.old.Artifacts, func(a lockfile.Artifact) bool { return a.String() == name || packageName(a) == name })
	if i < 0 {
		return whyAnswer{}, false
	}
	a := g.l.old.Artifacts[i]
	of := packageName(a)
	ans := whyAnswer{Name: name, Pinned: a.Digest.String(), From: a.Source, Path: g.path(of), UsedBy: append([]whyLine{}, g.users[of]...)}
	slices.SortFunc(ans.UsedBy, compareWhy)
	return ans, true
}
