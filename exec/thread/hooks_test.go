package thread_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// withHooks is the directive with hooks, as elements of XML.
func withHooks(hooks string) map[string]string {
	items := plain(strings.Replace(asking, "OUTPUTS", "<hooks>"+hooks+"</hooks>", 1))
	items["knowledge/acme/rules.md"] =
		"---\nid: rules\ntitle: Rules\nentry_type: reference\ncategory: acme\nversion: 1.0.0\n---\nBe kind.\n"
	return items
}

// config is config:hook_conditions of the project.
func config(items map[string]string, text string) map[string]string {
	items["config/hook_conditions.yaml"] = text
	return items
}

// hooksOf returns the hooks that ran: id, what they decided and how they failed.
func (w *world) hooksOf(r *thread.Result) (all []string) {
	w.t.Helper()
	for _, e := range w.events(r) {
		if e.Type != transcript.TypeHook {
			continue
		}
		var h transcript.Hook
		must(w.t, e.Decode(&h))
		code := ""
		if h.Error != nil {
			code = h.Error.Code
		}
		all = append(all, strings.Join(strings.Fields(h.ID+" "+h.Action+" "+code), " "))
	}
	return all
}

func echoes(text string) modeltest.Turn {
	return modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/echo", object{"text": text})},
		Usage: provider.Usage{Input: 10, Output: 5}}
}

var done = modeltest.Turn{Text: "done"}

