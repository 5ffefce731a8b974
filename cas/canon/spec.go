package canon

import (
	"bytes"
	"cmp"
	"strings"
	"sync"
)

// The limits that hold for every document.
const (
	MaxLine        = 64 << 10  // bytes of a line, LF included
	MaxKey         = 1000      // bytes of a key as written between its quotes
	MaxComments    = 16        // signature lines of a document
	MaxCommentLine = 1000      // bytes of a signature line, without LF
	MaxInt         = 1<<53 - 1 // the largest integer that every reader of JSON and YAML keeps exact

	defaultString  = 1000 // bytes of a string whose Field has no Max, and of every string of a list
	defaultStrings = 64   // strings of a list whose Field has no Max
)

// commentPrefix begins every signature line.
const commentPrefix = "# rye:signed:"

// A Type is the type of a field's value.
type Type uint8

const (
	String  Type = iota // "text"
	Int                 // 0 to MaxInt
	Strings             // ["text", "text"], never empty: a list that may be empty is Optional
)

// A Field is one named value of an entry, or one header line.
type Field struct {
	Name string
	Type Type
	// Optional fields may be absent. An optional String is never "", so that an empty value has one form.
	Optional bool
	// Max is the largest value of an Int (zero: MaxInt), the most bytes of a String (zero: 1,000), the most
	// elements of Strings (zero: 64; each has at most 1,000 bytes).
	Max int64
}

// A Section is a named, sorted list of entries. Without Fields its entries are written `"key": {}`.
type Section struct {
	Name   string
	Fields []Field
}

// A Spec defines one kind of document. It is a variable whose pointer any number of scanners and encoders may use
// concurrently. It must not change after the first use.
type Spec struct {
	Format   string // value of the first line: family, "/", version without leading zeros, as in "tree/2"
	Header   []Field
	Sections []Section

	MaxBytes   int64 // of the whole document, signature lines included; required
	MaxEntries int   // of all sections together; required

	once     sync.Once
	compiled schema
}

// schema is a Spec with its texts prepared for comparing and copying.
type schema struct {
	format     string
	family     string // with the "/"
	first      []byte // the format line
	header     []field
	sections   []section
	fields     int // the most fields of a section
	maxBytes   int64
	maxEntries int
}

type field struct {
	name     string
	sep      []byte // ", name: "
	lit      []byte // "name: "
	max      int64
	typ      Type
	optional bool
}

type section struct {
	name   string
	lit    []byte // "name:\n"
	fields []field
}

// name returns the family alone, for messages.
func (c *schema) name() string { return c.family[:len(c.family)-1] }

func (s *Spec) schema() *schema {
	s.once.Do(func() {
		family, _, _ := strings.Cut(s.Format, "/")
		c := schema{format: s.Format, family: family + "/", first: []byte("rye: \"" + s.Format + "\"\n"),
			header:   compile(s.Header),
			maxBytes: s.MaxBytes, maxEntries: s.MaxEntries}
		for _, sec := range s.Sections {
			c.sections = append(c.sections, section{sec.Name, []byte(sec.Name + ":\n"), compile(sec.Fields)})
			c.fields = max(c.fields, len(sec.Fields))
		}
		s.compiled = c
	})
	return &s.compiled
}

func compile(in []Field) []field {
	out := make([]field, len(in))
	for i, f := range in {
		most := cmp.Or(f.Max, [...]int64{String: defaultString, Int: MaxInt, Strings: defaultStrings}[f.Type])
		sep := []byte(", " + f.Name + ": ")
		out[i] = field{f.Name, sep, sep[2:], most, f.Type, f.Optional}
	}
	return out
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// isVersion reports whether b is a decimal number of up to nine digits that doesn't begin with zero.
func isVersion(b []byte) bool {
	if len(b) == 0 || len(b) > 9 || b[0] == '0' {
		return false
	}
	return len(bytes.TrimLeft(b, "0123456789")) == 0
}
