package journal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("RYE_TEST_JOURNAL"); path != "" {
		appendForever(path, os.Getenv("RYE_TEST_NAME"))
	}
	if path := os.Getenv("RYE_TEST_BOOK"); path != "" {
		child(path, os.Getenv("RYE_TEST_NAME"))
	}
	os.Exit(m.Run())
}

// appendForever is the other process of TestKill: it says of each line that it is in the journal.
func appendForever(path, name string) {
	for i := 0; ; i++ {
		j := Journal{Path: path, Line: isLine}
		if err := j.add(context.Background(), fmt.Sprint(name, "-", i)); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Printf("%s-%d\n", name, i)
	}
}

// A line of the tests is a text and its checksum.
func line(text string) string {
	return fmt.Sprintf("%s %08x\n", text, crc32.ChecksumIEEE([]byte(text)))
}

func isLine(b []byte) bool {
	i := bytes.LastIndexByte(b, ' ')
	return i >= 0 && line(string(b[:i])) == string(b)+"\n"
}

func newJournal(t testing.TB) *Journal {
	return &Journal{Path: filepath.Join(t.TempDir(), "new", "deep", "journal"), Wait: time.Second, Line: isLine,
		Check: func(first []byte) error {
			if strings.HasPrefix(string(first), "newer") {
				return errors.New("not ours")
			}
			return nil
		}}
}

