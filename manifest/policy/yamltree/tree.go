package yamltree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/rye-build/rye/cas/fault"
)

const (
	MaxBytes = 1 << 20
	maxDepth = 5 // a section, its entry, a field, its list, a word in it
	maxText  = 1000
)

// An Error is a mistake in a file, with its place.
type Error struct {
	Family string // the kind of file, as in "policy"; the caller sets it
	Line   int    // from 1; 0 for the file as a whole
	Column int    // in characters, from 1; 0 for the line as a whole
	Msg    string
}

func (e *Error) Error() string {
	return fault.In(e.Family, e.Line, e.Column, e.Msg)
}

// Fault returns the error as people and programs see it.
func (e *Error) Fault() *fault.Error {
	return fault.New(fault.Config, "%s", e).From(e).On("line", e.Line).On("column", e.Column)
}

// A Shape is the form of a node.
type Shape uint8

// The shapes.
const (
	Scalar Shape = iota
	Mapping
	List
)

// A Node is one value of the file with its comments. Parse refuses everything that a Node can't represent (aliases,
// tags, types), so that Format writes the whole content.
type Node struct {
	Key   string // in a mapping
	Shape Shape
	Text  string // of a scalar
	Plain bool   // the scalar was written without quotes
	Kids  []*Node

	head []string // comments, and "" for blank lines, on lines of their own above
	line string   // comment at the end of its first line
	tail []string // like head, after the last of kids

	up       *Node
	row, col int
	flow     bool // kids were in brackets
}

// A Tree is a file as it was written: its root mapping and whether it began with "---".
type Tree struct {
	Root   *Node
	marker bool
}

func at(row, col int, format string, args ...any) error {
	return &Error{Line: row, Column: col, Msg: fmt.Sprintf(format, args...)}
}

// Errorf returns an *Error that points to n.
func (n *Node) Errorf(format string, args ...any) error { return at(n.row, n.col, format, args...) }

// Get returns the entry of a mapping, or nil.
func (n *Node) Get(key string) *Node {
	for _, kid := range n.Kids {
		if kid.Key == key {
			return kid
		}
	}
	return nil
}

// Parse reads one strict YAML document.
func Parse(b []byte) (Tree, error) {
	if len(b) > MaxBytes {
		return Tree{}, &Error{Msg: fmt.Sprintf("is longer than %d bytes", MaxBytes)}
	}
	lines, err := splitLines(b)
	if err != nil {
		return Tree{}, err
	}
	tree := Tree{Root: &Node{Shape: Mapping}, marker: len(lines) > 0 && string(lines[0]) == "---"}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc, more yaml.Node
	err = dec.Decode(&doc)
	if err == nil && dec.Decode(&more) != io.EOF {
		err = &Error{Msg: "holds more than one document"}
	}
	treeReader := treeReader{ends: make([]*yaml.Node, len(lines)+1)}
	switch {
	case errors.Is(err, io.EOF):
	case err != nil:
		if i := slices.IndexFunc(lines, func(line []rune) bool {
			return strings.HasPrefix(string(line), "<<<<<<< ")
		}); i >= 0 {
			return Tree{}, at(i+1, 0, "git has left both sides of a merge here")
		}
		return Tree{}, yamlError(err)
	case doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 && isNull(doc.Content[0]):
	case doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode:
		return Tree{}, at(1, 0, "expected sections, as in \"keys:\"")
	default:
		if err := treeReader.fill(tree.Root, doc.Content[0], 0); err != nil {
			return Tree{}, err
		}
	}
	return tree, treeReader.comments(tree.Root, lines)
}

func isNull(y *yaml.Node) bool {
	return y.Kind == yaml.ScalarNode && y.Style == 0 && y.Value == "" && y.Anchor == ""
}

