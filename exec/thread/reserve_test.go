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

// requests are those that the record of a thread has.
func (w *world) requests(r *thread.Result) (all []transcript.Request) {
	for _, e := range w.events(r) {
		var q transcript.Request
		if e.Type == transcript.TypeRequest {
			must(w.t, e.Decode(&q))
			all = append(all, q)
		}
	}
	return all
}

// TestReserved: what is reserved for a model call covers each byte that the service hasn't counted, also when it is
// made again, and when the loop offers other tools.
func TestReserved(t *testing.T) {
	t.Parallel()
	const perToken = 1000 // nano-dollars
	usage := provider.Usage{Input: 500, Output: 20}
	result := strings.Repeat("x", 9000)
	w := newWorld(t, plain(asking))
	w.provider(32768)
	w.server.Add(modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/echo",
		object{"text": "x", "times": len(result)})}, Usage: usage},
		modeltest.Turn{Status: 503, Late: true, Text: "Hm", RetryAfter: "0"},
		modeltest.Turn{Text: "done", Usage: usage})
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	all := w.requests(r)
	if !r.Success || len(all) != 3 || all[1].Reserved < (520+9000)*perToken || all[2].Reserved < all[1].Reserved {
		t.Fatalf("%+v, %v: %+v", r, r.Error, all)
	}
	// What may have been used counts for the limit of tokens too.
	if r.Cost.InputTokens < 1000+9000 || r.Cost.OutputTokens < 40 {
		t.Errorf("%+v", r.Cost)
	}
	w.same(r.Thread)

	items := plain(asking)
	items["tools/rye/agent/loop.star"] = starlark("rye/agent") + `def main(ctx):
    messages = ctx.first()
    answer = ctx.model(messages, [])
    many = [{"name": "t%d" % i, "description": "d" * 1000, "schema": {"type": "object"}} for i in range(20)]
    return {"text": ctx.model(messages + [answer["message"], {"role": "user", "text": "and?"}], many)["text"]}
`
	w = newWorld(t, items, modeltest.Turn{Text: "one", Usage: usage}, modeltest.Turn{Text: "two", Usage: usage})
	w.provider(32768)
	r, err = w.run(t.Context(), thread.Start{})
	must(t, err)
	if all := w.requests(r); r.Result != "two" || len(all) != 2 || all[1].Reserved < 20_520*perToken {
		t.Errorf("%+v, %v: %d reserved", r, r.Error, all[len(all)-1].Reserved)
	}
}

// TestOverhead: what a service adds to a request by itself, as its provider says, is reserved too.
func TestOverhead(t *testing.T) {
	t.Parallel()
	reserved := func(overhead string) int64 {
		w := newWorld(t, plain(asking), done)
		w.provider(32768, "overhead_tokens: 1000\n", "overhead_tokens: "+overhead+"\n")
		r, err := w.run(t.Context(), thread.Start{})
		must(t, err)
		return w.requests(r)[0].Reserved
	}
	if none, much := reserved("0"), reserved("5000"); much-none != 5000*1000 {
		t.Errorf("%d and %d nano-dollars are reserved", none, much)
	}
}

// TestAnswerBound: an answer may have as many tokens as the limit leaves beside the request, and no more is reserved
// for it.
func TestAnswerBound(t *testing.T) {
	t.Parallel()
	bound := func(limit int64) (most float64, reserved int64) {
		w := newWorld(t, plain(asking), done)
		w.provider(32768)
		r, err := w.run(t.Context(), thread.Start{Limits: []string{fmt.Sprint("tokens=", limit)}})
		must(t, err)
		most, _ = w.server.Requests()[0].Body["max_tokens"].(float64)
		return most, w.requests(r)[0].Reserved
	}
	most, all := bound(100_000)
	request := all/1000 - int64(most) // in tokens
	if less, part := bound(request + 7); most != 8192 || less != 7 || part != (request+7)*1000 {
		t.Errorf("%g, then %g tokens; %d, then %d nano-dollars", most, less, all, part)
	}
}

