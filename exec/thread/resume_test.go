package thread_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/roster"
)

// dir is the directory of a thread.
func (w *world) dir(thread string) string {
	return filepath.Join(w.engine.Dir, filepath.FromSlash(thread))
}

// state is the row of a thread.
func (w *world) state(thread string) *roster.Thread {
	w.t.Helper()
	row, err := roster.Get(w.t.Context(), w.engine.Roster, thread)
	must(w.t, err)
	return row
}

// account is the money of a thread.
func (w *world) account(thread string) *ledger.Balance {
	w.t.Helper()
	a, err := ledger.Get(w.t.Context(), w.engine.Ledger, thread)
	must(w.t, err)
	if a == nil {
		w.t.Fatalf("%s has no account", thread)
	}
	return a
}

func (w *world) resume(id string, limits ...string) (*thread.Result, error) {
	return w.engine.Resume(w.t.Context(), &thread.Resume{Thread: id, Limits: limits})
}

// same plays a thread back: everything must be as it was recorded.
func (w *world) same(id string) {
	w.t.Helper()
	asked := len(w.server.Requests())
	r, err := w.engine.PlayBack(w.t.Context(), w.dir(id))
	must(w.t, err)
	if r.Difference != nil {
		w.t.Errorf("%s differs from its record: %v", id, r.Difference.Lines())
	}
	if len(w.server.Requests()) != asked {
		w.t.Errorf("%s: the model was asked", id)
	}
}

// TestResume: a thread that limits interrupt goes on at the turn where it stopped, and is in the end what it would
// have been.
func TestResume(t *testing.T) {
	t.Parallel()
	usage := provider.Usage{Input: 100, Output: 20}
	echo := func(id string) modeltest.Turn {
		return modeltest.Turn{Calls: []provider.ToolCall{executes(id, "acme/echo", object{"text": id})}, Usage: usage}
	}
	w := newWorld(t, withOutputs(asking), echo("a"), echo("b"), echo("c"),
		modeltest.Turn{Calls: []provider.ToolCall{call("d", "directive_return", object{"answer": "x"})}, Usage: usage})
	r, err := w.run(t.Context(), thread.Start{Limits: []string{"turns=1"}})
	must(t, err)
	for _, limit := range []string{"", "turns=2", "turns=3", "tokens=400", "turns=4"} {
		if r.Status != thread.Interrupted || w.state(r.Thread).State != roster.Interrupted ||
			w.account(r.Thread).Closed {
			t.Fatalf("before %q: %+v, %+v", limit, r, w.state(r.Thread))
		}
		w.same(r.Thread)
		var limits []string
		if limit != "" {
			limits = []string{limit, "tokens=100000"}[:1]
		}
		if limit == "turns=4" {
			limits = append(limits, "tokens=100000")
		}
		r, err = w.resume(r.Thread, limits...)
		must(t, err)
	}
	if !r.Success || r.Outputs["answer"] != "x" || r.Cost.Turns != 4 || r.Cost.InputTokens != 400 ||
		len(w.server.Requests()) != 4 {
		t.Errorf("%+v, %v, %d requests", r, r.Error, len(w.server.Requests()))
	}
	if row := w.state(r.Thread); row.State != roster.Completed || row.Epoch != 6 || !w.account(r.Thread).Closed {
		t.Errorf("%+v", row)
	}
	w.same(r.Thread)
	if _, err := w.resume(r.Thread); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("a thread that has ended goes on: %v", err)
	}
	if _, err := w.resume("acme/none-1-aaaaa"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("%v", err)
	}
}

