package parse

import (
	"strings"

	"github.com/rye-build/rye/ai/value"
)

// readKnowledge is the parser markdown_frontmatter.
func readKnowledge(f *file) {
	top := skipComments(f.text)
	// A file that begins with --- has front matter, even if its text contains fenced examples of YAML.
	open, from, isOpen := lineThatIs(f.text, top, "---")
	isOpen = isOpen && open == top && (top == 0 || f.text[top-1] == '\n')
	if isOpen {
		if to, after, ok := lineThatIs(f.text, from, "---"); ok {
			f.readFields(from, to)
			f.setBody(after)
			return
		}
	}
	if yaml, ok := findFence(f.text, "yaml"); ok {
		if !yaml.closed {
			f.problem(f.at(yaml.open), "", "no line ``` closes this fence")
		}
		f.readFields(yaml.from, yaml.to)
		f.setBody(yaml.after)
		return
	}
	if isOpen {
		f.problem(f.at(open), "", "no second line --- closes this front matter")
		f.readFields(from, len(f.text))
		return
	}
	if isKey(f.text[top:]) && f.readWhole(top) {
		return
	}
	f.setBody(top)
}

// isKey reports whether a text begins with a lower-case key of a mapping.
func isKey(s string) bool {
	rest := strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyz_")
	return len(rest) < len(s) && len(rest) > 1 && rest[0] == ':' && (rest[1] == ' ' || rest[1] == '\n')
}

// readWhole reads the whole file as fields if it is YAML. Otherwise the file is plain text, which isn't a problem.
func (f *file) readWhole(from int) bool {
	var r report
	v := readDocument(&r, f.text[from:], shifted(f.at(from)))
	for _, p := range r.problems {
		if !p.Warning {
			return false
		}
	}
	if v.Kind != value.Map {
		return false
	}
	f.fields = v
	f.problems = append(f.problems, r.problems...)
	return true
}
