package parse

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/rye-build/rye/ai/parse/simple"
	"github.com/rye-build/rye/ai/scalar"
	"github.com/rye-build/rye/ai/value"
)

// YAML reads one document of YAML, as parser yaml does, but of any type. at is the place of the text in its file; the
// zero place means the file's beginning. It returns the readable part, or Null without one.
func YAML(content []byte, at value.Pos) (*value.Value, []*value.Problem) {
	if at == (value.Pos{}) {
		at = value.Pos{Line: 1, Column: 1}
	}
	f := newFile(content, true)
	if !f.ok {
		for _, p := range f.problems {
			if p.At != (value.Pos{}) {
				p.At = shifted(at)(p.At.Line, p.At.Column)
			}
		}
		return &value.Value{At: at}, f.problems
	}
	v := readDocument(&f.report, f.text, shifted(at))
	return v, f.sorted()
}

// shifted returns a function that converts places in a text to places in the file around it.
func shifted(at value.Pos) func(line, column int) value.Pos {
	return func(line, column int) value.Pos {
		if line == 1 && column > 0 {
			column += at.Column - 1
		}
		return value.Pos{Line: at.Line + line - 1, Column: column}
	}
}

// readYAML is the parser yaml.
func readYAML(f *file) { f.readFields(skipComments(f.text), len(f.text)) }

// readFields reads a range of the file as YAML, and takes the mapping in it as fields.
func (f *file) readFields(from, to int) {
	v := readDocument(&f.report, f.text[from:to], shifted(f.at(from)))
	f.setFields(v)
}

func (f *file) setFields(v *value.Value) {
	switch v.Kind {
	case value.Map:
		f.fields = v
	case value.Null:
	default:
		f.problem(v.At, "", "expected fields, as in name: value, not %s", named(v))
	}
}

// A yamlReader turns the tree of a document into values.
type yamlReader struct {
	*report
	place func(line, column int) value.Pos
	path  []step // path of the current value
	nodes int

	rest         string // the text from the place of the last node on
	line, column int    // of that place
}

// A step is one step of a path into a value: a key, or an index if that is not negative.
type step struct {
	key   string
	index int
}

func readDocument(report *report, text string, place func(line, column int) value.Pos) *value.Value {
	if len(text) > maxMeta {
		report.problem(place(1, 1), "", "the YAML has %d bytes, more than the %d that are read", len(text), maxMeta)
		return &value.Value{At: place(1, 1)}
	}
	// A missing value, such as that after a "---" at the end of the text, is on a line after the last.
	lines := 1 + strings.Count(text, "\n")
	inside := func(line, column int) value.Pos {
		if line > lines {
			line, column = lines, utf8.RuneCountInString(text[strings.LastIndexByte(text, '\n')+1:])+1
		}
		return place(line, column)
	}
	y := &yamlReader{report: report, place: inside}
	text = y.printable(text)
	if v := simple.Read(text, inside); v != nil {
		return v
	}
	return y.document(text)
}

// document reads YAML of any type.
func (y *yamlReader) document(text string) *value.Value {
	doc, second, err := decodeYAML(text)
	if second != nil {
		y.problem(y.place(second.Line, second.Column), "", "a second document begins here; a file has one")
	}
	if err != nil {
		line := y.syntax(err, text)
		if doc == nil {
			doc = salvage(text, line)
		}
	}
	if doc == nil || len(doc.Content) == 0 {
		return &value.Value{At: y.place(1, 1)}
	}
	if strings.Contains(text, "!") {
		y.rest, y.line, y.column = text, 1, 1
	}
	return y.value(doc.Content[0])
}

// bang reports whether the text of a node begins with "!". "!" alone is a tag that turns a number into a text, and
// the YAML library doesn't report it. Call it for nodes in the order of the text.
func (y *yamlReader) bang(n *yaml.Node) bool {
	for ; y.line < n.Line; y.line, y.column = y.line+1, 1 {
		i := strings.IndexByte(y.rest, '\n')
		if i < 0 {
			return false
		}
		y.rest = y.rest[i+1:]
	}
	for ; y.line == n.Line && y.column < n.Column && y.rest != ""; y.column++ {
		_, size := utf8.DecodeRuneInString(y.rest)
		y.rest = y.rest[size:]
	}
	return y.line == n.Line && y.column == n.Column && strings.HasPrefix(y.rest, "!")
}

