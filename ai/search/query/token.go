package query

import (
	"unicode"
	"unicode/utf8"
)

// maxTerm is the longest word in bytes; texts and queries cut longer ones.
const maxTerm = 100

// A Tokenizer splits texts into terms. Reuse one for its buffers.
type Tokenizer struct {
	run   []byte // folded words and their joining characters, without any other character
	parts []part // of run
	joins int
	open  bool // the last part continues
	pos   int
}

// A part is a word: its place in the run and in the text.
type part struct{ from, to, start, end int }

// A Token is one term of a text.
type Token struct {
	Term       []byte // folded; valid until the next one
	Start, End int    // in the text, in bytes
	Pos        int    // counts words
}

// Each calls yield for every term of text. A run of joined words yields its words, and then itself and the parts
// between its slashes, each at the position of its first word. It returns the number of positions.
func (t *Tokenizer) Each(text string, yield func(Token)) int {
	t.pos = 0
	for i := 0; i < len(text); {
		char := text[i]
		if char < utf8.RuneSelf {
			switch asciiClass[char] {
			case classWord:
				i = t.word(text, i)
				continue
			case classJoin:
				if !t.open || i+1 == len(text) || !startsWord(text[i+1:]) {
					t.flush(yield)
					break
				}
				t.open = false
				t.run = append(t.run, char)
				t.joins++
			default:
				t.flush(yield)
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		t.rune(r, i, n, yield)
		i += n
	}
	t.flush(yield)
	return t.pos
}

// word reads consecutive ASCII characters of a word, and returns their end.
func (t *Tokenizer) word(text string, from int) int {
	i := from
	for ; i < len(text) && text[i] < utf8.RuneSelf && asciiClass[text[i]] == classWord; i++ {
		c := text[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		t.run = append(t.run, c)
	}
	if !t.open {
		to := len(t.run) - (i - from)
		t.parts = append(t.parts, part{from: to, to: to, start: from})
		t.open = true
	}
	p := &t.parts[len(t.parts)-1]
	p.to, p.end = p.to+i-from, i
	return i
}

// rune reads a character outside ASCII.
func (t *Tokenizer) rune(char rune, at, n int, yield func(Token)) {
	switch {
	case alone(char):
		t.open = false
	case isWord(char), t.open && unicode.Is(unicode.M, char):
	default:
		t.flush(yield)
		return
	}
	t.add(at, at+n)
	before := len(t.run)
	t.run = utf8.AppendRune(t.run, fold(char))
	t.parts[len(t.parts)-1].to += len(t.run) - before
	if alone(char) {
		t.open = false
	}
}

// add extends the last part to end, or begins one.
func (t *Tokenizer) add(start, end int) {
	if !t.open {
		t.parts = append(t.parts, part{from: len(t.run), to: len(t.run), start: start})
		t.open = true
	}
	t.parts[len(t.parts)-1].end = end
}

func (t *Tokenizer) flush(yield func(Token)) {
	if len(t.parts) == 0 {
		return
	}
	first := t.pos
	for _, p := range t.parts {
		yield(Token{cut(t.run[p.from:p.to]), p.start, p.end, t.pos})
		t.pos++
	}
	if t.joins > 0 {
		t.joined(first, t.parts, yield)
		t.segments(first, yield)
	}
	t.run, t.parts, t.joins, t.open = t.run[:0], t.parts[:0], 0, false
}

// joined yields several parts as one term.
func (t *Tokenizer) joined(pos int, parts []part, yield func(Token)) {
	last := parts[len(parts)-1]
	if term := t.run[parts[0].from:last.to]; len(parts) > 1 && len(term) <= maxTerm {
		yield(Token{term, parts[0].start, last.end, pos})
	}
}

// segments yields the parts between the slashes of a run.
func (t *Tokenizer) segments(pos int, yield func(Token)) {
	from := 0
	for i := range t.parts {
		last := i+1 == len(t.parts)
		if last && from == 0 {
			return
		}
		if last || t.run[t.parts[i].to] == '/' {
			t.joined(pos+from, t.parts[from:i+1], yield)
			from = i + 1
		}
	}
}

// cut shortens a word between two characters.
func cut(b []byte) []byte {
	if len(b) <= maxTerm {
		return b
	}
	n := maxTerm
	for !utf8.RuneStart(b[n]) {
		n--
	}
	return b[:n]
}

// words returns the words of a text, without joined ones.
func words(text string) []string {
	var t Tokenizer
	var out []string
	last := -1
	t.Each(text, func(k Token) {
		if k.Pos > last {
			out = append(out, string(k.Term))
			last = k.Pos
		}
	})
	return out
}

const (
	classOther = iota
	classWord
	classJoin
)

var asciiClass = func() (c [utf8.RuneSelf]uint8) {
	for b := range c {
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
			c[b] = classWord
		case b == '_' || b == '-' || b == '.' || b == '/':
			c[b] = classJoin
		}
	}
	return c
}()

func isJoin(r rune) bool { return r < utf8.RuneSelf && asciiClass[r] == classJoin }

func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return asciiClass[r] == classWord
	}
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r))
}

func startsWord(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return isWord(r)
}

// alone reports whether a character is a word by itself, as in scripts without spaces between words.
func alone(r rune) bool {
	return r >= 0x2e80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) && isWord(r)
}

// iotaBelow is the only mark whose folded form is a letter; it must not become one.
const iotaBelow = 0x345

// fold returns the same character for all that differ only in case.
func fold(char rune) rune {
	if char < utf8.RuneSelf {
		if 'A' <= char && char <= 'Z' {
			char += 'a' - 'A'
		}
		return char
	}
	if char == iotaBelow {
		char = 'ι'
	}
	least := char
	for next := unicode.SimpleFold(char); next != char; next = unicode.SimpleFold(next) {
		if next != iotaBelow {
			least = min(least, next)
		}
	}
	return unicode.ToLower(least)
}
