package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/provider/wire"
)

// directed is what the text of a directive has a model do: its lines "call NAME JSON" are one call a turn, in their
// order, and after the last the model says "done: " and what the last call gave.
func directed(q *modeltest.Request) (modeltest.Turn, bool) {
	all := q.Body["messages"].([]any)
	first, _ := all[0].(map[string]any)["content"].(string)
	turn, use := 0, wire.Usage{Input: 50, Output: 10}
	for _, m := range all {
		if m.(map[string]any)["role"] == "assistant" {
			turn++
		}
	}
	calls := 0
	for line := range strings.Lines(first) {
		rest, found := strings.CutPrefix(line, "call ")
		if !found {
			continue
		}
		if calls++; calls <= turn {
			continue
		}
		name, text, _ := strings.Cut(strings.TrimSpace(rest), " ")
		c := wire.ToolCall{ID: fmt.Sprintf("c%d", calls), Name: name}
		if json.Unmarshal([]byte(text), &c.Input) != nil {
			c.Raw = text
		}
		return modeltest.Turn{Text: fmt.Sprintf("Call %d.", calls), Calls: []wire.ToolCall{c}, Usage: use}, true
	}
	last, _ := all[len(all)-1].(map[string]any)["content"].(string)
	return modeltest.Turn{Text: "done: " + last, Usage: use}, calls > 0
}
