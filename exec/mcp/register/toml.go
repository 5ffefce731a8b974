package register

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A tomlFile is the configuration of an agent in TOML. Of the language it reads what it has to: where tables, keys and
// values begin and end.
type tomlFile struct {
	text  []byte
	table []string
	entry *section // nil for none
}

// A section is the lines of one table.
type section struct {
	path []string
	keys []pair
	end  int // of the last of its keys, or of its header
}

type pair struct {
	path     []string
	from, to int // of the value
}

func openTOML(text []byte, table string) (*tomlFile, error) {
	f := &tomlFile{text: text, table: []string{table, Name}}
	s := &scanner{text: text}
	if bytes.HasPrefix(text, byteOrderMark) {
		s.at = len(byteOrderMark)
	}
	all, err := s.sections()
	if err != nil {
		return nil, err
	}
	for i := range all {
		p := all[i].path
		if slices.Equal(p, f.table) {
			f.entry = &all[i]
			continue
		}
		// Dotted keys and inline tables would need other changes.
		for _, k := range all[i].keys {
			full := slices.Concat(p, k.path)
			if full[0] == table && (len(full) == 1 || full[1] == Name) && len(p) < 2 {
				return nil, wrong(text, k.from, "%s isn't written as a table [%s.%s]", strings.Join(full, "."), table,
					Name)
			}
		}
	}
	return f, nil
}

func (f *tomlFile) command() (o command, there bool, err error) {
	if f.entry == nil {
		return o, false, nil
	}
	url := false
	for _, k := range f.entry.keys {
		value := f.text[k.from:k.to]
		switch strings.Join(k.path, ".") {
		case "command":
			there = true
			o.program, _ = tomlString(value)
		case "args":
			o.args = tomlStrings(value)
		case "url":
			url = true
		}
	}
	if url && !there {
		return o, false, fmt.Errorf("its server %q is not started by a command but reached at an address", Name)
	}
	return o, true, nil
}

func tomlString(text []byte) (s string, ok bool) {
	if len(text) >= 2 && text[0] == '\'' && !bytes.HasPrefix(text, []byte("'''")) {
		return string(text[1 : len(text)-1]), true
	}
	return s, json.Unmarshal(text, &s) == nil
}

// tomlStrings reads an array; what is no string in it is an empty one.
func tomlStrings(text []byte) (all []string) {
	s := &scanner{text: text, at: 1}
	for s.at < len(text) {
		s.blank(true)
		if s.at >= len(text) || text[s.at] == ']' {
			return all
		}
		if text[s.at] == ',' {
			s.at++
			continue
		}
		from := s.at
		if s.value() != nil || s.at == from {
			return nil
		}
		one, _ := tomlString(text[from:s.at])
		all = append(all, one)
	}
	return all
}

func (f *tomlFile) put(all []setting) ([]byte, error) {
	end := newline(f.text)
	lines := func(missing []setting) (text string) {
		for _, s := range missing {
			text += fmt.Sprintf("%s = %s%s", s.name, s.value, end)
		}
		return text
	}
	if f.entry == nil {
		text := slices.Clone(f.text)
		if len(text) > 0 {
			if !bytes.HasSuffix(text, []byte("\n")) {
				text = append(text, end...)
			}
			text = append(text, end...)
		}
		return append(text, fmt.Sprintf("[%s]%s%s", strings.Join(f.table, "."), end, lines(all))...), nil
	}
	var changes []change
	var missing []setting
	for _, s := range all {
		i := slices.IndexFunc(f.entry.keys, func(k pair) bool { return len(k.path) == 1 && k.path[0] == s.name })
		if i < 0 {
			missing = append(missing, s)
			continue
		}
		changes = append(changes, change{f.entry.keys[i].from, f.entry.keys[i].to, string(s.value)})
	}
	if len(missing) > 0 {
		at, before := f.entry.end, ""
		if i := bytes.IndexByte(f.text[at:], '\n'); i >= 0 {
			at += i + 1
		} else {
			at, before = len(f.text), end
		}
		changes = append(changes, change{at, at, before + lines(missing)})
	}
	return apply(f.text, changes), nil
}

// A scanner goes through TOML.
type scanner struct {
	text []byte
	at   int
}

func (s *scanner) fail(format string, args ...any) error { return wrong(s.text, s.at, format, args...) }

func (s *scanner) is(text string) bool { return bytes.HasPrefix(s.text[s.at:], []byte(text)) }

