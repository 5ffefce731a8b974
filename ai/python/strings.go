package python

import (
	"bytes"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/value"
)

// maxStrings bounds how deep f-strings nest in each other and in their formats.
const maxStrings = 50

// The meanings of a string's prefix.
const (
	isRaw = 1 << iota
	isBytes
	isFormat
	isText
)

// prefixOf returns the meaning of one or two letters before a quote, 0 if they are no prefix.
func prefixOf(letters []byte) int {
	pos := 0
	for _, c := range letters {
		bit := 0
		switch c | 0x20 {
		case 'r':
			bit = isRaw
		case 'b':
			bit = isBytes
		case 'f', 't':
			bit = isFormat
		case 'u':
			bit = isText
		}
		if bit == 0 || pos&bit != 0 {
			return 0
		}
		pos |= bit
	}
	// With two letters, one must be r and the other not u.
	if len(letters) == 2 && (pos&isRaw == 0 || pos&isText != 0) {
		return 0
	}
	return pos
}

// quotes returns the quote at an offset and how many of it open the string.
func (s *scanner) quotes(at int) (quote byte, n int) {
	quote = s.src[at]
	if s.at(at+1) == quote && s.at(at+2) == quote {
		return quote, 3
	}
	return quote, 1
}

// closed reports whether n quotes are at an offset.
func (s *scanner) closed(at int, quote byte, n int) bool {
	return s.at(at) == quote && (n == 1 || s.at(at+1) == quote && s.at(at+2) == quote)
}

func (s *scanner) unclosed(from, end int) *fault {
	return s.fault(from, end, "the string is never closed")
}

// plain returns the end of a string whose prefix begins at from and whose quotes begin at quoted.
func (s *scanner) plain(from, quoted int) (int, *fault) {
	quote, n := s.quotes(quoted)
	for i := quoted + n; i < len(s.src); i++ {
		switch c := s.src[i]; {
		case c == quote && s.closed(i, quote, n):
			return i + n, nil
		case c == '\\':
			i++
		case c == '\n' && n == 1:
			return 0, s.unclosed(from, i)
		}
	}
	return 0, s.unclosed(from, len(s.src))
}

// A template is an f-string or a t-string under scanning.
type template struct {
	from  int // where its prefix begins
	quote byte
	n     int // quotes
	raw   bool
	level int
}

// format returns the end of an f-string or a t-string. Its braces contain code, which may contain the string's own
// quotes.
func (s *scanner) format(from, quoted int, raw bool, level int) (int, *fault) {
	if level > maxStrings {
		return 0, s.fault(from, from, "more than %d strings are nested", maxStrings)
	}
	quote, n := s.quotes(quoted)
	template := template{from, quote, n, raw, level}
	for i := quoted + n; i < len(s.src); {
		switch c := s.src[i]; {
		case s.closed(i, quote, n):
			return i + n, nil
		case c == '\n' && n == 1:
			return 0, s.unclosed(from, i)
		case c == '\\':
			i = s.escape(i, template)
		case c == '{' && s.at(i+1) == '{':
			i += 2
		case c == '{':
			var f *fault
			if i, f = s.field(i+1, template); f != nil {
				return 0, f
			}
		default:
			i++
		}
	}
	return 0, s.unclosed(from, len(s.src))
}

// escape skips a backslash and the escaped character. A brace after a backslash remains a brace, but those of
// \N{NAME} aren't.
func (s *scanner) escape(i int, t template) int {
	switch s.at(i + 1) {
	case '{', '}':
		return i + 1
	case 'N':
		if t.raw || s.at(i+2) != '{' {
			return i + 2
		}
		for i += 3; i < len(s.src) && s.src[i] != '}' && s.src[i] != t.quote && s.src[i] != '\n'; {
			i++
		}
		if s.at(i) == '}' {
			i++
		}
		return i
	}
	return i + 2
}

// field returns the end of a replacement field whose brace was read.
func (s *scanner) field(i int, template template) (int, *fault) {
	var open []byte
	for i < len(s.src) {
		switch char := s.src[i]; {
		case char == '}' && len(open) == 0:
			return i + 1, nil
		case char == ':' && len(open) == 0:
			return s.spec(i+1, template)
		case char == '#':
			i = nextLine(s.src, i)
		case char == '"' || char == '\'' || isWord(char):
			var f *fault
			if i, f = s.part(i, template); f != nil {
				return 0, f
			}
		case char == '(' || char == '[' || char == '{':
			if len(open) == maxBrackets {
				return 0, s.fault(template.from, i, "more than %d brackets are nested", maxBrackets)
			}
			open = append(open, char)
			i++
		case char == ')' || char == ']' || char == '}':
			if len(open) == 0 || !closes(open[len(open)-1], char) {
				return 0, s.fault(i, i, "%q closes nothing", char)
			}
			open = open[:len(open)-1]
			i++
		default:
			i++
		}
	}
	return 0, s.unclosed(template.from, len(s.src))
}

