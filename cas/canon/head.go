package canon

import (
	"bytes"
	"fmt"
)

// Header reads the signature lines, the format line and the header lines, unless they were read before, and reports
// whether they are good. Scan calls it; a caller may call it to look at the headers before the first entry.
func (s *Scanner) Header() bool {
	if !s.begun && s.err == nil {
		s.begun = true
		if !s.readComments() || !s.readFormat() || !s.readHeaders() {
			s.drop()
		}
	}
	return s.err == nil
}

// more reports whether there is another line.
func (s *Scanner) more() bool { return s.pos < len(s.win) || s.fill() }

func (s *Scanner) readComments() bool {
	for s.more() {
		w := s.win[s.pos:]
		if w[0] != '#' {
			break
		}
		line := w[:bytes.IndexByte(w, '\n')]
		if !bytes.HasPrefix(line, []byte(commentPrefix)) {
			return s.fail(s.pos, "comment that is not a signature line")
		}
		if len(line) > MaxCommentLine {
			return s.fail(s.pos, "signature line is longer than %d bytes", MaxCommentLine)
		}
		if len(s.comments) == MaxComments {
			return s.fail(s.pos, "more than %d signature lines", MaxComments)
		}
		for i, c := range line {
			if c < 0x20 || c > 0x7e {
				return s.expected(s.pos+i, "printable ASCII")
			}
		}
		if n := len(line); n == len(commentPrefix) || line[n-1] == ' ' {
			return s.fail(s.pos+n-1, "signature line ends with %q", line[n-1])
		}
		s.comments = append(s.comments, s.keep(line))
		if !s.endLine(s.pos + len(line)) {
			return false
		}
	}
	s.body = s.base + int64(s.pos)
	return s.err == nil
}

// keep returns b, or a copy that outlives the window.
func (s *Scanner) keep(b []byte) []byte {
	if s.r == nil {
		return b
	}
	n := len(s.arena)
	s.arena = append(s.arena, b...)
	return s.arena[n:len(s.arena):len(s.arena)]
}

func (s *Scanner) readFormat() bool {
	if !s.more() {
		if s.err == nil {
			s.fail(s.pos, "no document: expected %#q", s.spec.first[:len(s.spec.first)-1])
		}
		return false
	}
	data := s.win[s.pos:]
	if bytes.HasPrefix(data, s.spec.first) {
		return s.endLine(s.pos + len(s.spec.first) - 1)
	}
	if rest, ok := bytes.CutPrefix(data, []byte(`rye: "`)); ok {
		if rest, ok = bytes.CutPrefix(rest, []byte(s.spec.family)); ok {
			if i := bytes.IndexByte(rest, '"'); i >= 0 && isVersion(rest[:i]) && rest[i+1] == '\n' {
				s.err = &VersionError{Found: s.spec.family + string(rest[:i]), Want: s.spec.format}
				return false
			}
		}
	}
	return s.fail(s.pos, "expected %#q, found %q", s.spec.first[:len(s.spec.first)-1], excerpt(data))
}

func (s *Scanner) readHeaders() bool {
	for i := range s.spec.header {
		field, val := &s.spec.header[i], &s.heads[i]
		more := s.more()
		if s.err != nil {
			return false
		}
		if !more || !bytes.HasPrefix(s.win[s.pos:], field.lit) {
			if field.optional {
				continue
			}
			return s.badHeader(i, more)
		}
		val.line = s.line
		if !s.readHeader(field, val) {
			return false
		}
	}
	s.arenaMark, s.listMark = len(s.arena), len(s.list)
	return true
}

func (s *Scanner) readHeader(f *field, v *value) bool {
	first := len(s.list)
	p, ok := s.value(f, v, s.pos+len(f.lit))
	if !ok {
		return false
	}
	v.set = true
	v.b = s.keep(v.b)
	for i := first; i < len(s.list); i++ {
		s.list[i] = s.keep(s.list[i])
	}
	return s.endLine(p)
}

// lineName returns the name at the start of a line, up to its colon, or nil.
func lineName(b []byte) []byte {
	n := 0
	for nameByte(b[n]) {
		n++
	}
	if n == 0 || b[n] != ':' {
		return nil
	}
	return b[:n]
}

// known returns the position of a header or section in the order of the document, -1 for the format line, or -2 for
// a name that the Spec doesn't have.
func (c *schema) known(name []byte) int {
	if string(name) == "rye" {
		return -1
	}
	for i := range c.header {
		if c.header[i].name == string(name) {
			return i
		}
	}
	for i := range c.sections {
		if c.sections[i].name == string(name) {
			return len(c.header) + i
		}
	}
	return -2
}

// Err returns the first error: a *SyntaxError, a *VersionError, or the error of the reader. It is nil before an
// error and after the end of a valid document.
func (s *Scanner) Err() error { return s.err }

// Line returns the line of the current entry, or the last line of the header before the first entry.
func (s *Scanner) Line() int { return s.line - 1 }

// Errorf returns a SyntaxError for the line of the current entry, for a rule that only the caller knows.
func (s *Scanner) Errorf(format string, args ...any) *SyntaxError {
	return &SyntaxError{s.spec.name(), s.Line(), 0, fmt.Sprintf(format, args...)}
}
