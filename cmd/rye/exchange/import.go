package exchange

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/lock/items"
	"github.com/rye-build/rye/lock/web"
)

type importSkillRun struct {
	Source string   `arg:"" complete:"file" help:"Folder, zip, tar.gz, or its https address."`
	As     string   `default:"skills" placeholder:"CATEGORY" help:"Category of the items (default: skills)."`
	Only   []string `placeholder:"NAME" help:"Import only this skill (repeatable)."`
	DryRun bool     `help:"Show what would be written; write nothing."`
}

type importAnswer struct {
	From   string     `json:"from"`
	Digest string     `json:"digest"` // of the archive; empty for a folder
	Skills []imported `json:"skills"`
	DryRun bool       `json:"dry_run"`
}

// imported describes one skill, and the items and files that it becomes.
type imported struct {
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

	replaces bool
}

// Text implements cli.Answer.
func (m *importAnswer) Text(t *cli.Terminal) {
	for _, s := range m.Skills {
		verb := cli.DryVerb(m.DryRun, "imported", "would import")
		if s.replaces {
			verb = cli.DryVerb(m.DryRun, "replaced", "would replace")
		}
		license := s.License
		if license == "" {
			license = cmp.Or(strings.Join(s.Licences, ", "), "no licence")
		}
		t.Printf("%s %s  %s and %s, %s, %s\n", verb, s.Name, s.Tool, s.Directive,
			fault.Count(int64(len(s.Files)), "file"), license)
		show := func(what string, names []string) {
			if len(names) > 0 {
				t.Printf("  %s  %s\n", what, strings.Join(names, ", "))
			}
		}
		show("licence from above its folder", s.Licences)
		show("allowed tools", s.Touches.Tools)
		var scripts []string
		for _, sc := range s.Touches.Scripts {
			how := sc.Interpreter
			if how == "" {
				how = "own code"
			}
			if sc.Executable {
				how += ", executable"
			}
			scripts = append(scripts, sc.Path+" ("+how+")")
		}
		show("scripts", scripts)
		show("run by a client on its own", s.Touches.Commands)
		show("hosts", s.Touches.Hosts)
		show("paths", s.Touches.Paths)
		show("secrets", s.Touches.Variables)
		show("left out", s.LeftOut)
		show("removed", s.Removed)
	}
}

// Run implements cli.Runner.
func (c *importSkillRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	all, from, digest, err := c.read(ctx, a)
	if err != nil {
		return nil, err
	}
	if all, err = c.selected(all); err != nil {
		return nil, err
	}
	w, err := openWriter(ctx, a, c.DryRun)
	if err != nil {
		return nil, err
	}
	defer w.close()
	ans := &importAnswer{From: from, Digest: digest, Skills: []imported{}, DryRun: c.DryRun}
	var refs []string
	for _, s := range all {
		m, err := c.plan(ctx, w, s, from, digest)
		if err != nil {
			return nil, err
		}
		for _, warning := range s.Warnings {
			a.Term.Warn("%s: %s", path.Join(s.Path, skill.Main), warning)
		}
		if len(m.Files) > 0 {
			refs = append(refs, fault.Quote(m.Tool), fault.Quote(m.Directive))
		}
		ans.Skills = append(ans.Skills, m)
	}
	if err := w.confirm(ctx, a); err != nil || c.DryRun {
		return ans, err
	}
	if err := w.write(ctx); err != nil {
		return nil, err
	}
	if len(refs) == 0 {
		a.Term.Note("everything is up to date")
		return ans, nil
	}
	a.Term.Note("nothing is signed; review it, then run: rye sign %s", strings.Join(refs, " "))
	a.Term.Note("next: rye lock")
	return ans, nil
}

// read returns the skills of the source, a name of the source without this machine's paths or secrets, and the
// digest of an archive.
func (c *importSkillRun) read(ctx context.Context, a *cli.App) (all []*skill.Skill, from, digest string, err error) {
	if strings.Contains(c.Source, "://") {
		text, err := paths.GetSmall(ctx, a, c.Source, skill.MaxArchive, false)
		if err != nil {
			return nil, "", "", err
		}
		all, err = skill.ReadArchive(text)
		return all, web.Shown(c.Source), cas.Sum(text).String(), err
	}
	place := a.Absolute(cli.Setting{Value: c.Source})
	if place.Err != nil {
		return nil, "", "", place.Err
	}
	fi, err := os.Stat(place.Value)
	if err != nil {
		return nil, "", "", err
	}
	from = filepath.Base(place.Value) // the full path belongs to this machine
	if fi.IsDir() {
		all, err = skill.ReadDir(place.Value)
		return all, from, "", err
	}
	text, err := osfile.ReadSmall(place.Value, skill.MaxArchive)
	if err != nil {
		return nil, "", "", err
	}
	if filepath.Base(place.Value) == skill.Main {
		return nil, "", "", fault.New(fault.Validation, "%q is one file of a skill: give its folder", c.Source).
			Try("rye import skill " + fault.Quote(filepath.Dir(c.Source)))
	}
	if ext := filepath.Ext(place.Value); ext == ".md" {
		return nil, "", "", fault.New(fault.Validation, "%q is not a skill: expected a folder or an archive",
			c.Source).
			Try("rye import agents " + fault.Quote(c.Source))
	}
	all, err = skill.ReadArchive(text)
	return all, from, cas.Sum(text).String(), err
}