// TestHooks: what hooks of a directive and of config make of a thread.
func TestHooks(t *testing.T) {
	t.Parallel()
	broke := modeltest.Turn{Status: 404}
	for _, c := range []struct {
		name         string
		items        map[string]string
		limits       []string
		turns        []modeltest.Turn
		status, code string
		hooks        string // those that ran
		said         string // the model was sent this
	}{
		{"texts", withHooks(`<hook event="thread_started" name="load_identity"><tool>rye.primary.load</tool><params><item_type>knowledge</item_type><item_id>acme/rules</item_id></params></hook>
			<hook event="thread_started" id="b"><execute item_type="directive">acme/asking</execute><inputs><topic>wheat</topic></inputs></hook>`),
			nil, []modeltest.Turn{done}, "completed", "", "load_identity, b", `Be kind.\n\nAsk about wheat`},
		{"a text is missing",
			withHooks(`<hook event="thread_started" id="a"><load item_type="knowledge">acme/none</load></hook>`), nil,
			nil, "error", "ITEM_NOT_FOUND", "a ITEM_NOT_FOUND", ""},
		{"no hook gives permissions",
			withHooks(`<hook event="after_step" id="a"><execute>acme/other</execute></hook>`), nil,
			[]modeltest.Turn{echoes("x"), done}, "completed", "", "a PERMISSION_DENIED", ""},
		{"a tool", withHooks(
			`<hook event="after_step" id="a"><action><item_id>acme/echo</item_id><params><text>turn ${turn} of ${thread_id}</text></params></action></hook>`),
			nil, []modeltest.Turn{echoes("x"), done}, "completed", "", "a", ""},
		{"retry", withHooks(
			`<hook event="error" condition="error.code == 'permanent'" id="a"><action>retry</action><delay>0</delay></hook>`),
			nil, []modeltest.Turn{broke, broke, done}, "completed", "", "a retry, a retry", ""},
		{"by id, name and category",
			withHooks(
				`<hook event="error" condition="error.code == 'http_429' and error.code == 'rate_limit' and error.code == 'rate_limited'" id="a"><action>retry</action><delay>0</delay></hook>`),
			nil, []modeltest.Turn{{Status: 429}, done}, "completed", "", "a retry, default_retry_transient retry", ""},
		{"retry has an end", withHooks(`<hook event="error" id="a"><action>retry</action><delay>0</delay></hook>`),
			nil, []modeltest.Turn{broke, broke, broke, broke, done}, "error", "EXECUTION_FAILED",
			"a retry, a retry, a retry, a retry", ""},
		{"fail", withHooks(
			`<hook event="error" id="a"><action>fail</action><error>gave up: ${classification.category}</error></hook>`),
			nil, []modeltest.Turn{broke}, "error", "EXECUTION_FAILED", "a fail", ""},
		{"abort", withHooks(`<hook event="before_step" id="a"><action>abort</action></hook>`), nil, nil, "cancelled",
			"CANCELLED", "a abort", ""},
		{"suspend", withHooks(`<hook id="a" when="cost.turns &gt; cost.limit * 3"><action>suspend</action></hook>`),
			nil, []modeltest.Turn{echoes("x"), echoes("x")}, "interrupted", "LIMIT_EXCEEDED", "a suspend", ""},
		{"skip", withHooks(
			`<hook event="tool_call_start" id="a" condition="input.parameters.text == 'x'"><action>skip</action></hook><hook when='error.type == "permission_denied"' id="b"><action>continue</action></hook>`),
			nil, []modeltest.Turn{echoes("x"), done}, "completed", "", "a skip, b continue", `skips this call`},
		{"after a call",
			withHooks(
				`<hook event="tool_call_result" id="a" condition="status == 'ok' and item == 'tool:acme/echo'"><action>fail</action></hook>`),
			nil, []modeltest.Turn{echoes("x")}, "error", "EXECUTION_FAILED", "a fail", ""},
		{"a limit", plain(asking), []string{"turns=1"}, []modeltest.Turn{echoes("x")}, "interrupted", "LIMIT_EXCEEDED",
			"default_escalate_limit escalate", ""},
		{"no hook lifts a limit", withHooks(`<hook event="limit" id="a"><action>retry</action></hook>`),
			[]string{"turns=1"}, []modeltest.Turn{echoes("x")}, "interrupted", "LIMIT_EXCEEDED",
			"a retry, default_escalate_limit escalate", ""},
		{"a limit fails",
			withHooks(`<hook event="limit" id="a"><action>fail</action><error>${limit_code}</error></hook>`),
			[]string{"turns=1"}, []modeltest.Turn{echoes("x")}, "error", "EXECUTION_FAILED",
			"a fail, default_escalate_limit escalate", ""},
		{"no hook for limits",
			config(plain(asking),
				"builtin_hooks: [{id: default_escalate_limit, event: limit, action: escalate, enabled: false}]\n"),
			[]string{"turns=1"}, []modeltest.Turn{echoes("x")}, "error", "EXECUTION_FAILED", "", ""},
		{"no hooks at all", config(plain(asking), "extends: none\n"), nil, []modeltest.Turn{{Status: 503}}, "error",
			"UNAVAILABLE", "", ""},
		{"of the project",
			config(withHooks(""),
				"hooks: [{id: p, event: thread_started, load: {item_type: knowledge, item_id: acme/rules}}]\ninfra_hooks: [{id: i, event: after_complete, action: abort}]\n"),
			nil, []modeltest.Turn{done}, "completed", "", "p, i abort", `Be kind.`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.items, c.turns...)
			r, err := w.run(t.Context(), thread.Start{Limits: c.limits})
			must(t, err)
			code := ""
			if r.Error != nil {
				code = string(r.Error.Code)
			}
			if r.Status != c.status || code != c.code {
				t.Errorf("%s %s; want %s %s: %v", r.Status, code, c.status, c.code, r.Error)
			}
			if got := strings.Join(w.hooksOf(r), ", "); got != c.hooks {
				t.Errorf("ran %s; want %s", got, c.hooks)
			}
			sent := ""
			for _, q := range w.server.Requests() {
				sent += string(q.Raw)
			}
			if !strings.Contains(sent, c.said) {
				t.Errorf("the model was sent %s; want %s", sent, c.said)
			}
			if w.server.Left() > 0 && c.name != "retry has an end" {
				t.Errorf("%d turns are left", w.server.Left())
			}
		})
	}
}

