package provider_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/provider/wire"
)

var adder = provider.Tool{Name: "add", Description: "Adds two numbers", Schema: map[string]any{
	"type": "object", "required": []any{"a", "b"},
	"properties": map[string]any{"a": map[string]any{"type": "number"}, "b": map[string]any{"type": "number"}},
}}

// library is a world whose providers are those of the library, with the address of a server.
func library(t *testing.T, s *modeltest.Server) *world {
	t.Helper()
	items := map[string]string{}
	for _, name := range shipped {
		items["rye/agent/providers/"+name] = s.Item(name)
	}
	return newWorld(t, items)
}

// TestShipped: a conversation with calls side by side, by each provider of the library, streamed and not. What the
// model says, counts and wants back comes through, and the key goes to the service and nowhere else.
func TestShipped(t *testing.T) {
	usage := provider.Usage{Input: 40, Output: 12, CacheRead: 100, Reasoning: 3}
	turns := []modeltest.Turn{
		{Thinking: "Two sums, then.", Text: "I add.", Calls: []provider.ToolCall{
			{ID: "a", Name: "add", Input: map[string]any{"a": 1, "b": 2}},
			{ID: "b", Name: "add", Input: map[string]any{"a": 3, "b": 4.5}}}, Usage: usage},
		{Text: "3, and an error: ${ANTHROPIC_API_KEY} {model} ünïcode", Usage: usage},
	}
	s := modeltest.New(t)
	w := library(t, s)
	// Text of a message is never a template's.
	const question = "What is ${ANTHROPIC_API_KEY}, {model}, {{params}}, ${OPENAI_API_KEY:-x}, $${HOME} and {tools}?"
	calls := 0
	for _, name := range shipped {
		p := w.provider("rye/agent/providers/" + name)
		if len(p.Secrets) > 0 {
			s.Require(secret)
		} else {
			s.Require("")
		}
		for _, stream := range []bool{false, true} {
			s.Add(turns...)
			var said, thought strings.Builder
			r := provider.Request{
				Model: p.Tiers["fast"], System: "Be short. {model}", Tools: []provider.Tool{adder}, Stream: stream,
				MaxTokens: 1000,
				Messages:  []provider.Message{{Role: provider.User, Text: question}},
			}
			first, err := w.ask(p, r, provider.Deltas{Text: func(s string) {
				said.WriteString(s)
			}, Reasoning: func(s string) { thought.WriteString(s) }})
			if err != nil {
				t.Fatalf("%s, stream %v: %v, %q", name, stream, err, s.Refused())
			}
			if first.Text != "I add." || len(first.Calls) != 2 || first.Calls[1].Input["b"] != 4.5 ||
				first.Stop != wire.StopCalls {
				t.Errorf("%s, stream %v: %+v", name, stream, first)
			}
			if first.Usage != (provider.Usage{Input: 40, Output: 12, CacheRead: 100, Reasoning: 3, Reported: true}) {
				t.Errorf("%s, stream %v: %+v", name, stream, first.Usage)
			}
			if stream && (said.String() != "I add." || thought.String() != "Two sums, then.") {
				t.Errorf("%s: the deltas say %q, %q", name, said.String(), thought.String())
			}
			if (first.Opaque != nil) != (p.Format != wire.ChatCompletion) {
				t.Errorf("%s: opaque %+v", name, first.Opaque)
			}
			r.Messages = append(r.Messages, first.Message(),
				provider.Message{Role: provider.ToolRole, CallID: first.Calls[0].ID, Text: "3"},
				provider.Message{Role: provider.ToolRole, CallID: first.Calls[1].ID, Text: `{"error": "too hard"}`,
					Failed: true},
				provider.Message{Role: provider.User, Text: "Well?"})
			second, err := w.ask(p, r, provider.Deltas{})
			if err != nil || second.Text != turns[1].Text || second.Stop != wire.StopEnd || second.Opaque != nil {
				t.Errorf("%s, stream %v: %+v, %v, %q", name, stream, second, err, s.Refused())
			}
			calls += 2
			last := s.Requests()[calls-1]
			if last.Stream != stream || !strings.Contains(string(last.Raw), question) {
				t.Errorf("%s: the question came as %s", name, last.Raw)
			}
			w.clean("body", string(last.Raw))
		}
	}
	if n := len(s.Requests()); n != calls || s.Left() != 0 {
		t.Errorf("%d requests for %d calls", n, calls)
	}
	log := w.logged()
	w.clean("log", log)
	if strings.Count(log, `"kind":"end"`) != calls {
		t.Errorf("the log doesn't have %d calls: %s", calls, log)
	}
}

