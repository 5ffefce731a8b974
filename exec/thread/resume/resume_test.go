package resume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

const graph = `version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state_graph_runtime
category: acme
description: A graph
risk: read
permissions: [execute:tool:acme/echo]
config:
  start: say
  nodes:
    say: {action: {item_id: acme/echo, params: {text: x}}}
`

var usage = provider.Usage{Input: 10, Output: 5}

// stepping has a model call a tool once, and say then that it is done.
func stepping(item string) func(q *modeltest.Request) modeltest.Turn {
	return func(q *modeltest.Request) modeltest.Turn {
		if strings.Contains(fmt.Sprint(q.Body["messages"]), "note a") {
			return modeltest.Turn{Text: "done", Usage: usage}
		}
		return modeltest.Turn{Calls: []provider.ToolCall{executes("a", item)}, Usage: usage}
	}
}

// TestRefused: no new thread begins where the old one still runs, has no record that a model could go on with, or
// where what its settings say can't be read.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"tools/acme/flow.yaml": graph})
	w.server.Handle(stepping("acme/echo"))
	done, lost, bare, pruned := w.run(thread.Start{}), w.run(thread.Start{}), w.run(thread.Start{}),
		w.run(thread.Start{})
	replayed := w.run(thread.Start{Replay: w.row(done.Thread).Dir()})
	flow := w.run(thread.Start{Directive: model.Ref{Kind: "tool", ID: "acme/flow"}})
	if !done.Success || !flow.Success {
		t.Fatalf("%+v, %+v", done, flow)
	}
	must(t, os.RemoveAll(w.row(lost.Thread).Dir()),
		os.Remove(filepath.Join(w.row(bare.Thread).Dir(), "transcript.jsonl")),
		w.engine.Roster.Prune(t.Context(), map[string]roster.Pruned{pruned.Thread: {}}))
	refused := func(name string, o Order, code fault.Code, text string) {
		t.Helper()
		if r, err := w.carry(o); r.Result != nil || fault.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if all := w.after(o.Thread); len(all) != 0 {
			t.Errorf("%s: %v", name, all)
		}
	}
	for name, c := range map[string]struct {
		of   *thread.Result
		code fault.Code
		text string
	}{
		"lost":          {lost, fault.NotFound, "is lost"},
		"pruned":        {pruned, fault.NotFound, "was pruned"},
		"no transcript": {bare, fault.NotFound, "no transcript"},
		"replayed":      {replayed, fault.Validation, "a record answered it"},
		"a graph":       {flow, fault.Validation, "a run of a graph"},
	} {
		refused(name, Order{Thread: c.of.Thread, Message: "x"}, c.code, c.text)
		refused(name, Order{Thread: c.of.Thread, Handoff: true}, c.code, c.text)
	}
	asked := false
	w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
		rows, err := w.engine.Roster.Threads(t.Context(), roster.Filter{})
		for _, row := range rows {
			if row.State == roster.Running {
				asked = true
				refused("running", Order{Thread: row.ID, Handoff: true}, fault.Conflict, "is running")
			}
		}
		if err != nil {
			t.Error(err)
		}
		return modeltest.Turn{Text: "done"}
	})
	if r := w.run(thread.Start{}); !r.Success || !asked {
		t.Errorf("%+v, %v", r, r.Error)
	}
	w.change("config/coordination.yaml",
		"schema_version: \"1.0.0\"\ncoordination: {continuation: {trigger_threshold: 2}}\n")
	refused("settings", Order{Thread: done.Thread, Message: "x"}, fault.Config, "trigger_threshold")
	w.Write(".ai/config/coordination.yaml", "schema_version: \"1.0.0\"\n")
	w.open()
	refused("unsigned settings", Order{Thread: done.Thread, Message: "x"}, fault.Unsigned, "coordination")
}

// TestOne: of two that go on with the same thread at the same time, one is refused, whatever it has found out before.
func TestOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"config/coordination.yaml": summedBy("null")})
	w.server.Handle(stepping("acme/echo"))
	ended, interrupted := w.run(thread.Start{}), w.run(thread.Start{Limits: []string{"turns=1"}})
	for _, o := range []Order{{Thread: ended.Thread, Message: "More."},
		{Thread: interrupted.Thread, Handoff: true, Limits: []string{"turns=3"}}} {
		late := &work{engine: w.engine, order: &o}
		must(t, late.find(t.Context(), w.controller()), late.read(t.Context()))
		r, err := w.carry(o)
		must(t, err)
		if !r.Success || r.Old != o.Thread {
			t.Fatalf("%+v, %v", r, r.Error)
		}
		if _, _, err := late.take(t.Context()); fault.CodeOf(err) != fault.Conflict {
			t.Errorf("%+v: %v", o, err)
		}
		if all := w.after(o.Thread); len(all) != 1 || all[0].ID != r.Thread {
			t.Errorf("%v", all)
		}
	}
	if row := w.row(interrupted.Thread); row.State != roster.Continued || row.Next == "" {
		t.Errorf("%+v", row)
	}
	// One that is removed meanwhile is no more to go on with.
	removed := w.run(thread.Start{})
	late := &work{engine: w.engine, order: &Order{Thread: removed.Thread, Message: "More."}}
	must(t, late.find(t.Context(), w.controller()), late.read(t.Context()), os.RemoveAll(w.row(removed.Thread).Dir()))
	if _, _, err := late.take(t.Context()); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
}

