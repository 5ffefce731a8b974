package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/manifest/jcs"
)

// lines makes events of JSON as the primitive does.
func lines(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "{\"data\":%s}\n", e)
	}
	return b.String()
}

// read gives a stream to a format in pieces of n bytes.
func read(t testing.TB, format, stream string, n int) (*Answer, *Failure, string) {
	var said strings.Builder
	s := Of(format).Stream(Deltas{Text: func(s string) { said.WriteString(s) }})
	for piece := range slices.Chunk([]byte(stream), n) {
		must(t, s.Emit(primitive.Stdout, piece))
	}
	must(t, s.Emit(primitive.Stderr, []byte("{\"data\":{}}\n")))
	a, f := s.Answer(false)
	return a, f, said.String()
}

// samples are streams that say something odd, and what the answer says then.
var samples = []struct{ format, stream, want string }{
	// Every call has the index 0, and the arguments come whole or as an object.
	{ChatCompletion,
		lines(
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":{"y":2}}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"arguments":""}}]},"finish_reason":"tool_calls"}]}`),
		`{"calls":[{"id":"a","input":{"x":1},"name":"f"},{"id":"b","input":{"y":2},"name":"g"}],"stop":"tool_calls"}`},
	// Other choices, content in parts, reasoning, an odd reason, usage in every chunk, and no [DONE].
	{ChatCompletion,
		lines(
			`{"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":[{"type":"text","text":"y"}],"reasoning":"r"}}],"usage":{"prompt_tokens":1,"completion_tokens":0}}`,
			`{"choices":[{"index":0,"delta":{"content":"es"},"finish_reason":"eos"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`),
		`{"stop":"other","text":"yes","usage":{"input":1,"output":2,"reported":true}}`},
	// What is no event, no JSON or no object is skipped.
	{ChatCompletion, "{}\nnot JSON\n[1]\n" + lines(`7`, `"text"`, `"[DONE] "`, `null`, `{"choices":7}`),
		`{"stop":"other"}`},
	{ChatCompletion, lines(`"{\"choices\":[{\"delta\":{\"cont"`, `"[DONE]"`),
		`failure ConnectionError: a part of the answer is not valid JSON`},
	{ChatCompletion, lines(`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":0,"completion_tokens":0}}`,
		`"[DONE]"`), `{"stop":"other","text":"a"}`},
	{ChatCompletion, lines(`{"choices":[{"delta":{"content":"a"}}]}`),
		`failure ConnectionError: the answer ends in the middle`},
	{ChatCompletion, lines(`{"choices":[{"delta":{"content":"a"}}]}`, `{"error":{"message":"no more","code":503}}`,
		`"[DONE]"`), `failure : no more`},
	// Numbers and members that package jcs refuses come as text.
	{ChatCompletion,
		lines(
			`"{\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":99999999999999999999,\"completion_tokens\":1e999}}"`),
		`{"stop":"end","text":"a"}`},
	{ContentBlocks,
		lines(
			`{"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1,"cache_read_input_tokens":null}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"A"}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"B"}}`,
			`{"type":"content_block_delta","index":9,"delta":{"type":"text_delta","text":"nowhere"}}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t","name":"f","input":{"a":1}}}`,
			`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"u","name":"g","input":{}}}`,
			`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"b\""}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"unheard_of"}}`,
			`{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":":2}"}}`,
			`{"type":"content_block_start","index":4,"content_block":{"type":"server_tool_use","id":"s"}}`,
			`{"type":"unheard_of"}`,
			`{"type":"message_delta","delta":{"stop_reason":"pause_turn"},"usage":{"output_tokens":5}}`,
			`{"type":"message_delta","delta":{},"usage":{"output_tokens":7}}`, `{"type":"message_stop"}`),
		`{"calls":[{"id":"t","input":{"a":1},"name":"f"},{"id":"u","input":{"b":2},"name":"g"}],"stop":"other","text":"A\nB","usage":{"input":9,"output":7,"reported":true}}`},
	{ContentBlocks, lines(`{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`,
		`{"type":"message_stop"}`), `failure overloaded_error: busy`},
	{Responses, lines(`{"type":"response.output_text.delta","delta":"A"}`,
		`{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"A"}]}}`,
		`{"type":"response.completed","response":{"status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":2}}}`),
		`{"stop":"end","text":"A","usage":{"input":1,"output":2,"reported":true}}`},
	{Responses, lines(
		`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}}`),
		`{"stop":"refusal"}`},
	{Responses, lines(
		`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"sorry"}}}`),
		`failure server_error: sorry`},
	{Responses, lines(`{"type":"error","code":"rate_limit_exceeded","message":"slow"}`),
		`failure rate_limit_exceeded: slow`},
	{Responses, lines(`{"error":{"message":"proxy"}}`), `failure : proxy`},
	{Responses, lines(`{"type":"response.created"}`), `failure ConnectionError: the answer ends in the middle`},
	{Gemini, lines(`{"candidates":[{"content":{"parts":[7,{"text":"A"},{"text":"B"},{"text":"hm","thought":true}]}}]}`,
		`{"candidates":[]}`,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":3,"toolUsePromptTokenCount":2}}`),
		`{"calls":[{"id":"call_0","name":"f"}],"stop":"tool_calls","text":"AB","usage":{"input":5,"reported":true}}`},
	{Gemini, lines(
		`{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"quota","details":[{"retryDelay":"1.5s"},{"retryDelay":"soon"}]}}`),
		`failure RESOURCE_EXHAUSTED: quota after 1.5s`},
}

// told is an answer as JSON without what is empty, or a failure.
func told(a *Answer, f *Failure) string {
	if f != nil {
		s := "failure " + f.Type + ": " + f.Message
		if f.After > 0 {
			s += " after " + f.After.String()
		}
		return s
	}
	m := map[string]any{"stop": a.Stop}
	if a.Text != "" {
		m["text"] = a.Text
	}
	if len(a.Calls) > 0 {
		m["calls"], _ = jcs.Parse([]byte(canonicalCalls(a.Calls)))
	}
	if a.Usage.Reported {
		u := map[string]any{"reported": true}
		for name, n := range map[string]int64{"input": a.Usage.Input, "output": a.Usage.Output,
			"cache_read": a.Usage.CacheRead} {
			if n > 0 {
				u[name] = n
			}
		}
		m["usage"] = u
	}
	return encode(m)
}

func TestStreams(t *testing.T) {
	for _, c := range samples {
		for _, n := range []int{1, 7, 1 << 20} {
			a, f, said := read(t, c.format, c.stream, n)
			if got := told(a, f); got != c.want {
				t.Errorf("%s in pieces of %d: %s\n%s\nwant %s", c.format, n, c.stream, got, c.want)
			}
			if f == nil && said != a.Text {
				t.Errorf("%s: the deltas say %q, the answer %q", c.format, said, a.Text)
			}
		}
	}
}

// TestStreamLimits: lines, calls and blocks are bounded.
func TestStreamLimits(t *testing.T) {
	long := `"` + strings.Repeat("x", maxLine) + `"`
	if a, f, _ := read(t, ChatCompletion, lines(long,
		`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`), 1<<16); f != nil || a.Text != "a" {
		t.Errorf("after a long line: %+v, %v", a, f)
	}
	for format, event := range map[string]string{
		ChatCompletion: `{"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"c%[1]d"}]}}]}`,
		ContentBlocks:  `{"type":"content_block_start","index":%d,"content_block":{"type":"text"}}`,
		Responses:      `{"type":"response.output_item.done","item":{"n":%d}}`,
		Gemini:         `{"candidates":[{"content":{"parts":[{"inlineData":%d}]}}]}`,
	} {
		s := Of(format).Stream(Deltas{})
		n := 0
		for ; s.Failure() == nil && n < 1<<18; n++ {
			must(t, s.Emit(primitive.Stdout, []byte(lines(fmt.Sprintf(event, n)))))
		}
		if f := s.Failure(); f == nil || f.Type != "AnswerError" {
			t.Errorf("%s: %d events, %v", format, n, f)
		}
	}
	if _, f := Of(Gemini).Body(map[string]any{"candidates": []any{}}, false); f == nil {
		t.Error("half an answer is taken")
	}
}

// FuzzStream: where a stream is cut doesn't matter, no number of tokens is negative, and what a service says can be
// sent back to every service.
func FuzzStream(f *testing.F) {
	for _, c := range samples {
		f.Add(slices.Index(Formats(), c.format), c.stream, 5)
	}
	f.Fuzz(func(t *testing.T, format int, stream string, n int) {
		name := Formats()[uint(format)%4]
		a, no, said := read(t, name, stream, max(1, len(stream)))
		b, no2, said2 := read(t, name, stream, 1+int(uint(n)%16))
		if told(a, no) != told(b, no2) || said != said2 {
			t.Fatalf("whole: %s, %q; cut: %s, %q", told(a, no), said, told(b, no2), said2)
		}
		if no != nil {
			no.Settle()
			if no.Doc()["error"] == nil || no.Error() == "" {
				t.Error("a failure without a document")
			}
			return
		}
		u := a.Usage
		if min(u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning) < 0 || !u.Reported && u != (Usage{}) {
			t.Errorf("usage %+v", u)
		}
		messages := []Message{{Role: User, Text: "x"}, a.Message()}
		for _, c := range a.Calls {
			messages = append(messages, Message{Role: ToolRole, CallID: c.ID, Text: "y"})
		}
		messages = append(messages, Message{Role: User, Text: "z"})
		for _, other := range Formats() {
			for _, parsed := range []bool{false, true} {
				params, err := Of(other).Params(Conversation{Messages: messages, Parsed: parsed, Cache: true})
				if err != nil || encode(params) == "" {
					t.Errorf("%s can't be sent as %s: %v", told(a, nil), other, err)
				}
			}
		}
	})
}

// TestHugeAnswer: an answer that comes in many small events is bounded as a whole, by what it has as JSON.
func TestHugeAnswer(t *testing.T) {
	piece := strings.Repeat(`\u0001`, 1<<17) // six bytes each
	event := lines(`{"choices":[{"delta":{"content":"` + piece + `"}}]}`)
	for n, want := range map[int]bool{7: true, 9: false} {
		a, f, _ := read(t, ChatCompletion, strings.Repeat(event, n)+lines(`"[DONE]"`), 1<<16)
		if (f == nil) != want || f != nil && (f.Type != "LimitError" || a != nil) {
			t.Errorf("%d events: %v, %v", n, a != nil, f)
		}
	}
}
