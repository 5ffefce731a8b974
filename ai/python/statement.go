package python

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/rye-build/rye/ai/value"
)

// line reads a logical line at column 0.
func (r *reader) line(toks []token) {
	first := !r.stated
	r.stated = true
	if r.compound(toks) {
		return
	}
	depth, from := 0, 0
	for i, t := range toks {
		switch t.kind {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case ';':
			if depth == 0 {
				r.statement(toks[from:i], first)
				from, first = i+1, false
			}
		}
	}
	r.statement(toks[from:], first)
}

// is reports whether a token is a word.
func (r *reader) is(t token, w string) bool {
	return t.kind == word && string(r.bytes(t)) == w
}

// compound reports whether the line belongs to a compound statement, including a suite on the same line. It unbinds
// the names of a def and a class.
func (r *reader) compound(toks []token) bool {
	if len(toks) == 0 || toks[0].kind == '@' {
		return true
	}
	if toks[0].kind == word {
		switch string(r.bytes(toks[0])) {
		case "async":
			toks = toks[1:]
			if len(toks) == 0 || !r.is(toks[0], "def") {
				return true
			}
			fallthrough
		case "def", "class":
			if len(toks) > 1 && toks[1].kind == word {
				r.unbindAll(toks[1:2])
			}
			return true
		case "if", "elif", "else", "for", "while", "try", "except", "finally", "with":
			return true
		}
	}
	// A match statement begins like this; match isn't a keyword.
	return r.last == ':'
}

// statement reads a simple statement.
func (r *reader) statement(toks []token, first bool) {
	if len(toks) == 0 {
		return
	}
	if first {
		r.docstring(toks)
	}
	if toks[0].kind == word {
		switch string(r.bytes(toks[0])) {
		case "import", "from":
			r.imports(toks)
			return
		case "del":
			r.targets(toks[1:])
			return
		case "type":
			if len(toks) > 1 && toks[1].kind == word {
				r.unbindAll(toks[1:2])
				return
			}
		}
	}
	r.assignment(toks)
}

// docstring reads the first statement, if it is a text.
func (r *reader) docstring(toks []token) {
	if k := toks[0].kind; k != str && k != '(' || r.loose && r.broad(toks) {
		return
	}
	at := r.place(int(toks[0].start))
	v, odd := r.literal(toks, "")
	if odd != nil {
		r.warn(odd)
	}
	if v != nil && v.Kind == value.Text {
		r.doc.DocAt = at
		// Python strips the four separators, too.
		r.doc.Doc = strings.TrimFunc(v.Text, isSpace)
	}
}

func isSpace(c rune) bool { return 0x1c <= c && c <= 0x1f || unicode.IsSpace(c) }

// broad reports whether tokens span several lines.
func (r *reader) broad(toks []token) bool {
	return bytes.IndexByte(r.src[toks[0].start:toks[len(toks)-1].end], '\n') >= 0
}

// assignment reads a statement that may be an assignment.
func (r *reader) assignment(toks []token) {
	depth, equals, first, last, colon := 0, 0, 0, 0, -1
scan:
	for i, token := range toks {
		switch token.kind {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case augop:
			if depth == 0 {
				r.targets(toks[:i])
				return
			}
		case ':':
			if depth == 0 && equals == 0 && colon < 0 {
				colon = i
			}
		case '=':
			if depth == 0 {
				if equals++; equals == 1 {
					first = i
				}
				last = i
			}
		case word:
			// The defaults of a lambda aren't assignments, and no target has one.
			if depth == 0 && r.is(token, "lambda") {
				break scan
			}
		}
	}
	left := first
	if colon >= 0 {
		left = colon
	}
	switch {
	case equals == 0:
	case equals > 1:
		r.targets(toks[:last])
	default:
		if t, ok := single(toks[:left]); ok {
			r.assign(t, toks[first+1:], toks, colon >= 0)
		} else {
			r.targets(toks[:left])
		}
	}
}

// single returns the name if a target is only a name.
func single(toks []token) (token, bool) {
	for len(toks) > 2 && toks[0].kind == '(' && toks[len(toks)-1].kind == ')' {
		toks = toks[1 : len(toks)-1]
	}
	if len(toks) != 1 || toks[0].kind != word {
		return token{}, false
	}
	return toks[0], true
}

// assign takes the assignment of an expression to a name.
func (r *reader) assign(t token, expression, all []token, annotated bool) {
	at, text := r.place(int(t.start)), string(r.folded(t))
	val, why := r.literal(expression, text)
	if why != nil {
		r.warn(why)
	}
	if val != nil && r.loose && (annotated || val.Kind >= value.List || !patterned(r.bytes(t)) || r.broad(all)) {
		val = nil
	}
	if val == nil {
		r.unbind(t, at, why != nil)
		return
	}
	r.bind(text, at, val)
}

// patterned reports whether a name is __lower_case__ or UPPER_CASE.
func patterned(name []byte) bool {
	within := func(b []byte, from, to byte) bool {
		for _, c := range b {
			if c != '_' && (c < from || c > to) {
				return false
			}
		}
		return len(b) > 0
	}
	lower := len(name) > 4 && string(name[:2]) == "__" && string(name[len(name)-2:]) == "__"
	return within(name, 'A', 'Z') || lower && within(name, 'a', 'z')
}

// targets unbinds the names in targets: in a, (b, *c), d.e, f[g] = … those are a, b and c.
func (r *reader) targets(toks []token) {
	r.found = r.found[:0]
	var marks []int // number of names found at each open parenthesis
	for i := 0; i < len(toks); i++ {
		trailed := i+1 < len(toks) && (toks[i+1].kind == '.' || toks[i+1].kind == '[' || toks[i+1].kind == '(')
		switch t := toks[i]; t.kind {
		case word:
			if !trailed && (i == 0 || toks[i-1].kind != '.') {
				r.found = append(r.found, t)
			}
		case '(', '[', '{':
			if i > 0 && ends(toks[i-1].kind) {
				i = pair(toks, i)
				continue
			}
			marks = append(marks, len(r.found))
		case ')', ']', '}':
			if n := len(marks) - 1; n >= 0 {
				if trailed {
					r.found = r.found[:marks[n]]
				}
				marks = marks[:n]
			}
		}
	}
	r.unbindAll(r.found)
}

// ends reports whether a bracket after a token of this kind is a call or an index.
func ends(k kind) bool {
	return k == word || k == str || k == odd || k == number || k == ')' || k == ']' || k == '}'
}

// pair returns the index of the bracket that closes the one at i.
func pair(toks []token, i int) int {
	depth := 0
	for ; i < len(toks); i++ {
		switch toks[i].kind {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return i
}

// imports unbinds the names of an import.
func (r *reader) imports(toks []token) {
	i := 1
	if r.is(toks[0], "from") {
		for i < len(toks) && !r.is(toks[i], "import") {
			i++
		}
		i = min(i+1, len(toks))
	}
	r.found = r.found[:0]
	fresh := true // the next word is the name, so far
	for _, token := range toks[i:] {
		switch {
		case token.kind == ',':
			fresh = true
		case token.kind != word:
		case r.is(token, "as"):
			// The name before isn't bound.
			if !fresh {
				r.found = r.found[:len(r.found)-1]
			}
			fresh = true
		case fresh:
			r.found = append(r.found, token)
			fresh = false
		}
	}
	r.unbindAll(r.found)
}

// unbindAll unbinds names that get a value other than a literal.
func (r *reader) unbindAll(names []token) {
	for _, t := range names {
		r.unbind(t, r.place(int(t.start)), false)
	}
}
