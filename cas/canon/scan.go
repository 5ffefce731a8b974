package canon

import (
	"bytes"
	"fmt"
	"io"
)

// bufferSize is the memory of a Scanner over a reader. It holds at least one whole line, and more so that reading
// is cheap.
const bufferSize = 2 * MaxLine

// A Scanner reads one canonical document, entry by entry. It allocates nothing per entry, and its memory
// doesn't grow with the document.
//
//	s := canon.NewScanner(r, spec)
//	for s.Scan() {
//		… s.Section(), s.Key(), s.Str(0) …
//	}
//	if s.Err() != nil { … }
//
// Scan returns entries before the Scanner has read the end, so a caller may act on them only after Scan has
// returned false and Err nil. All byte slices belong to the Scanner, or to the bytes passed to it, and must not be
// changed. Only one goroutine may use a Scanner at a time.
type Scanner struct {
	spec *schema
	r    io.Reader
	err  error
	done bool

	buf   []byte // of a scanner over a reader
	have  int    // bytes read into buf
	win   []byte // whole lines, the last LF included: parsing never needs the end of the input
	rest  []byte // the bytes behind the last window: a line without LF
	pos   int    // start of the current line in win
	base  int64  // bytes of the document before win
	eof   bool
	begun bool
	line  int

	sec      int // index of the open section, or -1
	inSec    int // entries of the open section
	entries  int
	curSec   int   // section of the current entry, or -1
	secLines []int // line of each section seen, or 0
	body     int64
	key      []byte
	keyBuf   []byte

	vals     []value // room for the fields of any section
	cur      []value // the fields of the current entry
	heads    []value
	comments [][]byte

	// arena holds decoded strings, and list the elements of lists. Up to the marks they are those of the header,
	// which remain; then come those of the current entry. Growing them doesn't change slices that were returned
	// before.
	arena     []byte
	arenaMark int
	list      [][]byte
	listMark  int
}

// NewScanner returns a Scanner that reads r to its end. If r fails, Err wraps its error.
func NewScanner(r io.Reader, spec *Spec) *Scanner {
	s := newScanner(spec)
	s.Reset(r)
	return s
}

// NewScannerBytes returns a Scanner over b, without copying it. Until Reset, b may not be changed.
func NewScannerBytes(b []byte, spec *Spec) *Scanner {
	s := newScanner(spec)
	s.ResetBytes(b)
	return s
}

func newScanner(spec *Spec) *Scanner {
	c := spec.schema()
	vals := make([]value, c.fields+len(c.header))
	return &Scanner{spec: c, vals: vals[:c.fields], heads: vals[c.fields:], secLines: make([]int, len(c.sections))}
}

// Reset makes s read another document of the same Spec from r, with the same memory.
func (s *Scanner) Reset(r io.Reader) {
	s.reset()
	s.r = r
	if s.buf == nil {
		s.buf = make([]byte, bufferSize)
	}
}

// ResetBytes makes s read another document of the same Spec from b, with the same memory.
func (s *Scanner) ResetBytes(b []byte) {
	s.reset()
	if int64(len(b)) > s.spec.maxBytes {
		s.tooBig()
		return
	}
	n := bytes.LastIndexByte(b, '\n') + 1
	s.win, s.rest, s.eof = b[:n], b[n:], true
}

func (s *Scanner) reset() {
	clear(s.vals)
	clear(s.secLines)
	clear(s.list[:cap(s.list)])
	for i := range s.heads {
		s.heads[i] = value{typ: s.spec.header[i].typ}
	}
	*s = Scanner{
		spec: s.spec, line: 1, sec: -1, curSec: -1,
		buf: s.buf, vals: s.vals, heads: s.heads, secLines: s.secLines, keyBuf: s.keyBuf[:0],
		comments: s.comments[:0], arena: s.arena[:0], list: s.list[:0],
	}
}

// drop forgets the current entry. After an error it forgets the header too: no part of a refused document may be
// used.
func (s *Scanner) drop() {
	s.key, s.curSec, s.cur = nil, -1, nil
	if s.err != nil {
		s.comments = nil
		for i := range s.heads {
			s.heads[i].set = false
		}
	}
}

// Scan moves to the next entry and reports whether the document has one. At the end of the document, at the first
// error, and ever after it returns false.
func (s *Scanner) Scan() bool {
	if s.done || s.err != nil || !s.begun && !s.Header() {
		return false
	}
	if s.next() {
		return true
	}
	s.done = true
	s.drop()
	return false
}

func (s *Scanner) next() bool {
	for {
		if s.pos == len(s.win) && !s.fill() {
			if s.err == nil {
				s.checkSection()
			}
			return false
		}
		if s.win[s.pos] == ' ' && s.sec >= 0 {
			return s.entry()
		}
		if !s.openSection() {
			return false
		}
	}
}

// checkSection fails if the open section has no entries.
func (s *Scanner) checkSection() bool {
	if s.sec >= 0 && s.inSec == 0 {
		s.err = &SyntaxError{s.spec.name(), s.secLines[s.sec], 0,
			fmt.Sprintf("section %q has no entries: it must be left out", s.spec.sections[s.sec].name)}
		return false
	}
	return true
}

// openSection reads the line that begins a section.
func (s *Scanner) openSection() bool {
	rest := s.win[s.pos:]
	for i := s.sec + 1; i < len(s.spec.sections); i++ {
		lit := s.spec.sections[i].lit
		if !bytes.HasPrefix(rest, lit) {
			continue
		}
		if !s.checkSection() {
			return false
		}
		s.sec, s.inSec = i, 0
		s.secLines[i] = s.line
		fs := s.spec.sections[i].fields
		for j := range fs {
			s.vals[j] = value{typ: fs[j].typ}
		}
		return s.endLine(s.pos + len(lit) - 1)
	}
	return s.badLine()
}

