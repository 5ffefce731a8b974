package python

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

const (
	maxTokens   = 1 << 20
	maxBrackets = 200
	maxBlocks   = 100
)

// A kind is the type of a token. The kind of a relevant one-character operator is the character.
type kind uint8

const (
	end    kind = iota
	word        // a name or a keyword
	number      // a number, of any form
	str         // a text
	odd         // bytes, an f-string, a t-string
	augop       // += and the like
	op          // an operator that occurs in no literal or target
)

// A token is a range of the source.
type token struct {
	kind       kind
	start, end int32
}

// A fault is an error in the structure of the file.
type fault struct {
	at      int
	message string
	resume  int // the line at which reading can continue
	end     int // how far the scanner has read
}

// A scanner splits the source into logical lines, which brackets, triple quotes and backslashes join.
type scanner struct {
	src   []byte
	off   int
	toks  []token // of the logical line, if wanted
	cut   bool    // the line has more
	last  kind    // of the logical line's last token
	depth int
	open  [maxBrackets]int32 // the places of the open brackets
}

func (s *scanner) bytes(t token) []byte { return s.src[t.start:t.end] }

// nextLine returns the beginning of the line after off.
func nextLine(src []byte, off int) int {
	if i := bytes.IndexByte(src[off:], '\n'); i >= 0 {
		return off + i + 1
	}
	return len(src)
}

// fault returns a fault at a place. Reading can continue at the next line, or, inside brackets, at the line after the
// first open one, which is probably the one left open.
func (s *scanner) fault(at, end int, format string, args ...any) *fault {
	f := &fault{at: at, message: fmt.Sprintf(format, args...), end: max(at, end)}
	if s.depth > 0 {
		at = int(s.open[0])
	}
	f.resume = nextLine(s.src, at)
	return f
}

// An indent is a line's indentation in two counts, with tabs as up to eight spaces and as one. If the counts order
// lines differently, the file's meaning depends on the width of tabs.
type indent struct{ col, alt int }

// start moves to the first token of the next line that has one, or to the end of the file, which isn't indented.
func (s *scanner) start() (indent, *fault) {
	var ind indent
	joined := 0 // the indentation before the first backslash, which counts
	for s.off < len(s.src) {
		switch s.src[s.off] {
		case ' ':
			ind.col++
			ind.alt++
		case '\t':
			ind.col = (ind.col/8 + 1) * 8
			ind.alt++
		case '\f':
			ind = indent{}
		case '\n':
			ind, joined = indent{}, 0
		case '#':
			s.off = nextLine(s.src, s.off)
			ind, joined = indent{}, 0
			continue
		case '\\':
			if joined == 0 {
				joined = ind.col
			}
			if f := s.join(); f != nil {
				return ind, f
			}
			continue
		default:
			if joined != 0 {
				ind = indent{joined, joined}
			}
			return ind, nil
		}
		s.off++
	}
	return indent{}, nil
}

// blocks are the indentations of the blocks around a line.
type blocks struct{ open []indent }

// enter checks the indentation of the line at off; before means that the line above opened a block.
func (b *blocks) enter(src []byte, off int, ind indent, before bool) *fault {
	// The line itself is valid: reading continues with it.
	bad := func(message string) *fault {
		return &fault{at: off, message: message, resume: bytes.LastIndexByte(src[:off], '\n') + 1, end: off}
	}
	top := func() indent {
		if len(b.open) == 0 {
			return indent{}
		}
		return b.open[len(b.open)-1]
	}
	if ind.col > top().col {
		switch {
		case ind.alt <= top().alt:
			return bad("the indentation mixes tabs and spaces")
		case !before:
			return bad("unexpected indentation")
		case len(b.open) == maxBlocks:
			return bad(fmt.Sprintf("more than %d blocks are nested", maxBlocks))
		}
		b.open = append(b.open, ind)
		return nil
	}
	if before {
		return bad("an indented block is missing")
	}
	for ind.col < top().col {
		b.open = b.open[:len(b.open)-1]
	}
	switch {
	case ind.col != top().col:
		return bad("the indentation is that of no block around it")
	case ind.alt != top().alt:
		return bad("the indentation mixes tabs and spaces")
	}
	return nil
}