func (j *Journal) add(ctx context.Context, texts ...string) error {
	return j.Append(ctx, func(t *Tail) (b []byte, err error) {
		if t.Size == 0 {
			b = []byte(line("first"))
		}
		for _, text := range texts {
			b = append(b, line(text)...)
		}
		return b, nil
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func content(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

func write(t testing.TB, path, b string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(b), 0o600))
}

// texts reads a journal to its end.
func texts(t testing.TB, path string) (all []string) {
	t.Helper()
	f, err := Open(path)
	must(t, err)
	defer f.Close()
	r := NewReader(f, 0, isLine)
	for {
		b, err := r.Next()
		if err == io.EOF {
			return all
		}
		must(t, err)
		all = append(all, string(b[:bytes.LastIndexByte(b, ' ')]))
	}
}

func TestAppend(t *testing.T) {
	j := newJournal(t)
	must(t, j.Append(t.Context(), func(*Tail) ([]byte, error) { return nil, nil }))
	if _, err := Open(j.Path); !errors.Is(err, os.ErrNotExist) {
		t.Error("a journal of no lines", err)
	}
	must(t, j.add(t.Context(), "a"))
	good := content(t, j.Path)
	zeros := strings.Repeat("\x00", 100)
	for _, tail := range []string{"", "half", strings.Repeat("\x00", 300), "half" + zeros + "\n",
		strings.Repeat(zeros+"\n", 3), line("b")[:10], strings.TrimSpace(line("b")) + "\x00"} {
		write(t, j.Path, good+tail)
		must(t, j.add(t.Context(), "b", "c"))
		if got, want := content(t, j.Path), good+line("b")+line("c"); got != want {
			t.Errorf("behind %q: %q", tail, got)
		}
	}
	all := content(t, j.Path)
	must(t, j.Append(t.Context(), func(tail *Tail) ([]byte, error) {
		if string(tail.Lines) != all || tail.Size != int64(len(all)) {
			t.Errorf("%+v", tail)
		}
		return nil, nil
	}))
	broken := errors.New("broken")
	if err := j.Append(t.Context(), func(*Tail) ([]byte, error) { return nil, broken }); err != broken {
		t.Error(err)
	}
	if content(t, j.Path) != all {
		t.Error("changed")
	}
	must(t, j.Append(t.Context(), func(tail *Tail) ([]byte, error) {
		tail.Replace = true
		return []byte(line("first") + line("new")), nil
	}))
	if got := fmt.Sprint(texts(t, j.Path)); got != "[first new]" {
		t.Error(got)
	}
}

// Nothing is appended to a journal that lost lines.
func TestDamage(t *testing.T) {
	j := newJournal(t)
	must(t, j.add(t.Context(), "a"))
	good := content(t, j.Path)
	first, n := len(line("first")), len(good)
	for _, c := range []struct {
		name, bytes string
		offset      int
	}{
		{"garbage", good + "x\n", n},
		{"garbage before a torn line", good + "x\nha", n},
		{"a changed line", strings.Replace(good, "a ", "b ", 1), first},
		{"a changed LF", good[:n-1] + "\v", first},
		{"a changed first line", strings.Replace(good, "first", "furst", 1), 0},
		{"empty", "", 0},
		{"half a first line", good[:5], 0},
		{"a first line without LF", good[:first-1], 0},
		{"NUL alone", strings.Repeat("\x00", 99), 0},
		{"NUL after garbage", good + "x\n" + strings.Repeat("\x00", 100) + "\n", n},
		{"no LF in sight", good + strings.Repeat("x", 2*window), 0},
	} {
		write(t, j.Path, c.bytes)
		err := j.add(t.Context(), "b")
		if c.name == "no LF in sight" {
			c.offset = len(c.bytes) - window
		}
		want := fmt.Sprintf("corrupt journal %q at byte %d: %s", j.Path, c.offset, ErrDamaged)
		if _, ok := errors.AsType[*DamagedError](err); !ok || err.Error() != want {
			t.Errorf("%s: %v, want %s", c.name, err, want)
		}
		if content(t, j.Path) != c.bytes {
			t.Errorf("%s: changed", c.name)
		}
	}
	write(t, j.Path, line("newer"))
	if err := j.add(t.Context(), "b"); err == nil || err.Error() != "not ours" {
		t.Error(err)
	}
	must(t, os.Remove(j.Path))
	_, lost := Open(j.Path)
	for _, err := range []error{lost, j.add(t.Context(), "b")} {
		if err == nil || !strings.HasSuffix(err.Error(), " at byte 0: the file is missing") {
			t.Error(err)
		}
	}
}

// A long journal is continued by its end alone.
func TestLong(t *testing.T) {
	j := newJournal(t)
	must(t, j.add(t.Context()))
	long := line("first") + strings.Repeat(line(strings.Repeat("x", 1000)), 1000)
	for _, tail := range []string{"", "half", strings.Repeat("\x00", MaxLine)} {
		write(t, j.Path, long+tail)
		must(t, j.add(t.Context(), "b"))
		if got := content(t, j.Path); got != long+line("b") {
			t.Errorf("%.9q: %q", tail, got[len(got)-600:])
		}
	}
}

func TestPlaces(t *testing.T) {
	j := newJournal(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), "")
	for _, path := range []string{filepath.Join(dir, "f", "journal"), filepath.Join(dir, "f", "new", "journal"), dir} {
		j.Path = path
		if err := j.add(t.Context()); err == nil {
			t.Errorf("%s: a journal", path)
		}
		if _, err := Open(path + "/x"); err == nil {
			t.Errorf("%s/x: opened", path)
		}
	}
	j.Path = filepath.Join(dir, "loop")
	must(t, os.Symlink("loop.lock", LockPath(j.Path)))
	if _, err := Open(j.Path); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("with a lock that can't be looked at: %v", err)
	}
}

func TestReader(t *testing.T) {
	good := line("a") + line("b") + line("c")
	zeros := string(make([]byte, 40))
	for _, c := range []struct {
		name, in  string
		n         int
		torn, bad bool
	}{
		{"nothing", "", 0, false, false},
		{"three", good, 3, false, false},
		{"torn", good[:len(good)-5], 2, true, false},
		{"without LF", good[:len(good)-1], 2, true, false},
		{"another byte than LF", good[:len(good)-1] + "\v", 2, true, true},
		{"NUL", good + zeros, 3, true, false},
		{"NUL and LF", good + zeros + "\n", 3, true, false},
		{"a few NUL and LF", good + zeros[:8] + "\n", 3, false, true},
		{"an empty line", good + "\n", 3, false, true},
		{"too long", good + line(strings.Repeat("x", MaxLine)), 3, false, true},
		{"too long, without LF", good + strings.Repeat("x", MaxLine+1), 3, false, true},
		{"far too long", good + strings.Repeat("x", 20*MaxLine), 3, false, true},
		{"far too long, NUL", good + strings.Repeat("\x00", 20*MaxLine), 3, true, false},
	} {
		r := NewReader(strings.NewReader(c.in), 0, isLine)
		n := 0
		_, err := r.Next()
		for ; err == nil; _, err = r.Next() {
			n++
		}
		if n != c.n || (err == ErrDamaged) != c.bad || !c.bad && (err != io.EOF || r.Torn != c.torn) ||
			r.Offset != int64(n*len(line("a"))) {
			t.Errorf("%s: %d lines, torn %v, %v", c.name, n, r.Torn, err)
		}
	}
	broken := errors.New("broken")
	if _, err := NewReader(badReader{broken}, 0, isLine).Next(); err != broken {
		t.Error(err)
	}
}

