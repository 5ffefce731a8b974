package control_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// A house has the books of a user and one thread.
type house struct {
	t        *testing.T
	dir      string
	rows     *roster.Local
	money    *ledger.Local
	row      *roster.Thread
	rowsFail error // of the next change of the registry
	fail     error // of the next change of the ledger
}

// furnish registers a thread with an account, which a process drives that has died.
func furnish(t *testing.T) *house {
	h := &house{t: t, dir: t.TempDir()}
	h.rows = roster.Open(filepath.Join(h.dir, "registry"), func() time.Time { return noon },
		func(string, string, []byte) error { return h.rowsFail })
	h.money = ledger.In(filepath.Join(h.dir, "ledger"), func(string, string, []byte) error { return h.fail })
	t.Cleanup(func() { h.rows.Close(); h.money.Shut() })
	h.row = &roster.Thread{ID: id, Kind: "directive", Directive: "directive:acme/plan",
		Project: roster.Project{Root: h.dir}, Created: noon}
	must(t, h.rows.Create(t.Context(), h.row, 0))
	write(t, h.row.Dir(), transcript.Hook{ID: "h", Event: "error"})
	_, err := h.rows.Claim(t.Context(), id, 0, roster.Driver{Process: 1 << 30, Start: "long ago"})
	must(t, err, h.money.Do(t.Context(), ledger.Open(id, "", 1, nil, noon), ledger.Reserve(id, 1, "1.1", 7)))
	return h
}

// tidy tidies some time after noon, and returns the row and the account.
func (h *house) tidy(after time.Duration) (*roster.Thread, *ledger.Balance) {
	h.t.Helper()
	rows, err := control.Tidy(h.t.Context(), h.rows, h.money, roster.Filter{}, noon.Add(after))
	must(h.t, err)
	if len(rows) != 1 {
		h.t.Fatalf("%d rows", len(rows))
	}
	now, err := roster.Get(h.t.Context(), h.rows, id)
	must(h.t, err)
	if now.State != rows[0].State || now.Epoch != rows[0].Epoch {
		h.t.Errorf("%+v is shown as %+v", now, rows[0])
	}
	a, err := ledger.Get(h.t.Context(), h.money, id)
	must(h.t, err)
	return rows[0], a
}

// end ends the transcript without a word to the books, as a process that dies then.
func (h *house) end(events ...transcript.Payload) {
	h.t.Helper()
	w, err := transcript.Open(h.row.Dir(), transcript.Driver{Epoch: 2},
		transcript.Options{Key: own, Now: func() time.Time { return noon }})
	must(h.t, err)
	_, err = w.Append(events...)
	must(h.t, err, w.Close())
}

// TestDied: a thread whose process has died is interrupted, its money stays reserved for an hour.
func TestDied(t *testing.T) {
	h := furnish(t)
	for _, after := range []time.Duration{0, time.Minute, time.Hour} {
		if row, a := h.tidy(after); row.State != roster.Interrupted || row.Epoch != 2 || row.Dead || a.Closed ||
			a.Held != 7 {
			t.Errorf("%+v, %+v", row, a)
		}
	}
	for range 2 {
		if row, a := h.tidy(time.Hour + 1); row.State != roster.Interrupted || !a.Closed || a.Own != 7 {
			t.Errorf("%+v, %+v", row, a)
		}
	}
}

// TestEnded: what the transcript says in the end counts.
func TestEnded(t *testing.T) {
	for end, want := range map[transcript.Payload]roster.State{
		transcript.Failed{Error: transcript.Fault{Code: "X"}}: roster.Failed, transcript.Cancelled{}: roster.Cancelled,
		transcript.Cancelled{Killed: true}: roster.Killed, transcript.HandedOff{Next: "acme/b"}: roster.Continued,
	} {
		h := furnish(t)
		h.end(end)
		if row, a := h.tidy(0); row.State != want || !a.Closed || a.Own != 7 ||
			(row.Next == "acme/b") != (want == roster.Continued) {
			t.Errorf("%s: %+v, %+v", want, row, a)
		}
		if row, _ := h.tidy(0); row.Epoch != 2 {
			t.Errorf("%+v", row)
		}
	}
}

