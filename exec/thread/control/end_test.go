package control_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	rye "github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// TestMain is a process that drives a thread and does nothing else, if its argument says so.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "drive" {
		os.Stdout.WriteString("x")
		io.Copy(io.Discard, os.Stdin)
		return
	}
	if base := os.Getenv("RYE_TEST_PRUNE"); base != "" {
		at, _ := strconv.Atoi(os.Getenv("RYE_TEST_AT"))
		os.Exit(doomed(base, at))
	}
	os.Exit(m.Run())
}

// other starts a process that drives threads.
func other(t *testing.T) (d roster.Driver, gone <-chan struct{}) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	c := exec.Command(self, "drive")
	_, err = c.StdinPipe()
	must(t, err)
	out, err := c.StdoutPipe()
	must(t, err, c.Start())
	_, err = out.Read(make([]byte, 1))
	must(t, err)
	ended := make(chan struct{})
	d = roster.Driver{Process: c.Process.Pid, Start: proc.Start(c.Process.Pid)}
	go func() { c.Wait(); close(ended) }()
	t.Cleanup(func() { c.Process.Kill(); <-ended })
	return d, ended
}

// drivenBy begins a thread that a process drives.
func (w *world) drivenBy(d roster.Driver, id, parent string, events ...transcript.Payload) {
	w.Helper()
	w.driver = d
	w.begin(id, parent, "", events...)
	w.driver = roster.Driver{}
}

func (w *world) check(id string, state roster.State, killed bool) {
	w.Helper()
	row, err := roster.Get(w.Context(), w.rows, id)
	must(w, err)
	a, err := ledger.Get(w.Context(), w.money, id)
	must(w, err)
	r, err := control.ResultOf(row.Dir())
	must(w, err)
	report, err := transcript.Verify(w.Context(), row.Dir(),
		transcript.Check{Keys: []key.Public{keytest.Seeded(1).Public()}})
	must(w, err)
	if row.State != state || !a.Closed || r.Status != string(state) || report.Problem != nil {
		w.Errorf("%s: %+v, %+v, %+v, %+v", id, row, a, r, report)
	}
	if _, err := os.Stat(filepath.Join(row.Dir(), transcript.SummaryFile)); err != nil {
		w.Error(err)
	}
}

func (w *world) signs() {
	w.controller.Program = "rye test"
	w.controller.Kernel = func() (*rye.Kernel, error) { return &rye.Kernel{Machine: keytest.Seeded(1)}, nil }
}

func TestKill(t *testing.T) {
	w := newWorld(t)
	w.signs()
	w.controller.Grace = time.Millisecond
	// Neither of these processes ends anything.
	d, gone := other(t)
	d2, gone2 := other(t)
	w.drivenBy(d, "a", "", request("x"))
	w.drivenBy(d, "b", "a")
	w.drivenBy(d2, "c", "b")
	w.begin("i", "a", "")
	w.set("i", roster.Interrupted, "")
	if _, err := w.controller.Kill(t.Context(), "b", ""); fault.CodeOf(err) != fault.Conflict ||
		fault.Of(err).Hint[0] != "rye thread kill a" {
		t.Errorf("its process drives its parent too: %v", err)
	}
	e, err := w.controller.Kill(t.Context(), "a", "enough")
	must(t, err)
	<-gone
	<-gone2
	if e.Status != "killed" || e.Process != d.Process {
		t.Errorf("%+v", e)
	}
	for _, id := range []string{"a", "b", "c", "i"} {
		w.check(id, roster.Killed, true)
	}
	if _, err := w.controller.Kill(t.Context(), "a", ""); fault.CodeOf(err) != fault.Conflict {
		t.Error(err)
	}

	// A process that began at another time is another one.
	d, gone = other(t)
	d.Start += "1"
	w.drivenBy(d, "d", "")
	if _, err := w.controller.Kill(t.Context(), "d", ""); err != nil {
		t.Error(err)
	}
	w.check("d", roster.Killed, true)
	select {
	case <-gone:
		t.Error("the process was killed")
	default:
	}
	if proc.Start(d.Process) == "" {
		t.Error("the process has ended")
	}

	// One of another host can't be killed from here.
	w.drivenBy(roster.Driver{Process: d.Process, Start: "x", Host: "elsewhere.example"}, "e", "")
	if _, err := w.controller.Kill(t.Context(), "e", ""); fault.CodeOf(err) != fault.Conflict {
		t.Error(err)
	}
}

func TestCancel(t *testing.T) {
	w := newWorld(t)
	w.signs()
	w.begin("a", "", "") // by this process
	w.begin("b", "a", "")
	w.begin("c", "a", "", request("x"))
	w.set("c", roster.Interrupted, "")
	e, err := w.controller.Cancel(t.Context(), "a", "why not")
	must(t, err)
	if e.Status != "running" || e.Process != os.Getpid() {
		t.Errorf("%+v", e)
	}
	for id, want := range map[string]string{"a": roster.Cancel, "b": ""} {
		if row, err := roster.Get(t.Context(), w.rows, id); err != nil || row.Asked.For != want {
			t.Errorf("%s: %+v, %v", id, row, err)
		}
	}
	w.check("c", roster.Cancelled, false)
	w.set("b", roster.Interrupted, "")
	if e, err = w.controller.Cancel(t.Context(), "b", ""); err != nil || e.Status != "cancelled" || e.Process != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	// What never began has no record, and one that handed its work over is cancelled with that.
	must(t, w.rows.Create(t.Context(), &roster.Thread{ID: "n", Kind: "directive", Directive: "directive:acme/plan",
		Project: roster.Project{Root: w.controller.Root}, Created: began}, 0),
		os.MkdirAll(filepath.Join(w.controller.Root, ".ai", "threads", "n"), 0o700))
	if e, err = w.controller.Cancel(t.Context(), "n", ""); err != nil || e.Status != "cancelled" {
		t.Errorf("%+v, %v", e, err)
	}
	w.begin("h", "", "", transcript.HandedOff{Next: "h2", Cost: cost})
	w.set("h", roster.Continued, "h2")
	w.begin("h2", "", "h")
	w.set("h2", roster.Interrupted, "")
	if e, err = w.controller.Cancel(t.Context(), "h", ""); err != nil || e.Thread != "h2" || e.Status != "cancelled" {
		t.Errorf("%+v, %v", e, err)
	}
	for name, want := range map[string]fault.Code{"none": fault.NotFound, "h": fault.Conflict} {
		if _, err := w.controller.Cancel(t.Context(), name, ""); fault.CodeOf(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.begin("l", "", "")
	w.set("l", roster.Interrupted, "")
	must(t, os.RemoveAll(filepath.Join(w.controller.Root, ".ai", "threads", "l")))
	if _, err := w.controller.Cancel(t.Context(), "l", ""); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("lost: %v", err)
	}
}
