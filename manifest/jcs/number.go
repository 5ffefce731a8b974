package jcs

import (
	"fmt"
	"math"
	"strconv"
)

const maxInt = 1 << 53 // every integer up to it is a double

func appendInt(dst []byte, n int64) ([]byte, error) {
	if n > maxInt || n < -maxInt {
		return nil, fmt.Errorf("json: the integer %d is beyond 2^53", n)
	}
	return strconv.AppendInt(dst, n, 10), nil
}

// appendNumber writes f as ECMAScript's Number::toString does, which RFC 8785 §3.2.2.3 prescribes: f is not
// infinite and not NaN.
func appendNumber(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0') // minus zero too
	}
	if abs := math.Abs(f); 1e-6 <= abs && abs < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// Go writes at least two digits of exponent, ECMAScript no leading zero.
	if n := len(dst); dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// number reads the number at p.pos by the grammar of RFC 8259.
func (p *parser) number() (any, error) {
	start := p.pos
	p.take('-')
	if !p.take('0') && !p.digits() {
		return nil, p.errorf("expected a value")
	}
	whole := true
	if p.take('.') {
		if whole = false; !p.digits() {
			return nil, p.errorf("expected a digit after the point")
		}
	}
	if p.take('e') || p.take('E') {
		whole = false
		if !p.take('+') {
			p.take('-')
		}
		if !p.digits() {
			return nil, p.errorf("expected a digit of the exponent")
		}
	}
	text := p.src[start:p.pos]
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		p.pos = start
		return nil, p.errorf("the number is too large")
	}
	// Beyond 2^53 a text that isn't the double's own form means another integer than the double.
	if whole && math.Abs(f) >= maxInt && string(appendNumber(nil, f)) != string(text) {
		p.pos = start
		return nil, p.errorf("the integer is beyond 2^53")
	}
	return f, nil
}

func (p *parser) take(c byte) bool {
	if p.pos < len(p.src) && p.src[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *parser) digits() bool {
	start := p.pos
	for p.pos < len(p.src) && '0' <= p.src[p.pos] && p.src[p.pos] <= '9' {
		p.pos++
	}
	return p.pos > start
}

// Number returns a value of JSON's as a number, if it is one.
func Number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}
