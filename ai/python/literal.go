package python

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/rye-build/rye/ai/value"
)

const (
	maxDepth  = 100
	maxDigits = 4300 // Python's own limit for decimals
)

// A parser reads one literal from an expression's tokens.
type parser struct {
	r     *reader
	toks  []token
	i     int
	field string           // the name that gets the literal
	odd   *value.Problem   // why this literal has no JSON value
	twice []*value.Problem // duplicate keys
	void  value.Value
}

// literal reads an expression. It returns nil for anything but a literal, with a problem if Python has a value that
// JSON lacks.
func (r *reader) literal(toks []token, field string) (*value.Value, *value.Problem) {
	parser := parser{r: r, toks: toks, field: field}
	if len(toks) == 0 {
		return nil, nil
	}
	if r.cut {
		parser.refuse(parser.place(), fmt.Sprintf("the line has more than %d tokens", maxTokens))
		return nil, parser.odd
	}
	val, _, ok := parser.expression(0)
	if ok && parser.kind() == ',' {
		parser.i++
		list := &value.Value{Kind: value.List, At: val.At, Items: []*value.Value{val}}
		ok = parser.elements(end, 0, list, nil)
		val = list
	}
	if !ok || parser.i != len(toks) {
		return nil, nil
	}
	if parser.odd != nil {
		return nil, parser.odd
	}
	r.warn(parser.twice...)
	return val, nil
}

// kind returns the kind of the next token.
func (p *parser) kind() kind {
	if p.i < len(p.toks) {
		return p.toks[p.i].kind
	}
	return end
}

// value returns a value for the next token.
func (p *parser) value(k value.Kind) *value.Value {
	return p.valueAt(k, p.place())
}

// place returns the place of the next token.
func (p *parser) place() value.Pos { return p.r.place(int(p.toks[p.i].start)) }

// valueAt returns a value. Once the literal is refused, it returns the same one each time.
func (p *parser) valueAt(k value.Kind, at value.Pos) *value.Value {
	if p.r.values++; p.r.values > maxValues {
		p.refuse(at, fmt.Sprintf("the file has more than %d values", maxValues))
	}
	if p.odd != nil {
		p.void = value.Value{Kind: k, At: at}
		return &p.void
	}
	if len(p.r.slab) == 0 {
		p.r.slab = make([]value.Value, 8)
	}
	v := &p.r.slab[0]
	p.r.slab = p.r.slab[1:]
	v.Kind, v.At = k, at
	return v
}

// refuse records the first reason why the literal is refused. Reading continues, because it may be no literal at all.
func (p *parser) refuse(at value.Pos, why string) {
	if p.odd == nil {
		p.odd = &value.Problem{At: at, Field: p.field, Message: why, Warning: true}
	}
}

// expression reads a value, and whether Python can hash it; ok is false for anything but a literal.
func (p *parser) expression(depth int) (val *value.Value, hashable, ok bool) {
	switch p.kind() {
	case str:
		val, ok = p.texts()
		return val, true, ok
	case number, '-', '+':
		val, ok = p.number()
		return val, true, ok
	case word:
		return p.word()
	case '(', '[', '{':
		if depth++; depth > maxDepth {
			p.refuse(p.place(), fmt.Sprintf("the value is nested more than %d deep", maxDepth))
		}
		switch p.kind() {
		case '(':
			return p.parens(depth)
		case '{':
			return p.braces(depth)
		}
		val = p.value(value.List)
		p.i++
		return val, false, p.elements(']', depth, val, nil)
	}
	return nil, false, false
}

// word reads a constant, or set().
func (p *parser) word() (*value.Value, bool, bool) {
	switch string(p.r.bytes(p.toks[p.i])) {
	case "None":
		v := p.value(value.Null)
		p.i++
		return v, true, true
	case "True", "False":
		v := p.value(value.Bool)
		v.Text = "false"
		if p.r.src[p.toks[p.i].start] == 'T' {
			v.Text = "true"
		}
		p.i++
		return v, true, true
	case "set":
		v := p.value(value.List)
		p.i++
		if p.kind() != '(' {
			return nil, false, false
		}
		p.i++
		return v, false, p.close(')')
	}
	return nil, false, false
}

// close reads one token.
func (p *parser) close(k kind) bool {
	if p.kind() != k {
		return false
	}
	p.i++
	return true
}

// elements reads the rest of a list up to the token last, and clears hashable if an element can't be hashed.
func (p *parser) elements(last kind, depth int, list *value.Value, hashable *bool) bool {
	for p.kind() != last {
		v, hash, ok := p.expression(depth)
		if !ok {
			return false
		}
		if hashable != nil {
			*hashable = *hashable && hash
		}
		if p.odd == nil {
			list.Items = append(list.Items, v)
		}
		if p.kind() != ',' {
			break
		}
		p.i++
	}
	return last == end || p.close(last)
}

// parens reads a tuple, or an expression in parentheses.
func (p *parser) parens(depth int) (*value.Value, bool, bool) {
	at := p.place()
	p.i++
	if p.kind() == ')' {
		p.i++
		return p.valueAt(value.List, at), true, true
	}
	v, hashable, ok := p.expression(depth)
	if !ok || p.kind() != ',' {
		return v, hashable, ok && p.close(')')
	}
	p.i++
	list := p.valueAt(value.List, at)
	if p.odd == nil {
		list.Items = []*value.Value{v}
	}
	ok = p.elements(')', depth, list, &hashable)
	return list, hashable, ok
}

