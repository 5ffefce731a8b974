package main

import (
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/provider/wire"
)

// holds are the model calls that a script holds back: a directive that says "Hold NAME." is answered when the script
// says so, and calls a tool again and again if it says "Then go on." If it says "First echo.", the model calls
// acme/echo before, and is held with what that gave.
type holds struct {
	mu    sync.Mutex
	gates map[string]*hold
}

type hold struct{ came, goes chan struct{} }

// of returns the one of a name.
func (h *holds) of(name string) *hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gates == nil {
		h.gates = map[string]*hold{}
	}
	if h.gates[name] == nil {
		h.gates[name] = &hold{make(chan struct{}, 100), make(chan struct{}, 100)}
	}
	return h.gates[name]
}

// answer answers the request of a directive that says "Hold".
func (h *holds) answer(q *modeltest.Request, first string) (modeltest.Turn, bool) {
	_, rest, ok := strings.Cut(first, "Hold ")
	name, _, dot := strings.Cut(rest, ".")
	if !ok || !dot {
		return modeltest.Turn{}, false
	}
	goesOn, all := strings.Contains(rest, "Then go on."), q.Body["messages"].([]any)
	if strings.Contains(rest, "First echo.") && len(all) == 1 {
		return modeltest.Turn{Usage: wire.Usage{Input: 50, Output: 10}, Calls: []wire.ToolCall{{ID: "e",
			Name: "rye_execute", Input: map[string]any{"item_type": "tool", "item_id": "acme/echo",
				"parameters": map[string]any{"text": name}}}}}, true
	}
	if !goesOn || len(all) == 1 {
		g := h.of(name)
		g.came <- struct{}{}
		select {
		case <-g.goes:
		case <-q.Gone:
		}
	}
	turn := modeltest.Turn{Text: "held " + name, Usage: wire.Usage{Input: 50, Output: 10}}
	if goesOn {
		turn.Calls = []wire.ToolCall{{ID: "s", Name: "rye_search",
			Input: map[string]any{"query": "x", "scope": "tool"}}}
	}
	return turn, true
}

// held is "held NAME": it returns when the model was asked.
func (h *holds) held(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: held NAME")
	}
	<-h.of(args[0]).came
}

// release is "release NAME": the model answers.
func (h *holds) release(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: release NAME")
	}
	h.of(args[0]).goes <- struct{}{}
}