// TestPlayBack: a directive that says something else, and a loop that does, are found at their turn.
func TestPlayBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOutputs(asking), modeltest.Turn{Status: 429, RetryAfter: "0"},
		modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/echo", object{"text": "äö", "times": 10_000}),
			executes("b", "acme/echo", object{"text": "x"})}},
		modeltest.Turn{Text: "Hm."},
		modeltest.Turn{Calls: []provider.ToolCall{call("d", "directive_return", object{"answer": "x"})}})
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	if !r.Success {
		t.Fatalf("%+v, %v", r, r.Error)
	}
	w.same(r.Thread)
	lines, err := os.ReadFile(filepath.Join(w.dir(r.Thread), "transcript.jsonl"))
	must(t, err)
	payloads, err := os.ReadFile(filepath.Join(w.dir(r.Thread), "payloads"))
	must(t, err)
	// A record that ends anywhere is the same as far as it goes.
	for i, c := range lines {
		if c != '\n' || strings.Count(string(lines[:i]), "\n") < 1 {
			continue
		}
		short := t.TempDir()
		must(t, os.WriteFile(filepath.Join(short, "transcript.jsonl"), lines[:i+1], 0o600))
		must(t, os.WriteFile(filepath.Join(short, "payloads"), payloads, 0o600))
		got, err := w.engine.PlayBack(t.Context(), short)
		if err != nil || got.Difference != nil {
			t.Errorf("after %d lines: %+v, %v", strings.Count(string(lines[:i+1]), "\n"), got, err)
		}
	}
	w.Put("directives/acme/asking.md", strings.ReplaceAll(strings.ReplaceAll(asking, "OUTPUTS", outputs), "Ask about",
		"Enquire about"))
	got, err := w.engine.PlayBack(t.Context(), w.dir(r.Thread))
	must(t, err)
	if d := got.Difference; d == nil || d.Turn != 1 || d.Type != "request" ||
		!strings.Contains(strings.Join(d.Lines(), "\n"), "Enquire about") {
		t.Errorf("%+v", got.Difference)
	}
}

// TestChanged: a thread whose directive has changed doesn't go on.
func TestChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plain(asking), modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/echo",
		object{"text": "x"})}}, modeltest.Turn{Text: "done"})
	r, err := w.run(t.Context(), thread.Start{Limits: []string{"turns=1"}})
	must(t, err)
	w.Put("directives/acme/asking.md", strings.ReplaceAll(strings.ReplaceAll(asking, "OUTPUTS", ""), "Ask about",
		"Enquire about"))
	if _, err := w.resume(r.Thread, "turns=3"); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("%v", err)
	}
	if row := w.state(r.Thread); row.State != roster.Interrupted || row.Epoch != 1 {
		t.Errorf("%+v", row)
	}
}

// TestDiverged: a loop that asks for something else than the record ends with the line, and the thread stays as it is.
func TestDiverged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plain(asking), modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/echo",
		object{"text": "x"})}}, modeltest.Turn{Text: "done"})
	r, err := w.run(t.Context(), thread.Start{Limits: []string{"turns=1"}})
	must(t, err)
	head :=
		"---\nversion: \"1.0.0\"\ncategory: rye/agent\ndescription: Other\ntool_type: starlark\nexecutor_id: rye/core/runtimes/starlark_runtime\nrisk: read\npure: true\n---\n"
	loop := "# " + strings.TrimSuffix(strings.ReplaceAll(head, "\n", "\n# "),
		"# ") + "def main(ctx):\n    return {'text': ctx.model([{'role': 'user', 'text': 'Hello'}], [])['text']}\n"
	w.Put("tools/rye/agent/loop.star", loop)
	got, err := w.resume(r.Thread, "turns=3")
	must(t, err)
	if got.Status != thread.Interrupted || got.Error.Code != fault.Conflict ||
		!strings.Contains(got.Error.Text, "line 3") {
		t.Errorf("%+v, %v", got, got.Error)
	}
	if row := w.state(r.Thread); row.State != roster.Interrupted || row.Epoch != 2 {
		t.Errorf("%+v", row)
	}
	must(t, os.Remove(filepath.Join(w.Dir, ".ai/tools/rye/agent/loop.star")))
	got, err = w.resume(r.Thread, "turns=3")
	must(t, err)
	if !got.Success || got.Result != "done" {
		t.Errorf("%+v, %v", got, got.Error)
	}
	w.same(r.Thread)
	if _, is := error(got.Error).(*replay.Difference); is {
		t.Error(got.Error)
	}
}

