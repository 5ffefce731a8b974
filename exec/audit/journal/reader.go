package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// A Problem is something in a journal that isn't as it was written. Nothing behind it in its file was looked at.
type Problem struct {
	File   string `json:"file"` // "head", or a segment
	Line   int64  `json:"line"` // from 1: the first that is bad
	Reason string `json:"reason"`
}

func (p *Problem) Error() string {
	return fmt.Sprintf("%s, line %d: %s", p.File, p.Line, p.Reason)
}

// A Reader reads the lines of one journal, and follows their chain.
type Reader struct {
	File string // what problems call it
	Line Line   // the last that was read; the zero Line before the first
	Torn bool   // the journal ended in what a dying process leaves

	br  *bufio.Reader
	end bool // it was torn by its end
}

// NewReader returns a Reader of a journal, which problems call file.
func NewReader(file string, r io.Reader) *Reader {
	return &Reader{File: file, br: bufio.NewReaderSize(r, 4*MaxLine)}
}

// Problem returns one of the line behind the last that was read.
func (r *Reader) Problem(format string, args ...any) error {
	return &Problem{r.File, r.Line.N + 1, fmt.Sprintf(format, args...)}
}

// Next reads a line. Behind the last it returns io.EOF; what isn't a line that follows is a *Problem. The line's body
// is good until Next is called again.
func (r *Reader) Next() error {
	b, err := r.br.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull) || len(b) > MaxLine:
		return r.tail(b, false)
	case err == io.EOF && len(b) == 0:
		return io.EOF
	case err == io.EOF:
		return r.tail(b, true)
	case err != nil:
		return err
	}
	l := r.Line
	if !l.Scan(b[:len(b)-1]) {
		return r.tail(b, false)
	}
	if l.N != r.Line.N+1 || l.Prev != r.Line.Sum {
		return r.Problem("lines are missing before it, or not in their order")
	}
	r.Line = l
	return nil
}

// tail decides what to make of bytes that are no line. A process that dies while it writes leaves the beginning of
// one, and a machine that dies leaves NUL.
func (r *Reader) tail(b []byte, end bool) error {
	if !end && !bytes.Contains(b, nul) {
		return r.Problem(notLine)
	}
	r.Torn, r.end = true, end
	return io.EOF
}

// Goes reports whether a good line follows behind what is torn. None does in a journal of which each line is synced
// before the next is written. What comes behind its end meanwhile was being written.
func (r *Reader) Goes() bool {
	for !r.end {
		b, err := r.br.ReadSlice('\n')
		if err == nil && new(Line).Scan(b[:len(b)-1]) {
			return true
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return false
		}
	}
	return false
}