// printable reports the first character that YAML forbids, or that only some readers take for a line end. It replaces
// all of them by spaces.
func (y *yamlReader) printable(text string) string {
	bad := func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f || r == 0x2028 || r == 0x2029 ||
			r == 0xfeff || r == 0xfffe || r == 0xffff
	}
	i := strings.IndexFunc(text, bad)
	if i < 0 {
		return text
	}
	p := newPlaces(text)
	at := p.at(i)
	r, _ := utf8.DecodeRuneInString(text[i:])
	y.problem(y.place(at.Line, at.Column), "",
		"the character U+%04X can't stand in YAML; in double quotes write \\u%04X", r, r)
	return strings.Map(func(r rune) rune {
		if bad(r) {
			return ' '
		}
		return r
	}, text)
}

// decodeYAML returns the tree of the first document and the beginning of a second. The YAML library wasn't written
// for hostile text and panics on some; that must not stop the reading of other files.
func decodeYAML(text string) (doc, second *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: the reader of YAML gave up: %v", p)
		}
	}()
	d := yaml.NewDecoder(strings.NewReader(text))
	var first, next yaml.Node
	if err := d.Decode(&first); err != nil {
		if err == io.EOF {
			return nil, nil, nil
		}
		return nil, nil, err
	}
	switch err := d.Decode(&next); err {
	case nil:
		return &first, &next, nil
	case io.EOF:
		return &first, nil, nil
	default:
		return &first, nil, err
	}
}

// maxRetry bounds the text that is parsed several times to locate an error.
const maxRetry = 64 << 10

// syntax reports an error of the YAML library, and returns the line of the mistake, which may differ from the line in
// the error.
func (y *yamlReader) syntax(err error, text string) int {
	line, message := yamlError(err)
	switch {
	case (message == badKey || message == badItem) && len(text) <= maxRetry:
		line = firstBadLine(text, message)
	case strings.HasPrefix(message, "did not find expected"):
		line++ // the library counts these from 0
	}
	line = max(1, min(line, strings.Count(strings.TrimSuffix(text, "\n"), "\n")+1))
	column := 0
	if tab := tabIn(text, line); tab > 0 {
		column, message = tab, "a tab stands where YAML takes spaces"
	}
	if m, ok := said[message]; ok {
		message = m
	}
	y.problem(y.place(line, column), "", "%s", message)
	return line
}

// Errors about a mapping or list. They name the line where it begins, not the line of the mistake.
const (
	badKey  = "did not find expected key"
	badItem = "did not find expected '-' indicator"
)

// said translates the most frequent errors into clearer messages.
var said = map[string]string{
	badKey:                               "expected a key, as in name: value, indented like those above",
	badItem:                              "expected an item, as in - value, indented like those above",
	"did not find expected ',' or ']'":   `expected "," or "]"; the list may begin lines above`,
	"did not find expected ',' or '}'":   `expected "," or "}"; the mapping may begin lines above`,
	"did not find expected node content": "expected a value",
	"mapping values are not allowed in this context": `": " can't stand here: put the text in quotes, or check the indentation`,
	"found incompatible YAML document":               "leave the line %YAML out",
	"found character that cannot start any token":    "a value can't begin with this character: put it in quotes",
}

// salvage reads the text before a bad line, or before the last fields before it.
func salvage(text string, line int) *yaml.Node {
	if len(text) > maxRetry {
		return nil
	}
	lines := strings.SplitAfter(text, "\n")
	for n, tries := min(line-1, len(lines)), 5; n > 0 && tries > 0; tries-- {
		if doc, _, err := decodeYAML(strings.Join(lines[:n], "")); err == nil {
			return doc
		}
		for n--; n > 0 && strings.ContainsAny(lines[n][:1], " \t\n#-]}"); n-- {
		}
	}
	return nil
}

// yamlError splits an error of the YAML library into line and message.
func yamlError(err error) (line int, message string) {
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(message, "line "); ok {
		if number, rest, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				return n, rest
			}
		}
	}
	return 1, message
}

