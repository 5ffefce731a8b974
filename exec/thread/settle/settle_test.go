package settle_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/registry"
	"github.com/rye-build/rye/exec/thread/settle"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key/keytest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A world has threads in a project, and says which processes run and what time it is.
type world struct {
	t       *testing.T
	root    string
	rows    *registry.Local
	money   *ledger.Local
	now     time.Time
	running map[int]bool
	host    string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, root: t.TempDir(), now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), running: map[int]bool{}}
	state := t.TempDir()
	w.host, _ = os.Hostname()
	w.rows = registry.Open(filepath.Join(state, "registry"), func() time.Time { return w.now }, nil)
	w.rows.Runs = func(n int) string {
		if w.running[n] {
			return "start"
		}
		return ""
	}
	w.money = ledger.In(filepath.Join(state, "ledger"), nil)
	t.Cleanup(func() { w.rows.Close(); w.money.Shut() })
	return w
}

// begin has a process begin a thread with a dollar, and reserves a part of that.
func (w *world) begin(id, host string, process int) {
	w.t.Helper()
	p, err := registry.ProjectAt(w.root)
	must(w.t, err)
	row := &registry.Thread{ID: id, Kind: "directive", Directive: "directive:acme/a", Project: p, Created: w.now}
	must(w.t, os.MkdirAll(row.Dir(), 0o700))
	must(w.t, w.rows.Create(w.t.Context(), row, 0))
	w.running[process] = true
	_, err = w.rows.Claim(w.t.Context(), id, 0, registry.Driver{Process: process, Start: "start", Host: host})
	must(w.t, err)
	budget := int64(1e9)
	must(w.t, w.money.Do(w.t.Context(), ledger.Open(id, "", 1, &budget, w.now), ledger.Reserve(id, 1, "1", 3e8)))
}

func (w *world) settle(after time.Duration, want ...string) {
	w.t.Helper()
	w.now = w.now.Add(after)
	changed, err := settle.All(w.t.Context(), w.rows, w.money, w.now)
	must(w.t, err)
	var got []string
	for _, t := range changed {
		got = append(got, t.ID)
	}
	if len(got) != len(want) || len(got) == 1 && got[0] != want[0] {
		w.t.Errorf("changed %q, want %q", got, want)
	}
}

// is checks the state of a thread, and whether its account is closed.
func (w *world) is(id string, state registry.State, closed bool) {
	w.t.Helper()
	row, err := registry.Get(w.t.Context(), w.rows, id)
	must(w.t, err)
	a, err := ledger.Get(w.t.Context(), w.money, id)
	must(w.t, err)
	if row.State != state || a.Closed != closed || closed && (a.Held != 0 || a.Own != 3e8) {
		w.t.Errorf("%s: %s, %+v", id, row.State, a)
	}
}

// TestDied: a thread whose process died is interrupted. Its money stays reserved for an hour of any clock, and what a call may
// have cost counts then.
func TestDied(t *testing.T) {
	w := newWorld(t)
	w.begin("x", w.host, 1)
	w.settle(0)
	w.is("x", registry.Running, false)
	w.running[1] = false
	w.settle(time.Minute, "x")
	w.is("x", registry.Interrupted, false)
	w.settle(59 * time.Minute)
	w.is("x", registry.Interrupted, false)
	w.settle(-48 * time.Hour) // the clock is set back: it waits
	w.is("x", registry.Interrupted, false)
	w.settle(48*time.Hour + time.Minute)
	w.is("x", registry.Interrupted, true)
	w.settle(time.Hour)

	// Resumed it has its money again.
	_, err := w.rows.Claim(t.Context(), "x", 1, registry.Driver{Process: 2, Start: "start", Host: w.host})
	must(t, err)
	w.running[2] = true
	budget := int64(1e9)
	must(t, w.money.Do(t.Context(), ledger.Open("x", "", 2, &budget, w.now)))
	w.settle(100 * time.Hour) // it runs, however late it seems to be
	w.is("x", registry.Running, false)
}

