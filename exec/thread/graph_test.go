package thread_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/jcs"
)

// flow is a graph with a configuration.
func flow(more, config string) string {
	return `version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state_graph_runtime
category: acme
description: A graph
risk: read
` + more + "config:\n" + config
}

// marks is echo with another risk.
var marks = strings.Replace(strings.Replace(echo, "risk: read", "risk: write", 1), "Gives back", "Marks", 1)

// graphs are items of graphs, by their ids below acme, and the tools that they use.
func graphs(items map[string]string) map[string]string {
	all := plain(asking)
	all["tools/acme/mark.star"] = marks
	for id, text := range items {
		all["tools/acme/"+id+".yaml"] = text
	}
	return all
}

func (w *world) walk(id string, inputs object, limits ...string) (*thread.Result, error) {
	w.t.Helper()
	return w.engine.Run(w.t.Context(), &thread.Start{Directive: model.Ref{Kind: "tool", ID: "acme/" + id},
		Inputs: params.Values(inputs), Limits: limits})
}

// outputs are those of a graph as JSON.
func (w *world) outputs(r *thread.Result, err error) string {
	w.t.Helper()
	if err != nil || !r.Success {
		w.t.Fatalf("%+v, %v, %v", r, err, r.Error)
	}
	b, err := jcs.Append(nil, r.Outputs)
	must(w.t, err)
	return string(b)
}

// doomedFlow has what a process may be killed in: calls that read, one that doesn't, several at once, a child, and a
// gate.
var doomedFlow = flow("permissions: [execute:tool:acme/echo]\n", `  start: say
  nodes:
    say: {action: {item_id: acme/echo, params: {text: x}}, assign: {said: "${result.said}"}, next: mark}
    mark: {action: {item_id: acme/mark, params: {text: y}}, assign: {marked: "${result.said}"}, on_error: lost, next: each}
    lost: {action: {item_id: acme/echo, params: {text: lost}}, assign: {marked: "${result.said}"}, next: each}
    each: {type: foreach, over: [a, b, c], action: {item_id: acme/echo, params: {text: "${item}"}}, collect: all, next: some}
    some: {type: gate, when: {path: state.all.2.said, value: c}, next: below}
    below: {action: {item_id: acme/below}, assign: {below: "${result.outputs.deep}"}, next: done}
    done: {type: return}
`)

// TestGraphKilled kills a process before each change that the thread of a graph makes. The graph goes on in another
// process: no call that may have had an effect is made twice, and the state is what it would have been.
func TestGraphKilled(t *testing.T) {
	t.Parallel()
	items := graphs(map[string]string{"echo": here, "flow": doomedFlow,
		"below": flow("",
			"  start: a\n  nodes:\n    a: {action: {item_id: acme/echo, params: {text: z}}, assign: {deep: \"${result.said}\"}}\n")})
	delete(items, "tools/acme/mark.star")
	items["tools/acme/mark.yaml"] = strings.Replace(here, "risk: read", "risk: write", 1)
	by := 1
	if testing.Short() {
		by = 7 // fewer of them
	}
	killed, lost, ended := 0, 0, false
	for n := by; !ended; n += by {
		w := newWorld(t, items)
		if ended = !w.doom(doomed{At: n, Graph: "acme/flow"}); !ended {
			killed++
		}
		rows, err := w.engine.Roster.Threads(t.Context(), roster.Filter{})
		must(t, err)
		var row *roster.Thread
		for _, r := range rows {
			if r.Parent == "" {
				row = r
			}
		}
		if row == nil {
			continue
		}
		r := &thread.Result{Thread: row.ID}
		if !w.state(row.ID).State.Ended() {
			if r, err = w.resume(row.ID); err != nil {
				if _, missing := os.Stat(filepath.Join(w.dir(row.ID), transcript.LinesFile)); errors.Is(missing,
					os.ErrNotExist) {
					continue // killed before the first line
				}
				if w.state(row.ID).State.Ended() { // its end was recorded
					continue
				}
			}
			got := w.outputs(r, err)
			if strings.Contains(got, `"marked":"lost"`) {
				lost++
				got = strings.Replace(got, `"marked":"lost"`, `"marked":"y"`, 1)
				got = got[:1] + got[strings.Index(got, `"all"`):]
			}
			if want :=
				`{"all":[{"said":"a"},{"said":"b"},{"said":"c"}],"below":"z","marked":"y","said":"x"}`; got != want {
				t.Errorf("before change %d: %s", n, got)
			}
		}
		began := map[string]int{}
		for _, e := range w.events(r) {
			var c transcript.CallStarted
			if e.Type == transcript.TypeCallStarted && e.Decode(&c) == nil {
				began[c.Ref]++
			}
		}
		if made := w.echoed("y"); began["tool:acme/mark"] != 1 || began["tool:acme/below"] != 1 || made > 1 {
			t.Errorf("before change %d: %v, made %d times", n, began, made)
		}
		v, err := transcript.Verify(t.Context(), w.dir(row.ID), transcript.Check{Keys: w.machine()})
		must(t, err)
		if v.Problem != nil {
			t.Errorf("before change %d: %v", n, v.Problem)
		}
		w.same(row.ID)
	}
	if killed < 40/by || lost == 0 && by == 1 {
		t.Errorf("%d were killed, %d lost their call", killed, lost)
	}
}

