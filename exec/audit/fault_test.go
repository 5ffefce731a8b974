package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rye-build/rye/exec/audit/record"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("RYE_TEST_AUDIT"); dir != "" && os.Getenv("RYE_TEST_PRUNE") != "" {
		pruneAndDie(dir, os.Getenv("RYE_TEST_PRUNE"))
	} else if dir != "" {
		child(dir, os.Getenv("RYE_TEST_NAME"))
	}
	os.Exit(m.Run())
}

// child is another process: it says of each call that it has begun, and that it has ended. It is killed, or it stops
// after 20 calls.
func child(dir, name string) {
	o := Options{Dir: dir, Key: machineKey, Voucher: testVoucher(), Program: "rye child", Now: ticking(),
		Required: strings.HasPrefix(name, "required")}
	l, err := Open(o)
	for i := 0; err == nil && (i < 20 || strings.HasSuffix(name, "forever")); i++ {
		id := fmt.Sprintf("%s-%d", name, i)
		var e *Entry
		if e, err = l.Begin(context.Background(), call(id)); err == nil {
			fmt.Println("begin", id)
			if err = e.End(context.Background(), done()); err == nil {
				fmt.Println("end", id)
			}
		}
	}
	if err == nil {
		err = l.Close(context.Background())
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Twenty processes run at once, and half of them are killed.
func TestProcesses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	program, err := os.Executable()
	must(t, err)
	var mu sync.Mutex
	said := map[string]string{}
	var group sync.WaitGroup
	for i := range 20 {
		name := fmt.Sprintf("%s-%d-%s", []string{"required", "on"}[i%2], i, []string{"end", "forever"}[i/2%2])
		c := exec.Command(program)
		c.Env = []string{"RYE_TEST_AUDIT=" + dir, "RYE_TEST_NAME=" + name}
		out, err := c.StdoutPipe()
		must(t, err)
		must(t, c.Start())
		group.Go(func() {
			lines := bufio.NewScanner(out)
			for n := 0; lines.Scan(); n++ {
				word, id, _ := strings.Cut(lines.Text(), " ")
				if word == "error" {
					t.Errorf("%s: %s", name, id)
				}
				mu.Lock()
				said[id] = word
				mu.Unlock()
				if n == 10+i && strings.HasSuffix(name, "forever") {
					c.Process.Kill()
				}
			}
			c.Wait()
		})
	}
	group.Wait()
	r := sound(t, dir)
	if r.Segments != 20 || len(said) < 300 {
		t.Errorf("%d calls, %+v", len(said), r)
	}
	found := map[string]*Record{}
	for _, r := range list(t, dir, Filter{}) {
		found[r.Call.ID] = r
	}
	for id, word := range said {
		if r := found[id]; r == nil || word == "end" && r.Outcome == nil {
			t.Errorf("%s %s is lost", word, id)
		}
	}
	// The next goes on.
	l := newLog(t, dir, nil)
	run(t, l, "after")
	must(t, l.Close(t.Context()))
	sound(t, dir)
}

var errBroken = errors.New("broken")

// Each change fails in turn, once with nothing and once with half of a write done, and once so that nothing is taken
// back: whatever was acknowledged is there, and the next log goes on.
func TestFaults(t *testing.T) {
	for _, o := range []func(*Options){nil, required} {
		for _, mode := range []string{"fails", "torn", "dies"} {
			for fail := 0; ; fail += sampled(1) {
				dir := filepath.Join(t.TempDir(), "audit")
				l := newLog(t, dir, o)
				at, failed := 0, ""
				l.head.Hook = func(op, path string, b []byte) error {
					if at++; at-1 < fail || failed != "" && (mode != "dies" || op != "truncate") {
						return nil
					}
					if failed != "" {
						return errBroken // the process is as good as dead
					}
					failed = op
					if mode != "fails" && op == "write" && !bytes.HasPrefix(b, []byte("journal\n")) {
						f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
						must(t, err)
						_, err = f.Write(b[:len(b)/2])
						must(t, errors.Join(err, f.Close()))
					}
					return errBroken
				}
				said := someCalls(t, l)
				l.head.Hook = nil
				name := fmt.Sprintf("required %v, %s at %d, %s", o != nil, mode, fail, failed)
				check(t, name, dir, said)
				if failed == "" {
					if fail < 15 {
						t.Errorf("only %d changes", fail)
					}
					break
				}
			}
		}
	}
}

// someCalls makes calls as long as that is possible, and returns what was acknowledged.
func someCalls(t *testing.T, l *Log) map[string]string {
	said := map[string]string{}
	for i := range 2 {
		id := fmt.Sprintf("c%d", i)
		e, err := l.Begin(t.Context(), call(id))
		if err == nil {
			said[id] = "begin"
			if err = e.End(t.Context(), done()); err == nil {
				said[id] = "end"
			}
		}
		checkBroken(t, err)
		checkBroken(t, l.Checkpoint(t.Context()))
	}
	checkBroken(t, l.Close(t.Context()))
	return said
}

func checkBroken(t *testing.T, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
}

// check wants a log to be sound, to hold what was acknowledged, and to go on.
func check(t *testing.T, name, dir string, said map[string]string) {
	t.Helper()
	r := verify(t, dir)
	for _, p := range r.Problems {
		t.Errorf("%s: %v", name, p)
	}
	found := map[string]*Record{}
	for _, r := range list(t, dir, Filter{}) {
		found[r.Call.ID] = r
	}
	for id, word := range said {
		if r := found[id]; r == nil || word == "end" && (r.Outcome == nil || r.Outcome.Status != record.OK) {
			t.Errorf("%s: %s %s is lost", name, word, id)
		}
	}
	for id, r := range found {
		if said != nil && said[id] == "" && r.Outcome != nil && r.Outcome.Status != record.Refused {
			t.Errorf("%s: %s ended, and never began", name, id)
		}
	}
	l := newLog(t, dir, nil)
	run(t, l, "after")
	must(t, l.Close(t.Context()))
	r = verify(t, dir)
	for _, p := range r.Problems {
		t.Errorf("%s, after: %v", name, p)
	}
}

// When the disk is full, required calls are refused before anything, and when it isn't any more they go on.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, dir, required)
	run(t, l, "a")
	before, head := read(t, segmentsOf(t, dir)[0]), read(t, headPath(dir))
	l.head.Hook = func(op, path string, b []byte) error {
		if op == "write" {
			return syscall.ENOSPC
		}
		return nil
	}
	if _, err := l.Begin(t.Context(), call("b")); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	if !bytes.Equal(read(t, segmentsOf(t, dir)[0]), before) || !bytes.Equal(read(t, headPath(dir)), head) {
		t.Error("a refused call left something")
	}
	// The head alone is full: the line stays, and says that nothing came of it.
	l.head.Hook = func(op, path string, b []byte) error {
		if op == "write" && path == headPath(dir) {
			return syscall.ENOSPC
		}
		return nil
	}
	if _, err := l.Begin(t.Context(), call("c")); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	// Nothing more can be written once the call's line is: its id isn't taken again.
	writes := 0
	l.head.Hook = func(op, path string, b []byte) error {
		if op == "write" {
			if writes++; writes > 1 {
				return syscall.ENOSPC
			}
		}
		return nil
	}
	if _, err := l.Begin(t.Context(), call("e")); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	l.head.Hook = nil
	if _, err := l.Begin(t.Context(), call("e")); err == nil {
		t.Error("a call begins twice")
	}
	run(t, l, "c", "d")
	must(t, l.Close(t.Context()))
	var got []string
	for _, r := range list(t, dir, Filter{}) {
		if r.Outcome == nil {
			r.Outcome = &record.End{Status: "unknown"}
		}
		got = append(got, r.Call.ID+" "+r.Outcome.Status)
	}
	if want := "[a ok c refused c ok d ok e unknown]"; fmt.Sprint(got) != want {
		t.Error(got)
	}
	sound(t, dir)
}

