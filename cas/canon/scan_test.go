package canon_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rye-build/rye/cas/canon"
)

// treeSpec is a tree as package cas has it, with flat paths.
var treeSpec = &canon.Spec{
	Format: "tree/2", MaxBytes: 1 << 30, MaxEntries: 10_000_000,
	Sections: []canon.Section{
		{Name: "files", Fields: []canon.Field{
			{Name: "digest", Max: 71}, {Name: "size", Type: canon.Int}, {Name: "mode", Max: 4},
		}},
		{Name: "dirs", Fields: []canon.Field{{Name: "digest", Max: 71}}},
	},
}

// listSpec has lines as long as wanted.
var listSpec = &canon.Spec{
	Format: "list/1", MaxBytes: 1 << 20, MaxEntries: 100,
	Header: []canon.Field{{Name: "names", Type: canon.Strings, Optional: true, Max: 200}},
	Sections: []canon.Section{
		{Name: "sets", Fields: []canon.Field{{Name: "of", Type: canon.Strings, Max: 200}}},
		{Name: "marks"},
	},
}

func TestScannerForm(t *testing.T) {
	const doc = "# rye:signed:one\n# rye:signed:two\nrye: \"list/1\"\nnames: [\"a\", \"\\\"\"]\nsets:\n" +
		"  \"\\t\": {of: [\"x\", \"\\n\"]}\n  \"k\": {of: [\"y\"]}\nmarks:\n  \"m\": {}\n"
	want := document{
		comments: []string{"# rye:signed:one", "# rye:signed:two"},
		header:   []any{[]string{"a", `"`}},
		entries: []entry{
			{0, "\t", []any{[]string{"x", "\n"}}}, {0, "k", []any{[]string{"y"}}}, {1, "m", nil},
		},
	}
	s := canon.NewScannerBytes([]byte("nothing"), listSpec)
	for range 2 { // A scanner that has been used, and one that has failed, is as good as new after Reset.
		s.ResetBytes([]byte(doc))
		if got, err := read(s, listSpec); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, %v", got, err)
		}
		if body := doc[s.Body():]; !strings.HasPrefix(body, `rye: "list/1"`) {
			t.Errorf("body is %q", body)
		}
		if s.Line() != 9 || s.Section() != -1 || s.Key() != nil {
			t.Errorf("after the end: line %d, section %d, key %q", s.Line(), s.Section(), s.Key())
		}
		s.Reset(iotest.OneByteReader(strings.NewReader(doc)))
		if got, err := read(s, listSpec); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("from a reader: got %v, %v", got, err)
		}
		if body := doc[s.Body():]; !strings.HasPrefix(body, `rye: "list/1"`) {
			t.Errorf("from a reader: body is %q", body)
		}
		s.Reset(strings.NewReader("# rye:signed:x\nrye: \"list/1\"\nnames: [\"a\"]\nsets:\nmarks:\n"))
		if _, err := read(s, listSpec); err == nil || s.HeaderHas(0) || s.HeaderStrs(0) != nil || s.Comments() != nil {
			t.Errorf("after an error (%v) there is still a header", err)
		}
	}
}

func TestAbsent(t *testing.T) {
	// The first entry has everything, and nothing of it may show in the second.
	const doc = "rye: \"sample/1\"\nname: \"demo\"\nserial: 1\nitems:\n" +
		"  \"a\": {title: \"t\", count: 5, labels: [\"x\"], by: \"me\"}\n  \"b\": {title: \"t\"}\n"
	s := canon.NewScannerBytes([]byte(doc), sampleSpec)
	if !s.Scan() || s.Int(1) != 5 || len(s.Strs(2)) != 1 || string(s.Str(3)) != "me" {
		t.Fatal(s.Err())
	}
	if !s.Scan() || s.Has(1) || s.Has(2) || s.Has(3) || s.Int(1) != 0 || s.Strs(2) != nil || s.Str(3) != nil {
		t.Errorf("%v: the second entry has %d, %q, %q", s.Err(), s.Int(1), s.Strs(2), s.Str(3))
	}
	if s.HeaderHas(2) || s.HeaderStrs(2) != nil || s.HeaderInt(1) != 1 {
		t.Error("the header has what it hasn't")
	}
}

