package thread_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// TestRun: a directive from its inputs to its outputs, with what the model was sent, what it got back, and the record
// of it.
func TestRun(t *testing.T) {
	t.Parallel()
	usage := provider.Usage{Input: 100, Output: 20}
	w := newWorld(t, withOutputs(asking),
		modeltest.Turn{Text: "I'll ask.", Calls: []provider.ToolCall{executes("a", "acme/echo",
			object{"text": "x", "times": 3})}, Usage: usage},
		modeltest.Turn{Calls: []provider.ToolCall{call("b", "directive_return", object{"answer": "xxx"})},
			Usage: usage})
	var live strings.Builder
	r, err := w.run(t.Context(), thread.Start{Live: thread.Live{Text: func(s string) { live.WriteString(s) }}})
	must(t, err)
	if !r.Success || r.Status != thread.Completed || r.Outputs["answer"] != "xxx" || r.Cost.Turns != 2 ||
		r.Cost.InputTokens != 200 || r.Cost.OutputTokens != 40 {
		t.Errorf("%+v", r)
	}
	if live.String() != "I'll ask." {
		t.Errorf("said %q", live.String())
	}
	first := w.server.Requests()[0].Body["messages"].([]any)
	text := first[len(first)-1].(object)["content"].(string)
	for _, part := range []string{"Ask about rye, 2 deep and no more.", "<description>Asks</description>",
		"- answer: The answer"} {
		if !strings.Contains(text, part) {
			t.Errorf("the first message lacks %q:\n%s", part, text)
		}
	}
	second := string(w.server.Requests()[1].Raw)
	if !strings.Contains(second, `{\"data\":{\"said\":\"xxx\"},\"success\":true}`) {
		t.Errorf("the model got %s", second)
	}
	events := w.events(r)
	if got, want := types(events),
		"thread_started driver request answer call_started call_result checkpoint request answer call_started call_result thread_completed checkpoint"; got != want {
		t.Errorf("recorded %s\nwant     %s", got, want)
	}
	b, err := os.ReadFile(filepath.Join(w.engine.Dir, filepath.FromSlash(r.Thread), "thread.json"))
	if err != nil || !strings.Contains(string(b), `"status": "completed"`) ||
		!strings.Contains(string(b), `"turns": 2`) {
		t.Errorf("thread.json: %s, %v", b, err)
	}
	var result transcript.CallResult
	must(t, events[5].Decode(&result))
	if result.Status != transcript.CallOK || result.Exec == "" || result.Receipt.IsZero() {
		t.Errorf("%+v", result)
	}
}