// TestGraphByModel: a model runs a graph as a tool, with what both may, and a graph runs directives.
func TestGraphByModel(t *testing.T) {
	items := graphs(map[string]string{
		"sum": flow("input_schema: {properties: {n: {type: integer, default: 2}}}\n", `  start: a
  nodes:
    a: {action: {item_id: acme/echo, params: {text: "n is ${inputs.n}"}}, assign: {text: "${result.said}"}}
`),
		"reach": flow("", `  start: a
  nodes:
    a: {action: {item_id: acme/mark, params: {text: x}}, assign: {text: "${result.said}"}}
`),
		"asks": flow("permissions: [execute:tool:acme/echo]\nlimits: {spend: 0.4}\n", `  start: all
  nodes:
    all:
      type: foreach
      over: [one, two, three]
      as: topic
      action: {item_id: rye/agent/threads/thread_directive, params: {directive_name: acme/asking, inputs: {topic: "${topic}"}}}
      collect: answers
`),
	})
	items["directives/acme/asking.md"] = strings.Replace(items["directives/acme/asking.md"], "<tool>acme/echo</tool>",
		"<tool>acme/echo</tool><tool>acme/sum</tool><tool>acme/reach</tool>", 1)
	w := newWorld(t, items)
	var told []string
	w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
		all := q.Body["messages"].([]any)
		last := all[len(all)-1].(object)
		if last["role"] == "tool" {
			told = append(told, fmt.Sprint(last["content"]))
			return modeltest.Turn{Text: "done", Usage: provider.Usage{Input: 10, Output: 5}}
		}
		text := fmt.Sprint(last["content"])
		for _, topic := range []string{"one", "two", "three"} {
			if strings.Contains(text, topic) {
				return modeltest.Turn{Text: "about " + topic, Usage: provider.Usage{Input: 10, Output: 5}}
			}
		}
		item := map[bool]string{true: "acme/sum", false: "acme/reach"}[strings.Contains(text, "sums")]
		return modeltest.Turn{Usage: provider.Usage{Input: 10, Output: 5},
			Calls: []provider.ToolCall{executes("a", item, object{})}}
	})
	r, err := w.run(t.Context(), thread.Start{Inputs: params.Values(object{"topic": "sums"})})
	if err != nil || !r.Success || len(told) != 1 || !strings.Contains(told[0], `"outputs":{"text":"n is 2"}`) {
		t.Fatalf("%+v, %v, %q", r, err, told)
	}
	w.same(r.Thread)
	r, err = w.run(t.Context(), thread.Start{Inputs: params.Values(object{"topic": "more"})})
	if err != nil || !r.Success || len(told) != 2 || !strings.Contains(told[1], "PERMISSION_DENIED") {
		t.Fatalf("%+v, %v, %q", r, err, told)
	}
	r, err = w.walk("asks", nil)
	if err != nil || !r.Success {
		t.Fatalf("%+v, %v, %v", r, err, r.Error)
	}
	answers, _ := r.Outputs["answers"].([]any)
	got := ""
	for _, a := range answers {
		got += fmt.Sprint(a.(object)["result"], ";")
	}
	if got != "about one;about two;about three;" || r.Cost.Turns != 1 {
		t.Errorf("%s, %+v", got, r.Cost)
	}
	w.same(r.Thread)
	for _, row := range w.rows() {
		if a := w.account(row.ID); !a.Closed || a.Budget != nil && *a.Budget > int64(0.5*limits.Nano) {
			t.Errorf("%s: %+v", row.ID, a)
		}
	}
}

