// Package simple parses the YAML that most files have, at a tenth of the cost of the full YAML reader.
//
// It reads blocks of key: value and of - value, values of one line, and lists and mappings of these in brackets. It
// gives up at anything else, and wherever the full reader would report a problem: the caller then reads the text
// again with the full reader. So both return the same values, which FuzzSimple of package parse checks.
//
// It pays when items are read for the first time. Of a project of 10,000 items, three of eight with YAML, a search
// without an index takes 1.10 to 1.14 times the processor time without this package (medians of 15 and 11 pairs in
// two interleaved runs), and a check without a cache 1.08 to 1.22 times. Later checks read no YAML.
//
// # How a document goes through here
//
// Read calls mapping for the outermost block, mapping calls key and value for each entry, and value calls inLine
// for the rest of the line, or list and mapping for the lines below. Each returns nil when it gives up, and so does
// Read.
package simple

import (
	"strings"

	"github.com/rye-build/rye/ai/scalar"
	"github.com/rye-build/rye/ai/value"
)

type reader struct {
	place  func(line, column int) value.Pos
	text   string
	off    int // of the first nonspace character of the current line; len(text) at the end
	line   int
	indent int // characters before it
}

const (
	maxText   = 64 << 10 // bytes, so that a text can't exceed the limit of values
	maxNested = 20
	maxKeys   = 64 // of one mapping, which is searched for duplicates
)

// Read parses a document of printable UTF-8. place returns the position in the file of a line and a column. Read
// returns nil when it gives up.
func Read(text string, place func(line, column int) value.Pos) *value.Value {
	if len(text) > maxText || strings.IndexByte(text, '\t') >= 0 {
		return nil
	}
	r := &reader{place: place, text: text}
	r.next(0)
	v := r.mapping(r.indent, 0)
	if r.off < len(text) {
		return nil
	}
	return v
}

// next moves to the first line at or after an offset that is neither empty nor a comment.
func (r *reader) next(from int) {
	for r.off = from; r.off < len(r.text); r.off++ {
		r.line++
		start := r.off
		for r.off < len(r.text) && r.text[r.off] == ' ' {
			r.off++
		}
		r.indent = r.off - start
		rest := r.text[r.off:]
		if rest == "" || rest[0] != '\n' && rest[0] != '#' {
			return
		}
		if rest = rest[max(strings.IndexByte(rest, '\n'), 0):]; rest[0] != '\n' {
			break
		}
		r.off = len(r.text) - len(rest)
	}
	r.off, r.indent = len(r.text), -1
}

// end moves past a value that ends at an offset. It returns false if anything follows the value in its line.
func (r *reader) end(off int) bool {
	if off < len(r.text) && r.text[off] != '\n' {
		return false
	}
	r.next(off + 1)
	return true
}

func (r *reader) at(off int) value.Pos {
	// Everything before it in its line is ASCII.
	return r.place(r.line, r.indent+off-r.off+1)
}

// key returns the end of the simple key at an offset, or 0 without one.
func (r *reader) key(off int) int {
	end := off
	for ; end < len(r.text); end++ {
		c := r.text[end]
		if !letter(c) && c != '.' && (end == off || !digit(c) && c != '-') {
			break
		}
	}
	rest := r.text[end:]
	if end == off || end-off > 100 || !strings.HasPrefix(rest, ": ") && !strings.HasPrefix(rest, ":\n") {
		return 0
	}
	return end
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }
func digit(c byte) bool  { return c >= '0' && c <= '9' }

// mapping reads entries whose keys are in one column, beginning with the current line.
func (r *reader) mapping(indent, depth int) *value.Value {
	val := &value.Value{Kind: value.Map, At: r.at(r.off)}
	for r.indent == indent {
		end := r.key(r.off)
		if end == 0 || depth > maxNested {
			return nil
		}
		start, at := r.off, r.at(r.off)
		if !add(val, at, r.text[start:end], r.value(end+1, indent, depth)) || r.indent > indent {
			return nil
		}
	}
	if len(val.Map) == 0 {
		return nil
	}
	return val
}

// add adds an entry to a mapping. It returns false for a duplicate key.
func add(v *value.Value, at value.Pos, key string, entry *value.Value) bool {
	if entry == nil || len(v.Map) == maxKeys || v.Get(key) != nil {
		return false
	}
	v.Map = append(v.Map, value.Entry{Key: strings.Clone(key), At: at, Value: entry})
	return true
}

// value reads the value of a key: the rest of its line, or the lines below.
func (r *reader) value(off, indent, depth int) *value.Value {
	if r.text[off] != '\n' {
		return r.inLine(r.spaces(off))
	}
	r.next(off + 1)
	switch {
	case r.isItem() && r.indent >= indent:
		return r.list(r.indent, depth+1)
	case r.indent > indent:
		return r.mapping(r.indent, depth+1)
	}
	return nil
}

