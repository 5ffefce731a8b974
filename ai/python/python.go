// Package python reads what a Python file says without running it: the literals that are assigned to names at the
// top of the module, and its docstring.
//
//	"""Writes a file."""                     the docstring
//	__version__ = "1.2.0"                    a text
//	__executor_id__: str = "rye/python"      an annotation changes nothing
//	LIMITS = {"bytes": 1_000, "tries": 3,}   a map; also in parentheses and over several lines
//	DEFAULTS = load()                        no literal: not read
//
// Read takes Python 3.8 to 3.14. It agrees with the module ast of CPython on every file that CPython accepts, and
// reads some files that CPython refuses, because it looks at the structure of lines, brackets, blocks and strings,
// and not into statements that say nothing to it.
//
// # Statements
//
// A statement counts that stands at column 0 of a line or behind a semicolon there, and is NAME = LITERAL or
// NAME: ANNOTATION = LITERAL, with or without parentheses around NAME. A name outside ASCII is what NFKC makes of
// it, as in Python. Names stand in the order in which each first got a literal. The last binding decides: where
// a name with a literal is bound again to something that is none, it is dropped with a warning. Bindings are
// assignments of every form (chained, to tuples, augmented), def, class, import, type and del. What stands inside
// compound statements, and what changes a value without binding its name, as in A["x"] = 1, isn't looked at.
//
// # Literals
//
// A literal is what ast.literal_eval takes and a JSON value can be:
//
//	None True False         null and truth values
//	1_000 0x1F 0o17 0b1     an integer of any size up to 4,300 digits, in decimal
//	1.5 1e16                a float, in the form of Python's repr: 1.5, 1e+16, 1.0
//	-1 +1                   one sign before a number
//	"a" 'b' """c""" r"\d"   a text; several in a row are one
//	(1, 2) [1, 2] {1, 2}    a list; so is 1, 2 and set(); a set keeps the order and the repetitions of the file
//	{"a": 1, "b": 2}        a map; of a key that is there twice the last value counts, with a warning
//
// Without a word it is no literal if it has bytes, an f-string, a t-string, an imaginary number, an ellipsis, a name
// or an operator, be it "a" + "b". With a warning it is none if Python has a value and JSON hasn't: a key that is no
// text, half a surrogate pair, a float like 1e999; or if it is past our limits: \N{NAME}, for which we have no table,
// an integer of more digits, nesting of more than 100, more than 2^18 values in a file or 2^20 tokens in a line.
//
// # Files
//
// A file is UTF-8, with or without a byte order mark, and at most 16 MiB; its coding line, if any, says so. Lines
// end with LF, CR LF or CR, which is LF inside a string. Blocks, tabs against spaces, lines joined by brackets and
// backslashes, form feeds and the quotes inside f-strings are as in Python 3.12. Numbers must be well formed
// everywhere, escapes only in texts that are read: a wrong one is a problem of its name.
//
// # Broken files
//
// At the first thing that breaks the structure there is a problem with its place: a string or a bracket that is never
// closed, an indentation that fits nowhere, a character that belongs to no token; bytes that are not UTF-8, NUL and
// another coding break all of the file. What was read before stays. From there on lines are taken by pattern: a line
// that says
//
//	__lower_case__ = SCALAR    or    UPPER_CASE = SCALAR
//
// at column 0, where SCALAR is None, a truth value, a number or a text on this line, gives its value; any other
// binding takes the value away. The pattern reads the same tokens and starts afresh at the next line when they end in
// a mistake. So on a sound file it says nothing that the reader doesn't say, whatever stands in its strings.
package python

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/rye-build/rye/ai/value"
)

const (
	maxSource   = 16 << 20
	maxValues   = 1 << 18
	maxProblems = 100
)

// A Module is what a Python file says.
type Module struct {
	Names    *value.Value // a map, in the order of first assignment
	Doc      string       // the docstring without the space around it, "" if there is none
	DocAt    value.Pos
	Problems []*value.Problem // in the order of the file
}

