package skill

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
)

// A Client is a program that reads skills and commands from folders of a project.
type Client struct {
	Name     string
	Skills   string // the folder of skills
	Commands string // the folder of commands; empty: directives become skills
	Ext      string // of a command
	Front    bool   // commands have front matter
	Input    string // what a command has in the place of what was typed behind it; empty: that is added behind the text
}

// Clients lists the clients that are known.
var Clients = []Client{
	{Name: "agents", Skills: ".agents/skills"},
	{Name: "claude", Skills: ".claude/skills", Commands: ".claude/commands", Ext: ".md", Front: true, Input: "$ARGUMENTS"},
	{Name: "codex", Skills: ".agents/skills"},
	{Name: "copilot", Skills: ".github/skills", Commands: ".github/prompts", Ext: ".prompt.md", Front: true},
	{Name: "cursor", Skills: ".cursor/skills", Commands: ".cursor/commands", Ext: ".md"},
	{Name: "gemini", Skills: ".gemini/skills", Commands: ".gemini/commands", Ext: ".toml", Input: "{{args}}"},
	{Name: "opencode", Skills: ".opencode/skills", Commands: ".opencode/commands", Ext: ".md", Front: true, Input: "$ARGUMENTS"},
}

// ClientByName returns a client that is known.
func ClientByName(name string) (Client, error) {
	var names []string
	for _, c := range Clients {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return Client{}, fault.New(fault.Validation, "%q is no client that rye knows", name).Because("known: "+strings.Join(names, " ")).Near(name, names)
}

// A Directive is what is made a command or a skill.
type Directive struct {
	Ref         model.Ref
	Version     string
	Description string
	Body        string
	Inputs      []Input
}

// An Input is an input of a directive.
type Input struct {
	Name, Description string
	Required          bool
}

// Slug is the name of a directive as one of a skill or a command.
func Slug(ref model.Ref) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, ref.Name())
	name = strings.Join(strings.FieldsFunc(name, func(r rune) bool { return r == '-' }), "-")
	return cmp.Or(strings.TrimRight(name[:min(len(name), 64)], "-"), "directive")
}

// text is the prompt with its inputs explained, since no client fills them in.
func (d *Directive) text(typed string) string {
	var b strings.Builder
	if len(d.Inputs) > 0 || typed != "" {
		if typed != "" {
			b.WriteString("What the user asks for: " + typed + "\n\n")
		}
		if len(d.Inputs) > 0 {
			b.WriteString("Inputs, to be taken from what the user asks for:\n\n")
		}
		for _, in := range d.Inputs {
			need := "optional"
			if in.Required {
				need = "required: ask for it if it is missing"
			}
			fmt.Fprintf(&b, "- `%s`: %s (%s)\n", in.Name, cmp.Or(oneLine(in.Description), in.Name), need)
		}
		if len(d.Inputs) > 0 {
			b.WriteString("\n")
		}
	}
	b.WriteString(fillable().ReplaceAllStringFunc(strings.Trim(d.Body, "\n"), func(place string) string {
		name := fillable().FindStringSubmatch(place)[1]
		if slices.ContainsFunc(d.Inputs, func(in Input) bool { return in.Name == name }) {
			return "`" + name + "`"
		}
		return place
	}))
	b.WriteString("\n")
	return b.String()
}

// Skill makes a skill of a directive.
func (d *Directive) Skill() []File {
	return []File{{Path: Main, Bytes: []byte(fmt.Sprintf("---\nname: %s\ndescription: %s\nmetadata:\n  rye: %s\n  version: %s\n---\n\n%s",
		quote(Slug(d.Ref)), quote(clip(oneLine(d.Description), 1024)), quote(d.Ref.String()), quote(d.Version), d.text("")))}}
}

func clip(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return strings.TrimSpace(string(r[:most]))
	}
	return s
}

// SkillFiles are the files of a skill where a client looks for them.
func (c Client) SkillFiles(name string, files []File) []File {
	all := make([]File, 0, len(files))
	for _, f := range files {
		f.Path = path.Join(c.Skills, name, f.Path)
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// DirectiveFiles are those of a directive: a command, or a skill where there are no commands.
func (c Client) DirectiveFiles(d *Directive) []File {
	if c.Commands == "" {
		return c.SkillFiles(Slug(d.Ref), d.Skill())
	}
	text := d.text(c.Input)
	switch {
	case c.Ext == ".toml":
		// Of JSON's escapes in a text, TOML has all.
		text = "description = " + quote(oneLine(d.Description)) + "\nprompt = \"\"\"\n" + tomlEscapes.Replace(text) + "\"\"\"\n"
	case c.Front:
		text = "---\ndescription: " + quote(oneLine(d.Description)) + "\n---\n\n" + text
	}
	return []File{{Path: path.Join(c.Commands, Slug(d.Ref)+c.Ext), Bytes: []byte(text)}}
}

// tomlEscapes writes a text for three quotes, where lines stay lines.
var tomlEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", `\r`)