// TestCapabilities: a new thread may do what the old one could, also when its directive permits more by now.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"config/coordination.yaml": summedBy("null")})
	w.server.Handle(stepping("acme/echo"))
	ended, interrupted := w.run(thread.Start{}), w.run(thread.Start{Limits: []string{"turns=1"}})
	w.change("directives/acme/asking.md", asking("acme/echo", "acme/mark"))
	for _, o := range []Order{{Thread: ended.Thread, Message: "Mark it."},
		{Thread: interrupted.Thread, Handoff: true, Message: "Mark it.", Limits: []string{"turns=3"}}} {
		var said string
		w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
			all := q.Body["messages"].([]any)
			if last := all[len(all)-1].(object); last["role"] == "tool" {
				said = fmt.Sprint(last)
				return modeltest.Turn{Text: "done", Usage: usage}
			}
			return modeltest.Turn{Calls: []provider.ToolCall{executes("m", "acme/mark")}, Usage: usage}
		})
		r, err := w.carry(o)
		must(t, err)
		if strings.Contains(said, `said":"note m`) || !strings.Contains(said, "acme/mark") {
			t.Errorf("%+v: %+v, %v: %s", o, r, r.Error, said)
		}
		if record, err := read(w.row(r.Thread).Dir()); err != nil ||
			strings.Contains(fmt.Sprint(record.started.Grants), "acme/mark") {
			t.Errorf("%+v, %v", record, err)
		}
	}
	// One that begins anew may.
	w.server.Handle(stepping("acme/mark"))
	r := w.run(thread.Start{})
	if record, err := read(w.row(r.Thread).Dir()); err != nil || !r.Success ||
		!strings.Contains(fmt.Sprint(record.started.Grants), "acme/mark") {
		t.Errorf("%+v, %v, %v", r, err, r.Error)
	}
}

// TestUnsummarised: a thread hands its work over without a summary where none can be made; the new one knows the last
// turns.
func TestUnsummarised(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for directive, asked := range map[string]bool{"null": false, "'no reference'": false, "acme/missing": false,
		"rye/agent/threads/thread_summary": true} {
		w.change("config/coordination.yaml", summedBy(directive))
		w.server.Handle(stepping("acme/echo"))
		old := w.run(thread.Start{Limits: []string{"turns=1"}})
		var summarised bool
		var begun string
		w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
			all := fmt.Sprint(q.Body["messages"])
			if strings.Contains(all, "Write that summary") {
				summarised = true
				return modeltest.Turn{Status: 401}
			}
			begun = all
			return modeltest.Turn{Text: "done", Usage: usage}
		})
		r, err := w.carry(Order{Thread: old.Thread, Handoff: true, Limits: []string{"turns=3"}})
		must(t, err)
		if !r.Success || r.Summarised || summarised != asked || !strings.Contains(begun, "note a") ||
			w.row(old.Thread).Next != r.Thread {
			t.Errorf("%s: %+v, %v: %v, begun with %s", directive, r, r.Error, summarised, begun)
		}
	}
}

// TestNotBegun: where no new thread can begin, the old one is what it was.
func TestNotBegun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"config/coordination.yaml": summedBy("null")})
	w.server.Handle(stepping("acme/echo"))
	old := w.run(thread.Start{Limits: []string{"turns=1"}})
	w.Write(".ai/directives/acme/asking.md", asking("acme/echo", "acme/mark")) // which Alice hasn't signed
	w.open()
	if r, err := w.carry(Order{Thread: old.Thread, Handoff: true, Limits: []string{"turns=3"}}); r.Result != nil ||
		fault.CodeOf(err) != fault.Unsigned {
		t.Errorf("%+v, %v", r, err)
	}
	if row := w.row(old.Thread); row.State != roster.Interrupted || len(w.after(old.Thread)) != 0 {
		t.Errorf("%+v", row)
	}
	w.change("directives/acme/asking.md", asking("acme/echo"))
	if r, err := w.carry(Order{Thread: old.Thread, Handoff: true, Limits: []string{"turns=3"}}); err != nil ||
		!r.Success {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestNothingPaid: a handoff whose new thread can't begin, here without its model, is refused before a summary is paid
// for.
func TestNothingPaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	other := strings.ReplaceAll(w.server.Item("local"), "category: rye/agent/providers", "category: acme/providers")
	w.Put("tools/acme/providers/other.yaml", other)
	w.change("directives/acme/asking.md", strings.Replace(asking("acme/echo"), `provider="local"`,
		`provider="acme/providers/other"`, 1))
	w.server.Handle(stepping("acme/echo"))
	old := w.run(thread.Start{Limits: []string{"turns=1"}})
	asked := false
	w.server.Handle(func(*modeltest.Request) modeltest.Turn {
		asked = true
		return modeltest.Turn{Text: "We were at three.", Usage: usage}
	})
	must(t, os.Remove(filepath.Join(w.Dir, ".ai", "tools", "acme", "providers", "other.yaml")))
	w.open()
	r, err := w.carry(Order{Thread: old.Thread, Handoff: true, Limits: []string{"turns=3"}})
	if r.Result != nil || err == nil || !strings.Contains(err.Error(), "acme/providers/other") || asked {
		t.Errorf("%+v, %v, asked: %v", r.Result, err, asked)
	}
	if row := w.row(old.Thread); row.State != roster.Interrupted || len(w.after(old.Thread)) != 0 {
		t.Errorf("%+v", row)
	}
}