// TestFailures: what a service refuses, breaks or talks nonsense about is a Failure that the library's classification
// knows, with the key in none of it.
func TestFailures(t *testing.T) {
	s := modeltest.New(t)
	w := library(t, s)
	merged, err := w.Config(t.Context(), classification.Name)
	must(t, err)
	rules, err := classification.Read(merged.Value)
	must(t, err)
	type want struct {
		status   int
		code     string
		category classification.Category
		retry    bool
		fault    fault.Code
	}
	for name, c := range map[string]struct {
		turn modeltest.Turn
		want want
		only string // the provider; "" for all
	}{
		"busy": {modeltest.Turn{Status: 429, RetryAfter: "7", Message: "slow down"},
			want{429, "", "rate_limited", true, fault.RateLimited}, ""},
		"broken": {modeltest.Turn{Status: 500, Message: "oops " + secret},
			want{500, "", "transient", true, fault.Unavailable}, ""},
		"gone": {modeltest.Turn{Status: 503, Message: "later"},
			want{503, "", "transient", true, fault.Unavailable}, ""},
		"overloaded": {modeltest.Turn{Status: 529, Message: "Overloaded"},
			want{529, "overloaded", "transient", true, fault.Unavailable}, "anthropic"},
		"late": {modeltest.Turn{Status: 529, Type: "overloaded_error", Message: "Overloaded", Late: true,
			Text: "half"},
			want{529, "overloaded", "transient", true, fault.Unavailable}, "anthropic"},
		"late quota": {modeltest.Turn{Status: 429, Type: "insufficient_quota", Code: "insufficient_quota",
			Message: "pay", Late: true, Text: "half"},
			want{429, "insufficient_quota", "quota", false, fault.Failed}, "openai"},
		"quota": {modeltest.Turn{Status: 429, Type: "insufficient_quota", Code: "insufficient_quota",
			Message: "You exceeded your current quota"},
			want{429, "insufficient_quota", "quota", false, fault.Failed}, "openai_responses"},
		"poor": {modeltest.Turn{Status: 400, Message: "Your credit balance is too low to access the Anthropic API."},
			want{400, "insufficient_quota", "quota", false, fault.Failed}, "anthropic"},
		"long": {modeltest.Turn{Status: 400, Message: "prompt is too long: 212000 tokens > 200000 maximum"},
			want{400, "context_length_exceeded", "permanent", false, fault.Limit}, "anthropic"},
		"long chat": {modeltest.Turn{Status: 400, Code: "context_length_exceeded", Type: "invalid_request_error",
			Message: "maximum context length"},
			want{400, "context_length_exceeded", "permanent", false, fault.Limit}, "openai"},
		"long gemini": {modeltest.Turn{Status: 400,
			Message: "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."},
			want{400, "context_length_exceeded", "permanent", false, fault.Limit}, "gemini"},
		"refused": {modeltest.Turn{Status: 400, Code: "content_policy_violation", Type: "invalid_request_error",
			Message: "no"},
			want{400, "content_refused", "permanent", false, fault.Failed}, "openai"},
		"no model": {modeltest.Turn{Status: 404, Message: "no such model"},
			want{404, "", "permanent", false, fault.Failed}, ""},
		"nonsense": {modeltest.Turn{Body: "<html>not here</html>"}, want{0, "", "permanent", false, fault.Failed},
			""},
		"other JSON": {modeltest.Turn{Body: `{"hello": "world"}`}, want{0, "", "permanent", false, fault.Failed},
			""},
		"a list": {modeltest.Turn{Body: `[1, 2]`}, want{0, "", "transient", true, fault.Unavailable}, ""},
		"a late error": {modeltest.Turn{Body: `{"error": {"message": "never mind", "type": "server_error"}}`},
			want{500, "", "transient", true, fault.Unavailable}, ""},
		"plain error": {modeltest.Turn{Body: `{"error": "never mind"}`}, want{0, "", "permanent", false, fault.Failed},
			""},
		"cut": {modeltest.Turn{Text: strings.Repeat("a long answer ", 50), Cut: 4},
			want{0, "", "transient", true, fault.Unavailable}, ""},
	} {
		for _, provided := range shipped {
			if c.only != "" && c.only != provided {
				continue
			}
			for _, stream := range []bool{false, true} {
				if c.turn.Late && !stream {
					continue
				}
				s.Add(c.turn)
				p := w.provider("rye/agent/providers/" + provided)
				w.secret = p.Secrets != nil
				a, err := w.ask(p, provider.Request{Model: p.Tiers["fast"], Stream: stream,
					Messages: []provider.Message{{Role: provider.User, Text: "Hi"}}}, provider.Deltas{})
				f, ok := errors.AsType[*provider.Failure](err)
				if !ok {
					t.Errorf("%s, %s, stream %v: %+v, %v", name, provided, stream, a, err)
					continue
				}
				class := rules.Of(f.Doc())
				got := want{f.Status, f.Code, class.Category, class.Retryable, fault.CodeOf(f)}
				if c.want.code == "" {
					got.code = ""
				}
				if got != c.want {
					t.Errorf("%s, %s, stream %v: %+v, want %+v: %v", name, provided, stream, got, c.want, f.Doc())
				}
				if name == "busy" && (f.After != 7*time.Second || class.Policy.Wait(0, f.After) != 7*time.Second ||
					f.RequestID == "") {
					t.Errorf("%s: after %v, request %q", provided, f.After, f.RequestID)
				}
			}
		}
	}
	w.secret = true
	w.clean("log", w.logged())
}

