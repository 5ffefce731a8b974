package graph_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	declared "github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/graph"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// TestResult: a node is given the data of a call that succeeded, and of every other call all that it gave: a result
// that says success: false isn't taken for one that worked.
func TestResult(t *testing.T) {
	data := object{"n": "1"}
	for what, c := range map[string]struct{ value, want any }{
		"data alone":      {object{"success": true, "data": data}, data},
		"no data":         {object{"success": true, "n": "1"}, nil},
		"data and more":   {object{"success": true, "data": data, "x": "y"}, nil},
		"not successful":  {object{"success": false, "data": data}, nil},
		"of another form": {object{"ok": true, "data": data}, nil},
		"a text":          {"x", nil},
	} {
		if c.want == nil {
			c.want = c.value
		}
		k := &kernel{made: func(provider.ToolCall) graph.Made {
			return graph.Made{Status: transcript.CallOK, Risk: "read", Value: c.value}
		}}
		state, err := graph.Walk(t.Context(), read(t,
			"  start: a\n  nodes:\n    a: {action: {item_id: acme/echo}, assign: {got: \"${result}\"}}\n"), object{}, k)
		if err != nil || !reflect.DeepEqual(state["got"], c.want) {
			t.Errorf("%s: %v, %v", what, state["got"], err)
		}
	}
}

// TestNamelessFailure: a call that failed without a word fails its node all the same, and the state says how it ended.
func TestNamelessFailure(t *testing.T) {
	for _, value := range []any{nil, "x", object{"success": true, "data": "x"}, object{"error": "x"}} {
		k := &kernel{made: func(provider.ToolCall) graph.Made {
			return graph.Made{Status: transcript.CallTimeout, Risk: "read", Value: value}
		}}
		state, err := graph.Walk(t.Context(), read(t,
			"  start: a\n  nodes:\n    a: {action: {item_id: acme/echo}, on_error: continue}\n"), object{}, k)
		if want := (object{"node": "a", "error": object{"code": string(fault.Failed),
			"message": "the call ended as timeout"}}); err != nil || !reflect.DeepEqual(state[declared.LastError], want) {
			t.Errorf("%v: %v, %v", value, state, err)
		}
	}
}

// A groupKernel notes whether the rest of the calls is cancelled with the first that fails.
type groupKernel struct {
	kernel
	rests []bool
}

func (k *groupKernel) Make(ctx context.Context, calls []provider.ToolCall, atOnce int, rest bool) ([]graph.Made,
	error) {
	k.rests = append(k.rests, rest)
	return k.kernel.Make(ctx, calls, atOnce, rest)
}

