package catalog

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/rye-build/rye/manifest/jcs"
)

// appendField appends a field of a document of YAML. Values are those of JSON. Whatever isn't printable is escaped, so
// that the file shows text that a server tries to hide.
func appendField(b []byte, name string, v any) []byte { return appendEntry(b, "", name, v) }

func appendEntry(b []byte, indent, name string, v any) []byte {
	b = append(b, indent...)
	b = append(b, scalarText(name)...)
	b = append(b, ':')
	return appendValue(b, indent, v)
}

// appendValue appends a value behind "name:" or "-", with the end of its line.
func appendValue(b []byte, indent string, v any) []byte {
	inner := indent + "  "
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return append(b, " {}\n"...)
		}
		b = append(b, '\n')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b = appendEntry(b, inner, name, v[name])
		}
		return b
	case []any:
		if len(v) == 0 {
			return append(b, " []\n"...)
		}
		b = append(b, '\n')
		for _, item := range v {
			b = append(b, inner...)
			b = append(b, '-')
			b = appendValue(b, inner, item)
		}
		return b
	case []string:
		list := make([]any, len(v))
		for i, s := range v {
			list[i] = s
		}
		return appendValue(b, indent, list)
	case string:
		b = append(b, ' ')
		b = append(b, scalarText(v)...)
		return append(b, '\n')
	}
	b = append(b, ' ')
	b = append(b, numberText(v)...)
	return append(b, '\n')
}

// numberText writes a number, a boolean or null. An integer that YAML's readers may not hold is written with an
// exponent.
func numberText(v any) []byte {
	if f, ok := v.(float64); ok && (f > 1<<53 || f < -1<<53) {
		text := strconv.FormatFloat(f, 'e', -1, 64)
		if i := strings.IndexByte(text, 'e'); !strings.Contains(text, ".") {
			text = text[:i] + ".0" + text[i:]
		}
		return []byte(text)
	}
	text, err := jcs.Append(nil, v)
	if err != nil {
		return fmt.Appendf(nil, "%q", fmt.Sprint(v)) // reading the file again finds the difference
	}
	if bytes.ContainsRune(text, 'e') && !bytes.ContainsRune(text, '.') && text[0] != 't' && text[0] != 'f' {
		return bytes.Replace(text, []byte("e"), []byte(".0e"), 1)
	}
	return text
}

// plain are texts that need no quotes; words are those of them that mean something else.
var plain = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]*$`)
})

var words = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

func scalarText(s string) string {
	if plain().MatchString(s) && !slices.Contains(words, strings.ToLower(s)) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			b.WriteString(`\ufffd`) // invalid; JSON has none
		case r == ' ' || unicode.IsPrint(r) && r != 0xfeff:
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