// TestCalls: whatever the model asks for is answered, and only what the directive may do is done.
func TestCalls(t *testing.T) {
	t.Parallel()
	all := []struct {
		call provider.ToolCall
		want string // what the model is given has this
	}{
		{executes("a", "acme/echo", object{"text": "fail"}), `"message":"it was told to"`},
		{executes("a", "acme/echo", object{}), `"code":"VALIDATION_FAILED"`},
		{executes("a", "acme/other", object{}), `"code":"PERMISSION_DENIED"`},
		{executes("a", "acme/*", object{}), `"error"`},
		{executes("a", "../x", object{}), `"error"`},
		{call("a", "rye_execute", object{"item_type": "tool", "item_id": "acme/echo",
			"parameters": object{"text": "x"}, "dry_run": true}), `"dry_run":true`},
		{call("a", "rye_execute", object{"item_type": "config", "item_id": "x"}), `"code":"VALIDATION_FAILED"`},
		{call("a", "rye_execute", object{"item_type": "directive", "item_id": "acme/asking"}),
			`"code":"PERMISSION_DENIED"`},
		{call("a", "rye_load", object{"item_type": "knowledge", "item_id": "acme/facts"}), `The earth is round`},
		{call("a", "rye_load", object{"item_type": "tool", "item_id": "acme/echo"}), `"code":"PERMISSION_DENIED"`},
		{call("a", "rye_load", object{"item_type": "knowledge", "item_id": "acme/none"}), `"code":"ITEM_NOT_FOUND"`},
		{call("a", "rye_search", object{"query": "echo", "scope": "tool.acme.*"}), `"ref":"tool:acme/echo"`},
		{call("a", "rye_search", object{"query": "echo", "scope": "*"}), `names no kind`},
		{call("a", "rye_search", object{"query": "echo", "scope": "a b"}), `"error"`},
		{call("a", "rye_search", object{"query": "(", "scope": "tool.acme.*"}), `"error"`},
		{call("a", "rye_execute", object{"item_type": "knowledge", "item_id": "acme/facts"}),
			`"code":"PERMISSION_DENIED"`},
		{call("a", "rye_search", object{"query": "echo", "scope": "knowledge"}), `"code":"PERMISSION_DENIED"`},
		{call("a", "rye_sign", object{}), `"code":"TOOL_NOT_FOUND"`},
		{provider.ToolCall{ID: "a", Name: "rye_execute", Raw: `{"item_type":`}, `"error"`},
		{call("a", "directive_return", object{"answer": nil}), `"error"`},
		{call("a", "directive_return", object{"answer": 3}), `"code":"VALIDATION_FAILED"`},
		{executes("a", "rye/agent/threads/artifact_read", object{"ref": "blake3:00"}), `"code":"ITEM_NOT_FOUND"`},
	}
	items := withOutputs(asking)
	items["knowledge/acme/facts.md"] =
		"---\nid: facts\ntitle: Facts\nentry_type: reference\ncategory: acme\nversion: 1.0.0\n---\nThe earth is round.\n"
	var turn modeltest.Turn
	for i, c := range all {
		c.call.ID = fmt.Sprint("call", i)
		turn.Calls = append(turn.Calls, c.call)
	}
	w := newWorld(t, items, turn, modeltest.Turn{Calls: []provider.ToolCall{call("z", "directive_return",
		object{"answer": "done"})}})
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	if !r.Success {
		t.Errorf("%+v", r)
	}
	var body struct {
		Messages []struct {
			ID      string `json:"tool_call_id"`
			Content string `json:"content"`
		} `json:"messages"`
	}
	must(t, json.Unmarshal(w.server.Requests()[1].Raw, &body))
	got := map[string]string{}
	for _, m := range body.Messages {
		got[m.ID] = m.Content
	}
	for i, c := range all {
		if text := got[fmt.Sprint("call", i)]; !strings.Contains(text, c.want) {
			t.Errorf("%+v: the model got %q, want %s", c.call, text, c.want)
		}
	}
}

