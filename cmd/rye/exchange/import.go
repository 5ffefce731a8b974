package exchange

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/edit"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/lock"
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
	Name      string        `json:"name"`
	Path      string        `json:"path"` // in what was imported
	License   string        `json:"license"`
	Tool      string        `json:"tool"`
	Directive string        `json:"directive"`
	Files     []string      `json:"files"` // written, or would be; empty if all was there
	LeftOut   []string      `json:"left_out"`
	Touches   skill.Touches `json:"touches"`
}

// Text implements cli.Answer.
func (m *importAnswer) Text(t *cli.Terminal) {
	verb := cli.DryVerb(m.DryRun, "imported", "would import")
	for _, s := range m.Skills {
		license := s.License
		if license == "" {
			license = "no licence"
		}
		t.Printf("%s %s  %s and %s, %s, %s\n", verb, s.Name, s.Tool, s.Directive, fault.Count(int64(len(s.Files)), "file"), license)
		show := func(what string, names []string) {
			if len(names) > 0 {
				t.Printf("  %s  %s\n", what, strings.Join(names, ", "))
			}
		}
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
		show("hosts", s.Touches.Hosts)
		show("paths", s.Touches.Paths)
		show("secrets", s.Touches.Variables)
		show("left out", s.LeftOut)
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
	if c.DryRun {
		return ans, nil
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
		b, err := places.GetSmall(ctx, a, c.Source, skill.MaxArchive, false)
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
func (c *importSkillRun) plan(ctx context.Context, w *writer, s *skill.Skill, from, digest string) (m imported, err error) {
	tool, directive := skill.Refs(c.As, s.Name)
	m = imported{Name: s.Name, Path: s.Path, License: s.License, Tool: tool.String(), Directive: directive.String(),
		Files: []string{}, LeftOut: append([]string{}, s.LeftOut...), Touches: s.Touches()}
	var files []tree.File
	dir := path.Join("tools", path.Dir(tool.ID), skill.Dir)
	known := map[string]bool{path.Join("tools", tool.ID+".yaml"): true}
	for _, f := range s.Files {
		d := cas.Sum(f.Bytes)
		files = append(files, tree.File{Path: f.Path, Mode: f.Mode(), Raw: d, Stripped: d})
		known[path.Join(dir, f.Path)] = true
		if err := w.addFile(path.Join(dir, f.Path), f.Bytes, f.Exec, &m.Files); err != nil {
			return m, err
		}
	}
	if err := w.only(path.Dir(dir), known); err != nil {
		return m, err
	}
	t, err := tree.New(files)
	if err != nil {
		return m, err
	}
	o := skill.Origin{From: from, Archive: digest, Path: s.Path, Files: t.Digest.String()}
	if err := w.addItem(ctx, tool, ".yaml", s.ToolText(c.As, o), &m.Files); err != nil {
		return m, err
	}
	return m, w.addItem(ctx, directive, ".md", s.DirectiveText(c.As), &m.Files)
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
	b, err := places.ReadArgument(ctx, a, c.File)
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
	if err := w.addItem(ctx, ref, ".md", skill.AgentsText(ref, "Instructions for agents: "+path.Base(name), b), &files); err != nil {
		return nil, err
	}
	ans := &importAgentsAnswer{Ref: ref.String(), File: w.name(path.Join("knowledge", ref.ID+".md")), From: path.Base(name), Digest: cas.Sum(b).String(), DryRun: c.DryRun}
	if c.DryRun {
		return ans, nil
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

// A writer writes new items of the project with the files beside them: all of them or, of what fails before, none.
type writer struct {
	v      *spaces.Items
	space  *ai.Space
	unlock func()
	files  []newFile // items last
}

type newFile struct {
	path string
	b    []byte
	exec bool
	item bool
	ref  model.Ref
}

func openWriter(ctx context.Context, a *cli.App, dry bool) (*writer, error) {
	root, err := places.Paths(a).OpenProject()
	if err != nil {
		return nil, err
	}
	w := &writer{unlock: func() {}}
	if !dry {
		if w.unlock, err = places.Alone(ctx, a, false); err != nil {
			return nil, err
		}
	}
	if w.v, err = spaces.OpenItems(ctx, a); err != nil {
		w.unlock()
		return nil, err
	}
	if w.space = w.v.Project; w.space == nil {
		w.space = &ai.Space{Label: ai.Project.String(), Level: ai.Project, Dir: root.DotAI(), FS: os.DirFS(root.DotAI())}
	}
	return w, nil
}

func (w *writer) close() {
	w.v.Close()
	w.unlock()
}

func (w *writer) name(p string) string { return w.v.Name(w.space, p) }

// addFile plans a file. One that is there with the same bytes stays; one with others is refused.
func (w *writer) addFile(p string, b []byte, exec bool, into *[]string) error {
	old, err := fs.ReadFile(w.space.FS, p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		w.files = append(w.files, newFile{path: p, b: b, exec: exec})
		*into = append(*into, w.name(p))
		return nil
	case err != nil:
		return err
	case string(old) != string(b):
		return w.exists(p)
	}
	mode, err := lock.ModeOf(w.space, p)
	if err == nil && (mode == cas.Exec) != exec && runtime.GOOS != "windows" {
		return w.exists(p)
	}
	return err
}

// only refuses files in a directory that aren't among those planned or known: they would become part of the skill.
func (w *writer) only(dir string, known map[string]bool) error {
	err := fs.WalkDir(w.space.FS, dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !known[p] {
			return fault.New(fault.Validation, "%q is there already, and would become part of the skill", w.name(p)).Because("nothing was written").
				On("reason", "exists").On("file", w.name(p))
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (w *writer) exists(p string) error {
	return fault.New(fault.Validation, "%q exists already, with other bytes or another mode", w.name(p)).Because("nothing was written").
		On("reason", "exists").On("file", w.name(p)).Try("rye ls")
}

// addItem plans an item, which must be a valid one. One that is there is left if it has the same text but for signatures.
func (w *writer) addItem(ctx context.Context, ref model.Ref, ext string, b []byte, into *[]string) error {
	k, err := w.v.CheckKind(ref.Kind)
	if err != nil {
		return err
	}
	if parsed, err := model.ParseRef(ref.String()); err != nil || parsed != ref {
		return items.BadRef(ref.String(), err)
	}
	file, err := w.v.PathFor(ref, ext)
	if err != nil {
		return fault.Wrap(err, "%q can't be written", ref).On("ref", ref.String())
	}
	it := edit.Draft(ai.File{Ref: ref, Kind: k, Space: w.space, Path: file}, b)
	if it.Broken != nil {
		return fault.Wrap(it.Broken, "the text of %q has signature lines of rye", ref).On("ref", ref.String())
	}
	if !it.Model.Marked || it.Model.Invalid() {
		return w.v.Invalid(it, w.name(file))
	}
	if old, err := fs.ReadFile(w.space.FS, file); err == nil {
		was := edit.Draft(it.File, old)
		if was.Broken == nil && was.Stripped == it.Stripped {
			return nil
		}
		f := w.exists(file).(*fault.Error)
		f.Hint = []string{"rye rm " + fault.Quote(ref.String())}
		return f
	}
	if err := w.v.CheckFree(ctx, ref, w.space); err != nil {
		return err
	}
	if err := w.v.CheckDraft(ctx, it); err != nil {
		return err
	}
	w.files = append(w.files, newFile{path: file, b: b, item: true, ref: ref})
	*into = append(*into, w.name(file))
	return nil
}

// write writes what was planned, items behind the files that they need. What fails takes away what was written.
func (w *writer) write(ctx context.Context) (err error) {
	d, err := edit.OpenDir(w.space.Dir, w.space.Level)
	if err != nil {
		return err
	}
	defer d.Close()
	var done []string
	defer func() {
		if err == nil {
			return
		}
		for _, p := range slices.Backward(done) {
			err = errors.Join(err, d.Remove(p))
		}
	}()
	for _, item := range []bool{false, true} {
		for _, f := range w.files {
			if f.item != item {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := d.Write(f.path, edit.Mode(f.exec), true, f.b); err != nil {
				return err
			}
			done = append(done, f.path)
		}
	}
	for _, f := range w.files {
		if f.item {
			w.v.WarnTrees(ctx, w.space, f.path, f.ref)
		}
	}
	return nil
}