type badReader struct{ err error }

func (r badReader) ReadAt([]byte, int64) (int, error) { return 0, r.err }

func TestContinues(t *testing.T) {
	zeros := strings.Repeat("\x00", 40)
	for in, want := range map[string]bool{
		zeros + "\nx\n" + line("a"): true, zeros + "\n" + strings.Repeat("x", 10*MaxLine): false, zeros: false,
		"": false,
	} {
		r := NewReader(strings.NewReader(in), 0, isLine)
		if _, err := r.Next(); err != io.EOF || r.Continues() != want {
			t.Errorf("%.50q: %v, want %v", in, err, want)
		}
	}
}

// A reader goes on where it was, also behind a line that was half written then.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	r := NewReader(f, 0, isLine)
	for _, c := range []struct {
		more, want string
		torn       bool
	}{{"", "", false}, {line("a") + line("b")[:3], "a", true}, {line("b")[3:], "b", false}, {line("c"), "c", false},
		{strings.Repeat("\x00", 99) + "\n", "", true}} {
		_, err := f.WriteString(c.more)
		must(t, err)
		if c.want != "" {
			if b, err := r.Next(); err != nil || string(b)+"\n" != line(c.want) {
				t.Errorf("%q, %v, want %q", b, err, c.want)
			}
		}
		for range 2 {
			if _, err := r.Next(); err != io.EOF || r.Torn != c.torn || r.Torn && r.Continues() {
				t.Errorf("behind %q: %v, torn %v", c.want, err, r.Torn)
			}
		}
	}
	if b, err := NewReader(f, int64(len(line("a"))), isLine).Next(); err != nil || string(b)+"\n" != line("b") {
		t.Errorf("from an offset: %q, %v", b, err)
	}
}

// Each change fails in turn, with nothing or with half of a write done: the journal goes on with what was
// acknowledged.
func TestFaults(t *testing.T) {
	broken := errors.New("broken")
	for _, mode := range []string{"fails", "torn", "dies"} {
		for fail := 0; ; fail++ {
			j := newJournal(t)
			at, failed := 0, ""
			j.Hook = func(op, path string, b []byte) error {
				if at++; at-1 < fail || failed != "" && (mode != "dies" || op != "truncate") {
					return nil
				}
				if failed == "" && mode != "fails" && op == "write" && path == j.Path {
					f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
					must(t, err)
					_, err = f.Write(b[:len(b)-3])
					must(t, errors.Join(err, f.Close()))
				}
				failed = op
				return broken
			}
			var acknowledged []string
			for i := range 3 {
				text := fmt.Sprint("a", i)
				if err := j.add(t.Context(), text, "with it"); err == nil {
					acknowledged = append(acknowledged, text)
				} else if !errors.Is(err, broken) {
					t.Fatal(err)
				}
			}
			j.Hook = nil
			must(t, j.add(t.Context(), "after"))
			all := " " + strings.Join(texts(t, j.Path), " ") + " "
			for _, text := range acknowledged {
				if !strings.Contains(all, " "+text+" with it ") {
					t.Errorf("%s at %d, %s: %s is lost:%s", mode, fail, failed, text, all)
				}
			}
			if failed == "" {
				if fail < 12 {
					t.Errorf("only %d changes", fail)
				}
				break
			}
		}
	}
}