// TestLimits: a limit of n turns allows n, and what the next model call could use must be there.
func TestLimits(t *testing.T) {
	again := modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/echo", object{"text": "x"})},
		Usage: provider.Usage{Input: 10, Output: 5}}
	for _, c := range []struct {
		limits []string
		turns  int64
		code   fault.Code
	}{
		{[]string{"turns=1"}, 1, fault.Limit},
		{[]string{"turns=2"}, 2, fault.Limit},
		{[]string{"turns=3"}, 3, ""},
		{[]string{"turns=0"}, 0, fault.Limit},
		{[]string{"tokens=10"}, 1, fault.Limit},
		{[]string{"duration_seconds=0.000001"}, 0, fault.Limit},
	} {
		w := newWorld(t, plain(asking), again, again, modeltest.Turn{Text: "done"})
		r, err := w.run(t.Context(), thread.Start{Limits: c.limits})
		must(t, err)
		code := fault.Code("")
		if r.Error != nil {
			code = r.Error.Code
		}
		if r.Cost.Turns != c.turns || code != c.code {
			t.Errorf("%s: %+v, %v", c.limits, r, r.Error)
		}
		if c.code != "" && r.Status != thread.Interrupted {
			t.Errorf("%s: %s", c.limits, r.Status)
		}
		if events := w.events(r); events[len(events)-1].Type != transcript.TypeCheckpoint {
			t.Errorf("%s: the record ends with %s", c.limits, events[len(events)-1].Type)
		}
	}
	for _, bad := range []string{"turns", "turns=x", "speed=1", "turns=-1", "turns=1.5"} {
		w := newWorld(t, plain(asking))
		if _, err := w.run(t.Context(), thread.Start{Limits: []string{bad}}); fault.CodeOf(err) != fault.Validation {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestFailures: a model call that failed is made again if that is worth it; else the thread ends with its error.
func TestFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plain(asking), modeltest.Turn{Status: 429, RetryAfter: "0"}, modeltest.Turn{Text: "done"})
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	if !r.Success || r.Result != "done" || r.Cost.Turns != 1 ||
		!strings.Contains(types(w.events(r)), "request error_classified hook request answer") {
		t.Errorf("%+v: %s", r, types(w.events(r)))
	}
	w = newWorld(t, plain(asking), modeltest.Turn{Status: 401})
	r, err = w.run(t.Context(), thread.Start{})
	must(t, err)
	if r.Success || r.Status != thread.Failed || r.Error == nil {
		t.Errorf("%+v", r)
	}
	w = newWorld(t, withOutputs(asking), modeltest.Turn{Text: "no"}, modeltest.Turn{Text: "still no"})
	r, err = w.run(t.Context(), thread.Start{})
	must(t, err)
	if r.Success || !strings.Contains(r.Error.Text, "without returning the outputs") || r.Cost.Turns != 2 {
		t.Errorf("%+v, %v", r, r.Error)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w = newWorld(t, plain(asking))
	w.server.Handle(func(*modeltest.Request) modeltest.Turn {
		cancel()
		return modeltest.Turn{Hang: true}
	})
	r, err = w.run(ctx, thread.Start{})
	must(t, err)
	if r.Status != thread.Interrupted || r.Error.Code != fault.Cancelled {
		t.Errorf("%+v, %v", r, r.Error)
	}
}

// TestReplay: the record of a thread answers a new one that asks the same; another question is a conflict.
func TestReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOutputs(asking), modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/echo",
		object{"text": "x"})}},
		modeltest.Turn{Calls: []provider.ToolCall{call("b", "directive_return", object{"answer": "x"})}})
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	dir := filepath.Join(w.engine.Dir, filepath.FromSlash(r.Thread))
	again, err := w.run(t.Context(), thread.Start{Replay: dir})
	must(t, err)
	if !again.Success || again.Outputs["answer"] != "x" || len(w.server.Requests()) != 2 {
		t.Errorf("%+v, %v", again, again.Error)
	}
	w.same(again.Thread)
	again, err = w.run(t.Context(), thread.Start{Replay: dir, Limits: []string{"turns=1"}})
	must(t, err)
	if r, err := w.resume(again.Thread, "turns=2"); fault.CodeOf(err) != fault.Validation ||
		!strings.Contains(err.Error(), "a record answered it") ||
		w.state(again.Thread).State != roster.Interrupted {
		t.Errorf("%+v, %v", r, err)
	}
	other, err := w.run(t.Context(), thread.Start{Replay: dir, Inputs: params.Values(object{"topic": "wheat"})})
	must(t, err)
	if other.Success || other.Error.Code != fault.Conflict ||
		!strings.Contains(strings.Join(other.Error.Why, "\n"), "wheat") {
		t.Errorf("%+v, %v", other, other.Error)
	}
}

