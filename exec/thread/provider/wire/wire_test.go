package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest/jcs"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// golden is a conversation with everything that formats treat differently.
func golden() Conversation {
	return Conversation{
		System: "Be short.",
		Tools: []Tool{
			{Name: "add", Description: "Adds", Schema: map[string]any{"type": "object",
				"properties": map[string]any{"a": map[string]any{"type": "number"}}}},
			{Name: "now"},
		},
		Messages: []Message{
			{Role: User, Text: "One."}, {Role: User, Text: "Two: ${KEY} {model}"},
			{Role: Assistant, Text: "Three.", Calls: []ToolCall{{ID: "c.1", Name: "add",
				Input: map[string]any{"a": 1.5}}, {ID: "c2", Name: "what is it?", Raw: `{"a":`}}},
			{Role: ToolRole, CallID: "c.1", Text: "1.5"},
			{Role: ToolRole, CallID: "c2", Text: "no such tool", Failed: true}, {Role: User, Text: "And?"},
			{Role: Assistant},
			{Role: User, Text: "Well?"},
			{Role: Assistant, Calls: []ToolCall{{ID: "c3", Name: "now"}}},
			{Role: ToolRole, CallID: "c3", Text: ""},
		},
	}
}

// TestRequests holds what is sent in each format to golden files, as JCS with line breaks.
func TestRequests(t *testing.T) {
	for _, name := range Formats() {
		for suffix, change := range map[string]func(*Conversation){
			"": func(c *Conversation) {
				c.Stream, c.Cache = true, true
			}, "_parsed": func(c *Conversation) { c.Parsed = true },
		} {
			c := golden()
			change(&c)
			params, err := Of(name).Params(c)
			must(t, err)
			compact, err := jcs.Append(nil, params)
			must(t, err)
			var got bytes.Buffer
			must(t, json.Indent(&got, compact, "", " "))
			got.WriteByte('\n')
			goldentest.File(t, "testdata/"+name+suffix+".json", got.Bytes())
		}
	}
}