// Read reads a file. It always returns a module; what is wrong with the file is in its problems, and what could be
// read all the same is in its names.
func Read(src []byte) *Module { return read(src, false) }

// read reads a file, all of it by pattern if loose is set.
func read(src []byte, loose bool) *Module {
	r := &reader{loose: loose, slots: map[string]int{}}
	r.doc.Names = &value.Value{Kind: value.Map, At: value.Pos{Line: 1, Column: 1}}
	if len(src) > maxSource {
		r.doc.Problems = []*value.Problem{{Message: fmt.Sprintf("the file is larger than %d MiB", maxSource>>20)}}
		return &r.doc
	}
	toks := tokens.Get().(*[]token)
	defer func() {
		*toks, r.toks = r.toks[:0], nil
		tokens.Put(toks)
	}()
	r.toks = *toks
	r.src = newlines(bytes.TrimPrefix(src, []byte("\ufeff")))
	if f := unreadable(r.src); f != nil {
		r.broken(f)
	}
	r.file()
	return r.finish()
}

// tokens are lent to readers; each needs about as many.
var tokens = sync.Pool{New: func() any {
	toks := make([]token, 0, 128)
	return &toks
}}

// newlines returns src with LF as the only end of a line, as Python does before it looks at anything.
func newlines(src []byte) []byte {
	if bytes.IndexByte(src, '\r') < 0 {
		return src
	}
	out := make([]byte, 0, len(src))
	for i, c := range src {
		switch {
		case c == '\r':
			out = append(out, '\n')
		case c != '\n' || i == 0 || src[i-1] != '\r':
			out = append(out, c)
		}
	}
	return out
}

// unreadable returns what is wrong with the bytes of the file as a whole.
func unreadable(src []byte) *fault {
	if name, at := coding(src); name != nil && !isUTF8(name) {
		return &fault{at: at, message: fmt.Sprintf("the coding %q is not read, only UTF-8", name)}
	}
	if i := bytes.IndexByte(src, 0); i >= 0 {
		return &fault{at: i, message: "a NUL byte"}
	}
	if utf8.Valid(src) {
		return nil
	}
	for i := 0; ; {
		c, n := utf8.DecodeRune(src[i:])
		if c == utf8.RuneError && n == 1 {
			return &fault{at: i, message: fmt.Sprintf("byte 0x%02x is not UTF-8", src[i])}
		}
		i += n
	}
}

// coding returns the name in the coding line and its place. The line is one of the first two, a comment, and the
// second only if the first holds no code.
func coding(src []byte) (name []byte, at int) {
	const word = "coding"
	start := 0
	for range 2 {
		line := src[start:nextLine(src, start)]
		text := bytes.TrimLeft(line, " \t\f")
		if len(text) > 0 && text[0] != '#' && text[0] != '\n' {
			return nil, 0
		}
		for i := 0; i+len(word) < len(line); i++ {
			if string(line[i:i+len(word)]) != word || line[i+len(word)] != ':' && line[i+len(word)] != '=' {
				continue
			}
			from := i + len(word) + 1
			from += len(line[from:]) - len(bytes.TrimLeft(line[from:], " \t"))
			to := from
			for to < len(line) && (isWord(line[to]) && line[to] < 0x80 || line[to] == '-' || line[to] == '.') {
				to++
			}
			if to > from {
				return line[from:to], start + from
			}
		}
		start += len(line)
	}
	return nil, 0
}

// isUTF8 reports whether a coding is one of Python's spellings of UTF-8.
func isUTF8(name []byte) bool {
	n := strings.ReplaceAll(strings.ToLower(string(name)), "_", "-")
	if strings.HasPrefix(n, "utf-8-") {
		return true
	}
	n = strings.ReplaceAll(n, "-", "")
	return n == "utf8" || n == "u8" || n == "utf"
}

// A reader reads one file.
type reader struct {
	scanner
	doc    Module
	loose  bool // lines are taken by pattern
	stated bool // a statement has been seen
	values int
	slab   []value.Value // values to come: most files have dozens
	names  []name
	slots  map[string]int // name → its place in names
	spot   spot
	found  []token // room for targets
}

