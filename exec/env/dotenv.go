package env

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxDotEnv is the largest .env, in bytes.
const MaxDotEnv = 64 << 10

func syntaxError(line, column int, format string, args ...any) error {
	return fmt.Errorf(".env: line %d, column %d: %s", line, column, fmt.Sprintf(format, args...))
}

// A Variable is a line of a .env.
type Variable struct {
	Name, Value string
	Line        int
}

// ParseDotEnv reads a .env.
func ParseDotEnv(b []byte) ([]Variable, error) {
	if len(b) > MaxDotEnv {
		return nil, syntaxError(1, 1, "the file has more than %d bytes", MaxDotEnv)
	}
	var all []Variable
	seen := map[string]int{}
	number := 0
	for line := range strings.Lines(string(b)) {
		number++
		bad := func(at int, format string, args ...any) ([]Variable, error) {
			return nil, syntaxError(number, utf8.RuneCountInString(line[:at])+1, format, args...)
		}
		if at := strings.IndexFunc(line, isControl); at >= 0 || !utf8.ValidString(line) {
			return bad(max(at, 0), "control character or invalid UTF-8")
		}
		text := strings.TrimSpace(line)
		if text == "" || text[0] == '#' {
			continue
		}
		text = strings.TrimSpace(strings.TrimPrefix(text, "export "))
		at := strings.Index(line, text)
		name, value, ok := strings.Cut(text, "=")
		name = strings.TrimSpace(name)
		if !ok {
			return bad(at, "expected NAME=VALUE")
		}
		if err := checkName(name); err != nil {
			return bad(at, "%v", err)
		}
		if first := seen[name]; first != 0 {
			return bad(at, "%q is already set in line %d", name, first)
		}
		seen[name] = number
		if value, ok = unquoted(strings.TrimSpace(value)); !ok {
			return bad(at+strings.IndexByte(text, '=')+1, "unclosed quote")
		}
		all = append(all, Variable{name, value, number})
	}
	return all, nil
}

// isControl reports whether a character is a control character other than a tab or the end of a line.
func isControl(r rune) bool { return r < ' ' && r != '\t' && r != '\r' && r != '\n' || r == 0x7f }

// unquoted removes the quotes around a value.
func unquoted(v string) (string, bool) {
	if v == "" || v[0] != '"' && v[0] != '\'' {
		return v, true
	}
	inner, ok := strings.CutSuffix(v[1:], v[:1])
	return inner, ok && !strings.Contains(inner, v[:1])
}