// TestHookCalls: what a hook runs is recorded as calls are, and its result with the hook.
func TestHookCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		withHooks(
			`<hook event="after_step" id="a"><tool>acme.echo</tool><params><text>turn ${turn}</text></params></hook>`),
		echoes("x"), done)
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	if got, want := types(w.events(r)),
		"thread_started driver request answer call_started call_result call_started call_result hook checkpoint request answer thread_completed checkpoint"; got != want {
		t.Errorf("recorded %s\nwant     %s", got, want)
	}
	var h transcript.Hook
	must(t, w.events(r)[8].Decode(&h))
	if fmt.Sprint(h.Result) != "map[said:turn 1]" || h.Ref != "tool:acme/echo" || h.Layer != 1 {
		t.Errorf("%+v", h)
	}
}

// TestHooksPlayedBack: a thread with hooks does the same again from its record, and nothing is run for it.
func TestHooksPlayedBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withHooks(`<hook event="thread_started" id="a"><load item_type="knowledge">acme/rules</load></hook>
		<hook event="error" id="b"><action>retry</action><delay>0</delay></hook>
		<hook event="after_step" id="c"><tool>acme.echo</tool><params><text>turn ${cost.turns}</text></params></hook>
		<hook event="tool_call_start" id="d" condition="input.parameters.text == 'y'"><action>skip</action></hook>`), modeltest.Turn{Status: 404}, echoes("x"), echoes("y"))
	r, err := w.run(t.Context(), thread.Start{Limits: []string{"turns=2"}})
	must(t, err)
	if got := strings.Join(w.hooksOf(r), ", "); r.Status != thread.Interrupted ||
		got != "a, b retry, c, d skip, c, default_escalate_limit escalate" {
		t.Fatalf("%s, %+v: %v", got, r, r.Error)
	}
	before := len(w.server.Requests())
	again, err := w.engine.PlayBack(t.Context(), filepath.Join(w.engine.Dir, filepath.FromSlash(r.Thread)))
	must(t, err)
	if again.Difference != nil || again.Turns != 2 || len(w.server.Requests()) != before {
		t.Errorf("%+v, %+v", again, again.Difference)
	}
}

// TestFailuresPlayedBack: a hook sees the same failure when the thread runs again from its record, whatever the
// service calls it.
func TestFailuresPlayedBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		condition string
		turn      modeltest.Turn
	}{
		{"error.code == 'overloaded'", modeltest.Turn{Status: 529, Message: "busy"}},
		{"error.code == 'insufficient_quota' and not error.code == 'rate_limit'",
			modeltest.Turn{Status: 429, Type: "insufficient_quota", Code: "insufficient_quota"}},
		{"error.type == 'server_error' and error.status == 500", modeltest.Turn{Status: 500, Type: "server_error"}},
		{"error.code == 'their_own' and error.provider == 'rye/agent/providers/local'",
			modeltest.Turn{Status: 400, Type: "odd", Code: "their_own"}},
	} {
		w := newWorld(t,
			withHooks(`<hook event="error" id="a" condition="`+c.condition+
				`"><action>retry</action><delay>0</delay></hook>`), c.turn, echoes("x"), done)
		r, err := w.run(t.Context(), thread.Start{Limits: []string{"turns=1"}})
		must(t, err)
		if got := strings.Join(w.hooksOf(r), ", "); r.Status != thread.Interrupted ||
			!strings.HasPrefix(got, "a retry, ") {
			t.Errorf("%s: %s, %+v, %v", c.condition, got, r, r.Error)
		}
		w.same(r.Thread)
		if r, err = w.resume(r.Thread, "turns=2"); err != nil || !r.Success {
			t.Errorf("%s: %+v, %v, %v", c.condition, r, err, r.Error)
		}
		again, err := w.run(t.Context(), thread.Start{Replay: w.dir(r.Thread)})
		must(t, err)
		if !again.Success || strings.Contains(string(w.classified(again)),
			"failed (HTTP "+fmt.Sprint(c.turn.Status)+"): the model call") {
			t.Errorf("%s: replayed: %+v, %v", c.condition, again, again.Error)
		}
	}
}

// classified is the first failure in a record.
func (w *world) classified(r *thread.Result) []byte {
	for _, e := range w.events(r) {
		if e.Type == transcript.TypeClassified {
			return e.Payload
		}
	}
	return nil
}

