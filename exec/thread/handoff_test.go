package thread_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// TestHandoff: a thread whose window is nearly full goes on in another one, with a summary, the last messages, and
// what is left of its limits; both records are whole, and nothing is gained by it.
func TestHandoff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOutputs(asking))
	item := w.server.Item("local")
	if !strings.Contains(item, "context_window: 32768\n") {
		t.Fatal(item)
	}
	w.Put("tools/rye/agent/providers/local.yaml",
		strings.Replace(item, "context_window: 32768\n", "context_window: 4000\n", 1))
	var summarised, handed []string
	turn := 0
	w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
		all := fmt.Sprint(q.Body["messages"])
		switch {
		case strings.Contains(all, "Write that summary"):
			summarised = append(summarised, all)
			return modeltest.Turn{Text: "We were at three.", Usage: provider.Usage{Input: 7, Output: 3}}
		case strings.Contains(all, "We were at three."):
			handed = append(handed, all)
			return modeltest.Turn{Calls: []provider.ToolCall{call("z", "directive_return", object{"answer": "four"})},
				Usage: provider.Usage{Input: 50, Output: 5}}
		}
		turn++
		return modeltest.Turn{Calls: []provider.ToolCall{executes(fmt.Sprint("c", turn), "acme/echo",
			object{"text": fmt.Sprint("step ", turn)})},
			Usage: provider.Usage{Input: int64(turn) * 1240, Output: 5}}
	})
	r, err := w.run(t.Context(), thread.Start{Limits: []string{"spawns=4"}})
	must(t, err)
	if !r.Success || r.Outputs["answer"] != "four" || turn != 3 || len(summarised) != 1 || len(handed) != 1 ||
		r.Cost.Turns != 4 {
		t.Fatalf("%+v, %v: %d turns, %d summaries, %d handed", r, r.Error, turn, len(summarised), len(handed))
	}
	if !strings.Contains(summarised[0], "step 3") {
		t.Errorf("the summary is made of %s", summarised[0])
	}
	rows, err := w.engine.Roster.Threads(t.Context(), roster.Filter{})
	must(t, err)
	var old *roster.Thread
	for _, row := range rows {
		w.same(row.ID)
		if a := w.account(row.ID); !a.Closed {
			t.Errorf("%+v", a)
		}
		if row.State == roster.Continued {
			old = row
		}
	}
	if len(rows) != 3 || old == nil || old.Next != r.Thread || w.state(r.Thread).Continues != old.ID ||
		w.state(r.Thread).State != roster.Completed {
		t.Fatalf("%d threads, %+v, %+v", len(rows), old, w.state(r.Thread))
	}
	events := w.events(r)
	var s transcript.Started
	must(t, events[0].Decode(&s))
	if *s.Limits.Turns != 3 || *s.Limits.Spawns != 3 || *s.Limits.Tokens != 100_000-3*5-1240-2480-3720 ||
		s.Continues != old.ID {
		t.Errorf("%s", events[0].Payload)
	}
	if got := types(w.events(&thread.Result{Thread: old.ID})); !strings.HasSuffix(got,
		"limit call_started call_result thread_continued checkpoint") {
		t.Errorf("recorded %s", got)
	}
	// A thread that was handed its work goes on as any other, also by the id of the one that handed it over.
	turn, handed = 0, nil
	r, err = w.run(t.Context(), thread.Start{Limits: []string{"turns=3"}})
	must(t, err)
	if r.Status != thread.Interrupted || w.state(r.Thread).Continues == "" {
		t.Fatalf("%+v, %v", r, r.Error)
	}
	if r, err = w.resume(w.state(r.Thread).Continues, "turns=2"); err != nil || !r.Success || len(handed) != 1 {
		t.Errorf("%+v, %v, %d", r, err, len(handed))
	}
	w.same(r.Thread)
}

// TestHandoffMoney: the thread that goes on may spend what the one before and its summary have left.
func TestHandoffMoney(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOutputs(asking))
	w.narrow()
	answer, _ := handing()
	w.server.Handle(answer)
	r, err := w.run(t.Context(), thread.Start{Limits: []string{"spend=0.4"}})
	must(t, err)
	var s transcript.Started
	must(t, w.events(r)[0].Decode(&s))
	const used = 1000 * (1240 + 2480 + 3720 + 3*5 + 7 + 3) // three turns and the summary
	if s.Continues == "" || s.Limits.Spend == nil || *s.Limits.Spend != 400_000_000-used {
		t.Errorf("%+v, %v: %+v", r, r.Error, s.Limits)
	}
}