// blank skips white space and comments, those of further lines too if that is asked for.
func (s *scanner) blank(lines bool) {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' && lines:
			s.at++
		case c == '#':
			i := bytes.IndexByte(s.text[s.at:], '\n')
			if i < 0 {
				i = len(s.text) - s.at
			}
			s.at += i
		default:
			return
		}
	}
}

func (s *scanner) sections() (all []section, err error) {
	all = []section{{}}
	for {
		s.blank(true)
		if s.at == len(s.text) {
			return all, nil
		}
		if s.is("[") {
			double := s.is("[[")
			s.at++
			if double {
				s.at++
			}
			path, err := s.path()
			if err != nil {
				return nil, err
			}
			if closing := strings.Repeat("]", 1+btoi(double)); !s.is(closing) {
				return nil, s.fail("the header of a table isn't closed")
			} else {
				s.at += len(closing)
			}
			if !double && slices.ContainsFunc(all, func(o section) bool {
				return len(o.path) > 0 && slices.Equal(o.path, path)
			}) {
				return nil, s.fail("the table [%s] is there twice", strings.Join(path, "."))
			}
			if double {
				path = append(path, "[]") // an element of an array: no key is called so
			}
			all = append(all, section{path: path, end: s.at})
		} else {
			path, err := s.path()
			if err != nil {
				return nil, err
			}
			if !s.is("=") {
				return nil, s.fail(`expected "=" behind a key`)
			}
			s.at++
			s.blank(false)
			k := pair{path: path, from: s.at}
			if err := s.value(); err != nil {
				return nil, err
			}
			if k.to = s.at; k.from == k.to {
				return nil, s.fail("a value is missing")
			}
			in := &all[len(all)-1]
			if slices.ContainsFunc(in.keys, func(o pair) bool { return slices.Equal(o.path, path) }) {
				return nil, s.fail("the key %s is there twice", strings.Join(path, "."))
			}
			in.keys, in.end = append(in.keys, k), k.to
		}
		s.blank(false)
		if s.at < len(s.text) && s.text[s.at] != '\n' {
			return nil, s.fail("expected the end of the line")
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// path reads a key, which may be dotted, and white space behind it.
func (s *scanner) path() (path []string, err error) {
	for {
		s.blank(false)
		from := s.at
		if s.is(`"`) || s.is("'") {
			if err := s.string(); err != nil {
				return nil, err
			}
			key, ok := tomlString(s.text[from:s.at])
			if !ok {
				return nil, s.fail("invalid key")
			}
			path = append(path, key)
		} else {
			for s.at < len(s.text) && (s.text[s.at] == '_' || s.text[s.at] == '-' || isAlphanumeric(s.text[s.at])) {
				s.at++
			}
			if s.at == from {
				return nil, s.fail("expected a key")
			}
			path = append(path, string(s.text[from:s.at]))
		}
		s.blank(false)
		if !s.is(".") {
			return path, nil
		}
		s.at++
	}
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// value goes to the end of a value.
func (s *scanner) value() error {
	depth := 0
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"' || c == '\'':
			if err := s.string(); err != nil {
				return err
			}
		case c == '[' || c == '{':
			depth++
			s.at++
		case (c == ']' || c == '}' || c == ',') && depth == 0:
			return nil
		case c == ']' || c == '}':
			depth--
			s.at++
		case c == ',':
			s.at++
		case depth > 0 && strings.IndexByte(" \t\r\n#", c) >= 0:
			s.blank(true)
		case depth == 0 && strings.IndexByte("\r\n#", c) >= 0:
			// A date may have a space before its time.
			for s.at > 0 && strings.IndexByte(" \t", s.text[s.at-1]) >= 0 {
				s.at--
			}
			return nil
		default:
			s.at++
		}
	}
	if depth > 0 {
		return errors.New("a list or a table isn't closed")
	}
	return nil
}

// string goes to the end of a string, whichever of the four kinds.
func (s *scanner) string() error {
	from, quote := s.at, string(s.text[s.at])
	closing := quote
	if s.is(strings.Repeat(quote, 3)) {
		closing = strings.Repeat(quote, 3)
	}
	for s.at += len(closing); s.at < len(s.text); s.at++ {
		switch {
		case s.is(closing):
			s.at += len(closing)
			// Two quotes may stand before the closing ones.
			for n := 0; len(closing) == 3 && n < 2 && s.is(quote); n++ {
				s.at++
			}
			return nil
		case quote == `"` && s.text[s.at] == '\\':
			s.at++
		case len(closing) == 1 && s.text[s.at] == '\n':
			s.at = from
			return s.fail("a string isn't closed")
		}
	}
	s.at = from
	return s.fail("a string isn't closed")
}
