package parse

import (
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/value"
)

// A header is the YAML in a comment: its lines without the comment marks.
type header struct {
	text  strings.Builder
	first int   // the file's line of the first of them
	cut   []int // characters removed at the beginning of each
}

// add adds a line without comment marks, and reports whether the header may be longer.
func (h *header) add(line string, cut int) bool {
	h.text.WriteString(line[cut:])
	h.text.WriteByte('\n')
	h.cut = append(h.cut, utf8.RuneCountInString(line[:cut]))
	return h.text.Len() <= maxMeta
}

func (h *header) place(line, column int) value.Pos {
	if column > 0 && line-1 < len(h.cut) {
		column += h.cut[line-1]
	}
	return value.Pos{Line: h.first + line - 1, Column: column}
}

// readHeader is the parser comment_header.
func readHeader(file *file) {
	off, line := 0, 1
	for off < len(file.text) {
		text, next := lineAt(file.text, off)
		text = strings.TrimSpace(text)
		if mark, ok := lineComment(text); ok {
			if strings.TrimSpace(text[len(mark):]) == "---" {
				file.lineHeader(mark, next, line)
				return
			}
		} else if open, end := blockComment(text); open != "" {
			if file.blockHeader(open, end, off, line) {
				return
			}
			if !strings.HasSuffix(text, end) {
				return
			}
		} else if text != "" && !(line == 1 && strings.HasPrefix(text, "#!")) {
			return
		}
		off, line = next, line+1
	}
}

// lineComment returns the mark that begins a line comment.
func lineComment(s string) (string, bool) {
	for _, mark := range [...]string{"#", "//", "--"} {
		if strings.HasPrefix(s, mark) && !strings.HasPrefix(s, "---") {
			return mark, true
		}
	}
	return "", false
}

// blockComment returns the begin and end marks of the block comment that a line opens.
func blockComment(s string) (open, end string) {
	for _, open := range [...]string{"/**", "/*", "<!--"} {
		if strings.HasPrefix(s, open) {
			if open == "<!--" {
				return open, "-->"
			}
			return open, "*/"
		}
	}
	return "", ""
}

// lineHeader reads a header of line comments; from is the offset of its second line.
func (f *file) lineHeader(mark string, from, line int) {
	header := &header{first: line + 1}
	for off := from; off < len(f.text); {
		text, next := lineAt(f.text, off)
		indent := leadingSpace(text)
		rest, ok := strings.CutPrefix(text[indent:], mark)
		if !ok {
			break
		}
		if strings.TrimSpace(rest) == "---" {
			f.setHeader(header)
			return
		}
		cut := indent + len(mark)
		if strings.HasPrefix(rest, " ") {
			cut++
		}
		if !header.add(text, cut) {
			f.setHeader(header)
			return
		}
		off = next
	}
	f.problem(value.Pos{Line: line, Column: 1}, "", "no second line %s --- ends this header", mark)
	f.setHeader(header)
}

// blockHeader reads a header within the block comment at from, and reports whether it found one.
func (f *file) blockHeader(open, end string, from, line int) bool {
	s, next := lineAt(f.text, from)
	first := line
	rest := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(s), open))
	if rest == "" && next < len(f.text) {
		s, next = lineAt(f.text, next)
		rest = strings.TrimSpace(s[stars(s):])
		line++
	}
	if rest != "---" {
		return false
	}
	header := &header{first: line + 1}
	starred := false
	for off := next; off < len(f.text); {
		text, next := lineAt(f.text, off)
		cut := stars(text)
		if len(header.cut) == 0 {
			starred = cut > 0
		}
		if !starred {
			cut = 0
		}
		rest := strings.TrimSpace(text[stars(text):])
		if rest == "---" || strings.TrimSpace(strings.TrimSuffix(rest, end)) == "---" && strings.HasSuffix(rest, end) {
			f.setHeader(header)
			return true
		}
		if strings.Contains(text, end) {
			break
		}
		if !header.add(text, cut) {
			f.setHeader(header)
			return true
		}
		off = next
	}
	f.problem(value.Pos{Line: first, Column: 1}, "", "no second line --- ends the header in this comment")
	f.setHeader(header)
	return true
}

// stars returns the length of the decoration " * " at the beginning of a comment's line.
func stars(s string) int {
	n := leadingSpace(s)
	if !strings.HasPrefix(s[n:], "*") || strings.HasPrefix(s[n:], "*/") {
		return 0
	}
	if n++; strings.HasPrefix(s[n:], " ") {
		n++
	}
	return n
}

func (f *file) setHeader(h *header) {
	if len(h.cut) == 0 {
		return
	}
	f.setFields(readDocument(&f.report, h.text.String(), h.place))
}
