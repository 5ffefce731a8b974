package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
)

// at is a clock that stands still some days after noon.
func at(days int) func(*Options) {
	return func(o *Options) { o.Now = func() time.Time { return noon.AddDate(0, 0, days) } }
}

// grown makes a log of four segments: closed on day 0, left by a process that died on day 1, left so before its first
// mark on day 2, and closed on day 10. Each has a call of its day's name.
func grown(t testing.TB, dir string) {
	for i, day := range []int{0, 1, 2, 10} {
		l := newLog(t, dir, at(day))
		run(t, l, fmt.Sprint("day-", day))
		switch i {
		case 1:
			must(t, l.Checkpoint(t.Context()))
			must(t, l.file.Close())
		case 2:
			must(t, l.file.Close())
		default:
			must(t, l.Close(t.Context()))
		}
	}
}

var export = cas.Sum([]byte("export"))

// old returns what can be removed, and the ids of its calls.
func old(t testing.TB, dir string, days int) (*Pruning, string) {
	t.Helper()
	var ids []string
	p, err := Old(t.Context(), dir, noon.AddDate(0, 0, days), func(line []byte) error {
		var r struct {
			ID       string
			Approval struct{ Request string }
		}
		must(t, json.Unmarshal(line, &r))
		if b, err := jcs.Canonical(nil, line); err != nil || !bytes.Equal(b, line) {
			t.Errorf("%s: %v", line, err)
		}
		ids = append(ids, r.ID+r.Approval.Request)
		return nil
	})
	must(t, err)
	return p, strings.Join(ids, " ")
}

// TestPrune: old segments go, the log says which, and all else is proven as before.
func TestPrune(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	grown(t, dir)
	before := sound(t, dir)
	gone := list(t, dir, Filter{})[1].Position
	if p, ids := old(t, dir, 0); len(p.Segments) > 0 || ids != "" {
		t.Errorf("%+v, %s", p, ids)
	}
	p, ids := old(t, dir, 5)
	if len(p.Segments) != 3 || p.Kept != 0 || ids != "day-0 day-1 day-2" || p.Segments[0].Calls != 1 ||
		p.Segments[0].Lines != 3 || p.Segments[0].Bytes < 500 ||
		!p.Segments[1].Ended.Equal(noon.AddDate(0, 0, 1).Truncate(time.Millisecond)) {
		t.Errorf("%+v, %s", p, ids)
	}
	l := newLog(t, dir, at(20))
	must(t, l.Prune(t.Context(), p, export))
	r := verify(t, dir, before.Head, gone)
	want := Pruned{Line: r.Head.Line, At: noon.AddDate(0, 0, 20).Truncate(time.Millisecond),
		Before: noon.AddDate(0, 0, 5).Truncate(time.Millisecond), Segments: 3, Calls: 3, Lines: 9, Export: export}
	if len(r.Problems) > 0 || r.Segments != 1 || r.Calls != 1 || len(r.Pruned) != 1 || r.Pruned[0] != want ||
		r.SeenPruned != 1 {
		t.Errorf("%+v, %v", r, r.Problems)
	}
	if left := segmentsOf(t, dir); len(left) != 1 {
		t.Error(left)
	}
	if got := names(list(t, dir, Filter{})); got != "day-10" {
		t.Error(got)
	}
	if p, ids := old(t, dir, 5); len(p.Segments) > 0 || ids != "" {
		t.Errorf("again: %+v, %s", p, ids)
	}
	must(t, l.Prune(t.Context(), &Pruning{}, export))
	if again := verify(t, dir); again.Head != r.Head {
		t.Errorf("a line for nothing: %+v", again.Head)
	}
	run(t, l, "after")
	must(t, l.Close(t.Context()))
	if got := names(list(t, dir, Filter{})); got != "day-10 after" {
		t.Error(got)
	}
	must(t, os.Remove(segmentsOf(t, dir)[0]))
	if r := verify(t, dir); len(r.Problems) != 1 || r.Problems[0].Reason != "the segment is missing" {
		t.Errorf("removed without a word: %v", r.Problems)
	}
}

