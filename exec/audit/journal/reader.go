package journal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/rye-build/rye/cas/fault"
)

// A Problem is a place where a journal was changed after it was written. The rest of its file wasn't read.
type Problem struct {
	File   string `json:"file"` // "head", or a segment
	Line   int64  `json:"line"` // from 1: the first that is bad
	Reason string `json:"reason"`
}

func (p *Problem) Error() string {
	return fmt.Sprintf("%s, line %d: %s", p.File, p.Line, p.Reason)
}

// Fault returns the problem as an error with a code.
func (p *Problem) Fault() *fault.Error {
	return fault.New(fault.Integrity, "%s", p).On("reason", "audit-log").On("file", p.File).On("line", p.Line).Try("rye audit verify").From(p)
}

// A Reader reads the lines of one journal and checks their chain.
type Reader struct {
	File string // the name used in problems
	Line Line   // the last line read; the zero Line before the first
	Torn bool   // the journal ends in an incomplete write

	br  *bufio.Reader
	end bool // the incomplete write is the end of the file
}

// NewReader returns a Reader of a journal. file is its name in problems.
func NewReader(file string, r io.Reader) *Reader {
	return &Reader{File: file, br: bufio.NewReaderSize(r, 4*MaxLine)}
}

// Problem returns a problem at the line after the last one read.
func (r *Reader) Problem(format string, args ...any) error {
	return &Problem{r.File, r.Line.N + 1, fmt.Sprintf(format, args...)}
}

// Next reads a line. It returns io.EOF after the last one, and a *Problem for anything that isn't the next line. The
// line's body is valid until Next is called again.
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
		return r.Problem("lines before it are missing or out of order")
	}
	r.Line = l
	return nil
}

// tail decides what bytes mean that aren't a line. A process killed while writing leaves the beginning of a line, a
// machine that crashes leaves NUL bytes.
func (r *Reader) tail(b []byte, end bool) error {
	if !end && !bytes.Contains(b, nul) {
		return r.Problem(notLine)
	}
	r.Torn, r.end = true, end
	return io.EOF
}

// Continues reports whether a good line follows an incomplete one. That never happens in a journal that syncs each line
// before it writes the next, unless another process is writing now.
func (r *Reader) Continues() bool {
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