// rows lists all threads.
func (w *world) rows() []*roster.Thread {
	w.t.Helper()
	rows, err := w.engine.Roster.Threads(w.t.Context(), roster.Filter{})
	must(w.t, err)
	return rows
}

// TestGraphHooks: hooks of a graph are asked about its nodes. One retries what failed, and only what may be repeated.
func TestGraphHooks(t *testing.T) {
	for name, c := range map[string]struct {
		tool, hooks, status, says string
		calls                     int
	}{
		"retry": {"echo", `{event: error, action: retry, delay: 0}`, thread.Failed, `the node "a" failed`,
			4},
		"no retry": {"echo", `{event: after_step, action: continue}`, thread.Failed, `the node "a" failed`, 1},
		"by a condition": {"echo", `{event: error, condition: "node == \"b\"", action: retry, delay: 0}`,
			thread.Failed, `the node "a" failed`, 1},
		"continue": {"echo", `{event: error, action: continue}`, thread.Completed, "", 1},
		"abort":    {"echo", `{event: error, action: abort, error: "no more"}`, thread.Cancelled, "no more", 1},
		"suspend":  {"echo", `{event: error, action: suspend}`, thread.Interrupted, "stops the thread", 1},
		"at the start": {"echo",
			`{event: graph_started, condition: "inputs.stop == null", action: fail, error: "not now"}`, thread.Failed,
			"not now", 0},
		"before the step": {"echo",
			`{event: before_step, condition: "node == \"a\"", action: suspend, error: "not yet"}`, thread.Interrupted,
			"not yet", 0},
		"skip a call": {"mark", `{event: tool_call_start, action: skip, error: "no marks"}`, thread.Failed,
			"PERMISSION_DENIED: no marks", 1},
		"a tool": {"echo", `{event: error, tool: acme/echo, params: {text: "${error.message}"}}`, thread.Failed,
			`the node "a" failed`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, graphs(map[string]string{"flow": flow("permissions: [execute:tool:acme/echo]\n", "  start: a\n  hooks: ["+c.hooks+`]
  nodes:
    a: {action: {item_id: acme/`+c.tool+`, params: {text: fail}}}
`)}))
			r, err := w.walk("flow", nil)
			must(t, err)
			if r.Status != c.status || c.says != "" && !strings.Contains(r.Error.Text, c.says) {
				t.Errorf("%s, %v", r.Status, r.Error)
			}
			calls := 0
			for _, e := range w.events(r) {
				if e.Type == transcript.TypeCallStarted {
					calls++
				}
			}
			if calls != c.calls {
				t.Errorf("%d calls, want %d", calls, c.calls)
			}
			w.same(r.Thread)
		})
	}
}