// TestPruneInUse: a segment that a process writes to stays, however old its lines are.
func TestPruneInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := newLog(t, dir, nil)
	run(t, l, "a")
	must(t, l.Checkpoint(t.Context()))
	if p, _ := old(t, dir, 5); len(p.Segments) > 0 || p.Kept != 1 {
		t.Errorf("%+v", p)
	}
	must(t, l.Close(t.Context()))
	young := newLog(t, dir, nil)
	run(t, young, "b")
	young.o.Now = func() time.Time { return noon.AddDate(0, 0, 9) }
	run(t, young, "c")
	must(t, young.file.Close()) // the last line is behind the last mark
	if p, ids := old(t, dir, 5); len(p.Segments) != 1 || ids != "a" {
		t.Errorf("%+v, %s", p, ids)
	}
}

// TestPruneMany: names have room in several lines.
func TestPruneMany(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := newLog(t, dir, nil)
	var p Pruning
	must(t, l.tell(t.Context(), func(tail *record.Tail) error {
		for i := range mostPruned + 2 {
			name := fmt.Sprintf("20261120T120000Z-%016x", i)
			tail.Add(l.line(kindOpen, &openBody{digest(name), name}))
			p.Segments = append(p.Segments, Segment{Name: name})
		}
		return nil
	}))
	must(t, l.Prune(t.Context(), &p, export))
	r := verify(t, dir)
	if len(r.Problems) > 0 || len(r.Pruned) != 2 || r.Pruned[0].Segments != mostPruned || r.Pruned[1].Segments != 2 ||
		r.Segments != 0 {
		t.Errorf("%+v, %v", r, r.Problems)
	}
}

// TestPruneForged: a line about removed segments that isn't as the machine signed it is found, and so is any byte of
// it.
func TestPruneForged(t *testing.T) {
	thief := keytest.Named("thief")
	made := filepath.Join(t.TempDir(), "audit")
	grown(t, made)
	p, _ := old(t, made, 1)
	l := newLog(t, made, at(20))
	must(t, l.Prune(t.Context(), p, export))
	good := read(t, headPath(made))
	last := int64(len(lines(good)))
	kept := strings.TrimSuffix(filepath.Base(segmentsOf(t, made)[0]), ".jsonl")
	sum := len(good) - len(lines(good)[last-1])
	for i := sum; i < len(good)-1; i += sampled(3) {
		b := bytes.Clone(good)
		b[i] ^= 1 << (i % 7)
		write(t, headPath(made), b)
		if p := problemOf(verify(t, made), headName); p == nil || p.Line != last {
			t.Errorf("byte %d: %v", i, p)
		}
	}
	bad := fmt.Sprintf("head, line %d: ", last)
	for name, c := range map[string]struct {
		want string
		edit func(*record.Line, *pruneBody)
	}{
		"one more segment": {bad + "invalid checkpoint signature", func(_ *record.Line, b *pruneBody) {
			b.Segments = append(b.Segments, kept)
			slices.Sort(b.Segments)
		}},
		"another export": {bad + "invalid checkpoint signature", func(_ *record.Line, b *pruneBody) {
			b.Export = digest("x")
		}},
		"by another machine": {bad + "checkpoint signed by an unknown machine key",
			func(l *record.Line, b *pruneBody) {
				b.Sig = ""
				bare := *l
				bare.Body = encode(b)
				s, err := sign.New(cas.Sum(bare.AppendOpen(nil)), pruneClaim(), thief, noon)
				must(t, err)
				b.Sig = s.String()
			}},
		"as a checkpoint": {bad + "invalid checkpoint signature", func(l *record.Line, b *pruneBody) {
			b.Sig = ""
			bare := *l
			bare.Body = encode(b)
			s, err := sign.New(cas.Sum(bare.AppendOpen(nil)), claimOf(b.Segments[0]), machineKey, noon)
			must(t, err)
			b.Sig = s.String()
		}},
		"unsigned": {bad + sign.ErrLine.Error(), func(_ *record.Line, b *pruneBody) { b.Sig = "" }},
		"unknown": {bad + "segment 20200101T000000Z-0123456789abcdef was not opened",
			func(_ *record.Line, b *pruneBody) { b.Segments = []string{"20200101T000000Z-0123456789abcdef"} }},
		"none": {bad + "invalid line format", func(_ *record.Line, b *pruneBody) { b.Segments = nil }},
		"twice": {bad + "invalid line format", func(_ *record.Line, b *pruneBody) {
			b.Segments = append(b.Segments, b.Segments[0])
		}},
		"elsewhere": {bad + `"../x" is not a segment name`, func(_ *record.Line, b *pruneBody) {
			b.Segments = []string{"../x"}
		}},
		"no time":       {bad + `invalid time "now"`, func(_ *record.Line, b *pruneBody) { b.Before = "now" }},
		"negative":      {bad + "invalid line format", func(_ *record.Line, b *pruneBody) { b.Calls = -1 }},
		"no such count": {bad + "invalid line format", func(_ *record.Line, b *pruneBody) { b.Lines = -1 }},
	} {
		write(t, headPath(made), good)
		rechain(t, headPath(made), func(_ int, l *record.Line) {
			if l.Kind == kindPrune {
				var b pruneBody
				must(t, decode(l.Body, &b))
				c.edit(l, &b)
				if l.Body = encode(&b); l.Body == nil {
					t.Fatal(name)
				}
			}
		})
		if p := problemOf(verify(t, made), headName); p == nil || p.Error() != c.want {
			t.Errorf("%s: %v", name, p)
		}
	}
	// Nothing goes on in a segment that was removed.
	write(t, headPath(made), good)
	gone := p.Segments[0].Name
	for _, line := range []record.Line{l.line(kindMark, &markBody{Last: digest("x"), Lines: 9, Segment: gone}),
		l.line(kindOpen, &openBody{digest("x"), gone})} {
		write(t, headPath(made), good)
		must(t, l.tell(t.Context(), func(tail *record.Tail) error {
			tail.Add(line)
			return nil
		}))
		if p := problemOf(verify(t, made), headName); p == nil || p.Line != last+1 {
			t.Errorf("%s: %v", line.Kind, p)
		}
	}
}

