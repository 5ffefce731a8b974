// Package python reads Python files statically: their docstring, and the literals that they assign to module names.
//
//	"""Writes a file."""                     the docstring
//	__version__ = "1.2.0"                    a text
//	__executor_id__: str = "rye/python"      an annotation changes nothing
//	LIMITS = {"bytes": 1_000, "tries": 3,}   a map; also in parentheses and over several lines
//	DEFAULTS = load()                        no literal: not read
//
// Read takes Python 3.8 to 3.14. It agrees with the module ast of CPython on every file that CPython accepts, and
// reads some files that CPython refuses, because it checks the structure of lines, brackets, blocks and strings, and
// ignores irrelevant statements.
//
// # How a read goes through here
//
// Read checks the bytes with newlines, unreadable and coding. reader.file then takes logical lines from the scanner
// (start, logical) and checks their indentation with blocks. line skips a line of a compound statement (compound) and
// passes simple statements to statement. There, imports and targets unbind names, and assign reads a value with
// literal. After a structural fault (broken), the reader uses only lines that match a pattern. finish returns the
// Module.
//
// # Statements
//
// A statement counts if it begins at column 0 of a line, or after a semicolon there, and has the form NAME =
// LITERAL or NAME: ANNOTATION = LITERAL, with or without parentheses around NAME. A name outside ASCII is
// normalized by NFKC, as in Python. Names are in the order of their first literals. The last binding decides: a
// name with a literal that is bound again to anything else is dropped with a warning. Bindings are assignments of
// every form (chained, to tuples, augmented), def, class, import, type and del. Compound statements, and changes of
// a value that don't bind its name, as in A["x"] = 1, are ignored.
//
// # Literals
//
// A literal is an expression that ast.literal_eval accepts and JSON can represent:
//
//	None True False         null and truth values
//	1_000 0x1F 0o17 0b1     an integer of any size up to 4,300 digits, in decimal
//	1.5 1e16                a float, in the form of Python's repr: 1.5, 1e+16, 1.0
//	-1 +1                   one sign before a number
//	"a" 'b' """c""" r"\d"   a text; several in a row are one
//	(1, 2) [1, 2] {1, 2}    a list; so is 1, 2 and set(); a set keeps the order and the repetitions of the file
//	{"a": 1, "b": 2}        a map; the last value of a repeated key counts, with a warning
//
// An expression with bytes, an f-string, a t-string, an imaginary number, an ellipsis, a name or an operator, even
// "a" + "b", is not a literal, without a warning. It is refused with a warning if Python has a value and JSON
// hasn't: a key that isn't a text, half a surrogate pair, a float like 1e999. So is one beyond the limits of this
// package: \N{NAME}, for which it has no table, an integer of more digits, nesting of more than 100, more than 2^18
// values in a file or 2^20 tokens in a line.
//
// # Files
//
// A file is UTF-8, with or without a byte order mark, and at most 16 MiB; its coding line, if any, must agree. Lines
// end with LF, CR LF or CR, which is LF inside a string. Blocks, tabs against spaces, lines joined by brackets and
// backslashes, form feeds and the quotes inside f-strings are as in Python 3.12. Numbers must be well formed
// everywhere, escapes only in texts of literals: an invalid one is a problem of the literal's name.
//
// # Broken files
//
// The first fault in the structure is a problem with its place: a string or bracket that is never closed, an
// indentation that matches no block, a character that belongs to no token. Bytes that are not UTF-8, NUL and another
// coding break the whole file. The names read before the fault stay. After it, lines are read by pattern: a line of
// the form
//
//	__lower_case__ = SCALAR    or    UPPER_CASE = SCALAR
//
// at column 0, where SCALAR is None, a truth value, a number or a text on this line, sets the value; any other
// binding removes it. The pattern reads the same tokens and restarts at the next line after a fault. So on
// a valid file it finds nothing that the reader doesn't find, whatever its strings contain.
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

// A Module is the content of a Python file.
type Module struct {
	Names    *value.Value // a map, in the order of first assignment
	Doc      string       // without the space around it; "" without one
	DocAt    value.Pos
	Problems []*value.Problem // in the order of the file
}

// Read reads a file. It always returns a module with the file's problems and its readable names.
func Read(src []byte) *Module { return read(src, false) }