// TestElsewhere: of what another machine drives nothing is known, and what waits or ended is left as it is.
func TestElsewhere(t *testing.T) {
	w := newWorld(t)
	w.begin("x", "another-host", 1)
	w.begin("y", w.host, 2)
	must(t, w.rows.Set(t.Context(), "y", 1, registry.Waiting, ""))
	clear(w.running)
	w.settle(100 * time.Hour)
	w.is("x", registry.Running, false)
	w.is("y", registry.Waiting, false)
	must(t, w.rows.Set(t.Context(), "y", 1, registry.Completed, "")) // it died before it closed its account
	w.settle(0)
	w.is("y", registry.Completed, true)
}

// TestLost: the money of a thread whose directory is gone is settled at once, unless its driver still runs.
func TestLost(t *testing.T) {
	w := newWorld(t)
	w.begin("x", w.host, 1)
	row, err := registry.Get(t.Context(), w.rows, "x")
	must(t, err)
	must(t, os.RemoveAll(row.Dir()))
	w.settle(0)
	w.is("x", registry.Running, false)
	w.running[1] = false
	w.settle(0, "x")
	w.is("x", registry.Interrupted, true)
}

// TestUnborn: a thread that no process came to drive is an error, and money of no thread is released.
func TestUnborn(t *testing.T) {
	w := newWorld(t)
	p, err := registry.ProjectAt(w.root)
	must(t, err)
	must(t, w.rows.Create(t.Context(), &registry.Thread{ID: "x", Project: p, Created: w.now}, 0))
	w.settle(time.Minute)
	w.settle(2*time.Hour, "x")
	budget := int64(1e9)
	must(t, w.money.Do(t.Context(), ledger.Open("none", "", 1, &budget, w.now), ledger.Reserve("none", 1, "1", 3e8)))
	w.settle(0)
	if a, err := ledger.Get(t.Context(), w.money, "none"); err != nil || !a.Closed {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestRecorded: a driver that died when its thread had ended leaves the state that its record has.
func TestRecorded(t *testing.T) {
	w := newWorld(t)
	const id = "acme/plan-1795000000-a2b3c"
	w.begin(id, w.host, 1)
	row, err := registry.Get(t.Context(), w.rows, id)
	must(t, err)
	tr, err := transcript.Create(row.Dir(), id, transcript.Started{Kind: "directive", Directive: transcript.Item{Ref: "directive:acme/plan"}, Policy: []cas.Digest{},
		Grants: []string{}}, transcript.Driver{Epoch: 1, Process: 1, Start: "start", Program: "rye test", Voucher: []byte(`{"a":1}`)},
		transcript.Options{Key: keytest.Seeded(1), Now: time.Now})
	must(t, err)
	_, err = tr.Append(transcript.Cancelled{Reason: "asked", Killed: true})
	must(t, err)
	must(t, tr.Close())
	w.running[1] = false
	w.settle(0, id)
	w.is(id, registry.Killed, true)
}

// TestDamaged: what can't be read is said.
func TestDamaged(t *testing.T) {
	w := newWorld(t)
	w.begin("x", w.host, 1)
	broken := ledger.In(filepath.Join(t.TempDir(), "ledger"), nil)
	must(t, broken.Do(t.Context(), ledger.Open("x", "", 1, nil, w.now)))
	must(t, broken.Shut())
	file := filepath.Join(t.TempDir(), "l")
	must(t, os.WriteFile(file, []byte("rye ledger/1\nbroken\n"), 0o600))
	if _, err := settle.All(t.Context(), w.rows, ledger.In(file, nil), w.now); err == nil {
		t.Error("a ledger that is damaged was read")
	}
	must(t, os.WriteFile(file, []byte("rye registry/1\nbroken\n"), 0o600))
	if _, err := settle.All(t.Context(), registry.Open(file, time.Now, nil), w.money, w.now); err == nil {
		t.Error("a registry that is damaged was read")
	}
}