// TestWideRefused: a request that was refused because it is too wide is none that the record could count on.
func TestWideRefused(t *testing.T) {
	t.Parallel()
	items := plain(asking)
	items["tools/rye/agent/loop.star"] = starlark("rye/agent") + `def main(ctx):
    messages = ctx.first()
    wide = messages + [{"role": "assistant", "text": "x" * 200000}]
    if "error" not in ctx.model(wide, []):
        fail("it was sent")
    return {"text": ctx.model(wide[:1] + [{"role": "assistant", "text": "y"}, {"role": "user", "text": "z"}], [])["text"]}
`
	w := newWorld(t, items, done)
	r, err := w.run(t.Context(), thread.Start{Limits: []string{"tokens=1000000"}})
	must(t, err)
	all := w.requests(r)
	if !r.Success || len(all) != 1 || all[0].Kept != 0 || len(all[0].Messages) != 3 {
		t.Errorf("%+v, %v: %+v", r, r.Error, all)
	}
	w.same(r.Thread)
}

// TestUnreported: a service that doesn't say what it used is taken to have used what it was sent and what it wrote.
func TestUnreported(t *testing.T) {
	t.Parallel()
	silent := modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/echo",
		object{"text": strings.Repeat("x", 3000)})}, RawUsage: "none"}
	w := newWorld(t, plain(asking), silent, modeltest.Turn{Text: "done", RawUsage: "none"})
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	sent := int64(len(fmt.Sprint(w.server.Requests()[0].Body["messages"])))
	if !r.Success || r.Cost.OutputTokens < 3000 || r.Cost.InputTokens < sent {
		t.Errorf("%+v, %v", r, r.Error)
	}
	w.same(r.Thread)
}

// TestFullWindow: a thread whose calls fill the window with real text hands over to one that knows its task and has
// room: also when the last turn alone is too large.
func TestFullWindow(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string]int{"turn by turn": 1, "one turn": 5} {
		for _, summary := range []string{"We were at three.", ""} {
			t.Run(name+summary, func(t *testing.T) {
				w := newWorld(t, plain(asking))
				w.window(8000)
				var handed, summarised string
				w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
					all := fmt.Sprint(q.Body["messages"])
					usage := provider.Usage{Input: provider.Size(q.Body["messages"])/provider.PerToken + 300,
						Output: 5}
					switch {
					case strings.Contains(all, "Write that summary"):
						summarised = all
						return modeltest.Turn{Text: summary, Usage: usage}
					case w.handedOver():
						handed = all
						return modeltest.Turn{Text: "done", Usage: usage}
					}
					turn := modeltest.Turn{Usage: usage}
					for i := range calls {
						turn.Calls = append(turn.Calls, executes(fmt.Sprint("c", i), "acme/echo",
							object{"text": "0123456789", "times": 700}))
					}
					return turn
				})
				r, err := w.run(t.Context(), thread.Start{Limits: []string{"tokens=1000000", "turns=20"}})
				must(t, err)
				if !r.Success || r.Result != "done" || len(handed) > 18_000 ||
					!strings.Contains(handed, "Ask about rye, 2 deep") || !strings.Contains(handed, summary) ||
					!strings.Contains(handed, "0123456789") ||
					strings.Contains(handed, "the rest was left out") != (calls > 1) {
					t.Errorf("%+v, %v: it was handed %d bytes: %.3000s", r, r.Error, len(handed), handed)
				}
				if len(summarised) > 20_000 || !strings.Contains(summarised, "Ask about rye, 2 deep") {
					t.Errorf("summarised were %d bytes: %.300s", len(summarised), summarised)
				}
				w.same(r.Thread)
			})
		}
	}
}

// handedOver reports whether a thread goes on with another one's work.
func (w *world) handedOver() bool {
	w.t.Helper()
	rows, err := w.engine.Roster.Threads(w.t.Context(), roster.Filter{})
	must(w.t, err)
	for _, row := range rows {
		if row.Continues != "" {
			return true
		}
	}
	return false
}
