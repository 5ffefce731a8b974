package adopt

import (
	"bytes"
	"context"
	"path"

	"github.com/rye-build/rye/bundle/skill"
)

// A Skill describes one skill, and the items and files that it becomes.
type Skill struct {
	Name    string `json:"name"`
	Path    string `json:"path"` // in the source
	License string `json:"license"`
	// licence files from above the skill's folder, stored beside its files
	Licences  []string      `json:"license_files"`
	Tool      string        `json:"tool"`
	Directive string        `json:"directive"`
	Files     []string      `json:"files"`   // written, or would be; empty if all were up to date
	Removed   []string      `json:"removed"` // files of the previous version, removed or to be removed
	LeftOut   []string      `json:"left_out"`
	Touches   skill.Touches `json:"touches"`

	Replaces bool `json:"-"` // another version
}

// Skill plans the files of a skill, its licences, and its two items in a category: a tool with the files and a
// directive with the text. Path and Files of the origin are added.
func (w *Plan) Skill(ctx context.Context, category string, source *skill.Skill, origin skill.Origin) (made Skill,
	err error) {
	origin.Path = source.Path
	all, err := source.Items(skill.In(category), origin)
	if err != nil {
		return made, err
	}
	made = Skill{Name: source.Name, Path: source.Path, License: source.License, Licences: []string{},
		Tool: all.Tool.String(), Directive: all.Directive.String(),
		Files: []string{}, Removed: []string{}, LeftOut: append([]string{}, source.LeftOut...),
		Touches: source.Touches()}
	known := map[string]bool{path.Join("tools", all.Tool.ID+".yaml"): true}
	for _, f := range all.Files {
		known[f.Path] = true
	}
	for _, f := range source.Licences {
		made.Licences = append(made.Licences, f.Path)
	}
	w.Begin(source.Name)
	if err := w.only(path.Dir(all.Dir), []string{all.Dir, all.LicenceDir}, known, &made.Removed); err != nil {
		return made, err
	}
	for _, f := range all.Files {
		if err := w.addFile(f.Path, f.Bytes, f.Exec, &made.Files); err != nil {
			return made, err
		}
	}
	err = w.AddItem(ctx, all.Tool, ".yaml", all.ToolText, &made.Files, func(old []byte) (ok bool) {
		w.group().From, ok = skill.ReadOrigin(old)
		return ok
	})
	if err == nil {
		err = w.AddItem(ctx, all.Directive, ".md", all.DirectiveText, &made.Files, func(old []byte) bool {
			return bytes.Contains(old, []byte(all.Tool.ID))
		})
	}
	made.Replaces = w.replaces()
	return made, err
}