// TestHostileLoop: a loop that lies gains nothing.
func TestHostileLoop(t *testing.T) {
	t.Parallel()
	head := strings.ReplaceAll(
		"---\nversion: \"1.0.0\"\ncategory: rye/agent\ndescription: Lies\ntool_type: starlark\nexecutor_id: rye/core/runtimes/starlark_runtime\nrisk: read\npure: true\n---\n",
		"\n", "\n# ")
	head = "# " + strings.TrimSuffix(head, "# ")
	for text, want := range map[string]string{
		"def main(ctx):\n    for _ in range(100): ctx.model(ctx.first(), [])":                                                                                   "turns_exceeded",
		"def main(ctx):\n    ctx.calls([{'id': 'a', 'name': 'rye_execute', 'input': {'item_type': 'tool', 'item_id': 'acme/none'}}])\n    return {'text': 'x'}": "",
		"def main(ctx):\n    a = []\n    for _ in range(100000000): a.append('x' * 100000)":                                                                     "memory",
		"def main(ctx): return {'error': {'code': 'X', 'message': 'gave up'}}":                                                                                  "gave up",
		"def main(ctx):\n    ctx.checkpoint()\n    return {'error': {'code': 'X', 'message': str(ctx.usage()['turns'])}}":                                       "0",
		"def main(ctx): ctx.model([{'role': 1}], [])":                                                                                                           "can't be read",
		"def main(ctx): ctx.model(ctx.first(), [1])":                                                                                                            "tool 0: got int, want dict",
		"def main(ctx): ctx.model(ctx.first(), [{'name': 1}])":                                                                                                  "tools that can't be read",
		"def main(ctx): ctx.model(ctx.first(), {'keep': 3, 'add': []})":                                                                                         "got dict, want list",
		"def main(ctx): ctx.calls([{'id': 'a', 'name': 'x'}] * 1025)":                                                                                           "at most 1024",
		"def main(ctx): return 1 // 0":                                                                                                                          "floored division by zero",
		"def main(ctx): ctx.handoff([])":                                                                                                                        "handoff",
		"def main(ctx): ctx.calls('x')":                                                                                                                         "can't be read",
	} {
		items := plain(asking)
		items["tools/rye/agent/loop.star"] = head + text + "\n"
		turns := make([]modeltest.Turn, 10)
		for i := range turns {
			turns[i].Text = "again"
		}
		w := newWorld(t, items, turns...)
		r, err := w.run(t.Context(), thread.Start{})
		must(t, err)
		got := ""
		if r.Error != nil {
			got = r.Error.Text
		}
		if !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// TestRefused: what no thread is begun for.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOutputs(asking))
	for _, c := range []struct {
		start thread.Start
		code  fault.Code
	}{
		{thread.Start{Directive: model.Ref{Kind: "directive", ID: "acme/none"}}, fault.NotFound},
		{thread.Start{Directive: model.Ref{Kind: "tool", ID: "acme/echo"}}, fault.Validation},
		{thread.Start{Inputs: params.Values(object{})}, fault.Validation},
		{thread.Start{Inputs: params.Values(object{"topic": "x", "depth": "deep"})}, fault.Validation},
		{thread.Start{Model: "no-such-model"}, ""},
		{thread.Start{Replay: "/nowhere"}, fault.NotFound},
	} {
		r, err := w.run(t.Context(), c.start)
		if err == nil || c.code != "" && fault.CodeOf(err) != c.code {
			t.Errorf("%+v: %+v, %v", c.start, r, err)
		}
	}
	if _, err := os.Stat(w.engine.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was recorded: %v", err)
	}
}

// TestLarge: a large result is an artifact, which the model reads page by page.
func TestLarge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plain(asking), modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/echo",
		object{"text": "äö", "times": 10_000})}})
	var pages []string
	w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
		all := q.Body["messages"].([]any)
		last := all[len(all)-1].(object)
		if last["role"] != "tool" {
			return modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/echo",
				object{"text": "äö", "times": 10_000})}}
		}
		var result object
		must(t, json.Unmarshal([]byte(last["content"].(string)), &result))
		if ref, ok := result["artifact"].(string); ok {
			return modeltest.Turn{Calls: []provider.ToolCall{executes("b", "rye/agent/threads/artifact_read",
				object{"ref": ref, "offset": 30_001, "limit": 5000})}}
		}
		pages = append(pages, result["text"].(string))
		if len(pages) < 2 {
			return modeltest.Turn{Calls: []provider.ToolCall{executes("c", "rye/agent/threads/artifact_read",
				object{"ref": result["ref"], "offset": 39_900})}}
		}
		return modeltest.Turn{Text: "done"}
	})
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	if !r.Success || len(pages) != 2 || len(pages[0]) < 4990 || strings.Trim(pages[0], "äö") != "" ||
		!strings.HasSuffix(pages[1], `"},"success":true}`) {
		t.Errorf("%+v, %d pages: %.50s, %.200s", r, len(pages), pages[0], pages[1])
	}
	if !strings.Contains(types(w.events(r)), "call_started artifact call_result") {
		t.Errorf("recorded %s", types(w.events(r)))
	}
}

