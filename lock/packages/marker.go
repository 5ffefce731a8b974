package packages

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// This file parses and evaluates the markers of Python requirements.

const maxDeep = 16

// A marker is a comparison, or markers joined by "and" or "or".
type marker struct {
	op   string // a comparison, "and", "or"
	kids []marker

	name, value string
	swapped     bool // the value comes first
}

// The variables, and whether they are compared as versions.
var variables = map[string]bool{
	"python_version": true, "python_full_version": true,
	"os_name": false, "sys_platform": false, "platform_system": false, "platform_machine": false,
	"platform_python_implementation": false, "implementation_name": false,
}

// holds reports whether the marker is true for these variables.
func (m *marker) holds(env map[string]string) (bool, error) {
	if len(m.kids) > 0 {
		for i := range m.kids {
			yes, err := m.kids[i].holds(env)
			if err != nil || yes == (m.op == "or") {
				return yes, err
			}
		}
		return m.op == "and", nil
	}
	have, ok := env[m.name]
	if !ok {
		return false, fmt.Errorf("a marker uses %s, which is unknown here", m.name)
	}
	if variables[m.name] {
		release, err := releaseOf(have)
		if err != nil {
			return false, fmt.Errorf("%s is %q: %w", m.name, have, err)
		}
		return compareReleases(release, m.op, m.value), nil
	}
	left, right := have, m.value
	if m.swapped {
		left, right = right, left
	}
	switch m.op {
	case "==":
		return left == right, nil
	case "!=":
		return left != right, nil
	case "in":
		return strings.Contains(right, left), nil
	}
	return !strings.Contains(right, left), nil // not in
}

// releaseOf parses the numbers of a version, such as 3.11. It ignores the rest of a pre-release, such as 3.15.0a1 or
// 3.14.0+.
func releaseOf(s string) ([]int, error) {
	if i := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' }); i > 0 {
		s = s[:i]
	}
	var out []int
	for part := range strings.SplitSeq(s, ".") {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil || len(out) == 8 {
			return nil, errors.New("invalid release")
		}
		out = append(out, int(n))
	}
	return out, nil
}

// compareReleases compares the numbers of a release with those of value, which may end in ".*".
func compareReleases(have []int, op, value string) bool {
	prefix, wild := strings.CutSuffix(value, ".*")
	want, _ := releaseOf(prefix)
	at := func(list []int, i int) int {
		if i < len(list) {
			return list[i]
		}
		return 0
	}
	sign, equal := 0, true
	for i := range max(len(have), len(want)) {
		a, b := at(have, i), at(want, i)
		if a != b && sign == 0 {
			sign = 1
			if a < b {
				sign = -1
			}
		}
		if i < len(want) && a != b {
			equal = false
		}
	}
	if !wild {
		equal = sign == 0
	}
	switch op {
	case "==":
		return equal
	case "!=":
		return !equal
	case "<":
		return sign < 0
	case "<=":
		return sign <= 0
	case ">":
		return sign > 0
	case "~=":
		return sign >= 0 && slices.Equal(padded(have, len(want)-1), want[:len(want)-1])
	}
	return sign >= 0 // >=
}

// padded returns the first n numbers of a release, with zeros for missing ones.
func padded(list []int, n int) []int {
	out := make([]int, n)
	copy(out, list)
	return out
}

// parseMarker parses a marker and checks that it can be evaluated.
func parseMarker(text string) (*marker, error) {
	words, err := markerWords(text)
	if err != nil {
		return nil, err
	}
	p := &markerParser{words: words}
	m, err := p.either(0)
	if err == nil && len(p.words) > 0 {
		err = fmt.Errorf("unexpected %q", fault.Clip(p.words[0], 80))
	}
	return &m, err
}

