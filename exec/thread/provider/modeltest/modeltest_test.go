package modeltest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/provider/wire"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// post sends a request and returns status and body.
func post(t testing.TB, url, body string) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	must(t, err)
	q.Header.Set("Anthropic-Version", "2023-06-01")
	resp, err := http.DefaultClient.Do(q)
	must(t, err)
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// TestRefused: what the vendors don't take isn't taken.
func TestRefused(t *testing.T) {
	s := modeltest.New(t)
	const long = "a23456789012345678901234567890123456789012345678901234567890_12345"
	for _, c := range []struct{ path, body, want string }{
		{"/v1/messages", `{`, "not JSON"},
		{"/v1/messages", `{"model":"m","max_tokens":1}`, "messages: Field required"},
		{"/v1/messages", `{"model":"m","max_tokens":0,"messages":[]}`, "max_tokens: Input should be"},
		{"/v1/messages", `{"model":"","max_tokens":1,"messages":[]}`, "model: Field required"},
		{"/v1/messages", `{"model":"m","max_tokens":1,"messages":[],"top_z":1}`,
			"top_z: Extra inputs are not permitted"},
		{"/v1/messages", `{"model":"m","max_tokens":1,"messages":[]}`, "the final message must be the user's"},
		{"/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":"x"}]}`,
			"roles must alternate"},
		{"/v1/messages",
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"},{"role":"user","content":"y"}]}`,
			"roles must alternate"},
		{"/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[]}]}`,
			"non-empty content"},
		{"/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":""}]}`,
			"text content blocks must be non-empty"},
		{"/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x","name":"y"}]}`,
			"name: Extra inputs"},
		{"/v1/messages",
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`,
			`a result for "a", which was not called`},
		{"/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image"}]}]}`,
			"unexpected content block image"},
		{"/v1/messages",
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"a b","name":"f","input":{}}]}]}`,
			"tool_use.id"},
		{"/v1/messages",
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":"y"}]}`,
			"tool_result blocks come first"},
		{"/v1/messages",
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`,
			"without tool_result blocks"},
		{"/v1/messages",
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":"b"}]}]}`,
			"Invalid signature"},
		{"/v1/messages",
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"a"}]}`,
			"input_schema: Field required"},
		{"/v1/messages",
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"a","input_schema":{}}]}`,
			"input_schema.type"},
		{"/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"` +
			long + `","input_schema":{"type":"object"}}]}`, "should match"},
		{"/v1/messages",
			`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"a","input_schema":{"type":"object"}}]}`,
			"unique"},
		{"/v1/messages", `{"model":"m","max_tokens":1,"system":[` +
			strings.Repeat(`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},`, 4) +
			`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"x"}]}`,
			"A maximum of 4 blocks with cache_control may be provided. Found 5."},
		{"/v1/chat/completions", `{"model":"m","messages":[]}`, "should not be empty"},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}],"instructions":"y"}`,
			"instructions: Extra"},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}],"stream_options":{}}`,
			"only allowed when 'stream'"},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"name":"a"}]}`,
			"invalid tool"},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"robot","content":"x"}]}`, "invalid value robot"},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"assistant"}]}`, "one of content or tool_calls"},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"tool","content":"x","tool_call_id":"a"}]}`,
			"not called just before"},
		{"/v1/chat/completions",
			`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":{}}}]}]}`,
			"invalid call"},
		{"/v1/chat/completions",
			`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":""}}]},{"role":"user","content":"x"}]}`,
			"must be followed by tool messages"},
		{"/v1/responses", `{"model":"m","input":[]}`, "expected something to answer"},
		{"/v1/responses", `{"model":"m","input":"x","messages":[]}`, "messages: Extra"},
		{"/v1/responses", `{"model":"m","input":"x","max_output_tokens":3}`, "below minimum"},
		{"/v1/responses", `{"model":"m","input":"x","tools":[{"type":"function","name":"f","parameters":{}}]}`,
			"strict: Field required"},
		{"/v1/responses", `{"model":"m","input":[{"type":"magic"}]}`, "Invalid value: magic"},
		{"/v1/responses", `{"model":"m","input":[{"type":"function_call","call_id":"a","name":"f","arguments":{}}]}`,
			"invalid call"},
		{"/v1/responses",
			`{"model":"m","input":[{"type":"function_call","call_id":"a","name":"f","arguments":""},{"role":"user","content":"x"}]}`,
			"No tool output found"},
		{"/v1/responses",
			`{"model":"m","input":[{"type":"function_call","call_id":"a","name":"f","arguments":""},{"type":"function_call_output","call_id":"a","output":{}}]}`,
			"expected a string"},
		{"/v1/responses", `{"model":"m","input":[{"type":"reasoning","id":"r","summary":[],"encrypted_content":"x"}]}`,
			"could not be verified"},
		{"/v1beta/models/m:generateContent", `{"contents":[]}`, "the last must be the user's"},
		{"/v1beta/models/m:generateContent", `{"contents":[],"messages":[]}`, "messages: Extra"},
		{"/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[]}]}`, "at least one parts field"},
		{"/v1beta/models/m:generateContent", `{"contents":[{"role":"model","parts":[{"text":"x"}]}]}`,
			"immediately after a user turn"},
		{"/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":""}]}]}`,
			"empty text parameter"},
		{"/v1beta/models/m:generateContent",
			`{"contents":[{"role":"user","parts":[{"text":"x"}]}],"systemInstruction":{}}`, "must have parts"},
		{"/v1beta/models/m:generateContent",
			`{"contents":[{"role":"user","parts":[{"text":"x"}]}],"tools":[{"functionDeclarations":[{"name":"f","schema":{}}]}]}`,
			"schema: Extra"},
		{"/v1beta/models/m:generateContent",
			`{"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"role":"user","parts":[{"text":"y"}]}]}`,
			"number of function response parts"},
		{"/v1beta/models/m:generateContent",
			`{"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"functionCall":{"name":"f"},"thoughtSignature":"s"}]}]}`,
			"signature is not valid"},
		{"/v1beta/models/m:generateContent",
			`{"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"role":"user","parts":[{"functionResponse":{"name":"g","response":{}}}]}]}`,
			"name of the function call"},
	} {
		if status, body := post(t, s.URL+c.path, c.body); status != 400 ||
			!strings.Contains(body, strings.Split(c.want, `"`)[0]) {
			t.Errorf("%s %s: %d %s, want %s", c.path, c.body, status, body, c.want)
		}
	}
	if n := len(s.Refused()); n != len(s.Requests()) {
		t.Errorf("%d refused of %d", n, len(s.Requests()))
	}
}

