package recipe

import (
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/manifest/policy/glob"
)

// Includes reports whether a file belongs to the bundle, by its path relative to the directory that holds .ai.
func (r *Recipe) Includes(file string) bool {
	if matchAny(r.Exclude, file) {
		return false
	}
	if !inAI(file) {
		return matchAny(r.Assets, file) || r.Makes(file)
	}
	dir, rest, ok := strings.Cut(file[len(".ai/"):], "/")
	if !ok || Never(dir) {
		return false
	}
	if len(r.Include) == 0 {
		return r.named(rest)
	}
	return slices.ContainsFunc(r.Include, func(p Pattern) bool { return p.match(file) })
}

// named reports whether a path in the directory of a kind has an id that is the bundle's or below it.
func (r *Recipe) named(rest string) bool {
	return strings.HasPrefix(rest, r.ID+"/") || strings.TrimSuffix(rest, path.Ext(rest)) == r.ID && rest != r.ID
}

func (p Pattern) match(file string) bool {
	if p.kind == nil {
		return p.paths.Match(file)
	}
	ref, err := p.kind.RefOf(file[len(".ai/"):])
	return err == nil && p.refs.Match(glob.Name{Kind: ref.Kind, ID: ref.ID})
}

// Executes reports whether the recipe makes a file executable.
func (r *Recipe) Executes(file string) bool { return matchAny(r.Executable, file) }

// Allows returns the reason why a file may contain an apparent secret, or "" if it may not.
func (r *Recipe) Allows(file string) string {
	for _, a := range r.AllowSecret {
		if a.Glob.Match(file) {
			return a.Reason
		}
	}
	return ""
}

// Below reports whether a file below a directory outside of .ai may belong to the bundle.
func (r *Recipe) Below(dir string) bool {
	return slices.ContainsFunc(r.Assets, func(g Glob) bool { return g.Below(dir) }) ||
		slices.ContainsFunc(r.Build, func(s Step) bool {
			return slices.ContainsFunc(s.Outputs, func(out string) bool {
				return within(out, dir) || within(dir, out)
			})
		})
}

func matchAny(globs []Glob, file string) bool {
	return slices.ContainsFunc(globs, func(g Glob) bool { return g.Match(file) })
}
