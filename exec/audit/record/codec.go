package record

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest/jcs"
)

// A codec writes the members of a JSON object as JCS, or reads them again. The caller visits the members in the order
// of their names, so one method describes both directions. Empty members are left out. It is written by hand because
// each call writes a line first and readers read millions: maps and encoding/json take ten times as long.
type codec interface {
	open()  // of an object
	close() // of an object
	text(name string, s *string)
	number(name string, n *int64)
	flag(name string, on *bool)
	digest(name string, d *cas.Digest)
	time(name string, t *time.Time)
	numbers(name string, m *map[string]int64)

	begin(name string, n int) bool // an array of n elements; false if the member is missing
	more(i, n int) bool            // reports whether element i exists; else closes the array
	textElement(s *string)
	digestElement(d *cas.Digest)
}

// list codes a member that is an array.
func list[T any](c codec, name string, s *[]T, element func(*T, codec)) {
	if !c.begin(name, len(*s)) {
		return
	}
	for i := 0; c.more(i, len(*s)); i++ {
		if i == len(*s) {
			*s = append(*s, *new(T))
		}
		element(&(*s)[i], c)
	}
}

func texts(c codec, name string, s *[]string) {
	list(c, name, s, func(s *string, c codec) { c.textElement(s) })
}

// timeForm is the only time format: milliseconds, in UTC.
const timeForm = "2006-01-02T15:04:05.000Z"

type writer struct{ b []byte }

func (w *writer) open() { w.b = append(w.b, '{') }

func (w *writer) close() { w.b = append(w.b, '}') }

// name begins a member.
func (w *writer) name(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

func (w *writer) text(name string, s *string) {
	if *s != "" {
		w.name(name)
		w.textElement(s)
	}
}

func (w *writer) number(name string, n *int64) {
	if *n != 0 {
		w.name(name)
		w.b = strconv.AppendInt(w.b, *n, 10)
	}
}

func (w *writer) flag(name string, on *bool) {
	if *on {
		w.name(name)
		w.b = append(w.b, "true"...)
	}
}

func (w *writer) digest(name string, d *cas.Digest) {
	if !d.IsZero() {
		w.name(name)
		w.digestElement(d)
	}
}

func (w *writer) time(name string, t *time.Time) {
	if !t.IsZero() {
		w.name(name)
		w.b = append(t.UTC().AppendFormat(append(w.b, '"'), timeForm), '"')
	}
}

func (w *writer) numbers(name string, m *map[string]int64) {
	if len(*m) == 0 {
		return
	}
	w.name(name)
	w.open()
	for _, k := range slices.Sorted(maps.Keys(*m)) {
		w.name(k)
		w.b = strconv.AppendInt(w.b, (*m)[k], 10)
	}
	w.close()
}

func (w *writer) begin(name string, n int) bool {
	if n > 0 {
		w.name(name)
		w.b = append(w.b, '[')
	}
	return n > 0
}

func (w *writer) more(i, n int) bool {
	switch {
	case i == n:
		w.b = append(w.b, ']')
	case i > 0:
		w.b = append(w.b, ',')
	}
	return i < n
}

// textElement writes a string that Check found to be valid UTF-8.
func (w *writer) textElement(s *string) {
	if plain(*s) {
		w.b = append(append(append(w.b, '"'), *s...), '"')
		return
	}
	w.b, _ = jcs.Append(w.b, *s)
}

// plain reports whether s needs no escapes in JSON, in any spelling.
func plain[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func (w *writer) digestElement(d *cas.Digest) { w.b = append(d.Append(append(w.b, '"')), '"') }

// A reader reads the output of a writer. It may accept more than that: parse writes the result again and compares.
type reader struct {
	b   []byte // what is left
	bad bool
}

func (r *reader) fail() {
	r.bad, r.b = true, nil
}

func (r *reader) take(s string) bool {
	if len(r.b) < len(s) || string(r.b[:len(s)]) != s {
		return false
	}
	r.b = r.b[len(s):]
	return true
}

func (r *reader) must(s string) {
	if !r.take(s) {
		r.fail()
	}
}

func (r *reader) open() { r.must("{") }

func (r *reader) close() { r.must("}") }

// member reports whether the next member has this name, and advances to its value. It skips the comma before it.
func (r *reader) member(name string) bool {
	b := bytes.TrimPrefix(r.b, []byte{','})
	if len(b) < len(name)+3 || b[0] != '"' || string(b[1:1+len(name)]) != name ||
		string(b[1+len(name):3+len(name)]) != `":` {
		return false
	}
	r.b = b[len(name)+3:]
	return true
}

func (r *reader) text(name string, s *string) {
	if r.member(name) {
		r.textElement(s)
	}
}

func (r *reader) number(name string, n *int64) {
	if r.member(name) {
		*n = r.int()
	}
}

func (r *reader) int() int64 {
	i := 0
	for i < len(r.b) && i < 20 && (r.b[i] == '-' || r.b[i] >= '0' && r.b[i] <= '9') {
		i++
	}
	n, err := strconv.ParseInt(string(r.b[:i]), 10, 64)
	if err != nil {
		r.fail()
		return 0
	}
	r.b = r.b[i:]
	return n
}

func (r *reader) flag(name string, on *bool) {
	if r.member(name) {
		r.must("true")
		*on = true
	}
}

func (r *reader) digest(name string, d *cas.Digest) {
	if r.member(name) {
		r.digestElement(d)
	}
}

func (r *reader) time(name string, t *time.Time) {
	var s string
	if r.text(name, &s); s == "" {
		return
	}
	var err error
	if *t, err = time.Parse(timeForm, s); err != nil {
		r.fail()
	}
}

func (r *reader) numbers(name string, into *map[string]int64) {
	if !r.member(name) {
		return
	}
	*into = map[string]int64{}
	r.open()
	for !r.bad && !r.take("}") {
		var k string
		r.take(",")
		r.textElement(&k)
		r.must(":")
		(*into)[k] = r.int()
	}
}

func (r *reader) begin(name string, _ int) bool {
	return r.member(name) && r.take("[")
}

func (r *reader) more(i, _ int) bool {
	if r.bad || r.take("]") {
		return false
	}
	if i > 0 {
		r.must(",")
	}
	return !r.bad
}

func (r *reader) textElement(into *string) {
	r.must(`"`)
	i := bytes.IndexByte(r.b, '"')
	if i >= 0 && plain(r.b[:i]) {
		*into = string(r.b[:i])
		r.b = r.b[i+1:]
		return
	}
	for i > 0 && escaped(r.b[:i]) {
		next := bytes.IndexByte(r.b[i+1:], '"')
		if i += 1 + next; next < 0 {
			i = -1
		}
	}
	if i < 0 {
		r.fail()
		return
	}
	v, err := jcs.Parse(slices.Concat([]byte{'"'}, r.b[:i+1]))
	if err != nil {
		r.fail()
		return
	}
	*into, _ = v.(string)
	r.b = r.b[i+1:]
}

// escaped reports whether the byte after b is escaped, by an odd number of backslashes.
func escaped(b []byte) bool {
	return (len(b)-len(bytes.TrimRight(b, `\`)))%2 == 1
}

func (r *reader) digestElement(d *cas.Digest) {
	const size = len("blake3:") + 2*cas.Size
	var err error
	if len(r.b) < size+2 || r.b[0] != '"' || r.b[size+1] != '"' {
		r.fail()
		return
	}
	if *d, err = cas.ParseDigest(r.b[1 : size+1]); err != nil {
		r.fail()
		return
	}
	r.b = r.b[size+2:]
}