// A log that doesn't know what the system kept refuses everything.
func TestBroken(t *testing.T) {
	for _, op := range []string{"sync", "truncate"} {
		dir := t.TempDir()
		l := newLog(t, dir, required)
		run(t, l, "a")
		segment := segmentsOf(t, dir)[0]
		l.head.Hook = func(o, path string, b []byte) error {
			if path == segment && (o == op || o == "write" && op == "truncate") {
				return errBroken
			}
			return nil
		}
		if _, err := l.Begin(t.Context(), call("b")); !errors.Is(err, errBroken) {
			t.Error(op, err)
		}
		l.head.Hook = nil
		_, err := l.Begin(t.Context(), call("c"))
		if err == nil || !strings.HasPrefix(err.Error(), "the audit log can't continue: broken") ||
			!errors.Is(err, errBroken) {
			t.Error(op, err)
		}
		if err := l.Close(t.Context()); !errors.Is(err, errBroken) {
			t.Error(op, err)
		}
		sound(t, dir)
	}
}

// The power fails before each change. What wasn't synced is gone, or is NUL, or is there. Verify never reports
// tampering in a log that was written honestly, and what was required to stay is there.
func TestPowerCut(t *testing.T) {
	for _, o := range []func(*Options){nil, required} {
		for _, lost := range []string{"gone", "nul", "kept", "half"} {
			for cut := 0; ; cut += sampled(1) {
				dir := filepath.Join(t.TempDir(), "audit")
				l := newLog(t, dir, o)
				d := &machineState{t: t, files: map[string][]byte{}, names: map[string]bool{}}
				after := filepath.Join(t.TempDir(), "audit")
				at := 0
				var said map[string]string
				acknowledged := map[string]string{}
				l.head.Hook = func(op, path string, b []byte) error {
					d.see(op, path)
					if at++; at-1 == cut {
						d.crash(dir, after, lost)
						for id, word := range said {
							acknowledged[id] = word
						}
					}
					return nil
				}
				said = map[string]string{}
				for _, id := range ids(2) {
					e, err := l.Begin(t.Context(), call(id))
					must(t, err)
					said[id] = "begin"
					must(t, e.End(t.Context(), done()))
					said[id] = "end"
				}
				must(t, l.Close(t.Context()))
				if at <= cut {
					break
				}
				if o == nil {
					acknowledged = nil // nothing is promised behind the last checkpoint
				}
				check(t, fmt.Sprintf("required %v, cut at %d, %s", o != nil, cut, lost), after, acknowledged)
			}
		}
	}
}