// TestEcho: a service that says the key is heard without it, though a stream cuts it into pieces.
func TestEcho(t *testing.T) {
	s := modeltest.New(t)
	w := library(t, s)
	for _, name := range shipped {
		p := w.provider("rye/agent/providers/" + name)
		if p.Secrets == nil {
			continue
		}
		for _, stream := range []bool{false, true} {
			s.Add(modeltest.Turn{Thinking: "It is " + secret,
				Text: "Your key is " + secret + ", I think, and ends in sk-a-key-for",
				Calls: []provider.ToolCall{{ID: "a", Name: "add",
					Input: map[string]any{"token": secret, "kept": "as it is"}},
					{ID: "b", Name: "add", Raw: "{" + secret}}})
			var said strings.Builder
			hear := func(s string) { said.WriteString(s) }
			a, err := w.ask(p, provider.Request{Model: "m", Stream: stream,
				Messages: []provider.Message{{Role: provider.User, Text: "Hi"}}},
				provider.Deltas{Text: hear, Reasoning: hear})
			if err != nil || a.Text != "Your key is ***REDACTED***, I think, and ends in ***REDACTED***" ||
				a.Calls[0].Input["kept"] != "as it is" || a.Calls[0].Input["token"] != "***REDACTED***" {
				t.Errorf("%s, stream %v: %+v, %v", name, stream, a, err)
			}
			w.clean("deltas", said.String())
			if stream && !strings.Contains(said.String(), "Your key is ***REDACTED***, I think, and ends in ") {
				t.Errorf("%s: the deltas say %s", name, said.String())
			}
			if a.Opaque != nil {
				t.Errorf("%s: what was changed would be sent back", name)
			}
		}
	}
	w.clean("log", w.logged())
}