// TestGraphLimits: time, steps and cancelling end a graph as any thread, and a graph that has changed doesn't go on.
func TestGraphLimits(t *testing.T) {
	cycle :=
		"  start: a\n  nodes:\n    a: {action: {item_id: acme/echo, params: {text: x}}, assign: {n: \"${result}\"}, next: [{to: a, when: {path: state.n, op: exists}}]}\n"
	w := newWorld(t, graphs(map[string]string{"flow": flow("limits: {turns: 5}\n", cycle)}))
	r, err := w.walk("flow", nil)
	must(t, err)
	if r.Status != thread.Interrupted || r.Cost.Turns != 5 ||
		!strings.Contains(r.Error.Text, "turns_exceeded (5 of 5)") {
		t.Fatalf("%+v, %v", r, r.Error)
	}
	// A record that says that the time was over where a call had come back, and its step wasn't recorded yet.
	events, err := replay.RecordingOf(w.dir(r.Thread))
	must(t, err)
	last := slices.IndexFunc(events, func(e *replay.RecordedEvent) bool { return e.Type == transcript.TypeNodeResult })
	stop := slices.IndexFunc(events, func(e *replay.RecordedEvent) bool { return e.Type == transcript.TypeLimit })
	limit, waits := events[stop].Payload, events[stop+2].Payload
	limit["code"], limit["current"], limit["max"] = "duration_seconds_exceeded", 1.5, 1.0
	waits["error"].(object)["message"] = "the thread has reached a limit: duration_seconds_exceeded (1.5 of 1)"
	events[stop+3].Payload["turn"] = 1.0
	dir := filepath.Join(t.TempDir(), "late")
	must(t, replay.RestoreRecording(dir, append(events[:last:last], events[stop:]...)))
	if played, err := w.engine.PlayBack(t.Context(), dir); err != nil || played.Difference != nil {
		t.Errorf("%v, %+v", err, played)
	}
	again, err := w.resume(r.Thread, "turns=1000000", fmt.Sprint("duration_seconds=", int(r.Cost.Seconds)+2))
	must(t, err)
	if again.Status != thread.Interrupted || !strings.Contains(again.Error.Text, "duration_seconds_exceeded") ||
		again.Cost.Turns < 6 {
		t.Fatalf("%+v, %v", again, again.Error)
	}
	w.same(r.Thread)
	ctx, cancel := context.WithCancel(t.Context())
	steps := 0
	stopped, err := w.engine.Resume(ctx, &thread.Resume{Thread: r.Thread,
		Limits: []string{"duration_seconds=100", "turns=1000000"}, Live: thread.Live{Event: func(e *transcript.Event) {
			if e.Type == transcript.TypeNodeStarted {
				if steps++; steps == 3 {
					cancel()
				}
			}
		}}})
	if err != nil || stopped.Status != thread.Interrupted || steps < 3 || steps > 5 {
		t.Errorf("%+v, %v, %d steps", stopped, err, steps)
	}
	w.Put("tools/acme/flow.yaml", flow("limits: {turns: 6}\n", cycle))
	if _, err := w.resume(r.Thread); fault.CodeOf(err) != fault.Conflict {
		t.Error(err)
	}
	w.Put("tools/acme/flow.yaml", flow("", "  start: b\n  nodes: {a: {type: return}}\n"))
	if _, err := w.walk("flow", nil); fault.CodeOf(err) != fault.Validation ||
		!strings.Contains(err.Error(), `line 9`) {
		t.Error(err)
	}
}

// TestGraphTogether: the calls of a foreach run side by side, and the first that fails cancels the rest.
func TestGraphTogether(t *testing.T) {
	slow := strings.Replace(echo, `    if params["text"]`,
		"    if params[\"text\"] == \"slow\":\n        for i in range(100000000):\n            pass\n    if params[\"text\"]",
		1)
	items := graphs(map[string]string{"flow": flow("",
		"  start: a\n  nodes:\n    a: {type: foreach, over: [slow, fail, slow], action: {item_id: acme/echo, params: {text: \"${item}\"}}, collect: all}\n")})
	items["tools/acme/echo.star"] = slow
	w := newWorld(t, items)
	began := time.Now()
	r, err := w.walk("flow", nil)
	must(t, err)
	statuses := map[string]int{}
	for _, e := range w.events(r) {
		var c transcript.CallResult
		if e.Type == transcript.TypeCallResult && e.Decode(&c) == nil {
			statuses[c.Status]++
		}
	}
	if r.Status != thread.Failed || statuses[transcript.CallFailed] != 1 ||
		statuses[transcript.CallCancelled]+statuses[transcript.CallRefused]+statuses[transcript.CallFailed] != 3 {
		t.Errorf("%+v, %v after %s: %v", r, r.Error, time.Since(began), statuses)
	}
	w.same(r.Thread)
}

