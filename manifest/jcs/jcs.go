// Package jcs reads JSON strictly and writes it canonically, by RFC 8785: one sequence of bytes for each value, so
// that JSON can be hashed and signed.
//
// How a text goes through here: Parse reads it with a parser (value, object, array, str, number) and returns Go
// values; Append writes values in the canonical form (appendValue, appendObject, appendString, appendNumber).
// Canonical does both.
//
//	{ "b": [1.0, "\u20ac"], "a": 1E30 }   becomes   {"a":1e+30,"b":[1,"€"]}
//
// # Writing
//
// The canonical form has no spaces. The members of an object are sorted by their names, compared as UTF-16 code
// units. A number is written as ECMAScript does: the shortest text that reads back as the same double. A string has
// every character as itself, in UTF-8, except \" \\ \b \t \n \f \r and, as \u00xx in lower case, the other
// characters below U+0020.
//
// # Reading
//
// A text need not be canonical, but must have only one meaning. Parse refuses, with the place, everything that
// readers understand in different ways: a duplicate member in an object, bytes that are not UTF-8, an escaped half
// of a surrogate pair, a number that a double can't hold (too large, or an integer beyond 2^53 that would become
// another), anything but space before or after the value, and a byte order mark. Arrays and objects nest at most 64
// deep, and a text has at most 2^18 values, which bounds the memory that a hostile text can take.
package jcs

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// MaxDepth is how deep arrays and objects may nest.
	MaxDepth = 64
	// MaxValues is the most values in a text that Parse reads, including those in arrays and objects.
	MaxValues = 1 << 18
)

// Canonical appends the canonical form of the JSON text src to dst.
func Canonical(dst, src []byte) ([]byte, error) {
	v, err := Parse(src)
	if err != nil {
		return dst, err
	}
	return Append(dst, v)
}

// A Text is JSON in canonical form already, which Append copies.
type Text []byte

// Append appends the canonical form of v to dst: nil, bool, string, float64, int, int64, []any, map[string]any,
// Text, or a combination of these. Anything else, an integer beyond 2^53, an infinity, text that is not UTF-8 and a
// value nested too deep are errors that append nothing.
func Append(dst []byte, v any) ([]byte, error) {
	out, err := appendValue(dst, v, 0)
	if err != nil {
		return dst, err
	}
	return out, nil
}

func appendValue(dst []byte, val any, depth int) ([]byte, error) {
	switch data := val.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		if data {
			return append(dst, "true"...), nil
		}
		return append(dst, "false"...), nil
	case string:
		return appendString(dst, data)
	case float64:
		if math.IsInf(data, 0) || math.IsNaN(data) {
			return nil, errors.New("json: a number that is infinite or NaN")
		}
		return appendNumber(dst, data), nil
	case int:
		return appendInt(dst, int64(data))
	case int64:
		return appendInt(dst, data)
	case Text:
		return append(dst, data...), nil
	case []any:
		return appendArray(dst, data, depth+1)
	case map[string]any:
		return appendObject(dst, data, depth+1)
	}
	return nil, fmt.Errorf("json: no JSON form for a %T", val)
}

func appendArray(dst []byte, v []any, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return nil, errDepth
	}
	dst = append(dst, '[')
	for i, e := range v {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendValue(dst, e, depth); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

var errDepth = fmt.Errorf("json: nested more than %d deep", MaxDepth)

func appendObject(dst []byte, object map[string]any, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return nil, errDepth
	}
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.SortFunc(names, compareUTF16)
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendString(dst, name); err != nil {
			return nil, err
		}
		if dst, err = appendValue(append(dst, ':'), object[name], depth); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// compareUTF16 compares as UTF-16 code units. That differs from the order of UTF-8 only where a character
// beyond U+FFFF, whose first unit is at least U+D800, meets one of U+E000–U+FFFF.
func compareUTF16(left, right string) int {
	for left != "" && right != "" {
		x, n := utf8.DecodeRuneInString(left)
		y, m := utf8.DecodeRuneInString(right)
		if ux, uy := firstUnit(x), firstUnit(y); ux != uy {
			return int(ux - uy)
		}
		if x != y {
			return int(x - y)
		}
		left, right = left[n:], right[m:]
	}
	return len(left) - len(right)
}

// firstUnit returns the first of the one or two units of r.
func firstUnit(r rune) rune {
	if hi, _ := utf16.EncodeRune(r); hi != utf8.RuneError {
		return hi
	}
	return r
}

func appendString(dst []byte, text string) ([]byte, error) {
	const hexDigits = "0123456789abcdef"
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("json: text that is not UTF-8: %+q", text)
	}
	dst = append(dst, '"')
	from := 0
	for i := range len(text) {
		char := text[i]
		if char >= 0x20 && char != '"' && char != '\\' {
			continue
		}
		dst = append(append(dst, text[from:i]...), '\\')
		from = i + 1
		switch char {
		case '"', '\\':
			dst = append(dst, char)
		case '\b':
			dst = append(dst, 'b')
		case '\t':
			dst = append(dst, 't')
		case '\n':
			dst = append(dst, 'n')
		case '\f':
			dst = append(dst, 'f')
		case '\r':
			dst = append(dst, 'r')
		default:
			dst = append(dst, 'u', '0', '0', hexDigits[char>>4], hexDigits[char&15])
		}
	}
	return append(append(dst, text[from:]...), '"'), nil
}