func TestErrorf(t *testing.T) {
	s := canon.NewScannerBytes([]byte("rye: \"list/1\"\nmarks:\n  \"a\": {}\n  \"b\": {}\n"), listSpec)
	for s.Scan() {
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	if got := s.Errorf("bad %q", "b").Error(); got != `list: line 4: bad "b"` {
		t.Error(got)
	}
}

func TestVersionError(t *testing.T) {
	s := canon.NewScannerBytes([]byte("rye: \"tree/12\"\nfiles: [\n"), treeSpec)
	var v *canon.VersionError
	if s.Scan() || !errors.As(s.Err(), &v) || *v != (canon.VersionError{Found: "tree/12", Want: "tree/2"}) {
		t.Errorf("got %v", s.Err())
	}
	if s.Scan() || s.Header() || !errors.As(s.Err(), &v) {
		t.Errorf("asked again: %v", s.Err())
	}
}

// A line of exactly MaxLine is read and written, one byte more is refused by everybody.
func TestMaxLine(t *testing.T) {
	lists := func(extra int) document {
		d := document{entries: []entry{{0, "k", nil}}}
		var of []string
		n := canon.MaxLine + extra - len("  \"k\": {of: []}\n")
		for n > 0 {
			take := min(n-4, 1000) // four bytes: quotes, comma, space
			if rest := n - 4 - take; rest > 0 && rest < 4 {
				take -= 4
			}
			of = append(of, strings.Repeat("x", take))
			n -= take + 4
		}
		of[len(of)-1] += "xx" // the last one has no comma behind it
		d.entries[0].fields = []any{of}
		return d
	}
	good := lists(0)
	good.header, good.comments = []any{nil}, []string{}
	b, err := writeBytes(good, listSpec)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(b) - len("rye: \"list/1\"\nsets:\n"); n != canon.MaxLine {
		t.Fatalf("the line is %d bytes long", n)
	}
	for _, step := range []int{1, 4096, 1 << 20} {
		got, err := read(canon.NewScanner(&chunks{b, step}, listSpec), listSpec)
		if err != nil || !reflect.DeepEqual(got, good) {
			t.Errorf("read %d bytes at a time: %v", step, err)
		}
	}
	if _, err := writeBytes(lists(1), listSpec); err == nil {
		t.Error("a longer line is written")
	}
	long := bytes.Replace(b, []byte("x\"]}"), []byte("xx\"]}"), 1)
	want := &canon.SyntaxError{Family: "list", Line: 3, Msg: "line is longer than 65536 bytes"}
	for _, step := range []int{1, 4096, 1 << 20} {
		_, err := read(canon.NewScanner(&chunks{long, step}, listSpec), listSpec)
		if !reflect.DeepEqual(err, error(want)) {
			t.Errorf("read %d bytes at a time: %v", step, err)
		}
	}
	if _, err := readBytes(long, listSpec); !reflect.DeepEqual(err, error(want)) {
		t.Errorf("as bytes: %v", err)
	}
}

// The error of a reader is the error of the scanner, wherever it comes, and what was read before is no document.
func TestReaderError(t *testing.T) {
	doc := []byte(
		"# rye:signed:x\nrye: \"list/1\"\nnames: [\"a\"]\nsets:\n  \"k\": {of: [\"y\"]}\nmarks:\n  \"m\": {}\n")
	boom := errors.New("boom")
	for n := range len(doc) + 1 {
		r := io.MultiReader(bytes.NewReader(doc[:n]), iotest.ErrReader(boom))
		if _, err := read(canon.NewScanner(r, listSpec), listSpec); !errors.Is(err, boom) {
			t.Errorf("after %d bytes: %v", n, err)
		}
		// A document that ends early may be a good one, but only where a line does.
		_, err := read(canon.NewScanner(iotest.DataErrReader(bytes.NewReader(doc[:n])), listSpec), listSpec)
		if err == nil && (n == 0 || doc[n-1] != '\n') {
			t.Errorf("cut after %d bytes: accepted", n)
		}
	}
	if _, err := read(canon.NewScanner(silent{}, listSpec), listSpec); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that gives nothing: %v", err)
	}
}

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

// endless is a document without end, or a line without end.
type endless struct {
	first string
	next  func(i int) string
	i     int
	rest  string
	given int64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.i == 0 {
		e.rest = e.first
	}
	for len(e.rest) == 0 {
		e.rest = e.next(e.i)
		e.i++
	}
	e.i = max(e.i, 1)
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	e.given += int64(n)
	return n, nil
}

