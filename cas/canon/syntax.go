package canon

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// The functions of this file find the mistake in a line that has failed already. Valid documents never get here.

// fail sets the error about the current line, at index p. It returns false.
func (s *Scanner) fail(p int, format string, args ...any) bool {
	s.err = &SyntaxError{s.spec.name(), s.line, p - s.pos + 1, fmt.Sprintf(format, args...)}
	return false
}

// expected is fail for a text at p that isn't the required one.
func (s *Scanner) expected(p int, what string) bool {
	return s.fail(p, "expected %s, found %s", what, describe(s.win[p:]))
}

// describe returns words for the first character of data.
func describe(data []byte) string {
	switch {
	case data[0] == '\n':
		return "the end of the line"
	case data[0] == '\r':
		return "a carriage return"
	case data[0] == '\t':
		return "a tab"
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return "a byte order mark"
	case len(bytes.TrimLeft(data[:bytes.IndexByte(data, '\n')], " ")) == 0:
		return "a space at the end of the line"
	}
	r, n := utf8.DecodeRune(data)
	if r == utf8.RuneError && n == 1 {
		return fmt.Sprintf("byte 0x%02x", data[0])
	}
	return fmt.Sprintf("%q", r)
}

// excerpt returns the start of the line that b begins with.
func excerpt(b []byte) []byte {
	b = b[:bytes.IndexByte(b, '\n')]
	return b[:min(len(b), 60)]
}

// badLine fails for a line that is neither the required one nor an entry.
func (s *Scanner) badLine() bool {
	data := s.win[s.pos:]
	switch {
	case data[0] == '\n':
		return s.fail(s.pos, "blank line")
	case data[0] == '#':
		return s.fail(s.pos, "comment: only signature lines are allowed, before everything else")
	case data[0] == ' ' && s.sec < 0:
		return s.fail(s.pos, "indented line outside of a section")
	case bytes.HasPrefix(data, []byte("---")), bytes.HasPrefix(data, []byte("...")):
		return s.fail(s.pos, "document marker: there is one document, without markers")
	case bytes.HasPrefix(data, []byte("<<<<<<<")), bytes.HasPrefix(data, []byte("=======")),
		bytes.HasPrefix(data, []byte(">>>>>>>")):
		return s.fail(s.pos, "conflict marker: a merge was left unfinished")
	}
	name := lineName(data)
	if name == nil {
		return s.expected(s.pos, "a name and a colon")
	}
	colon := s.pos + len(name)
	i, sec := s.spec.known(name), 0
	if i >= 0 {
		sec = i - len(s.spec.header)
	}
	switch {
	case i == -2:
		return s.fail(s.pos, "unknown name %q", name)
	case i == -1:
		return s.fail(s.pos, "second format line")
	case sec < 0 && data[len(name)+1] != ' ':
		return s.expected(colon+1, "a space and a value")
	case sec < 0 && s.heads[i].set:
		return s.fail(s.pos, "duplicate header %q, first at line %d", name, s.heads[i].line)
	case sec < 0:
		return s.fail(s.pos, "header %q is out of order", name)
	case s.secLines[sec] > 0:
		return s.fail(s.pos, "duplicate section %q, first at line %d", name, s.secLines[sec])
	case sec < s.sec:
		return s.fail(s.pos, "section %q must come before %q of line %d",
			name, s.spec.sections[s.sec].name, s.secLines[s.sec])
	}
	return s.expected(colon+1, "the end of the line")
}

// badHeader fails for the current line, which should be header i and isn't.
func (s *Scanner) badHeader(i int, more bool) bool {
	if more {
		if name := lineName(s.win[s.pos:]); name == nil || s.spec.known(name) <= i {
			return s.badLine()
		}
	}
	return s.fail(s.pos, "header %q is missing", s.spec.header[i].name)
}

// badEntryStart fails for an entry that doesn't begin with its indent and a quote.
func (s *Scanner) badEntryStart() bool {
	if s.win[s.pos+1] != ' ' {
		return s.expected(s.pos+1, "an indent of two spaces")
	}
	return s.expected(s.pos+2, "a key in double quotes")
}

// badOrder fails for a key that doesn't sort after the one before it.
func (s *Scanner) badOrder(key []byte) bool {
	at := s.pos + 2
	if bytes.Equal(s.key, key) {
		return s.fail(at, "duplicate key %q, first at line %d", key, s.line-1)
	}
	// An earlier entry may have the same key. If the window still has that entry, the duplicate is the mistake to
	// report.
	upto := bytes.Index(s.win[s.pos:], []byte("\": {"))
	if upto > 0 {
		same := append([]byte{'\n'}, s.win[s.pos:s.pos+upto+4]...)
		if i := bytes.LastIndex(s.win[:s.pos], same); i >= 0 {
			first := s.line - bytes.Count(s.win[i+1:s.pos], []byte{'\n'})
			if first > s.secLines[s.sec] {
				return s.fail(at, "duplicate key %q, first at line %d", key, first)
			}
		}
	}
	return s.fail(at, "key %q must come before %q of line %d", key, s.key, s.line-1)
}

// badField fails for the text at pos, after n fields, which should be field i, or the closing brace if i is behind
// the last field.
func (s *Scanner) badField(pos, n, i int) {
	fs := s.spec.sections[s.sec].fields
	missing := func() bool { return i < len(fs) && !fs[i].optional }
	data := s.win
	switch {
	case data[pos] == '}' && missing():
		s.fail(pos, "field %q is missing", fs[i].name)
		return
	case n > 0 && (data[pos] != ',' || data[pos+1] != ' '):
		s.expected(pos, `", " or "}" after the value`)
		return
	case n > 0:
		pos += 2
	}
	name := lineName(data[pos:])
	if name == nil {
		s.expected(pos, "a field")
		return
	}
	for j := range fs {
		if fs[j].name != string(name) {
			continue
		}
		switch {
		case data[pos+len(name)+1] != ' ':
			s.expected(pos+len(name)+1, "a space and a value")
		case j < i && s.vals[j].set:
			s.fail(pos, "duplicate field %q", name)
		case j < i:
			s.fail(pos, "field %q is out of order", name)
		default:
			s.fail(pos, "field %q is missing", fs[i].name)
		}
		return
	}
	s.fail(pos, "unknown field %q", name)
}
