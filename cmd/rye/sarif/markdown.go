package sarif

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/fault"
)

// mostRows is how many rows a table has; mostBytes limits the report: GitHub refuses summaries of more than 1 MiB.
const (
	mostRows  = 300
	mostBytes = 900 << 10
)

// Markdown returns the report as a section of a job summary.
func (r *Report) Markdown() []byte {
	var text strings.Builder
	word := "passed"
	switch {
	case r.Fault != nil:
		word = "failed"
	case r.count(Error) > 0: // rye diff shows errors, and succeeds
		word = "found errors"
	}
	fmt.Fprintf(&text, "### rye %s: %s\n\n", r.Command, word)
	if r.Fault != nil {
		fmt.Fprintf(&text, "%s: %s\n\n", Code(string(r.Fault.Line().Code)), Code(r.Fault.Text))
	}
	if r.Checked != "" {
		fmt.Fprintf(&text, "Checked %s: ", Code(r.Checked))
	}
	fmt.Fprintf(&text, "%s, %s, %s\n", fault.Count(int64(r.count(Error)), "error"),
		fault.Count(int64(r.count(Warning)), "warning"),
		fault.Count(int64(r.count(Note)), "note"))
	var rows [][]string
	var hints []string
	for _, f := range r.Findings {
		hints = append(hints, f.Hint...)
		place := f.File
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		rows = append(rows, []string{string(f.Level), Code(string(f.Code)), Code(place), Code(f.Name),
			Code(fault.Clip(f.Message, 500))})
	}
	table(&text, []string{"level", "rule", "file", "name", "finding"}, rows)
	table(&text, r.head, r.rows)
	if r.Fault != nil {
		hints = append(hints, r.Fault.Hint...)
	}
	var shown []string
	for _, h := range hints {
		if len(shown) < fault.MaxLines && !slices.Contains(shown, h) {
			shown = append(shown, h)
		}
	}
	if len(shown) > 0 {
		text.WriteString("\nNext:\n\n")
	}
	for _, h := range shown {
		fmt.Fprintf(&text, "- %s\n", Code(h))
	}
	text.WriteString("\n")
	return []byte(text.String())
}

// table writes the first rows of a table and how many more exist. Without rows it writes nothing. Cells are
// Markdown.
func table(b *strings.Builder, head []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	b.WriteString("\n| " + strings.Join(head, " | ") + " |\n|" + strings.Repeat("---|", len(head)) + "\n")
	for i, row := range rows {
		if i == mostRows || b.Len() > mostBytes {
			fmt.Fprintf(b, "\nand %d more\n", len(rows)-i)
			break
		}
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
}

// Code returns a text from outside as code on one line of Markdown. In a code span only a backtick is markup, and
// in a table also a pipe; parsers disagree about a backslash before a pipe. So a text with one of these, or with an
// unprintable character, becomes a <code> element in which character references replace everything that could be
// markup.
func Code(text string) string {
	odd := func(r rune) bool {
		return strings.ContainsRune("`|\\", r) || r == utf8.RuneError || !unicode.IsPrint(r)
	}
	switch {
	case text == "":
		return ""
	case !strings.ContainsFunc(text, odd) && strings.TrimSpace(text) == text:
		return "`" + text + "`"
	}
	var out strings.Builder
	out.WriteString("<code>")
	for _, r := range text {
		switch {
		case r == '\n':
			out.WriteString("&#92;n")
		case r == utf8.RuneError || !unicode.IsPrint(r):
			fmt.Fprintf(&out, "&#92;u&#123;%x&#125;", r)
		case r >= utf8.RuneSelf || r == ' ' || r == '/' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r &&
			r <= 'Z':
			out.WriteRune(r)
		default:
			fmt.Fprintf(&out, "&#%d;", r)
		}
	}
	out.WriteString("</code>")
	return out.String()
}
