// Texts for people about tools and how they changed. A server chooses these texts, so they are shortened and
// escaped.

package catalogs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"unicode"

	"github.com/rye-build/rye/ai/flags"
	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/catalog"
)

// maxShown is how many characters of a server's text a line shows.
const maxShown = 400

// maxName is how many characters of a tool's name are shown.
const maxName = 100

func cut(text string, most int) string {
	r := []rune(text)
	if len(r) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d characters)", string(r[:most]), len(r))
}

// changeLines describes a change without colour. The caller must escape each line.
func changeLines(change *catalog.Change) (lines []string) {
	head := fmt.Sprintf("%s %s", change.State, cut(change.Tool, maxName))
	switch change.State {
	case catalog.Renamed:
		head += ", formerly " + change.From
	case catalog.Removed:
		head += ": the server no longer has it"
	}
	if change.Refused != "" {
		head += " (refused)"
	}
	lines = append(lines, head)
	if change.Refused != "" {
		lines = append(lines, "  "+change.Refused)
	}
	for _, t := range change.Texts {
		from, to := apart(t.From, t.To)
		lines = append(lines, "  "+t.Field)
		if t.From != "" {
			lines = append(lines, "    - "+from)
		}
		if t.To != "" {
			lines = append(lines, "    + "+to)
		}
	}
	short := false
	if change.Shape != nil {
		for _, i := range change.Shape.Items {
			lines = append(lines, "  "+shapeLine(i))
			short = short || shortened(i)
		}
	}
	// A person signs the whole definition, so all of it is shown.
	if change.State == catalog.Added || short {
		lines = append(lines, definitionLines(change.Announced())...)
	}
	return append(lines, flagLines(change.Flags)...)
}

// around is how many equal characters are shown before and after a difference.
const around = 40

// apart shortens the common beginning and end of two texts. It never cuts a difference, because something could be
// hidden there.
func apart(from, to string) (string, string) {
	before, after := []rune(from), []rune(to)
	head, tail := 0, 0
	for head < min(len(before), len(after)) && before[head] == after[head] {
		head++
	}
	for tail < min(len(before), len(after))-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	head, tail = max(head-around, 0), max(tail-around, 0)
	cut := func(r []rune) string {
		text := string(r[head : len(r)-tail])
		if head > 0 {
			text = "…" + text
		}
		if tail > 0 {
			text += "…"
		}
		return text
	}
	return cut(before), cut(after)
}

// definitionLines returns a definition in full.
func definitionLines(d catalog.Definition) (lines []string) {
	for _, name := range []string{"title", "description", "annotations", "inputSchema", "outputSchema"} {
		switch v := d[name].(type) {
		case nil:
		case string:
			lines = append(lines, "  "+name+": "+v)
		default:
			if b, err := json.Marshal(v); err == nil {
				lines = append(lines, "  "+name+": "+string(b))
			}
		}
	}
	return lines
}

func shapeLine(i shape.Item) string {
	text := fmt.Sprintf("%s: %s at %s", i.Class, i.Kind, i.Path)
	switch {
	case len(i.From) > 0 && len(i.To) > 0:
		text += fmt.Sprintf(": %s → %s", i.From, i.To)
	case len(i.To) > 0:
		text += ": " + string(i.To)
	case len(i.From) > 0:
		text += ": was " + string(i.From)
	}
	return text
}

// shortened reports whether the difference shows a digest instead of the value.
func shortened(i shape.Item) bool {
	return bytes.Contains(i.To, []byte(" bytes, blake3:")) || i.Kind == "undecided"
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

// newLines describes a tool that a person sees for the first time.
func newLines(c *catalog.Change) (lines []string) {
	text := c.Announced().Text("description")
	line := fmt.Sprintf("%s  %s", cut(c.Tool, maxName), cut(firstLine(text), 100))
	if c.Refused != "" {
		line = fmt.Sprintf("%s  refused: %s", cut(c.Tool, maxName), c.Refused)
	}
	return append([]string{strings.TrimSpace(line)}, flagLines(c.Flags)...)
}

// calls reports whether an argument names a tool: by the server's name for it, or by the last segment of its id.
// Tools that share a segment are refused, so an argument that names two can't be accepted.
func calls(arg, tool, ref string) bool { return arg != "" && (arg == tool || arg == path.Base(ref)) }

// acceptCommand returns the command that accepts one tool. It uses the last segment of the id instead of a name
// that is too long or not printable.
func acceptCommand(server string, c *catalog.Change) string {
	name := c.Tool
	if len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		name = path.Base(c.Ref)
	}
	return fault.Command("rye mcp accept", server, name)
}

func firstLine(text string) string {
	text = strings.TrimSpace(text)
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return text[:i] + " …"
	}
	return text
}

// sayLines prints lines on standard error, escaped.
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