// firstBadLine returns the line at which a mapping or list breaks: the length of the shortest prefix, in lines, that
// gives the same error.
func firstBadLine(text, message string) int {
	lines := strings.SplitAfter(text, "\n")
	bad := func(n int) bool {
		_, _, err := decodeYAML(strings.Join(lines[:n], ""))
		if err == nil {
			return false
		}
		_, m := yamlError(err)
		return m == message
	}
	low, high := 0, len(lines) // valid at low, invalid at high
	for low+1 < high {
		if mid := (low + high) / 2; bad(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// tabIn returns the column of a tab in the indentation of a line, or 0.
func tabIn(text string, line int) int {
	for range line - 1 {
		_, text, _ = strings.Cut(text, "\n")
	}
	for i := range len(text) {
		switch text[i] {
		case '\t':
			return i + 1
		case ' ', '-':
		default:
			return 0
		}
	}
	return 0
}

// value turns a node into a value, and reports unsupported YAML in it.
func (y *yamlReader) value(n *yaml.Node) *value.Value {
	at := y.place(n.Line, n.Column)
	val := &value.Value{At: at}
	if y.nodes++; y.nodes > maxElements {
		if y.nodes == maxElements+1 {
			y.problem(at, y.where(), "the YAML has more than %d values", maxElements)
		}
		return val
	}
	if len(y.path) > maxDepth {
		y.problem(at, y.where(), "values stand in each other more than %d deep", maxDepth)
		return val
	}
	if n.Kind == yaml.AliasNode {
		y.problem(at, y.where(), "*%s refers to another value; write the value itself", clip(n.Value))
		return val
	}
	y.refuse(n, at)
	switch n.Kind {
	case yaml.ScalarNode:
		y.scalar(val, n)
	case yaml.SequenceNode:
		val.Kind = value.List
		val.Items = make([]*value.Value, 0, len(n.Content))
		for i, item := range n.Content {
			y.path = append(y.path, step{index: i})
			val.Items = append(val.Items, y.value(item))
			y.path = y.path[:len(y.path)-1]
		}
	case yaml.MappingNode:
		y.mapping(val, n)
	}
	return val
}

// refuse reports anchors and tags.
func (y *yamlReader) refuse(n *yaml.Node, at value.Pos) {
	if n.Anchor != "" {
		y.problem(at, y.where(), "&%s names a value for others to refer to; write the value where it is needed",
			clip(n.Anchor))
	}
	switch bang := y.bang(n); {
	case n.Style&yaml.TaggedStyle != 0:
		y.problem(at, y.where(), "the tag %s isn't read; a text stands in quotes, a number without", clip(n.Tag))
	case bang:
		y.problem(at, y.where(), "the tag ! isn't read; a text stands in quotes, a number without")
	}
}

func (y *yamlReader) scalar(val *value.Value, n *yaml.Node) {
	val.Kind, val.Text = value.Text, n.Value
	if n.Style != 0 {
		return
	}
	if strings.HasSuffix(n.Value, ":") { // in [x:, y], which other readers take for a mapping
		y.problem(val.At, y.where(), "%s ends with a colon: put it in quotes", clip(n.Value))
	}
	s := scalar.Plain(n.Value)
	val.Kind, val.Text = s.Kind, s.Text
	if s.Warning != "" {
		y.warn(val.At, y.where(), "%s", s.Warning)
	}
	if s.Problem != "" {
		y.problem(val.At, y.where(), "%s", s.Problem)
	}
}

func (y *yamlReader) mapping(v *value.Value, n *yaml.Node) {
	object := &object{v: v}
	v.Kind = value.Map
	v.Map = make([]value.Entry, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		at := y.place(k.Line, k.Column)
		key := k.Value
		y.path = append(y.path, step{key, -1})
		switch y.refuse(k, at); {
		case k.Kind == yaml.AliasNode:
			y.problem(at, y.where(), "*%s refers to another value; write the key itself", clip(key))
		case k.Kind != yaml.ScalarNode:
			y.problem(at, y.where(), "a key is a text, not a list or mapping")
		case k.Style == 0 && key == "<<":
			y.problem(at, y.where(), "<< would merge another mapping; write its entries here")
		case k.Style == 0 && key == "":
			y.problem(at, y.where(), "a key is missing")
		default:
			item := y.value(n.Content[i+1])
			y.path = y.path[:len(y.path)-1]
			object.put(y.report, y.where(), key, at, item)
			continue
		}
		y.path = y.path[:len(y.path)-1]
	}
}

// where returns the path of the current field, as in permissions[2].
func (y *yamlReader) where() string {
	var text strings.Builder
	for _, s := range y.path {
		switch {
		case s.index >= 0:
			fmt.Fprintf(&text, "[%d]", s.index)
		case text.Len() > 0:
			text.WriteString("." + clip(s.key))
		default:
			text.WriteString(clip(s.key))
		}
	}
	return text.String()
}
