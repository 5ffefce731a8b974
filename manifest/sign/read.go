package sign

import (
	"bytes"
	"io"
	"slices"
	"sync"

	"github.com/rye-build/rye/cas"
)

// A Format is the format of a file's signature lines.
type Format uint8

const (
	None Format = iota
	V1
	V2
)

func (f Format) String() string { return [...]string{"none", "v1", "v2"}[f] }

// Signed is the result of Read, unverified; Check verifies it.
type Signed struct {
	Format   Format
	Raw      cas.Digest // of the file
	Stripped cas.Digest // of the file without its signature lines
	Lines    []Line     // of Format V2, sorted by key
	V1       *V1Line    // of Format V1, if the style has a rule for it

	style Style
	block block
	held  holding // signatures verified before
	line  int     // the first line of the block
	// otherEnds holds the digests of the content with LF at every line end, and with CR LF, if these may explain the
	// mismatch.
	otherEnds []cas.Digest
}

// Line returns the line of the file on which its signatures begin or would begin. It is 1 for a file that has no place
// for them.
func (s *Signed) Line() int { return max(s.line, 1) }

// ReadBytes reads a file in memory.
func ReadBytes(file []byte, style Style) (Signed, error) { return Read(bytes.NewReader(file), style) }

var buffers = sync.Pool{New: func() any { return new([2 * headSize]byte) }}

// Read reads a file to its end and hashes it. It keeps only the head in memory; the exception is a file with a line of
// the first format, which may have MaxV1 bytes.
//
// If the lines are damaged or out of place, Read returns an *IntegrityError or a *VersionError, with Raw and Stripped
// as far as they make sense. If no line matches the content and r is an io.Seeker, Read reads it a second time to find
// out whether only line ends differ. Other errors are those of r.
func Read(r io.Reader, style Style) (Signed, error) {
	s, err := read(r, style)
	if err == nil {
		err = s.block.err
	}
	return s, err
}

// read does what Read does, and leaves problems with the lines in the block.
func read(in io.Reader, style Style) (Signed, error) {
	buf := buffers.Get().(*[2 * headSize]byte)
	defer buffers.Put(buf)
	var begin int64
	if seeker, ok := in.(io.Seeker); ok {
		// A file that can't seek, such as a pipe, is read once.
		begin, _ = seeker.Seek(0, io.SeekCurrent)
	}
	n, err := readFull(in, buf[:])
	if err != nil {
		return Signed{}, err
	}
	head := buf[:min(n, headSize)]
	signed := Signed{style: style, block: findBlock(head, style)}
	signed.line = lineNumber(head, signed.block.start)
	if found, ok := style.findV1(head); ok {
		return signed, signed.readV1(io.MultiReader(bytes.NewReader(slices.Clone(buf[:n])), in), found)
	}
	switch b := signed.block; {
	case b.v1:
		signed.Format = V1
	case b.end > b.start:
		signed.Format, signed.Lines = V2, b.lines
	}
	if err := signed.hash(buf, n, in); err != nil {
		return signed, err
	}
	if seeker, ok := in.(io.Seeker); ok && signed.Format == V2 && (signed.block.crlf || !signed.anyFits()) {
		if _, err := seeker.Seek(begin, io.SeekStart); err == nil {
			return signed, signed.lookAtLineEnds(in, buf)
		}
	}
	return signed, nil
}

// anyFits reports whether a line has the content's digest.
func (s *Signed) anyFits() bool {
	return slices.ContainsFunc(s.Lines, func(l Line) bool { return l.Digest == s.Stripped })
}

// readFull reads until buf is full or the reader ends, which is no error.
func readFull(r io.Reader, buf []byte) (int, error) {
	n, err := io.ReadFull(r, buf)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return n, err
}

// hash sets Raw and Stripped. The first n bytes are in buf already.
func (s *Signed) hash(buf *[2 * headSize]byte, n int, in io.Reader) error {
	block := s.block
	if n < len(buf) {
		s.Raw = cas.Sum(buf[:n])
		s.Stripped = s.Raw
		if block.end > block.start {
			s.Stripped = cas.Sum(buf[:block.start+copy(buf[block.start:], buf[block.end:n])])
		}
		return nil
	}
	raw, stripped := cas.NewHasher(), cas.NewHasher()
	raw.Write(buf[:n])
	stripped.Write(buf[:block.start])
	stripped.Write(buf[block.end:n])
	var w io.Writer = raw
	if block.end > block.start {
		w = io.MultiWriter(raw, stripped)
	}
	if _, err := io.CopyBuffer(w, struct{ io.Reader }{in}, buf[:]); err != nil {
		return err
	}
	s.Raw, s.Stripped = raw.Digest(), raw.Digest()
	if block.end > block.start {
		s.Stripped = stripped.Digest()
	}
	return nil
}

// lookAtLineEnds reads the file again and hashes it with other line ends.
func (s *Signed) lookAtLineEnds(r io.Reader, buf *[2 * headSize]byte) error {
	n, err := readFull(r, buf[:])
	if err != nil {
		return err
	}
	n = s.block.start + copy(buf[s.block.start:], buf[min(s.block.end, n):n])
	lf, crlf := lineEnds{to: cas.NewHasher(), end: "\n"}, lineEnds{to: cas.NewHasher(), end: "\r\n"}
	both := io.MultiWriter(&lf, &crlf)
	both.Write(buf[:n])
	if _, err := io.CopyBuffer(both, struct{ io.Reader }{r}, buf[:]); err != nil {
		return err
	}
	s.otherEnds = []cas.Digest{lf.digest(), crlf.digest()}
	if !s.block.crlf {
		return nil
	}
	for _, l := range s.Lines {
		if l.Digest == s.Stripped || slices.Contains(s.otherEnds, l.Digest) {
			s.block.err = s.contentError(l.Digest)
			break
		}
	}
	return nil
}

// contentError returns the error about a line that has another digest than the content, or damaged line ends.
func (s *Signed) contentError(expected cas.Digest) *IntegrityError {
	if expected == s.Stripped {
		return &IntegrityError{What: "lines", Reason: crlfLines, OnlyLineEndings: true}
	}
	return &IntegrityError{What: "content", Expected: expected.String(), Found: s.Stripped.String(),
		OnlyLineEndings: slices.Contains(s.otherEnds, expected)}
}

// lineEnds is a writer that turns every LF and CR LF into one kind of line end.
type lineEnds struct {
	to  cas.Hasher
	end string
	cr  bool // the last byte was a CR and isn't written yet
}

func (w *lineEnds) Write(data []byte) (int, error) {
	n := len(data)
	for len(data) > 0 {
		if w.cr && data[0] != '\n' {
			io.WriteString(w.to, "\r")
		}
		w.cr = false
		i := bytes.IndexByte(data, '\n')
		line := data[:max(i, 0)]
		if i < 0 {
			line, data = data, nil
		} else {
			data = data[i+1:]
		}
		text, cr := bytes.CutSuffix(line, []byte("\r"))
		w.to.Write(text)
		if w.cr = cr && i < 0; i >= 0 {
			io.WriteString(w.to, w.end)
		}
	}
	return n, nil
}

func (w *lineEnds) digest() cas.Digest {
	if w.cr {
		io.WriteString(w.to, "\r")
	}
	return w.to.Digest()
}
