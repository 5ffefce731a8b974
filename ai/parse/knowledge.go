package parse

import (
	"strings"

	"github.com/rye-build/rye/ai/value"
)

// readKnowledge is the parser markdown_frontmatter.
func readKnowledge(file *file) {
	top := skipComments(file.text)
	// A file that begins with --- has front matter, even if its text contains fenced examples of YAML.
	open, from, isOpen := lineThatIs(file.text, top, "---")
	isOpen = isOpen && open == top && (top == 0 || file.text[top-1] == '\n')
	if isOpen {
		if to, after, ok := lineThatIs(file.text, from, "---"); ok {
			file.readFields(from, to)
			file.setBody(after)
			return
		}
	}
	if yaml, ok := findFence(file.text, "yaml"); ok {
		if !yaml.closed {
			file.problem(file.at(yaml.open), "", "no line ``` closes this fence")
		}
		file.readFields(yaml.from, yaml.to)
		file.setBody(yaml.after)
		return
	}
	if isOpen {
		file.problem(file.at(open), "", "no second line --- closes this front matter")
		file.readFields(from, len(file.text))
		return
	}
	if isKey(file.text[top:]) && file.readWhole(top) {
		return
	}
	file.setBody(top)
}

// isKey reports whether a text begins with a lower-case key of a mapping.
func isKey(s string) bool {
	rest := strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyz_")
	return len(rest) < len(s) && len(rest) > 1 && rest[0] == ':' && (rest[1] == ' ' || rest[1] == '\n')
}

// readWhole reads the whole file as fields if it is YAML. Otherwise the file is plain text, which isn't a problem.
func (f *file) readWhole(from int) bool {
	var report report
	v := readDocument(&report, f.text[from:], shifted(f.at(from)))
	for _, p := range report.problems {
		if !p.Warning {
			return false
		}
	}
	if v.Kind != value.Map {
		return false
	}
	f.fields = v
	f.problems = append(f.problems, report.problems...)
	return true
}