// part skips a word, a number or a string in a replacement field.
func (s *scanner) part(from int, template template) (int, *fault) {
	to := from
	for to < len(s.src) && isWord(s.src[to]) {
		to++
	}
	if c := s.at(to); c != '"' && c != '\'' {
		return to, nil
	}
	p := 0
	if to-from <= 2 {
		p = prefixOf(s.src[from:to])
	}
	if p&isFormat != 0 {
		return s.format(from, to, p&isRaw != 0, template.level+1)
	}
	return s.plain(from, to)
}

// spec returns the end of the replacement field whose format spec begins at i.
func (s *scanner) spec(i int, template template) (int, *fault) {
	if template.level++; template.level > maxStrings {
		return 0, s.fault(template.from, i, "more than %d strings are nested", maxStrings)
	}
	for i < len(s.src) {
		switch c := s.src[i]; {
		case c == '}':
			return i + 1, nil
		case s.closed(i, template.quote, template.n), c == '\n' && template.n == 1:
			return 0, s.unclosed(template.from, i)
		case c == '\\':
			i = s.escape(i, template)
		case c == '{':
			var f *fault
			if i, f = s.field(i+1, template); f != nil {
				return 0, f
			}
		default:
			i++
		}
	}
	return 0, s.unclosed(template.from, len(s.src))
}

// texts reads adjacent strings as one text.
func (p *parser) texts() (*value.Value, bool) {
	val := p.value(value.Text)
	first := p.i
	for p.i++; p.kind() == str; {
		p.i++
	}
	if p.kind() == odd {
		return nil, false
	}
	row := p.toks[first:p.i]
	if from, to, raw := p.inside(row[0]); len(row) == 1 && (raw || bytes.IndexByte(p.r.src[from:to], '\\') < 0) {
		val.Text = string(p.r.src[from:to])
	} else {
		var text []byte
		for _, t := range row {
			if from, to, raw := p.inside(t); raw {
				text = append(text, p.r.src[from:to]...)
			} else {
				text = p.unescape(text, from, to)
			}
		}
		val.Text = string(text)
	}
	// Invalid UTF-8 is reported for the file already.
	return val, !p.r.loose || utf8.ValidString(val.Text)
}

// inside returns the range of the text between the quotes, and whether it is raw.
func (p *parser) inside(t token) (from, to int, raw bool) {
	q := int(t.start)
	for isWord(p.r.src[q]) {
		raw = raw || p.r.src[q]|0x20 == 'r'
		q++
	}
	_, n := p.r.quotes(q)
	return q + n, int(t.end) - n, raw
}

// simple are the escapes of one letter.
var simple = [256]byte{'\\': '\\', '\'': '\'', '"': '"', 'a': 7, 'b': 8, 'f': 12, 'n': 10, 'r': 13, 't': 9, 'v': 11}

// unescape appends the value of the inside of a string.
func (p *parser) unescape(text []byte, from, to int) []byte {
	for from < to {
		in := p.r.src[from:to]
		i := bytes.IndexByte(in, '\\')
		if i < 0 {
			return append(text, in...)
		}
		text = append(text, in[:i]...)
		in, from = in[i:], from+i
		if c := in[1]; simple[c] != 0 {
			text = append(text, simple[c])
			from += 2
			continue
		}
		r, n, why, wrong := escaped(in)
		if why != "" && p.odd == nil {
			p.refuse(p.r.place(from), why)
			p.odd.Warning = !wrong
		}
		if r >= 0 {
			text = utf8.AppendRune(text, r)
		}
		from += n
	}
	return text
}

// escaped returns the character of an escape and its length, or -1. why is the reason if it can't be read, and wrong
// means that Python can't read it either.
func escaped(in []byte) (r rune, n int, why string, wrong bool) {
	digits := 0
	switch char := in[1]; {
	case char == '\n':
		return -1, 2, "", false
	case '0' <= char && char <= '7':
		for n = 1; n < 4 && n < len(in) && '0' <= in[n] && in[n] <= '7'; n++ {
			r = r<<3 | rune(in[n]-'0')
		}
		return r, n, "", false
	case char == 'x':
		digits = 2
	case char == 'u':
		digits = 4
	case char == 'U':
		digits = 8
	case char == 'N':
		return -1, 2, `\N{…} is not read: write the character, or \u and its number`, false
	default:
		// Python keeps a backslash without a meaning.
		return '\\', 1, "", false
	}
	var code uint32
	for n = 2; n < 2+digits; n++ {
		if n == len(in) || !isHex(in[n]) {
			return -1, n, "the escape \\" + string(in[1]) + " has too few hexadecimal digits", true
		}
		d := uint32(in[n]&15) + uint32(in[n]>>6)*9
		code = code<<4 | d
	}
	switch {
	case code > utf8.MaxRune:
		return -1, n, "the escape is beyond the last character", true
	case 0xd800 <= code && code < 0xe000:
		return -1, n, "the text has half a surrogate pair", false
	}
	return rune(code), n, "", false
}