// TestConversations: what no service would take is refused with the reason.
func TestConversations(t *testing.T) {
	user, call := Message{Role: User, Text: "Hi"}, Message{Role: Assistant, Calls: []ToolCall{{ID: "a", Name: "add"}}}
	result := Message{Role: ToolRole, CallID: "a", Text: "1"}
	for want, c := range map[string]Conversation{
		"the last message must be the user's or a tool's": {},
		"message 1 is empty":                              {Messages: []Message{{Role: User, Text: " \n"}}},
		"the first message must be the user's":            {Messages: []Message{call, result}},
		"message 2 has two calls with one id": {Messages: []Message{user,
			{Role: Assistant, Calls: []ToolCall{{ID: "a"}, {ID: "a"}}}}},
		`the call "a" has no result`: {Messages: []Message{user, call, user}},
		`message 3 is the result of "b", which is not an open call`: {Messages: []Message{user, call,
			{Role: ToolRole, CallID: "b"}}},
		`message 4 is the result of "a", which is not an open call`: {Messages: []Message{user, call, result, result}},
		`message 2 has the unknown role "system"`: {Messages: []Message{user,
			{Role: "system", Text: "x"}}},
		`duplicate tool name "add"`: {Messages: []Message{user},
			Tools: []Tool{{Name: "add"}, {Name: "add"}}},
		`invalid tool name "1st": expected`: {Messages: []Message{user},
			Tools: []Tool{{Name: "1st"}}},
		`invalid tool name "-x": expected`: {Messages: []Message{user},
			Tools: []Tool{{Name: "-x"}}},
		`invalid tool name "": expected`: {Messages: []Message{user}, Tools: []Tool{{}}},
		`invalid tool name "a b": expected`: {Messages: []Message{user},
			Tools: []Tool{{Name: "a b"}}},
		": expected at most 64 letters, ": {Messages: []Message{user},
			Tools: []Tool{{Name: strings.Repeat("x", 65)}}},
	} {
		if _, err := Of(ChatCompletion).Params(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := Of(ChatCompletion).Params(Conversation{Messages: []Message{user, call, result},
		Tools: []Tool{{Name: strings.Repeat("x", 64)}}}); err != nil {
		t.Error(err)
	}
	if Of("smoke signals") != nil || Of(Gemini).String() != Gemini {
		t.Error("formats by name")
	}
}

// TestPrefix: a longer conversation begins with all that was sent before, so that a service finds it in its cache. The
// marks of what is to be cached aren't part of it.
func TestPrefix(t *testing.T) {
	unmarked := func(c Conversation, name string) string {
		params, err := Of(name).Params(c)
		must(t, err)
		sent := encode(params["tools"]) + encode(params["system"]) + encode(params["messages"])
		return strings.ReplaceAll(sent, `"cache_control":{"type":"ephemeral"},`, "")
	}
	for _, name := range Formats() {
		whole := golden()
		whole.Cache = true
		whole.Messages = slices.Delete(whole.Messages, 6, 8) // what is said after an empty answer is joined
		before := ""
		for n := range whole.Messages {
			part := whole
			if part.Messages = whole.Messages[:n+1]; part.Messages[n].Role == Assistant {
				continue
			}
			if n+1 < len(whole.Messages) && whole.Messages[n+1].Role != Assistant {
				continue // it is the same request still
			}
			sent := unmarked(part, name)
			if !strings.HasPrefix(sent, strings.TrimSuffix(before, "]")) {
				t.Errorf("%s, %d messages: %s\ndoesn't begin with %s", name, n+1, sent, before)
			}
			before = sent
		}
	}
}

// TestOpaque: what a service wants back goes back to it alone, and only with the message that it came with.
func TestOpaque(t *testing.T) {
	for name, blocks := range map[string]string{
		ContentBlocks: `[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"A"},{"type":"text","text":"B"},
			{"type":"tool_use","id":"c1","name":"add","input":{"a":1}}]`,
		Responses: `[{"type":"reasoning","id":"rs","summary":[],"encrypted_content":"s"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"A"},{"type":"output_text","text":"B"}]},
			{"type":"function_call","id":"fc","call_id":"c1","name":"add","arguments":"{\"a\":1}"}]`,
		Gemini: `[{"text":"hm","thought":true,"thoughtSignature":"s"},{"text":"A\n"},{"text":"B"},{"functionCall":{"name":"add","args":{"a":1}},"thoughtSignature":"s"}]`,
	} {
		all, err := jcs.Parse([]byte(blocks))
		must(t, err)
		f := Of(name)
		a := f.of.blocks(all.([]any))
		if no := f.finish(a, false); no != nil || a.Text != "A\nB" || len(a.Calls) != 1 || a.Opaque == nil ||
			a.Opaque.Format != name {
			t.Fatalf("%s: %+v, %v", name, a, no)
		}
		// A transcript has kept it as JSON.
		kept, err := json.Marshal(a.Message())
		must(t, err)
		var m Message
		must(t, json.Unmarshal(kept, &m))
		sends := func(f *Format, m Message) bool {
			t.Helper()
			results := []Message{{Role: ToolRole, CallID: "c1", Text: "2"}}
			if len(m.Calls) > 0 {
				results[0].CallID = m.Calls[0].ID
			} else {
				results[0] = Message{Role: User, Text: "2"}
			}
			params, err := f.Params(Conversation{Messages: append([]Message{{Role: User, Text: "Hi"}, m}, results...)})
			must(t, err)
			sent := encode(params["messages"])
			return strings.Contains(sent, strings.Trim(encode(m.Opaque.Blocks), "[]"))
		}
		if !sends(f, m) {
			t.Errorf("%s: it is not sent back", name)
		}
		for _, other := range Formats() {
			if other != name && sends(Of(other), m) {
				t.Errorf("%s is sent in the format %s", name, other)
			}
		}
		changed := m
		changed.Text = "C"
		fewer := m
		fewer.Calls = nil
		if sends(f, changed) || sends(f, fewer) {
			t.Errorf("%s: what says something else is sent", name)
		}
		if again := f.of.blocks(m.Opaque.Blocks); again.Text != a.Text || canonicalCalls(again.Calls) == "" {
			t.Errorf("%s: %+v", name, again)
		}
	}
	deep, _ := jcs.Parse([]byte(strings.Repeat("[", 60) + strings.Repeat("]", 60)))
	a := &Answer{Opaque: &Opaque{Blocks: []any{deep}}}
	if no := Of(Gemini).finish(a, false); no != nil || a.Opaque != nil {
		t.Error("what no request could have is kept")
	}
}

// TestJSON: what transcripts have of messages and answers, forever.
func TestJSON(t *testing.T) {
	a := Answer{Text: "T", Calls: []ToolCall{{ID: "i", Name: "n", Input: map[string]any{"a": 1.0}},
		{ID: "j", Name: "m", Raw: "{"}}, Stop: StopCalls,
		Usage:  Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Reasoning: 5, Reported: true},
		Opaque: &Opaque{Format: Gemini, Blocks: []any{"b"}}}
	for want, v := range map[string]any{
		`{"text":"T","calls":[{"id":"i","name":"n","input":{"a":1}},{"id":"j","name":"m","raw":"{"}],"stop":"tool_calls",` +
			`"usage":{"input":1,"output":2,"cache_read":3,"cache_write":4,"reasoning":5,"reported":true},"opaque":{"format":"gemini","blocks":["b"]}}`: a,
		`{"role":"assistant","text":"T","calls":[{"id":"i","name":"n","input":{"a":1}},{"id":"j","name":"m","raw":"{"}],"opaque":{"format":"gemini","blocks":["b"]}}`: a.Message(),
		`{"role":"tool","text":"x","call_id":"i","failed":true}`: Message{Role: ToolRole, Text: "x", CallID: "i",
			Failed: true},
		`{"name":"n","description":"d","schema":{}}`: Tool{Name: "n", Description: "d", Schema: map[string]any{}},
	} {
		got, err := json.Marshal(v)
		must(t, err)
		if want = strings.Replace(want, `,"schema":{}`, "", 1); string(got) != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		back := reflect.New(reflect.TypeOf(v))
		must(t, json.Unmarshal(got, back.Interface()))
		if again, _ := json.Marshal(back.Interface()); string(again) != string(got) {
			t.Errorf("%s\nreads as %s", got, again)
		}
	}
	if a.Usage.Prompt() != 8 || a.Usage.Answered() != 7 {
		t.Error("sums of usage")
	}
}

// TestInvokes: calls in a text.
func TestInvokes(t *testing.T) {
	for text, want := range map[string]string{
		"nothing": "null",
		`I look.<invoke name="search"><parameter name="query"> rye &amp; "x" </parameter></invoke> then <invoke name="b"></invoke>`:                                                                          `[{"id":"textcall_0","input":{"query":"rye &amp; \"x\""},"name":"search"},{"id":"textcall_1","name":"b"}]`,
		"<invoke  name=\"a\">\n<parameter name=\"o\">\n{\"x\": [1]}\n</parameter><parameter name=\"l\">[2]</parameter><parameter name=\"n\">3</parameter><parameter name=\"bad\">{x}</parameter>\n</invoke>": `[{"id":"textcall_0","input":{"bad":"{x}","l":[2],"n":"3","o":{"x":[1]}},"name":"a"}]`,
		`<invoke name="a"><parameter name="p">1`: "null",
		`<invoke name="a">one</invoke>`:          `[{"id":"textcall_0","name":"a"}]`,
	} {
		if got := canonicalCalls(invokes(text)); got != want {
			t.Errorf("%s: %s\nwant %s", text, got, want)
		}
	}
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	if calls := invokes(`<invoke name="a"><parameter name="p">` + deep +
		`</parameter></invoke>`); calls[0].Input["p"] != deep {
		t.Errorf("%+v", calls)
	}
	body, _ := jcs.Parse(
		[]byte(`{"choices":[{"message":{"content":"<invoke name=\"a\"></invoke>"},"finish_reason":"stop"}]}`))
	if a, no := Of(ChatCompletion).Body(body, true); no != nil || len(a.Calls) != 1 || a.Stop != StopCalls {
		t.Errorf("%+v, %v", a, no)
	}
	if a, no := Of(ChatCompletion).Body(body, false); no != nil || len(a.Calls) != 0 || a.Stop != StopEnd {
		t.Errorf("%+v, %v", a, no)
	}
}
