package export

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/clients"
	"github.com/rye-build/rye/manifest"
)

// convert makes a plugin of a bundle that isn't one.
func (e *exporter) convert(ctx context.Context) error {
	name := e.o.Name
	if e.Plugin = name; name == "" {
		e.Plugin = NameOf(e.bundle.BundleID)
	}
	if section, err := plugin.CheckName(e.Plugin); err != nil {
		failure := fault.New(fault.Validation, "%v", err).On("reason", "name").On("name", e.Plugin).
			On("section", section).Because("it is made of the bundle's id; --name chooses another").
			Try("rye help export plugin")
		if section != "" {
			failure.Because("Agent Plugins 1.0 §" + section)
		}
		return failure
	}
	made, err := e.project(ctx)
	if err != nil {
		return err
	}
	defer made.close()
	if err := e.available(ctx); err != nil {
		return err
	}
	if err := e.skills(ctx, made.pins); err != nil {
		return err
	}
	e.rest(made.kept)
	if err := e.manifest(ctx); err != nil {
		return err
	}
	if err := e.readme(ctx); err != nil {
		return err
	}
	read, err := e.read(ctx)
	if err != nil {
		return err
	}
	for _, found := range read.Problems {
		// A bundle can have what a plugin can't.
		if found.Effect != plugin.Advice {
			return fault.New(fault.Validation, "can't export %q: %s", e.bundle.BundleID, found.String()).
				On("reason", "plugin").On("bundle", e.bundle.BundleID).On("file", found.Path).
				On("section", found.Section).Try("rye docs plugins")
		}
	}
	return nil
}

// available refuses a bundle if the store lacks one of its items or licences: a vendored clone has only what its lock
// pins.
func (e *exporter) available(ctx context.Context) error {
	var ids []cas.ID
	at := map[cas.Digest]string{}
	for i := range e.bundle.Files {
		if f := &e.bundle.Files[i]; f.Ref != "" || licenceName().MatchString(f.Path) {
			ids, at[f.Digest] = append(ids, cas.ID{Kind: cas.Blob, Digest: f.Digest}), f.Path
		}
	}
	missing, err := e.store.Missing(ctx, ids)
	if err != nil || len(missing) == 0 {
		return err
	}
	name := lock.BundleName(e.bundle.BundleID, e.bundle.Version)
	failure := lock.Missing(fmt.Errorf("can't export %q: %q is missing", e.bundle.BundleID, at[missing[0].Digest]),
		missing[0], name).Because("a vendored project has what its lock pins, and no other file of a bundle")
	failure.Hint = []string{fault.Command("rye bundle import", archive.FileName(e.bundle.BundleID, e.bundle.Version))}
	return failure
}

// NameOf returns the name of a bundle's plugin: its id in lower case, with "." for "/" and "-" for "_". Not every id
// gives a valid name (plugin.CheckName).
func NameOf(id string) string {
	return strings.NewReplacer("/", ".", "_", "-").Replace(strings.ToLower(id))
}

// skills adds the skills of the bundle, and its directives as skills.
func (e *exporter) skills(ctx context.Context, pins *clients.Pins) error {
	refs := map[string][]string{} // of the items that become a skill, by its name
	var directives []model.Ref
	wrappers := map[model.Ref]bool{} // directives that only run an imported skill
	others := 0
	for i := range e.bundle.Files {
		f := &e.bundle.Files[i]
		if f.Ref == "" {
			continue
		}
		ref, err := model.ParseRef(f.Ref)
		if err != nil {
			return err
		}
		if ref.Kind == "directive" {
			directives = append(directives, ref)
			continue
		}
		name, is, err := e.imported(ctx, f, ref)
		if err != nil {
			return err
		}
		if !is {
			others++
			continue
		}
		refs[name] = append(refs[name], f.Ref)
		_, wrapper := skill.In(path.Dir(path.Dir(ref.ID))).Refs(name)
		wrappers[wrapper] = true
		from := path.Join(path.Dir(f.Path), skill.Dir) + "/"
		for _, part := range e.bundle.Files {
			if rest, ok := strings.CutPrefix(part.Path, from); ok {
				part.Path, part.Ref = path.Join(plugin.SkillsDir, name, rest), ""
				e.files = append(e.files, part)
			}
		}
	}
	for _, ref := range directives {
		if wrappers[ref] {
			continue
		}
		name := skill.LongSlug(ref)
		refs[name] = append(refs[name], ref.String())
		if err := e.directive(ctx, pins, ref, name); err != nil {
			return err
		}
		others++
	}
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		if len(refs[name]) > 1 {
			return e.refuse("7.1", refs[name], "%s would be one skill, %q", strings.Join(refs[name], " and "), name)
		}
		e.Skills = append(e.Skills, name)
	}
	e.Server = others > 0
	return nil
}

