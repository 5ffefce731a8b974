package record

import (
	"bytes"
	"fmt"
	"io"
	"iter"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
)

// A Problem is a place where a journal was changed after it was written. The reader stopped there.
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
	return fault.New(fault.Integrity, "%s", p).On("reason", "audit-log").On("file", p.File).On("line",
		p.Line).Try("rye audit verify").From(p)
}

// A Reader reads the lines of one journal and checks their chain.
type Reader struct {
	*journal.Reader
	File string // the name used in problems
	Line Line   // the last line read; the zero Line before the first

	next Line
}

// NewReader returns a Reader of a journal. file is its name in problems.
func NewReader(file string, f io.ReaderAt) *Reader {
	r := &Reader{File: file}
	r.Reader = journal.NewReader(f, 0, r.next.Scan)
	return r
}

// Problem returns a problem at the line after the last one read.
func (r *Reader) Problem(format string, args ...any) error {
	return &Problem{r.File, r.Line.N + 1, fmt.Sprintf(format, args...)}
}

// Next reads a line. It returns io.EOF after the last one, and a *Problem for anything that isn't the next line. The
// line's body is valid until Next is called again.
func (r *Reader) Next() error {
	_, err := r.Reader.Next()
	switch {
	case err == journal.ErrDamaged:
		return r.Problem("%s", err)
	case err != nil:
		return err
	case r.next.N != r.Line.N+1 || r.next.Prev != r.Line.Sum:
		return r.Problem("lines before it are missing or out of order")
	}
	r.Line = r.next
	return nil
}

// A Tail is the end of a chain, where lines are appended.
type Tail struct {
	Added []byte // what Add wrote

	n    int64
	sum  cas.Digest
	read []byte
}

// TailOf returns the end of a journal with these last lines; without lines, the beginning.
func TailOf(lines []byte) *Tail {
	var last Line
	if n := len(lines) - 1; n >= 0 {
		last.Scan(lines[bytes.LastIndexByte(lines[:n], '\n')+1 : n])
	}
	return &Tail{n: last.N, sum: last.Sum, read: lines}
}

// Last returns the lines passed to TailOf.
func (t *Tail) Last() iter.Seq[Line] {
	return func(yield func(Line) bool) {
		for b := range bytes.Lines(t.read) {
			var l Line
			if l.Scan(b[:len(b)-1]) && !yield(l) {
				return
			}
		}
	}
}

// Place sets a line's number, the sum before it and its own sum for its place behind t.
func (t *Tail) Place(l *Line) {
	l.N, l.Prev = t.n+1, t.sum
	l.Sum = cas.Sum(l.AppendOpen(nil))
}

// Add appends a line to t.
func (t *Tail) Add(l Line) {
	l.N, l.Prev = t.n+1, t.sum
	t.Added = l.Append(t.Added)
	t.n, t.sum = l.N, l.Sum
}
