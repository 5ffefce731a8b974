package template

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

func unknownVariable(name string, column int) error {
	return fmt.Errorf("column %d of the template: the variable %q is not set and has no default, as in ${%s:-…}",
		column, name, name)
}

func unknownName(name string, column int) error {
	return fmt.Errorf("column %d of the template: unknown name %q; write {{%s}} for the literal text", column, name,
		name)
}

// notGiven returns the error for a declared parameter without a value.
func notGiven(name string, column int) error {
	return fmt.Errorf("column %d of the template: the parameter %q was not given", column, name)
}

// A piece of a template is literal text, a variable or a name.
type piece struct {
	kind       pieceKind
	text       string // the literal text, or the name
	other      string // the default of a variable
	hasDefault bool
	at         int // in bytes
}

type pieceKind uint8

const (
	plain pieceKind = iota
	variable
	name
)

// split splits a template into its pieces.
func split(text string) ([]piece, error) {
	scanner := scanner{text: text}
	for {
		brace := strings.IndexByte(text[scanner.pos:], '{')
		if brace < 0 {
			scanner.literal(len(text))
			return scanner.pieces, nil
		}
		at := scanner.pos + brace
		var err error
		if at > scanner.from && text[at-1] == '$' {
			err = scanner.dollar(at)
		} else {
			scanner.brace(at)
		}
		if err != nil {
			return nil, err
		}
	}
}

// A scanner has scanned a text up to pos, and added it to pieces up to from.
type scanner struct {
	text      string
	from, pos int
	pieces    []piece
}

// literal adds the text up to end as a piece.
func (s *scanner) literal(end int) {
	if end > s.from {
		s.pieces = append(s.pieces, piece{text: s.text[s.from:end], at: s.from})
	}
	s.from, s.pos = end, end
}

// brace scans text that begins with a brace.
func (s *scanner) brace(at int) {
	rest := s.text[at+1:]
	doubled := strings.HasPrefix(rest, "{")
	if doubled {
		rest = rest[1:]
	}
	n := nameLen(rest)
	switch {
	case n > 0 && doubled && strings.HasPrefix(rest[n:], "}}"):
		s.literal(at)
		s.from = at + 1
		s.pos = at + 2 + n
		s.literal(s.pos + 1)
		s.from, s.pos = s.from+1, s.pos+1
	case n > 0 && !doubled && strings.HasPrefix(rest[n:], "}"):
		s.literal(at)
		s.pieces = append(s.pieces, piece{kind: name, text: rest[:n], at: at})
		s.from = at + n + 2
		s.pos = s.from
	default:
		s.pos = at + 1
	}
}

// dollar scans text that begins with a dollar sign and a brace.
func (s *scanner) dollar(at int) error {
	rest := s.text[at+1:]
	n := variableLen(rest)
	if n == 0 {
		s.pos = at + 1
		for s.pos < len(s.text) && s.text[s.pos] == '{' {
			s.pos++
		}
		// The word inside isn't a name either.
		s.pos += wordLen(s.text[s.pos:])
		return nil
	}
	if at-2 >= s.from && s.text[at-2] == '$' {
		s.literal(at - 2)
		s.from, s.pos = at-1, at+1
		return nil
	}
	piece := piece{kind: variable, text: rest[:n], at: at - 1}
	rest = rest[n:]
	if after, ok := strings.CutPrefix(rest, ":-"); ok {
		end := strings.IndexAny(after, "{}")
		if end < 0 || after[end] == '{' {
			return s.errorf(at-1, "the default of ${%s is unterminated or contains a brace", piece.text)
		}
		piece.other, piece.hasDefault, rest = after[:end], true, after[end:]
	}
	if !strings.HasPrefix(rest, "}") {
		return s.errorf(at-1, "invalid ${%s: expected ${%s} or ${%s:-default}, or $${%s for the literal text",
			piece.text,
			piece.text, piece.text, piece.text)
	}
	s.literal(at - 1)
	s.pieces = append(s.pieces, piece)
	s.from = len(s.text) - len(rest) + 1
	s.pos = s.from
	return nil
}

func (s *scanner) errorf(at int, format string, args ...any) error {
	return fmt.Errorf("column %d of the template: %s", column(s.text, at), fmt.Sprintf(format, args...))
}

func column(text string, at int) int { return utf8.RuneCountInString(text[:at]) + 1 }

// ofParams is the prefix that makes a name a parameter's.
const ofParams = "params."

// nameLen returns the length of the name at the beginning of a text, with its prefix.
func nameLen(s string) int {
	if rest, ok := strings.CutPrefix(s, ofParams); ok {
		if n := wordLen(rest); n > 0 {
			return len(ofParams) + n
		}
	}
	return wordLen(s)
}

// wordLen returns the length of the word at the beginning of a text.
func wordLen(s string) int {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c != '-' && (c < '0' || '9' < c)) {
			return i
		}
	}
	return len(s)
}

// variableLen returns the length of the variable name at the beginning of a text; 0 for a word with lower-case
// letters.
func variableLen(s string) int {
	n := 0
	for n < len(s) {
		c := s[n]
		if 'A' <= c && c <= 'Z' || c == '_' || n > 0 && '0' <= c && c <= '9' {
			n++
			continue
		}
		if 'a' <= c && c <= 'z' {
			return 0
		}
		break
	}
	return n
}

// Literal returns the template of a text that is the same text: nothing in it is a variable or a name. A name may
// follow it unless the text ends with $ or {.
func Literal(text string) string {
	var out strings.Builder
	from, pos := 0, 0 // text is written up to from
	for {
		brace := strings.IndexByte(text[pos:], '{')
		if brace < 0 {
			out.WriteString(text[from:])
			return out.String()
		}
		at := pos + brace
		rest := text[at+1:]
		pos = at + 1
		if at > 0 && text[at-1] == '$' {
			if variableLen(rest) == 0 { // literal already, with the word inside
				word := strings.TrimLeft(rest, "{")
				pos = len(text) - len(word) + wordLen(word)
				continue
			}
			out.WriteString(text[from:at] + "${")
			from = pos
		} else if n := nameLen(rest); n > 0 && strings.HasPrefix(rest[n:], "}") {
			pos += n + 1
			out.WriteString(text[from:at] + "{" + text[at:pos] + "}")
			from = pos
		}
	}
}

// Expand fills a template with the values of variables and names. Either function may be nil.
func Expand(text string, variableOf, nameOf func(string) (string, bool)) (string, error) {
	pieces, err := split(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for i := range pieces {
		piece := &pieces[i]
		switch piece.kind {
		case plain:
			out.WriteString(piece.text)
		case variable:
			v, err := piece.variable(text, variableOf)
			if err != nil {
				return "", err
			}
			out.WriteString(v)
		case name:
			v, ok := "", false
			if nameOf != nil {
				v, ok = nameOf(piece.text)
			}
			if !ok {
				return "", unknownName(piece.text, column(text, piece.at))
			}
			out.WriteString(v)
		}
	}
	return out.String(), nil
}

// variable returns the value of a variable.
func (p *piece) variable(text string, of func(string) (string, bool)) (string, error) {
	v, ok := "", false
	if of != nil {
		v, ok = of(p.text)
	}
	switch {
	case p.hasDefault && v == "":
		return p.other, nil
	case !ok:
		return "", unknownVariable(p.text, column(text, p.at))
	}
	return v, nil
}