// braces reads a map or a set.
func (p *parser) braces(depth int) (*value.Value, bool, bool) {
	val := p.value(value.Map)
	p.i++
	if p.kind() == '}' {
		p.i++
		return val, false, true
	}
	first, hashable, ok := p.expression(depth)
	if !ok || !hashable {
		return nil, false, false
	}
	if p.kind() == ':' {
		return val, false, p.entries(first, depth, val)
	}
	val.Kind = value.List
	if p.odd == nil {
		val.Items = append(val.Items, first)
	}
	if p.kind() == ',' {
		p.i++
		if !p.elements('}', depth, val, &hashable) {
			return nil, false, false
		}
		return val, false, hashable
	}
	return val, false, p.close('}')
}

// entries reads the rest of a map after its first key.
func (p *parser) entries(key *value.Value, depth int, val *value.Value) bool {
	var index map[string]int
	for {
		if p.odd == nil && key.Kind != value.Text {
			p.refuse(key.At, "a key is no text")
		}
		if p.kind() != ':' {
			return false
		}
		name, at := key.Text, key.At
		p.i++
		v, _, ok := p.expression(depth)
		if !ok {
			return false
		}
		if p.odd == nil {
			index = p.put(val, index, value.Entry{Key: name, At: at, Value: v})
		}
		if p.kind() != ',' {
			return p.close('}')
		}
		p.i++
		if p.kind() == '}' {
			p.i++
			return true
		}
		var hashable bool
		if key, hashable, ok = p.expression(depth); !ok || !hashable {
			return false
		}
	}
}

// put adds an entry. A repeated key keeps its place and gets the new value, as in Python. The index exists only for
// large maps.
func (p *parser) put(val *value.Value, index map[string]int, entry value.Entry) map[string]int {
	const small = 16
	at, twice := -1, false
	if index == nil {
		for i := range val.Map {
			if val.Map[i].Key == entry.Key {
				at, twice = i, true
			}
		}
	} else {
		at, twice = index[entry.Key]
	}
	if twice {
		val.Map[at] = entry
		if len(p.twice) < maxProblems {
			p.twice = append(p.twice, &value.Problem{At: entry.At, Field: p.field, Warning: true,
				Message: fmt.Sprintf("the key %q is there twice: the last one counts", entry.Key)})
		}
		return index
	}
	val.Map = append(val.Map, entry)
	if index != nil {
		index[entry.Key] = len(val.Map) - 1
	} else if len(val.Map) == small {
		index = make(map[string]int, 2*small)
		for i := range val.Map {
			index[val.Map[i].Key] = i
		}
	}
	return index
}

// number reads a number with an optional sign, in optional parentheses after the sign.
func (p *parser) number() (*value.Value, bool) {
	val := p.value(value.Int)
	minus, signed := p.kind() == '-', p.kind() != number
	if signed {
		p.i++
	}
	parens := 0
	for ; signed && p.kind() == '('; p.i++ {
		parens++
	}
	if p.kind() != number {
		return nil, false
	}
	text := p.r.bytes(p.toks[p.i])
	p.i++
	for range parens {
		if !p.close(')') {
			return nil, false
		}
	}
	if text[len(text)-1]|0x20 == 'j' {
		return nil, false
	}
	if p.odd != nil {
		return val, true
	}
	digits := strings.ReplaceAll(string(text), "_", "")
	why := ""
	hex := len(digits) > 1 && digits[1]|0x20 == 'x'
	if !hex && strings.ContainsAny(digits, ".eE") {
		val.Kind = value.Float
		val.Text, why = float(digits)
	} else {
		val.Text, why = integer(digits)
	}
	if why != "" {
		p.refuse(val.At, why)
	}
	if minus && val.Text != "0" {
		val.Text = "-" + val.Text
	}
	return val, true
}

// integer returns an integer in decimal, or the reason why it can't.
func integer(digits string) (string, string) {
	if len(digits) > maxDigits {
		return "", fmt.Sprintf("an integer of more than %d digits is not read", maxDigits)
	}
	base := 10
	if len(digits) > 1 {
		switch digits[1] | 0x20 {
		case 'x':
			base = 16
		case 'o':
			base = 8
		case 'b':
			base = 2
		}
	}
	if base == 10 {
		if digits = strings.TrimLeft(digits, "0"); digits == "" {
			digits = "0"
		}
		return digits, ""
	}
	if n, err := strconv.ParseUint(digits[2:], base, 64); err == nil {
		return strconv.FormatUint(n, 10), ""
	}
	n, _ := new(big.Int).SetString(digits[2:], base)
	return n.String(), ""
}

// float returns a float in the form of Python's repr, or the reason why it can't.
func float(digits string) (string, string) {
	f, err := strconv.ParseFloat(digits, 64)
	if errors.Is(err, strconv.ErrRange) {
		return "", "the number is larger than any float"
	}
	b := strconv.AppendFloat(nil, f, 'e', -1, 64)
	exp, _ := strconv.Atoi(string(b[bytes.IndexByte(b, 'e')+1:]))
	if f == 0 || -4 <= exp && exp < 16 {
		b = strconv.AppendFloat(b[:0], f, 'f', -1, 64)
		if bytes.IndexByte(b, '.') < 0 {
			b = append(b, ".0"...)
		}
	}
	return string(b), ""
}
