package condition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// text reads a condition as text.
func (r *reader) text(s, field string, depth int) *Condition {
	if len(s) > MaxText || !utf8.ValidString(s) {
		r.bad(field, "a condition is UTF-8 text of at most %d bytes", MaxText)
		return new(Condition)
	}
	p := &parser{reader: r, text: s, field: field}
	p.next()
	c := p.or(depth)
	if p.err == "" && p.token != "" {
		p.fail("unexpected %s", p.token)
	}
	if p.err != "" && !r.full {
		r.bad(field, "%s", p.err)
	}
	return c
}

// A parser reads a text, token by token.
type parser struct {
	*reader
	text, field string
	at, start   int    // the start of the next token, and of this one
	token       string // "" at the end
	value       any    // of a number or a string
	literal     bool
	err         string
}

func (p *parser) fail(format string, args ...any) {
	if p.err == "" {
		p.err = fmt.Sprintf("column %d: ", utf8.RuneCountInString(p.text[:p.start])+1) + fmt.Sprintf(format, args...)
	}
	p.token, p.at, p.literal = "", len(p.text), false
}

func isName(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// next reads a token.
func (p *parser) next() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
	p.start, p.literal, p.value = p.at, false, nil
	if p.at == len(p.text) {
		p.token = ""
		return
	}
	rest := p.text[p.at:]
	switch c := rest[0]; {
	case c == '"' || c == '\'':
		p.quoted(c)
		return
	case isDigit(c) || c == '-' && len(rest) > 1 && isDigit(rest[1]):
		p.number(rest)
		return
	case isName(c) && c != '-':
		n := 1
		for n < len(rest) && (isName(rest[n]) || rest[n] == '.') {
			n++
		}
		p.take(n)
		return
	}
	for _, sign := range []string{"==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ",", "*"} {
		if strings.HasPrefix(rest, sign) {
			p.take(len(sign))
			return
		}
	}
	c, _ := utf8.DecodeRuneInString(rest)
	p.fail("unexpected character %q", c)
}

func (p *parser) take(n int) {
	p.token = p.text[p.at : p.at+n]
	p.at += n
}

func (p *parser) number(rest string) {
	n := 1
	for n < len(rest) && (isName(rest[n]) || rest[n] == '.' || rest[n] == '+' &&
		(rest[n-1] == 'e' || rest[n-1] == 'E')) {
		n++
	}
	f, err := strconv.ParseFloat(rest[:n], 64)
	if err != nil || strings.ContainsAny(rest[:n], "_xXpPnN") {
		p.fail("invalid number %q", rest[:n])
		return
	}
	p.take(n)
	p.value, p.literal = f, true
}

func (p *parser) quoted(mark byte) {
	var text strings.Builder
	for i := p.at + 1; i < len(p.text); i++ {
		char := p.text[i]
		switch {
		case char == mark:
			p.take(i + 1 - p.at)
			p.value, p.literal = text.String(), true
			return
		case char == '\\':
			if i++; i == len(p.text) || strings.IndexByte(`\'"`, p.text[i]) < 0 {
				p.fail(`a string has a \ that isn't followed by \, ' or "`)
				return
			}
			char = p.text[i]
		case char < 0x20 || char == 0x7f:
			p.fail("a string has a control character")
			return
		}
		text.WriteByte(char)
	}
	p.fail("a string doesn't end")
}

// is reports whether a token that isn't a literal is next, and takes it.
func (p *parser) is(token string) bool {
	if p.literal || p.token != token {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(token string) {
	if !p.is(token) {
		p.fail("expected %s", token)
	}
}

func (p *parser) or(depth int) *Condition  { return p.joined("any", "or", depth, p.and) }
func (p *parser) and(depth int) *Condition { return p.joined("all", "and", depth, p.not) }

// joined reads one or more conditions with a word between them.
func (p *parser) joined(join, word string, depth int, one func(int) *Condition) *Condition {
	c := one(depth)
	if p.literal || p.token != word {
		return c
	}
	all := &Condition{join: join, parts: []*Condition{c}}
	for p.is(word) {
		all.parts = append(all.parts, one(depth))
	}
	return all
}

func (p *parser) not(depth int) *Condition {
	if !p.room(p.field, depth) {
		p.fail("too many conditions")
		return new(Condition)
	}
	if p.is("not") {
		return &Condition{join: "not", parts: []*Condition{p.not(depth + 1)}}
	}
	if p.is("(") {
		c := p.or(depth + 1)
		p.expect(")")
		return c
	}
	return p.comparison()
}

// signs are the operators in texts.
var signs = map[string]string{"==": "eq", "!=": "ne", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte", "in": "in",
	"contains": "contains", "matches": "regex"}

func (p *parser) comparison() *Condition {
	condition := &Condition{left: p.product(), op: "true"}
	op := signs[p.token]
	if p.literal || op == "" {
		return condition
	}
	condition.op = op
	p.next()
	switch op {
	case "in":
		condition.right.value = p.list()
	case "contains", "regex":
		condition.right.value = p.value
		if !p.literal {
			p.fail("expected a string")
			return condition
		}
		p.next()
	default:
		condition.right = p.product()
		return condition
	}
	if wrong := condition.checked(condition.right.value, true); wrong != "" && p.err == "" {
		p.fail("%s", wrong)
	}
	return condition
}

func (p *parser) list() []any {
	list := []any{}
	p.expect("[")
	for p.err == "" && !p.is("]") {
		if len(list) > 0 {
			p.expect(",")
		}
		o := p.operand()
		if o.path != nil {
			p.fail("a list has only values")
		}
		list = append(list, o.value)
	}
	return list
}

func (p *parser) product() operand {
	o := p.operand()
	if p.literal || p.token != "*" {
		return o
	}
	all := operand{product: []operand{o}}
	for p.is("*") {
		all.product = append(all.product, p.operand())
	}
	return all
}

func (p *parser) operand() (operand operand) {
	words := []string{"and", "or", "not", "in", "contains", "matches"}
	switch {
	case p.literal:
		operand.value = p.value
	case p.token == "true" || p.token == "false":
		operand.value = p.token == "true"
	case p.token == "null":
	case p.token == "" || !isName(p.token[0]) || slices.Contains(words, p.token):
		p.fail("expected a path, a number or a string")
	default:
		if operand.path = strings.Split(p.token, "."); slices.Contains(operand.path, "") {
			p.fail("invalid path %q", p.token)
		}
	}
	if p.err == "" {
		p.next()
	}
	return operand
}