// read reads a file; with loose, all of it by pattern.
func read(src []byte, loose bool) *Module {
	reader := &reader{loose: loose, slots: map[string]int{}}
	reader.doc.Names = &value.Value{Kind: value.Map, At: value.Pos{Line: 1, Column: 1}}
	if len(src) > maxSource {
		reader.doc.Problems = []*value.Problem{{Message: fmt.Sprintf("the file is larger than %d MiB", maxSource>>20)}}
		return &reader.doc
	}
	toks := tokens.Get().(*[]token)
	defer func() {
		*toks, reader.toks = reader.toks[:0], nil
		tokens.Put(toks)
	}()
	reader.toks = *toks
	reader.src = newlines(bytes.TrimPrefix(src, []byte("\ufeff")))
	if f := unreadable(reader.src); f != nil {
		reader.broken(f)
	}
	reader.file()
	return reader.finish()
}

// tokens are reused between readers, which need about as many.
var tokens = sync.Pool{New: func() any {
	toks := make([]token, 0, 128)
	return &toks
}}

// newlines returns src with only LF as line ends, as Python sees it.
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

// unreadable returns the fault in the bytes of the whole file.
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

// coding returns the name in the coding line and its place. The line is a comment in one of the first two lines, and
// in the second only if the first has no code.
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
	loose  bool // read lines by pattern
	stated bool // a statement has been seen
	values int
	slab   []value.Value // values allocated in advance: most files have dozens
	names  []name
	slots  map[string]int // name → its place in names
	spot   spot
	found  []token // buffer for targets
}

// A name is a name that has had a literal.
type name struct {
	text  string
	at    value.Pos
	value *value.Value   // nil after another binding
	lost  *value.Problem // the other binding
}

// A spot is the place of the last request. Requests come in the order of the file, so that counting lines and columns
// passes over the file once.
type spot struct {
	off  int
	line int
	col  int
}

// place returns the place of an offset.
func (r *reader) place(off int) value.Pos {
	at := &r.spot
	if at.line == 0 || off < at.off {
		*at = spot{line: 1, col: 1}
	}
	between := r.src[at.off:off]
	if i := bytes.LastIndexByte(between, '\n'); i >= 0 {
		at.line += bytes.Count(between, []byte("\n"))
		at.col = 1
		between = between[i+1:]
	}
	at.col += utf8.RuneCount(between)
	at.off = off
	return value.Pos{Line: at.line, Column: at.col}
}

// file reads the statements of the file.
func (r *reader) file() {
	var blocks blocks
	for budget := 4*len(r.src) + 1<<16; budget > 0; {
		ind, fault := r.start()
		if fault == nil && !r.loose {
			fault = blocks.enter(r.src, r.off, ind, r.last == ':')
		}
		if fault == nil {
			if r.off == len(r.src) {
				return
			}
			top := ind.col == 0
			if fault = r.logical(top); fault == nil {
				if top {
					r.line(r.toks)
				}
				continue
			}
		}
		// An unclosed bracket or string may make the scanner read to the end and restart near the beginning, for each
		// line: the budget keeps that linear.
		budget -= max(0, fault.end-fault.resume)
		r.broken(fault)
		r.off, r.last, r.depth = fault.resume, end, 0
	}
}

// broken records the first fault in the structure; later ones may only follow from it.
func (r *reader) broken(f *fault) {
	if !r.loose {
		r.doc.Problems = append(r.doc.Problems, &value.Problem{At: r.place(f.at), Message: f.message})
	}
	r.loose, r.stated = true, true
}

// warn records problems outside the structure, up to a bound: hostile files can have any number of them.
func (r *reader) warn(p ...*value.Problem) {
	room := max(0, maxProblems-len(r.doc.Problems))
	r.doc.Problems = append(r.doc.Problems, p[:min(room, len(p))]...)
}

// finish builds the module.
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

// folded returns a token's name as Python compares names.
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

// unbind drops the literal of a name that is bound to something else at a place. reported means that a problem is
// reported already.
func (r *reader) unbind(t token, at value.Pos, reported bool) {
	i, ok := r.slots[string(r.folded(t))]
	if !ok || r.names[i].value == nil {
		return
	}
	n := &r.names[i]
	n.value = nil
	if !reported {
		n.lost = &value.Problem{At: at, Field: n.text, Warning: true,
			Message: fmt.Sprintf("%q had a literal and is bound again to something else: it is not read", n.text)}
	}
}
