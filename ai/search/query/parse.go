package query

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

const (
	// MaxQuery bounds the text of a query, in bytes.
	MaxQuery = 4096
	// MaxWords bounds the words of a query.
	MaxWords = 100
	maxDepth = 50
	maxNear  = 1000
	maxFuzzy = 2
	nearby   = 5 // the distance of "a b"~
)

// A ParseError reports the place of an error in a query, with a hint.
type ParseError struct {
	Column int // in characters, from 1
	Msg    string
	Hint   string // may be ""
}

// Fault returns the error with its code and hint.
func (e *ParseError) Fault() *fault.Error {
	f := fault.New(fault.Validation, "invalid query: %s", e.Msg).From(e).On("column", e.Column).On("hint",
		e.Hint).Try("rye help search")
	if e.Hint != "" {
		f.Because(e.Hint)
	}
	return f
}

func (e *ParseError) Error() string {
	s := fmt.Sprintf("query, column %d: %s", e.Column, e.Msg)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Parse reads a query. Errors are of type *ParseError. An empty query finds everything.
func Parse(text string) (*Query, error) {
	queryParser := &queryParser{text: text}
	switch {
	case len(text) > MaxQuery:
		return nil, &ParseError{1, fmt.Sprintf("the query has %d bytes", len(text)),
			fmt.Sprintf("at most %d are possible", MaxQuery)}
	case !utf8.ValidString(text):
		for i, r := range text {
			if r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd") {
				return nil, queryParser.fail(i, "not UTF-8", "")
			}
		}
	}
	if queryParser.space() {
		return &Query{}, nil
	}
	root, err := queryParser.or("")
	if err != nil {
		return nil, err
	}
	if queryParser.at < len(text) { // or stops only at the end and before a closing parenthesis
		return nil, queryParser.fail(queryParser.at, `this ")" closes no "("`,
			"leave it out, or put the text in quotes")
	}
	return &Query{root}, nil
}

// A queryParser reads the text once, from left to right.
type queryParser struct {
	text  string
	at    int
	depth int
	words int
}

func (p *queryParser) fail(at int, msg, hint string) *ParseError {
	return &ParseError{1 + utf8.RuneCountInString(p.text[:at]), msg, hint}
}

// space skips space and reports whether the text ends there.
func (p *queryParser) space() bool {
	rest := strings.TrimLeftFunc(p.text[p.at:], unicode.IsSpace)
	p.at = len(p.text) - len(rest)
	return rest == ""
}

// keyword returns the operator at the current place, or "".
func (p *queryParser) keyword() string {
	w := p.word()
	switch w {
	case "AND", "OR", "NOT":
		return w
	}
	return ""
}

// word returns the characters up to the next space, parenthesis or quote.
func (p *queryParser) word() string {
	rest := p.text[p.at:]
	end := strings.IndexFunc(rest, func(r rune) bool { return r == '(' || r == ')' || r == '"' || unicode.IsSpace(r) })
	if end < 0 {
		return rest
	}
	return rest[:end]
}

// ends reports whether a sequence ends here.
func (p *queryParser) ends() bool { return p.space() || p.text[p.at] == ')' }

func (p *queryParser) or(field string) (*Node, error) {
	var kids []*Node
	for {
		n, err := p.and(field)
		if err != nil {
			return nil, err
		}
		kids = append(kids, n)
		if p.ends() {
			return join(Or, kids), nil
		}
		if err := p.operator("OR"); err != nil { // and stops only at the end and before OR
			return nil, err
		}
	}
}

func (p *queryParser) and(field string) (*Node, error) {
	var kids []*Node
	for {
		n, err := p.not(field)
		if err != nil {
			return nil, err
		}
		kids = append(kids, n)
		if p.ends() {
			return join(And, kids), nil
		}
		switch p.keyword() {
		case "OR":
			return join(And, kids), nil
		case "AND":
			if err := p.operator("AND"); err != nil {
				return nil, err
			}
		}
	}
}

