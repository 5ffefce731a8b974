package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var machineKey, userKey = keytest.Named("machine"), keytest.Named("user")

func testVoucher() []byte {
	b, err := receipt.Vouch(machineKey.Public(), "build-7", userKey, noon)
	if err != nil {
		panic(err)
	}
	return b
}

func digest(word string) cas.Digest { return cas.Sum([]byte(word)) }

func call(id string) record.Call {
	return record.Call{ID: id, Ref: "tool:demo/hi", Digest: digest("hi"), Params: digest("{}"), Principal: "ann"}
}

func fullCall(id string) record.Call {
	c := call(id)
	c.Approval = "bob"
	c.Chain = []record.Link{{Digest: digest("python"), Ref: "tool:rye/python", Signers: []string{"builtin"},
		Tree: digest("tree")}, {Digest: digest("subprocess"), Ref: "tool:rye/subprocess",
		Signers: []string{"builtin"}}}
	c.Deadline = noon.Add(time.Minute)
	c.Grants, c.Lock, c.Set, c.Tree = digest("grants"), digest("lock"), digest("lock"), digest("tree")
	c.Limits = map[string]int64{"wall_ms": 60000, "memory": 1 << 30}
	c.Parent = "parent-1"
	c.Policy = []cas.Digest{digest("root"), digest("project")}
	c.Risk, c.Sandbox, c.Tenant = "read", "landlock+seccomp", "acmé \"quoted\""
	c.Signers = []string{"6c31041268f471609c79f5f2dbcc38e4a4ab2f4d416109a4e09fcf50fd0f0062"}
	c.Toolchain = []record.Program{{Digest: digest("py"), Name: "python3", Path: "/usr/bin/python3",
		Version: "3.12.3"}, {Name: "bash", Pinned: true}}
	return c
}

func done() record.End {
	return record.End{Status: record.OK, Result: digest("result"), Duration: 1500 * time.Millisecond,
		Sandbox: "landlock+seccomp", Usage: map[string]int64{"cpu_ms": 12}}
}

// ticking is a clock that goes on by a second at each look.
func ticking() func() time.Time {
	var mu sync.Mutex
	t := noon
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		t = t.Add(time.Second)
		return t
	}
}

func still() time.Time { return noon }

func newLog(t testing.TB, dir string, edit func(*Options)) *Log {
	t.Helper()
	o := Options{Dir: dir, Key: machineKey, Voucher: testVoucher(), Program: "rye test", Now: still}
	if edit != nil {
		edit(&o)
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func required(o *Options) { o.Required = true }

// sampled is how far a test that does one thing at every place goes on: with -short further, since no goroutines meet
// in it.
func sampled(step int) int {
	if testing.Short() {
		return 7 * step
	}
	return step
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run makes calls, one after the other.
func run(t testing.TB, l *Log, ids ...string) {
	t.Helper()
	for _, id := range ids {
		e, err := l.Begin(t.Context(), call(id))
		must(t, err)
		must(t, e.End(t.Context(), done()))
	}
}

func ids(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("c%d", i)
	}
	return out
}

func verify(t testing.TB, dir string, seen ...record.Position) *Report {
	t.Helper()
	r, err := Verify(t.Context(), dir, []key.Public{userKey.Public()}, seen...)
	must(t, err)
	return r
}

// sound verifies a log that should have no problems.
func sound(t testing.TB, dir string) *Report {
	t.Helper()
	r := verify(t, dir)
	for _, p := range r.Problems {
		t.Errorf("problem: %v", p)
	}
	return r
}

func list(t testing.TB, dir string, f Filter) []*Record {
	t.Helper()
	var out []*Record
	for r, err := range List(t.Context(), dir, f) {
		must(t, err)
		out = append(out, r)
	}
	return out
}

// segmentsOf returns the paths of a log's segments.
func segmentsOf(t testing.TB, dir string) []string {
	t.Helper()
	names, err := segmentFiles(dir)
	must(t, err)
	for i := range names {
		names[i] = segmentPath(dir, names[i])
	}
	return names
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return b
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	must(t, os.WriteFile(path, b, 0o600))
}

func TestLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "audit")
	l := newLog(t, dir, nil)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error("Open made something:", err)
	}
	if r := sound(t, dir); r.Segments != 0 || r.Head.Line != 0 {
		t.Errorf("nothing is %+v", r)
	}
	e, err := l.Begin(t.Context(), fullCall("a"))
	must(t, err)
	run(t, l, "b")
	if r := sound(t, dir); r.Segments != 1 || r.Calls != 2 || r.Unfinished != 1 || r.Tail != 3 || r.Checkpoints != 0 ||
		len(r.Machines) != 0 {
		t.Errorf("while a call runs: %+v", r)
	}
	must(t, e.End(t.Context(), done()))
	if err := e.End(t.Context(), done()); err == nil || err.Error() != `the call "a" has ended already` {
		t.Error("ended twice:", err)
	}
	must(t, l.Checkpoint(t.Context()))
	if r := sound(t, dir); r.Unfinished != 0 || r.Tail != 0 || r.Checkpoints != 1 || r.Lines != 5 {
		t.Errorf("at a checkpoint: %+v", r)
	}
	before := read(t, headPath(dir))
	must(t, l.Checkpoint(t.Context()))
	if !bytes.Equal(read(t, headPath(dir)), before) {
		t.Error("a checkpoint of nothing new")
	}
	must(t, l.Close(t.Context()))
	must(t, l.Close(t.Context()))
	if _, err := l.Begin(t.Context(), call("c")); err != ErrClosed {
		t.Error("after Close:", err)
	}
	l = newLog(t, dir, nil)
	run(t, l, "d", "e")
	must(t, l.Close(t.Context()))
	r := sound(t, dir)
	if r.Segments != 2 || r.Lines != 10 || r.Calls != 4 || r.Checkpoints != 3 || r.Tail != 0 || r.Torn != 0 ||
		len(r.Machines) != 1 || r.Machines[0].By != userKey.Public() || r.Machines[0].Checkpoints != 3 {
		t.Errorf("%+v", r)
	}
	if n := bytes.Count(read(t, headPath(dir)), []byte(`"kind":"machine"`)); n != 1 {
		t.Errorf("the machine was told %d times", n)
	}
	var got []string
	for _, r := range list(t, dir, Filter{}) {
		got = append(got, r.Call.ID+" "+r.Outcome.Status)
	}
	if want := []string{"b ok", "a ok", "d ok", "e ok"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q", got)
	}
	for _, path := range append(segmentsOf(t, dir), headPath(dir), journal.LockPath(headPath(dir))) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
			t.Error(path, info.Mode(), err)
		}
	}
}

