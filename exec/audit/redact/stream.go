package redact

import "strings"

// A Stream takes secrets out of bytes that come piece by piece, and hands on the rest as soon as it is none. It is for
// one goroutine.
type Stream struct{ m masker }

// Stream returns one that hands on to emit. What emit is given is its own.
func (r *Redactor) Stream(emit func([]byte) error) *Stream {
	return &Stream{masker{forms: &r.forms, emit: func(s string) error { return emit([]byte(s)) }}}
}

// Write takes a piece. What may be the beginning of a secret is kept back: at most one byte less than it has in its
// longest form. The error is that of emit.
func (s *Stream) Write(b []byte) (int, error) {
	if err := s.m.write(string(b), false); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush hands on what was kept back, unless it is Shortest bytes of a secret: nothing comes any more.
func (s *Stream) Flush() error { return s.m.write("", true) }

// A masker is in the midst of a text.
type masker struct {
	forms *forms
	emit  func(string) error
	cut   bool // the text may have lost its beginning

	held    string
	covered int  // how many bytes of held are a secret's
	masked  bool // the last byte before held was one
	began   bool
}

// trimmed is what may stand around what was cut off.
const trimmed = " \t\r\n\ufffd…"

// write takes more of the text, and hands on all that is decided.
func (m *masker) write(s string, last bool) error {
	text := m.held + s
	if m.held == "" {
		text = s
	}
	if m.cut && !m.began && text != "" {
		m.began = true
		inner := strings.TrimLeft(text, trimmed)
		if n := m.forms.ended(inner); n > 0 {
			m.covered = len(text) - len(inner) + n
		}
	}
	from, i := 0, 0 // what stands before from was handed on
	for ; i < len(text); i++ {
		if i >= m.covered && !m.forms.first[text[i]] { // as most bytes are
			m.masked = false
			continue
		}
		if n := m.forms.at(text[i:]); n > 0 {
			m.covered = max(m.covered, i+n)
		}
		if len(text)-i < m.forms.longest && m.forms.first[text[i]] {
			rest := text[i:]
			if last {
				rest = strings.TrimRight(rest, trimmed)
			}
			switch {
			case !m.forms.begins(rest):
			case !last:
				return m.keep(text, from, i)
			case len(rest) >= Shortest:
				m.covered = max(m.covered, i+len(rest))
			}
		}
		if i >= m.covered {
			m.masked = false
			continue
		}
		if err := m.hand(text[from:i], !m.masked); err != nil {
			return err
		}
		m.masked, from = true, i+1
	}
	return m.keep(text, from, i)
}

// keep hands on the text up to i, and keeps the rest.
func (m *masker) keep(text string, from, i int) error {
	m.held, m.covered = text[i:], max(0, m.covered-i)
	return m.hand(text[from:i], false)
}

func (m *masker) hand(s string, mask bool) error {
	if mask {
		s += Mask
	}
	if s == "" {
		return nil
	}
	return m.emit(s)
}