// operator consumes an operator, after which something must follow.
func (p *queryParser) operator(name string) error {
	at := p.at
	p.at += len(name)
	if p.ends() {
		return p.fail(at, fmt.Sprintf("nothing follows %q", name), plainWord(name))
	}
	return nil
}

func plainWord(name string) string {
	return fmt.Sprintf("write %q for the word", strings.ToLower(name))
}

func (p *queryParser) not(field string) (*Node, error) {
	at := p.at
	switch {
	case p.keyword() == "NOT":
		if err := p.operator("NOT"); err != nil {
			return nil, err
		}
	case p.text[p.at] == '-' && !strings.HasPrefix(p.text[p.at:], "--"): // --json is a word
		p.at++
		if r, _ := utf8.DecodeRuneInString(p.text[p.at:]); p.at == len(p.text) || unicode.IsSpace(r) || r == ')' {
			return nil, p.fail(at, `nothing follows "-"`, `write the word after it without a space, or leave it out`)
		}
	default:
		return p.primary(field)
	}
	if err := p.enter(at); err != nil {
		return nil, err
	}
	defer p.leave()
	n, err := p.not(field)
	if err != nil {
		return nil, err
	}
	return &Node{Op: Not, Kids: []*Node{n}}, nil
}

func (p *queryParser) enter(at int) error {
	if p.depth++; p.depth > maxDepth {
		return p.fail(at, fmt.Sprintf("nested more than %d deep", maxDepth), "")
	}
	return nil
}

func (p *queryParser) leave() { p.depth-- }

func (p *queryParser) primary(field string) (*Node, error) {
	switch p.text[p.at] {
	case '(':
		return p.group(field)
	case ')':
		return nil, p.fail(p.at, `this ")" closes no "("`, "leave it out, or put the text in quotes")
	case '"':
		return p.phrase(field)
	}
	if k := p.keyword(); k != "" {
		return nil, p.fail(p.at, fmt.Sprintf("nothing precedes %q", k), plainWord(k))
	}
	w := p.word()
	if name, rest, ok := strings.Cut(w, ":"); ok && isFieldName(name) {
		return p.fielded(field, strings.ToLower(name), rest)
	}
	return p.term(field, w)
}

func isFieldName(s string) bool {
	return portable.Spelled(s, portable.Letters, portable.Digits+"._-", len(s))
}

// fielded reads the value after "name:"; rest is the part in the same word.
func (p *queryParser) fielded(field, name, rest string) (*Node, error) {
	at := p.at
	if field != "" {
		return nil, p.fail(at, fmt.Sprintf("the field %q within the field %q", name, field),
			"put the text in quotes if it is no field")
	}
	p.at += len(name) + 1
	switch {
	case rest != "":
		return p.term(name, rest)
	case p.at < len(p.text) && p.text[p.at] == '(':
		return p.group(name)
	case p.at < len(p.text) && p.text[p.at] == '"':
		return p.phrase(name)
	}
	return nil, p.fail(at, fmt.Sprintf("nothing follows %q", name+":"),
		`write the word after it without a space, or put the text in quotes`)
}

func (p *queryParser) group(field string) (*Node, error) {
	at := p.at
	if err := p.enter(at); err != nil {
		return nil, err
	}
	defer p.leave()
	p.at++
	if p.ends() {
		if p.at == len(p.text) {
			return nil, p.fail(at, `this "(" is not closed`, `add ")", or put the text in quotes`)
		}
		return nil, p.fail(at, "nothing between the parentheses", "leave them out")
	}
	n, err := p.or(field)
	if err != nil {
		return nil, err
	}
	if p.at == len(p.text) {
		return nil, p.fail(at, `this "(" is not closed`, `add ")", or put the text in quotes`)
	}
	p.at++
	return n, nil
}

