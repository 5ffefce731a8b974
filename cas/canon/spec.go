package canon

import (
	"bytes"
	"fmt"
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

// A Type says what the value of a field is.
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
	// Optional fields may be absent. A String that is optional is never "", so that saying nothing has one form.
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

// A Spec says what one kind of document may hold. It is made once, as a variable, and handed by pointer to
// any number of scanners and encoders, concurrently; it may not be changed after the first. A Spec that is
// itself wrong (a bad name, a missing limit) is a mistake of the program, and its first use panics.
type Spec struct {
	Format   string // value of the first line: family, "/", version without leading zeros, as in "tree/2"
	Header   []Field
	Sections []Section

	MaxBytes   int64 // of the whole document, signature lines included; must be given
	MaxEntries int   // of all sections together; must be given

	once     sync.Once
	compiled schema
}

// schema is a Spec with its text laid out for comparing and copying.
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
		if err := s.compile(&s.compiled); err != nil {
			panic(fmt.Sprintf("canon: spec %q: %v", s.Format, err))
		}
	})
	if s.compiled.first == nil {
		panic(fmt.Sprintf("canon: spec %q is wrong", s.Format))
	}
	return &s.compiled
}

func (s *Spec) compile(c *schema) error {
	slash := strings.IndexByte(s.Format, '/') + 1
	if slash < 2 || !isName(s.Format[:slash-1]) || !isVersion([]byte(s.Format[slash:])) {
		return fmt.Errorf("the format is not a family and a version")
	}
	if s.MaxBytes <= 0 || s.MaxEntries <= 0 {
		return fmt.Errorf("MaxBytes and MaxEntries must be given")
	}
	c.format, c.family = s.Format, s.Format[:slash]
	c.maxBytes, c.maxEntries = s.MaxBytes, s.MaxEntries

	seen := map[string]bool{"rye": true}
	var err error
	if c.header, err = compileFields(s.Header, seen); err != nil {
		return err
	}
	for _, sec := range s.Sections {
		if err := checkName(sec.Name, seen); err != nil {
			return err
		}
		fs, err := compileFields(sec.Fields, map[string]bool{})
		if err != nil {
			return fmt.Errorf("section %q: %w", sec.Name, err)
		}
		c.sections = append(c.sections, section{sec.Name, []byte(sec.Name + ":\n"), fs})
		c.fields = max(c.fields, len(fs))
	}
	c.first = []byte("rye: \"" + s.Format + "\"\n")
	return nil
}

func compileFields(in []Field, seen map[string]bool) ([]field, error) {
	out := make([]field, 0, len(in))
	for _, f := range in {
		if err := checkName(f.Name, seen); err != nil {
			return nil, err
		}
		most, dflt := int64(MaxLine), int64(defaultString)
		switch f.Type {
		case String:
		case Int:
			most, dflt = MaxInt, MaxInt
		case Strings:
			dflt = defaultStrings
		default:
			return nil, fmt.Errorf("field %q: unknown type %d", f.Name, f.Type)
		}
		if f.Max < 0 || f.Max > most {
			return nil, fmt.Errorf("field %q: Max is not between 0 and %d", f.Name, most)
		}
		if f.Max == 0 {
			f.Max = dflt
		}
		sep := []byte(", " + f.Name + ": ")
		out = append(out, field{f.Name, sep, sep[2:], f.Max, f.Type, f.Optional})
	}
	return out, nil
}

func checkName(name string, seen map[string]bool) error {
	switch {
	case !isName(name):
		return fmt.Errorf("bad name %q", name)
	case seen[name]:
		return fmt.Errorf("name %q stands twice", name)
	}
	seen[name] = true
	return nil
}

// isName reports whether a name can stand unquoted. The words are those that YAML 1.1 reads as a boolean or
// as nothing.
func isName(s string) bool {
	switch s {
	case "", "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	if s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		if !nameByte(s[i]) {
			return false
		}
	}
	return len(s) <= 64
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