// TestBelow: the account of a thread that has ended is closed, but not as long as that of a child is open.
func TestBelow(t *testing.T) {
	h := furnish(t)
	child := *h.row
	child.ID, child.Parent, child.Created = "acme/step-1795000001-k3v9q", id, noon.Add(time.Second)
	must(t, h.rows.Create(t.Context(), &child, 1), os.MkdirAll(child.Dir(), 0o700),
		h.rows.Set(t.Context(), id, 1, roster.Completed, ""))
	must(t, h.rows.Set(t.Context(), child.ID, 0, roster.Interrupted, ""),
		h.money.Do(t.Context(), ledger.Open(child.ID, id, 1, nil, noon)))
	for _, after := range []time.Duration{time.Minute, time.Hour + 1} {
		_, err := control.Tidy(t.Context(), h.rows, h.money, roster.Filter{}, noon.Add(after))
		must(t, err)
		closed := after > time.Hour
		if a, err := h.money.Accounts(t.Context()); err != nil || a[id].Closed != closed ||
			a[child.ID].Closed != closed {
			t.Errorf("after %s: %+v, %+v, %v", after, a[id], a[child.ID], err)
		}
	}
}

// TestLost: the money of a thread whose directory is gone is settled at once.
func TestLost(t *testing.T) {
	h := furnish(t)
	must(t, os.RemoveAll(h.row.Dir()))
	if row, a := h.tidy(0); !row.Lost || !a.Closed || a.Own != 7 {
		t.Errorf("%+v, %+v", row, a)
	}
}

// TestRuns: a thread whose process runs is left alone.
func TestRuns(t *testing.T) {
	h := furnish(t)
	_, err := h.rows.Claim(t.Context(), id, 1, roster.Driver{Process: os.Getpid(), Start: proc.Start(os.Getpid())})
	must(t, err)
	if row, a := h.tidy(24 * time.Hour); row.State != roster.Running || row.Epoch != 2 || a.Closed {
		t.Errorf("%+v, %+v", row, a)
	}
}

// A late ledger is asked when the rows were read, and lets another process come in between.
type late struct {
	ledger.Ledger
	between func()
}

func (l late) Accounts(ctx context.Context, threads ...string) (map[string]*ledger.Balance, error) {
	all, err := l.Ledger.Accounts(ctx, threads...)
	l.between()
	return all, err
}

