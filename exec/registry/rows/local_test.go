package rows_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/registry/rows"
	"github.com/rye-build/rye/exec/registry/rows/rowstest"
)

var must = journaltest.Must

func open(t testing.TB, dir string, hook journal.Hook) *rows.Local {
	t.Helper()
	l, err := rows.OpenLocal(dir, hook)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

func TestLocal(t *testing.T) {
	rowstest.Test(t, func(t testing.TB) rowstest.Open {
		dir := filepath.Join(t.TempDir(), "data")
		return func(t testing.TB) rows.Store { return open(t, dir, nil) }
	})
}

// TestFormat: the bytes of the file, forever.
func TestFormat(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, nil)
	rowstest.Put(t, l, "account/alice", `{"created":"2026-11-20T12:00:00Z"}`)
	rowstest.Put(t, l, "page/large", `{"text":"`+strings.Repeat("a", 60_000)+`"}`, "page/small", `{}`)
	must(t, l.Update(t.Context(), func(w rows.Writer) error { w.Delete("account/alice"); return nil }))
	journaltest.Golden(t, filepath.Join(dir, "rows"), "../../../testdata/vectors/exec/registry/rows/rows")
}

// pieces are rows of one update that need several lines, one of them in pieces, with the same number in all.
func pieces(n int) (texts []string) {
	for i := range 4 {
		texts = append(texts, fmt.Sprint("row/", i), fmt.Sprintf(`{"n":%d}`, n))
	}
	return append(texts, "row/2+", fmt.Sprintf(`{"n":%d,"text":"%s"}`, n, strings.Repeat("a", 70_000)))
}

// same returns the number that all rows of pieces have, or 0 without rows.
func same(t testing.TB, s rows.Store) (n int) {
	t.Helper()
	must(t, s.View(t.Context(), func(r rows.Reader) error {
		seen := 0
		for row, err := range r.Scan("row/", "") {
			if err != nil {
				return err
			}
			var value struct{ N int }
			must(t, json.Unmarshal(row.Value, &value))
			if seen > 0 && value.N != n {
				t.Errorf("half of an update: %s has %d, the row before it %d", row.Name, value.N, n)
			}
			n = value.N
			seen++
		}
		if seen != 0 && seen != 5 {
			t.Errorf("half of an update: %d rows", seen)
		}
		return nil
	}))
	return n
}

// A writer is a process that updates all rows of pieces, and counts one row that others count too.
type writer struct {
	Dir    string
	Rounds int
	Torn   int // lines of the second update that are written before it is killed; 0: it isn't torn
}

func TestMain(m *testing.M) {
	os.Exit(journaltest.Main(m, os.Getenv(journaltest.Variable), os.Stdin, os.Stdout, writer.run))
}

func (p writer) run(hook journal.Hook) (string, error) {
	updates := 0
	torn := func(op, path string, b []byte) error {
		if op == "write" && filepath.Base(path) == "rows" && p.Torn > 0 {
			if updates++; updates == 2 {
				if lines := bytes.SplitAfter(b, []byte("\n")); p.Torn < len(lines)-1 {
					text := bytes.Join(lines[:p.Torn], nil)
					if p.Torn%2 == 0 {
						text = append(text, lines[p.Torn][:len(lines[p.Torn])/2]...)
					}
					if err := appendTo(path, text); err != nil {
						return err
					}
					self, _ := os.FindProcess(os.Getpid())
					self.Kill()
					select {}
				}
			}
		}
		return hook(op, path, b)
	}
	l, err := rows.OpenLocal(p.Dir, torn)
	if err != nil {
		return "", err
	}
	for range p.Rounds {
		if err := next(context.Background(), l); err != nil {
			return "", err
		}
	}
	return "done", l.Close()
}