// TestStreamEnds: a stream that ends in good form but too early is no answer, wherever it ends.
func TestStreamEnds(t *testing.T) {
	s := modeltest.New(t)
	w := library(t, s)
	turn := modeltest.Turn{Text: "a longer answer",
		Calls: []provider.ToolCall{{ID: "x", Name: "add", Input: map[string]any{"a": 1, "b": 1}}}}
	for _, name := range shipped {
		p := w.provider("rye/agent/providers/" + name)
		early := 0
		for n := 1; ; n++ {
			turn.Short = n
			s.Add(turn)
			a, err := w.ask(p, provider.Request{Model: "m", Stream: true,
				Messages: []provider.Message{{Role: provider.User, Text: "Hi"}}}, provider.Deltas{})
			if err == nil {
				if a.Text != turn.Text || len(a.Calls) != 1 || a.Calls[0].Input["a"] != 1.0 {
					t.Errorf("%s after %d events: %+v", name, n, a)
				}
				break
			}
			if f, ok := errors.AsType[*provider.Failure](err); !ok || f.Type != "ConnectionError" {
				t.Errorf("%s after %d events: %v", name, n, err)
			}
			early++
		}
		if early < 2 {
			t.Errorf("%s: only %d events", name, early)
		}
	}
}

// TestUsage: numbers that can't be true aren't reported, and the answer counts all the same.
func TestUsage(t *testing.T) {
	s := modeltest.New(t)
	w := library(t, s)
	for _, raw := range []string{
		"none", "null", "{}", `"many"`, "[]",
		`{"input_tokens": -1, "output_tokens": 5, "prompt_tokens": -1, "completion_tokens": 5, "promptTokenCount": -1, "candidatesTokenCount": 5}`,
		`{"input_tokens": 1.5, "output_tokens": 5, "prompt_tokens": 1.5, "completion_tokens": 5, "promptTokenCount": 1.5}`,
		`{"input_tokens": 1e300, "output_tokens": 5, "prompt_tokens": 1e300, "completion_tokens": 5, "promptTokenCount": 1e300}`,
		`{"input_tokens": 99999999999999999999, "output_tokens": 5, "prompt_tokens": 99999999999999999999, "completion_tokens": 5, "promptTokenCount": 99999999999999999999}`,
		`{"input_tokens": 1e999, "output_tokens": 5, "prompt_tokens": 1e999, "completion_tokens": 5, "promptTokenCount": 1e999}`,
		`{"input_tokens": "7", "output_tokens": 5, "prompt_tokens": "7", "completion_tokens": 5, "promptTokenCount": "7"}`,
		`{"input_tokens": 5, "output_tokens": 5, "cache_read_input_tokens": -3, "input_tokens_details": {"cached_tokens": 9}, ` +
			`"prompt_tokens": 5, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}, "promptTokenCount": 5, "cachedContentTokenCount": 9}`,
	} {
		for _, name := range someShipped() {
			for _, stream := range []bool{false, true} {
				s.Add(modeltest.Turn{Text: "yes", RawUsage: raw})
				p := w.provider("rye/agent/providers/" + name)
				a, err := w.ask(p, provider.Request{Model: p.Tiers["fast"], Stream: stream,
					Messages: []provider.Message{{Role: provider.User, Text: "Hi"}}}, provider.Deltas{})
				// An integer that no double holds spoils a body, which isn't JSON with one meaning then, and not an
				// event.
				if f, ok := errors.AsType[*provider.Failure](err); ok && !stream && f.Type == "AnswerError" &&
					(strings.Contains(raw, "9999") || strings.Contains(raw, "1e999")) {
					continue
				}
				if err != nil || a.Text != "yes" || a.Usage != (provider.Usage{}) {
					t.Errorf("%s, stream %v, usage %s: %+v, %v", name, stream, raw, a, err)
					continue
				}
				if n, known := p.Cost(p.Tiers["fast"], a.Usage); known {
					t.Errorf("%s: costs %d", name, n)
				}
			}
		}
	}
}

