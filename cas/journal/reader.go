package journal

import (
	"bufio"
	"io"
	"math"
)

// A Reader reads the lines of a journal.
type Reader struct {
	Offset int64 // of the end of the last line read
	Torn   bool  // an incomplete write follows the last line read

	f    io.ReaderAt
	line func([]byte) bool
	br   *bufio.Reader
	end  bool // the incomplete write is the end of the file
}

// NewReader returns a Reader that starts at an offset, where a line must begin. line is as in Journal.
func NewReader(f io.ReaderAt, offset int64, line func([]byte) bool) *Reader {
	return &Reader{Offset: offset, f: f, line: line}
}

// Next returns a line without its LF, valid until the next call. After the last line it returns io.EOF; when the
// journal has grown, a later call continues there. Bytes that aren't a line are ErrDamaged.
func (r *Reader) Next() ([]byte, error) {
	if r.br == nil || r.Torn {
		r.Torn, r.br = false, bufio.NewReaderSize(io.NewSectionReader(r.f, r.Offset, math.MaxInt64-r.Offset),
			4*MaxLine)
	}
	b, err := r.br.ReadSlice('\n')
	switch r.end = err == io.EOF && len(b) <= MaxLine; {
	case err == nil && len(b) <= MaxLine && r.line(b[:len(b)-1]):
		r.Offset += int64(len(b))
		return b[:len(b)-1], nil
	case err != nil && err != io.EOF && err != bufio.ErrBufferFull:
		return nil, err
	case !torn(b, r.end, r.line):
		return nil, ErrDamaged
	}
	r.Torn = len(b) > 0
	return nil, io.EOF
}

// Continues reports whether a good line follows the incomplete write at which Next stopped. In a journal whose
// writers sync each batch before they write the next, that is damage.
func (r *Reader) Continues() bool {
	for r.Torn && !r.end {
		b, err := r.br.ReadSlice('\n')
		if err == nil && r.line(b[:len(b)-1]) {
			return true
		}
		if err != nil && err != bufio.ErrBufferFull {
			return false
		}
	}
	return false
}
