package canon

import (
	"bytes"
	"errors"
	"io"
)

// flushSize is how much an Encoder over a writer collects before it writes.
const flushSize = 64 << 10

// An Encoder writes one canonical document. Everything is given in the order in which it is written:
//
//	e := canon.NewEncoder(w, spec)
//	e.Comment(line)
//	e.HeaderStr(0, name)
//	e.Begin(0, "bin/run.sh")
//	e.Str(0, digest)
//	e.Int(1, size)
//	e.End()
//	err := e.Close()
//
// The first thing that would make the document other than canonical or break a limit of the Spec is
// remembered, nothing is written from then on, and Close returns it. What a writer has got before that, or
// without Close, is the beginning of a document and must be thrown away. An Encoder allocates nothing per entry
// and keeps none of the strings it is given. It may be used by one goroutine at a time.
type Encoder struct {
	spec *schema
	w    io.Writer
	err  error

	buf     []byte
	base    int   // bytes in front of the document, which the caller gave
	written int64 // bytes of the document that buf no longer has

	state    state
	comments int
	header   int // index of the next header
	sec      int
	inSec    int
	entries  int
	field    int  // index of the next field of the open entry
	some     bool // the open entry has fields already
	start    int  // of the current line in buf
	key      []byte
}

type state uint8

const (
	atComments state = iota
	atHeader
	atEntries
	inEntry
	closed
)

var errOrder = errors.New("encoder call out of order")

// NewEncoder returns an Encoder that writes to w, in pieces of about 64 KiB.
func NewEncoder(w io.Writer, spec *Spec) *Encoder {
	e := &Encoder{spec: spec.schema()}
	e.Reset(w)
	return e
}

// NewEncoderBytes returns an Encoder that appends to dst; Bytes returns the result.
func NewEncoderBytes(dst []byte, spec *Spec) *Encoder {
	e := &Encoder{spec: spec.schema()}
	e.ResetBytes(dst)
	return e
}

// Reset makes e write another document of the same Spec to w, keeping its memory.
func (e *Encoder) Reset(w io.Writer) {
	buf := e.buf
	if e.w == nil || buf == nil {
		buf = make([]byte, 0, flushSize+flushSize/4)
	}
	*e = Encoder{spec: e.spec, w: w, buf: buf[:0], sec: -1, key: e.key[:0]}
}

// ResetBytes makes e append another document of the same Spec to dst.
func (e *Encoder) ResetBytes(dst []byte) {
	*e = Encoder{spec: e.spec, buf: dst, base: len(dst), sec: -1, key: e.key[:0]}
}

// Bytes returns what NewEncoderBytes was given and the document behind it, once Close has returned nil, and nil
// otherwise.
func (e *Encoder) Bytes() []byte {
	if e.w != nil || e.err != nil || e.state != closed {
		return nil
	}
	return e.buf
}

// Close ends the document and returns the first error. It doesn't close the writer.
func (e *Encoder) Close() error {
	if e.err != nil || e.state == closed {
		return e.err
	}
	if e.state == inEntry {
		return e.fail(errOrder)
	}
	if e.state < atEntries {
		e.finishHeader()
	}
	if e.w != nil && e.err == nil {
		e.flush()
	}
	e.state = closed
	return e.err
}

// Comment writes a signature line, given without LF. Signature lines come before everything else.
func (e *Encoder) Comment(line []byte) {
	if !e.in(atComments) {
		return
	}
	switch n := len(line); {
	case e.comments == MaxComments:
		e.failf("more than %d signature lines", MaxComments)
	case n > MaxCommentLine:
		e.failf("signature line is longer than %d bytes", MaxCommentLine)
	case !bytes.HasPrefix(line, []byte(commentPrefix)) || n == len(commentPrefix) || line[n-1] == ' ':
		e.failf("%q is not a signature line", string(line))
	case bytes.ContainsFunc(line, func(r rune) bool { return r < 0x20 || r > 0x7e }):
		e.failf("signature line %q holds more than printable ASCII", string(line))
	default:
		e.comments++
		e.start = len(e.buf)
		e.buf = append(e.buf, line...)
		e.endLine()
	}
}

// Begin begins an entry of a section, an index into Spec.Sections. Sections come in order, keys sorted by bytes.
func (e *Encoder) Begin(section int, key string) { e.BeginBytes(section, view(key)) }

// BeginBytes is Begin for bytes.
func (e *Encoder) BeginBytes(section int, key []byte) {
	if e.state < atEntries {
		e.finishHeader()
	}
	if !e.in(atEntries) {
		return
	}
	switch {
	case section < max(e.sec, 0) || section >= len(e.spec.sections):
		e.failf("section %d is out of order", section)
		return
	case section > e.sec:
		e.sec, e.inSec = section, 0
		e.buf = append(e.buf, e.spec.sections[section].lit...)
	case e.inSec > 0 && bytes.Compare(e.key, key) >= 0:
		e.failf("section %q: key %q must stand before %q", e.spec.sections[section].name, string(key), e.key)
		return
	}
	e.start = len(e.buf)
	e.buf = append(e.buf, ' ', ' ')
	if e.quote(key); e.err != nil {
		return
	}
	if n := len(e.buf) - e.start - len(`  ""`); n < 1 || n > MaxKey {
		e.failf("key %q: a key is 1 to %d bytes long, not %d", string(key), MaxKey, n)
		return
	}
	e.buf = append(e.buf, ": {"...)
	e.key = append(e.key[:0], key...)
	e.state, e.field, e.some = inEntry, 0, false
}

// End ends the entry.
func (e *Encoder) End() {
	if !e.in(inEntry) {
		return
	}
	if fs := e.spec.sections[e.sec].fields; !e.skipTo(fs, &e.field, len(fs)) {
		return
	}
	if e.entries == e.spec.maxEntries {
		e.failf("more than %d entries", e.spec.maxEntries)
		return
	}
	e.state = atEntries
	e.entries++
	e.inSec++
	e.buf = append(e.buf, '}')
	e.endLine()
}
