package canon

// Section returns the index of the current entry's section in Spec.Sections, or -1 if there is no current entry.
func (s *Scanner) Section() int { return s.curSec }

// Key returns the key of the current entry. It is valid until the next Scan, like the results of Str and Strs.
func (s *Scanner) Key() []byte { return s.key }

// Has reports whether the current entry has the field, which is an index into Fields of its Section.
func (s *Scanner) Has(field int) bool { return s.cur[field].set }

// Str returns a String of the current entry; nil if it is absent. Like the methods below, it panics if the field
// has another type, which is a mistake in the program.
func (s *Scanner) Str(field int) []byte { return s.cur[field].str() }

// Int returns an Int of the current entry; 0 if it is absent.
func (s *Scanner) Int(field int) int64 { return s.cur[field].int() }

// Strs returns Strings of the current entry; nil if they are absent.
func (s *Scanner) Strs(field int) [][]byte { return s.cur[field].strs(s.list) }

// Comments returns the signature lines, without LF. They are valid until Reset, like the results of the Header
// methods.
func (s *Scanner) Comments() [][]byte { return s.comments }

// Body returns the offset of the format line: the bytes from there are the document without its signature lines.
func (s *Scanner) Body() int64 { return s.body }

// HeaderHas reports whether the document has header i of Spec.Header.
func (s *Scanner) HeaderHas(i int) bool { return s.heads[i].set }

// HeaderStr returns header i, which is a String; nil if it is absent.
func (s *Scanner) HeaderStr(i int) []byte { return s.heads[i].str() }

// HeaderInt returns header i, which is an Int; 0 if it is absent.
func (s *Scanner) HeaderInt(i int) int64 { return s.heads[i].int() }

// HeaderStrs returns header i, which is Strings; nil if it is absent.
func (s *Scanner) HeaderStrs(i int) [][]byte { return s.heads[i].strs(s.list) }

// value is a field of the current entry or a header. Its content counts only if set is true.
type value struct {
	b      []byte
	n      int64
	lo, hi int // in Scanner.list
	line   int // of a header
	typ    Type
	set    bool
}

func (v *value) str() []byte {
	v.mustBe(String)
	if !v.set {
		return nil
	}
	return v.b
}

func (v *value) int() int64 {
	v.mustBe(Int)
	if !v.set {
		return 0
	}
	return v.n
}

func (v *value) strs(list [][]byte) [][]byte {
	v.mustBe(Strings)
	if !v.set {
		return nil
	}
	return list[v.lo:v.hi:v.hi]
}

func (v *value) mustBe(t Type) {
	if v.typ != t {
		panic("canon: field is of another type")
	}
}