// TestForeachFailure: the first call of a foreach that fails ends the rest and the node, under its own error and not
// that of those which were cancelled with it. With on_error: continue each element has its call, and its error stands
// where its result would.
func TestForeachFailure(t *testing.T) {
	const nodes = `  start: a
  nodes:
    a: {type: foreach, over: "${inputs.list}", action: {item_id: acme/echo, params: {text: "${item}"}}, collect: all, max_parallel: 2%s}
`
	const after = `    b: {action: {item_id: acme/echo, params: {text: after}}}
`
	failure := object{"status": "error", "error": object{"code": "X", "message": "no"}}
	worse := object{"status": "error", "error": object{"code": "Y", "message": "worse"}}
	for what, c := range map[string]struct {
		way   string
		calls [][]string
		all   any
		rest  bool
	}{
		"no way": {"", [][]string{{"x", "cancelled"}, {"bad", "worse"}}, nil, true},
		"a way":  {", on_error: b", [][]string{{"x", "cancelled"}, {"bad", "worse"}, {"after"}}, nil, true},
		"continue": {", on_error: continue, next: b", [][]string{{"x", "cancelled"}, {"bad", "worse"}, {"z"}, {"after"}},
			[]any{"x", failure, failure, worse, "z"}, false},
	} {
		k := &groupKernel{kernel: kernel{made: func(call provider.ToolCall) graph.Made {
			params, _ := call.Input["parameters"].(object)
			switch params["text"] {
			case "bad":
				return failedCall("write", transcript.CallFailed)
			case "worse":
				return graph.Made{Status: transcript.CallFailed, Risk: "read",
					Value: object{"error": object{"code": "Y", "message": "worse"}}}
			case "cancelled":
				return failedCall("read", transcript.CallCancelled)
			}
			return graph.Made{Status: transcript.CallOK, Risk: "read", Value: params["text"]}
		}}}
		var told []object
		k.decide = func(event string, data object) string {
			if event == "error" {
				told = append(told, data)
			}
			return ""
		}
		state, err := graph.Walk(t.Context(), read(t, fmt.Sprintf(nodes, c.way)+
			strings.Repeat(after, min(len(c.way), 1))),
			object{"list": []any{"x", "cancelled", "bad", "worse", "z"}}, k)
		if (err == nil) != (c.way != "") || !reflect.DeepEqual(k.calls, c.calls) || k.rests[0] != c.rest ||
			err == nil && !reflect.DeepEqual(state["all"], c.all) {
			t.Errorf("%s: %q, rests %v, %v, %v", what, k.calls, k.rests, state, err)
		}
		// Hooks see the call that failed, and can't have calls made again that were.
		if c.rest && (len(told) != 1 || told[0]["status"] != transcript.CallFailed || told[0]["risk"] != "write" ||
			told[0]["repeatable"] != false || told[0]["attempt"] != int64(4)) || !c.rest && len(told) > 0 {
			t.Errorf("%s: %v", what, told)
		}
	}
}

// TestForeachBounds: results that are collected are bounded together, and the record of a long foreach is signed after
// each hundred calls, so that a crash loses no more of its proof.
func TestForeachBounds(t *testing.T) {
	const nodes = `  start: a
  nodes:
    a: {type: foreach, over: "${inputs.list}", action: {item_id: acme/echo, params: {text: "${item}"}}%s}
`
	half := strings.Repeat("x", graph.MaxState/2)
	large := func(provider.ToolCall) graph.Made {
		return graph.Made{Status: transcript.CallOK, Risk: "read", Value: half}
	}
	for more, fails := range map[string]bool{", max_parallel: 1, collect: all": true, ", max_parallel: 1": false} {
		k := &kernel{made: large}
		if _, err := graph.Walk(t.Context(), read(t, fmt.Sprintf(nodes, more)), object{"list": []any{"a", "b", "c"}},
			k); (err != nil) != fails || fails && len(k.calls) != 2 {
			t.Errorf("%q: %d calls, %v", more, len(k.calls), err)
		}
	}
	k := &kernel{}
	if _, err := graph.Walk(t.Context(), read(t, fmt.Sprintf(nodes, ", max_parallel: 1")),
		object{"list": make([]any, 250)}, k); err != nil {
		t.Fatal(err)
	}
	var signed []int
	for i, what := range k.did {
		if what == "checkpoint" {
			signed = append(signed, len(slices.DeleteFunc(slices.Clone(k.did[:i]), func(s string) bool {
				return s != "make"
			})))
		}
	}
	if !slices.Equal(signed, []int{100, 200, 250}) {
		t.Errorf("signed after %d calls", signed)
	}
}

// nested is a value in so many lists and objects by turns.
func nested(levels int) (v any) {
	for v = "x"; levels > 0; levels-- {
		if levels%2 == 1 {
			v = []any{v}
		} else {
			v = object{"x": v}
		}
	}
	return v
}