// TestParallel: calls of one turn that only read run side by side, and their results keep the model's order.
func TestParallel(t *testing.T) {
	t.Parallel()
	var calls []provider.ToolCall
	for i := range 8 {
		calls = append(calls, executes(fmt.Sprint("id", i), "acme/echo", object{"text": fmt.Sprint("n", i)}))
	}
	w := newWorld(t, plain(asking), modeltest.Turn{Calls: calls}, modeltest.Turn{Text: "done"})
	var events []string
	r, err := w.run(t.Context(), thread.Start{Live: thread.Live{Event: func(e *transcript.Event) {
		events = append(events, string(e.Type))
	}}})
	must(t, err)
	body := string(w.server.Requests()[1].Raw)
	at := -1
	for i := range 8 {
		next := strings.Index(body, fmt.Sprintf(`{\"said\":\"n%d\"}`, i))
		if next < at || next < 0 {
			t.Errorf("result %d is not in its place: %s", i, body)
		}
		at = next
	}
	if !r.Success || !strings.Contains(strings.Join(events, " "),
		strings.Repeat("call_started ", 8)+strings.Repeat("call_result ", 8)+"checkpoint") {
		t.Errorf("%+v: %s", r, events)
	}
}

// TestBudget: what a model call may cost has to be there before it is made.
func TestBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plain(asking))
	base := w.server
	item := base.Item("local")
	if !strings.Contains(item, "pricing:") {
		t.Fatal(item)
	}
	head, _, _ := strings.Cut(item, "pricing:")
	_, rest, _ := strings.Cut(item[len(head):], "\n")
	for len(rest) > 0 && (rest[0] == ' ' || rest[0] == '#') {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	with := func(pricing string) map[string]string {
		items := plain(asking)
		items["tools/acme/providers/dear.yaml"] = strings.ReplaceAll(head+pricing+rest,
			"category: rye/agent/providers", "category: acme/providers")
		return items
	}
	w = newWorld(t, with("pricing: {\"*\": {input: \"1000\", output: \"1000\"}}\n"))
	r, err := w.run(t.Context(), thread.Start{Model: "acme/providers/dear/x"})
	must(t, err)
	if r.Status != thread.Interrupted || r.Error.Code != fault.Budget || len(w.server.Requests()) != 0 ||
		!strings.Contains(types(w.events(r)), "limit hook waiting") {
		t.Errorf("%+v, %v", r, r.Error)
	}
	// An HTTP error costs nothing, unless it is a gateway's. An answer that was cut off costs its reservation, and one
	// that came what it used.
	nothing, worst := func(spend float64) bool { return spend == 0.00012 }, func(spend float64) bool {
		return spend > 0.008
	}
	for turn, want := range map[string]func(float64) bool{"429": nothing, "500": nothing, "503": nothing,
		"408": nothing, "529": nothing, "502": worst, "504": worst, "cut": worst} {
		first := modeltest.Turn{Status: 503, Late: true, Text: "Hm"}
		if status, err := strconv.Atoi(turn); err == nil {
			first = modeltest.Turn{Status: status, RetryAfter: "0", Message: "no"}
		}
		base.Add(first, modeltest.Turn{Text: "done", Usage: provider.Usage{Input: 100, Output: 20}})
		w := newWorld(t, with("pricing: {\"*\": {input: \"1\", output: \"1\"}}\n"))
		r, err := w.run(t.Context(), thread.Start{Model: "acme/providers/dear/x"})
		must(t, err)
		if !r.Success || !want(r.Cost.Spend) {
			t.Errorf("%s: $%f, %+v, %v", turn, r.Cost.Spend, r, r.Error)
		}
	}
	w = newWorld(t, with(""))
	if _, err := w.run(t.Context(), thread.Start{Model: "acme/providers/dear/x"}); fault.CodeOf(err) != fault.Budget {
		t.Errorf("an unknown price: %v", err)
	}
}