func TestOpen(t *testing.T) {
	good := Options{Dir: t.TempDir(), Key: machineKey, Program: "rye", Now: still}
	for _, c := range []struct {
		name, want string
		edit       func(*Options)
	}{
		{"no program", `audit: program is missing`, func(o *Options) { o.Program = "" }},
		{"two lines", `audit: program "a\nb" must be one line of printable text`, func(o *Options) {
			o.Program = "a\nb"
		}},
		{"no key", "the audit log requires a key and a clock", func(o *Options) { o.Key = key.Private{} }},
		{"no clock", "the audit log requires a key and a clock", func(o *Options) { o.Now = nil }},
		{"voucher", "the voucher must be a JSON object of at most 16384 bytes", func(o *Options) {
			o.Voucher = []byte("x")
		}},
		{"long voucher", "the voucher must be a JSON object of at most 16384 bytes", func(o *Options) {
			o.Voucher = []byte(`{"a":"` + strings.Repeat("x", maxVoucher) + `"}`)
		}},
	} {
		o := good
		c.edit(&o)
		if _, err := Open(o); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	l, err := Open(good)
	must(t, err)
	must(t, l.Checkpoint(t.Context()))
	must(t, l.Close(t.Context()))
	if entries, err := os.ReadDir(good.Dir); err != nil || len(entries) > 0 {
		t.Error("a log without calls made", entries, err)
	}
}

func TestRefusedCalls(t *testing.T) {
	l := newLog(t, t.TempDir(), nil)
	defer l.Close(t.Context())
	for _, c := range []struct {
		want string
		edit func(*record.Call)
	}{
		{`audit: id "a b" must be 1 to 128 letters, digits, '.', '_' or '-'`, func(c *record.Call) { c.ID = "a b" }},
		{`audit: digest is missing`, func(c *record.Call) { c.Digest = cas.Digest{} }},
		{`audit: call has 81710 bytes, more than 65536`, func(c *record.Call) {
			for range 80 {
				c.Signers = append(c.Signers, strings.Repeat("x", 1000))
			}
			c.Approval = strings.Repeat("x", 1000)
		}},
	} {
		k := call("a")
		c.edit(&k)
		if e, err := l.Begin(t.Context(), k); e != nil || err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	e, err := l.Begin(t.Context(), call("a"))
	must(t, err)
	if _, err := l.Begin(t.Context(), call("a")); err == nil ||
		err.Error() != `audit: id "a" is already used by a running call` {
		t.Error(err)
	}
	if err := e.End(t.Context(), record.End{Status: "fine"}); err == nil ||
		err.Error() != `audit: status "fine" is not a valid status` {
		t.Error(err)
	}
	must(t, e.End(t.Context(), done()))
	run(t, l, "a") // an id may come again once its call has ended
}

// A call's line is on disk and its sum in the head before Begin returns.
func TestRequired(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, dir, required)
	e, err := l.Begin(t.Context(), call("a"))
	must(t, err)
	if r := sound(t, dir); r.Tail != 0 || r.Unfinished != 1 {
		t.Errorf("%+v", r)
	}
	must(t, e.End(t.Context(), done()))
	if r := sound(t, dir); r.Tail != 0 || r.Checkpoints != 0 {
		t.Errorf("%+v", r)
	}
	// The tail may not be cut.
	path := segmentsOf(t, dir)[0]
	b := read(t, path)
	write(t, path, b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1])
	if r := verify(t, dir); len(r.Problems) != 1 || r.Problems[0].Line != 3 ||
		!strings.Contains(r.Problems[0].Reason, "of the head records 3") {
		t.Errorf("%v", r.Problems)
	}
}