// join skips a backslash and the end of its line.
func (s *scanner) join() *fault {
	switch {
	case s.off+1 < len(s.src) && s.src[s.off+1] != '\n':
		return s.fault(s.off, s.off, "the backslash is not the last character of its line")
	case s.off+2 >= len(s.src):
		return s.fault(s.off, s.off, "the file ends after a backslash")
	}
	s.off += 2
	return nil
}

// logical scans the rest of the logical line and its end.
func (s *scanner) logical(keep bool) *fault {
	s.toks, s.cut, s.last, s.depth = s.toks[:0], false, end, 0
	for s.off < len(s.src) {
		switch char := s.src[s.off]; char {
		case ' ', '\t', '\f':
			s.off++
		case '\n':
			s.off++
			if s.depth == 0 {
				return nil
			}
		case '#':
			// Scan the end of the line again.
			if i := bytes.IndexByte(s.src[s.off:], '\n'); i >= 0 {
				s.off += i
			} else {
				s.off = len(s.src)
			}
		case '\\':
			if f := s.join(); f != nil {
				return f
			}
		default:
			from := s.off
			k, to, f := s.token(char)
			if f != nil {
				return f
			}
			s.off, s.last = to, k
			if !keep {
				continue
			}
			if len(s.toks) < maxTokens {
				s.toks = append(s.toks, token{k, int32(from), int32(to)})
			} else {
				s.cut = true
			}
		}
	}
	if s.depth > 0 {
		in := int(s.open[s.depth-1])
		return s.fault(in, len(s.src), "the %q is never closed", s.src[in:in+1])
	}
	return nil
}

// token returns the kind and the end of the token that begins at the offset, with char.
func (s *scanner) token(char byte) (kind, int, *fault) {
	switch {
	case isDigit(char) || char == '.' && isDigit(s.at(s.off+1)):
		to, f := s.number(s.off)
		return number, to, f
	case isWord(char):
		return s.word()
	}
	switch char {
	case '"', '\'':
		to, f := s.plain(s.off, s.off)
		return str, to, f
	case '(', '[', '{':
		if s.depth == maxBrackets {
			return end, 0, s.fault(s.off, s.off, "more than %d brackets are nested", maxBrackets)
		}
		s.open[s.depth] = int32(s.off)
		s.depth++
		return kind(char), s.off + 1, nil
	case ')', ']', '}':
		if s.depth == 0 {
			return end, 0, s.fault(s.off, s.off, "%q closes nothing", char)
		}
		if open := s.src[s.open[s.depth-1]]; !closes(open, char) {
			return end, 0, s.fault(s.off, s.off, "%q where %q is open", char, open)
		}
		s.depth--
		return kind(char), s.off + 1, nil
	}
	return s.operator(char)
}

// closes reports whether two brackets are a pair.
func closes(open, c byte) bool { return open == '(' && c == ')' || open != '(' && c == open+2 }

// at returns the byte at an offset, 0 after the end.
func (s *scanner) at(i int) byte {
	if i < len(s.src) {
		return s.src[i]
	}
	return 0
}

// operator returns a token that isn't a word, a number, a string or a bracket.
func (s *scanner) operator(char byte) (kind, int, *fault) {
	next, to := s.at(s.off+1), s.off+1
	switch char {
	case ',', ';':
		return kind(char), to, nil
	case '.':
		if next == '.' && s.at(to+1) == '.' {
			return op, to + 2, nil
		}
		return '.', to, nil
	case '=', ':':
		if next == '=' {
			return op, to + 1, nil
		}
		return kind(char), to, nil
	case '!':
		if next == '=' {
			return op, to + 1, nil
		}
	case '~':
		return op, to, nil
	case '-':
		if next == '>' {
			return op, to + 1, nil
		}
		fallthrough
	case '+', '*', '/', '%', '@', '&', '|', '^', '<', '>':
		twice := next == char && (char == '*' || char == '/' || char == '<' || char == '>')
		if twice {
			to++
			next = s.at(to)
		}
		if next != '=' {
			if twice {
				return op, to, nil
			}
			return kind(char), to, nil
		}
		if !twice && (char == '<' || char == '>') {
			return op, to + 1, nil
		}
		return augop, to + 1, nil
	}
	return end, 0, s.strange(s.off)
}