// A machineState knows what of a directory is durable.
type machineState struct {
	t      *testing.T
	files  map[string][]byte // by path: what was synced
	names  map[string]bool   // files whose names are durable
	synced string            // is being synced
	last   string            // was synced last
	named  string            // a directory that is
}

func (m *machineState) see(op, path string) {
	// What was about to be done at the change before has been done.
	if m.synced != "" {
		m.files[m.synced], _ = os.ReadFile(m.synced)
	}
	if m.named != "" {
		entries, err := os.ReadDir(m.named)
		must(m.t, err)
		for _, e := range entries {
			m.names[filepath.Join(m.named, e.Name())] = true
		}
	}
	m.synced, m.named = "", ""
	switch op {
	case "sync":
		m.synced, m.last = path, path
	case "syncdir":
		m.named = path
	case "name":
		m.files[path] = m.files[m.last]
	}
}

// crash writes what a machine finds when it is on again.
func (m *machineState) crash(from, to, lost string) {
	must(m.t, filepath.WalkDir(from, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			return err
		}
		rel, _ := filepath.Rel(from, path)
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !m.names[path] && lost == "gone" {
			return nil
		}
		kept := m.files[path]
		switch lost {
		case "gone":
			b = kept
		case "nul":
			b = append(bytes.Clone(kept), make([]byte, max(0, len(b)-len(kept)))...)
		case "half":
			b = b[:len(kept)+max(0, len(b)-len(kept))/2]
		}
		return os.WriteFile(filepath.Join(to, rel), b, 0o600)
	}))
}
