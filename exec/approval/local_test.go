package approval_test

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
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/approval/approvaltest"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/roster"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

var must = journaltest.Must

// A trail is what the audit log has.
type trail struct {
	mu    sync.Mutex
	steps []record.Approval
	err   error
}

func (l *trail) Ask(_ context.Context, a *record.Approval) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.steps = append(l.steps, *a)
	}
	return errors.Join(l.err, a.Check())
}

// A clock is moved by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// open opens the journal of a state directory in which all processes run.
func open(t testing.TB, state string, c *clock, log approval.Log) *approval.Local {
	l := approval.Open(state, c.Now, log, nil)
	l.Runs = func(process int) string {
		if process == os.Getpid() {
			return proc.Start(process)
		}
		return fmt.Sprint("start-", process)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestLocal(t *testing.T) {
	approvaltest.Test(t, func(t testing.TB) approvaltest.World {
		state, c, log := t.TempDir(), &clock{now: noon}, &trail{}
		var mu sync.Mutex
		dead := map[int]bool{}
		return approvaltest.World{
			Open: func(t testing.TB) approval.Approvals {
				l := open(t, state, c, log)
				l.Runs = func(process int) string {
					mu.Lock()
					defer mu.Unlock()
					if dead[process] {
						return ""
					}
					return fmt.Sprint("start-", process)
				}
				return l
			},
			Pass: c.pass,
			Die: func(d roster.Driver) {
				mu.Lock()
				defer mu.Unlock()
				dead[d.Process] = true
			},
		}
	})
}

var (
	approves = approval.Step{To: approval.Approved, By: "bob", Through: "rye approve"}
	driver   = roster.Driver{Process: 7, Start: "start-7", Host: "h"}
	executes = approval.Step{To: approval.Executing, Driver: driver, Execution: "x1"}
	finishes = approval.Step{To: approval.Done, Driver: driver}
)

// TestFormat: the bytes of a journal, forever, and what the audit log has of it.
func TestFormat(t *testing.T) {
	state, c, log := t.TempDir(), &clock{now: noon}, &trail{}
	l := open(t, state, c, log)
	n := 0
	l.ID = func() string { n++; return fmt.Sprintf("3f2a9c1e-5b7d-4e0f-8a61-%012d", n) }
	make := func(edit func(*approval.Request), steps ...approval.Step) {
		r := approvaltest.New()
		edit(r)
		r, err := l.Make(t.Context(), r, []byte("x"), nil)
		must(t, err)
		for _, s := range steps {
			c.pass(time.Second)
			_, err := l.Do(t.Context(), r.ID, s)
			must(t, err)
		}
	}
	make(func(*approval.Request) {}, approves, executes, finishes)
	make(func(r *approval.Request) {
		r.Separate, r.Tenant, r.Thread, r.Call, r.Door = true, "acme", "", "", approval.Server
	},
		approval.Step{To: approval.Denied, By: "bob", Through: "rye deny", Reason: "too much"})
	make(func(r *approval.Request) {
		r.Kind, r.Ref, r.Text, r.Risk, r.Lines, r.Params, r.Shown = approval.Gate, "tool:acme/flow",
			"Deploy to production?", "", nil, r.Set, r.Set
	})
	journaltest.Golden(t, filepath.Join(state, "approvals", "requests"),
		filepath.Join("../../testdata/vectors/exec/approval", "requests"))
	var steps []string
	for _, s := range log.steps {
		steps = append(steps, fmt.Sprintf("%s %s %s %s", s.Request[35:], s.State, s.By, s.Through))
	}
	if want := []string{"1 pending  ", "1 approved bob rye approve", "1 executing bob rye approve",
		"1 done bob rye approve", "2 pending  ", "2 denied bob rye deny", "3 pending  "}; !slices.Equal(steps, want) {
		t.Errorf("the audit log has %q", steps)
	}
}

// TestUnlogged: a step that the audit log can't hold isn't made.
func TestUnlogged(t *testing.T) {
	state, c, log := t.TempDir(), &clock{now: noon}, &trail{}
	l := open(t, state, c, log)
	r, err := l.Make(t.Context(), approvaltest.New(), nil, nil)
	must(t, err)
	broken := errors.New("broken")
	log.err = broken
	if _, err := l.Do(t.Context(), r.ID, approves); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if _, err := l.Make(t.Context(), approvaltest.New(), nil, nil); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if _, err := open(t, state, c, nil).Do(t.Context(), r.ID, approves); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("%v", err)
	}
	all, err := approval.List(t.Context(), l, approval.Filter{})
	must(t, err)
	if len(all) != 1 || all[0].State != approval.Pending {
		t.Errorf("%+v", all)
	}
	log.err = nil
	c.pass(2 * time.Hour)
	log.err = broken
	if _, err := l.Do(t.Context(), r.ID, approves); !errors.Is(err, broken) {
		t.Errorf("an expiry that isn't logged: %v", err)
	}
}

// TestFaults: each change of a file fails in turn: what was acknowledged stands, and nothing else is approved or made.
func TestFaults(t *testing.T) {
	broken := errors.New("broken")
	for fail := 0; ; fail++ {
		state, c := t.TempDir(), &clock{now: noon}
		at, failed := 0, ""
		l := approval.Open(state, c.Now, &trail{}, func(op, _ string, _ []byte) error {
			if at++; at-1 == fail {
				failed = op
				return broken
			}
			return nil
		})
		l.Runs = func(int) string { return driver.Start }
		acknowledged := approval.State("")
		r, err := l.Make(t.Context(), approvaltest.New(), []byte(`{"amount":120}`), nil)
		if err == nil {
			acknowledged = r.State
			for _, s := range []approval.Step{approves, executes,
				{To: approval.Done, Driver: driver, Result: []byte("result")}} {
				if _, err = l.Do(t.Context(), r.ID, s); err != nil {
					break
				}
				acknowledged = s.To
			}
		}
		if err != nil && !errors.Is(err, broken) {
			t.Fatalf("at %d, %s: %v", fail, failed, err)
		}
		l.Close()
		after := open(t, state, c, &trail{})
		all, err := approval.List(t.Context(), after, approval.Filter{})
		must(t, err)
		// One that was refused may be there, and waits for an answer.
		if r != nil && (len(all) != 1 || all[0].State != acknowledged) || r == nil && len(all) > 0 &&
			all[0].State != approval.Pending {
			t.Errorf("at %d, %s: %+v; acknowledged %q", fail, failed, all, acknowledged)
		}
		_, err = after.Make(t.Context(), approvaltest.New(), []byte(`{"amount":120}`), nil)
		must(t, err)
		files, err := os.ReadDir(filepath.Join(state, "approvals", "sealed"))
		must(t, err)
		if len(files) > 2 {
			t.Errorf("at %d, %s: files are left: %v", fail, failed, files)
		}
		if failed == "" {
			if fail < 15 {
				t.Errorf("only %d changes", fail)
			}
			break
		}
	}
}

// TestShort: a journal that is made shorter forgets what ended long ago, and nothing that waits.
func TestShort(t *testing.T) {
	state, c := t.TempDir(), &clock{now: noon}
	l := open(t, state, c, &trail{})
	gate := approvaltest.New()
	gate.Kind = approval.Gate
	gate, err := l.Make(t.Context(), gate, nil, nil)
	must(t, err)
	_, err = l.Do(t.Context(), gate.ID, approves)
	must(t, err)
	old, err := l.Make(t.Context(), approvaltest.New(), nil, nil)
	must(t, err)
	_, err = l.Do(t.Context(), old.ID, approval.Step{To: approval.Denied, By: "bob"})
	must(t, err)
	c.pass(31 * 24 * time.Hour)
	path, size := filepath.Join(state, "approvals", "requests"), int64(0)
	for {
		r := approvaltest.New()
		r.Text = strings.Repeat("x", 4<<10)
		r, err := l.Make(t.Context(), r, nil, nil)
		must(t, err)
		_, err = l.Do(t.Context(), r.ID, approves)
		must(t, err)
		_, err = l.Do(t.Context(), r.ID, executes)
		must(t, err)
		_, err = l.Do(t.Context(), r.ID, finishes)
		must(t, err)
		info, err := os.Stat(path)
		must(t, err)
		if info.Size() < size {
			break
		}
		size = info.Size()
	}
	all, err := approval.List(t.Context(), open(t, state, c, nil), approval.Filter{})
	must(t, err)
	if slices.ContainsFunc(all, func(r *approval.Request) bool {
		return r.ID == old.ID
	}) || !slices.ContainsFunc(all, func(r *approval.Request) bool { return r.ID == gate.ID }) {
		t.Errorf("%d requests are left", len(all))
	}
}

// TestDamage: a journal that was changed is read no more, and says what is lost with it.
func TestDamage(t *testing.T) {
	state, c := t.TempDir(), &clock{now: noon}
	l := open(t, state, c, &trail{})
	r, err := l.Make(t.Context(), approvaltest.New(), []byte(`{"amount":120}`), nil)
	must(t, err)
	_, err = l.Do(t.Context(), r.ID, approves)
	must(t, err)
	path := filepath.Join(state, "approvals", "requests")
	b, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, bytes.Replace(b, []byte("bob"), []byte("eve"), 1), 0o600))
	_, err = approval.List(t.Context(), open(t, state, c, nil), approval.Filter{})
	if fault.CodeOf(err) != fault.Integrity ||
		!strings.Contains(strings.Join(fault.Of(err).Why, " "), "have to ask again") {
		t.Errorf("%v", err)
	}
	must(t, os.WriteFile(path, b, 0o600))
	sealed := filepath.Join(state, "approvals", "sealed", r.ID+".params")
	must(t, os.WriteFile(sealed, []byte("x"), 0o600))
	if _, err := l.Read(t.Context(), r.ID, approval.Params); fault.CodeOf(err) != fault.Integrity {
		t.Errorf("%v", err)
	}
}

// FuzzRecord: no record crashes the journal, and what it takes adds up to the same when it is written again.
func FuzzRecord(f *testing.F) {
	b, err := os.ReadFile("../../testdata/vectors/exec/approval/requests")
	if err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		if i, j := bytes.IndexByte(line, '{'), bytes.LastIndexByte(line, '}'); i > 0 {
			f.Add(line[i : j+1])
		}
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		total := approval.NewTotal()
		if total.Take(record) != nil {
			return
		}
		again := approval.NewTotal()
		for _, r := range total.Records() {
			if !json.Valid(r) {
				t.Fatalf("%q", r)
			}
			if err := again.Take(r); err != nil {
				t.Errorf("%q: %v", r, err)
			}
		}
		if a, b := total.Records(), again.Records(); !slices.EqualFunc(a, b, bytes.Equal) {
			t.Errorf("%q becomes %q", a, b)
		}
	})
}
