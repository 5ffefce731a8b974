package canon

import (
	"fmt"
	"strconv"
	"unsafe"
)

// The methods below write one value each. They accept an empty optional value, "" or an empty list, and write
// nothing: its one form is to be absent.

// HeaderStr writes header i of the Spec, a String.
func (e *Encoder) HeaderStr(i int, v string) { e.HeaderBytes(i, view(v)) }

// HeaderBytes is HeaderStr for bytes.
func (e *Encoder) HeaderBytes(i int, v []byte) {
	if f := e.beginHeader(i, String, len(v) == 0); f != nil {
		e.str(f, v)
		e.endLine()
	}
}

// HeaderInt writes header i, an Int.
func (e *Encoder) HeaderInt(i int, n int64) {
	if f := e.beginHeader(i, Int, false); f != nil {
		e.int(f, n)
		e.endLine()
	}
}

// HeaderStrs writes header i, Strings.
func (e *Encoder) HeaderStrs(i int, v []string) {
	if f := e.beginHeader(i, Strings, len(v) == 0); f != nil {
		e.list(f, v)
		e.endLine()
	}
}

// Str writes a String of the entry. The field is an index into Fields of its Section. Fields come in order; the
// caller leaves out absent ones.
func (e *Encoder) Str(field int, v string) { e.StrBytes(field, view(v)) }

// StrBytes is Str for bytes.
func (e *Encoder) StrBytes(field int, v []byte) {
	if f := e.beginField(field, String, len(v) == 0); f != nil {
		e.str(f, v)
	}
}

// Int writes an Int of the entry.
func (e *Encoder) Int(field int, n int64) {
	if f := e.beginField(field, Int, false); f != nil {
		e.int(f, n)
	}
}

// Strs writes Strings of the entry.
func (e *Encoder) Strs(field int, v []string) {
	if f := e.beginField(field, Strings, len(v) == 0); f != nil {
		e.list(f, v)
	}
}

// openHeader writes the format line, unless it is written already.
func (e *Encoder) openHeader() {
	if e.err != nil || e.state != atFormat {
		return
	}
	e.state = atHeader
	e.start = len(e.buf)
	e.buf = append(e.buf, e.spec.first[:len(e.spec.first)-1]...)
	e.endLine()
}

// finishHeader checks that no required header is missing. Entries may follow then.
func (e *Encoder) finishHeader() {
	e.openHeader()
	if e.skipTo(e.spec.header, &e.header, len(e.spec.header)) {
		e.state = atEntries
	}
}

// beginHeader writes the text before the value of header i. It returns nil if no value is to be written.
func (e *Encoder) beginHeader(i int, t Type, empty bool) *field {
	e.openHeader()
	if !e.in(atHeader) {
		return nil
	}
	f := e.take(e.spec.header, &e.header, i, t, empty)
	if f != nil {
		e.start = len(e.buf)
		e.buf = append(e.buf, f.lit...)
	}
	return f
}

// beginField is beginHeader for a field of the open entry.
func (e *Encoder) beginField(i int, t Type, empty bool) *field {
	if !e.in(inEntry) {
		return nil
	}
	f := e.take(e.spec.sections[e.sec].fields, &e.field, i, t, empty)
	if f == nil {
		return nil
	}
	if e.some {
		e.buf = append(e.buf, f.sep...)
	} else {
		e.buf = append(e.buf, f.lit...)
	}
	e.some = true
	return f
}

// take returns field i if it may follow the fields before *next, and nil if it may not or is optional and empty.
func (e *Encoder) take(fs []field, next *int, i int, typ Type, empty bool) *field {
	if i < *next || i >= len(fs) {
		e.where(fmt.Errorf("field %d: %w", i, errOrder))
		return nil
	}
	if !e.skipTo(fs, next, i) {
		return nil
	}
	field := &fs[i]
	*next = i + 1
	switch {
	case field.typ != typ:
		e.where(fmt.Errorf("field %q is of another type", field.name))
		return nil
	case empty && field.optional:
		return nil
	case empty && typ == Strings:
		e.where(fmt.Errorf("field %q is an empty list", field.name))
		return nil
	}
	return field
}

// skipTo skips the fields from *next to i. It fails if one of them is required.
func (e *Encoder) skipTo(fs []field, next *int, i int) bool {
	for ; *next < i && e.err == nil; *next++ {
		if f := &fs[*next]; !f.optional {
			e.where(fmt.Errorf("field %q is missing", f.name))
		}
	}
	return e.err == nil
}

func (e *Encoder) str(f *field, v []byte) {
	if int64(len(v)) > f.max {
		e.where(fmt.Errorf("field %q has %d bytes, at most %d are allowed", f.name, len(v), f.max))
		return
	}
	e.quote(v)
}

func (e *Encoder) int(f *field, n int64) {
	if n < 0 || n > f.max {
		e.where(fmt.Errorf("field %q is %d, not between 0 and %d", f.name, n, f.max))
		return
	}
	e.buf = strconv.AppendInt(e.buf, n, 10)
}

func (e *Encoder) list(field *field, all []string) {
	if int64(len(all)) > field.max {
		e.where(fmt.Errorf("field %q has %d elements, at most %d are allowed", field.name, len(all), field.max))
		return
	}
	for i, v := range all {
		if i == 0 {
			e.buf = append(e.buf, '[')
		} else {
			e.buf = append(e.buf, ", "...)
		}
		if len(v) > defaultString {
			e.where(fmt.Errorf("field %q: element %d has more than %d bytes", field.name, i, defaultString))
			return
		}
		e.quote(view(v))
	}
	e.buf = append(e.buf, ']')
}

func (e *Encoder) quote(v []byte) {
	var err error
	if e.buf, err = appendQuoted(e.buf, v); err != nil {
		e.where(err)
	}
}

// endLine ends the current line and checks the limits.
func (e *Encoder) endLine() {
	if e.err != nil {
		return
	}
	e.buf = append(e.buf, '\n')
	switch {
	case len(e.buf)-e.start > MaxLine:
		e.where(fmt.Errorf("line is longer than %d bytes", MaxLine))
	case int64(len(e.buf)-e.base) > e.spec.maxBytes:
		e.fail(fmt.Errorf("document is larger than %d bytes", e.spec.maxBytes))
	}
}

// view returns the bytes of s without copying them. Callers only read them and don't keep them.
func view(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// in reports whether e is in the state that the call needs.
func (e *Encoder) in(want state) bool {
	if e.err == nil && e.state != want {
		e.fail(errOrder)
	}
	return e.err == nil
}

// where fails with err about the header or the entry that is being written.
func (e *Encoder) where(err error) {
	if e.state == inEntry {
		err = fmt.Errorf("section %q: key %q: %w", e.spec.sections[e.sec].name, e.key, err)
	}
	e.fail(err)
}

func (e *Encoder) fail(err error) error {
	if e.err == nil {
		e.err = fmt.Errorf("encode %q: %w", e.spec.format, err)
	}
	return e.err
}

func (e *Encoder) failf(format string, args ...any) { e.fail(fmt.Errorf(format, args...)) }