func TestHostileSizes(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	spec := &canon.Spec{
		Format: "big/1", MaxBytes: 8 << 20, MaxEntries: 1 << 30,
		Header:   []canon.Field{{Name: "note", Optional: true}},
		Sections: []canon.Section{{Name: "marks"}},
	}
	const first = "rye: \"big/1\"\n"
	for _, c := range []struct {
		name, first string
		next        func(int) string
		most        int64
	}{
		{"entries", first + "marks:\n", func(i int) string {
			return fmt.Sprintf("  \"%09d\": {}\n", i)
		}, spec.MaxBytes},
		{"key", first + "marks:\n  \"", func(int) string { return "kkkkkkkk" }, 4 * canon.MaxLine},
		{"header", first + "note: \"", func(int) string { return "nnnnnnnn" }, 4 * canon.MaxLine},
		{"comment", "# rye:signed:", func(int) string { return "ssssssss" }, 4 * canon.MaxLine},
		{"comments", "# rye:signed:x\n", func(int) string { return "# rye:signed:x\n" }, 4 * canon.MaxLine},
		{"newlines", "", func(int) string { return "\n" }, 4 * canon.MaxLine},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := &endless{first: c.first, next: c.next}
			s := canon.NewScanner(struct{ io.Reader }{r}, spec)
			for s.Scan() {
			}
			runtime.ReadMemStats(&after)
			var syntax *canon.SyntaxError
			if !errors.As(s.Err(), &syntax) {
				t.Errorf("got %v", s.Err())
			}
			if r.given > c.most+4*canon.MaxLine {
				t.Errorf("read %d bytes before refusing", r.given)
			}
			if c.name != "entries" && after.TotalAlloc-before.TotalAlloc > 1<<20 {
				t.Errorf("allocated %d bytes", after.TotalAlloc-before.TotalAlloc)
			}
		})
	}
	if _, err := readBytes(make([]byte, spec.MaxBytes+1), spec); err == nil ||
		!strings.Contains(err.Error(), "larger than") {
		t.Errorf("as bytes: %v", err)
	}
}

func treeDocument(tb testing.TB, entries int) []byte {
	tb.Helper()
	e := canon.NewEncoderBytes(nil, treeSpec)
	var digest, key []byte
	for i := range entries {
		digest = fmt.Appendf(digest[:0], "blake3:%064x", uint64(i)*0x9e3779b97f4a7c15)
		key = fmt.Appendf(key[:0], "dir/file-%05d.txt", i)
		e.BeginBytes(0, key)
		e.StrBytes(0, digest)
		e.Int(1, 1234)
		e.Str(2, "file")
		e.End()
	}
	if err := e.Close(); err != nil {
		tb.Fatal(err)
	}
	return e.Bytes()
}

func TestScannerAllocations(t *testing.T) {
	plain := treeDocument(t, 2000)
	escaped := []byte("rye: \"list/1\"\nsets:\n")
	for i := range 100 {
		escaped = fmt.Appendf(escaped, "  \"\\u0001%02d\": {of: [\"\\n\", \"\\\"\"]}\n", i)
	}
	for _, c := range []struct {
		name string
		spec *canon.Spec
		doc  []byte
	}{{"plain", treeSpec, plain}, {"escaped", listSpec, escaped}} {
		s, r := canon.NewScannerBytes(nil, c.spec), bytes.NewReader(nil)
		count := func(reset func()) float64 {
			return testing.AllocsPerRun(5, func() {
				reset()
				for s.Scan() {
				}
				if s.Err() != nil {
					t.Fatal(s.Err())
				}
			})
		}
		if n := count(func() { s.ResetBytes(c.doc) }); n != 0 {
			t.Errorf("%s: %v allocations for a document in memory", c.name, n)
		}
		if n := count(func() { r.Reset(c.doc); s.Reset(r) }); n != 0 {
			t.Errorf("%s: %v allocations for a document from a reader", c.name, n)
		}
	}
}

func mustPanic(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", name)
		}
	}()
	f()
}

func TestMisuse(t *testing.T) {
	s := canon.NewScannerBytes(treeDocument(t, 1), treeSpec)
	mustPanic(t, "field before the first entry", func() { s.Str(0) })
	if !s.Scan() {
		t.Fatal(s.Err())
	}
	mustPanic(t, "integer as a string", func() { s.Str(1) })
	mustPanic(t, "string as an integer", func() { s.Int(0) })
	mustPanic(t, "string as a list", func() { s.Strs(0) })
	mustPanic(t, "field that isn't", func() { s.Str(3) })
}