// markerWords splits a marker into words. Texts keep their opening quote as a mark.
func markerWords(text string) (words []string, err error) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		n := 1
		switch char := text[0]; {
		case char == '"' || char == '\'':
			end := strings.IndexByte(text[1:], char)
			if end < 0 {
				return nil, errors.New("unterminated text")
			}
			words = append(words, text[:end+1])
			text = text[end+2:]
			continue
		case char == '(' || char == ')':
		case strings.IndexByte("<>=!~", char) >= 0:
			n = len(text) - len(strings.TrimLeft(text, "<>=!~"))
		case strings.IndexByte(alnum, char) >= 0:
			n = len(text) - len(strings.TrimLeft(text,
				"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."))
		default:
			return nil, fmt.Errorf("unexpected %q", fault.Clip(text, 80))
		}
		words = append(words, text[:n])
		text = text[n:]
	}
	return words, nil
}

// A markerParser consumes words from the front.
type markerParser struct{ words []string }

func (p *markerParser) next() (w string) {
	if len(p.words) > 0 {
		w, p.words = p.words[0], p.words[1:]
	}
	return w
}

func (p *markerParser) is(w string) bool { return len(p.words) > 0 && p.words[0] == w }

// either parses markers joined by "or", which binds less than "and".
func (p *markerParser) either(deep int) (marker, error) {
	return p.joined("or", func() (marker, error) {
		return p.joined("and", func() (marker, error) { return p.one(deep) })
	})
}

// joined parses one or several parts with word between them.
func (p *markerParser) joined(word string, part func() (marker, error)) (marker, error) {
	m, err := part()
	if err != nil || !p.is(word) {
		return m, err
	}
	all := marker{op: word, kids: []marker{m}}
	for err == nil && p.is(word) {
		p.next()
		m, err = part()
		all.kids = append(all.kids, m)
	}
	return all, err
}

// one parses a comparison, or a marker in parentheses.
func (p *markerParser) one(deep int) (marker, error) {
	if p.is("(") {
		if deep == maxDeep {
			return marker{}, fmt.Errorf("parentheses are nested more than %d deep", maxDeep)
		}
		p.next()
		m, err := p.either(deep + 1)
		if err == nil && p.next() != ")" {
			err = errors.New(`")" is missing`)
		}
		return m, err
	}
	m := marker{name: p.next(), op: p.next()}
	if m.op == "not" && p.is("in") {
		p.next()
		m.op = "not in"
	}
	m.value = p.next()
	if quoted(m.name) {
		m.name, m.value, m.swapped = m.value, m.name, true
	}
	return m, m.check()
}

func quoted(s string) bool { return s != "" && (s[0] == '"' || s[0] == '\'') }

// check refuses comparisons that can't be evaluated.
func (m *marker) check() error {
	version, known := variables[m.name]
	switch {
	case m.name == "" || m.op == "" || m.value == "":
		return errors.New("expected a comparison of a variable with a text")
	case !known:
		return fmt.Errorf("unsupported variable %q", fault.Clip(m.name, 80))
	case !quoted(m.value):
		return fmt.Errorf("%s must be compared with a text", m.name)
	}
	m.value = m.value[1:]
	if !version {
		if !slices.Contains([]string{"==", "!=", "in", "not in"}, m.op) {
			return fmt.Errorf("%s can't be compared by %q", m.name, fault.Clip(m.op, 80))
		}
		return nil
	}
	if m.swapped {
		turned, ok := map[string]string{"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}[m.op]
		if !ok {
			return fmt.Errorf("a text can't be compared with %s by %q", m.name, fault.Clip(m.op, 80))
		}
		m.op = turned
	}
	prefix, wild := strings.CutSuffix(m.value, ".*")
	release, err := releaseOf(prefix)
	switch {
	case err != nil || strings.Trim(prefix, "0123456789.") != "" || wild && m.op != "==" && m.op != "!=":
		return fmt.Errorf("%q is not a release that %s can be compared with by %q", fault.Clip(m.value, 80), m.name,
			fault.Clip(m.op, 80))
	case !slices.Contains([]string{"<", "<=", "==", "!=", ">=", ">", "~="}, m.op) || m.op == "~=" && len(release) < 2:
		return fmt.Errorf("%s can't be compared with %q by %q", m.name, fault.Clip(m.value, 80), fault.Clip(m.op, 80))
	}
	return nil
}