func TestWriter(t *testing.T) {
	broken, stuck := errors.New("broken"), errors.New("stuck")
	fail := map[string]error{}
	h := Hook(func(op, _ string, _ []byte) error { return fail[op] })
	path := filepath.Join(t.TempDir(), "new", "one")
	for _, op := range []string{"mkdir", "create", "write", "syncdir"} {
		fail[op] = broken
		if _, err := h.Create(path, []byte("first\n")); !errors.Is(err, broken) {
			t.Errorf("%s: %v", op, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", op, err)
		}
		delete(fail, op)
	}
	w, err := h.Create(path, []byte("first\n"))
	must(t, err)
	defer w.Close()
	if _, err := h.Create(path, nil); !errors.Is(err, os.ErrExist) {
		t.Error(err)
	}
	fail["write"] = broken
	if err := w.Append([]byte("a\n")); !errors.Is(err, broken) {
		t.Error(err)
	}
	fail["truncate"] = stuck
	err = w.Append([]byte("a\n"))
	if cut, ok := errors.AsType[*CutError](err); !ok || !errors.Is(err, broken) || !errors.Is(cut, stuck) ||
		cut.Error() != "stuck" {
		t.Error(err)
	}
	clear(fail)
	must(t, errors.Join(w.Append([]byte("b\n")), w.Sync()))
	if got := content(t, path); got != "first\nb\n" {
		t.Errorf("%q", got)
	}
}

// A process goes on waiting as long as the journal grows.
func TestQueue(t *testing.T) {
	j := newJournal(t)
	must(t, j.add(t.Context()))
	held, err := j.lock(t.Context())
	must(t, err)
	j.Wait = time.Millisecond
	var looks atomic.Int64
	j.Hook = func(op, path string, _ []byte) error {
		n := looks.Add(1)
		if op != "look" || n == 5 {
			return nil // it doesn't grow any more
		}
		return os.Truncate(path, 1000+n)
	}
	_, err = j.lock(t.Context())
	if want := fmt.Sprintf("%q is in use: waited 1ms", LockPath(j.Path)); fault.CodeOf(err) != fault.Busy ||
		err.Error() != want || looks.Load() != 5 {
		t.Errorf("after %d looks: %v", looks.Load(), err)
	}
	looks.Store(5)
	j.Hook = func(_, path string, _ []byte) error {
		n := looks.Add(1)
		if n == 10 {
			held.Close()
		}
		return os.Truncate(path, 1000+n)
	}
	f, err := j.lock(t.Context())
	if err != nil || looks.Load() < 10 {
		t.Fatalf("after %d looks: %v", looks.Load(), err)
	}
	defer f.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if err := j.add(ctx); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// A journal that is made while it is opened isn't lost.
func TestMade(t *testing.T) {
	made := newJournal(t)
	must(t, made.add(t.Context()))
	for round := range 5000 {
		path := fmt.Sprint(made.Path, round)
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				for {
					f, err := Open(path)
					if err == nil {
						f.Close()
					} else if errors.Is(err, os.ErrNotExist) {
						continue
					} else {
						t.Errorf("round %d: %v", round, err)
					}
					return
				}
			})
		}
		must(t, errors.Join(os.Link(made.Path, path), os.Link(LockPath(made.Path), LockPath(path))))
		if readers.Wait(); t.Failed() {
			return
		}
	}
}

// Processes append; each is killed right after it has said that a line is there. Every such line is.
func TestKill(t *testing.T) {
	program, err := os.Executable()
	must(t, err)
	for round := range 6 {
		j := newJournal(t)
		said := make([]string, 4)
		var group sync.WaitGroup
		for p := range said {
			group.Go(func() {
				c := exec.Command(program)
				c.Env = append(os.Environ(), "RYE_TEST_JOURNAL="+j.Path, fmt.Sprint("RYE_TEST_NAME=", p))
				out, err := c.StdoutPipe()
				if err = errors.Join(err, c.Start()); err != nil {
					t.Error(err)
					return
				}
				lines := bufio.NewScanner(out)
				for n := 0; n <= 3*round+p && lines.Scan(); n++ {
					said[p] += lines.Text() + " "
				}
				c.Process.Kill()
				for lines.Scan() { // what it said before it died
					said[p] += lines.Text() + " "
				}
				c.Wait()
			})
		}
		group.Wait()
		all := " " + strings.Join(texts(t, j.Path), " ") + " "
		for p, ones := range said {
			for text := range strings.FieldsSeq(ones) {
				if !strings.Contains(all, " "+text+" ") {
					t.Errorf("%s is lost", text)
				}
			}
			if ones == "" {
				t.Errorf("process %d said nothing", p)
			}
		}
		must(t, j.add(t.Context(), "after"))
	}
}