// TestMalformed: arguments that aren't JSON, names that aren't any, and too much of everything.
func TestMalformed(t *testing.T) {
	s := modeltest.New(t)
	w := library(t, s)
	many := make([]provider.ToolCall, provider.MaxCalls+1)
	for i := range many {
		many[i] = provider.ToolCall{ID: "same", Name: "add"}
	}
	deep := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	for _, name := range shipped {
		p := w.provider("rye/agent/providers/" + name)
		for _, stream := range []bool{false, true} {
			r := provider.Request{Model: p.Tiers["fast"], Stream: stream, Tools: []provider.Tool{adder},
				Messages: []provider.Message{{Role: provider.User, Text: "Hi"}}}
			s.Add(modeltest.Turn{Calls: []provider.ToolCall{{ID: "", Name: "no such tool!", Raw: `{"a": 1,`},
				{ID: "same", Name: "add", Raw: deep}, {ID: "same", Name: "add"}}},
				modeltest.Turn{Text: "sorry"})
			a, err := w.ask(p, r, provider.Deltas{})
			if err != nil || len(a.Calls) != 3 {
				t.Fatalf("%s, stream %v: %+v, %v", name, stream, a, err)
			}
			if a.Calls[0].Raw != `{"a": 1,` || a.Calls[0].Name != "no such tool!" || a.Calls[1].Raw != deep ||
				a.Calls[2].Raw != "" || a.Calls[2].Input == nil {
				t.Errorf("%s, stream %v: %+v", name, stream, a.Calls)
			}
			ids := []string{a.Calls[0].ID, a.Calls[1].ID, a.Calls[2].ID}
			if slices.Contains(ids, "") || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 3 {
				t.Errorf("%s: ids %q", name, ids)
			}
			r.Messages = append(r.Messages, a.Message())
			for _, c := range a.Calls {
				r.Messages = append(r.Messages, provider.Message{Role: provider.ToolRole, CallID: c.ID, Failed: true})
			}
			if a, err = w.ask(p, r, provider.Deltas{}); err != nil || a.Text != "sorry" {
				t.Errorf("%s, stream %v: %+v, %v, %q", name, stream, a, err, s.Refused())
			}
			// the sizes are the same for all, and take a second each with the race detector
			if testing.Short() && name != shipped[0] {
				continue
			}
			s.Add(modeltest.Turn{Calls: many})
			if a, err := w.ask(p, provider.Request{Model: "m", Stream: stream, Messages: r.Messages[:1]},
				provider.Deltas{}); err == nil {
				t.Errorf("%s, stream %v: %d calls", name, stream, len(a.Calls))
			}
			s.Add(modeltest.Turn{Text: "a huge answer ", Repeat: 50_000})
			if a, err := w.ask(p, provider.Request{Model: "m", Stream: stream, Messages: r.Messages[:1]},
				provider.Deltas{}); err != nil || len(a.Text) != 700_000 {
				t.Errorf("%s, stream %v: a huge answer: %v", name, stream, err)
			}
		}
	}
}

