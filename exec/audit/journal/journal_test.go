package journal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 123e6, time.UTC)

func newLine(body string) Line { return Line{At: noon, Kind: "note", Body: []byte(body)} }

// chain returns n lines that follow each other.
func chain(n int) []byte {
	var t Tail
	var b []byte
	for range n {
		l := t.Next(newLine(`{}`))
		b = l.Append(b)
	}
	return b
}

func TestLine(t *testing.T) {
	l := Line{At: noon, Body: []byte(`{"a":"b"}`), Call: "c-1", Kind: "begin", N: 12, Prev: cas.Sum([]byte("x"))}
	b := l.Append([]byte("before\n"))[len("before\n"):]
	const want = `{"at":"2026-11-20T12:00:00.123Z","body":{"a":"b"},"call":"c-1","kind":"begin","line":12,` +
		`"prev":"blake3:3ae7d805f6789a6402acb70ad4096a85a56bf6804eaf25c0493ac697548d30b5","sum":"blake3:fc8244469340915b6ceb9eb6d57c3837b8eb54bf56c89ebb54014d2e46b9022e"}` + "\n"
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
	if !again.Scan(b) || !again.At.Equal(l.At) || string(again.Body) != string(l.Body) || again.Call != l.Call || again.Kind != l.Kind || again.N != 12 || again.Prev != l.Prev || again.Sum != l.Sum {
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
		{`"line":7`, `"line":0`}, {`"line":7`, `"line":07`}, {`"line":7`, `"line":-7`}, {`"line":7`, `"line":7.0`}, {`"line":7`, `"line":`}, {`"line":7`, `"line":1234567890123456`}, {`"line":7`, `"n":7`},
		{`"kind":"note"`, `"kind":""`}, {`"kind":"note"`, `"kind":"a b"`}, {`"kind":"note"`, `"kind":note`}, {`"kind":"note"`, `"king":"note"`}, {`"kind":"note"`, `"kind":"` + strings.Repeat("x", 129) + `"`},
		{`"call":"c"`, `"call":""`}, {`"call":"c"`, `"cell":"c"`}, {`"call":"c"`, `"call":"\u0063"`}, {`"call":"c"`, `"x":1,"call":2`},
		{`"body":{"a":1}`, `"body":[1]`}, {`"body":{"a":1}`, `"body":1`}, {`"body":`, `"bode":`}, {`"at":`, `"it":`},
		{`2026-11-20T12:00:00.123Z`, `2026-11-31T12:00:00.123Z`}, {`2026-11-20T12:00:00.123Z`, `2026-11-20 12:00:00.123Z`}, {`2026-11-20T12:00:00.123Z`, `2026-11-20T24:00:00.123Z`},
		{`2026-11-20T12:00:00.123Z`, `2026-11-20T12:00:00.12xZ`}, {`2026-11-20T12:00:00.123Z`, `202x-11-20T12:00:00.123Z`}, {`2026-11-20T12:00:00.123Z`, `2026-11-20T12:00:00.123z`}, {`2026-11-20T12:00:00.123Z`, ``},
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

func TestReader(t *testing.T) {
	good := chain(3)
	one := len(chain(1))
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
		{"a line gone", string(good[:one]) + string(good[len(chain(2)):]), 1, false, true},
		{"the first gone", string(good[one:]), 0, false, true},
		{"twice", string(good) + string(good[len(chain(2)):]), 3, false, true},
		{"a line rewritten with its own sum", string(good[:one]) + rewritten(good[one:len(chain(2))]) + string(good[len(chain(2)):]), 2, false, true},
		{"an empty line", string(good) + "\n", 3, false, true},
		{"too long", string(good) + strings.Repeat("x", MaxLine) + "\n", 3, false, true},
		{"far too long", string(good) + strings.Repeat("x", 20*MaxLine), 3, false, true},
		{"far too long, NUL", string(good) + strings.Repeat("\x00", 20*MaxLine), 3, true, false},
	} {
		r := NewReader("f", strings.NewReader(c.in))
		var err error
		for err == nil {
			err = r.Next()
		}
		if p, ok := errors.AsType[*Problem](err); r.Line.N != c.n || r.Torn != c.torn || ok != c.err || ok && (p.Line != c.n+1 || p.File != "f") || !ok && err != io.EOF {
			t.Errorf("%s: line %d, torn %v, %v", c.name, r.Line.N, r.Torn, err)
		}
	}
	r := NewReader("f", strings.NewReader(zeros+"\nx\n"+string(good)))
	if err := r.Next(); err != io.EOF || !r.Continues() {
		t.Error(err, "no line follows")
	}
	r = NewReader("f", strings.NewReader(zeros+"\n"+strings.Repeat("x", 10*MaxLine)))
	if err := r.Next(); err != io.EOF || r.Continues() {
		t.Error(err, "a line follows")
	}
	// A line was half written when the reader came to it.
	more := bytes.NewBuffer(bytes.Clone(good[:len(good)-9]))
	r = NewReader("f", more)
	for r.Next() == nil {
	}
	more.Write(append(good[len(good)-9:], good...))
	if !r.Torn || r.Continues() {
		t.Error("what was written meanwhile follows")
	}
	broken := errors.New("broken")
	r = NewReader("f", io.MultiReader(bytes.NewReader(good), errReader{broken}))
	for range 3 {
		if err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Next(); err != broken {
		t.Error(err)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func newShared(t testing.TB) *Shared {
	return &Shared{
		Path: filepath.Join(t.TempDir(), "new", "head"), Wait: time.Second,
		First: func() Line { return newLine(`{"first":1}`) },
		Check: func(l *Line) error {
			if string(l.Body) != `{"first":1}` && string(l.Body) != `{}` {
				return errors.New("not ours")
			}
			return nil
		},
	}
}

func (s *Shared) add(ctx context.Context, body string) error {
	return s.Append(ctx, func(t *Tail) ([]Line, error) { return []Line{t.Next(newLine(body))}, nil })
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t testing.TB, path, b string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestShared(t *testing.T) {
	s := newShared(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.add(t.Context(), `{"a":1}`))
	good := read(t, s.Path)
	// Whoever died while it wrote is overwritten.
	var again string
	for _, tail := range []string{"", `{"at":`, strings.Repeat("\x00", 300), `{"at":` + strings.Repeat("\x00", 100) + "\n", strings.Repeat(strings.Repeat("\x00", 100)+"\n", 3)} {
		write(t, s.Path, good+tail)
		must(s.add(t.Context(), `{"b":2}`))
		if again == "" {
			again = read(t, s.Path)
		}
		if got := read(t, s.Path); got != again {
			t.Errorf("behind %q: %s", tail, got)
		}
	}
	// Nothing to add changes nothing, and an error of the caller's is returned.
	must(s.Append(t.Context(), func(tail *Tail) ([]Line, error) {
		var kinds []string
		for l := range tail.Last() {
			kinds = append(kinds, string(l.Body))
		}
		if got := strings.Join(kinds, " "); got != `{"first":1} {"a":1} {"b":2}` {
			t.Error(got)
		}
		for range tail.Last() {
			break
		}
		return nil, nil
	}))
	broken := errors.New("broken")
	if err := s.Append(t.Context(), func(*Tail) ([]Line, error) { return nil, broken }); err != broken {
		t.Error(err)
	}
	if read(t, s.Path) != again {
		t.Error("changed")
	}
	// Anything else isn't continued.
	for _, c := range []struct{ name, bytes, want string }{
		{"garbage", good + "x\n", ` at byte 470: ` + notLine},
		{"a changed line", strings.Replace(good, `{"a":1}`, `{"a":2}`, 1), ` at byte 237: ` + notLine},
		{"a changed first line", strings.Replace(good, `{"first":1}`, `{"first":2}`, 1), ` at byte 0: ` + notLine},
		{"empty", "", ` at byte 0: ` + notLine},
		{"half a first line", good[:100], ` at byte 0: ` + notLine},
		{"NUL after garbage", good + "x\n" + strings.Repeat("\x00", 100) + "\n", ` at byte 470: ` + notLine},
	} {
		write(t, s.Path, c.bytes)
		err := s.add(t.Context(), `{}`)
		if err == nil || fault.CodeOf(err) != fault.Integrity || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if read(t, s.Path) != c.bytes {
			t.Errorf("%s: changed", c.name)
		}
	}
	first := newLine(`{"first":3}`)
	first.N = 1
	write(t, s.Path, string(first.Append(nil)))
	if err := s.add(t.Context(), `{}`); err == nil || err.Error() != "not ours" {
		t.Error(err)
	}
}

// A long journal is continued by its end alone.
func TestSharedLong(t *testing.T) {
	s := newShared(t)
	if err := s.add(t.Context(), `{}`); err != nil {
		t.Fatal(err)
	}
	long := string(chain(1000))
	for _, tail := range []string{"", "half", strings.Repeat("\x00", MaxLine)} {
		write(t, s.Path, long+tail)
		if err := s.add(t.Context(), `{}`); err != nil {
			t.Fatal(err)
		}
		if got := read(t, s.Path); got != string(chain(1001)) {
			t.Errorf("%q: %s", tail, got[len(got)-600:])
		}
	}
}

func TestSharedPlaces(t *testing.T) {
	s := newShared(t)
	// A place where no directory can be made, a file that is a directory, an old beginning.
	blocked := *s
	write(t, filepath.Join(t.TempDir(), "f"), "")
	blocked.Path = filepath.Join(t.TempDir(), "f", "head")
	write(t, filepath.Dir(blocked.Path), "")
	if err := blocked.add(t.Context(), `{}`); err == nil {
		t.Error("a file as a directory")
	}
	if err := os.MkdirAll(s.Path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.add(t.Context(), `{}`); err == nil {
		t.Error("a directory as a file")
	}
	s.Path += "2"
	write(t, s.Path+".tmp", "left by one who died")
	if err := s.add(t.Context(), `{}`); err != nil {
		t.Error(err)
	}
	if err := os.Remove(s.Path); err != nil {
		t.Fatal(err)
	}
	if err := s.add(t.Context(), `{}`); err == nil || !strings.HasSuffix(err.Error(), " at byte 0: the file is missing") {
		t.Error(err)
	}
}

// Each change fails in turn, and the journal goes on.
func TestSharedFaults(t *testing.T) {
	broken := errors.New("broken")
	for fail := 0; ; fail++ {
		s := newShared(t)
		at := 0
		s.Disk.Hook = func(op, _ string, _ []byte) error {
			if at++; at-1 == fail {
				return broken
			}
			return nil
		}
		err := s.add(t.Context(), `{}`)
		if err != nil && !errors.Is(err, broken) {
			t.Fatal(err)
		}
		failed := at > fail
		s.Disk.Hook = nil
		if err := s.add(t.Context(), `{}`); err != nil {
			t.Fatalf("after a fault at %d: %v", fail, err)
		}
		r := NewReader("head", strings.NewReader(read(t, s.Path)))
		for err = nil; err == nil; {
			err = r.Next()
		}
		if err != io.EOF || r.Torn || r.Line.N < 2 {
			t.Errorf("fault at %d: %v, %d lines", fail, err, r.Line.N)
		}
		if !failed {
			if fail < 8 {
				t.Errorf("only %d changes", fail)
			}
			return
		}
	}
}

// TestQueue: whoever waits goes on waiting as long as the journal grows.
func TestQueue(t *testing.T) {
	s := newShared(t)
	if err := s.add(t.Context(), `{}`); err != nil {
		t.Fatal(err)
	}
	held, err := s.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Wait = time.Millisecond
	var looks atomic.Int64
	s.Disk.Hook = func(op, path string, _ []byte) error {
		n := looks.Add(1)
		if op != "look" || n == 5 {
			return nil // it doesn't grow any more
		}
		return os.Truncate(path, 1000+n)
	}
	_, err = s.lock(t.Context())
	if err == nil || fault.CodeOf(err) != fault.Busy || !strings.HasSuffix(err.Error(), "waited 1ms") || looks.Load() != 5 {
		t.Errorf("after %d looks: %v", looks.Load(), err)
	}
	looks.Store(5)
	s.Disk.Hook = func(_, path string, _ []byte) error {
		n := looks.Add(1)
		if n == 10 {
			held.Close()
		}
		return os.Truncate(path, 1000+n)
	}
	f, err := s.lock(t.Context())
	if err != nil || looks.Load() < 10 {
		t.Fatalf("after %d looks: %v", looks.Load(), err)
	}
	f.Close()
}

func TestLock(t *testing.T) {
	s := newShared(t)
	if err := s.add(t.Context(), `{}`); err != nil {
		t.Fatal(err)
	}
	err := s.Append(t.Context(), func(tail *Tail) ([]Line, error) {
		// The lock is held here.
		other := *s
		other.Wait = time.Millisecond
		err := other.add(t.Context(), `{}`)
		if want := `"` + LockPath(s.Path) + `" is in use: waited 1ms`; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stop")
		cancel(stop)
		other.Wait = time.Minute
		if err := other.add(ctx, `{}`); !errors.Is(err, stop) {
			t.Error(err)
		}
		return nil, nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := s.add(t.Context(), `{}`); err != nil {
		t.Error("after the lock:", err)
	}
}

// When what was half written can't be taken back either, that is said.
func TestCut(t *testing.T) {
	s := newShared(t)
	if err := s.add(t.Context(), `{}`); err != nil {
		t.Fatal(err)
	}
	broken, stuck := errors.New("broken"), errors.New("stuck")
	s.Disk.Hook = func(op, _ string, _ []byte) error {
		switch op {
		case "write":
			return broken
		case "truncate":
			return stuck
		}
		return nil
	}
	err := s.add(t.Context(), `{}`)
	cut, ok := errors.AsType[*CutError](err)
	if !ok || !errors.Is(err, broken) || !errors.Is(cut, stuck) || cut.Error() != "stuck" {
		t.Error(err)
	}
	if p := (&Problem{"head", 3, "it is"}).Error(); p != "head, line 3: it is" {
		t.Error(p)
	}
}