// TestFaster: it is no error if another process did the same, or resumed the thread, in the meantime.
func TestFaster(t *testing.T) {
	for name, between := range map[string]func(h *house){
		"claims": func(h *house) {
			other := roster.Open(filepath.Join(h.dir, "registry"), func() time.Time { return noon }, nil)
			_, err := other.Claim(t.Context(), id, 1,
				roster.Driver{Process: os.Getpid(), Start: proc.Start(os.Getpid())})
			must(t, err, other.Close())
		},
		"opens": func(h *house) {
			h.end(transcript.Cancelled{})
			must(t, h.money.Do(t.Context(), ledger.Open(id, "", 3, nil, noon)))
		},
	} {
		h := furnish(t)
		_, err := control.Tidy(t.Context(), h.rows, late{h.money, func() { between(h) }}, roster.Filter{}, noon)
		must(t, err)
		a, err := ledger.Get(t.Context(), h.money, id)
		if must(t, err); a.Closed {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// TestTidyFails: an error of a book is passed on, and the next time everything is tidied.
func TestTidyFails(t *testing.T) {
	h := furnish(t)
	full := fault.New(fault.Files, "no space left on device")
	fails := func(f roster.Filter) {
		t.Helper()
		if rows, err := control.Tidy(t.Context(), h.rows, h.money, f, noon.Add(2*time.Hour)); err == nil ||
			rows != nil {
			t.Errorf("%v, %v", rows, err)
		}
	}
	fails(roster.Filter{Root: filepath.Join(h.dir, "missing")})
	h.rowsFail = full
	fails(roster.Filter{})
	h.rowsFail = nil
	h.tidy(0)
	h.fail = full
	fails(roster.Filter{})
	h.fail = nil
	if row, a := h.tidy(2 * time.Hour); row.State != roster.Interrupted || !a.Closed {
		t.Errorf("%+v, %+v", row, a)
	}
	must(t, h.money.Shut(), os.WriteFile(filepath.Join(h.dir, "ledger"), []byte("hello\n"), 0o600))
	h.money = ledger.In(filepath.Join(h.dir, "ledger"), nil)
	fails(roster.Filter{})
}

// TestFollower: the first thread that goes on with another one's work is found, begun or ended, but not one that
// failed to begin.
func TestFollower(t *testing.T) {
	h := furnish(t)
	follower := func(want string) {
		t.Helper()
		row, err := control.Follower(t.Context(), h.rows, id)
		if must(t, err); want == "" && row != nil || want != "" && (row == nil || row.ID != want) {
			t.Errorf("%+v, want %s", row, want)
		}
	}
	follower("")
	for i, next := range []string{"acme/b-1", "acme/b-2", "acme/b-3"} {
		row := *h.row
		row.ID, row.Continues, row.Created = next, id, noon.Add(time.Duration(i)*time.Second)
		must(t, h.rows.Create(t.Context(), &row, 0), os.MkdirAll(row.Dir(), 0o700))
		if next == "acme/b-1" {
			must(t, h.rows.Set(t.Context(), next, 0, roster.Failed, ""))
			follower("")
		}
	}
	follower("acme/b-2")
	row, err := roster.Get(t.Context(), h.rows, "acme/b-1")
	must(t, err)
	write(t, row.Dir(), transcript.Completed{})
	follower("acme/b-1")
}

// TestElsewhere: what another host drives is left alone, and so is what a process here drives whose directory is gone.
func TestElsewhere(t *testing.T) {
	h := furnish(t)
	_, err := h.rows.Claim(t.Context(), id, 1, roster.Driver{Process: 1, Start: "x", Host: "another-host"})
	must(t, err)
	if row, a := h.tidy(100 * time.Hour); row.State != roster.Running || row.Epoch != 2 || a.Closed {
		t.Errorf("%+v, %+v", row, a)
	}
	host, _ := os.Hostname()
	_, err = h.rows.Claim(t.Context(), id, 2,
		roster.Driver{Process: os.Getpid(), Start: proc.Start(os.Getpid()), Host: host})
	must(t, err, os.RemoveAll(h.row.Dir()))
	if row, a := h.tidy(100 * time.Hour); row.State != roster.Running || !row.Lost || a.Closed {
		t.Errorf("%+v, %+v", row, a)
	}
}

// TestClock: setting the clock back keeps the money of an interrupted thread, setting it forward releases it, and a
// thread that goes on has it again.
func TestClock(t *testing.T) {
	h := furnish(t)
	h.tidy(0)
	if _, a := h.tidy(-48 * time.Hour); a.Closed {
		t.Errorf("%+v", a)
	}
	if _, a := h.tidy(48 * time.Hour); !a.Closed {
		t.Errorf("%+v", a)
	}
	must(t, h.money.Do(t.Context(), ledger.Open(id, "", 3, nil, noon)))
	if _, a := h.tidy(0); a.Closed || a.Own != 7 {
		t.Errorf("%+v", a)
	}
}

// TestUnborn: a thread that no process came to drive is an error after an hour.
func TestUnborn(t *testing.T) {
	rows := roster.Open(filepath.Join(t.TempDir(), "registry"), func() time.Time { return noon }, nil)
	money := ledger.In(filepath.Join(t.TempDir(), "ledger"), nil)
	t.Cleanup(func() { rows.Close(); money.Shut() })
	must(t, rows.Create(t.Context(), &roster.Thread{ID: id, Project: roster.Project{Root: t.TempDir()}, Created: noon},
		0))
	for after, want := range map[time.Duration]roster.State{time.Minute: roster.Created,
		2 * time.Hour: roster.Failed} {
		all, err := control.Tidy(t.Context(), rows, money, roster.Filter{}, noon.Add(after))
		must(t, err)
		if after > time.Hour && all[0].State != want {
			t.Errorf("after %s: %+v", after, all[0])
		}
	}
}
