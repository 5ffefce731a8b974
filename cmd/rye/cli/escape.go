package cli

import (
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape makes text of any origin safe to show. Unprintable characters (controls, line ends, escape sequences, changes
// of direction, invisible characters, invalid UTF-8) become \n, \x1b, \u202e or the like, so that no name or message can
// repaint a terminal or pass for another line. With ascii everything outside ASCII is escaped too.
func Escape(s string, ascii bool) string {
	i := 0
	for i < len(s) && ' ' <= s[i] && s[i] < 0x7f {
		i++
	}
	if i == len(s) {
		return s
	}
	out := append(make([]byte, 0, len(s)+16), s[:i]...)
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			out = appendHex(append(out, `\x`...), uint32(s[i]), 2)
		case r == '\n':
			out = append(out, `\n`...)
		case r == '\r':
			out = append(out, `\r`...)
		case r == '\t':
			out = append(out, `\t`...)
		case r < ' ' || r == 0x7f:
			out = appendHex(append(out, `\x`...), uint32(r), 2)
		case r < utf8.RuneSelf, !ascii && unicode.IsPrint(r):
			out = append(out, s[i:i+n]...)
		case r > 0xffff:
			out = appendHex(append(out, `\U`...), uint32(r), 8)
		default:
			out = appendHex(append(out, `\u`...), uint32(r), 4)
		}
		i += n
	}
	return string(out)
}

// appendUTF16 appends r as JSON escapes it.
func appendUTF16(b []byte, r rune) []byte {
	if r1, r2 := utf16.EncodeRune(r); r1 != unicode.ReplacementChar {
		b = appendHex(append(b, `\u`...), uint32(r1), 4)
		r = r2
	}
	return appendHex(append(b, `\u`...), uint32(r), 4)
}

func appendHex(b []byte, v uint32, digits int) []byte {
	for digits--; digits >= 0; digits-- {
		b = append(b, "0123456789abcdef"[v>>(4*digits)&15])
	}
	return b
}

// Styled is text that is safe to show: our own, or escaped.
type Styled string

// escapeArgs escapes every text among the arguments of a format.
func escapeArgs(args []any, ascii bool) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case Styled:
			out[i] = string(v)
		case string:
			out[i] = Escape(v, ascii)
		case error:
			out[i] = Escape(v.Error(), ascii)
		case fmt.Stringer:
			out[i] = Escape(v.String(), ascii)
		case int, int64, uint64, float64, bool:
			out[i] = v
		default:
			out[i] = Escape(fmt.Sprint(v), ascii)
		}
	}
	return out
}
