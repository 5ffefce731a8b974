package catalogs

import (
	"fmt"
	"strings"

	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/catalog/flags"
)

// maxShown bounds how much of a text of a server is shown in a line, in characters.
const maxShown = 400

func cut(text string, most int) string {
	r := []rune(text)
	if len(r) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d characters)", string(r[:most]), len(r))
}

// changeLines describe a change and how it differs, without colour; a caller escapes each.
func changeLines(c *catalog.Change) (lines []string) {
	head := fmt.Sprintf("%s %s", c.State, c.Tool)
	switch c.State {
	case catalog.Renamed:
		head += ", formerly " + c.From
	case catalog.Removed:
		head += ": the server no longer has it"
	}
	if c.Refused != "" {
		head += " (refused)"
	}
	lines = append(lines, head)
	if c.Refused != "" {
		lines = append(lines, "  "+c.Refused)
	}
	for _, t := range c.Texts {
		lines = append(lines, "  "+t.Field)
		if t.From != "" {
			lines = append(lines, "    - "+cut(t.From, maxShown))
		}
		if t.To != "" {
			lines = append(lines, "    + "+cut(t.To, maxShown))
		}
	}
	if c.Shape != nil {
		for _, i := range c.Shape.Items {
			lines = append(lines, "  "+shapeLine(i))
		}
	}
	return append(lines, flagLines(c.Flags)...)
}

func shapeLine(i shape.Item) string {
	text := fmt.Sprintf("%s: %s at %s", i.Class, i.Kind, i.Path)
	switch {
	case len(i.From) > 0 && len(i.To) > 0:
		text += fmt.Sprintf(": %s → %s", cut(string(i.From), maxShown), cut(string(i.To), maxShown))
	case len(i.To) > 0:
		text += ": " + cut(string(i.To), maxShown)
	case len(i.From) > 0:
		text += ": was " + cut(string(i.From), maxShown)
	}
	return text
}

func flagLines(all []flags.Flag) (lines []string) {
	for _, f := range all {
		word := "warning"
		if f.Critical {
			word = "critical"
		}
		lines = append(lines, fmt.Sprintf("  %s: %s %s", word, f.Where, cut(f.Why, maxShown)))
	}
	return lines
}

// newLines describe a tool that a person sees for the first time.
func newLines(c *catalog.Change) (lines []string) {
	text := c.Announced().Text("description")
	line := fmt.Sprintf("%s  %s", c.Tool, cut(firstLine(text), 100))
	if c.Refused != "" {
		line = fmt.Sprintf("%s  refused: %s", c.Tool, c.Refused)
	}
	return append([]string{strings.TrimSpace(line)}, flagLines(c.Flags)...)
}

func firstLine(text string) string {
	text = strings.TrimSpace(text)
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return text[:i] + " …"
	}
	return text
}

// sayLines shows lines on standard error.
func sayLines(a *cli.App, lines []string) {
	for _, l := range lines {
		a.Term.Say("  ", "%s", []any{l})
	}
}

// count counts the changes of each state: "3 same, 1 changed".
func count(all []catalog.Change) string {
	var parts []string
	for _, s := range []catalog.State{catalog.Same, catalog.Added, catalog.Changed, catalog.Renamed, catalog.Removed} {
		if n := number(all, func(c *catalog.Change) bool { return c.State == s }); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(parts) == 0 {
		return "no tools"
	}
	return strings.Join(parts, ", ")
}

func number(all []catalog.Change, is func(*catalog.Change) bool) (n int) {
	for i := range all {
		if is(&all[i]) {
			n++
		}
	}
	return n
}

func tools(n int) string { return fault.Count(int64(n), "tool") }