// refuse returns the error for items that can't be a skill.
func (e *exporter) refuse(section string, refs []string, format string, args ...any) error {
	return fault.New(fault.Validation, "can't export %q: %s", e.bundle.BundleID, fmt.Sprintf(format, args...)).
		Because("Agent Plugins 1.0 §"+section+": a skill is a directory of skills/, named as the skill is").
		On("reason", "skill").On("bundle", e.bundle.BundleID).On("section", section).On("refs", refs).
		Try("rye docs plugins")
}

// imported returns the name of the skill that a tool of the bundle is, as rye import skill makes it.
func (e *exporter) imported(ctx context.Context, f *manifest.File, ref model.Ref) (string, bool, error) {
	name, is := skill.NameOf(ref)
	if !is || f.Size > maxText {
		return "", false, nil
	}
	text, err := e.text(ctx, f)
	if err != nil {
		return "", false, err
	}
	_, is = skill.ReadOrigin(text)
	return name, is, nil
}

// maxText bounds the file of an item that is read here.
const maxText = 8 << 20

func (e *exporter) text(ctx context.Context, f *manifest.File) ([]byte, error) {
	object, err := e.Get(ctx, cas.ID{Kind: cas.Blob, Digest: f.Digest})
	if err != nil {
		return nil, err
	}
	defer object.Close()
	return io.ReadAll(io.LimitReader(object, maxText))
}

// directive adds the skill of a directive.
func (e *exporter) directive(ctx context.Context, pins *clients.Pins, ref model.Ref, name string) error {
	if !skill.IsName(name) {
		return e.refuse("7.1", []string{ref.String()}, "the name %q of %s has %d characters, and a skill's at most 64",
			name, ref, len(name))
	}
	it, err := pins.Item(ctx, ref)
	if err != nil {
		return err
	}
	files := clients.Directive(it).Skill()
	if _, err := skill.FromFiles(name, files); err != nil {
		return e.refuse("7.1", []string{ref.String()}, "%s is no skill: %s", ref, fault.Of(err).Text)
	}
	for i := range files {
		if err := e.add(ctx, path.Join(plugin.SkillsDir, name, files[i].Path), files[i].Bytes); err != nil {
			return err
		}
	}
	d := it.Model.Directive
	var lost []string
	for _, part := range []struct {
		name string
		has  bool
	}{{"permissions", len(d.Permissions) > 0}, {"limits", d.Limits != nil}, {"model", d.Model != nil},
		{"hooks", len(d.Hooks) > 0}, {"outputs", len(d.Outputs) > 0}} {
		if part.has {
			lost = append(lost, part.name)
		}
	}
	if len(lost) > 0 {
		e.skip(strings.Join(lost, ", ")+" of "+ref.String(), "a skill has only its text")
	}
	return nil
}

func (e *exporter) skip(part, why string) { e.Skipped = append(e.Skipped, Skipped{part, why}) }

// licenceName matches files at the top of a bundle that go along.
var licenceName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?i:licen[cs]e|copying|unlicense|notice)(?:[-._].*)?$`)
})

// rest adds the licences of the bundle, and names the files that no client gets. kept are those of its items.
func (e *exporter) rest(kept map[cas.Digest]bool) {
	for _, f := range e.bundle.Files {
		switch {
		case f.Ref != "" || kept[f.Digest]:
		case licenceName().MatchString(f.Path):
			e.files = append(e.files, f)
		default:
			e.skip(f.Path, "no item has this file")
		}
	}
	for _, proof := range e.bundle.Evidence {
		e.skip(e.bundle.Layout().Evidence(proof.Name), "evidence about the bundle as a whole")
	}
}

// manifest adds plugin.json and mcp.json.
func (e *exporter) manifest(ctx context.Context) error {
	about := struct {
		Schema      string `json:"$schema"`
		Name        string `json:"name"`
		Version     string `json:"version"`
		Description string `json:"description,omitempty"`
		License     string `json:"license,omitempty"`
	}{plugin.ManifestSchema, e.Plugin, e.Version, e.bundle.Description, e.bundle.License}
	if err := e.addJSON(ctx, plugin.ManifestFile, about); err != nil || !e.Server {
		return err
	}
	type server struct {
		Type    string   `json:"type"`
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	args := []string{"mcp", "serve", "-C", "${PLUGIN_ROOT}", "--frozen"}
	for _, tools := range e.o.Tools {
		args = append(args, "--tools", tools)
	}
	return e.addJSON(ctx, plugin.ServersFile, struct {
		Schema  string            `json:"$schema"`
		Servers map[string]server `json:"mcpServers"`
	}{plugin.ServersSchema, map[string]server{e.Plugin: {plugin.Stdio, "rye", args}}})
}

func (e *exporter) addJSON(ctx context.Context, name string, v any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return err
	}
	return e.add(ctx, name, text.Bytes())
}