// failing has changes of the books fail from the n-th on until the returned function heals them, which reports whether
// any has.
func (w *world) failing(n int) (heal func() bool) {
	w.t.Helper()
	hook, healed := journaltest.Full(n)
	books := filepath.Join(w.Paths().State.Path, "threads")
	use := func() {
		rows, money := roster.Open(filepath.Join(books, "registry"), time.Now, hook),
			ledger.In(filepath.Join(books, "ledger"), hook)
		w.t.Cleanup(func() { rows.Close(); money.Shut() })
		w.engine.Hook, w.engine.Roster, w.engine.Ledger = hook, rows, money
	}
	use()
	return func() bool {
		w.t.Helper()
		failed := healed()
		w.engine.Roster.(*roster.Local).Close() // what can't be written is read again
		w.engine.Ledger.(*ledger.Local).Shut()
		use()
		// What was left behind is tidied up as after the end of its process.
		rows := w.engine.Roster.(*roster.Local)
		runs := rows.Runs
		rows.Runs = func(int) string { return "" }
		_, err := control.Tidy(w.t.Context(), rows, w.engine.Ledger, roster.Filter{}, time.Now())
		must(w.t, err)
		rows.Runs = runs
		return failed
	}
}

// TestFaults: whichever change of the books or of a record fails while a thread goes on with another's work, either
// the new one has it and the old one is continued, or the new one hasn't run; and it can be gone on with afterwards,
// by the old name.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Order{"message": {Message: "More."},
		"handoff": {Handoff: true, Limits: []string{"turns=3"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newWorld(t, map[string]string{"config/coordination.yaml": summedBy("null")}).faults(o)
		})
	}
}

func (w *world) faults(o Order) {
	t, step := w.t, stepping("acme/echo")
	var asked atomic.Int64
	w.server.Handle(func(q *modeltest.Request) modeltest.Turn { asked.Add(1); return step(q) })
	by := 1
	if testing.Short() {
		by = 5 // fewer of them
	}
	failed, unrun := 0, 0
	for n := 1; ; n += by {
		s := thread.Start{}
		if o.Handoff {
			s.Limits = []string{"turns=1"}
		}
		o.Thread = w.run(s).Thread
		heal := w.failing(n)
		asked.Store(0)
		r, err := w.carry(o)
		if !heal() {
			if err != nil || !r.Success {
				t.Errorf("%+v, %v", r, err)
			}
			break
		}
		failed++
		if err != nil && !errors.Is(err, journaltest.ErrFull) {
			t.Errorf("change %d: %v", n, err)
		}
		all := w.after(o.Thread)
		if len(all) > 1 {
			t.Fatalf("change %d: %v", n, all)
		}
		if ran := asked.Load() > 0; ran && (r.Result == nil || o.Handoff &&
			w.row(o.Thread).State != roster.Continued) {
			t.Errorf("change %d: %+v, %+v", n, w.row(o.Thread), r)
		} else if !ran {
			unrun++
		}
		w.goesOn(n, o, all)
	}
	if failed < 3 || unrun < 3 {
		t.Errorf("%d changes failed, %d of them before anything ran", failed, unrun)
	}
}

// goesOn has a thread whose work was to go on elsewhere go on, by its own id: there is one successor at most that
// does.
func (w *world) goesOn(n int, o Order, all []*roster.Thread) {
	w.t.Helper()
	last, err := w.controller().Last(w.t.Context(), o.Thread)
	must(w.t, err)
	if !o.Handoff && len(all) == 1 && all[0].State == roster.Interrupted && transcript.Exists(all[0].Dir()) {
		o.Thread, last = all[0].ID, all[0] // the old one had ended before
	}
	var state string
	if last.State.Ended() {
		r, err := w.carry(Order{Thread: o.Thread, Message: "Again.", Limits: []string{"turns=6"}})
		must(w.t, err)
		state = r.Status
	} else {
		r, err := w.engine.Resume(w.t.Context(), &thread.Resume{Thread: o.Thread, Limits: []string{"turns=6"}})
		if err != nil {
			w.t.Fatalf("change %d, then %+v: %v", n, last, err)
		}
		state = r.Status
	}
	if state != thread.Completed {
		w.t.Errorf("change %d, then %+v: %s", n, last, state)
	}
	if old := w.row(o.Thread); len(all) == 1 && o.Handoff && old.State != roster.Continued &&
		w.row(all[0].ID).State != roster.Failed {
		w.t.Errorf("change %d: %+v, and %+v", n, old, w.row(all[0].ID))
	}
}