// Those who wait for a sync share it.
func TestGroupCommit(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, dir, required)
	run(t, l, "first")
	var mu sync.Mutex
	syncs := 0
	entered, release := make(chan bool, 1), make(chan bool)
	l.head.Hook = func(op, path string, _ []byte) error {
		if op == "sync" && path != headPath(dir) {
			mu.Lock()
			syncs++
			first := syncs == 1
			mu.Unlock()
			if first {
				entered <- true
				<-release
			}
		}
		return nil
	}
	var group sync.WaitGroup
	begin := func(id string) {
		group.Go(func() {
			if _, err := l.Begin(t.Context(), call(id)); err != nil {
				t.Error(err)
			}
		})
	}
	begin("a")
	<-entered
	for _, id := range ids(50) {
		begin(id)
	}
	// All of them have written when the segment holds so many lines; none waits for a sync of its own.
	for {
		l.mu.Lock()
		n := l.last.N
		l.mu.Unlock()
		runtime.Gosched()
		if n == 3+51 {
			break
		}
	}
	close(release)
	group.Wait()
	if syncs > 3 {
		t.Errorf("%d syncs for 51 calls", syncs)
	}
	l.head.Hook = nil
	must(t, l.Close(t.Context()))
	if r := sound(t, dir); r.Calls != 52 || r.Unfinished != 51 {
		t.Errorf("%+v", r)
	}
}

func TestCheckpointsByThemselves(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, dir, nil)
	run(t, l, ids(600)...)
	if r := sound(t, dir); r.Checkpoints != 1 {
		t.Errorf("by lines: %+v", r)
	}
	now := noon
	l.o.Now = func() time.Time { return now }
	run(t, l, "x")
	if r := sound(t, dir); r.Checkpoints != 1 {
		t.Errorf("at once: %+v", r)
	}
	now = noon.Add(checkpointTime)
	run(t, l, "y")
	if r := sound(t, dir); r.Checkpoints != 2 || r.Tail != 0 {
		t.Errorf("by time: %+v", r)
	}
}

func TestBusy(t *testing.T) {
	dir := t.TempDir()
	run(t, newLog(t, dir, nil), "a")
	other := newLog(t, dir, nil)
	inside, leave := make(chan bool), make(chan bool)
	go other.tell(context.Background(), func(*record.Tail) error {
		inside <- true
		<-leave
		return nil
	})
	<-inside
	defer close(leave)
	l := newLog(t, dir, func(o *Options) { o.Wait = time.Millisecond })
	if _, err := l.Begin(t.Context(), call("b")); err == nil {
		t.Error("begins while the head is locked")
	} else if fault.CodeOf(err) != fault.Busy {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if _, err := newLog(t, dir, nil).Begin(ctx, call("b")); !errors.Is(err, stop) {
		t.Error(err)
	}
	if r := verify(t, dir); len(r.Problems) != 0 || r.Calls != 1 {
		t.Errorf("%+v", r)
	}
}

// A head that is made while it is read isn't gone.
func TestHeadMade(t *testing.T) {
	made := t.TempDir()
	l := newLog(t, made, nil)
	run(t, l, "a")
	must(t, l.Close(t.Context()))
	rounds := 2000
	if testing.Short() {
		rounds = 400
	}
	for round := range rounds {
		dir := filepath.Join(made, fmt.Sprint(round))
		must(t, os.Mkdir(dir, 0o700))
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				for {
					x, err := readHead(dir, noVisitor{}, func(*record.Line) error { return nil })
					if err != nil {
						t.Errorf("round %d: %v", round, err)
					}
					if err != nil || len(x.segments) > 0 {
						return
					}
				}
			})
		}
		must(t, os.Link(headPath(made), headPath(dir)))
		must(t, os.Link(journal.LockPath(headPath(made)), journal.LockPath(headPath(dir))))
		readers.Wait()
		if t.Failed() {
			return
		}
	}
}

func TestHeadGone(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, dir, nil)
	run(t, l, "a")
	must(t, l.Close(t.Context()))
	must(t, os.Remove(headPath(dir)))
	_, err := newLog(t, dir, nil).Begin(t.Context(), call("b"))
	if err == nil || fault.CodeOf(err) != fault.Integrity || !strings.HasSuffix(err.Error(), ": the file is missing") {
		t.Error(err)
	}
	r := verify(t, dir)
	if len(r.Problems) != 1 || r.Problems[0].Error() != "head, line 1: the head is missing" {
		t.Errorf("%v", r.Problems)
	}
	for _, err := range List(t.Context(), dir, Filter{}) {
		if err == nil || err.Error() != "head, line 1: the head is missing" {
			t.Error(err)
		}
	}
	// Without the lock's file, too, segments without a head are found.
	must(t, os.Remove(journal.LockPath(headPath(dir))))
	if r := verify(t, dir); len(r.Problems) == 0 || r.Problems[0].Reason != "the head has no record of this segment" {
		t.Errorf("%v", r.Problems)
	}
}
