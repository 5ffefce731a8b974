package thread_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/search"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// TestPermitted: what a directive with every permission to execute gets of directives and knowledge.
func TestPermitted(t *testing.T) {
	items := plain(strings.ReplaceAll(strings.ReplaceAll(asking, "<execute><tool>acme/echo</tool></execute>",
		"<execute>*</execute>"),
		`<model provider="local" id="test-model"/>`, ""))
	items["directives/acme/asking.md"] = strings.ReplaceAll(items["directives/acme/asking.md"], "Ask about",
		"Ask {input:nothing} about")
	items["knowledge/acme/facts.md"] =
		"---\nid: facts\ntitle: Facts\nversion: 1.0.0\nentry_type: reference\ncategory: acme\n---\nThe earth is round.\n"
	item := func(id, kind string, given object) provider.ToolCall {
		return call(id, "rye_execute", object{"item_type": kind,
			"item_id":    map[string]string{"directive": "acme/asking", "knowledge": "acme/facts"}[kind],
			"parameters": given})
	}
	w := newWorld(t, items, modeltest.Turn{RawUsage: "none", Calls: []provider.ToolCall{
		item("a", "knowledge", object{}), item("b", "directive", object{"topic": "bread"}),
		item("c", "directive", object{}),
		executes("d", "rye/agent/threads/directive_return", object{}), executes("e", "rye/nothing", object{}),
	}}, modeltest.Turn{Text: "done"})
	r, err := w.run(t.Context(), thread.Start{Limits: []string{"duration=60"}})
	must(t, err)
	body := string(w.server.Requests()[1].Raw)
	for _, part := range []string{"The earth is round", "Ask {input:nothing} about bread, 2 deep", "topic",
		"declares no outputs", "TOOL_NOT_FOUND"} {
		if !strings.Contains(body, part) {
			t.Errorf("the model's results lack %q: %s", part, body)
		}
	}
	if !r.Success || r.Cost.InputTokens == 0 {
		t.Errorf("%+v, %v", r, r.Error)
	}
}

// TestOutputs: outputs that are missing go back to the model, whichever way it returns them.
func TestOutputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOutputs(asking), modeltest.Turn{Calls: []provider.ToolCall{executes("a",
		"rye/agent/threads/directive_return", object{"other": 1})}},
		modeltest.Turn{Calls: []provider.ToolCall{executes("b", "rye/agent/threads/directive_return",
			object{"answer": 5})}},
		modeltest.Turn{Calls: []provider.ToolCall{executes("c", "rye/agent/threads/directive_return",
			object{"answer": "five"})}})
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	if !r.Success || r.Outputs["answer"] != "five" ||
		!strings.Contains(string(w.server.Requests()[1].Raw), "outputs are missing: answer") {
		t.Errorf("%+v: %s", r, w.server.Requests()[1].Raw)
	}

	// A value that is nothing to speak of is one.
	empty := object{"n": 0.0, "b": false, "s": "", "l": []any{}}
	items := plain(strings.Replace(asking, "OUTPUTS",
		`<outputs><output name="n" type="integer">n</output><output name="b" type="boolean">b</output>`+
			`<output name="s" type="string">s</output><output name="l" type="array">l</output></outputs>`, 1))
	w = newWorld(t, items, modeltest.Turn{Calls: []provider.ToolCall{call("a", "directive_return", empty)}})
	if r, err = w.run(t.Context(), thread.Start{}); err != nil || !r.Success ||
		!reflect.DeepEqual(r.Outputs, map[string]any(empty)) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestReturnsOnce: the first outputs of a turn count, and nothing after them is done, however many calls the turn has.
func TestReturnsOnce(t *testing.T) {
	t.Parallel()
	returns := func(id, text string) provider.ToolCall {
		return call(id, "directive_return", object{"answer": text})
	}
	w := newWorld(t, withOutputs(asking))
	w.server.Handle(func(*modeltest.Request) modeltest.Turn {
		turn := modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/echo", object{"text": "x"})}}
		for i := range 20 {
			turn.Calls = append(turn.Calls, returns(fmt.Sprint("r", i), fmt.Sprint("answer ", i)))
		}
		return turn
	})
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	if n := strings.Count(types(w.events(r)), "call_result"); !r.Success || r.Outputs["answer"] != "answer 0" ||
		n != 2 {
		t.Errorf("%+v, %v, %d results", r, r.Error, n)
	}
	w.same(r.Thread)
}