// TestSettings: config:resilience of a project counts, and one that is wrong is refused.
func TestSettings(t *testing.T) {
	t.Parallel()
	const head = "version: \"1.0.0\"\nschema_version: \"1.0.0\"\n"
	for text, code := range map[string]fault.Code{
		"limits: {defaults: {turns: 1}}\nretry: {max_retries: 0}\nconcurrency: {max_concurrent_children: 1}\n": "",
		"limits: {defaults: {turns: x}}\n": fault.Config,
		"retry: {max_retries: many}\n":     fault.Config,
		"retry: {max_retries: -1}\n":       fault.Config,
	} {
		items := plain(strings.ReplaceAll(asking, `<limits turns="6" tokens="100000" spend="0.5"/>`, ""))
		items["config/resilience.yaml"] = head + text
		w := newWorld(t, items, modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/echo",
			object{"text": "x"})}}, modeltest.Turn{Text: "done"})
		r, err := w.run(t.Context(), thread.Start{})
		if (err == nil) != (code == "") || err != nil && fault.CodeOf(err) != code {
			t.Errorf("%s: %v", text, err)
		}
		if err == nil && (r.Status != thread.Interrupted || r.Cost.Turns != 1) {
			t.Errorf("%s: %+v", text, r)
		}
	}
}

// TestPrompts: directives in one piece, without a description, with inputs that are no text; and one without steps.
func TestPrompts(t *testing.T) {
	t.Parallel()
	const one = `<directive name="asking" version="1.0.0"><metadata><category>acme</category><description>d</description>` +
		`<model provider="local" id="test-model"/></metadata>
<inputs><input name="topic" type="object" required="true"/></inputs>
<outputs><output name="answer"/></outputs>
<process>Look at {input:topic}.</process></directive>
`
	w := newWorld(t, map[string]string{"directives/acme/asking.md": one},
		modeltest.Turn{Calls: []provider.ToolCall{executes("a", "rye/agent/threads/directive_return",
			object{"answer": 1})}})
	r, err := w.run(t.Context(), thread.Start{Inputs: params.Values(object{"topic": object{"a": []any{1.0}}})})
	must(t, err)
	if !r.Success || !strings.Contains(string(w.server.Requests()[0].Raw), `Look at {\"a\":[1]}.`) {
		t.Errorf("%+v: %s", r, w.server.Requests()[0].Raw)
	}
	const fence = "```"
	empty := "# asking\n\n" + fence + "xml\n" +
		`<directive name="asking" version="1.0.0"><metadata><category>acme</category><description>d</description></metadata></directive>` +
		"\n" + fence + "\n"
	w = newWorld(t, map[string]string{"directives/acme/asking.md": empty})
	if _, err := w.run(t.Context(), thread.Start{Inputs: params.Values(object{})}); err == nil ||
		!strings.Contains(err.Error(), "no steps") {
		t.Errorf("%v", err)
	}
}

// TestReplayed: failures and thinking are replayed too, and a record that ends early is a conflict.
func TestReplayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plain(asking), modeltest.Turn{Status: 429, RetryAfter: "0"},
		modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/echo", object{"text": "x"})}},
		modeltest.Turn{Status: 401})
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	again, err := w.run(t.Context(), thread.Start{Replay: filepath.Join(w.engine.Dir, filepath.FromSlash(r.Thread))})
	must(t, err)
	if r.Success || again.Success || again.Error.Code != r.Error.Code || types(w.events(again)) != types(w.events(r)) {
		t.Errorf("%+v, %v\n%+v, %v", r, r.Error, again, again.Error)
	}
	dir := filepath.Join(w.engine.Dir, filepath.FromSlash(r.Thread))
	lines, err := os.ReadFile(filepath.Join(dir, "transcript.jsonl"))
	must(t, err)
	cut := strings.Index(string(lines), "\n") + 1
	for range 2 { // to the end of the first request
		cut += strings.Index(string(lines[cut:]), "\n") + 1
	}
	short := t.TempDir()
	must(t, os.WriteFile(filepath.Join(short, "transcript.jsonl"), lines[:cut], 0o600))
	r, err = w.run(t.Context(), thread.Start{Replay: short})
	must(t, err)
	if r.Success || r.Error.Code != fault.Conflict {
		t.Errorf("%+v, %v", r, r.Error)
	}
	must(t, os.WriteFile(filepath.Join(short, "transcript.jsonl"), []byte("nonsense\n"), 0o600))
	if _, err := w.run(t.Context(), thread.Start{Replay: short}); err == nil {
		t.Error("a broken record is replayed")
	}
}
