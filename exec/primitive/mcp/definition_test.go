package mcp

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The example in the comment of the package is what Definition gives.
func TestDefinition(t *testing.T) {
	comment, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(comment), "//\t{")
	line, rest, _ := strings.Cut(rest, "\n//\t")
	want, _, _ := strings.Cut(rest, "\n")
	for _, text := range []string{
		"{" + line,
		`{"title": "", "name": "echo", "inputSchema": {"type": "object"}, "annotations": null, "description": "Says it again", "icons": [{"src": "x"}], "_meta": {"a": 1}}`,
	} {
		var v map[string]any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if got, err := Definition(v); err != nil || got.String() != want {
			t.Errorf("%s: %v, %v; want %s", text, got, err, want)
		}
		var tool mcp.Tool
		if err := json.Unmarshal([]byte(text), &tool); err != nil {
			t.Fatal(err)
		}
		if got, err := announced(&tool); err != nil || got["definition"] != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, change := range []string{
		`{"name":"Echo","description":"Says it again","inputSchema":{"type":"object"}}`,
		`{"name":"echo","description":"Says it again ","inputSchema":{"type":"object"}}`,
		`{"name":"echo","description":"Says it again","inputSchema":{"type":"object","default":{}}}`,
		`{"name":"echo","description":"Says it again","inputSchema":{"type":"object"},"title":"Echo"}`,
		`{"name":"echo","description":"Says it again","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}`,
		`{"name":"echo","description":"Says it again","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`,
	} {
		var v map[string]any
		if err := json.Unmarshal([]byte(change), &v); err != nil {
			t.Fatal(err)
		}
		if got, err := Definition(v); err != nil || got.String() == want {
			t.Errorf("%s: %v, %v", change, got, err)
		}
	}
	if _, err := Definition(map[string]any{"name": "a", "inputSchema": deep(100)}); err == nil {
		t.Error("a definition may nest too deep")
	}
}

func deep(n int) any {
	var v any = map[string]any{}
	for range n {
		v = []any{v}
	}
	return v
}
