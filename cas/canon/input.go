package canon

import (
	"bytes"
	"fmt"
	"io"
)

// idleReads is how often in a row a reader may return nothing and no error.
const idleReads = 100

// fill moves the window to the next whole lines. It returns false at the end of the input and on an error. After
// it, no slice of the old window is valid except the key.
func (s *Scanner) fill() bool {
	if s.err != nil {
		return false
	}
	if s.r != nil && !s.eof {
		// entry compares the key with the next one.
		s.keyBuf = append(s.keyBuf[:0], s.key...)
		s.key = s.keyBuf
		s.base += int64(len(s.win))
		s.have = copy(s.buf, s.buf[len(s.win):s.have])
		s.win, s.pos = nil, 0
		for !s.eof {
			if s.have >= MaxLine {
				return s.lineTooLong()
			}
			if found, ok := s.read(); found || !ok {
				return found
			}
		}
		s.rest = s.buf[:s.have]
	}
	if len(s.rest) > 0 {
		s.err = &SyntaxError{s.spec.name(), s.line, len(s.rest) + 1, "the last line doesn't end with a newline"}
	}
	return false
}

// read reads once. found reports whether it found the end of a line and so a window; ok is false if the scanner
// failed.
func (s *Scanner) read() (found, ok bool) {
	var n int
	var err error
	for range idleReads {
		if n, err = s.r.Read(s.buf[s.have:]); n != 0 || err != nil {
			break
		}
	}
	switch {
	case err == io.EOF:
		s.eof = true
	case err == nil && n == 0:
		err = io.ErrNoProgress
		fallthrough
	case err != nil:
		s.err = fmt.Errorf("%s: line %d: %w", s.spec.name(), s.line, err)
		return false, false
	}
	fresh := s.buf[s.have : s.have+n]
	s.have += n
	if s.base+int64(s.have) > s.spec.maxBytes {
		return false, s.tooBig()
	}
	i := bytes.LastIndexByte(fresh, '\n')
	if i < 0 {
		return false, true
	}
	end := s.have - n + i + 1
	s.win = s.buf[:end]
	if s.eof {
		s.rest = s.buf[end:s.have]
	}
	return true, true
}

func (s *Scanner) tooBig() bool {
	s.err = &SyntaxError{s.spec.name(), 0, 0, fmt.Sprintf("document is larger than %d bytes", s.spec.maxBytes)}
	return false
}

func (s *Scanner) lineTooLong() bool {
	s.err = &SyntaxError{s.spec.name(), s.line, 0, fmt.Sprintf("line is longer than %d bytes", MaxLine)}
	return false
}