// phrase reads a text in quotes, in which \" and \\ stand for " and \.
func (p *queryParser) phrase(field string) (*Node, error) {
	start := p.at
	var text strings.Builder
	i := start + 1
	for ; i < len(p.text) && p.text[i] != '"'; i++ {
		if p.text[i] == '\\' && i+1 < len(p.text) && (p.text[i+1] == '"' || p.text[i+1] == '\\') {
			i++
		}
		text.WriteByte(p.text[i])
	}
	if i >= len(p.text) {
		return nil, p.fail(start, "this quote is not closed", `add "\""`)
	}
	p.at = i + 1
	n := 0
	if suffix := p.word(); strings.HasPrefix(suffix, "~") {
		at := p.at
		p.at += len(suffix)
		n = nearby
		if digits := suffix[1:]; digits != "" {
			var err error
			if n, err = strconv.Atoi(digits); err != nil || n < 0 || n > maxNear || digits[0] == '+' {
				return nil, p.fail(at, fmt.Sprintf("%q is no distance", suffix),
					fmt.Sprintf("write ~ and a number up to %d", maxNear))
			}
		}
	}
	return p.wordsOf(start, field, text.String(), n)
}

// wordsOf makes a leaf from the words of a text.
func (p *queryParser) wordsOf(at int, field, text string, near int) (*Node, error) {
	w := words(text)
	p.words += len(w)
	switch {
	case len(w) == 0:
		return nil, p.fail(at, "no letter and no digit to look for", "")
	case p.words > MaxWords:
		return nil, p.fail(at, fmt.Sprintf("more than %d words", MaxWords), "")
	case len(w) == 1:
		return &Node{Op: Word, Field: field, Words: w}, nil
	}
	return &Node{Op: Phrase, Field: field, Words: w, N: near}, nil
}

// term reads a word outside of quotes that ends where word ends.
func (p *queryParser) term(field, word string) (*Node, error) {
	at := p.at
	p.at += len(word)
	distance := 0
	if i := strings.LastIndexByte(word, '~'); i > 0 && strings.Trim(word[i+1:], "0123456789") == "" {
		distance = 1
		if digits := word[i+1:]; digits != "" {
			var err error
			if distance, err = strconv.Atoi(digits); err != nil || distance > maxFuzzy {
				return nil, p.fail(at, fmt.Sprintf("the distance %q is too large", word[i:]),
					fmt.Sprintf("at most ~%d is possible", maxFuzzy))
			}
		}
		word = word[:i]
	}
	wild := strings.ContainsAny(word, "*?")
	switch {
	case wild && distance > 0:
		return nil, p.fail(at, "a word with wildcards can't be fuzzy", "leave out one of them")
	case !wild && distance == 0:
		return p.wordsOf(at, field, word, 0)
	}
	text, letters, ok := foldPattern(word)
	switch {
	case !ok:
		return nil, p.fail(at, fmt.Sprintf("%q is not one word", word),
			"use wildcards and ~ with words only, or put the text in quotes")
	case letters == 0 && wild:
		return nil, p.fail(at, "wildcards without a letter or digit", "an empty query finds everything")
	case letters == 0:
		return nil, p.fail(at, "no letter and no digit to look for", "")
	}
	if p.words++; p.words > MaxWords {
		return nil, p.fail(at, fmt.Sprintf("more than %d words", MaxWords), "")
	}
	n := &Node{Op: Pattern, Field: field, Words: []string{text}, N: distance}
	if distance > 0 {
		n.Op = Fuzzy
	}
	return n, nil
}

// foldPattern folds a word with possible wildcards and counts its other characters. ok reports whether any term can
// match it.
func foldPattern(w string) (text string, letters int, ok bool) {
	var data []byte
	for _, r := range strings.Trim(w, "_-./") {
		switch {
		case r == '*' && strings.HasSuffix(string(data), "*"):
			continue
		case r == '*' || r == '?' || isJoin(r):
		case isWord(r) || unicode.Is(unicode.M, r):
			letters++
		default:
			return "", 0, false
		}
		data = utf8.AppendRune(data, fold(r))
	}
	return string(data), letters, len(data) <= 2*maxTerm
}
