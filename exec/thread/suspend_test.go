package thread_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
)

// TestSuspendedAnywhere: a thread that a hook stops at any event goes on from there, once for each time that it was
// stopped.
func TestSuspendedAnywhere(t *testing.T) {
	t.Parallel()
	for event, stops := range map[string]int{"thread_started": 1, "before_step": 2, "tool_call_start": 1,
		"tool_call_result": 1, "after_step": 1, "error": 1} {
		for _, action := range []string{"suspend", "escalate"} {
			if testing.Short() && (action == "suspend") == (event == "error") { // the other half differs in a word
				continue
			}
			t.Run(event+" "+action, func(t *testing.T) {
				items := withHooks(fmt.Sprintf(`<hook event=%q id="a"><action>%s</action></hook>`, event, action))
				w := newWorld(t, items, modeltest.Turn{Status: 404}, echoes("x"), done)
				if event != "error" {
					w = newWorld(t, items, echoes("x"), done)
				}
				r, err := w.run(t.Context(), thread.Start{})
				for range stops {
					must(t, err)
					if r.Status != thread.Interrupted || r.Error.Code != fault.Limit {
						t.Fatalf("%+v, %v", r, r.Error)
					}
					w.same(r.Thread)
					r, err = w.resume(r.Thread)
				}
				must(t, err)
				if !r.Success || r.Result != "done" || r.Cost.Turns != 2 ||
					strings.Count(types(w.events(r)), "waiting") != stops {
					t.Errorf("%+v, %v: %s", r, r.Error, types(w.events(r)))
				}
				w.same(r.Thread)
			})
		}
	}
}

// TestTimeOver: when the time of a thread is over, what it does is ended, hooks are asked, and it goes on with more
// time.
func TestTimeOver(t *testing.T) {
	hang := modeltest.Turn{Hang: true}
	asks := `<hook event="limit" id="a"><tool>acme.echo</tool><params><text>${limit_code}</text></params></hook>`
	for name, turns := range map[string][]modeltest.Turn{
		"at first":        {hang, echoes("x"), done},
		"after calls":     {echoes("x"), hang, done},
		"after a failure": {{Status: 404}, echoes("x"), hang, done},
	} {
		if testing.Short() && name == "at first" { // each waits for a second
			continue
		}
		t.Run(name, func(t *testing.T) {
			var w *world
			var r *thread.Result
			var err error
			var last string
			late(t, func(limit string) bool {
				last = limit
				w = newWorld(t,
					withHooks(asks+`<hook event="error" id="b"><action>retry</action><delay>0</delay></hook>`),
					turns...)
				r, err = w.run(t.Context(), thread.Start{Limits: []string{limit}})
				must(t, err)
				return w.server.Left() == len(turns)-1-slices.IndexFunc(turns, func(t modeltest.Turn) bool {
					return t.Hang
				})
			})
			if r.Status != thread.Interrupted || r.Error.Code != fault.Limit ||
				!strings.Contains(r.Error.Text, "duration_seconds_exceeded") ||
				fmt.Sprint("duration_seconds=", r.Error.Details["max"]) != last {
				t.Fatalf("%+v, %v", r, r.Error)
			}
			if got := types(w.events(r)); !strings.HasSuffix(got,
				"request limit call_started call_result hook hook waiting checkpoint") {
				t.Errorf("recorded %s", got)
			}
			w.same(r.Thread)
			r, err = w.resume(r.Thread, "duration_seconds=1000")
			must(t, err)
			if !r.Success || r.Result != "done" {
				t.Errorf("%+v, %v", r, r.Error)
			}
			w.same(r.Thread)
		})
	}
	var w *world
	var r *thread.Result
	late(t, func(limit string) (reached bool) {
		w = newWorld(t, withHooks(`<hook event="limit" id="a"><action>fail</action><error>late</error></hook>`), hang)
		var err error
		r, err = w.run(t.Context(), thread.Start{Limits: []string{limit}})
		must(t, err)
		return w.server.Left() == 0
	})
	if r.Status != thread.Failed || r.Error.Text != "late" {
		t.Errorf("%+v, %v", r, r.Error)
	}
	w.same(r.Thread)
}

// late runs a thread with a limit of time, and again with twice as much where that was over before the model had hung:
// a busy machine takes more than a second to get there.
func late(t *testing.T, run func(limit string) (reached bool)) {
	t.Helper()
	for seconds := 1; !run(fmt.Sprintf("duration_seconds=%d", seconds)); seconds *= 2 {
		if seconds > 100 {
			t.Fatal("the model was never asked")
		}
	}
}

// TestTimeOfChildren: a child whose parent gets more time has it too.
func TestTimeOfChildren(t *testing.T) {
	var w *world
	var r *thread.Result
	var hung atomic.Bool
	model := func(q *modeltest.Request) modeltest.Turn {
		all := q.Body["messages"].([]any)
		first, last := fmt.Sprint(all[0].(object)["content"]), all[len(all)-1].(object)
		switch {
		case last["role"] == "tool":
			return modeltest.Turn{Text: fmt.Sprint(last["content"])}
		case strings.Contains(first, "start it"):
			return modeltest.Turn{Calls: []provider.ToolCall{starts("a", "acme/plan",
				object{"inputs": object{"what": "no more"}})}}
		case !hung.Swap(true):
			return modeltest.Turn{Hang: true}
		}
		return modeltest.Turn{Text: "of the child"}
	}
	late(t, func(limit string) bool {
		w = newWorld(t, plan(""))
		hung.Store(false)
		w.server.Handle(model)
		r = w.plan("it", limit)
		return hung.Load()
	})
	if r.Status != thread.Interrupted {
		t.Fatalf("%+v, %v", r, r.Error)
	}
	r, err := w.resume(r.Thread, "duration_seconds=1000")
	must(t, err)
	if !r.Success || !strings.Contains(r.Result, "of the child") {
		t.Errorf("%+v, %v", r, r.Error)
	}
	w.same(r.Thread)
}