// splitLines splits the file into lines. Before the YAML reader sees the file, it refuses characters that readers
// show or break in different ways.
func splitLines(b []byte) ([][]rune, error) {
	var lines [][]rune
	for row := 1; len(b) > 0; row++ {
		raw, rest, _ := bytes.Cut(b, []byte("\n"))
		b = rest
		if !utf8.Valid(raw) {
			return nil, at(row, 0, "is not UTF-8")
		}
		line := []rune(string(raw))
		for i, c := range line {
			switch {
			case unicode.IsPrint(c):
			case c == '\r':
				return nil, at(row, i+1, "lines end in LF alone, not in CR LF")
			case c == '\t':
				return nil, at(row, i+1, "no tabs: indent with spaces")
			default:
				return nil, at(row, i+1, "%+q is not allowed here", c)
			}
		}
		if start := string(line[:min(3, len(line))]); start == "..." || start == "---" && (row > 1 || len(line) > 3) {
			return nil, at(row, 1, "one document only: no %q", start)
		}
		if len(line) > 0 && line[0] == '%' {
			return nil, at(row, 1, "no YAML directives")
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// yamlError turns an error of the YAML reader into an *Error.
func yamlError(err error) error {
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	msg := err.Error()
	e := &Error{Msg: strings.TrimPrefix(msg, "yaml: ")}
	if line, ok := strings.CutPrefix(e.Msg, "line "); ok {
		row, rest, _ := strings.Cut(line, ": ")
		if n, err := strconv.Atoi(row); err == nil {
			e.Line, e.Msg = n, rest
		}
	}
	return e
}

// A treeReader turns the YAML reader's nodes into ours.
type treeReader struct {
	units []*Node      // entries and list items, in the order of the file
	ends  []*yaml.Node // the last scalar that begins in each row
}

// fill sets n to the value node.
func (r *treeReader) fill(n *Node, node *yaml.Node, depth int) error {
	if err := plainNode(node); err != nil {
		return err
	}
	n.flow = node.Style&yaml.FlowStyle != 0
	if depth > maxDepth {
		return at(node.Line, node.Column, "is nested too deeply")
	}
	switch node.Kind {
	case yaml.ScalarNode:
		if isNull(node) {
			return n.Errorf("%q has no value", Clip(n.Key))
		}
		r.ends[node.Line] = node
		n.Text, n.Plain = node.Value, node.Style == 0
		return nil
	case yaml.MappingNode:
		n.Shape = Mapping
		return r.entries(n, node, depth)
	}
	n.Shape = List
	for _, item := range node.Content {
		kid := &Node{up: n, row: item.Line, col: item.Column}
		if !n.flow {
			kid.col = node.Column // of the dash
		}
		if item.Kind != yaml.ScalarNode || isNull(item) {
			return at(item.Line, item.Column, "expected words in this list")
		}
		r.units = append(r.units, kid)
		if err := r.fill(kid, item, depth+1); err != nil {
			return err
		}
		n.Kids = append(n.Kids, kid)
	}
	return nil
}

func (r *treeReader) entries(n *Node, node *yaml.Node, depth int) error {
	seen := make(map[string]int, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		k := node.Content[i]
		if err := plainNode(k); err != nil {
			return err
		}
		kid := &Node{Key: k.Value, up: n, row: k.Line, col: k.Column}
		switch line, dup := seen[k.Value]; {
		case k.Kind != yaml.ScalarNode || k.Value == "":
			return kid.Errorf("expected a word before the colon")
		case dup:
			return kid.Errorf("%q stands here a second time, first in line %d", Clip(k.Value), line)
		}
		seen[k.Value] = k.Line
		r.ends[k.Line] = k
		r.units = append(r.units, kid)
		if err := r.fill(kid, node.Content[i+1], depth+1); err != nil {
			return err
		}
		n.Kids = append(n.Kids, kid)
	}
	return nil
}

// plainNode refuses the features of YAML that give a text another meaning.
func plainNode(node *yaml.Node) error {
	bad := func(format string, args ...any) error { return at(node.Line, node.Column, format, args...) }
	switch {
	case node.Kind == yaml.AliasNode:
		return bad("no aliases")
	case node.Anchor != "":
		return bad("no anchors")
	case node.Style&yaml.TaggedStyle != 0:
		return bad("no tags")
	case node.Tag == "!!merge":
		return bad("no merge keys")
	case node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return bad("no text over several lines")
	case len(node.Value) > maxText:
		return bad("is longer than %d bytes", maxText)
	}
	for _, c := range node.Value {
		if !unicode.IsPrint(c) || c == utf8.RuneError {
			return bad("%+q is not allowed in a text", c)
		}
	}
	return nil
}

// Clip shortens a foreign text for a message.
func Clip(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "..."
	}
	return s
}