// entry reads one line of the open section.
func (s *Scanner) entry() bool {
	data, pos := s.win, s.pos
	if data[pos+1] != ' ' || data[pos+2] != '"' {
		return s.badEntryStart()
	}
	s.arena, s.list = s.arena[:s.arenaMark], s.list[:s.listMark]
	from := pos + 3
	quote := plain(data, from)
	key := data[from:quote]
	if data[quote] != '"' {
		var wrong string
		if s.arena, quote, wrong = unquote(s.arena, data, from); wrong != "" {
			return s.fail(quote, "%s", wrong)
		}
		key = s.arena[s.arenaMark:len(s.arena):len(s.arena)]
	}
	if n := quote - from; n == 0 || n > MaxKey {
		return s.fail(from, "a key is 1 to %d bytes long, not %d", MaxKey, n)
	}
	if s.inSec > 0 && bytes.Compare(s.key, key) >= 0 {
		return s.badOrder(key)
	}
	if s.entries == s.spec.maxEntries {
		return s.fail(pos, "more than %d entries", s.spec.maxEntries)
	}
	s.key = key
	if len(s.arena) > s.arenaMark {
		// The arena is used again for the next entry, whose key is compared with this one.
		s.keyBuf = append(s.keyBuf[:0], key...)
		s.key = s.keyBuf
	}
	if data[quote+1] != ':' || data[quote+2] != ' ' || data[quote+3] != '{' {
		return s.expected(quote+1, `": {" after the key`)
	}
	if pos = s.fields(quote + 4); pos == 0 || !s.endLine(pos) {
		return false
	}
	s.entries++
	s.inSec++
	s.curSec, s.cur = s.sec, s.vals[:len(s.spec.sections[s.sec].fields)]
	return true
}

// fields reads the fields of an entry and returns the index after the closing brace, or 0.
func (s *Scanner) fields(pos int) int {
	fs := s.spec.sections[s.sec].fields
	n := 0
	for i := range fs {
		field, val := &fs[i], &s.vals[i]
		lit := field.sep
		if n == 0 {
			lit = field.lit
		}
		if !bytes.HasPrefix(s.win[pos:], lit) {
			if val.set = false; field.optional {
				continue
			}
			s.badField(pos, n, i)
			return 0
		}
		var ok bool
		if pos, ok = s.value(field, val, pos+len(lit)); !ok {
			return 0
		}
		val.set = true
		n++
	}
	if s.win[pos] != '}' {
		s.badField(pos, n, len(fs))
		return 0
	}
	return pos + 1
}

// value reads one value at pos and returns the index after it.
func (s *Scanner) value(field *field, val *value, pos int) (int, bool) {
	switch field.typ {
	case String:
		var ok bool
		at := pos
		if val.b, pos, ok = s.str(pos, field.max); ok && len(val.b) == 0 && field.optional {
			return 0, s.fail(at, "%q is empty: it must be left out", field.name)
		}
		return pos, ok
	case Int:
		return s.integer(field, val, pos)
	}
	return s.strings(field, val, pos)
}

// str reads a string of at most most bytes.
func (s *Scanner) str(p int, most int64) (data []byte, next int, ok bool) {
	w := s.win
	if w[p] != '"' {
		return nil, 0, s.expected(p, "a string in double quotes")
	}
	from := p + 1
	quote := plain(w, from)
	data = w[from:quote]
	if w[quote] != '"' {
		mark := len(s.arena)
		var wrong string
		if s.arena, quote, wrong = unquote(s.arena, w, from); wrong != "" {
			return nil, 0, s.fail(quote, "%s", wrong)
		}
		data = s.arena[mark:len(s.arena):len(s.arena)]
	}
	if int64(len(data)) > most {
		return nil, 0, s.fail(from, "string of %d bytes, at most %d are allowed", len(data), most)
	}
	return data, quote + 1, true
}

func (s *Scanner) integer(field *field, val *value, pos int) (int, bool) {
	var n int64
	end := pos
	for ; end-pos < 17; end++ {
		d := s.win[end] - '0'
		if d > 9 {
			break
		}
		n = n*10 + int64(d)
	}
	switch {
	case end == pos:
		return 0, s.expected(pos, "a whole number without sign")
	case s.win[pos] == '0' && end-pos > 1:
		return 0, s.fail(pos, "number with a leading zero")
	case n > field.max:
		return 0, s.fail(pos, "number is larger than %d", field.max)
	}
	val.n = n
	return end, true
}

func (s *Scanner) strings(field *field, val *value, pos int) (int, bool) {
	if s.win[pos] != '[' {
		return 0, s.expected(pos, `a list in "[" and "]"`)
	}
	if s.win[pos+1] == ']' {
		return 0, s.fail(pos, "%q is empty: it must be left out", field.name)
	}
	val.lo = len(s.list)
	pos++
	for {
		if int64(len(s.list)-val.lo) == field.max {
			return 0, s.fail(pos, "more than %d elements", field.max)
		}
		b, next, ok := s.str(pos, defaultString)
		if !ok {
			return 0, false
		}
		s.list = append(s.list, b)
		switch pos = next; {
		case s.win[pos] == ']':
			val.hi = len(s.list)
			return pos + 1, true
		case s.win[pos] != ',' || s.win[pos+1] != ' ':
			return 0, s.expected(pos, `", " or "]" after the string`)
		}
		pos += 2
	}
}

// endLine ends the current line, whose LF must be at p.
func (s *Scanner) endLine(p int) bool {
	switch {
	case s.win[p] != '\n':
		return s.expected(p, "the end of the line")
	case p+1-s.pos > MaxLine:
		return s.lineTooLong()
	}
	s.pos = p + 1
	s.line++
	return true
}
