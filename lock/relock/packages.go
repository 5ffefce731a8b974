package relock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/packages"
)

// Packages provides files of packages, as *registry.Registry does.
type Packages interface {
	// Find returns the files of a package that may be pinned, without digests and sizes.
	Find(ctx context.Context, p *packages.Package) ([]file.Artifact, error)
	// Bring brings files to the lock's other objects, and returns them with digests and sizes. A file with a digest
	// is fetched only if it is missing, and must match it.
	Bring(ctx context.Context, all []file.Artifact) ([]file.Artifact, error)
}

// A wanted package is named in a list; it comes with the tool that has the list.
type wanted struct {
	tool model.Ref
	pkg  *packages.Package
}

// artifacts pins the packages in the closure's lists. Files of the old lock stay, and an unchanged list asks no
// registry; files that no list names any more are removed.
func (r *Request) artifacts(ctx context.Context, made *Made) ([]file.Artifact, error) {
	all := r.wanted(made.Closure.Lists)
	found := make([][]file.Artifact, len(all))
	unasked := make([]bool, len(all))
	// Registries are slow and processors idle, so more run at once than there are processors.
	if err := cas.Parallel(ctx, 8, len(all), func(ctx context.Context, i int) (err error) {
		if found[i], unasked[i], err = r.find(ctx, made, &all[i]); err != nil {
			err = inPackages(all[i].tool, err)
		}
		return err
	}); err != nil {
		return nil, err
	}
	pinned := map[string]file.Artifact{}
	by := map[string]model.Ref{}
	for i, w := range all {
		if unasked[i] {
			made.Unasked = append(made.Unasked, w.pkg.String())
		}
		for _, a := range found[i] {
			name := a.String()
			if other, ok := pinned[name]; ok && other.Source != a.Source {
				return nil, twoFiles(name, other.Source, a.Source, by[name], w.tool)
			}
			pinned[name], by[name] = a, w.tool
		}
	}
	out := slices.SortedFunc(maps.Values(pinned), func(a, b file.Artifact) int {
		return strings.Compare(a.String(), b.String())
	})
	if r.Packages == nil || len(out) == 0 {
		return out, nil
	}
	return r.Packages.Bring(ctx, out)
}

// wanted returns the packages in the lists, each once.
func (r *Request) wanted(lists []closure.List) (all []wanted) {
	seen := map[string][]*packages.Package{}
	for i := range lists {
		for j := range lists[i].Packages {
			p := &lists[i].Packages[j]
			same := func(o *packages.Package) bool { return slices.EqualFunc(o.Files, p.Files, sameSource) }
			if slices.ContainsFunc(seen[p.String()], same) {
				continue
			}
			seen[p.String()] = append(seen[p.String()], p)
			all = append(all, wanted{tool: lists[i].Tool, pkg: p})
		}
	}
	return all
}

// twoFiles is the error for two tools whose lists give one name to different files: a lock has one file for a name.
func twoFiles(name, source, other string, tool, otherTool model.Ref) error {
	e := fault.New(fault.Conflict, "%s names two different files", name).On("reason", "packages").On("package", name).
		Because(fmt.Sprintf("%s for %s", source, tool),
			fmt.Sprintf("%s for %s", other, otherTool)).Try("rye docs packages").Permanent()
	e.Exit = fault.ExitRefused
	return e
}

func sameSource(a, b packages.File) bool { return a.Source == b.Source }

// find returns the files of a package, with the digests of the old lock. It reports whether more files are possible,
// for which no registry was available.
func (r *Request) find(ctx context.Context, m *Made, wanted *wanted) (found []file.Artifact, unasked bool, err error) {
	old := allowed(nil, r.Old, wanted.pkg)
	// A list may allow files that are never pinned, such as source archives. So the registry is asked only if the
	// list changed.
	var same []file.Artifact
	for _, l := range append([]*file.Lock{r.Old}, r.Sides...) {
		if l != nil && !r.UpdateAll && sameTree(l, m, wanted.tool) {
			same = allowed(same, l, wanted.pkg)
		}
	}
	if len(same) > 0 {
		return same, false, nil
	}
	// Without a registry, pinned files that are still allowed stay.
	if len(old) == len(wanted.pkg.Files) || r.Packages == nil && len(old) > 0 {
		return old, false, nil
	}
	if r.Packages == nil {
		return nil, false, fault.New(fault.LockMismatch, "%s is not in the lock", wanted.pkg).On("reason",
			"packages").On("package", wanted.pkg.String()).Try("rye lock")
	}
	found, err = r.Packages.Find(ctx, wanted.pkg)
	if gone, ok := errors.AsType[interface {
		error
		Offline() bool
	}](err); ok && gone.Offline() && len(old) > 0 {
		return old, true, nil
	}
	for i := range found {
		for _, a := range old {
			if a.Name == found[i].Name && a.Version == found[i].Version && a.Source == found[i].Source {
				found[i] = a
			}
		}
	}
	return found, false, err
}

// allowed appends to files those that a lock has of a package and that its list allows.
func allowed(files []file.Artifact, l *file.Lock, p *packages.Package) []file.Artifact {
	for _, a := range l.ArtifactsOf(p.Key(), p.Version) {
		if p.Has(a.Source) && !slices.ContainsFunc(files, func(f file.Artifact) bool {
			return f.Version == a.Version
		}) {
			files = append(files, a)
		}
	}
	return files
}

// sameTree reports whether a tool has the same files as in an old lock.
func sameTree(l *file.Lock, m *Made, tool model.Ref) bool {
	old := l.Pin(tool)
	i := slices.IndexFunc(m.Closure.Pins, func(p file.Pin) bool { return p.Ref == tool })
	return old != nil && i >= 0 && old.Tree == m.Closure.Pins[i].Tree
}

// inPackages is the error for a package in a tool's list.
func inPackages(tool model.Ref, err error) error {
	return fault.Wrap(err, "%q needs a package: %v", tool, err).On("tool", tool.String())
}