func appendTo(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// next writes pieces with the next number.
func next(ctx context.Context, s rows.Store) error {
	return s.Update(ctx, func(w rows.Writer) error {
		var value struct{ N int }
		b, err := w.Get("row/0")
		if err == nil && b != nil {
			err = json.Unmarshal(b, &value)
		}
		for pair := range slices.Chunk(pieces(value.N+1), 2) {
			w.Put(pair[0], []byte(pair[1]))
		}
		return err
	})
}

// TestKilledWriting kills a process before each change that it makes to the files, and after each line of an update:
// an update is there wholly or not at all, and the next process goes on.
func TestKilledWriting(t *testing.T) {
	kill := func(p writer, dies int) (killed bool) {
		p.Dir, p.Rounds = filepath.Join(t.TempDir(), "data"), 2
		l := open(t, p.Dir, nil)
		rowstest.Put(t, l, pieces(1)...)
		cmd := journaltest.Command(t, p, dies)
		err := cmd.Run()
		killed = cmd.ProcessState.ExitCode() == -1
		if !killed {
			must(t, err)
		}
		n := same(t, l)
		if m := same(t, open(t, p.Dir, nil)); m != n || n < 1 || n > 3 || p.Torn > 0 && killed && n != 2 {
			t.Errorf("%+v before change %d: %d, and %d for who has it open", p, dies, m, n)
		}
		for range 2 {
			must(t, next(t.Context(), l))
		}
		if m := same(t, open(t, p.Dir, nil)); m != n+2 {
			t.Errorf("%+v before change %d: %d after %d", p, dies, m, n)
		}
		return killed
	}
	changes, lines := 1, 1
	for ; kill(writer{}, changes); changes++ {
	}
	for ; kill(writer{Torn: lines}, 0); lines++ {
	}
	if changes < 5 || lines != 6 { // of 6 lines all but the last one
		t.Errorf("killed before %d changes and after %d lines", changes, lines)
	}
}

// TestProcesses: of processes that update at once, some of them killed with -9, each update is whole, and none that a
// process has reported is lost.
func TestProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := open(t, dir, nil)
	rowstest.Put(t, l, pieces(1)...)
	var group sync.WaitGroup
	const processes, rounds = 8, 3
	for i := range processes {
		dies := 0
		if i%4 == 0 {
			dies = 3 + i
		}
		cmd := journaltest.Command(t, writer{Dir: dir, Rounds: rounds}, dies)
		group.Go(func() {
			if err := cmd.Run(); err != nil && (dies == 0 || cmd.ProcessState.ExitCode() != -1) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := same(t, l); n < 1+processes*3/4*rounds || n > 1+processes*rounds {
		t.Errorf("%d updates", n-1)
	}
}

// TestFaults: whichever change of a file fails, with nothing or a part of it done, and with a disk that stays full or
// not: readers see whole updates, also in the middle of a write, and the next update works.
func TestFaults(t *testing.T) {
	for _, mode := range []string{"fails", "torn", "full"} {
		for fail := 1; ; fail++ {
			dir := filepath.Join(t.TempDir(), "data")
			reader := open(t, dir, nil)
			full, heal := journaltest.Full(fail)
			tore := false
			l := open(t, dir, func(op, path string, b []byte) error {
				err := full(op, path, b)
				if err == nil || mode == "fails" && op == "truncate" {
					return nil
				}
				if op == "write" && filepath.Base(path) == "rows" && mode == "torn" && !tore {
					tore = true
					lines := bytes.SplitAfter(b, []byte("\n"))
					must(t, appendTo(path, bytes.Join(lines[:len(lines)/2], nil)))
					same(t, reader)
				}
				if mode == "fails" {
					heal()
				}
				return err
			})
			acknowledged := 0
			for range 3 {
				if err := next(t.Context(), l); err == nil {
					acknowledged++
				}
			}
			if n := same(t, reader); n < acknowledged {
				t.Fatalf("%s at %d: %d after %d", mode, fail, n, acknowledged)
			}
			failed := heal()
			before := same(t, l)
			must(t, next(t.Context(), l))
			must(t, next(t.Context(), reader))
			if n := same(t, open(t, dir, nil)); n < acknowledged+2 || n != before+2 {
				t.Fatalf("%s at %d: %d after %d", mode, fail, n, acknowledged)
			}
			if !failed {
				if fail < 8 {
					t.Errorf("%s: %d changes of files", mode, fail)
				}
				break
			}
		}
	}
}

// TestImpossible: records with right sums that no update has written are damage.
func TestImpossible(t *testing.T) {
	for _, records := range []string{
		`{"put":"a"}`, `{"value":{}}`, `{"put":"a","value":{},"delete":"b"}`, `{"put":"a","value":[]}`,
		`{"put":"a b","value":{}}`, `{"delete":"a b"}`, `{"put":"a","value":{},"colour":"red"}`, `{}`,
		`{"put":"a","value":{},"piece":"e30="}`, `{"put":"a","value":null}`, `{"put":"a","piece":""}`,
		`{"put":"a","piece":"W10="}`, `{"put":"a","piece":"ew=="}`, `{"put":"a","value":{},"part":2,"of":1}`,
		`{"put":"a","value":{},"part":2,"of":2}`, `{"put":"a","value":{},"of":2}`, `{"put":"a","value":{},"part":-1}`,
		`{"delete":"a","part":1,"of":3}` + "\n" + `{"delete":"b","part":2,"of":2}`,
		`{"delete":"a","part":1,"of":3}` + "\n" + `{"delete":"b","part":3,"of":3}`,
	} {
		dir := t.TempDir()
		rowstest.Put(t, open(t, dir, nil), "x", `{}`)
		book := journal.Book[anything]{Path: filepath.Join(dir, "rows"), Format: "rye rows",
			Empty: func() anything { return nil }}
		must(t, book.Change(t.Context(), func(anything) (all []any, err error) {
			for record := range strings.Lines(records) {
				all = append(all, json.RawMessage(record))
			}
			return all, nil
		}))
		must(t, book.Close())
		if _, err := rows.OpenLocal(dir, nil); fault.CodeOf(err) != fault.Integrity {
			t.Errorf("%s: %v", records, err)
		}
	}
}

// anything is the total of records that mean nothing.
type anything []byte

func (anything) Take([]byte) error { return nil }
func (anything) Records() [][]byte { return nil }

// TestShorter: a file that has grown by updates of the same rows is made shorter, and has the same rows for all who
// have it open.
func TestShorter(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir, nil), open(t, dir, nil)
	var size int64
	for n := 1; ; n++ {
		must(t, next(t.Context(), a))
		info, err := os.Stat(filepath.Join(dir, "rows"))
		must(t, err)
		if info.Size() < size {
			break
		}
		if size = info.Size(); n == 1 {
			same(t, b)
		} else if n > 10 {
			t.Fatal("it is never made shorter")
		}
	}
	must(t, next(t.Context(), b))
	for _, l := range []rows.Store{a, b, open(t, dir, nil)} {
		if n := same(t, l); n < 4 {
			t.Errorf("%d updates", n)
		}
	}
}

// TestSize: the file stays bounded, however often rows are written again or removed.
func TestSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows")
	l := open(t, filepath.Dir(path), nil)
	value := []byte(`{"text":"` + strings.Repeat("a", 1_000) + `"}`)
	for round := range 16 {
		must(t, l.Update(t.Context(), func(w rows.Writer) error {
			for i := range 400 {
				if name := fmt.Sprint(i); round < 8 || round%2 == 0 {
					w.Put(name, value)
				} else {
					w.Delete(name)
				}
			}
			return nil
		}))
		info, err := os.Stat(path)
		must(t, err)
		if info.Size() > 1_500_000 {
			t.Fatalf("%d bytes for at most 420,000 after round %d", info.Size(), round)
		}
	}
}

// TestTable: rows stay sorted and are all found, however many chunks they need, and however they came and went.
func TestTable(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, nil)
	const n = 2_000
	change := func(want int, edit func(w rows.Writer, i int)) {
		t.Helper()
		must(t, l.Update(t.Context(), func(w rows.Writer) error {
			for i := range n {
				edit(w, (i*1237)%n)
			}
			return nil
		}))
		for _, l := range []rows.Store{l, open(t, dir, nil)} {
			if got := strings.Count(rowstest.All(t, l), "="); got != want {
				t.Errorf("%d rows, want %d", got, want)
			}
			must(t, l.View(t.Context(), func(r rows.Reader) error {
				before := ""
				for row := range r.Scan("", "") {
					if got, err := r.Get(row.Name); err != nil || !bytes.Equal(got, row.Value) || row.Name <= before {
						t.Errorf("%s=%s, found %s, %v, after %s", row.Name, row.Value, got, err, before)
					}
					before = row.Name
				}
				return nil
			}))
		}
	}
	name := func(i int) string { return fmt.Sprintf("%06d", i) }
	change(n, func(w rows.Writer, i int) { w.Put(name(i), fmt.Appendf(nil, `{"n":%d}`, i)) })
	change(n/2, func(w rows.Writer, i int) {
		if i%2 == 0 {
			w.Delete(name(i))
		}
	})
	change(1, func(w rows.Writer, i int) {
		if i != n/2+1 {
			w.Delete(name(i))
		}
	})
	change(n+1, func(w rows.Writer, i int) { w.Put(name(i+n), []byte(`{}`)) })
	change(0, func(w rows.Writer, i int) { w.Delete(name(i)); w.Delete(name(i + n)) })
}

// TestTryLock: one of several that open a directory has a lock, until it unlocks.
func TestTryLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rows")
	one, err := rows.OpenLocal(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	other, err := rows.OpenLocal(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	unlock, free, err := one.TryLock("flush")
	if err != nil || !free {
		t.Fatal(free, err)
	}
	if _, free, err := other.TryLock("flush"); err != nil || free {
		t.Errorf("two have the lock: %v", err)
	}
	another, free, err := other.TryLock("other")
	if err != nil || !free {
		t.Fatal(free, err)
	}
	another()
	unlock()
	if unlock, free, err = other.TryLock("flush"); err != nil || !free {
		t.Fatal(free, err)
	}
	unlock()
}
