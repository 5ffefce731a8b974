package yamltree

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/portable"
)

const width = 120

// Format writes a tree in the one layout of the package comment. It depends only on content and comments, never on
// the layout of the file, so that formatting twice is the same as formatting once.
func (t Tree) Format() []byte {
	var writer writer
	if t.marker {
		writer.WriteString("---\n")
	}
	for i, section := range t.Root.Kids {
		if i > 0 && section.Shape != Scalar && (len(section.head) == 0 || section.head[0] != "") {
			writer.notes([]string{""}, 0)
		}
		writer.node(section, 0)
	}
	writer.notes(t.Root.tail, 0)
	return writer.Bytes()
}

type writer struct{ bytes.Buffer }

// notes writes comments and blank lines: never two blank lines in a row, and none at the start of the file.
func (w *writer) notes(notes []string, indent int) {
	for _, c := range notes {
		if b := w.Bytes(); c == "" && (len(b) == 0 || bytes.HasSuffix(b, []byte("\n\n")) || string(b) == "---\n") {
			continue
		}
		if c != "" {
			w.pad(indent)
		}
		w.WriteString(c + "\n")
	}
}

func (w *writer) pad(indent int) { w.WriteString(strings.Repeat(" ", indent)) }

// node writes an entry or a list item.
func (w *writer) node(n *Node, indent int) {
	w.notes(n.head, indent)
	w.pad(indent)
	from := w.Len()
	if n.up.Shape == List {
		w.WriteString("- ")
	} else {
		w.WriteString(Quote(n.Key) + ":")
	}
	comment := ""
	if n.line != "" {
		comment = "  " + n.line
	}
	if n.up.Shape == List {
		w.WriteString(n.word() + comment + "\n")
		return
	}
	one := n.oneLine()
	room := width - indent - utf8.RuneCount(w.Bytes()[from:]) - utf8.RuneCountInString(one)
	if n.Shape == Scalar || len(n.Kids) == 0 || indent > 0 && room > 0 && !n.annotated() {
		w.WriteString(" " + one + comment + "\n")
		return
	}
	w.WriteString(comment + "\n")
	for _, kid := range n.Kids {
		w.node(kid, indent+2)
	}
	w.notes(n.tail, indent+2)
}

// annotated reports whether a mapping or list has a comment inside.
func (n *Node) annotated() bool {
	return len(n.tail) > 0 || slices.ContainsFunc(n.Kids, func(kid *Node) bool {
		return kid.line != "" || strings.Join(kid.head, "") != "" || kid.annotated()
	})
}

func (n *Node) oneLine() string {
	if n.Shape == Scalar {
		return n.word()
	}
	parts := make([]string, len(n.Kids))
	for i, kid := range n.Kids {
		if parts[i] = kid.oneLine(); n.Shape == Mapping {
			parts[i] = Quote(kid.Key) + ": " + parts[i]
		}
	}
	if n.Shape == List {
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// word returns the form of a scalar. A plain number stays plain, so that it doesn't become a text for other
// readers.
func (n *Node) word() string {
	if n.Plain && IsNumber(n.Text) {
		return n.Text
	}
	return Quote(n.Text)
}

// IsNumber reports whether a plain scalar is a number: decimal digits and no leading zero.
func IsNumber(s string) bool {
	return portable.Spelled(s, portable.Digits, "", 9) && (s == "0" || s[0] != '0')
}

// Quote returns the form of a text: bare only if every YAML reader reads it as the same text.
func Quote(s string) string {
	bare := portable.Spelled(s, portable.Letters, portable.Digits+"_-/.", 40)
	switch strings.ToLower(s) {
	case "y", "yes", "n", "no", "true", "false", "on", "off", "null":
		bare = false
	}
	if bare {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
