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

type imported struct {
	Name    string `json:"name"`
	Path    string `json:"path"` // in what was imported
	License string `json:"license"`
	// that stood above the skill's folder, and are kept beside its files
	Licences  []string      `json:"license_files"`
	Tool      string        `json:"tool"`
	Directive string        `json:"directive"`
	Files     []string      `json:"files"`   // written, or would be; empty if all was there
	Removed   []string      `json:"removed"` // of the version that was there, or would be
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
	if all, err = c.chosen(all); err != nil {
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
		a.Term.Note("all of it is there already")
		return ans, nil
	}
	a.Term.Note("nothing is signed: read it, then rye sign %s", strings.Join(refs, " "))
	a.Term.Note("next: rye lock")
	return ans, nil
}

// read reads the skills of the source.
func (c *importSkillRun) read(ctx context.Context, a *cli.App) (all []*skill.Skill, from, digest string, err error) {
	if strings.Contains(c.Source, "://") {
		b, err := paths.GetSmall(ctx, a, c.Source, skill.MaxArchive, false)
		if err != nil {
			return nil, "", "", err
		}
		all, err = skill.ReadArchive(b)
		return all, web.Shown(c.Source), cas.Sum(b).String(), err
	}
	s := a.Absolute(cli.Setting{Value: c.Source})
	if s.Err != nil {
		return nil, "", "", s.Err
	}
	fi, err := os.Stat(s.Value)
	if err != nil {
		return nil, "", "", err
	}
	from = filepath.Base(s.Value) // not where it is on this machine
	if fi.IsDir() {
		all, err = skill.ReadDir(s.Value)
		return all, from, "", err
	}
	b, err := osfile.ReadSmall(s.Value, skill.MaxArchive)
	if err != nil {
		return nil, "", "", err
	}
	if filepath.Base(s.Value) == skill.Main {
		return nil, "", "", fault.New(fault.Validation, "%q is a file of a skill: give its folder", c.Source).
			Try("rye import skill " + fault.Quote(filepath.Dir(c.Source)))
	}
	if ext := filepath.Ext(s.Value); ext == ".md" {
		return nil, "", "", fault.New(fault.Validation, "%q is no skill, which is a folder or an archive", c.Source).
			Try("rye import agents " + fault.Quote(c.Source))
	}
	all, err = skill.ReadArchive(b)
	return all, from, cas.Sum(b).String(), err
}

// chosen returns the skills that --only names.
func (c *importSkillRun) chosen(all []*skill.Skill) ([]*skill.Skill, error) {
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

// plan makes the items of a skill.
func (c *importSkillRun) plan(ctx context.Context, w *writer, s *skill.Skill, from, digest string) (m imported,
	err error) {
	tool, directive := skill.Refs(c.As, s.Name)
	m = imported{Name: s.Name, Path: s.Path, License: s.License, Licences: []string{}, Tool: tool.String(),
		Directive: directive.String(),
		Files:     []string{}, Removed: []string{}, LeftOut: append([]string{}, s.LeftOut...), Touches: s.Touches()}
	var files []tree.File
	dir := path.Join("tools", path.Dir(tool.ID), skill.Dir)
	known := map[string]bool{path.Join("tools", tool.ID+".yaml"): true}
	for _, f := range s.Files {
		known[path.Join(dir, f.Path)] = true
	}
	licences := path.Join(path.Dir(dir), skill.LicenceDir)
	for _, f := range s.Licences {
		known[path.Join(licences, f.Path)] = true
		m.Licences = append(m.Licences, f.Path)
	}
	w.begin(s.Name)
	if err := w.only(path.Dir(dir), []string{dir, licences}, known, &m.Removed); err != nil {
		return m, err
	}
	for _, f := range s.Licences {
		if err := w.addFile(path.Join(licences, f.Path), f.Bytes, false, &m.Files); err != nil {
			return m, err
		}
	}
	for _, f := range s.Files {
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
	o := skill.Origin{From: from, Archive: digest, Path: s.Path, Files: t.Digest.String()}
	err = w.addItem(ctx, tool, ".yaml", s.ToolText(c.As, o), &m.Files, func(old []byte) (ok bool) {
		w.group().from, ok = skill.ReadOrigin(old)
		return ok
	})
	if err == nil {
		err = w.addItem(ctx, directive, ".md", s.DirectiveText(c.As), &m.Files, func(old []byte) bool {
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
	b, err := paths.ReadArgument(ctx, a, c.File)
	if err != nil {
		return nil, err
	}
	name := filepath.ToSlash(c.File)
	if err := skill.CheckAgents(name, b); err != nil {
		return nil, err
	}
	w, err := openWriter(ctx, a, c.DryRun)
	if err != nil {
		return nil, err
	}
	defer w.close()
	var files []string
	w.begin(ref.String())
	if err := w.addItem(ctx, ref, ".md", skill.AgentsText(ref, "Instructions for agents: "+path.Base(name), b), &files,
		func([]byte) bool { return true }); err != nil {
		return nil, err
	}
	ans := &importAgentsAnswer{Ref: ref.String(), File: w.name(path.Join("knowledge", ref.ID+".md")),
		From: path.Base(name), Digest: cas.Sum(b).String(), DryRun: c.DryRun}
	if err := w.confirm(ctx, a); err != nil || c.DryRun {
		return ans, err
	}
	if err := w.write(ctx); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		a.Term.Note("it is there already")
		return ans, nil
	}
	a.Term.Note("it is not signed: rye sign %s, then rye lock", fault.Quote(ref.String()))
	return ans, nil
}