// TestTidy: what died is interrupted, what is gone is settled, and so is what was left alone for an hour.
func TestTidy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plain(asking), modeltest.Turn{Text: "done"})
	r, err := w.run(t.Context(), thread.Start{Limits: []string{"turns=0"}})
	must(t, err)
	tidy := func(after time.Duration) {
		t.Helper()
		_, err := control.Tidy(t.Context(), w.engine.Roster, w.engine.Ledger, roster.Filter{}, time.Now().Add(after))
		must(t, err)
	}
	if tidy(time.Minute); w.account(r.Thread).Closed {
		t.Error("settled after a minute")
	}
	if tidy(61 * time.Minute); !w.account(r.Thread).Closed {
		t.Error("not settled after an hour")
	}
	if r, err = w.resume(r.Thread, "turns=3"); err != nil || !r.Success || !w.account(r.Thread).Closed {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = w.run(t.Context(), thread.Start{Limits: []string{"turns=0"}})
	must(t, err)
	_, err = w.engine.Roster.Claim(t.Context(), r.Thread, 1, roster.Driver{Process: 1 << 30, Start: "long ago"})
	must(t, err)
	if tidy(0); w.state(r.Thread).State != roster.Interrupted {
		t.Errorf("%+v", w.state(r.Thread))
	}
	must(t, os.RemoveAll(w.dir(r.Thread)))
	if tidy(0); !w.account(r.Thread).Closed || !w.state(r.Thread).Lost {
		t.Errorf("%+v, %+v", w.account(r.Thread), w.state(r.Thread))
	}
}

// TestAlone: a child that was interrupted goes on alone when its parent's account is closed. It has no more than its
// parent had, and its parent counts it; so does the thread that it hands over to.
func TestAlone(t *testing.T) {
	t.Parallel()
	for _, hands := range []bool{false, true} {
		items := withOutputs(asking)
		items["directives/acme/plan.md"] = "# plan\n\n```xml\n" + strings.Replace(parent, "LIMITS",
			`<limits spend="0.4"/>`, 1) + "```\n"
		w := newWorld(t, items)
		ofChild := func(q *modeltest.Request) modeltest.Turn {
			if all := q.Body["messages"].([]any); all[len(all)-1].(object)["role"] == "tool" {
				return modeltest.Turn{Calls: []provider.ToolCall{call("z", "directive_return", object{"answer": "x"})},
					Usage: provider.Usage{Input: 20, Output: 5}}
			}
			return echoes("x")
		}
		if w.provider(32768); hands {
			w.narrow()
			ofChild, _ = handing()
		}
		w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
			all := q.Body["messages"].([]any)
			if first := fmt.Sprint(all); !strings.Contains(first, "start") || strings.Contains(first, "Ask about") {
				return ofChild(q)
			}
			usage := provider.Usage{Input: 10, Output: 5}
			if all[len(all)-1].(object)["role"] == "tool" {
				return modeltest.Turn{Text: "done", Usage: usage}
			}
			return modeltest.Turn{Calls: []provider.ToolCall{starts("p", "acme/asking",
				object{"inputs": object{"topic": "rye"}, "limit_overrides": object{"turns": 1}})}, Usage: usage}
		})
		r, err := w.run(t.Context(), thread.Start{Directive: model.Ref{Kind: "directive", ID: "acme/plan"},
			Inputs: params.Values(object{})})
		must(t, err)
		rows, err := w.engine.Roster.Threads(t.Context(), roster.Filter{})
		must(t, err)
		var child *roster.Thread
		for _, row := range rows {
			if row.Parent == r.Thread {
				child = row
			}
		}
		if !r.Success || child == nil || child.State != roster.Interrupted || !w.account(r.Thread).Closed {
			t.Fatalf("%+v, %v, %+v", r, r.Error, child)
		}
		before := w.account(r.Thread)
		// More than its parent had is more than it gets.
		if _, err := w.resume(child.ID, "turns=9", "spend=0.41"); fault.CodeOf(err) != fault.Budget ||
			!w.account(r.Thread).Closed {
			t.Errorf("%v, %+v", err, w.account(r.Thread))
		}
		got, err := w.resume(child.ID, "turns=9", "spend=0.3")
		if err != nil || !got.Success || (got.Thread != child.ID) != hands {
			t.Fatalf("%+v, %v, %v", got, err, got.Error)
		}
		after := w.account(r.Thread)
		if last := w.state(got.Thread); last.Parent != r.Thread || last.State != roster.Completed ||
			!w.account(got.Thread).Closed || w.account(got.Thread).Parent != r.Thread {
			t.Errorf("%+v, %+v", last, w.account(got.Thread))
		}
		if !after.Closed || after.Below <= before.Below || after.Own != before.Own || after.Aside != 0 ||
			after.Spent() > 400_000_000 {
			t.Errorf("%+v, before %+v", after, before)
		}
		w.same(child.ID)
		w.same(got.Thread)
	}
}
