package record

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/manifest/jcs"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 123e6, time.UTC)

func newLine(body string) Line { return Line{At: noon, Kind: "note", Body: []byte(body)} }

// lines returns n lines that follow each other.
func lines(n int) []byte {
	t := TailOf(nil)
	for range n {
		t.Add(newLine(`{}`))
	}
	return t.Added
}

func TestLine(t *testing.T) {
	l := Line{At: noon, Body: []byte(`{"a":"b"}`), Call: "c-1", Kind: "begin", N: 12, Prev: cas.Sum([]byte("x"))}
	b := l.Append([]byte("before\n"))[len("before\n"):]
	const want = `{"at":"2026-11-20T12:00:00.123Z","body":{"a":"b"},"call":"c-1","kind":"begin","line":12,` +
		`"prev":"blake3:3ae7d805f6789a6402acb70ad4096a85a56bf6804eaf25c0493ac697548d30b5","sum":"blake3:fc8244469340915b6ceb9eb6d57c3837b8eb54bf56c89ebb54014d2e46b9022e"}` +
		"\n"
	if string(b) != want {
		t.Errorf("%s", b)
	}
	b = b[:len(b)-1]
	if again, err := jcs.Canonical(nil, b); err != nil || !bytes.Equal(again, b) {
		t.Errorf("%s isn't canonical: %v", b, err)
	}
	// The sum is of the JSON without it.
	v, err := jcs.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	m := v.(map[string]any)
	delete(m, "sum")
	open, err := jcs.Append(nil, m)
	if err != nil || cas.Sum(open) != l.Sum || !bytes.Equal(open, l.AppendOpen(nil)) {
		t.Errorf("%s, %v", open, err)
	}
	var again Line
	before := bytes.Clone(b)
	if !again.Scan(b) || !again.At.Equal(l.At) || string(again.Body) != string(l.Body) || again.Call != l.Call ||
		again.Kind != l.Kind || again.N != 12 || again.Prev != l.Prev || again.Sum != l.Sum {
		t.Errorf("%+v", again)
	}
	if !bytes.Equal(b, before) {
		t.Error("Scan changed the bytes")
	}
}

// resum gives a changed line a sum that fits: what remains to be refused is its form.
func resum(b string) []byte {
	open := b[:len(b)-sumSuffix] + "}"
	return append(cas.Sum([]byte(open)).Append([]byte(open[:len(open)-1]+sumMember)), '"', '}')
}

func TestScanRefuses(t *testing.T) {
	l := newLine(`{"a":1}`)
	l.N, l.Call = 7, "c"
	good := string(bytes.TrimSuffix(l.Append(nil), []byte("\n")))
	for _, c := range []struct{ from, to string }{
		{`"line":7`, `"line":0`}, {`"line":7`, `"line":07`}, {`"line":7`, `"line":-7`}, {`"line":7`, `"line":7.0`},
		{`"line":7`, `"line":`}, {`"line":7`, `"line":1234567890123456`}, {`"line":7`, `"n":7`},
		{`"kind":"note"`, `"kind":""`}, {`"kind":"note"`, `"kind":"a b"`}, {`"kind":"note"`, `"kind":note`},
		{`"kind":"note"`, `"king":"note"`}, {`"kind":"note"`, `"kind":"` + strings.Repeat("x", 129) + `"`},
		{`"call":"c"`, `"call":""`}, {`"call":"c"`, `"cell":"c"`}, {`"call":"c"`, `"call":"\u0063"`},
		{`"call":"c"`, `"x":1,"call":2`},
		{`"body":{"a":1}`, `"body":[1]`}, {`"body":{"a":1}`, `"body":1`}, {`"body":`, `"bode":`}, {`"at":`, `"it":`},
		{`2026-11-20T12:00:00.123Z`, `2026-11-31T12:00:00.123Z`},
		{`2026-11-20T12:00:00.123Z`, `2026-11-20 12:00:00.123Z`},
		{`2026-11-20T12:00:00.123Z`, `2026-11-20T24:00:00.123Z`},
		{`2026-11-20T12:00:00.123Z`, `2026-11-20T12:00:00.12xZ`},
		{`2026-11-20T12:00:00.123Z`, `202x-11-20T12:00:00.123Z`},
		{`2026-11-20T12:00:00.123Z`, `2026-11-20T12:00:00.123z`}, {`2026-11-20T12:00:00.123Z`, ``},
		{`"prev":"blake3:`, `"prev":"sha256:`}, {`"prev":`, `"prov":`}, {`{"at"`, ` {"at"`},
	} {
		b := strings.Replace(good, c.from, c.to, 1)
		if b == good {
			t.Fatalf("%q isn't there", c.from)
		}
		if new(Line).Scan(resum(b)) {
			t.Errorf("%s", b)
		}
	}
	if !new(Line).Scan(resum(good)) {
		t.Error("the good line")
	}
	for i := range good {
		if new(Line).Scan([]byte(good[:i])) || new(Line).Scan([]byte(good[i+1:])) {
			t.Error("half a line", i)
		}
	}
	for _, b := range []string{``, `}`, strings.Repeat(`,"sum":"`, 40), strings.Repeat(`"}`, 100)} {
		if new(Line).Scan([]byte(b)) || new(Line).Scan(resum(strings.Repeat("x", sumSuffix)+b)) {
			t.Error(b)
		}
	}
}

