package plan_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/exec/thread/provider"
)

// read reads what stands under coordination.continuation of a file of config.
func read(t testing.TB, lines ...string) (*plan.Handoff, error) {
	t.Helper()
	text := "coordination:\n  continuation:\n    pressure_threshold: 0.5\n"
	for _, line := range lines {
		text += "    " + line + "\n"
	}
	v, problems := parse.YAML([]byte(text), value.Pos{})
	if len(problems) > 0 {
		t.Fatalf("%s: %v", text, problems[0])
	}
	return plan.ReadHandoff(v)
}

func TestRead(t *testing.T) {
	none := plan.Handoff{Threshold: 0.9, MaxTokens: 4000, Ceiling: 16000, Limits: map[string]any{}}
	all := plan.Handoff{Threshold: 0.5, Directive: "acme/sum", Model: "fast", MaxTokens: 100, Ceiling: 1,
		Limits: map[string]any{"turns": 3.0, "spend": 0.25, "duration_seconds": 1.5}}
	for _, c := range []struct {
		lines []string
		want  plan.Handoff
	}{
		{nil, none},
		{[]string{"trigger_threshold:", "summary_directive:", "summary_model: ~", "summary_limit_overrides: {}",
			"summary_max_tokens:"}, none},
		{[]string{"trigger_threshold: 0.5", "summary_directive: acme/sum", "summary_model: fast",
			"summary_max_tokens: 100", "resume_ceiling_tokens: 1",
			"summary_limit_overrides: {turns: 3, spend: 0.25, duration_seconds: 1.5}"}, all},
		// Limits may be written as in a directive.
		{[]string{"trigger_threshold: 0.5", "summary_directive: acme/sum", "summary_model: fast",
			"summary_max_tokens: 100", "resume_ceiling_tokens: 1",
			`summary_limit_overrides: {max_turns: "3", spend: "0.25", spend_currency: USD, max_duration_seconds: 1.5}`},
			all},
	} {
		got, err := read(t, c.lines...)
		if err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%q: %+v, %v", c.lines, got, err)
		}
	}
	one, err := read(t, "trigger_threshold: 1")
	if err != nil || one.Threshold != 1 {
		t.Error(one, err)
	}
	for _, v := range []*value.Value{nil, {Kind: value.Map}} {
		if got, err := plan.ReadHandoff(v); err != nil || !reflect.DeepEqual(*got, none) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// TestInvalid: what can't be meant is an error that names the setting.
func TestInvalid(t *testing.T) {
	for line, want := range map[string]string{
		"trigger_threshold: 0":                        "trigger_threshold must be above 0 and at most 1",
		"trigger_threshold: 1.01":                     "trigger_threshold must be",
		"trigger_threshold: -0.5":                     "trigger_threshold must be",
		"trigger_threshold: nan":                      "trigger_threshold must be",
		"trigger_threshold: often":                    "trigger_threshold must be",
		"trigger_threshold: [0.5]":                    "trigger_threshold must be",
		`trigger_threshold: "0.5"`:                    "trigger_threshold must be",
		"threshold: 0.5":                              `unknown key "threshold": expected one of trigger_threshold`,
		"summary_max_tokens: 0":                       "summary_max_tokens must be at least 1",
		"summary_max_tokens: 1.5":                     "summary_max_tokens must be at least 1",
		"summary_max_tokens: 99999999999999999999999": "summary_max_tokens must be at least 1",
		"resume_ceiling_tokens: -1":                   "resume_ceiling_tokens must be at least 1",
		"resume_ceiling_tokens: all":                  "resume_ceiling_tokens must be at least 1",
		"summary_directive: [acme/sum]":               "summary_directive must be a string, got array",
		"summary_model: 4":                            "summary_model must be a string, got integer",
		"summary_limit_overrides: 3":                  "summary_limit_overrides: ",
		"summary_limit_overrides: {turns: many}":      "summary_limit_overrides: Field 'limits.turns' must be an integer",
		"summary_limit_overrides: {truns: 3}":         `summary_limit_overrides: unknown limit`,
		"summary_limit_overrides: {spend: 1e300}":     "summary_limit_overrides: ",
	} {
		s, err := read(t, line)
		if fault.CodeOf(err) != fault.Config ||
			!strings.Contains(err.Error(), "invalid config:coordination: "+want) || s != nil {
			t.Errorf("%s: %+v, %v", line, s, err)
		}
	}
}

// TestChild: what is summarised is what was said and called, in order.
func TestChild(t *testing.T) {
	s, err := read(t, "summary_directive: acme/sum", "summary_max_tokens: 100", "summary_limit_overrides: {turns: 3}")
	if err != nil {
		t.Fatal(err)
	}
	messages := []provider.Message{{Role: "user", Text: "Deploy."},
		{Role: "assistant", Text: "I'll look.", Calls: []provider.ToolCall{{ID: "a", Name: "rye_execute",
			Input: map[string]any{"item_id": "acme/x"}}}},
		{Role: "tool", CallID: "a", Text: "done"}}
	want := map[string]any{"directive_name": "acme/sum", "limit_overrides": map[string]any{"turns": 3.0},
		"inputs": map[string]any{
			"directive_name": "acme/deploy", "max_summary_tokens": 100.0,
			"transcript_content": "[user] Deploy.\n[assistant] I'll look.\n[call] rye_execute {\"item_id\":\"acme/x\"}\n[tool] done\n"}}
	got := s.Child("acme/deploy", messages, 1000)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	if s, err = read(t, "summary_directive: acme/sum", "summary_model: fast"); err != nil {
		t.Fatal(err)
	}
	if got := s.Child("acme/deploy", nil, 1000); got["model"] != "fast" ||
		got["inputs"].(map[string]any)["transcript_content"] != "" {
		t.Errorf("%v", got)
	}
}

// TestRoom: of a long conversation its beginning, its end, and the ends of long texts are summarised, in the room that
// there is.
func TestRoom(t *testing.T) {
	s, err := read(t, "summary_directive: acme/sum")
	if err != nil {
		t.Fatal(err)
	}
	messages := []provider.Message{{Role: "user", Text: "Deploy."}}
	for i := range 50 {
		messages = append(messages, provider.Message{Role: "assistant",
			Calls: []provider.ToolCall{{ID: "a", Name: "write",
				Input: map[string]any{"text": strings.Repeat("é", 3000)}}}},
			provider.Message{Role: "tool", CallID: "a",
				Text: fmt.Sprintf("begin %d %s end %d", i, strings.Repeat("x", 10_000), i)})
	}
	for window, want := range map[int64][2]int64{0: {16000, math.MaxInt32}, 8000: {4000, 4000},
		200_000: {16000, 100_000}} {
		if kept, read := s.Room(window); kept != want[0] || read != want[1] {
			t.Errorf("%d: %d, %d", window, kept, read)
		}
	}
	for _, room := range []int{1000, 20_000, 60_000, 10_000_000} {
		text := s.Child("acme/deploy", messages, int64(room))["inputs"].(map[string]any)["transcript_content"].(string)
		if len(text) > min(room, 128<<10) || len(text) < min(room, 128<<10)/4 || !utf8.ValidString(text) ||
			!strings.HasPrefix(text, "[user] Deploy.\n[call] write ") &&
				!strings.HasPrefix(text, "[user] Deploy.\n[assistant]") {
			t.Errorf("%d: %d bytes: %.200s", room, len(text), text)
		}
		if !strings.Contains(text, "end 49") || room > 20_000 && !strings.Contains(text, "begin 25") {
			t.Errorf("%d: %.2000s", room, text)
		}
	}
}
