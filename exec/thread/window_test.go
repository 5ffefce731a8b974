package thread_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
)

// TestTooWide: a request that the model's context window can't hold isn't sent, and the record says why.
func TestTooWide(t *testing.T) {
	t.Parallel()
	items := plain(asking)
	items["directives/acme/asking.md"] += strings.Repeat("All of this has to be read first. ", 5000)
	w := newWorld(t, items, modeltest.Turn{Text: "done"})
	r, err := w.run(t.Context(), thread.Start{Limits: []string{"tokens=1000000"}})
	must(t, err)
	refused := r.Error != nil && r.Error.Code == fault.Limit &&
		strings.Contains(r.Error.Text, "context window of 32768")
	if r.Status != thread.Failed || !refused {
		t.Errorf("%+v, %v", r, r.Error)
	}
	if n := len(w.server.Requests()); n != 0 || !strings.Contains(types(w.events(r)), "limit thread_error") {
		t.Errorf("%d requests, %s", n, types(w.events(r)))
	}
	w.same(r.Thread)
}

// TestWideResults: a thread whose calls gave what fills the window hands over before the next request.
func TestWideResults(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOutputs(asking))
	requests := 0
	w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
		all := fmt.Sprint(q.Body["messages"])
		requests++
		switch {
		case strings.Contains(all, "Write that summary"):
			return modeltest.Turn{Text: "We have much text."}
		case strings.Contains(all, "We have much text."):
			return modeltest.Turn{Calls: []provider.ToolCall{call("z", "directive_return",
				object{"answer": "all of it"})}}
		}
		turn := modeltest.Turn{Usage: provider.Usage{Input: 16_000, Output: 500}}
		for i := range 4 {
			given := object{"text": "0123456789", "times": 1500}
			turn.Calls = append(turn.Calls, executes(fmt.Sprint("c", i), "acme/echo", given))
		}
		return turn
	})
	r, err := w.run(t.Context(), thread.Start{Limits: []string{"tokens=1000000", "spawns=4"}})
	must(t, err)
	if !r.Success || r.Outputs["answer"] != "all of it" || requests != 3 {
		t.Fatalf("%+v, %v, %d requests", r, r.Error, requests)
	}
}

// TestHugeArguments: megabytes that a model writes into a call aren't sent back to it, and the thread ends soundly.
func TestHugeArguments(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("0123456789", 500_000)
	for name, c := range map[string]provider.ToolCall{
		"object":  executes("a", "acme/echo", object{"text": huge}),
		"not one": {ID: "a", Name: "rye_execute", Raw: `{"item_type": "` + huge},
		"unknown": call("a", "no_such_tool", object{"text": huge}),
	} {
		w := newWorld(t, plain(asking), modeltest.Turn{Calls: []provider.ToolCall{c}}, modeltest.Turn{Text: "done"})
		r, err := w.run(t.Context(), thread.Start{Limits: []string{"tokens=100000000"}})
		must(t, err)
		if r.Status == thread.Completed || len(w.server.Requests()) != 1 {
			t.Errorf("%s: %+v, %v, %d requests", name, r, r.Error, len(w.server.Requests()))
		}
		w.same(r.Thread)
	}
}
