package thread_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// parent is a directive that may start threads. Its model starts what stands behind "start".
const parent = `<directive name="plan" version="1.0.0"><metadata><description>Plans</description><category>acme</category>` +
	`<model provider="local" id="test-model"/>LIMITS<permissions><execute><tool>rye/agent/threads/thread_directive</tool><tool>acme/echo</tool></execute></permissions></metadata>` +
	`<process>start {input:what?}</process><inputs><input name="what" type="string"/></inputs></directive>
`

// starts is a call that starts a thread.
func starts(id, directive string, more object) provider.ToolCall {
	given := object{"directive_name": directive}
	for k, v := range more {
		given[k] = v
	}
	return executes(id, "rye/agent/threads/thread_directive", given)
}

// family is a world of directives that start others: each asks for the children that children returns for its first
// message, and says "done" when it has their results, which are kept.
func family(t testing.TB, items map[string]string, children func(first string) []provider.ToolCall) (*world,
	func() []object) {
	w := newWorld(t, items)
	results := make(chan object, 1000)
	w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
		all := q.Body["messages"].([]any)
		usage := provider.Usage{Input: 10, Output: 5}
		for _, m := range all {
			if m := m.(object); m["role"] == "tool" {
				var r object
				must(t, json.Unmarshal([]byte(m["content"].(string)), &r))
				results <- r
			}
		}
		if last := all[len(all)-1].(object); last["role"] == "tool" {
			return modeltest.Turn{Text: "done", Usage: usage}
		}
		return modeltest.Turn{Text: "done", Calls: children(fmt.Sprint(all[len(all)-1].(object)["content"])),
			Usage: usage}
	})
	return w, func() (got []object) {
		for len(results) > 0 {
			got = append(got, <-results)
		}
		return got
	}
}

func plan(limits string) map[string]string {
	return map[string]string{"directives/acme/plan.md": strings.ReplaceAll(parent, "LIMITS", limits)}
}

func (w *world) plan(what string, limits ...string) *thread.Result {
	w.t.Helper()
	r, err := w.run(w.t.Context(), thread.Start{Directive: model.Ref{Kind: "directive", ID: "acme/plan"},
		Inputs: params.Values(object{"what": what}), Limits: limits})
	must(w.t, err)
	return r
}

// TestChildren: children of one turn run side by side, each with a thread of its own that its parent's record names,
// and what they spend is their parent's too.
func TestChildren(t *testing.T) {
	t.Parallel()
	w, results := family(t, plan(""), func(first string) []provider.ToolCall {
		if !strings.Contains(first, "start two") {
			return nil
		}
		return []provider.ToolCall{starts("a", "acme/plan", object{"inputs": object{"what": "nothing"}}),
			starts("b", "acme/plan", nil)}
	})
	r := w.plan("two")
	if !r.Success || r.Result != "done" {
		t.Fatalf("%+v, %v", r, r.Error)
	}
	for _, got := range results() {
		if got["success"] != true || got["status"] != "completed" || got["result"] != "done" ||
			got["cost"].(object)["turns"] != 1.0 {
			t.Errorf("%v", got)
		}
	}
	var named []string
	for _, e := range w.events(r) {
		var c transcript.CallStarted
		if e.Type == transcript.TypeCallStarted {
			must(t, e.Decode(&c))
			named = append(named, c.Child)
			if row := w.state(c.Child); row.Parent != r.Thread || row.State != roster.Completed {
				t.Errorf("%+v", row)
			}
			w.same(c.Child)
		}
	}
	if len(named) != 2 || named[0] == named[1] || w.state(r.Thread).Spawned != 2 {
		t.Errorf("%v, %+v", named, w.state(r.Thread))
	}
	w.same(r.Thread)
}

// TestSpawns: n children are allowed, and n levels below, exactly.
func TestSpawns(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]int{"spawns=0": 0, "spawns=1": 1, "spawns=2": 2, "spawns=3": 3,
		"spawns=4": 3} {
		w, results := family(t, plan(""), func(first string) []provider.ToolCall {
			if !strings.Contains(first, "start three") {
				return nil
			}
			return []provider.ToolCall{starts("a", "acme/plan", nil), starts("b", "acme/plan", nil),
				starts("c", "acme/plan", nil)}
		})
		w.plan("three", limit)
		ran := 0
		for _, got := range results() {
			if got["success"] == true {
				ran++
			} else if e, _ := got["error"].(object); e["code"] != "LIMIT_EXCEEDED" ||
				!strings.Contains(fmt.Sprint(e["message"]), "spawns_exceeded") {
				t.Errorf("%s: %v", limit, got)
			}
		}
		if ran != want {
			t.Errorf("%s: %d children ran, want %d", limit, ran, want)
		}
	}
	for depth := range 4 {
		w, _ := family(t, plan(""), func(string) []provider.ToolCall {
			return []provider.ToolCall{starts("a", "acme/plan", nil)}
		})
		w.plan("", fmt.Sprint("depth=", depth))
		rows, err := w.engine.Roster.Threads(t.Context(), roster.Filter{})
		must(t, err)
		if len(rows) != depth+1 {
			t.Errorf("depth %d: %d threads", depth, len(rows))
		}
	}
}

