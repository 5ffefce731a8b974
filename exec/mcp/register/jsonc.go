package register

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const maxDepth = 100

// A node is a value in a text of JSON.
type node struct {
	kind       byte // { [ " or 0 for what is none of them
	start, end int
	members    []member // of an object
	elements   []*node  // of an array
	comma      bool     // behind the last one
}

type member struct {
	key   string
	start int
	value *node
}

func (n *node) get(key string) *node {
	for _, m := range n.members {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// A reader reads JSON with comments and trailing commas.
type reader struct {
	text []byte
	at   int
}

func (r *reader) fail(format string, args ...any) error { return wrong(r.text, r.at, format, args...) }

// space skips white space and comments.
func (r *reader) space() error {
	for r.at < len(r.text) {
		rest := r.text[r.at:]
		switch {
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			r.at++
		case bytes.HasPrefix(rest, []byte("//")):
			if i := bytes.IndexByte(rest, '\n'); i >= 0 {
				r.at += i + 1
			} else {
				r.at = len(r.text)
			}
		case bytes.HasPrefix(rest, []byte("/*")):
			i := bytes.Index(rest[2:], []byte("*/"))
			if i < 0 {
				return r.fail("a comment isn't closed")
			}
			r.at += i + 4
		default:
			return nil
		}
	}
	return nil
}

// next skips white space and returns the byte behind it; 0 at the end.
func (r *reader) next() (byte, error) {
	if err := r.space(); err != nil {
		return 0, err
	}
	if r.at == len(r.text) {
		return 0, nil
	}
	return r.text[r.at], nil
}

func (r *reader) value(depth int) (*node, error) {
	c, err := r.next()
	if err != nil {
		return nil, err
	}
	n := &node{start: r.at}
	switch {
	case depth > maxDepth:
		return nil, r.fail("values are nested too deeply")
	case c == '{' || c == '[':
		n.kind = c
		r.at++
		err = r.inside(n, depth)
	case c == '"':
		n.kind = c
		_, err = r.string()
	default:
		for r.at < len(r.text) && strings.IndexByte(" \t\r\n,:[]{}\"/", r.text[r.at]) < 0 {
			r.at++
		}
		if !json.Valid(r.text[n.start:r.at]) {
			r.at = n.start
			return nil, r.fail("expected a value")
		}
	}
	n.end = r.at
	return n, err
}

// inside reads what is in an object or an array, and its end.
func (r *reader) inside(n *node, depth int) error {
	end := byte('}')
	if n.kind == '[' {
		end = ']'
	}
	first := true
	for {
		c, err := r.next()
		if err != nil {
			return err
		}
		if c == end {
			r.at++
			return nil
		}
		if !first && !n.comma {
			return r.fail("expected a comma or %q", end)
		}
		if err := r.one(n, c, depth); err != nil {
			return err
		}
		first = false
		if c, err = r.next(); err != nil {
			return err
		}
		if n.comma = c == ','; n.comma {
			r.at++
		}
	}
}

// one reads a member of an object or an element of an array.
func (r *reader) one(n *node, c byte, depth int) error {
	if n.kind == '[' {
		v, err := r.value(depth + 1)
		n.elements = append(n.elements, v)
		return err
	}
	m := member{start: r.at}
	if c != '"' {
		return r.fail("expected a key in quotes")
	}
	var err error
	if m.key, err = r.string(); err != nil {
		return err
	}
	if n.get(m.key) != nil {
		return r.fail("the key %q is there twice", m.key)
	}
	if c, err = r.next(); err != nil {
		return err
	} else if c != ':' {
		return r.fail("expected a colon")
	}
	r.at++
	m.value, err = r.value(depth + 1)
	n.members = append(n.members, m)
	return err
}

func (r *reader) string() (s string, err error) {
	from := r.at
	for r.at++; r.at < len(r.text) && r.text[r.at] != '"' && r.text[r.at] != '\n'; r.at++ {
		if r.text[r.at] == '\\' {
			r.at++
		}
	}
	if r.at >= len(r.text) || r.text[r.at] == '\n' {
		r.at = from
		return "", r.fail("a string isn't closed")
	}
	r.at++
	if err := json.Unmarshal(r.text[from:r.at], &s); err != nil {
		r.at = from
		return "", r.fail("invalid string")
	}
	return s, nil
}

// A jsonFile is the configuration of an agent in JSON.
type jsonFile struct {
	text  []byte
	root  *node
	table string
}

var byteOrderMark = []byte("\xef\xbb\xbf")

func openJSON(text []byte, table string) (*jsonFile, error) {
	r := &reader{text: text}
	if bytes.HasPrefix(text, byteOrderMark) {
		r.at = len(byteOrderMark)
	}
	c, err := r.next()
	if err != nil {
		return nil, err
	}
	if c == 0 {
		if len(bytes.TrimSpace(bytes.TrimPrefix(text, byteOrderMark))) > 0 {
			return nil, errors.New("it has comments and no value")
		}
		text = []byte("{}\n")
		r = &reader{text: text}
	}
	root, err := r.value(0)
	if err == nil {
		c, err = r.next()
	}
	switch {
	case err != nil:
		return nil, err
	case c != 0:
		return nil, r.fail("more than one value")
	case root.kind != '{':
		return nil, wrong(text, root.start, "expected an object")
	}
	f := &jsonFile{text: text, root: root, table: table}
	for at, n := range map[string]*node{table: root.get(table), table + "." + Name: f.entry()} {
		if n != nil && n.kind != '{' {
			return nil, wrong(text, n.start, "%q is no object", at)
		}
	}
	return f, nil
}

// entry is that of the server, nil for none.
func (f *jsonFile) entry() *node {
	if servers := f.root.get(f.table); servers != nil {
		return servers.get(Name)
	}
	return nil
}

func (f *jsonFile) command() (o command, there bool, err error) {
	n := f.entry()
	if n == nil {
		return o, false, nil
	}
	if n.get("command") == nil && n.get("url") != nil {
		return o, false, wrong(f.text, n.start, "its server %q is not started by a command but reached at an address",
			Name)
	}
	o.program, _ = f.string(n.get("command"))
	if args := n.get("args"); args != nil {
		for _, e := range args.elements {
			s, _ := f.string(e)
			o.args = append(o.args, s)
		}
	}
	return o, true, nil
}

func (f *jsonFile) string(n *node) (s string, ok bool) {
	if n == nil || n.kind != '"' {
		return "", false
	}
	return s, json.Unmarshal(f.text[n.start:n.end], &s) == nil
}

// A change puts text in the place of what is between two offsets.
type change struct {
	from, to int
	text     string
}

func apply(text []byte, changes []change) []byte {
	slices.SortStableFunc(changes, func(a, b change) int { return a.from - b.from })
	var out []byte
	at := 0
	for _, c := range changes {
		out = append(append(out, text[at:c.from]...), c.text...)
		at = c.to
	}
	return append(out, text[at:]...)
}

func (f *jsonFile) put(all []setting) ([]byte, error) {
	entry := f.entry()
	if entry == nil {
		unit, depth := f.unit(), 1
		in, servers := f.root, f.root.get(f.table)
		if servers != nil {
			in, depth = servers, 2
		}
		object := func(depth int, members string) string {
			end := newline(f.text)
			return "{" + end + strings.Repeat(unit, depth+1) + members + end + strings.Repeat(unit, depth) + "}"
		}
		var lines []string
		for _, s := range all {
			lines = append(lines, fmt.Sprintf("%q: %s", s.name, s.value))
		}
		value := object(2, strings.Join(lines, ","+newline(f.text)+strings.Repeat(unit, 3)))
		key := Name
		if servers == nil {
			value, key = object(1, fmt.Sprintf("%q: %s", Name, value)), f.table
		}
		return apply(f.text, f.added(in, depth, []string{fmt.Sprintf("%q: %s", key, value)})), nil
	}
	var changes []change
	var missing []string
	for _, s := range all {
		if n := entry.get(s.name); n != nil {
			changes = append(changes, change{n.start, n.end, string(s.value)})
		} else {
			missing = append(missing, fmt.Sprintf("%q: %s", s.name, s.value))
		}
	}
	if len(missing) > 0 {
		changes = append(changes, f.added(entry, 3, missing)...)
	}
	return apply(f.text, changes), nil
}

// added adds members at the end of an object, each in a line of its own; depth is that of the members.
func (f *jsonFile) added(n *node, depth int, members []string) []change {
	end := newline(f.text)
	indent := end + strings.Repeat(f.unit(), depth)
	if len(n.members) > 0 {
		last := n.members[len(n.members)-1]
		if own, alone := f.indent(last.start); alone {
			indent = end + own
		}
		// A comment behind the last member stays there: the comma goes before it, the new lines behind it.
		var changes []change
		if !n.comma {
			changes = append(changes, change{last.value.end, last.value.end, ","})
		}
		at := n.end - 1
		for at > last.value.end && strings.IndexByte(" \t\r\n", f.text[at-1]) >= 0 {
			at--
		}
		text := indent + strings.Join(members, ","+indent)
		if n.comma {
			text += ","
		}
		if !bytes.Contains(f.text[at:n.end], []byte("\n")) {
			text += end + strings.Repeat(f.unit(), depth-1)
		}
		return append(changes, change{at, at, text})
	}
	at := n.end - 1
	for at > n.start+1 && strings.IndexByte(" \t\r\n", f.text[at-1]) >= 0 {
		at--
	}
	return []change{{at, n.end - 1, indent + strings.Join(members, ","+indent) + end + strings.Repeat(f.unit(),
		depth-1)}}
}

// indent is what stands before an offset in its line, and whether that is white space alone.
func (f *jsonFile) indent(at int) (string, bool) {
	line := f.text[bytes.LastIndexByte(f.text[:at], '\n')+1 : at]
	return string(line), len(bytes.TrimLeft(line, " \t")) == 0
}

// unit is what one step of indentation is: that of the first member, two spaces if it has a line with others.
func (f *jsonFile) unit() string {
	if len(f.root.members) > 0 {
		if own, alone := f.indent(f.root.members[0].start); alone && own != "" {
			return own
		}
	}
	return "  "
}