// TestGraphCancelled: a foreach ends between its calls where another process cancels it, and what it has done by then
// is signed.
func TestGraphCancelled(t *testing.T) {
	w := newWorld(t, graphs(map[string]string{"echo": here,
		"flow": flow("input_schema: {properties: {list: {type: array}}}\n",
			"  start: a\n  nodes:\n    a: {type: foreach, over: \"${inputs.list}\", action: {item_id: acme/echo, params: {text: x}}}\n")}))
	list := make([]any, 5000)
	made, signed := 0, 0
	r, err := w.engine.Run(t.Context(), &thread.Start{Directive: model.Ref{Kind: "tool", ID: "acme/flow"},
		Inputs: params.Values(object{"list": list}), Live: thread.Live{Event: func(e *transcript.Event) {
			switch e.Type {
			case transcript.TypeCallResult:
				if made++; made == 104 {
					w.ask(e.Thread, roster.Cancel)
				}
			case transcript.TypeCheckpoint:
				signed++
			}
		}}})
	if err != nil || r.Status != thread.Cancelled || made < 104 || made > 400 || signed < 2 {
		t.Fatalf("%+v, %v, %d calls, %d checkpoints", r, err, made, signed)
	}
	w.same(r.Thread)
}

// TestGraphPrinted: the graph that the documentation prints runs as it is printed, and so does one of rye 1, whose
// config_schema declares the inputs.
func TestGraphPrinted(t *testing.T) {
	page, err := fs.ReadFile(std.FS(), "knowledge/rye/graphs.md")
	must(t, err)
	_, text, _ := strings.Cut(string(page), "\nversion: \"1.0.0\"\ntool_type: ")
	text, _, _ = strings.Cut("\nversion: \"1.0.0\"\ntool_type: "+text, "\nEOF\n")
	if !strings.Contains(text, "input_schema:") {
		t.Fatalf("the page has no graph: %s", text)
	}
	items := graphs(map[string]string{"pages": text[1:],
		"old": strings.Replace(text[1:], "input_schema:", "config_schema:", 1)})
	for id, gives := range map[string]string{"fetch": `{"page": params["name"]}`,
		"report": `{"greeting": params["name"]}`} {
		head, _, _ := strings.Cut(echo, "input_schema")
		items["tools/acme/"+id+".star"] = head +
			"input_schema: {type: object}\n# ---\ndef main(params):\n    return " + gives + "\n"
	}
	w := newWorld(t, items)
	for _, id := range []string{"pages", "old"} {
		for most, want := range map[int]string{1: `{"pages":[{"page":"a"},{"page":"b"}]}`,
			3: `{"pages":[{"page":"a"},{"page":"b"}],"text":"all of [{\"page\":\"a\"},{\"page\":\"b\"}]"}`} {
			inputs := object{"urls": []any{"a", "b"}}
			if most != 3 { // the default
				inputs["most"] = float64(most)
			}
			r, err := w.walk(id, inputs)
			must(t, err)
			if got := w.outputs(r, nil); got != want {
				t.Errorf("%s: %s, want %s", id, got, want)
			}
			w.same(r.Thread)
		}
		if _, err := w.walk(id, nil); fault.CodeOf(err) != fault.Validation {
			t.Errorf("%s without urls: %v", id, err)
		}
	}
}