// TestPrunedMeanwhile: who reads while segments are removed misses them without an error.
func TestPrunedMeanwhile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	grown(t, dir)
	x, err := readHead(dir, noVisitor{}, func(*record.Line) error { return nil })
	must(t, err)
	p, _ := old(t, dir, 5)
	var got []*Record
	for r, err := range List(t.Context(), dir, Filter{}) {
		must(t, err)
		if got = append(got, r); len(got) == 1 {
			must(t, newLog(t, dir, at(20)).Prune(t.Context(), p, export))
		}
	}
	if names(got) != "day-0 day-10" {
		t.Error(names(got))
	}
	must(t, new(counts).read(t.Context(), dir, x.segments[1], nil))
}

// TestPruneRefused: damage, and what can't be read, is an error, and nothing is removed.
func TestPruneRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	grown(t, dir)
	all := segmentsOf(t, dir)
	none := func([]byte) error { return nil }
	broken := errors.New("broken")
	if _, err := Old(t.Context(), dir, noon.AddDate(1, 0, 0), func([]byte) error {
		return broken
	}); !errors.Is(err, broken) {
		t.Error(err)
	}
	good := read(t, all[0])
	write(t, all[0], bytes.Replace(good, []byte(`"line":2`), []byte(`"line":3`), 1))
	if _, err := Old(t.Context(), dir, noon.AddDate(1, 0, 0), none); fault.CodeOf(err) != fault.Integrity {
		t.Error(err)
	}
	must(t, os.Remove(all[0]))
	if _, err := Old(t.Context(), dir, noon.AddDate(1, 0, 0), none); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	write(t, all[0], good)
	p, _ := old(t, dir, 5)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newLog(t, dir, at(20)).Prune(over, p, export); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	write(t, headPath(dir), []byte("damage\n"))
	if _, err := Old(t.Context(), dir, noon.AddDate(1, 0, 0), none); fault.CodeOf(err) != fault.Integrity {
		t.Error(err)
	}
	if err := newLog(t, dir, at(20)).Prune(t.Context(), &Pruning{}, export); fault.CodeOf(err) != fault.Integrity {
		t.Error(err)
	}
	if left := segmentsOf(t, dir); len(left) != len(all) {
		t.Error(left)
	}
}

