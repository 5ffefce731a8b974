//go:build peers

package modeltest_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/provider/wire"
)

// sdks are the vendors' clients, Anthropic's the last one for the version of the API that the provider asks for.
var sdks = []string{"@anthropic-ai/sdk@0.137.0", "openai@6.34.0", "@google/genai@1.50.1"}

// TestSDKs: the vendors' own clients understand the server, with events and without, and what they send it takes.
func TestSDKs(t *testing.T) {
	dir := t.TempDir()
	script, err := os.ReadFile("testdata/clients.mjs")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "clients.mjs"), script, 0o644))
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		var errors strings.Builder
		cmd.Dir, cmd.Stderr = dir, &errors
		if name == "node" { // the clients look for keys of their own
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
		}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, errors.String())
		}
		return string(out)
	}
	run("npm", append([]string{"install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"},
		sdks...)...)
	s := modeltest.New(t)
	s.Require("a-key")
	turns := []modeltest.Turn{
		{Thinking: "Two sums.", Text: "I add ünïcode 1️⃣.", Calls: []wire.ToolCall{
			{ID: "call_a", Name: "add", Input: map[string]any{"a": 1, "b": 2}},
			{ID: "call_b", Name: "add", Input: map[string]any{"a": 3, "b": 4.5}}},
			Usage: wire.Usage{Input: 40, CacheRead: 60, Output: 15, Reasoning: 5}},
		{Text: "3 and 7.5"},
		{Status: 429, Message: "slow down", RetryAfter: "1"},
		{Text: strings.Repeat("a long answer ", 20), Cut: 3},
	}
	for range 2 * len(wire.Formats()) {
		s.Add(turns...)
	}
	type result struct {
		Format, Text, Thinking, Stop, Second, End string
		Stream                                    bool
		Calls                                     []wire.ToolCall
		Usage                                     []int
		Error, Cut                                *struct {
			Status  int
			Message string
		}
	}
	var results []result
	out := run("node", "clients.mjs", s.URL, "a-key")
	must(t, json.Unmarshal([]byte(out), &results))
	if len(results) != 8 || len(s.Refused()) > 0 {
		t.Errorf("%d results, refused %q", len(results), s.Refused())
	}
	stops := map[string][2]string{
		wire.ContentBlocks: {"tool_use", "end_turn"}, wire.ChatCompletion: {"tool_calls", "stop"},
		wire.Responses: {"completed", "completed"}, wire.Gemini: {"STOP", "STOP"},
	}
	for _, r := range results {
		calls, thinking := []wire.ToolCall{}, turns[0].Thinking
		for _, c := range turns[0].Calls {
			if r.Format == wire.Gemini {
				c.ID = ""
			}
			c.Input = map[string]any{"a": float64(c.Input["a"].(int)), "b": c.Input["b"]}
			if n, whole := c.Input["b"].(int); whole {
				c.Input["b"] = float64(n)
			}
			calls = append(calls, c)
		}
		if r.Format == wire.ChatCompletion {
			thinking = ""
		}
		if r.Text != turns[0].Text || r.Thinking != thinking || !reflect.DeepEqual(r.Calls, calls) ||
			!reflect.DeepEqual(r.Usage, []int{100, 20, 60}) ||
			[2]string{r.Stop, r.End} != stops[r.Format] || r.Second != turns[1].Text {
			t.Errorf("%s, stream %v: %+v", r.Format, r.Stream, r)
		}
		if r.Error == nil || r.Error.Status != 429 || !strings.Contains(r.Error.Message, "slow down") || r.Cut == nil {
			t.Errorf("%s, stream %v: error %+v, cut %+v", r.Format, r.Stream, r.Error, r.Cut)
		}
	}
}