// selected returns the skills that --only names, or all without it.
func (c *importSkillRun) selected(all []*skill.Skill) ([]*skill.Skill, error) {
	if len(c.Only) == 0 {
		return all, nil
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	for _, n := range c.Only {
		if !slices.Contains(names, n) {
			return nil, items.Unknown("skill", n, names)
		}
	}
	return slices.DeleteFunc(all, func(s *skill.Skill) bool { return !slices.Contains(c.Only, s.Name) }), nil
}

// plan plans the files of a skill, its licences, and its two items: a tool with the files and a directive with the
// text.
func (c *importSkillRun) plan(ctx context.Context, w *writer, source *skill.Skill, from, digest string) (m imported,
	err error) {
	tool, directive := skill.Refs(c.As, source.Name)
	m = imported{Name: source.Name, Path: source.Path, License: source.License, Licences: []string{},
		Tool:      tool.String(),
		Directive: directive.String(),
		Files:     []string{}, Removed: []string{}, LeftOut: append([]string{}, source.LeftOut...),
		Touches: source.Touches()}
	var files []tree.File
	dir := path.Join("tools", path.Dir(tool.ID), skill.Dir)
	known := map[string]bool{path.Join("tools", tool.ID+".yaml"): true}
	for _, f := range source.Files {
		known[path.Join(dir, f.Path)] = true
	}
	licences := path.Join(path.Dir(dir), skill.LicenceDir)
	for _, f := range source.Licences {
		known[path.Join(licences, f.Path)] = true
		m.Licences = append(m.Licences, f.Path)
	}
	w.begin(source.Name)
	if err := w.only(path.Dir(dir), []string{dir, licences}, known, &m.Removed); err != nil {
		return m, err
	}
	for _, f := range source.Licences {
		if err := w.addFile(path.Join(licences, f.Path), f.Bytes, false, &m.Files); err != nil {
			return m, err
		}
	}
	for _, f := range source.Files {
		d := cas.Sum(f.Bytes)
		files = append(files, tree.File{Path: f.Path, Mode: f.Mode(), Raw: d, Stripped: d})
		if err := w.addFile(path.Join(dir, f.Path), f.Bytes, f.Exec, &m.Files); err != nil {
			return m, err
		}
	}
	t, err := tree.New(files)
	if err != nil {
		return m, err
	}
	o := skill.Origin{From: from, Archive: digest, Path: source.Path, Files: t.Digest.String()}
	err = w.addItem(ctx, tool, ".yaml", source.ToolText(c.As, o), &m.Files, func(old []byte) (ok bool) {
		w.group().from, ok = skill.ReadOrigin(old)
		return ok
	})
	if err == nil {
		err = w.addItem(ctx, directive, ".md", source.DirectiveText(c.As), &m.Files, func(old []byte) bool {
			return bytes.Contains(old, []byte(tool.ID))
		})
	}
	m.replaces = w.replaces()
	return m, err
}

type importAgentsRun struct {
	File   string `arg:"" complete:"file" help:"AGENTS.md, or a file like it."`
	As     string `default:"agents" placeholder:"ID" help:"Id of the item (default: agents)."`
	DryRun bool   `help:"Show what would be written; write nothing."`
}

type importAgentsAnswer struct {
	Ref    string `json:"ref"`
	File   string `json:"file"`
	From   string `json:"from"`
	Digest string `json:"digest"` // of the file that was imported
	DryRun bool   `json:"dry_run"`
}

// Text implements cli.Answer.
func (m *importAgentsAnswer) Text(t *cli.Terminal) {
	t.Printf("%s %s  %s\n", cli.DryVerb(m.DryRun, "wrote", "would write"), m.File, m.Ref)
}

// Run implements cli.Runner.
func (c *importAgentsRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	ref, err := model.ParseRef("knowledge:" + strings.TrimPrefix(c.As, "knowledge:"))
	if err != nil {
		return nil, items.BadRef("knowledge:"+c.As, err)
	}
	text, err := paths.ReadArgument(ctx, a, c.File)
	if err != nil {
		return nil, err
	}
	name := filepath.ToSlash(c.File)
	if err := skill.CheckAgents(name, text); err != nil {
		return nil, err
	}
	w, err := openWriter(ctx, a, c.DryRun)
	if err != nil {
		return nil, err
	}
	defer w.close()
	var files []string
	w.begin(ref.String())
	if err := w.addItem(ctx, ref, ".md", skill.AgentsText(ref, "Instructions for agents: "+path.Base(name), text),
		&files,
		func([]byte) bool { return true }); err != nil {
		return nil, err
	}
	ans := &importAgentsAnswer{Ref: ref.String(), File: w.name(path.Join("knowledge", ref.ID+".md")),
		From: path.Base(name), Digest: cas.Sum(text).String(), DryRun: c.DryRun}
	if err := w.confirm(ctx, a); err != nil || c.DryRun {
		return ans, err
	}
	if err := w.write(ctx); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		a.Term.Note("%s is up to date", ref)
		return ans, nil
	}
	a.Term.Note("it is not signed; run rye sign %s, then rye lock", fault.Quote(ref.String()))
	return ans, nil
}
