package exchange

import (
	"cmp"
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/lock/adopt"
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
	From   string        `json:"from"`
	Digest string        `json:"digest"` // of the archive; empty for a folder
	Skills []adopt.Skill `json:"skills"`
	DryRun bool          `json:"dry_run"`
}

// Text implements cli.Answer.
func (m *importAnswer) Text(term *cli.Terminal) { PrintSkills(term, m.Skills, m.DryRun) }

// PrintSkills prints imported skills, and what each could touch.
func PrintSkills(term *cli.Terminal, all []adopt.Skill, dry bool) {
	for _, imported := range all {
		verb := cli.DryVerb(dry, "imported", "would import")
		if imported.Replaces {
			verb = cli.DryVerb(dry, "replaced", "would replace")
		}
		license := imported.License
		if license == "" {
			license = cmp.Or(strings.Join(imported.Licences, ", "), "no licence")
		}
		term.Printf("%s %s  %s and %s, %s, %s\n", verb, imported.Name, imported.Tool, imported.Directive,
			fault.Count(int64(len(imported.Files)), "file"), license)
		for _, line := range Touches(&imported) {
			term.Printf("  %s  %s\n", line[0], line[1])
		}
	}
}

// Touches describes what a skill could touch and what an import leaves out, each with a name.
func Touches(imported *adopt.Skill) (lines [][2]string) {
	show := func(what string, names []string) {
		if len(names) > 0 {
			lines = append(lines, [2]string{what, strings.Join(names, ", ")})
		}
	}
	show("licence from above its folder", imported.Licences)
	show("allowed tools", imported.Touches.Tools)
	var scripts []string
	for _, sc := range imported.Touches.Scripts {
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
	show("run by a client on its own", imported.Touches.Commands)
	show("hosts", imported.Touches.Hosts)
	show("paths", imported.Touches.Paths)
	show("secrets", imported.Touches.Variables)
	show("left out", imported.LeftOut)
	show("removed", imported.Removed)
	return lines
}

// Run implements cli.Runner.
func (c *importSkillRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	all, from, digest, err := c.read(ctx, app)
	if err != nil {
		return nil, err
	}
	if all, err = c.selected(all); err != nil {
		return nil, err
	}
	writer, done, err := openAlone(ctx, app, c.DryRun)
	if err != nil {
		return nil, err
	}
	defer done()
	ans := &importAnswer{From: from, Digest: digest, DryRun: c.DryRun}
	if ans.Skills, err = writer.Skills(ctx, c.As, all, skill.Origin{From: from, Archive: digest}); err != nil {
		return nil, err
	}
	if err := writer.Confirm(ctx); err != nil {
		return nil, err
	}
	if c.DryRun {
		return ans, nil
	}
	if _, err := writer.Write(ctx); err != nil {
		return nil, err
	}
	var refs []string
	for _, m := range ans.Skills {
		if len(m.Files) > 0 {
			refs = append(refs, fault.Quote(m.Tool), fault.Quote(m.Directive))
		}
	}
	if len(refs) == 0 {
		app.Term.Note("everything is up to date")
		return ans, nil
	}
	app.Term.Note("nothing is signed; review it, then run: rye sign %s", strings.Join(refs, " "))
	app.Term.Note("next: rye lock")
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

// selected returns the skills that --only names, or all without it. An invalid skill among them is refused; beside
// valid ones, the error names each, and the command for the others.
func (c *importSkillRun) selected(all []*skill.Skill) ([]*skill.Skill, error) {
	var names, valid, why []string
	for _, s := range all {
		names = append(names, s.Name)
		switch {
		case s.Err == nil:
			valid = append(valid, "--only "+fault.Quote(s.Name))
		case slices.Contains(c.Only, s.Name):
			return nil, s.Err
		default:
			why = append(why, s.Err.Error())
		}
	}
	for _, n := range c.Only {
		if !slices.Contains(names, n) {
			return nil, items.Unknown("skill", n, names)
		}
	}
	if len(c.Only) > 0 {
		return slices.DeleteFunc(all, func(s *skill.Skill) bool { return !slices.Contains(c.Only, s.Name) }), nil
	}
	if len(why) > 0 {
		return nil, fault.New(fault.Validation, "%d of %s can't be imported", len(why),
			fault.Count(int64(len(all)), "skill")).Because(why...).Because("nothing was written").
			Try(fault.Command("rye import skill", c.Source) + " " + strings.Join(valid, " "))
	}
	return all, nil
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
func (c *importAgentsRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	ref, err := model.ParseRef("knowledge:" + strings.TrimPrefix(c.As, "knowledge:"))
	if err != nil {
		return nil, items.BadRef("knowledge:"+c.As, err)
	}
	text, err := paths.ReadArgument(ctx, app, c.File)
	if err != nil {
		return nil, err
	}
	name := filepath.ToSlash(c.File)
	if err := skill.CheckAgents(name, text); err != nil {
		return nil, err
	}
	writer, done, err := openAlone(ctx, app, c.DryRun)
	if err != nil {
		return nil, err
	}
	defer done()
	var files []string
	writer.Begin(ref.String())
	if err := writer.AddItem(ctx, ref, ".md", skill.AgentsText(ref, "Instructions for agents: "+path.Base(name), text),
		&files,
		func([]byte) bool { return true }); err != nil {
		return nil, err
	}
	ans := &importAgentsAnswer{Ref: ref.String(), File: writer.Name(path.Join("knowledge", ref.ID+".md")),
		From: path.Base(name), Digest: cas.Sum(text).String(), DryRun: c.DryRun}
	if err := writer.Confirm(ctx); err != nil {
		return nil, err
	}
	if c.DryRun {
		return ans, nil
	}
	if _, err := writer.Write(ctx); err != nil {
		return nil, err
	}
	if len(files) == 0 {
		app.Term.Note("%s is up to date", ref)
		return ans, nil
	}
	app.Term.Note("it is not signed; run rye sign %s, then rye lock", fault.Quote(ref.String()))
	return ans, nil
}
