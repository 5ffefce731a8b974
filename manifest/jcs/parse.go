package jcs

import (
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A SyntaxError reports bytes that are not JSON with one meaning.
type SyntaxError struct {
	Offset int // in bytes, from 0
	Msg    string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("json: byte %d: %s", e.Offset, e.Msg) }

// Parse returns the value of the JSON text src: nil, bool, string, float64, []any or map[string]any. It keeps no
// reference to src. Every error is a *SyntaxError.
func Parse(src []byte) (any, error) {
	p := parser{src: src}
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.pos < len(src) {
		return nil, p.errorf("more behind the value")
	}
	return v, nil
}

type parser struct {
	src    []byte
	pos    int
	values int
}

func (p *parser) errorf(format string, args ...any) error {
	return &SyntaxError{p.pos, fmt.Sprintf(format, args...)}
}

func (p *parser) space() {
	for p.pos < len(p.src) {
		switch p.src[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

func (p *parser) value(depth int) (any, error) {
	p.space()
	if p.pos == len(p.src) {
		return nil, p.errorf("expected a value, found the end")
	}
	if p.values++; p.values > MaxValues {
		return nil, p.errorf("more than %d values", MaxValues)
	}
	switch c := p.src[p.pos]; c {
	case '{', '[':
		if depth == MaxDepth {
			return nil, p.errorf("nested more than %d deep", MaxDepth)
		}
		p.pos++
		if c == '[' {
			return p.array(depth + 1)
		}
		return p.object(depth + 1)
	case '"':
		return p.str()
	case 't':
		return true, p.word("true")
	case 'f':
		return false, p.word("false")
	case 'n':
		return nil, p.word("null")
	}
	return p.number()
}

func (p *parser) word(w string) error {
	if end := p.pos + len(w); end <= len(p.src) && string(p.src[p.pos:end]) == w {
		p.pos = end
		return nil
	}
	return p.errorf("expected a value")
}

func (p *parser) array(depth int) (any, error) {
	list := []any{}
	if p.space(); p.take(']') {
		return list, nil
	}
	for {
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		p.space()
		if p.take(']') {
			return list, nil
		}
		if !p.take(',') {
			return nil, p.errorf(`expected "," or "]"`)
		}
	}
}

func (p *parser) object(depth int) (any, error) {
	members := map[string]any{}
	if p.space(); p.take('}') {
		return members, nil
	}
	for {
		p.space()
		at := p.pos
		if p.pos == len(p.src) || p.src[p.pos] != '"' {
			return nil, p.errorf("expected a name in double quotes")
		}
		name, err := p.str()
		if err != nil {
			return nil, err
		}
		if _, twice := members[name]; twice {
			p.pos = at
			return nil, p.errorf("duplicate name %+q", name)
		}
		if p.space(); !p.take(':') {
			return nil, p.errorf(`expected ":"`)
		}
		v, err := p.value(depth)
		if err != nil {
			return nil, err
		}
		members[name] = v
		p.space()
		if p.take('}') {
			return members, nil
		}
		if !p.take(',') {
			return nil, p.errorf(`expected "," or "}"`)
		}
	}
}

// str reads the string that begins at p.pos.
func (p *parser) str() (string, error) {
	p.pos++
	var out []byte // nil before the first escape
	src, from, at := p.src, p.pos, p.pos
	for at < len(src) {
		switch char := src[at]; {
		case char == '"':
			p.pos = at + 1
			if out == nil {
				return string(src[from:at]), nil
			}
			return string(append(out, src[from:at]...)), nil
		case char == '\\':
			out = append(out, src[from:at]...)
			p.pos = at
			var err error
			if out, err = p.escape(out); err != nil {
				return "", err
			}
			from, at = p.pos, p.pos
		case char < 0x20:
			p.pos = at
			return "", p.errorf("a control character in a string")
		case char < utf8.RuneSelf:
			at++
		default:
			r, n := utf8.DecodeRune(src[at:])
			if r == utf8.RuneError && n == 1 {
				p.pos = at
				return "", p.errorf("a string that is not UTF-8")
			}
			at += n
		}
	}
	p.pos = at
	return "", p.errorf("a string without end")
}

// escape appends the character of the escape at p.pos.
func (p *parser) escape(out []byte) ([]byte, error) {
	if p.pos+1 == len(p.src) {
		return nil, p.errorf("a string without end")
	}
	char := p.src[p.pos+1]
	switch char {
	case '"', '\\', '/':
	case 'b':
		char = '\b'
	case 't':
		char = '\t'
	case 'n':
		char = '\n'
	case 'f':
		char = '\f'
	case 'r':
		char = '\r'
	case 'u':
		unit, ok := p.unit(p.pos)
		if !ok {
			return nil, p.errorf(`expected four hexadecimal digits after "\u"`)
		}
		n := 6
		if utf16.IsSurrogate(unit) {
			low, _ := p.unit(p.pos + 6)
			if unit, n = utf16.DecodeRune(unit, low), 12; unit == utf8.RuneError {
				return nil, p.errorf("half of a surrogate pair")
			}
		}
		p.pos += n
		return utf8.AppendRune(out, unit), nil
	default:
		return nil, p.errorf("unknown escape")
	}
	p.pos += 2
	return append(out, char), nil
}

// unit reads the escape \uXXXX at i.
func (p *parser) unit(i int) (rune, bool) {
	if len(p.src)-i < 6 || p.src[i] != '\\' || p.src[i+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(p.src[i+2:i+6]), 16, 16)
	return rune(n), err == nil
}
