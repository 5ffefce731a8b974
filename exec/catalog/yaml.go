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
func appendValue(text []byte, indent string, val any) []byte {
	inner := indent + "  "
	switch object := val.(type) {
	case map[string]any:
		if len(object) == 0 {
			return append(text, " {}\n"...)
		}
		text = append(text, '\n')
		for _, name := range slices.Sorted(maps.Keys(object)) {
			text = appendEntry(text, inner, name, object[name])
		}
		return text
	case []any:
		if len(object) == 0 {
			return append(text, " []\n"...)
		}
		text = append(text, '\n')
		for _, item := range object {
			text = append(text, inner...)
			text = append(text, '-')
			text = appendValue(text, inner, item)
		}
		return text
	case []string:
		list := make([]any, len(object))
		for i, s := range object {
			list[i] = s
		}
		return appendValue(text, indent, list)
	case string:
		text = append(text, ' ')
		text = append(text, scalarText(object)...)
		return append(text, '\n')
	}
	text = append(text, ' ')
	text = append(text, numberText(val)...)
	return append(text, '\n')
}

// numberText writes a number, a boolean or null. An integer that YAML's readers may not hold is written with an
// exponent.
func numberText(value any) []byte {
	if f, ok := value.(float64); ok && (f > 1<<53 || f < -1<<53) {
		text := strconv.FormatFloat(f, 'e', -1, 64)
		if i := strings.IndexByte(text, 'e'); !strings.Contains(text, ".") {
			text = text[:i] + ".0" + text[i:]
		}
		return []byte(text)
	}
	text, err := jcs.Append(nil, value)
	if err != nil {
		return fmt.Appendf(nil, "%q", fmt.Sprint(value)) // reading the file again finds the difference
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

func scalarText(text string) string {
	if plain().MatchString(text) && !slices.Contains(words, strings.ToLower(text)) {
		return text
	}
	var quoted strings.Builder
	quoted.WriteByte('"')
	for i, char := range text {
		switch {
		case char == '"' || char == '\\':
			quoted.WriteByte('\\')
			quoted.WriteRune(char)
		case char == '\n':
			quoted.WriteString(`\n`)
		case char == '\t':
			quoted.WriteString(`\t`)
		case char == '\r':
			quoted.WriteString(`\r`)
		case char == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			quoted.WriteString(`\ufffd`) // invalid; JSON has none
		case char == ' ' || unicode.IsPrint(char) && char != 0xfeff:
			quoted.WriteRune(char)
		case char > 0xffff:
			fmt.Fprintf(&quoted, `\U%08x`, char)
		default:
			fmt.Fprintf(&quoted, `\u%04x`, char)
		}
	}
	quoted.WriteByte('"')
	return quoted.String()
}