// TestDocumentedHooks: the hooks that the documentation shows work as they stand there.
func TestDocumentedHooks(t *testing.T) {
	page, err := fs.ReadFile(std.FS(), "knowledge/rye/hooks.md")
	must(t, err)
	block := func(with string) string {
		for _, part := range strings.Split(string(page), "```text\n")[1:] {
			if text, _, _ := strings.Cut(part, "```"); strings.Contains(text, with) {
				return text
			}
		}
		t.Fatalf("no block with %q", with)
		return ""
	}
	_, written, _ := strings.Cut(string(page), "hook_conditions.yaml <<'EOF'\n")
	written, _, found := strings.Cut(written, "\nEOF\n")
	if !found {
		t.Fatal("no file of hooks")
	}
	items := config(withHooks(strings.NewReplacer("<hooks>", "", "</hooks>", "").Replace(block("<hooks>"))),
		written)
	w := newWorld(t, items, modeltest.Turn{Status: 429}, modeltest.Turn{Status: 400, Message: "no"})
	began := time.Now()
	r, err := w.run(t.Context(), thread.Start{Limits: []string{"duration_seconds=4"}}) // the hook waits for 5
	must(t, err)
	if got := strings.Join(w.hooksOf(r),
		", "); got != "rules, acme_rules, wait retry, default_retry_transient fail, default_escalate_limit escalate" ||
		r.Status != thread.Interrupted || time.Since(began) > time.Minute {
		t.Errorf("%s: %+v, %v", got, r, r.Error)
	}
	if n := strings.Count(string(w.server.Requests()[0].Raw), "Be kind."); n != 2 {
		t.Errorf("the rules are %d times in the first message", n)
	}
	for _, form := range strings.Split(strings.TrimSpace(block("tool: acme.notify")), "\n") {
		items := config(plain(asking), "hooks:\n  - {id: a, event: error, "+strings.Replace(form,
			"execute: {item_id: acme/notify}", "execute: {item_id: acme/notify, params: {text: hello}}", 1)+"}\n")
		w := newWorld(t, items, modeltest.Turn{Status: 400})
		r, err := w.run(t.Context(), thread.Start{})
		must(t, err)
		if got := strings.Join(w.hooksOf(r), ", "); got != "a PERMISSION_DENIED" && got != "a ITEM_NOT_FOUND" {
			t.Errorf("%s: ran %s, %v", form, got, r.Error)
		}
	}
}

// TestWindow: hooks are told when the context window fills up.
func TestWindow(t *testing.T) {
	t.Parallel()
	fill := func(share int64) modeltest.Turn {
		turn := echoes("x")
		turn.Usage = provider.Usage{Input: share * 32768 / 100, Output: 0}
		return turn
	}
	w := newWorld(t,
		withHooks(
			`<hook event="context_window_pressure" id="a"><action>continue</action></hook><hook event="context_limit_reached" id="b" condition="usage_ratio &gt; 0.9"><action>suspend</action></hook>`),
		fill(50), fill(80), fill(85), fill(95))
	r, err := w.run(t.Context(), thread.Start{Limits: []string{"tokens=100000000"}})
	must(t, err)
	if got := strings.Join(w.hooksOf(r), ", "); r.Status != thread.Interrupted || got != "a continue, b suspend" {
		t.Errorf("%s, %+v: %v", got, r, r.Error)
	}
}

// TestHookDelay: the hook that the documentation shows waits as long as it says.
func TestHookDelay(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		withHooks(
			`<hook event="error" condition="error.code == 'rate_limit'"><action>retry</action><delay>5</delay></hook>`),
		modeltest.Turn{Status: 429})
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	var was transcript.Classified
	_, err := w.run(ctx, thread.Start{Live: thread.Live{Event: func(e *transcript.Event) {
		if e.Type == transcript.TypeClassified {
			must(t, e.Decode(&was))
			cancel(enough)
		}
	}}})
	must(t, err)
	if was.Action != "retry" || was.Delay != 5*time.Second || was.ID != "http_429" {
		t.Errorf("%+v", was)
	}
}