// A name is one that has had a literal.
type name struct {
	text  string
	at    value.Pos
	value *value.Value   // nil after another binding
	lost  *value.Problem // the other binding
}

// A spot is the last place that was asked for. Places are asked for in the order of the file, so that counting
// lines and columns goes over the file once.
type spot struct {
	off  int
	line int
	col  int
}

// place returns the place of an offset.
func (r *reader) place(off int) value.Pos {
	s := &r.spot
	if s.line == 0 || off < s.off {
		*s = spot{line: 1, col: 1}
	}
	between := r.src[s.off:off]
	if i := bytes.LastIndexByte(between, '\n'); i >= 0 {
		s.line += bytes.Count(between, []byte("\n"))
		s.col = 1
		between = between[i+1:]
	}
	s.col += utf8.RuneCount(between)
	s.off = off
	return value.Pos{Line: s.line, Column: s.col}
}

// file reads the statements of the file.
func (r *reader) file() {
	var blocks blocks
	for budget := 4*len(r.src) + 1<<16; budget > 0; {
		ind, f := r.start()
		if f == nil && !r.loose {
			f = blocks.enter(r.src, r.off, ind, r.last == ':')
		}
		if f == nil {
			if r.off == len(r.src) {
				return
			}
			top := ind.col == 0
			if f = r.logical(top); f == nil {
				if top {
					r.line(r.toks)
				}
				continue
			}
		}
		// Whatever is unclosed may make us read to the end of the file and start again near the beginning, once for
		// each line: the budget keeps that linear.
		budget -= max(0, f.end-f.resume)
		r.broken(f)
		r.off, r.last, r.depth = f.resume, end, 0
	}
}

// broken notes the first mistake in the structure; later ones may only follow from it.
func (r *reader) broken(f *fault) {
	if !r.loose {
		r.doc.Problems = append(r.doc.Problems, &value.Problem{At: r.place(f.at), Message: f.message})
	}
	r.loose, r.stated = true, true
}

// warn notes something that doesn't break the structure. Hostile files have any number of such things.
func (r *reader) warn(p ...*value.Problem) {
	room := max(0, maxProblems-len(r.doc.Problems))
	r.doc.Problems = append(r.doc.Problems, p[:min(room, len(p))]...)
}

// finish puts the module together.
func (r *reader) finish() *Module {
	entries := make([]value.Entry, 0, len(r.names))
	for _, n := range r.names {
		if n.value != nil {
			entries = append(entries, value.Entry{Key: n.text, At: n.at, Value: n.value})
		} else if n.lost != nil {
			r.warn(n.lost)
		}
	}
	r.doc.Names.Map = entries
	slices.SortStableFunc(r.doc.Problems, func(a, b *value.Problem) int {
		return cmp.Or(cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Column, b.At.Column))
	})
	return &r.doc
}

// folded returns the name that a token is, as Python compares names.
func (r *reader) folded(t token) []byte {
	b := r.bytes(t)
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return norm.NFKC.Bytes(b)
		}
	}
	return b
}

// bind gives a name its literal.
func (r *reader) bind(text string, at value.Pos, v *value.Value) {
	i, ok := r.slots[text]
	if !ok {
		i = len(r.names)
		r.slots[text] = i
		r.names = append(r.names, name{text: text})
	}
	n := &r.names[i]
	n.at, n.value, n.lost = at, v, nil
}

// unbind takes its literal from a name that is bound to something else at a place. If it is said already why that is
// no literal, nothing more is said.
func (r *reader) unbind(t token, at value.Pos, said bool) {
	i, ok := r.slots[string(r.folded(t))]
	if !ok || r.names[i].value == nil {
		return
	}
	n := &r.names[i]
	n.value = nil
	if !said {
		n.lost = &value.Problem{At: at, Field: n.text, Warning: true,
			Message: fmt.Sprintf("%q had a literal and is bound again to something else: it is not read", n.text)}
	}
}