// TestScript: a script ends, a function may take its place, and what isn't an API isn't there.
func TestScript(t *testing.T) {
	s := modeltest.New(t, modeltest.Turn{Text: "one"})
	const chat = `{"model":"m","messages":[{"role":"user","content":"x"}]}`
	if status, body := post(t, s.URL+"/v1/chat/completions", chat); status != 200 || !strings.Contains(body, `"one"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := post(t, s.URL+"/v1/chat/completions", chat); status != 400 ||
		!strings.Contains(body, "no more turns") || s.Left() != 0 {
		t.Errorf("%d %s", status, body)
	}
	s.Handle(func(r *modeltest.Request) modeltest.Turn {
		return modeltest.Turn{Text: fmt.Sprint("you are ", r.Model, r.Format)}
	})
	if status, body := post(t, s.URL+"/v1/chat/completions", chat); status != 200 ||
		!strings.Contains(body, "you are mchat_completion") {
		t.Errorf("%d %s", status, body)
	}
	for _, path := range []string{"/", "/v1/embeddings", "/v1beta/models/m:embedContent",
		"/v1beta/models/m:streamGenerateContent"} {
		if status, _ := post(t, s.URL+path, "{}"); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/messages", strings.NewReader("{}"))
	must(t, err)
	resp, err := http.DefaultClient.Do(q)
	must(t, err)
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if !strings.Contains(string(b), "anthropic-version: header is required") {
		t.Errorf("%s", b)
	}
	if item := s.Item("gemini"); !strings.Contains(item, "  url: \""+s.URL+"/v1beta/models/{model}:{action}") ||
		!strings.Contains(item, fmt.Sprintf("network: [%q]\n", s.Host)) {
		t.Error(item)
	}
}

// TestHang: no answer comes until the client goes, whether before the first event or between two.
func TestHang(t *testing.T) {
	for _, turn := range []modeltest.Turn{{Hang: true}, {Text: "x", Drip: make(chan struct{})}} {
		s := modeltest.New(t)
		ctx, leave := context.WithCancel(t.Context())
		s.Handle(func(*modeltest.Request) modeltest.Turn { leave(); return turn })
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions",
			strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`))
		must(t, err)
		if _, err := http.DefaultClient.Do(q); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: %v", turn, err)
		}
	}
}

// TestAlone: answers without text, and with a stop of every kind, are whole in every format.
func TestAlone(t *testing.T) {
	s := modeltest.New(t)
	for path, body := range map[string]string{
		"/v1/messages":                     `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]%s}`,
		"/v1/chat/completions":             `{"model":"m","messages":[{"role":"user","content":"x"}]%s}`,
		"/v1/responses":                    `{"model":"m","input":"x"%s}`,
		"/v1beta/models/m:generateContent": `{"contents":[{"role":"user","parts":[{"text":"x"}]}]}`,
	} {
		for _, stop := range []string{"", wire.StopLength, wire.StopContext, wire.StopRefusal} {
			for _, stream := range []string{"", `,"stream":true`} {
				s.Add(modeltest.Turn{Stop: stop})
				at, sent := s.URL+path, strings.Replace(body, "%s", stream, 1)
				if sent == body && stream != "" {
					at = strings.Replace(at, "generate", "streamGenerate", 1) + "?alt=sse"
				}
				if status, got := post(t, at, sent); status != 200 || got == "" {
					t.Errorf("%s: %d %s", at, status, got)
				}
			}
		}
	}
}