// TestLoopHooks: a loop tells of events that the project has added, and follows what hooks decide.
func TestLoopHooks(t *testing.T) {
	t.Parallel()
	loop := func(body string) map[string]string {
		items := config(plain(asking),
			"hooks: [{id: mine, event: acme_idea, condition: good, action: {item_id: acme/echo, params: {text: '${text}'}}}, {id: no, event: acme_idea, condition: not good, action: fail, error: bad}]\n")
		items["config/events.yaml"] = "event_types: {acme_idea: {description: An idea}}\n"
		items["tools/rye/agent/loop.star"] = starlark("rye/agent") + "def main(ctx):\n" + body
		return items
	}
	for body, want := range map[string]string{
		"    return {'text': str(ctx.hook('acme_idea', {'good': True, 'text': 'x'}))}\n":            "None",
		"    return {'text': ctx.hook('acme_idea', {'good': False})['action']}\n":                   "fail",
		"    return {'text': ctx.hook('acme_idea', {})['error']}\n":                                 "bad",
		"    return {'text': str(ctx.hook('limit', {'limit_code': 'turns_exceeded'})['action'])}\n": "escalate",
		"    ctx.hook('nothing', {})\n":                                                             "unknown event",
		"    for _ in range(100): ctx.hook('acme_idea', {'good': True, 'text': 'x'})\n":             "more than 64 events",
		"    return {'text': ctx.hook('acme_idea', None)['action']}\n":                              "fail",
	} {
		w := newWorld(t, loop(body))
		r, err := w.run(t.Context(), thread.Start{})
		must(t, err)
		got := r.Result
		if r.Error != nil {
			got = r.Error.Text
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q; want %s", body, got, want)
		}
	}
}

// TestHookConfig: hooks that can't be read keep a thread from beginning.
func TestHookConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		items map[string]string
		code  fault.Code
		want  string
	}{
		{withHooks(`<hook event="eror"><action>retry</action></hook>`), fault.Validation,
			`invalid hooks in "directive:acme/asking": hooks[0]: unknown event "eror"`},
		{config(plain(asking), "hook: []\n"), fault.Config, `unknown key "hook"`},
	} {
		w := newWorld(t, c.items)
		if _, err := w.run(t.Context(), thread.Start{}); fault.CodeOf(err) != c.code ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v", err)
		}
	}
}

// starlark is the header of a Starlark tool of a category.
func starlark(category string) string {
	return "# ---\n# version: \"1.0.0\"\n# category: " + category +
		"\n# description: Mine\n# tool_type: starlark\n# executor_id: rye/core/runtimes/starlark_runtime\n# risk: read\n# pure: true\n# ---\n"
}

// TestAgents: a project replaces each of the items that decide, and one that lies gains nothing.
func TestAgents(t *testing.T) {
	t.Parallel()
	large := modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/echo",
		object{"text": "x", "times": 20_000})}}
	for _, c := range []struct {
		item, text string
		sent, want string // what the model is sent, or why the thread ends
	}{
		{"context", "def main(ctx): return [{'role': 'user', 'text': 'mine: ' + ctx.config['directive']['text']}]",
			"mine: Ask about rye", ""},
		{"context", "def main(ctx): return 'x'", "", "must return a list of messages"},
		{"context", "def main(ctx): return []", "", "must return a list of messages: 1 to 4096"},
		{"context", "def main(ctx): return [{'role': 'king', 'text': ''}]", "", "message 0 has no role"},
		{"context", "def main(ctx): return [{'role': 'user'}]", "", "message 0 has no text"},
		{"context", "def main(ctx): return [{'role': 'user', 'text': 'x' * 9000000}]", "", "8388608 bytes"},
		{"context", "def main(ctx): return ctx.model([], [])", "", "calls model, which only a loop can"},
		{"context", "def main(ctx):\n    for _ in range(1000000000): pass", "", "stopped by a limit: steps"},
		{"context", "def main(ctx): return 1 // 0", "", "floored division by zero"},
		{"guard",
			"def main(ctx): return {'mine': ctx.config['size'], 'short': len(ctx.config['short']), 'end': ctx.config['end'][-3:], 'full': ctx.config['share'] > 0}",
			`{\"end\":\"ue}\",\"full\":true,\"mine\":20035,\"short\":1019}`, ""},
		{"guard", "def main(ctx): return ctx.config['beginning'] * 3", "", "at most 16384 are allowed"},
		{"guard", "def main(ctx): return ctx.calls([])", "", "calls calls, which only a loop can"},
		{"loop", "load('_lib.star', 'say')\ndef main(ctx): return {'text': say(ctx)}", "", ""},
	} {
		if testing.Short() && c.want != "" && c.item != "guard" { // the child says what is wrong with one alike
			continue
		}
		items := plain(asking)
		items["tools/rye/agent/"+c.item+".star"] = starlark("rye/agent") + c.text + "\n"
		if c.item == "loop" {
			items["tools/rye/agent/_lib.star"] = "def say(ctx): return 'from two files'\n"
		}
		w := newWorld(t, items, large, done)
		r, err := w.run(t.Context(), thread.Start{})
		must(t, err)
		got := ""
		if r.Error != nil {
			got = r.Error.Text
		}
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %q; want %q", c.item, c.text, got, c.want)
		}
		sent := ""
		for _, q := range w.server.Requests() {
			sent += string(q.Raw)
		}
		if !strings.Contains(sent, c.sent) {
			t.Errorf("%s %s: sent %.3000s", c.item, c.text, sent)
		}
		if c.item == "loop" && r.Result != "from two files" {
			t.Errorf("%+v", r)
		}
	}
}

