package thread_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// failing gives the world books of their own, and has changes of files fail from the n-th on until the returned
// function heals them: what threads then left behind is tidied up as after the end of their process.
func (w *world) failing(n int) (heal func() (failed bool)) {
	hook, healed := journaltest.Full(n)
	books := filepath.Join(w.Paths().State.Path, "books", fmt.Sprint(n))
	open := func() (*roster.Local, *ledger.Local) {
		return roster.Open(filepath.Join(books, "registry"), time.Now, hook),
			ledger.In(filepath.Join(books, "ledger"), hook)
	}
	rows, money := open()
	w.engine.Hook, w.engine.Roster, w.engine.Ledger = hook, rows, money
	return func() bool {
		w.t.Helper()
		failed := healed()
		rows.Close() // what can't be written is read again
		money.Shut()
		rows, money = open()
		w.t.Cleanup(func() { rows.Close(); money.Shut() })
		rows.Runs = func(int) string { return "" }
		w.engine.Roster, w.engine.Ledger = rows, money
		_, err := control.Tidy(w.t.Context(), rows, money, roster.Filter{}, time.Now())
		must(w.t, err)
		return failed
	}
}

// last returns the thread at the end of a chain of threads that handed their work on, and reports whether any had
// begun.
func (w *world) last() (row *roster.Thread, begun bool) {
	w.t.Helper()
	rows, err := w.engine.Roster.Threads(w.t.Context(), roster.Filter{})
	must(w.t, err)
	for _, r := range rows {
		if r.Parent == "" && r.Continues == "" {
			row = r
		}
	}
	for row != nil && row.State == roster.Continued {
		row = w.state(row.Next)
	}
	return row, row != nil
}

// TestFaults: a change of a file that fails ends a thread with that error, at the latest when it would have ended
// anyway. Nothing is lost by it: the thread goes on, and is in the end what it would have been.
func TestFaults(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("one thread after the other")
	}
	usage := provider.Usage{Input: 10, Output: 5}
	returns := modeltest.Turn{Calls: []provider.ToolCall{call("z", "directive_return", object{"answer": "x"})},
		Usage: usage}
	finds := modeltest.Turn{Calls: []provider.ToolCall{call("a", "rye_search",
		object{"query": "echo", "scope": "tool.acme.*"})}, Usage: usage}
	last := func(q *modeltest.Request) object {
		all := q.Body["messages"].([]any)
		return all[len(all)-1].(object)
	}
	for _, c := range []struct {
		name   string
		items  map[string]string
		start  thread.Start
		more   []string // limits that it goes on with
		window int
		step   int // which changes fail: each n-th
		answer func(q *modeltest.Request) modeltest.Turn
	}{
		{"a limit", withOutputs(asking), thread.Start{Limits: []string{"turns=1"}}, []string{"turns=6"}, 0, 1,
			func(q *modeltest.Request) modeltest.Turn {
				if last(q)["role"] == "tool" {
					return returns
				}
				return finds
			}},
		{"a child", plan(""), thread.Start{Directive: model.Ref{Kind: "directive", ID: "acme/plan"},
			Inputs: params.Values(object{"what": "one"})}, nil, 0, 2,
			func(q *modeltest.Request) modeltest.Turn {
				m := last(q)
				if m["role"] == "tool" || !strings.Contains(fmt.Sprint(m["content"]), "start one") {
					return modeltest.Turn{Text: "done", Usage: usage}
				}
				return modeltest.Turn{Calls: []provider.ToolCall{starts("a", "acme/plan", nil)}, Usage: usage}
			}},
		{"handed over", withOutputs(asking), thread.Start{Limits: []string{"tokens=1000000"}}, nil, 100_000, 3,
			func(q *modeltest.Request) modeltest.Turn {
				switch all := fmt.Sprint(q.Body["messages"]); {
				case strings.Contains(all, "Write that summary"):
					return modeltest.Turn{Text: "We were at three.", Usage: usage}
				case strings.Contains(all, "We were at three."):
					return returns
				}
				full := finds
				full.Usage = provider.Usage{Input: 95_000, Output: 5}
				return full
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.items)
			if c.window > 0 {
				w.window(c.window)
			}
			w.server.Handle(c.answer)
			w.lock() // to be written into each thread's directory
			failed := 0
			for n := 1; w.faulty(n, c.start, c.more); n += c.step {
				failed++
			}
			if failed < 20 {
				t.Errorf("%d changes failed", failed)
			}
		})
	}
}

// faulty runs a thread whose n-th change of a file fails, has it go on, and reports whether it had so many.
func (w *world) faulty(n int, start thread.Start, more []string) (failed bool) {
	t := w.t
	t.Helper()
	heal := w.failing(n)
	r, err := w.run(t.Context(), start)
	if err == nil && r.Status == thread.Interrupted && more != nil {
		r, err = w.resume(r.Thread, more...)
	}
	if failed = heal(); failed && err == nil && r.Success && r.Error == nil {
		t.Errorf("change %d failed, and the thread is completed: %+v", n, r)
	}
	if err != nil && !errors.Is(err, journaltest.ErrFull) {
		t.Errorf("change %d: %v", n, err)
	}
	row, begun := w.last()
	if !begun {
		return failed
	}
	for tries := 0; !row.State.Ended(); tries++ { // the first one may have to finish what was decided at a limit
		r, err := w.resume(row.ID, more...)
		if _, missing := os.Stat(filepath.Join(w.dir(row.ID), transcript.LinesFile)); err != nil &&
			fault.CodeOf(err) == fault.NotFound && errors.Is(missing, os.ErrNotExist) {
			return failed // it had not begun
		}
		if err != nil || r.Status != thread.Completed && tries > 0 || r.Status == thread.Failed {
			t.Fatalf("change %d: %+v, %v", n, r, err)
		}
		row, _ = w.last()
	}
	if row, _ = w.last(); row.State != roster.Completed {
		t.Errorf("change %d: %+v", n, row)
	}
	w.same(row.ID)
	return failed
}

// window makes the context window of the model so small.
func (w *world) window(tokens int) {
	w.t.Helper()
	item := w.server.Item("local")
	if !strings.Contains(item, "context_window: 32768\n") {
		w.t.Fatal(item)
	}
	w.Put("tools/rye/agent/providers/local.yaml",
		strings.Replace(item, "context_window: 32768\n", fmt.Sprintf("context_window: %d\n", tokens), 1))
}
