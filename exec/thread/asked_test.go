package thread_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/roster"
)

// ask asks a thread for something as another process would: with a registry of its own.
func (w *world) ask(id, what string) {
	rows, money := thread.Local(w.Paths().State.Path, time.Now)
	defer rows.Close()
	defer money.Shut()
	if _, err := rows.Ask(w.t.Context(), id, roster.Request{For: what, Reason: "not needed"}); err != nil {
		w.t.Error(err)
	}
}

// running returns the thread of a directive that runs.
func (w *world) running(directive string) string {
	all, err := w.engine.Roster.Threads(w.t.Context(), roster.Filter{})
	if err != nil {
		w.t.Error(err)
	}
	for _, row := range all {
		if row.State == roster.Running && row.Directive == "directive:"+directive {
			return row.ID
		}
	}
	return ""
}

// TestAskedToEnd: a thread that another process cancels ends at the next safe point, and one that is killed at once,
// each with its children, its account and its row.
func TestAskedToEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ what, at string }{
		{roster.Cancel, "parent"}, {roster.Cancel, "child"}, {roster.Kill, "parent"}, {roster.Kill, "child"},
	} {
		t.Run(c.what+" in the "+c.at, func(t *testing.T) {
			w, _ := family(t, plan(""), nil)
			asked := 0
			usage := provider.Usage{Input: 10, Output: 5}
			w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
				first := fmt.Sprint(q.Body["messages"].([]any)[0])
				asked++
				if c.at == "child" && !strings.Contains(first, "below") {
					return modeltest.Turn{Text: "on", Calls: []provider.ToolCall{starts("a", "acme/plan",
						object{"inputs": object{"what": "below"}})}, Usage: usage}
				}
				top := ""
				for id := range all(t, w) {
					if row := all(t, w)[id]; row.Parent == "" {
						top = id
					}
				}
				w.ask(top, c.what)
				if c.what == roster.Kill {
					return modeltest.Turn{Hang: true}
				}
				return modeltest.Turn{Text: "on", Calls: []provider.ToolCall{executes("b", "acme/echo",
					object{"text": "x"})}, Usage: usage}
			})
			r := w.plan("top")
			want := map[string]roster.State{roster.Cancel: roster.Cancelled, roster.Kill: roster.Killed}[c.what]
			if r.Status != string(want) || r.Error == nil || r.Error.Code != fault.Cancelled ||
				!strings.Contains(r.Error.Text, "not needed") {
				t.Errorf("%+v, %v", r, r.Error)
			}
			// A request to cancel arrives through the journal while the thread goes on: on a busy machine a few calls
			// later.
			least := map[string]int{"parent": 1, "child": 2}[c.at]
			if asked < least || c.what == roster.Kill && asked > least || asked > least+3 {
				t.Errorf("%d model calls", asked)
			}
			money, err := w.engine.Ledger.Accounts(t.Context())
			must(t, err)
			for id, row := range all(t, w) {
				if row.State != want || !money[id].Closed || money[id].Held != 0 {
					t.Errorf("%+v, %+v", row, money[id])
				}
				w.same(id)
			}
		})
	}
}

func all(t testing.TB, w *world) map[string]*roster.Thread {
	t.Helper()
	list, err := w.engine.Roster.Threads(t.Context(), roster.Filter{})
	must(t, err)
	rows := map[string]*roster.Thread{}
	for _, row := range list {
		rows[row.ID] = row
	}
	return rows
}

// TestFenced: a driver whose thread another process has claimed makes no further model call, writes nothing, and
// spends nothing.
func TestFenced(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"while it waits", "before it looks"} {
		t.Run(at, func(t *testing.T) {
			w, _ := family(t, plan(""), nil)
			asked := 0
			var before ledger.Balance
			w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
				asked++
				rows, money := thread.Local(w.Paths().State.Path, time.Now)
				defer rows.Close()
				defer money.Shut()
				rows.Runs = func(int) string { return "" } // as one that can't see the driver
				id := w.running("acme/plan")
				if _, err := rows.Claim(t.Context(), id, 1,
					roster.Driver{Process: 1, Start: "elsewhere", Host: "other"}); err != nil {
					t.Error(err)
				}
				a, err := ledger.Get(t.Context(), money, id)
				if err != nil {
					t.Error(err)
				}
				before = *a
				if at == "while it waits" {
					return modeltest.Turn{Hang: true}
				}
				return modeltest.Turn{Text: "on", Calls: []provider.ToolCall{executes("b", "acme/echo",
					object{"text": "x"})}, Usage: provider.Usage{Input: 10, Output: 5}}
			})
			_, err := w.run(t.Context(), thread.Start{Directive: model.Ref{Kind: "directive", ID: "acme/plan"},
				Inputs: params.Values(object{"what": "x"})})
			if f := fault.Of(err); f.Code != fault.Conflict || len(f.Hint) != 1 ||
				!strings.HasPrefix(f.Hint[0], "rye thread wait acme/plan-") {
				t.Errorf("%v, %q", err, f.Hint)
			}
			for id, row := range all(t, w) {
				a, err := ledger.Get(t.Context(), w.engine.Ledger, id)
				must(t, err)
				if row.State != roster.Running || row.Epoch != 2 || row.Driver.Host != "other" ||
					a.Own != before.Own || a.Held != before.Held || a.Closed || asked != 1 {
					t.Errorf("%+v, %+v, %+v, %d model calls", row, a, before, asked)
				}
			}
		})
	}
}
