package redact

import "strings"

// A Stream removes secrets from bytes that arrive in pieces, and passes on the rest as soon as possible. It is for
// one goroutine.
type Stream struct{ m masker }

// Stream returns a Stream that passes its output to emit, which may keep the slices.
func (r *Redactor) Stream(emit func([]byte) error) *Stream {
	return &Stream{masker{forms: &r.forms, emit: func(s string) error { return emit([]byte(s)) }}}
}

// Write takes a piece. It holds back a possible beginning of a secret: at most one byte less than the longest form.
// It returns the error of emit.
func (s *Stream) Write(b []byte) (int, error) {
	if err := s.m.write(string(b), false); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush ends the stream: it passes on the bytes held back, or masks them if they are Shortest bytes of a secret.
func (s *Stream) Flush() error { return s.m.write("", true) }

// A masker is the state of masking one text.
type masker struct {
	forms *forms
	emit  func(string) error
	cut   bool // the text may have lost its beginning

	held    string
	covered int  // how many bytes of held belong to a secret
	masked  bool // the last byte before held belonged to a secret
	began   bool
}

// trimmed are the characters that may surround the place of a cut.
const trimmed = " \t\r\n\ufffd…"

// write takes more of the text, and passes on everything that is decided.
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
	from, i := 0, 0 // text before from was passed on
	for ; i < len(text); i++ {
		if i >= m.covered && !m.forms.first[text[i]] { // true for most bytes
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

// keep passes on the text up to i, and holds back the rest.
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
