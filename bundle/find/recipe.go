package find

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

// initialVersion is the version of a bundle without bundle.yaml and without a manifest.
const initialVersion = "0.1.0"

// Recipe returns the recipe of a directory's bundle: bundle.yaml, or else lines that replace it, or else the files of
// an id. An empty id means that of the only bundle, or the common prefix of all items' ids. assumed lists the id
// and the version that stand in for those of a missing bundle.yaml.
func Recipe(dir, id string, lines []recipe.Line) (_ *recipe.Recipe, assumed []string, err error) {
	found, err := recipe.Read(dir)
	switch {
	case err != nil:
		return nil, nil, err
	case found != nil && id != "" && id != found.ID:
		return nil, nil, fault.New(fault.Validation, "%q makes the bundle %q, not %q", recipe.File, found.ID,
			id).Try("rye bundle create "+fault.Quote(found.ID)).On("bundle", found.ID)
	case found != nil:
		return found, nil, agrees(found, lines)
	case id == "":
		if id = obviousID(dir); id != "" {
			assumed = append(assumed, "id "+id)
			break
		}
		name := key.Slug(filepath.Base(dir))
		if !ValidID(name) {
			name = "bundle"
		}
		return nil, nil, fault.New(fault.Config, "no bundle id given, and no %s in %q", recipe.File, dir).On("path",
			filepath.Join(dir, recipe.File)).
			Because("a minimal "+recipe.File+":", "id: "+name, "version: "+initialVersion,
				"include: [\".ai/**\"]").Try("rye help bundle")
	}
	version, from := initialVersion, ""
	if old := new(Finder).LineOf(InProject, dir, id); old.Version != "" {
		version, from = old.Version, ", as in its manifest"
	}
	if !slices.ContainsFunc(lines, func(l recipe.Line) bool { return l.Name == "version" }) {
		assumed = append(assumed, "version "+version+from)
	}
	if len(lines) > 0 {
		found, err = written(id, version, lines)
	} else {
		found, err = recipe.New(id, version)
	}
	if err != nil {
		return nil, nil, fault.New(fault.Validation, "%s", err).From(err).On("bundle", id)
	}
	return found, assumed, nil
}

// obviousID returns the id of the project's only bundle, or else the common id prefix of its items; "" without both.
func obviousID(dir string) string {
	if ids, err := InProjectIDs(dir); err == nil && len(ids) > 0 {
		if len(ids) == 1 {
			return ids[0]
		}
		return ""
	}
	return sharedID(dir)
}

// sharedID returns the common id prefix of a project's items, or "".
func sharedID(dir string) string {
	var shared []string
	begun := false
	root := filepath.Join(dir, dotAI)
	filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(root, file)
		if err != nil || relErr != nil {
			return nil
		}
		rel = filepath.ToSlash(rel)
		if e.IsDir() {
			if recipe.Never(rel) {
				return fs.SkipDir
			}
			return nil
		}
		for _, k := range model.Builtin() {
			ref, err := k.RefOf(rel)
			if err != nil {
				continue
			}
			segs := strings.Split(ref.ID, "/")
			if !begun {
				shared, begun = segs, true
			}
			n := 0
			for n < min(len(shared), len(segs)) && shared[n] == segs[n] {
				n++
			}
			shared = shared[:n]
		}
		return nil
	})
	if id := strings.Join(shared, "/"); ValidID(id) {
		return id
	}
	return ""
}

// written parses lines as the bundle.yaml that they replace.
func written(id, version string, lines []recipe.Line) (*recipe.Recipe, error) {
	var text []byte
	for _, l := range append([]recipe.Line{{Name: "id", Value: id}, {Name: "version", Value: version}}, lines...) {
		v, err := json.Marshal(l.Value) // YAML reads JSON, too
		if err != nil {
			return nil, err
		}
		if l.Name == "version" {
			version = string(v)
			continue
		}
		text = fmt.Appendf(text, "%s: %s\n", l.Name, v)
	}
	return recipe.Parse(fmt.Appendf(text, "version: %s\n", version))
}

// agrees refuses lines that contradict bundle.yaml.
func agrees(r *recipe.Recipe, lines []recipe.Line) error {
	has := map[string]any{"version": r.Version, "entrypoint": r.Entrypoint, "description": r.Description}
	for _, l := range lines {
		if old, ok := has[l.Name]; ok && old != l.Value {
			return fault.New(fault.Conflict, "the %s of %q is %q in %q, not %q", l.Name, r.ID, old, recipe.File,
				l.Value).Permanent().On("bundle", r.ID)
		}
	}
	return nil
}
