package thread_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// approver makes requests in the world's journal.
func (w *world) approver() (*toolcall.Approver, *approval.Local) {
	w.t.Helper()
	d, l, err := approval.At(w.engine.Session, time.Now, approval.Thread)
	must(w.t, err)
	w.t.Cleanup(func() { l.Close() })
	a, err := toolcall.NewApprover(nil, nil, nil)
	must(w.t, err)
	a.Use(d)
	return a, l
}

// TestWaits: a thread stops at a call that waits for its approval, whose process may die at any point before, and goes
// on with the answer; the calls beside it are made once.
func TestWaits(t *testing.T) {
	t.Parallel()
	turns := []modeltest.Turn{{Calls: []provider.ToolCall{executes("a", "acme/echo", object{"text": "x"}),
		executes("b", "acme/wipe", object{"text": "y"})}}, {Text: "done"}}
	for _, c := range []struct {
		name string
		dies bool // before the record says that the thread waits
		to   approval.State
		want string // that the model gets
	}{
		{"approved", false, approval.Approved, `"said":"y"`},
		{"denied", false, approval.Denied, `not that one`},
		{"dies and approved", true, approval.Approved, `"said":"y"`},
		{"dies and denied", true, approval.Denied, `not that one`},
	} {
		w := newWorld(t, wiping(), turns...)
		approver, l := w.approver()
		broken := errors.New("broken")
		if c.dies {
			w.engine.Hook = func(op, _ string, b []byte) error {
				if op == "write" && strings.Contains(string(b), `"type":"waiting"`) {
					return broken
				}
				return nil
			}
		}
		r, err := w.run(t.Context(), thread.Start{Approver: approver})
		if c.dies {
			if !errors.Is(err, broken) {
				t.Fatalf("%s: %v", c.name, err)
			}
		} else if must(t, err); r.Status != thread.Waiting || r.Error.Code != fault.Approval ||
			!strings.HasPrefix(r.Failure().(*fault.Error).Hint[1], "rye thread resume "+r.Thread) {
			t.Fatalf("%s: %+v, %v", c.name, r, r.Error)
		}
		w.engine.Hook = nil
		row, err := roster.Get(t.Context(), w.engine.Roster, r.Thread)
		must(t, err)
		if want := roster.Waiting; !c.dies && row.State != want {
			t.Errorf("%s: %s", c.name, row.State)
		}
		again, err := w.engine.Resume(t.Context(), &thread.Resume{Thread: r.Thread, Approver: approver})
		must(t, err)
		if again.Status != thread.Waiting {
			t.Fatalf("%s: resumed without an answer: %+v", c.name, again)
		}
		all, err := approval.List(t.Context(), l, approval.Filter{Thread: r.Thread})
		must(t, err)
		if len(all) != 1 || all[0].Call != "c2" || all[0].State != approval.Pending {
			t.Fatalf("%s: %+v", c.name, all)
		}
		_, err = l.Do(t.Context(), all[0].ID, approval.Step{To: c.to, By: "bob", Reason: "not that one"})
		must(t, err)
		must(t, approver.Await(t.Context(), again.Error))
		done, err := w.engine.Resume(t.Context(), &thread.Resume{Thread: r.Thread, Approver: approver})
		must(t, err)
		requests := w.server.Requests()
		if last := string(requests[len(requests)-1].Raw); !done.Success || len(requests) != 2 ||
			!strings.Contains(strings.ReplaceAll(last, `\`, ""), c.want) ||
			strings.Count(last, "said") != strings.Count(c.want, "said")+1 {
			t.Errorf("%s: %+v after %d requests: %s", c.name, done, len(requests), last)
		}
		dir := filepath.Join(w.engine.Dir, filepath.FromSlash(r.Thread))
		var waits, results int
		for e, err := range transcript.Read(dir) {
			must(t, err)
			switch e.Type {
			case transcript.TypeWaiting:
				waits++
			case transcript.TypeCallResult:
				results++
			}
		}
		if results != 2 || waits < 1 {
			t.Errorf("%s: it waited %d times, and has %d results", c.name, waits, results)
		}
		played, err := w.engine.PlayBack(t.Context(), dir)
		if err != nil || played.Difference != nil {
			t.Errorf("%s: replay: %+v, %v", c.name, played, err)
		}
	}
	if err := (*toolcall.Approver)(nil).Await(t.Context(),
		fault.New(fault.Approval, "x")); fault.CodeOf(err) != fault.Approval {
		t.Errorf("%v", err)
	}
}