// strange returns the fault of a character that belongs to no token.
func (s *scanner) strange(at int) *fault {
	r, n := utf8.DecodeRune(s.src[at:])
	if r == utf8.RuneError && n == 1 {
		return s.fault(at, at, "byte 0x%02x is not UTF-8", s.src[at])
	}
	return s.fault(at, at, "the character %q (%U) belongs to no token", r, r)
}

// word returns the name, keyword or prefixed string at the offset.
func (s *scanner) word() (kind, int, *fault) {
	to, foreign := s.off+1, s.src[s.off] >= utf8.RuneSelf
	for ; to < len(s.src) && isWord(s.src[to]); to++ {
		foreign = foreign || s.src[to] >= utf8.RuneSelf
	}
	if c := s.at(to); (c == '"' || c == '\'') && to-s.off <= 2 {
		switch p := prefixOf(s.src[s.off:to]); {
		case p == 0:
		case p&isFormat != 0:
			to, f := s.format(s.off, to, p&isRaw != 0, 0)
			return odd, to, f
		default:
			to, f := s.plain(s.off, to)
			if p&isBytes != 0 {
				return odd, to, f
			}
			return str, to, f
		}
	}
	if foreign {
		if i := misfit(s.src[s.off:to]); i >= 0 {
			return end, 0, s.strange(s.off + i)
		}
	}
	return word, to, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isWord reports whether a byte may be part of a name. misfit checks characters outside ASCII later.
func isWord(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || isDigit(c) || c >= utf8.RuneSelf
}

// misfit returns the offset of the first character that a name can't have in its place, or -1.
func misfit(name []byte) int {
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRune(name[i:])
		first := r == '_' || unicode.In(r, unicode.L, unicode.Nl, unicode.Other_ID_Start)
		if !first && (i == 0 || !unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc,
			unicode.Other_ID_Continue)) {
			return i
		}
		i += n
	}
	return -1
}

// number returns the end of the number at from.
func (s *scanner) number(from int) (int, *fault) {
	if s.src[from] == '0' {
		var digit func(byte) bool
		switch s.at(from+1) | 0x20 {
		case 'x':
			digit = isHex
		case 'o':
			digit = func(c byte) bool { return '0' <= c && c <= '7' }
		case 'b':
			digit = func(c byte) bool { return c == '0' || c == '1' }
		}
		if digit != nil {
			i := from + 2
			if s.at(i) == '_' {
				i++
			}
			return s.endNumber(from, s.digits(i, digit), i)
		}
	}
	i := s.digits(from, isDigit)
	whole := i
	if s.at(i) == '.' {
		i++
		if isDigit(s.at(i)) {
			i = s.digits(i, isDigit)
		}
	}
	if s.at(i)|0x20 == 'e' {
		j := i + 1
		if c := s.at(j); c == '+' || c == '-' {
			j++
		}
		if isDigit(s.at(j)) {
			i = s.digits(j, isDigit)
		}
	}
	if s.at(i)|0x20 == 'j' {
		i++
	}
	if i == whole && s.src[from] == '0' && len(bytes.Trim(s.src[from:i], "0_")) > 0 {
		return 0, s.fault(from, i, "the number begins with a zero")
	}
	return s.endNumber(from, i, from)
}

// digits returns the end of digits with single underscores between them.
func (s *scanner) digits(i int, digit func(byte) bool) int {
	for digit(s.at(i)) || s.at(i) == '_' && digit(s.at(i+1)) && digit(s.src[i-1]) {
		i++
	}
	return i
}

// endNumber checks that the number has digits, and what follows it: Python reads 1if x else 2, but no other name
// there.
func (s *scanner) endNumber(from, to, first int) (int, *fault) {
	good := to > first
	if good && isWord(s.at(to)) {
		good = false
		for _, keyword := range []string{"and", "else", "for", "if", "in", "is", "or", "not"} {
			good = good || bytes.HasPrefix(s.src[to:], []byte(keyword))
		}
	}
	if !good {
		return 0, s.fault(from, to, "the number is malformed")
	}
	return to, nil
}

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
