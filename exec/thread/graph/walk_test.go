package graph_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	declared "github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/graph"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/transcript"
)

type object = map[string]any

// read reads a graph by its configuration.
func read(t testing.TB, config string) *declared.Graph {
	t.Helper()
	kinds := model.Builtin()
	kind := kinds[slices.IndexFunc(kinds, func(k *model.Kind) bool { return k.Name == "tool" })]
	text := `version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state_graph_runtime
category: acme
description: Tests
input_schema:
  properties: {list: {type: array}, go: {type: boolean}}
config:
` + config
	m := kind.Read(model.Ref{Kind: "tool", ID: "acme/flow"}, "tools/acme/flow.yaml", []byte(text))
	if m.Tool == nil {
		t.Fatal(m.Problems)
	}
	g, problems := declared.Read(m.Tool)
	if len(problems) > 0 {
		t.Fatal(problems[0])
	}
	return g
}

// A kernel makes the calls of a walk by a function, and notes what the walk asks it for.
type kernel struct {
	made   func(provider.ToolCall) graph.Made
	decide func(event string, data object) string
	answer graph.Answer
	broken string // what fails

	did   []string
	calls [][]string // the text that each call is given, by the calls of Make
}

var errBroken = errors.New("broken")

func (k *kernel) note(what string) error {
	k.did = append(k.did, what)
	if what == k.broken {
		return errBroken
	}
	return nil
}

func (k *kernel) Begin(_ context.Context, e transcript.NodeStarted) error {
	return k.note("begin " + e.Node)
}

func (k *kernel) Record(_ bool, events ...transcript.Payload) error {
	for _, e := range events {
		what := string(e.Type())
		if r, is := e.(transcript.NodeResult); is {
			what += " " + r.Node + " " + r.Status
		}
		if err := k.note(what); err != nil {
			return err
		}
	}
	return nil
}

func (k *kernel) Make(_ context.Context, calls []provider.ToolCall, atOnce int, rest bool) (all []graph.Made,
	err error) {
	var given []string
	for _, c := range calls {
		params, _ := c.Input["parameters"].(object)
		given = append(given, fmt.Sprint(params["text"]))
		if k.made == nil {
			all = append(all, graph.Made{Status: transcript.CallOK, Risk: "read",
				Value: object{"success": true, "data": object{"said": params["text"]}}})
		} else {
			all = append(all, k.made(c))
		}
	}
	if len(calls) > atOnce {
		return nil, fmt.Errorf("%d calls, at most %d at once", len(calls), atOnce)
	}
	k.calls = append(k.calls, given)
	return all, k.note("make")
}

func (k *kernel) Decide(_ context.Context, event string, data object) (string, error) {
	if k.decide == nil {
		return "", k.note(event)
	}
	return k.decide(event, data), k.note(event)
}

func (k *kernel) Ask(_ context.Context, q graph.Question) (graph.Answer, error) {
	return k.answer, k.note("ask " + q.Text)
}

func failedCall(risk, status string) graph.Made {
	return graph.Made{Status: status, Risk: risk, Value: object{"error": object{"code": "X", "message": "no"}}}
}

const twoSteps = `  start: a
  nodes:
    a: {action: {item_id: acme/echo, params: {text: x}}, assign: {first: "${result.said}"}, next: b}
    b: {action: {item_id: acme/echo, params: {text: "${state.first}y"}}, assign: {second: "${result.said}"}}
`

// A durableKernel notes which steps' states were to be durable at once.
type durableKernel struct {
	kernel
	durable []bool
}

func (k *durableKernel) Record(durable bool, events ...transcript.Payload) error {
	if _, is := events[0].(transcript.State); is {
		k.durable = append(k.durable, durable)
	}
	return k.kernel.Record(durable, events...)
}

// TestStepsDurable: a step without a call is durable before the next one begins, as nothing else makes it so: after a
// power failure the gate would decide anew, and other steps be taken than those that had begun.
func TestStepsDurable(t *testing.T) {
	k := &durableKernel{}
	_, err := graph.Walk(t.Context(), read(t, `  start: a
  nodes:
    a: {type: gate, when: {path: inputs.go, value: true}, next: b, otherwise: b}
    b: {action: {item_id: acme/echo, params: {text: x}}, next: c}
    c: {type: gate, when: {path: inputs.go, value: true}, next: d, otherwise: d}
    d: {action: {item_id: acme/echo, params: {text: y}}}
`), object{}, k)
	if want := []bool{true, false, true, false}; err != nil || !slices.Equal(k.durable, want) {
		t.Errorf("%v, %v; want %v", k.durable, err, want)
	}
}

