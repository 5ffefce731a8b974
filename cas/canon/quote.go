package canon

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain returns the index of the first byte of b, from i on, that is not a printable ASCII character written as
// itself in a string; if all are, it returns len(b).
//
// It tests eight bytes together. The high bit of a byte of mask is set where the byte is above 0x7e (x, x+1), below
// 0x20, or zero after it is combined with the quote or the backslash. Carries and borrows only run upwards from
// such a byte, so the lowest set bit is right, and plain uses only that one.
func plain(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		mask := x | (x + ones) | (x - ones*0x20) | ((x ^ ones*'"') - ones) | ((x ^ ones*'\\') - ones)
		if mask &= highs; mask != 0 {
			return i + bits.TrailingZeros64(mask)>>3
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// escaped reports whether r, which is above U+007E and below U+10000, is written as \uXXXX.
func escaped(r rune) bool {
	switch {
	case r < 0xa0:
		return true
	case r < 0x2028:
		return false
	}
	return r <= 0x2029 || r == 0xfeff || r >= 0xfdd0 && r <= 0xfdef || r >= 0xfffe
}

// outcast reports whether r is a noncharacter that has no form in a document.
func outcast(r rune) bool { return r > 0xffff && r&0xfffe == 0xfffe }

// short returns the letter of the two-character escape of c, or 0.
func short(c rune) byte {
	switch c {
	case '"', '\\':
		return byte(c)
	case '\b':
		return 'b'
	case '\t':
		return 't'
	case '\n':
		return 'n'
	case '\f':
		return 'f'
	case '\r':
		return 'r'
	}
	return 0
}

const hexDigits = "0123456789abcdef"

// appendQuoted appends the one form of data, quotes included.
func appendQuoted(dst, data []byte) ([]byte, error) {
	dst = append(dst, '"')
	for from := 0; ; {
		i := plain(data, from)
		dst = append(dst, data[from:i]...)
		if i == len(data) {
			return append(dst, '"'), nil
		}
		r, n := utf8.DecodeRune(data[i:])
		switch letter := short(r); {
		case r == utf8.RuneError && n == 1:
			return dst, fmt.Errorf("%q is not valid UTF-8", string(data))
		case letter != 0:
			dst = append(dst, '\\', letter)
		case outcast(r):
			return dst, fmt.Errorf("%q holds the noncharacter %U", string(data), r)
		case r < 0x20 || r < 0x10000 && escaped(r):
			dst = append(dst, '\\', 'u', hexDigits[r>>12], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
		default:
			dst = append(dst, data[i:i+n]...)
		}
		from = i + n
	}
}

// unquote appends the value of the string whose text begins at data[from], after its quote, to dst. It returns the
// index of the closing quote. data must have a byte behind the string that ends every string, such as LF. If the
// string is not in its one form, unquote returns the mistake and its index.
func unquote(dst, data []byte, from int) (out []byte, at int, wrong string) {
	for {
		i := plain(data, from)
		dst = append(dst, data[from:i]...)
		switch char := data[i]; {
		case char == '"':
			return dst, i, ""
		case char == '\\':
			r, n, wrong := unescape(data[i:])
			if wrong != "" {
				return dst, i, wrong
			}
			dst = utf8.AppendRune(dst, r)
			from = i + n
		case char == '\n':
			return dst, i, "the string doesn't end on its line"
		case char < 0x20 || char == 0x7f:
			return dst, i, fmt.Sprintf("control character %U must be escaped", char)
		default:
			r, n := utf8.DecodeRune(data[i:])
			switch {
			case r == utf8.RuneError && n == 1:
				return dst, i, "invalid UTF-8"
			case outcast(r):
				return dst, i, fmt.Sprintf("noncharacter %U is not allowed", r)
			case r < 0x10000 && escaped(r):
				return dst, i, fmt.Sprintf("character %U must be escaped", r)
			}
			dst = append(dst, data[i:i+n]...)
			from = i + n
		}
	}
}

// unescape reads the escape at the start of data and returns its length.
func unescape(data []byte) (char rune, n int, wrong string) {
	switch data[1] {
	case '"', '\\':
		return rune(data[1]), 2, ""
	case 'b':
		return '\b', 2, ""
	case 't':
		return '\t', 2, ""
	case 'n':
		return '\n', 2, ""
	case 'f':
		return '\f', 2, ""
	case 'r':
		return '\r', 2, ""
	case 'u':
	default:
		return 0, 0, "unknown escape"
	}
	for n = 2; n < 6; n++ {
		switch c := data[n]; {
		case '0' <= c && c <= '9':
			char = char<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			char = char<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			return 0, 0, "upper-case digit in an escape"
		default:
			return 0, 0, `\u must be followed by four hexadecimal digits`
		}
	}
	switch {
	case char >= 0xd800 && char <= 0xdfff:
		return 0, 0, "surrogate escapes are not allowed"
	case short(char) != 0:
		return 0, 0, fmt.Sprintf(`%U must be written as \%c`, char, short(char))
	case char >= 0x20 && (char < 0x7f || !escaped(char)):
		return 0, 0, fmt.Sprintf("%U must not be escaped", char)
	}
	return char, n, ""
}