// TestContinuation: what a thread begins with that goes on with another's work.
func TestContinuation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plain(asking))
	say := func(role, text string) any { return object{"role": role, "text": text} }
	old := []any{say("user", "first"), say("assistant", strings.Repeat("a", 50)), say("tool", "result"),
		say("user", "second"), say("assistant", "b")}
	for _, c := range []struct {
		about object
		want  string
	}{
		{object{"summary": nil, "messages": old, "message": nil, "ceiling": 1000},
			"user:first assistant:50 tool:result user:second assistant:b user:Go on with the work."},
		{object{"summary": nil, "messages": old, "message": "and now?", "ceiling": 20},
			"user:first\n\nsecond assistant:b user:and now?"},
		{object{"summary": nil, "messages": old[:1], "message": "more", "ceiling": 20}, "user:first\n\nmore"},
		{object{"summary": nil, "messages": old[:3], "message": nil, "ceiling": 1},
			"user:first\n\nGo on with the work."},
		{object{"summary": nil, "messages": old[:3], "message": nil, "ceiling": 100},
			"user:first assistant:50 tool:result user:Go on with the work."},
		{object{"summary": nil, "messages": []any{old[0], say("assistant", "a"), say("tool", strings.Repeat("é", 100)),
			say("tool", "short")}, "message": nil, "ceiling": 150},
			"user:first assistant:a tool:" + strings.Repeat("é",
				22) + "… (the rest was left out) tool:short user:Go on with the work."},
		{object{"summary": "all of it", "messages": []any{}, "message": nil, "ceiling": 1},
			"user:This goes on with the work of another thread. What was done there:\n\nall of it\n\nGo on with the work."},
		{object{"summary": "all of it", "messages": old[:2], "message": nil, "ceiling": 1000},
			"user:first\n\nThis goes on with the work of another thread. What was done there:\n\nall of it assistant:50 user:Go on with the work."},
		{object{"summary": "more", "messages": []any{say("user",
			"first\n\nThis goes on with the work of another thread. What was done there:\n\nsome\n\nGo on with the work.")},
			"message": nil, "ceiling": 1000},
			"user:first\n\nThis goes on with the work of another thread. What was done there:\n\nmore\n\nGo on with the work."},
	} {
		c.about["reason"] = "handoff"
		got, err := w.engine.Agents().Continue(t.Context(), c.about)
		must(t, err)
		var all []string
		for _, m := range got {
			text := m.(object)["text"].(string)
			if len(text) == 50 {
				text = "50"
			}
			all = append(all, m.(object)["role"].(string)+":"+text)
		}
		if s := strings.Join(all, " "); s != c.want {
			b, _ := json.Marshal(c.about)
			t.Errorf("%s: %q; want %q", b, s, c.want)
		}
	}
}