// TestRefusals: a refusal is an answer that says so.
func TestRefusals(t *testing.T) {
	s := modeltest.New(t)
	w := library(t, s)
	for _, name := range shipped {
		p := w.provider("rye/agent/providers/" + name)
		for stop, text := range map[string]string{wire.StopRefusal: "I can't help.",
			wire.StopLength: "and so on and"} {
			for _, stream := range []bool{false, true} {
				s.Add(modeltest.Turn{Text: text, Stop: stop})
				a, err := w.ask(p, provider.Request{Model: "m", Stream: stream,
					Messages: []provider.Message{{Role: provider.User, Text: "Hi"}}}, provider.Deltas{})
				if err != nil || a.Stop != stop || a.Text != text {
					t.Errorf("%s, stream %v: %+v, %v", name, stream, a, err)
				}
			}
		}
	}
	s.Add(modeltest.Turn{Stop: wire.StopRefusal}, modeltest.Turn{Stop: wire.StopRefusal})
	for _, stream := range []bool{false, true} {
		p := w.provider("rye/agent/providers/gemini")
		a, err := w.ask(p, provider.Request{Model: "m", Stream: stream,
			Messages: []provider.Message{{Role: provider.User, Text: "Hi"}}}, provider.Deltas{})
		if err != nil || a.Stop != wire.StopRefusal || a.Text != "the prompt was blocked: PROHIBITED_CONTENT" ||
			!a.Usage.Reported {
			t.Errorf("a blocked prompt: %+v, %v", a, err)
		}
	}
}

// TestSilence: a service that doesn't answer, or isn't there, is a failure worth another try; a cancelled call is a
// failure that isn't.
func TestSilence(t *testing.T) {
	s := modeltest.New(t)
	w := library(t, s)
	p := w.provider("rye/agent/providers/openai")
	given, err := p.Params(provider.Request{Model: "m", Stream: true,
		Messages: []provider.Message{{Role: provider.User, Text: "Hi"}}})
	must(t, err)
	ask := func(ctx context.Context, timeout time.Duration) *provider.Failure {
		t.Helper()
		stream := p.Stream(provider.Deltas{})
		r, err := w.Call(ctx, &exec.Call{Ref: p.Ref, Params: params.Values(given), Timeout: timeout}, stream)
		must(t, err)
		_, err = p.Answer(&r.Result, stream)
		f, _ := errors.AsType[*provider.Failure](err)
		if f == nil {
			t.Fatal(err)
		}
		return f
	}
	s.Add(modeltest.Turn{Hang: true})
	if f := ask(t.Context(), 50*time.Millisecond); f.Type != "TimeoutError" || fault.CodeOf(f) != fault.Timeout {
		t.Errorf("%+v", f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.Handle(func(*modeltest.Request) modeltest.Turn { cancel(); return modeltest.Turn{Hang: true} })
	if f := ask(ctx, 0); f.Type != "CancelledError" || fault.CodeOf(f) != fault.Cancelled {
		t.Errorf("%+v", f)
	}
	s.Close()
	if f := ask(t.Context(), 0); f.Type != "ConnectionError" || fault.CodeOf(f) != fault.Unavailable || f.Status != 0 {
		t.Errorf("%+v", f)
	}
}

// TestDrip: deltas come while the answer is on its way, not when it is over.
func TestDrip(t *testing.T) {
	s := modeltest.New(t)
	w := library(t, s)
	for _, name := range shipped {
		p := w.provider("rye/agent/providers/" + name)
		drip, heard := make(chan struct{}), make(chan string, 100)
		s.Add(modeltest.Turn{Text: "drop by drop by drop", Drip: drip})
		over := make(chan error, 1)
		go func() {
			_, err := w.ask(p, provider.Request{Model: "m", Stream: true,
				Messages: []provider.Message{{Role: provider.User, Text: "Hi"}}},
				provider.Deltas{Text: func(s string) { heard <- s }})
			over <- err
		}()
		// Until the first piece has been heard, the server sends one event after the other.
		first := ""
		for first == "" {
			select {
			case drip <- struct{}{}:
			case first = <-heard:
			}
		}
		close(drip)
		if err := <-over; err != nil || !strings.HasPrefix("drop by drop by drop", first) ||
			len(first) >= len("drop by drop by drop") {
			t.Errorf("%s: %q, %v", name, first, err)
		}
	}
}
