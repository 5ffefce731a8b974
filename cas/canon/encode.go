package canon

import (
	"bytes"
	"errors"
)

// An Encoder appends one canonical document to a slice. The caller passes everything in the order of the document:
//
//	e := canon.NewEncoderBytes(dst, spec)
//	e.HeaderStr(0, name)
//	e.Begin(0, "bin/run.sh")
//	e.Str(0, digest)
//	e.Int(1, size)
//	e.End()
//	err := e.Close()
//
// At the first call that would break the canonical form or a limit of the Spec, the Encoder stops writing; Close
// returns the error. An Encoder allocates nothing per entry and keeps no reference to a string. Only one goroutine
// may use it at a time.
type Encoder struct {
	spec *schema
	err  error
	buf  []byte
	base int // bytes before the document in buf; negative after Take: the bytes that were taken

	state   state
	header  int // index of the next header
	sec     int
	inSec   int
	entries int
	field   int  // index of the next field of the open entry
	some    bool // the open entry has fields already
	start   int  // of the current line in buf
	key     []byte
}

type state uint8

const (
	atFormat state = iota
	atHeader
	atEntries
	inEntry
	closed
)

var errOrder = errors.New("encoder call out of order")

// NewEncoderBytes returns an Encoder that appends to dst; Bytes returns the result.
func NewEncoderBytes(dst []byte, spec *Spec) *Encoder {
	return &Encoder{spec: spec.schema(), buf: dst, base: len(dst), sec: -1}
}

// Bytes returns the slice passed to NewEncoderBytes with the document appended. Unless Close has returned nil, it
// returns nil.
func (e *Encoder) Bytes() []byte {
	if e.err != nil || e.state != closed {
		return nil
	}
	return e.buf
}

// Take returns the bytes that were appended since the last Take, if there are at least least of them, else nil.
// With it a document need not be in memory as a whole; Bytes returns the rest. The bytes are valid until the next
// call of e.
func (e *Encoder) Take(least int) []byte {
	if e.err != nil || e.state == inEntry || len(e.buf) < least {
		return nil
	}
	b := e.buf
	e.base -= len(b)
	e.buf = b[:0]
	return b
}

// Close ends the document and returns the first error.
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
	e.state = closed
	return e.err
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
		e.failf("section %q: key %q must come before %q", e.spec.sections[section].name, string(key), e.key)
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