// What Scan takes, Append writes.
func FuzzScan(f *testing.F) {
	l := newLine(`{"a":"b"}`)
	l.N, l.Call = 3, "x"
	open := l.AppendOpen(nil)
	f.Add(open[:len(open)-1])
	f.Add([]byte(`{"at":"2026-11-20T12:00:00.123Z","body":{},"kind":"k","line":1,"prev":"blake3:`))
	f.Fuzz(func(t *testing.T, open []byte) {
		b := append(cas.Sum(append(bytes.Clone(open), '}')).Append(append(bytes.Clone(open), sumMember...)), '"', '}')
		var l Line
		if !l.Scan(b) {
			return
		}
		if again := l.Append(nil); string(again) != string(b)+"\n" {
			t.Errorf("%q becomes %q", b, again)
		}
	})
}

// rewritten returns a line with another body and a sum that fits.
func rewritten(b []byte) string {
	var l Line
	l.Scan(bytes.TrimSuffix(bytes.Clone(b), []byte("\n")))
	l.Body = []byte(`{"forged":1}`)
	return string(l.Append(nil))
}

// renumbered returns a line that follows others with the right sum and a wrong number.
func renumbered(lines []byte) string {
	next, l := TailOf(lines), newLine(`{}`)
	next.Place(&l)
	l.N++
	return string(l.Append(nil))
}

func TestReader(t *testing.T) {
	good := lines(3)
	one := len(lines(1))
	zeros := string(make([]byte, 40))
	for _, c := range []struct {
		name, in  string
		n         int64
		torn, err bool
	}{
		{"nothing", "", 0, false, false},
		{"three", string(good), 3, false, false},
		{"torn", string(good[:len(good)-5]), 2, true, false},
		{"without LF", string(good[:len(good)-1]), 2, true, false},
		{"NUL", string(good) + zeros, 3, true, false},
		{"NUL and LF", string(good) + zeros + "\n", 3, true, false},
		{"a few NUL and LF", string(good) + zeros[:8] + "\n", 3, false, true},
		{"a line gone", string(good[:one]) + string(good[len(lines(2)):]), 1, false, true},
		{"the first gone", string(good[one:]), 0, false, true},
		{"twice", string(good) + string(good[len(lines(2)):]), 3, false, true},
		{"a line rewritten with its own sum", string(good[:one]) + rewritten(good[one:len(lines(2))]) +
			string(good[len(lines(2)):]), 2, false, true},
		{"a number left out", string(good) + renumbered(good), 3, false, true},
		{"an empty line", string(good) + "\n", 3, false, true},
		{"too long", string(good) + strings.Repeat("x", journal.MaxLine) + "\n", 3, false, true},
		{"far too long", string(good) + strings.Repeat("x", 20*journal.MaxLine), 3, false, true},
		{"far too long, NUL", string(good) + strings.Repeat("\x00", 20*journal.MaxLine), 3, true, false},
	} {
		r := NewReader("f", strings.NewReader(c.in))
		var err error
		for err == nil {
			err = r.Next()
		}
		if p, ok := errors.AsType[*Problem](err); r.Line.N != c.n || r.Torn != c.torn || ok != c.err || ok &&
			(p.Line != c.n+1 || p.File != "f") || !ok && err != io.EOF {
			t.Errorf("%s: line %d, torn %v, %v", c.name, r.Line.N, r.Torn, err)
		}
	}
	broken := errors.New("broken")
	r := NewReader("f", badReader{bytes.NewReader(good), broken})
	for range 3 {
		if err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Next(); err != broken {
		t.Error(err)
	}
}

// A badReader has an error where its bytes end.
type badReader struct {
	io.ReaderAt
	err error
}

func (r badReader) ReadAt(b []byte, at int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(b, at)
	if err == io.EOF {
		err = r.err
	}
	return n, err
}

// What is added follows the last line, and has the sum that Place told before.
func TestTail(t *testing.T) {
	tail := TailOf(lines(2))
	next := newLine(`{"a":1}`)
	tail.Place(&next)
	tail.Add(newLine(`{"a":1}`))
	r := NewReader("f", bytes.NewReader(append(lines(2), tail.Added...)))
	for range 3 {
		if err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if next.N != 3 || next.Sum != r.Line.Sum {
		t.Errorf("%+v", next)
	}
	n := 0
	for l := range tail.Last() {
		if n++; l.N != int64(n) {
			t.Errorf("%+v", l)
		}
	}
	for range tail.Last() {
		break
	}
	if n != 2 {
		t.Errorf("%d lines", n)
	}
}

func TestProblem(t *testing.T) {
	p := &Problem{"head", 3, "it is"}
	if p.Error() != "head, line 3: it is" || fault.CodeOf(p) != fault.Integrity {
		t.Error(p)
	}
}
