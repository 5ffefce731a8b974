package rollback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/cas/journal"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	goldentest.File(t, filepath.Join("../../testdata/vectors/manifest/rollback", name), got)
}

func step(name, position, content string) Step {
	return Step{"https://example.org/a", name, position, cas.Sum([]byte(content)), false, noon}
}

func moved(s Step) Step { s.ByName = true; return s }

func newJournal(t testing.TB) *Journal {
	return &Journal{Path: filepath.Join(t.TempDir(), "state", "rye", "rollback")}
}

func mustRecord(t testing.TB, j *Journal, steps ...Step) {
	t.Helper()
	if err := j.Record(t.Context(), steps...); err != nil {
		t.Fatal(err)
	}
}

func TestJournal(t *testing.T) {
	j := newJournal(t)
	if seen, err := j.Seen(); err != nil || seen != nil {
		t.Fatal(seen, err)
	}
	if err := j.Check(step("bundle:a", "1.0.0", "x")); err != nil {
		t.Fatal(err)
	}
	mustRecord(t, j) // nothing
	if _, err := os.Stat(j.Path); !errors.Is(err, os.ErrNotExist) {
		t.Error("a journal of nothing", err)
	}
	mustRecord(t, j, moved(step("bundle:a", "1.2.0", "x")), step("bundle:a", "1.0.0", "old"),
		moved(step("revocations:l", "9", "l9")))
	l9 := step("revocations:l", "9", "l9")
	other := moved(step("bundle:a", "1.0.0", "elsewhere"))
	other.Source = "/home/é \"quoted\""
	for _, c := range []struct {
		name string
		step Step
		ok   bool
	}{
		{"again", moved(step("bundle:a", "1.2.0", "x")), true},
		{"an old version, asked for", step("bundle:a", "1.0.0", "old"), true},
		{"an old version, by name", moved(step("bundle:a", "1.0.0", "old")), false},
		{"an older version, asked for", step("bundle:a", "0.9.0", "older"), true},
		{"an older version, by name", moved(step("bundle:a", "0.9.0", "older")), false},
		{"a pre-release of it", moved(step("bundle:a", "1.2.0-rc.1", "rc")), false},
		{"the same version changed", step("bundle:a", "1.2.0", "y"), false},
		{"the old version changed", step("bundle:a", "1.0.0", "y"), false},
		{"a later version", moved(step("bundle:a", "1.10.0", "z")), true},
		{"another build", moved(step("bundle:a", "1.2.0+1", "z")), true},
		{"another bundle", moved(step("bundle:b", "1.0.0", "z")), true},
		{"another source", other, true},
		{"the same list", moved(step("revocations:l", "9", "l9")), true},
		{"an older list", moved(step("revocations:l", "8", "l8")), false},
		{"a changed list", moved(step("revocations:l", "9", "m9")), false},
		{"a newer list", moved(step("revocations:l", "10", "l10")), true},
		{"a version for a counter", moved(step("revocations:l", "10.0.0", "l10")), false},
		{"no version", step("bundle:a", "latest", "x"), false},
		{"no counter", step("bundle:a", "01", "x"), false},
		{"a huge counter", step("bundle:a", "99999999999999999999", "x"), false},
		{"no name", step("", "1.0.0", "x"), false},
		{"two lines", step("bundle:a\n", "1.0.0", "x"), false},
		{"a negative counter", step("bundle:a", "-1", "x"), false},
		{"the first counter", step("revocations:m", "0", "x"), true},
		{"a counter for a version", moved(step("bundle:a", "2", "x")), false},
		{"a long name", step(strings.Repeat("n", 1000), "1", "x"), true},
		{"too long a name", step(strings.Repeat("n", 1001), "1", "x"), false},
		{"a name that is no text", step("a\xff", "1", "x"), false},
		{"too long a source", Step{strings.Repeat("s", 4197), "n", "1", l9.ID, false, noon}, false},
		{"a source that is no text", Step{"\xff", "n", "1", l9.ID, false, noon}, false},
		{"a time that isn't written", Step{"s", "n", "1", l9.ID, false, noon.AddDate(8000, 0, 0)}, false},
		{"a time before all", Step{"s", "n", "1", l9.ID, false, noon.AddDate(-3000, 0, 0)}, false},
		{"no id", Step{"s", "n", "1", cas.Digest{}, false, noon}, false},
	} {
		if err := j.Check(c.step); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	e, ok := errors.AsType[*Error](j.Check(moved(step("bundle:a", "1.0.0", "old"))))
	if !ok || e.Seen.Position != "1.2.0" || !strings.Contains(e.Error(), "goes back to 1.0.0") {
		t.Errorf("%v", e)
	}
	// All or nothing, and one after the other.
	if err := j.Record(t.Context(), step("bundle:c", "1.0.0", "x"), step("bundle:c", "1.0.0", "y")); err == nil {
		t.Error("two ids in one call")
	}
	want := []Step{moved(step("bundle:a", "1.2.0", "x")), step("bundle:a", "1.0.0", "old"),
		moved(step("revocations:l", "9", "l9"))}
	if seen, err := j.Seen(); err != nil || !reflect.DeepEqual(seen, want) {
		t.Errorf("%v, %v", seen, err)
	}
	mustRecord(t, j, moved(other), moved(step("revocations:l", "10", "l10")))
	golden(t, "journal.txt", contents(t, j))
	// The way back.
	if err := j.Forget(t.Context(), "https://example.org/a", "bundle:a"); err != nil {
		t.Fatal(err)
	}
	mustRecord(t, j, moved(step("bundle:a", "0.1.0", "anew")))
	if seen, err := j.Seen(); err != nil || len(seen) != 3 {
		t.Errorf("%v, %v", seen, err)
	}
	before := contents(t, j)
	if err := j.Forget(t.Context(), "nowhere", "bundle:a"); err != nil || !bytes.Equal(contents(t, j), before) {
		t.Error(err)
	}
	if !bytes.Contains(before, []byte(` forget "https://example.org/a" "bundle:a" `)) {
		t.Errorf("%s", before)
	}
}

func contents(t testing.TB, j *Journal) []byte {
	t.Helper()
	b, err := os.ReadFile(j.Path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What was there and is gone is not nothing.
func TestJournalLost(t *testing.T) {
	for _, lose := range []func(string) error{os.Remove, func(p string) error {
		return os.Truncate(p, 0)
	}, func(p string) error { return os.Truncate(p, 5) }} {
		j := newJournal(t)
		mustRecord(t, j, step("bundle:a", "1.0.0", "x"))
		if err := lose(j.Path); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{j.Check(), j.Record(t.Context(), step("bundle:a", "1.0.0", "y")), second(j.Seen()),
			j.Forget(t.Context(), "", "")} {
			if e, ok := errors.AsType[*journal.DamagedError](err); !ok || e.Path != j.Path ||
				fault.CodeOf(err) != fault.Integrity ||
				!strings.HasPrefix(strings.Join(fault.Of(err).Hint, "\n"), "rm -f ") {
				t.Errorf("%v", err)
			}
		}
	}
	j := newJournal(t)
	mustRecord(t, j, step("bundle:a", "1.0.0", "x"))
	whole := string(contents(t, j))
	_, records, _ := strings.Cut(whole, "\n")
	for text, code := range map[string]fault.Code{
		"rye journal rollback/3\nx\n":               fault.VersionMismatch,
		"rye journal rollback/x\n" + records:        fault.Integrity,
		"rye journal other/2\n" + records:           fault.Integrity,
		strings.Replace(whole, "\n", "\n00", 1):     fault.Integrity,
		strings.Replace(whole, "\n", "\n"+whole, 1): fault.Integrity,
	} {
		os.WriteFile(j.Path, []byte(text), 0o600)
		if err := j.Check(); fault.CodeOf(err) != code {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

// Whatever is cut off is repaired, to a state in which every record before the cut counts; and a byte that
// changed is reported, or changes nothing.
func TestJournalDamage(t *testing.T) {
	j := newJournal(t)
	steps := []Step{moved(step("bundle:a", "1.0.0", "x")), step("bundle:b", "1.0.0", "y"),
		moved(step("revocations:l", "7", "z"))}
	var ends []int
	for _, s := range steps {
		mustRecord(t, j, s)
		ends = append(ends, len(contents(t, j)))
	}
	whole := contents(t, j)
	header := len(journalHeader)
	for n := header; n < len(whole); n++ {
		os.WriteFile(j.Path, whole[:n], 0o600)
		good := 0
		for good < len(ends) && ends[good] <= n {
			good++
		}
		if seen, err := j.Seen(); err != nil || len(seen) != good {
			t.Fatalf("cut to %d: %v, %v", n, seen, err)
		}
		mustRecord(t, j, steps...)
		if !bytes.Equal(contents(t, j), whole) {
			t.Fatalf("cut to %d and recorded again:\n%s", n, contents(t, j))
		}
	}
	for n := range whole {
		for _, c := range []byte{whole[n] ^ 1, whole[n] ^ 0x80, 0, '\n'} {
			bad := bytes.Clone(whole)
			bad[n] = c
			os.WriteFile(j.Path, bad, 0o600)
			seen, err := j.Seen()
			end := n == len(whole)-1 && c == 0 // a machine that crashes leaves that too
			if err == nil && !reflect.DeepEqual(seen, steps) && !(end && reflect.DeepEqual(seen, steps[:2])) {
				t.Fatalf("byte %d as %q: %v", n, c, seen)
			}
		}
		// Lines that are gone, doubled or swapped.
		if whole[n] == '\n' && n+1 < len(whole) {
			next := n + 2 + bytes.IndexByte(whole[n+1:], '\n')
			for what, bad := range map[string][]byte{
				"gone":    append(bytes.Clone(whole[:n+1]), whole[next:]...),
				"doubled": append(bytes.Clone(whole[:next]), whole[n+1:]...),
			} {
				if next == len(whole) && what == "gone" {
					continue
				}
				os.WriteFile(j.Path, bad, 0o600)
				if seen, err := j.Seen(); err == nil {
					t.Errorf("line %s at %d: %v", what, n, seen)
				}
			}
		}
	}
	// What a machine leaves that loses its power: the length, and not the bytes.
	for _, tail := range [][]byte{make([]byte, 300), append([]byte("0123456789abcdef seen \"h"), make([]byte, 200)...),
		append(make([]byte, 200), "abc\n"...)} {
		os.WriteFile(j.Path, append(bytes.Clone(whole), tail...), 0o600)
		if seen, err := j.Seen(); err != nil || !reflect.DeepEqual(seen, steps) {
			t.Errorf("tail %q: %v, %v", tail, seen, err)
		}
		mustRecord(t, j, steps[0])
		if !bytes.Equal(contents(t, j), whole) && !bytes.HasPrefix(contents(t, j), whole) {
			t.Errorf("not repaired:\n%q", contents(t, j))
		}
	}
}

// Every change to a file fails once, or ends half-way: what was acknowledged stays, what wasn't is there or not,
// and the next call goes on.
func TestJournalFaults(t *testing.T) {
	broken := errors.New("broken")
	for _, torn := range []bool{false, true} {
		for fail := 0; ; fail++ {
			j := newJournal(t)
			var acknowledged []Step
			at, failed := 0, ""
			j.hook = func(op, path string, b []byte) error {
				if at++; at-1 < fail || failed != "" && op != "truncate" {
					return nil
				}
				if failed != "" {
					return broken // the process is as good as dead
				}
				failed = op
				if torn && op == "write" && !bytes.HasPrefix(b, []byte(journalHeader)) &&
					!bytes.HasPrefix(b, []byte("journal\n")) {
					f, err := os.OpenFile(j.Path, os.O_WRONLY|os.O_APPEND, 0)
					if err == nil {
						_, err = f.Write(b[:len(b)/2])
						f.Close()
					}
					if err != nil {
						t.Error(err)
					}
				}
				return broken
			}
			for i := range 4 {
				s := moved(step("bundle:a", fmt.Sprintf("1.%d.0", i), fmt.Sprint(i)))
				if err := j.Record(t.Context(), s); err == nil {
					acknowledged = append(acknowledged, s)
				} else if !errors.Is(err, broken) {
					t.Fatal(err)
				}
			}
			j.hook = nil
			seen, err := j.Seen()
			if err != nil {
				t.Fatalf("fault %d: %v", fail, err)
			}
			for _, s := range acknowledged {
				if s.ByName = seen[len(seen)-1].Position == s.Position; !containsStep(seen, s) {
					t.Errorf("fault %d, %s: lost %v of %v", fail, failed, s, seen)
				}
			}
			mustRecord(t, j, moved(step("bundle:a", "1.4.0", "4")))
			if failed == "" {
				if fail < 8 {
					t.Errorf("only %d changes", fail)
				}
				break
			}
		}
	}
}

func containsStep(steps []Step, s Step) bool {
	for _, o := range steps {
		if o == s {
			return true
		}
	}
	return false
}

// Superseded records go when there are many, at every point of failure.
func TestJournalCompaction(t *testing.T) {
	j := newJournal(t)
	var b bytes.Buffer
	m := newMemory()
	b.WriteString(journalHeader)
	for i := range 3000 {
		line, err := m.step(nil, moved(step("revocations:l", fmt.Sprint(i+1), fmt.Sprint(i))))
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
	}
	mustRecord(t, j, step("bundle:a", "1.0.0", "x"))
	os.WriteFile(j.Path, b.Bytes(), 0o600)
	if b.Len() < compactAt {
		t.Fatal("too small")
	}
	broken := errors.New("broken")
	for _, op := range []string{"create", "write", "sync", "name"} {
		j.hook = func(o, _ string, _ []byte) error {
			if o == op {
				return broken
			}
			return nil
		}
		if err := j.Record(t.Context(), moved(step("revocations:l", "4000", "new"))); !errors.Is(err, broken) {
			t.Errorf("%s: %v", op, err)
		}
		if !bytes.Equal(contents(t, j), b.Bytes()) {
			t.Errorf("%s: the journal changed", op)
		}
	}
	j.hook = nil
	mustRecord(t, j, moved(step("revocations:l", "4000", "new")))
	seen, err := j.Seen()
	if want := []Step{moved(step("revocations:l", "4000", "new"))}; err != nil || !reflect.DeepEqual(seen, want) ||
		len(contents(t, j)) > 1000 {
		t.Errorf("%v, %v, %d bytes", seen, err, len(contents(t, j)))
	}
}

func TestJournalConcurrent(t *testing.T) {
	j := newJournal(t)
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			mine := Journal{Path: j.Path}
			for i := range 10 {
				if err := mine.Record(t.Context(), moved(step(fmt.Sprintf("bundle:%d", g), fmt.Sprintf("1.%d.0", i),
					"x")), step("bundle:all", fmt.Sprintf("1.%d.0", i), "y")); err != nil {
					t.Error(err)
				}
				if err := mine.Check(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if seen, err := j.Seen(); err != nil || len(seen) != 90 {
		t.Errorf("%d steps, %v", len(seen), err)
	}
}

// What is read as a journal and is whole is what is written; nothing panics.
func FuzzJournal(f *testing.F) {
	m := newMemory()
	b := []byte(journalHeader)
	for _, s := range []Step{moved(step("bundle:a", "1.0.0", "x")), step("bundle:\u00e9", "2.0.0-rc.1", "y"),
		moved(step("revocations:l", "7", "z"))} {
		b, _ = m.step(b, s)
	}
	f.Add(b)
	forget, _ := m.add(nil, forgetRecord())
	f.Add(append(b, forget...))
	f.Add([]byte("rye journal rollback/3\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := newMemory()
		err := m.read("f", bytes.NewReader(b))
		if err != nil {
			return
		}
		again := newMemory()
		if err := again.read("f", bytes.NewReader(m.write())); err != nil ||
			!reflect.DeepEqual(again.steps(), m.steps()) {
			t.Fatalf("%q is written as %q: %v", b, m.write(), err)
		}
		for _, s := range m.steps() {
			if _, err := m.step(nil, s); err != nil {
				t.Fatalf("%v contradicts itself: %v", s, err)
			}
		}
		line, rest, _ := bytes.Cut(b[len(journalHeader):], []byte("\n"))
		if r, _, err := parseRecord(line); err == nil && len(rest) > 0 {
			if out, _ := r.append(nil); !bytes.Equal(out, append(bytes.Clone(line), '\n')) {
				t.Fatalf("%q is written as %q", line, out)
			}
		}
	})
}

func forgetRecord() (r record) {
	r.op, r.Source, r.Name = opForget, "https://example.org/a", "bundle:a"
	return r
}

func BenchmarkJournalRecord(b *testing.B) {
	j := newJournal(b)
	i := 0
	for b.Loop() {
		i++
		mustRecord(b, j, moved(step("revocations:l", fmt.Sprint(i), "x")))
	}
}

func second[T any](_ T, err error) error { return err }

// What is taken once is not taken again, wherever the name has been meanwhile.
func TestJournalOnce(t *testing.T) {
	j := newJournal(t)
	one, two := step("rotation:acme/**", "", "a to b"), step("rotation:acme/**", "", "b to a")
	for _, s := range []Step{one, two} {
		if err := j.CheckOnce(s); err != nil {
			t.Fatal(err)
		}
		if err := j.Once(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	want := fmt.Sprintf(`"rotation:acme/**" %s was already applied, at 2026-11-20T12:00:00Z; `+
		`it can be applied only once`, one.ID)
	for _, s := range []Step{one, two} {
		later := s
		later.At, later.Position = noon.AddDate(1, 0, 0), "99"
		for _, err := range []error{j.CheckOnce(later), j.Once(t.Context(), later)} {
			if e, ok := errors.AsType[*Error](err); !ok || e.Reason() != Repeated || s == one && e.Error() != want {
				t.Errorf("again: %v", err)
			}
		}
	}
	elsewhere := one
	elsewhere.Source = "another policy"
	if err := j.Once(t.Context(), elsewhere); err != nil {
		t.Errorf("elsewhere: %v", err)
	}
	seen, err := j.Seen()
	if err != nil || len(seen) != 3 || seen[2].Position != "2" || seen[2].ByName {
		t.Errorf("%v, %v", seen, err)
	}
	for _, bad := range []Step{{Source: "s", Name: "n", At: noon}, {Source: "s", ID: one.ID, At: noon},
		{Source: "\xff", Name: "n", ID: one.ID, At: noon}} {
		if err := j.Once(t.Context(), bad); err == nil {
			t.Errorf("%v: remembered", bad)
		}
	}
	if err := os.WriteFile(j.Path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := j.CheckOnce(one); err == nil {
		t.Error("a lost journal is an empty one")
	}
}

// Two that take one step at once: one of them does.
func TestJournalOnceConcurrent(t *testing.T) {
	j := newJournal(t)
	errs := make([]error, 8)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			errs[i] = (&Journal{Path: j.Path}).Once(context.Background(), step("rotation:x", "", "same"))
		})
	}
	group.Wait()
	taken := 0
	for _, err := range errs {
		if e, ok := errors.AsType[*Error](err); err == nil {
			taken++
		} else if !ok || e.Reason() != Repeated {
			t.Error(err)
		}
	}
	if taken != 1 {
		t.Errorf("%d have taken it", taken)
	}
}