// TestCutAnswers: an answer that is cut off is continued, and a refusal is no result.
func TestCutAnswers(t *testing.T) {
	t.Parallel()
	cut := func(text string) modeltest.Turn { return modeltest.Turn{Text: text, Stop: provider.StopLength} }
	returns := modeltest.Turn{Calls: []provider.ToolCall{call("z", "directive_return", object{"answer": "x"})}}
	for name, c := range map[string]struct {
		items        map[string]string
		turns        []modeltest.Turn
		limits       []string
		status, says string
	}{
		"cut twice": {plain(asking), []modeltest.Turn{cut("one, "), cut("two, "), {Text: "three"}}, nil,
			thread.Completed, "one, two, three"},
		"after a call": {plain(asking), []modeltest.Turn{cut("I'll "), echoes("x"), {Text: "done"}}, nil,
			thread.Completed, "done"},
		"always": {plain(asking), []modeltest.Turn{cut("one, "), cut("two, "), cut("three, ")},
			[]string{"turns=3"}, thread.Interrupted, "turns_exceeded"},
		"before outputs": {withOutputs(asking), []modeltest.Turn{cut("It is "), {Text: "x."}, returns}, nil,
			thread.Completed, ""},
		"refused": {plain(asking), []modeltest.Turn{{Text: "I can't help with that.", Stop: provider.StopRefusal}},
			nil, thread.Failed, "the model refused to answer: I can't help with that."},
		"nothing": {plain(asking), []modeltest.Turn{{Stop: provider.StopLength}, {Stop: provider.StopLength}}, nil,
			thread.Failed, "with nothing, twice"},
	} {
		w := newWorld(t, c.items, c.turns...)
		r, err := w.run(t.Context(), thread.Start{Limits: c.limits})
		must(t, err)
		says := r.Result
		if r.Error != nil {
			says = r.Error.Text
		}
		if r.Status != c.status || !strings.Contains(says, c.says) || c.status == thread.Completed && says != c.says ||
			w.server.Left() != 0 {
			t.Errorf("%s: %+v, %v", name, r, r.Error)
		}
		w.same(r.Thread)
	}
}

// TestImpatient: a thread that is cancelled while it waits for another try ends at once.
func TestImpatient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plain(asking), modeltest.Turn{Status: 429, RetryAfter: "3000"})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := w.run(ctx, thread.Start{Live: thread.Live{Event: func(e *transcript.Event) {
		if e.Type == transcript.TypeClassified {
			cancel()
		}
	}}})
	must(t, err)
	if r.Status != thread.Interrupted || r.Error.Code != fault.Cancelled {
		t.Errorf("%+v, %v", r, r.Error)
	}
}

// TestUnknownModel: where the server doesn't know the model, the thread ends with those that the server has, and with
// how one of them is chosen. A tool that lists another server's is not asked.
func TestUnknownModel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		models []string
		host   string
		want   string
	}{
		"two":     {[]string{"qwen:4b", "llama:3b"}, "", "the server has llama:3b, qwen:4b: --model local/llama:3b"},
		"none":    {nil, "", "the server has no models: install one"},
		"another": {[]string{"llama:3b"}, "127.0.0.1:9", "choose another model with --model local/NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, plain(asking), modeltest.Turn{Status: 404, Message: `model "m" not found`})
			w.server.Has(c.models...)
			lister := w.server.Lister("local")
			if c.host != "" {
				lister = strings.ReplaceAll(lister, w.server.Host, c.host)
			}
			w.Put("tools/rye/agent/models/local.yaml", lister)
			r, err := w.run(t.Context(), thread.Start{})
			must(t, err)
			if r.Status != thread.Failed || !strings.HasSuffix(r.Error.Text, `model "m" not found; `+c.want) {
				t.Errorf("%+v, %v", r, r.Error)
			}
			w.same(r.Thread)
		})
	}
}

// TestUnusable: what isn't signed, or isn't there, is used by no thread; and a cancelled caller gets nothing.
func TestUnusable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plain(asking))
	w.Write(".ai/directives/acme/raw.md", strings.ReplaceAll(asking, "OUTPUTS", ""))
	s := w.engine.Session
	if r, err := w.run(t.Context(), thread.Start{Directive: model.Ref{Kind: "directive",
		ID: "acme/raw"}}); err == nil {
		t.Errorf("an unsigned directive: %+v", r)
	}
	if it, err := s.Chosen(t.Context(), model.Ref{Kind: "tool", ID: "rye/none"}); err == nil {
		t.Errorf("%+v", it)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, policies := s.Policies(ctx)
	_, providers := s.Providers(ctx)
	_, item := s.Item(ctx, model.Ref{Kind: "tool", ID: "acme/echo"})
	_, chosen := s.Chosen(ctx, model.Ref{Kind: "tool", ID: "rye/agent/loop"})
	_, search := s.Search(ctx, search.Request{})
	for i, err := range []error{policies, providers, item, chosen, search} {
		if err == nil {
			t.Errorf("%d: no error", i)
		}
	}
	must(t, s.Close())
	if r, err := w.run(t.Context(), thread.Start{}); fault.CodeOf(err) != fault.Unavailable {
		t.Errorf("a closed session: %+v, %v", r, err)
	}
}