func (r *reader) spaces(off int) int {
	for off < len(r.text) && r.text[off] == ' ' {
		off++
	}
	return off
}

func (r *reader) isItem() bool { return strings.HasPrefix(r.text[r.off:], "- ") }

// list reads values after dashes in one column, beginning with the current line.
func (r *reader) list(indent, depth int) *value.Value {
	list := &value.Value{Kind: value.List, At: r.at(r.off)}
	for r.indent == indent && r.isItem() {
		off := r.spaces(r.off + 1)
		var v *value.Value
		if r.key(off) > 0 {
			r.indent, r.off = r.indent+off-r.off, off
			v = r.mapping(r.indent, depth+1)
		} else {
			v = r.inLine(off)
		}
		if v == nil || r.indent > indent || depth > maxNested {
			return nil
		}
		list.Items = append(list.Items, v)
	}
	return list
}

// inLine reads a value that ends with its line.
func (r *reader) inLine(off int) *value.Value {
	if off == len(r.text) {
		return nil
	}
	at := r.at(off)
	switch c := r.text[off]; c {
	case '"', '\'':
		if v, end := r.quoted(off); v != nil && r.end(end) {
			return v
		}
	case '[', '{':
		if v, end := r.inBrackets(off, 0); v != nil && r.end(end) {
			return v
		}
	default:
		if !letter(c) && !digit(c) && c != '/' && c != '.' && c < 0x80 {
			break
		}
		line, _, _ := strings.Cut(r.text[off:], "\n")
		if last := line[len(line)-1]; last == ':' || last == ' ' {
			break
		}
		if !strings.Contains(line, ": ") && !strings.Contains(line, " #") && r.end(off+len(line)) {
			return plain(at, line)
		}
	}
	return nil
}

// plain returns a scalar without quotes, or nil if it needs a warning.
func plain(at value.Pos, text string) *value.Value {
	p := scalar.Plain(text)
	if p.Warning != "" || p.Problem != "" {
		return nil
	}
	return &value.Value{Kind: p.Kind, At: at, Text: strings.Clone(p.Text)}
}

// quoted reads a text in quotes without escapes, and returns its end.
func (r *reader) quoted(off int) (*value.Value, int) {
	n := strings.IndexAny(r.text[off+1:], "\"'\\\n")
	if n < 0 || r.text[off+1+n] != r.text[off] {
		return nil, 0
	}
	end := off + 1 + n
	return &value.Value{Kind: value.Text, At: r.at(off), Text: strings.Clone(r.text[off+1 : end])}, end + 1
}

// inBrackets reads a value in brackets, or a value inside them, and returns its end. Everything in brackets must be
// ASCII, so that the column after it is known.
func (r *reader) inBrackets(off, depth int) (*value.Value, int) {
	switch {
	case off == len(r.text) || depth > maxNested:
	case r.text[off] == '[':
		list := &value.Value{Kind: value.List, At: r.at(off), Items: []*value.Value{}}
		return r.each(list, off, ']', func(off int) int {
			v, end := r.inBrackets(off, depth+1)
			if v == nil {
				return 0
			}
			list.Items = append(list.Items, v)
			return end
		})
	case r.text[off] == '{':
		v := &value.Value{Kind: value.Map, At: r.at(off), Map: []value.Entry{}}
		return r.each(v, off, '}', func(off int) int {
			key := r.key(off)
			if key == 0 {
				return 0
			}
			entry, end := r.inBrackets(r.spaces(key+1), depth+1)
			if !add(v, r.at(off), r.text[off:key], entry) {
				return 0
			}
			return end
		})
	case r.text[off] == '"' || r.text[off] == '\'':
		if v, end := r.quoted(off); v != nil && ascii(v.Text) {
			return v, end
		}
	case letter(r.text[off]) || digit(r.text[off]) || r.text[off] == '/' || r.text[off] == '.':
		end := off + strings.IndexAny(r.text[off:]+"\n", ",[]{}#\"'\n")
		text := r.text[off:end]
		if strings.Contains(text, ": ") || text[len(text)-1] == ':' || text[len(text)-1] == ' ' || !ascii(text) {
			break
		}
		return plain(r.at(off), text), end
	}
	return nil, 0
}

// each calls read at the beginning of each value in the brackets of v; read returns the value's end. each returns v
// and its end.
func (r *reader) each(v *value.Value, off int, closing byte, read func(off int) int) (*value.Value, int) {
	if off++; off < len(r.text) && r.text[off] == closing {
		return v, off + 1
	}
	for {
		if off = read(off); off == 0 || off == len(r.text) {
			return nil, 0
		}
		switch rest := r.text[off:]; {
		case rest[0] == closing:
			return v, off + 1
		case strings.HasPrefix(rest, ", "):
			off = r.spaces(off + 1)
		default:
			return nil, 0
		}
	}
}

func ascii(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r >= 0x80 }) < 0
}