// TestCapped: a child's limits are at most its parent's, and no override raises them.
func TestCapped(t *testing.T) {
	t.Parallel()
	w, _ := family(t, plan(`<limits turns="9" tokens="5000"/>`), func(first string) []provider.ToolCall {
		if !strings.Contains(first, "start one") {
			return nil
		}
		return []provider.ToolCall{starts("a", "acme/plan",
			object{"limit_overrides": object{"turns": 100, "tokens": 4000, "spawns": 3}})}
	})
	r := w.plan("one", "turns=7", "spawns=5")
	for _, e := range w.events(r) {
		if e.Type != transcript.TypeCallStarted {
			continue
		}
		var c transcript.CallStarted
		must(t, e.Decode(&c))
		child := w.events(&thread.Result{Thread: c.Child})
		var s transcript.Started
		must(t, child[0].Decode(&s))
		if *s.Limits.Turns != 7 || *s.Limits.Tokens != 4000 || *s.Limits.Spawns != 3 || s.Depth != 9 ||
			s.Parent != r.Thread {
			t.Errorf("%s", child[0].Payload)
		}
		return
	}
	t.Errorf("no child: %+v", r)
}

// TestBadChild: what can't be started goes back to the model.
func TestBadChild(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		call provider.ToolCall
		want string
	}{
		{starts("a", "acme/plan", object{"async_exec": true}), "isn't possible here"},
		{starts("a", "acme/none", nil), "ITEM_NOT_FOUND"},
		{starts("a", "../x", nil), "invalid"},
		{starts("a", "acme/plan", object{"inputs": object{"other": 1}}), "VALIDATION_FAILED"},
		{starts("a", "acme/plan", object{"limit_overrides": object{"speed": 1}}), "VALIDATION_FAILED"},
		{starts("a", "acme/plan", object{"model": "no-such-model"}), "no-such-model"},
		{executes("a", "rye/agent/threads/thread_directive", object{}), "directive_name"},
	} {
		w, results := family(t, plan(""), func(first string) []provider.ToolCall {
			return []provider.ToolCall{c.call}
		})
		w.plan("it", "turns=2")
		got := results()
		if len(got) != 1 || !strings.Contains(fmt.Sprint(got[0]), c.want) {
			t.Errorf("%v: %v", c.call.Input, got)
		}
	}
	items := map[string]string{"directives/acme/asking.md": strings.ReplaceAll(asking, "OUTPUTS", "")}
	w, results := family(t, items, func(string) []provider.ToolCall {
		return []provider.ToolCall{starts("a", "acme/asking", nil)}
	})
	_, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	if got := results(); len(got) != 1 || !strings.Contains(fmt.Sprint(got[0]), "PERMISSION_DENIED") {
		t.Errorf("started without permission: %v", got)
	}
}

// TestChildMoney: a child's budget is its parent's, and what both spend is exact.
func TestChildMoney(t *testing.T) {
	t.Parallel()
	w, _ := family(t, plan(""), func(first string) []provider.ToolCall {
		if !strings.Contains(first, "start two") {
			return nil
		}
		return []provider.ToolCall{starts("a", "acme/plan", nil),
			starts("b", "acme/plan", object{"limit_overrides": object{"spend": 0.3}})}
	})
	w.provider(32768)
	r := w.plan("two", "spend=1")
	const turn = int64(15_000) // 15 tokens at $1 for a million
	a := w.account(r.Thread)
	if !r.Success || a.Own != 2*turn || a.Below != 2*turn || !a.Closed || a.Aside != 0 {
		t.Errorf("%+v, %v\n%+v", r, r.Error, a)
	}
	if r.Cost.Spend != 0.00003 || r.Cost.Below != 0.00003 {
		t.Errorf("%+v", r.Cost)
	}
	var budgets []int64
	for _, e := range w.events(r) {
		var c transcript.CallStarted
		if e.Type == transcript.TypeCallStarted && e.Decode(&c) == nil {
			budgets = append(budgets, *w.account(c.Child).Budget)
		}
	}
	if len(budgets) != 2 || budgets[1] > 333_400_000 || budgets[0] > 334_000_000 || budgets[0] < 200_000_000 {
		t.Errorf("budgets: %v", budgets)
	}
}

// TestSubset: whatever a child declares, it may do nothing that its parent may not.
func TestSubset(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 5))
	word := func(words ...string) string { return words[random.IntN(len(words))] }
	pick := func(wild bool) string {
		id := word("acme", "rye", "a.b")
		for range random.IntN(3) {
			id += "/" + word("x", "y", "z")
		}
		if wild && random.IntN(2) == 0 {
			id += "/*"
		}
		return word("execute", "load", "search") + ":" + word("tool", "knowledge") + ":" + id
	}
	set := func() capability.Set {
		var all []string
		for range random.IntN(5) {
			all = append(all, pick(true))
		}
		s, err := capability.ParseSet(all)
		must(t, err)
		return s
	}
	times := 100_000
	if testing.Short() {
		times = 5000 // one goroutine
	}
	for range times {
		parent, child := set(), set()
		both, err := child.Intersect(parent)
		must(t, err)
		grandchild, err := set().Intersect(both)
		must(t, err)
		need, err := capability.Parse(pick(false))
		must(t, err)
		if both.Covers(need) && !(parent.Covers(need) && child.Covers(need)) || grandchild.Covers(need) &&
			!both.Covers(need) {
			t.Fatalf("%v, %v: %v covers %v", parent.Strings(), child.Strings(), both.Strings(), need)
		}
	}
}