// TestDepth: a state or an argument that is nested deeper than a record can hold fails its node, before any call is
// made with it.
func TestDepth(t *testing.T) {
	const argument = "  start: a\n  nodes:\n    a: {action: {item_id: acme/echo, params: {text: \"${inputs.list}\"}}}\n"
	for levels, fails := range map[int]bool{graph.MaxDepth - 1: false, graph.MaxDepth: true,
		graph.MaxDepth + 1: true} { // its last level is another
		k := &kernel{made: func(provider.ToolCall) graph.Made {
			return graph.Made{Status: transcript.CallOK, Risk: "read", Value: "x"}
		}}
		_, err := graph.Walk(t.Context(), read(t, argument), object{"list": nested(levels)}, k)
		if (err != nil) != fails || fails && len(k.calls) > 0 {
			t.Errorf("%d levels: %v, %d calls", levels, err, len(k.calls))
		}
	}
	k := &kernel{made: func(provider.ToolCall) graph.Made {
		return graph.Made{Status: transcript.CallOK, Risk: "read", Value: nested(graph.MaxDepth)}
	}}
	state, err := graph.Walk(t.Context(), read(t,
		"  start: a\n  nodes:\n    a: {action: {item_id: acme/echo}, assign: {got: \"${result}\"}, on_error: continue}\n"),
		object{}, k)
	if err != nil || state["got"] != nil || state[declared.LastError] == nil {
		t.Errorf("%v, %v", state, err)
	}
}

// TestRetries: the state says how often a node was tried, and each attempt is a call with a name of its own.
func TestRetries(t *testing.T) {
	var ids []string
	k := &kernel{
		made: func(call provider.ToolCall) graph.Made {
			if ids = append(ids, call.ID); len(ids) < 3 {
				return failedCall("read", transcript.CallFailed)
			}
			return graph.Made{Status: transcript.CallOK, Risk: "read", Value: "x"}
		},
		decide: func(event string, _ object) string {
			if event == "error" {
				return "retry"
			}
			return ""
		},
	}
	state, err := graph.Walk(t.Context(), read(t, "  start: a\n  nodes:\n    a: {action: {item_id: acme/echo}}\n"),
		object{}, k)
	if err != nil || !reflect.DeepEqual(state, object{declared.Retries: object{"a": 2.0}}) ||
		!slices.Equal(ids, []string{"1.1", "1.2", "1.3"}) {
		t.Errorf("%v, %q, %v", state, ids, err)
	}
}

// TestActions: an action makes the call that its verb names, so that the permissions for that verb decide about it.
func TestActions(t *testing.T) {
	for action, want := range map[string]provider.ToolCall{
		"{item_id: acme/echo, params: {text: x}}": {Name: plan.NameExecute, Input: object{"item_type": "tool",
			"item_id": "acme/echo", "parameters": object{"text": "x"}}},
		"{item_id: acme/echo}": {Name: plan.NameExecute, Input: object{"item_type": "tool", "item_id": "acme/echo",
			"parameters": object{}}},
		"{primary: load, item_type: knowledge, item_id: acme/a}": {Name: plan.NameLoad,
			Input: object{"item_type": "knowledge", "item_id": "acme/a"}},
		"{primary: sign, item_type: directive, item_id: acme/a}": {Name: plan.NameSign,
			Input: object{"item_type": "directive", "item_id": "acme/a"}},
		"{primary: search, params: {query: x}}": {Name: plan.NameSearch, Input: object{"query": "x", "scope": "tool"}},
		"{primary: search, params: {query: x, scope: knowledge}}": {Name: plan.NameSearch,
			Input: object{"query": "x", "scope": "knowledge"}},
	} {
		var made provider.ToolCall
		k := &kernel{made: func(call provider.ToolCall) graph.Made {
			made = call
			return graph.Made{Status: transcript.CallOK, Risk: "read", Value: "x"}
		}}
		if _, err := graph.Walk(t.Context(), read(t, "  start: a\n  nodes:\n    a: {action: "+action+"}\n"), object{},
			k); err != nil || made.Name != want.Name || !reflect.DeepEqual(made.Input, want.Input) {
			t.Errorf("%s: %s %v, %v", action, made.Name, made.Input, err)
		}
	}
}
