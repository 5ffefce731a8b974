package client

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/cas/fault"
)

// A Client is a program that reads skills and commands from folders of a project.
type Client struct {
	Name     string
	Skills   string // the folder of skills
	Commands string // the folder of commands; empty: directives become skills
	Ext      string // of a command
	Front    bool   // commands have front matter
	// the client's placeholder for a command's arguments; empty: they are added after the text
	Input string
}

// All are the known clients.
var All = []Client{
	{Name: "agents", Skills: ".agents/skills"},
	{Name: "claude", Skills: ".claude/skills", Commands: ".claude/commands", Ext: ".md", Front: true,
		Input: "$ARGUMENTS"},
	{Name: "codex", Skills: ".agents/skills"},
	{Name: "copilot", Skills: ".github/skills", Commands: ".github/prompts", Ext: ".prompt.md", Front: true},
	{Name: "cursor", Skills: ".cursor/skills", Commands: ".cursor/commands", Ext: ".md"},
	{Name: "gemini", Skills: ".gemini/skills", Commands: ".gemini/commands", Ext: ".toml", Input: "{{args}}"},
	{Name: "opencode", Skills: ".opencode/skills", Commands: ".opencode/commands", Ext: ".md", Front: true,
		Input: "$ARGUMENTS"},
}

// ByName returns a known client.
func ByName(name string) (Client, error) {
	var names []string
	for _, c := range All {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return Client{}, fault.New(fault.Validation, "%q is no client that rye knows",
		name).Because("known: "+strings.Join(names, " ")).Near(name, names)
}

// SkillFiles returns a skill's files at the paths where a client looks for them.
func (c Client) SkillFiles(name string, files []skill.File) []skill.File {
	all := make([]skill.File, 0, len(files))
	for _, f := range files {
		f.Path = path.Join(c.Skills, name, f.Path)
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b skill.File) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// DirectiveFiles returns the files of a directive: a command, or a skill for clients without commands.
func (c Client) DirectiveFiles(directive *skill.Directive) []skill.File {
	if c.Commands == "" {
		return c.SkillFiles(skill.Slug(directive.Ref), directive.Skill())
	}
	text := directive.Prompt(c.Input)
	switch {
	case c.Ext == ".toml":
		text = "description = " + skill.Quote(skill.OneLine(directive.Description)) + "\nprompt = \"\"\"\n" +
			tomlEscapes().
				Replace(text) + "\"\"\"\n"
	case c.Front:
		text = "---\ndescription: " + skill.Quote(skill.OneLine(directive.Description)) + "\n---\n\n" + text
	}
	return []skill.File{{Path: path.Join(c.Commands, skill.Slug(directive.Ref)+c.Ext), Bytes: []byte(text)}}
}

// tomlEscapes escapes a text between three quotes, which keep line ends. TOML allows no control characters except
// tabs.
var tomlEscapes = sync.OnceValue(func() *strings.Replacer {
	pairs := []string{`\`, `\\`, `"`, `\"`, "\r", `\r`}
	for c := range rune(0x80) {
		if unicode.IsControl(c) && !strings.ContainsRune("\t\n\r", c) {
			pairs = append(pairs, string(c), fmt.Sprintf(`\u%04x`, c))
		}
	}
	return strings.NewReplacer(pairs...)
})
