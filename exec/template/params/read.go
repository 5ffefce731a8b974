package params

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
)

const (
	// MaxBytes bounds the parameters of a call.
	MaxBytes = 16 << 20
	// MaxPairs bounds the number of pairs.
	MaxPairs = 10_000
)

// badText returns the error for an invalid argument. source is the flag, such as "-p limit" or "--params".
func badText(source, format string, args ...any) *fault.Error {
	return fault.New(fault.Validation, "%s: %s", source, fmt.Sprintf(format, args...)).On("argument", source)
}

// Values returns a reader of parameters, in the form that Call.Params has, for values that are already known.
func Values(v map[string]any) func(*Schema) (map[string]any, error) {
	return func(*Schema) (map[string]any, error) {
		given := maps.Clone(v)
		if given == nil {
			given = map[string]any{}
		}
		return given, nil
	}
}

// A Caller is the caller's input.
type Caller struct {
	Pairs []string  // of -p
	Text  string    // of --params: JSON, @FILE, or -; "" for none
	Flags [2]string // the names of both flags in errors; "" for -p and --params
	// Open opens a file, or standard input for "-".
	Open func(name string) (io.ReadCloser, error)
}

// Read returns the caller's parameters, unchecked.
func (s *Schema) Read(from Caller) (map[string]any, error) {
	flag, whole := cmp.Or(from.Flags[0], "-p"), cmp.Or(from.Flags[1], "--params")
	values, err := s.pairs(from.Pairs, flag, whole)
	if err != nil || from.Text == "" {
		return values, err
	}
	b, source, err := from.text(whole)
	if err != nil {
		return nil, err
	}
	m, err := parseObject(b, source)
	if err != nil {
		return nil, err
	}
	for name, v := range values {
		if _, twice := m[name]; twice {
			return nil, badText(flag+" "+printable(name), "also in %s", whole)
		}
		m[name] = v
	}
	return m, nil
}

// text returns the JSON of a flag, and its source for errors.
func (c *Caller) text(flag string) ([]byte, string, error) {
	name, isFile := strings.CutPrefix(c.Text, "@")
	switch {
	case c.Text == "-":
		name = "-"
	case !isFile && len(c.Text) > MaxBytes:
		return nil, "", badText(flag, "%s", tooLong)
	case !isFile:
		return []byte(c.Text), flag, nil
	case name == "":
		return nil, "", badText(flag, `"@" needs the name of a file`)
	}
	source := flag + " " + c.Text
	r, err := c.Open(name)
	if err != nil {
		return nil, "", badText(source, "%v", err).From(err)
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, "", badText(source, "%v", err).From(err)
	}
	if len(b) > MaxBytes {
		return nil, "", badText(source, "%s", tooLong)
	}
	return b, source, nil
}

var tooLong = fmt.Sprintf("the parameters exceed %d bytes", MaxBytes)

func parseObject(b []byte, source string) (map[string]any, error) {
	val, err := jcs.Parse(b)
	if err != nil {
		if at, ok := errors.AsType[*jcs.SyntaxError](err); ok {
			before := b[:min(at.Offset, len(b))]
			line := bytes.Count(before, []byte("\n")) + 1
			column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
			return nil, badText(source, "line %d, column %d: %s", line, column, at.Msg).From(err)
		}
		return nil, badText(source, "%v", err).From(err)
	}
	m, ok := val.(map[string]any)
	if !ok {
		return nil, badText(source, "expected an object, got %s", typeOf(val))
	}
	return m, nil
}

// pairs parses NAME=VALUE of a flag; whole is the flag that takes an object.
func (s *Schema) pairs(pairs []string, flag, whole string) (map[string]any, error) {
	if len(pairs) > MaxPairs {
		return nil, badText(flag, "given more than %d times", MaxPairs)
	}
	values := make(map[string]any, len(pairs))
	size := 0
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		source, wrong := flag+" "+printable(name), ""
		size += len(pair)
		switch {
		case !ok || name == "":
			source, wrong = flag+" "+quoted(pair), "expected NAME=VALUE"
			if strings.HasPrefix(strings.TrimSpace(pair), "{") {
				wrong += "; an object goes after " + whole
			}
		case !utf8.ValidString(pair):
			wrong = "not valid UTF-8"
		case size > MaxBytes:
			wrong = tooLong
		default:
			wrong = s.pair(values, name, text)
		}
		if wrong != "" {
			return nil, badText(source, "%s", wrong)
		}
	}
	return values, nil
}

// mostShown is how much of an invalid value an error shows, in characters.
const mostShown = 60

// pair adds one value, and returns its defect, or "".
func (s *Schema) pair(values map[string]any, name, text string) string {
	n := s.root.property(name)
	if n == nil {
		n = newNode()
		// Check refuses undeclared names later.
		if s.root.additional != nil && !s.root.additional.never {
			n = s.root.additional
		}
	}
	before, twice := values[name]
	v, ok := n.typed(text)
	if ok && !twice {
		values[name] = v
		return ""
	}
	if n.may&tArray != 0 && n.may != tAll {
		// The value may be one element of a list.
		element := n.element(0)
		if element == nil {
			element = newNode()
		}
		list, isList := before.([]any)
		if v, ok := element.typed(text); ok && (isList || !twice) {
			values[name] = append(list, v)
			return ""
		}
	}
	if twice {
		return "given twice"
	}
	return fmt.Sprintf("expected %s, got %q", n.may, fault.Clip(text, mostShown))
}

// typed parses a text as a value of an allowed type. Without types it is a string.
func (n *node) typed(text string) (any, bool) {
	if n.may == tAll {
		return text, true
	}
	if v, ok := scalarOf(n.may, text); ok {
		return v, true
	}
	if n.may&(tObject|tArray) != 0 {
		if v, err := jcs.Parse([]byte(text)); err == nil && isContainer(v) && n.may&typeOf(v) != 0 {
			return v, true
		}
	}
	return text, n.may&tString != 0
}
