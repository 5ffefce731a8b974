package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
)

// TestReported: errors in the words of services, and what they amount to.
func TestReported(t *testing.T) {
	for body, want := range map[string]string{
		`{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`:                                      "429 rate_limit_error  RATE_LIMITED",
		`{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`:                                      "529 overloaded_error overloaded UNAVAILABLE",
		`{"type":"error","error":{"type":"request_too_large","message":"big"}}`:                                      "413 request_too_large context_length_exceeded LIMIT_EXCEEDED",
		`{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"context_length_exceeded"}}`:     "400 invalid_request_error context_length_exceeded LIMIT_EXCEEDED",
		`{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}`:                          "429 insufficient_quota insufficient_quota EXECUTION_FAILED",
		`{"error":{"message":"m","type":"image_generation_user_error","code":"moderation_blocked"}}`:                 "0 image_generation_user_error content_refused EXECUTION_FAILED",
		`{"error":{"code":400,"message":"Output blocked by content filtering policy","status":"INVALID_ARGUMENT"}}`:  "400 INVALID_ARGUMENT content_refused EXECUTION_FAILED",
		`{"error":{"code":403,"message":"denied","status":"PERMISSION_DENIED"}}`:                                     "403 PERMISSION_DENIED  AUTH_FAILED",
		`{"error":{"code":"slow_down","message":"m"}}`:                                                               "0 slow_down overloaded EXECUTION_FAILED",
		`{"error":"model requires more system memory"}`:                                                              "0   EXECUTION_FAILED",
		`{"object":"error","message":"This model's maximum context length is 4096 tokens","type":"BadRequestError"}`: "0 BadRequestError context_length_exceeded LIMIT_EXCEEDED",
		`{"detail":"Not Found"}`: "0   EXECUTION_FAILED",
		`{"error":{"code":500,"message":"Internal","status":"INTERNAL"}}`: "500 INTERNAL  UNAVAILABLE",
	} {
		v, err := jcs.Parse([]byte(body))
		must(t, err)
		f := Reported(v.(map[string]any))
		f.Provider = "acme/p"
		f.Settle()
		if got := fmt.Sprintf("%d %s %s %s", f.Status, f.Type, f.Code, fault.CodeOf(f)); got != want ||
			f.Message == "" {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

func TestFailure(t *testing.T) {
	f := &Failure{Provider: "acme/p", Status: 429, Type: "rate_limit_error", Message: "slow", RequestID: "r1"}
	if got := f.Error(); got != `the model call to "acme/p" failed (HTTP 429): slow` {
		t.Error(got)
	}
	if got := encode(
		f.Doc()); got !=
		`{"error":{"message":"slow","type":"rate_limit_error"},"provider":"acme/p","status_code":429}` {
		t.Error(got)
	}
	e := fault.Of(fmt.Errorf("wrapped: %w", f))
	if e.Code != fault.RateLimited || e.Details["request_id"] != "r1" || e.Details["status"] != 429 ||
		e.Details["provider"] != "acme/p" {
		t.Errorf("%+v", e)
	}
	for kind, code := range map[string]fault.Code{"CancelledError": fault.Cancelled, "TimeoutError": fault.Timeout,
		"LimitError": fault.Limit, "ConnectionError": fault.Unavailable, "": fault.Failed} {
		f := &Failure{Type: kind}
		if fault.CodeOf(f) != code {
			t.Errorf("%q is %s", kind, fault.CodeOf(f))
		}
		if _, cancelled := f.Doc()["cancelled"]; cancelled != (kind == "CancelledError") {
			t.Errorf("%q: %v", kind, f.Doc())
		}
	}
	if f := (&Failure{}); f.Error() != `the model call to "" failed: no reason given` || !errors.Is(f, f) {
		t.Error(f)
	}
}

// TestBodies: odd answers that are one body.
func TestBodies(t *testing.T) {
	for _, c := range []struct{ format, body, want string }{
		{ChatCompletion, `{"choices":[]}`, "failure AnswerError: the answer has an unknown form"},
		{ChatCompletion, `{"choices":[{"text":"old"}]}`, "failure AnswerError: the answer has an unknown form"},
		{ChatCompletion,
			`{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x":1}}},{"id":"b","function":{"name":"f","arguments":"\"{\\\"y\\\":2}\""}},{"id":"c","function":{"name":"f","arguments":[3]}}]},"finish_reason":"stop"}]}`,
			`{"calls":[{"id":"a","input":{"x":1},"name":"f"},{"id":"b","input":{"y":2},"name":"f"},{"id":"c","name":"f","raw":"[3]"}],"stop":"tool_calls"}`},
		{ChatCompletion, `{"choices":[{"message":{"content":null,"refusal":"No."},"finish_reason":"stop"}]}`,
			`{"stop":"refusal","text":"No."}`},
		{ContentBlocks, `{"content":"text"}`, "failure AnswerError: the answer has an unknown form"},
		{ContentBlocks, `{"content":[],"stop_reason":"refusal"}`, `{"stop":"refusal"}`},
		{ContentBlocks,
			`{"content":[{"type":"tool_use","id":"a","name":"f","input":null}],"stop_reason":"model_context_window_exceeded"}`,
			`{"calls":[{"id":"a","name":"f"}],"stop":"context"}`},
		{Responses, `{"output":7}`, "failure AnswerError: the answer has an unknown form"},
		{Responses, `{"output":[],"status":"failed"}`, "failure : the response failed"},
		{Responses,
			`{"output":[{"type":"reasoning","id":"gone"},{"type":"message","content":[{"type":"refusal","refusal":"No."}]}],"status":"completed"}`,
			`{"stop":"refusal","text":"No."}`},
		{Gemini, `{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`, `{"stop":"other"}`},
		{Gemini, `{"error":{"message":"no"}}`, "failure : no"},
		{Gemini, `7`, "failure AnswerError: the answer has an unknown form"},
	} {
		v, err := jcs.Parse([]byte(c.body))
		must(t, err)
		if got := told(Of(c.format).Body(v, false)); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.body, got, c.want)
		}
	}
}

// TestLongFailure: of a page in place of an error no more is kept than tells what is wrong.
func TestLongFailure(t *testing.T) {
	f := Reported(map[string]any{"error": map[string]any{"message": strings.Repeat("ä", 1<<20),
		"type": strings.Repeat("t", 1<<20)}})
	f.Settle()
	if len(f.Message) > 5000 || len(f.Type) > 300 || !utf8.ValidString(f.Message) {
		t.Errorf("%d, %d bytes", len(f.Message), len(f.Type))
	}
}

// TestWrong: a model that wrote arguments which can't be read gets the reason.
func TestWrong(t *testing.T) {
	for raw, want := range map[string]string{
		`[1]`: "are not a JSON object", `{"a":`: "are not valid JSON: ", `{"a":1,"a":2}`: "are not valid JSON: ",
		`{"a":1e999}`: "are not valid JSON: ",
		strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40): "nest deeper than 32",
	} {
		var c ToolCall
		if arguments(&c, raw); c.Input != nil || !strings.HasPrefix(c.Wrong(), want) {
			t.Errorf("%.40s: %s", raw, c.Wrong())
		}
	}
}