// TestWalk: a step is begun, makes its calls, and is recorded with the state after it, in this order; the next one
// sees that state.
func TestWalk(t *testing.T) {
	k := &kernel{}
	state, err := graph.Walk(t.Context(), read(t, twoSteps), object{}, k)
	if want := (object{"first": "x", "second": "xy"}); err != nil || !reflect.DeepEqual(state, want) {
		t.Errorf("%v, %v", state, err)
	}
	if got, want := strings.Join(k.did, ", "),
		"graph_started, begin a, make, node_result a ok, state, checkpoint, after_step, "+
			"begin b, make, node_result b ok, state, checkpoint, after_step, returned"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestBroken: an error of the kernel, whatever it was asked for, ends the walk at once.
func TestBroken(t *testing.T) {
	k := &kernel{}
	if _, err := graph.Walk(t.Context(), read(t, twoSteps), object{}, k); err != nil {
		t.Fatal(err)
	}
	for i, what := range k.did {
		if slices.Index(k.did, what) < i {
			continue
		}
		broken := &kernel{broken: what}
		if state, err := graph.Walk(t.Context(), read(t, twoSteps), object{}, broken); !errors.Is(err, errBroken) ||
			len(broken.did) != i+1 {
			t.Errorf("%s: %v, %v after %d", what, state, err, len(broken.did))
		}
	}
}

// TestRetry: a hook's retry makes a call again only if the call has had no effect: it reads, or its result is known.
func TestRetry(t *testing.T) {
	for name, want := range map[string]int{
		"read " + transcript.CallFailed: 2, "write " + transcript.CallFailed: 2,
		"read " + transcript.CallUnknown: 2, "write " + transcript.CallUnknown: 1,
		"read " + transcript.CallTimeout: 2, "write " + transcript.CallTimeout: 1,
	} {
		risk, status, _ := strings.Cut(name, " ")
		made := 0
		k := &kernel{
			made: func(provider.ToolCall) graph.Made {
				if made++; made > 1 {
					return graph.Made{Status: transcript.CallOK, Risk: risk, Value: object{"said": "x"}}
				}
				return failedCall(risk, status)
			},
			decide: func(event string, _ object) string {
				if event == "error" {
					return "retry"
				}
				return ""
			},
		}
		_, err := graph.Walk(t.Context(), read(t, "  start: a\n  nodes:\n    a: {action: {item_id: acme/echo}}\n"),
			object{}, k)
		if made != want || (err == nil) != (want == 2) {
			t.Errorf("%s: %d calls, %v", name, made, err)
		}
	}
}

// TestError: an error goes the way that the node, a hook or the graph has for it, and the state says what it was.
// Without a way it ends the graph.
func TestError(t *testing.T) {
	const after = "    b: {action: {item_id: acme/echo, params: {text: after}}}\n"
	for name, c := range map[string]struct {
		config, action string
		calls          int
		want           fault.Code
	}{
		"no way": {"  start: a\n  nodes:\n    a: {action: {item_id: acme/bad}, next: b}\n" + after, "", 1,
			fault.Failed},
		"an edge": {"  start: a\n  nodes:\n    a: {action: {item_id: acme/bad}, on_error: b}\n" + after, "", 2, ""},
		"continue": {"  start: a\n  nodes:\n    a: {action: {item_id: acme/bad}, on_error: continue, next: b}\n" +
			after, "", 2, ""},
		"the graph": {"  start: a\n  on_error: continue\n  nodes:\n    a: {action: {item_id: acme/bad}, next: b}\n" +
			after, "", 2, ""},
		"a hook": {"  start: a\n  nodes:\n    a: {action: {item_id: acme/bad}, next: b}\n" + after, "continue", 2, ""},
	} {
		k := &kernel{
			made: func(call provider.ToolCall) graph.Made {
				if call.Input["item_id"] == "acme/bad" {
					return failedCall("read", transcript.CallFailed)
				}
				return graph.Made{Status: transcript.CallOK, Risk: "read", Value: object{}}
			},
			decide: func(event string, _ object) string {
				if event == "error" {
					return c.action
				}
				return ""
			},
		}
		state, err := graph.Walk(t.Context(), read(t, c.config), object{}, k)
		if len(k.calls) != c.calls || (err == nil) != (c.want == "") || err != nil && fault.CodeOf(err) != c.want {
			t.Errorf("%s: %d calls, %v", name, len(k.calls), err)
		}
		if err == nil && !reflect.DeepEqual(state[declared.LastError],
			object{"node": "a", "error": object{"code": "X", "message": "no"}}) {
			t.Errorf("%s: %v", name, state)
		}
	}
}

// TestForeach: the calls of a foreach are made at most so many at once, and its results have the order of the list.
// What isn't a list, or is too long, fails the node without a call.
func TestForeach(t *testing.T) {
	config := `  start: a
  nodes:
    a: {type: foreach, over: "${inputs.list}", action: {item_id: acme/echo, params: {text: "${item}"}}, collect: all, max_parallel: 2}
`
	k := &kernel{}
	state, err := graph.Walk(t.Context(), read(t, config), object{"list": []any{"x", "y", "z"}}, k)
	if want := (object{"all": []any{object{"said": "x"}, object{"said": "y"}, object{"said": "z"}}}); err != nil ||
		!reflect.DeepEqual(state, want) {
		t.Errorf("%v, %v", state, err)
	}
	if want := [][]string{{"x", "y"}, {"z"}}; !reflect.DeepEqual(k.calls, want) {
		t.Errorf("%q", k.calls)
	}
	for name, list := range map[string]any{"nothing": nil, "a text": "x",
		"too much": make([]any, graph.MaxElements+1)} {
		k := &kernel{}
		if state, err := graph.Walk(t.Context(), read(t, config), object{"list": list},
			k); fault.CodeOf(err) != fault.Failed || len(k.calls) > 0 {
			t.Errorf("%s: %v, %v", name, state, err)
		}
	}
}

// TestGate: a gate is passed by a condition that holds and the answer yes. Where the condition fails no one is asked,
// and an answer that is late is a no.
func TestGate(t *testing.T) {
	config := `  start: a
  nodes:
    a: {type: gate, when: {path: inputs.go, value: true}, ask: "Go?", next: b, otherwise: c}
    b: {action: {item_id: acme/echo, params: {text: passed}}}
    c: {action: {item_id: acme/echo, params: {text: stopped}}}
`
	for _, c := range []struct {
		holds  bool
		answer graph.Answer
		want   string
		asks   bool
	}{
		{true, graph.Answer{Yes: true}, "passed", true}, {true, graph.Answer{}, "stopped", true},
		{true, graph.Answer{Expired: true}, "stopped", true},
		{false, graph.Answer{Yes: true}, "stopped", false},
	} {
		k := &kernel{answer: c.answer}
		_, err := graph.Walk(t.Context(), read(t, config), object{"go": c.holds}, k)
		if err != nil || !reflect.DeepEqual(k.calls, [][]string{{c.want}}) ||
			slices.Contains(k.did, "ask Go?") != c.asks {
			t.Errorf("%+v: %q, %q, %v", c, k.calls, k.did, err)
		}
	}
}

// TestLargeState: a node whose result makes the state too large fails, and the state stays as it was.
func TestLargeState(t *testing.T) {
	k := &kernel{made: func(provider.ToolCall) graph.Made {
		return graph.Made{Status: transcript.CallOK, Risk: "read",
			Value: object{"text": strings.Repeat("x", graph.MaxState)}}
	}}
	state, err := graph.Walk(t.Context(), read(t,
		"  start: a\n  nodes:\n    a: {action: {item_id: acme/echo}, assign: {page: \"${result.text}\"}, on_error: continue}\n"),
		object{}, k)
	if err != nil || state["page"] != nil || state[declared.LastError] == nil {
		t.Errorf("%d members, %v", len(state), err)
	}
}