// TestPruneFaults: each change fails in turn. The log is sound afterwards, and the next Prune ends the work.
func TestPruneFaults(t *testing.T) {
	for _, mode := range []string{"fails", "torn"} {
		for fail, done := 1, false; !done; fail++ {
			dir := filepath.Join(t.TempDir(), "audit")
			grown(t, dir)
			p, _ := old(t, dir, 5)
			l := newLog(t, dir, at(20))
			n := 0
			l.head.Hook = func(op, path string, b []byte) error {
				if n++; n < fail {
					return nil
				}
				if n == fail && mode == "torn" && op == "write" {
					f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
					must(t, err)
					_, err = f.Write(b[:len(b)/2])
					must(t, errors.Join(err, f.Close()))
				}
				return errBroken
			}
			err := l.Prune(t.Context(), p, export)
			if done = err == nil; !done && !errors.Is(err, errBroken) {
				t.Fatal(err)
			}
			pruned(t, fmt.Sprintf("%s at %d", mode, fail), dir)
		}
	}
}

// pruned wants a log to be sound, and removes what is left to be removed.
func pruned(t *testing.T, name, dir string) {
	t.Helper()
	r := verify(t, dir)
	got := names(list(t, dir, Filter{}))
	if len(r.Problems) > 0 || r.Segments != 4 && r.Segments != 1 || got != "day-0 day-1 day-2 day-10" &&
		got != "day-10" || (len(r.Pruned) > 0) != (got == "day-10") {
		t.Fatalf("%s: %+v, %v, %s", name, r, r.Problems, got)
	}
	p, _ := old(t, dir, 5)
	l := newLog(t, dir, at(21))
	must(t, l.Prune(t.Context(), p, export))
	if r := sound(t, dir); r.Segments != 1 || len(r.Pruned) != 1 {
		t.Fatalf("%s: %+v", name, r)
	}
	if left := segmentsOf(t, dir); len(left) != 1 {
		t.Fatalf("%s: %v", name, left)
	}
}

// pruneAndDie is another process: it kills itself before its n-th change.
func pruneAndDie(dir, at string) {
	die, _ := strconv.Atoi(at)
	l, err := Open(Options{Dir: dir, Key: machineKey, Voucher: testVoucher(), Program: "rye child", Now: still})
	if err != nil {
		os.Exit(1)
	}
	n := 0
	l.head.Hook = func(op, path string, b []byte) error {
		if n++; n == die {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				self.Kill()
			}
			select {}
		}
		return nil
	}
	p, err := Old(context.Background(), dir, noon.AddDate(0, 0, 5), func([]byte) error { return nil })
	if err == nil {
		err = l.Prune(context.Background(), p, export)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	os.Exit(0)
}

// TestPruneKilled: a process is killed before each of its changes.
func TestPruneKilled(t *testing.T) {
	program, err := os.Executable()
	must(t, err)
	killed := 0
	for at := 1; ; at++ {
		dir := filepath.Join(t.TempDir(), "audit")
		grown(t, dir)
		c := exec.Command(program)
		c.Env = []string{"RYE_TEST_AUDIT=" + dir, "RYE_TEST_PRUNE=" + strconv.Itoa(at)}
		out, err := c.CombinedOutput()
		if code := c.ProcessState.ExitCode(); code == 1 || code == 2 {
			t.Fatalf("%d: %s", at, out)
		}
		pruned(t, fmt.Sprint("killed at ", at), dir)
		if err == nil {
			break
		}
		killed++
	}
	if killed < 5 {
		t.Errorf("killed %d times", killed)
	}
}

// TestPruneSteps: what was asked of people is in an export too, and goes with its segment.
func TestPruneSteps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	l := newLog(t, dir, nil)
	run(t, l, "a")
	must(t, l.Ask(t.Context(), &record.Approval{Ref: "tool:acme/x", Request: "r-1", State: "asked", Principal: "ann",
		Params: digest("p")}))
	must(t, l.Close(t.Context()))
	x, err := readHead(dir, noVisitor{}, func(*record.Line) error { return nil })
	must(t, err)
	p, ids := old(t, dir, 5)
	if len(p.Segments) != 1 || ids != "a r-1" || p.Segments[0].Calls != 1 {
		t.Errorf("%+v, %s", p, ids)
	}
	if _, err := Old(t.Context(), dir, noon.AddDate(1, 0, 0), func(line []byte) error {
		if bytes.Contains(line, []byte("r-1")) {
			return errBroken
		}
		return nil
	}); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	must(t, newLog(t, dir, at(20)).Prune(t.Context(), p, export))
	must(t, steps(t.Context(), dir, x.segments[0], func(*Step) bool { t.Error("still there"); return true }))
	for s, err := range Steps(t.Context(), dir, func(*Step) bool { return true }) {
		t.Errorf("%+v, %v", s, err)
	}
}
