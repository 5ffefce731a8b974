package graph_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	declared "github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/graph"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/jcs"
)

// A recordKernel keeps what a walk records.
type recordKernel struct {
	kernel
	events []transcript.Payload
}

func (k *recordKernel) Record(durable bool, events ...transcript.Payload) error {
	k.events = append(k.events, events...)
	return k.kernel.Record(durable, events...)
}

// results are the results of the steps: node, status, cause, code of the error, and the next node.
func (k *recordKernel) results() (all []string) {
	for _, e := range k.events {
		if r, is := e.(transcript.NodeResult); is {
			code := ""
			if r.Error != nil {
				code = r.Error.Code
			}
			all = append(all, fmt.Sprintf("%s %s %q %q -> %q", r.Node, r.Status, r.Cause, code, r.Next))
		}
	}
	return all
}

// retries has hooks repeat each call that fails.
func retries(event string, _ object) string {
	if event == "error" {
		return "retry"
	}
	return ""
}

// TestRecordedStates: the record has each state that differs from the one before, as it was after its step: later
// steps change none that was recorded, or a resumed graph would go on with another state than it had.
func TestRecordedStates(t *testing.T) {
	failures, bad := 0, 0
	k := &recordKernel{kernel: kernel{decide: retries, made: func(call provider.ToolCall) graph.Made {
		params, _ := call.Input["parameters"].(object)
		switch id := call.Input["item_id"]; {
		case id == "acme/bad":
			if bad++; bad == 1 { // its only call
				return failedCall("write", transcript.CallUnknown)
			}
		case id == "acme/shaky":
			if failures++; failures%2 == 1 {
				return failedCall("read", transcript.CallFailed)
			}
		}
		return graph.Made{Status: transcript.CallOK, Risk: "read", Value: object{"said": params["text"]}}
	}}}
	state, err := graph.Walk(t.Context(), read(t, `  start: a
  state: {first: "${inputs.list}"}
  nodes:
    a: {action: {item_id: acme/shaky, params: {text: "${state.first}"}}, assign: {said: "${result.said}"}, next: b}
    b: {action: {item_id: acme/shaky}, next: c}
    c: {action: {item_id: acme/echo}, next: d}
    d: {action: {item_id: acme/bad}, on_error: continue, next: [{to: e, when: {path: result.error.code, value: X}}, {to: f}]}
    e: {action: {item_id: acme/echo, params: {text: y}}, assign: {why: "${result.said}"}, next: f}
    f: {type: return}
`), object{"list": "x"}, k)
	failure := object{"node": "d", "error": object{"code": "X", "message": "no"}}
	if want := (object{"first": "x", "said": "x", "why": "y", declared.Retries: object{"a": 1.0, "b": 1.0},
		declared.LastError: failure}); err != nil || !reflect.DeepEqual(state, want) {
		t.Fatalf("%v, %v", state, err)
	}
	if got, want := fmt.Sprint(k.results()), fmt.Sprint([]string{`a ok "" "" -> "b"`, `b ok "" "" -> "c"`,
		`c ok "" "" -> "d"`, `d error "" "X" -> "e"`, `e ok "" "" -> "f"`, `f ok "" "" -> ""`}); got != want {
		t.Errorf("%s", got)
	}
	var before cas.Digest
	var same []bool
	for _, e := range k.events {
		switch e := e.(type) {
		case transcript.State:
			if b, err := jcs.Append(nil, e.State); e.Same != (e.Digest == before) || e.Same != (e.State == nil) ||
				!e.Same && (err != nil || cas.Sum(b) != e.Digest) {
				t.Errorf("step %d: %+v", e.Step, e)
			}
			before, same = e.Digest, append(same, e.Same)
		case transcript.Returned:
			if e.Node != "f" || e.Digest != before {
				t.Errorf("%+v", e)
			}
		}
	}
	if fmt.Sprint(same) != "[false false true false false true]" {
		t.Errorf("same: %v", same)
	}
}

// TestWays: of the ways that a node, a hook and the graph have for an error the record says which was taken.
func TestWays(t *testing.T) {
	for config, c := range map[string]struct{ action, want string }{
		"{item_id: acme/bad}, next: c":               {"", ""},
		"{item_id: acme/bad}, on_error: b, next: c":  {"", "b"},
		"{item_id: acme/bad}, on_error: b, next: c ": {"continue", "c"},
	} {
		k := &recordKernel{kernel: kernel{made: func(call provider.ToolCall) graph.Made {
			if call.Input["item_id"] == "acme/bad" {
				return failedCall("read", transcript.CallFailed)
			}
			return graph.Made{Status: transcript.CallOK, Risk: "read", Value: object{}}
		}, decide: func(event string, _ object) string {
			if event == "error" {
				return c.action
			}
			return ""
		}}}
		text := "  start: a\n  nodes:\n    a: {action: " + config + "}\n    c: {action: {item_id: acme/echo}}\n"
		if strings.Contains(config, "on_error") {
			text += "    b: {action: {item_id: acme/echo}}\n"
		}
		_, err := graph.Walk(t.Context(), read(t, text), object{}, k)
		if (err == nil) != (c.want != "") || k.results()[0] != `a error "" "X" -> "`+c.want+`"` {
			t.Errorf("%s %s: %q, %v", config, c.action, k.results(), err)
		}
	}
}

// TestBrokenWay: an error of the kernel ends a walk whose calls fail, too: a limit that was reached, or a record that
// can't be written, isn't taken for an answer of the hooks.
func TestBrokenWay(t *testing.T) {
	for name, nodes := range map[string]string{
		"an action":  "    a: {action: {item_id: acme/bad}, on_error: continue}\n",
		"a foreach":  "    a: {type: foreach, over: [x], action: {item_id: acme/bad}}\n",
		"a gate":     "    a: {type: gate, ask: \"Go?\", next: b, otherwise: b}\n    b: {type: return}\n",
		"no list":    "    a: {type: foreach, over: \"${inputs.list}\", action: {item_id: acme/bad}}\n",
		"too deep":   "    a: {action: {item_id: acme/echo, params: {text: \"${inputs.deep}\"}}, on_error: continue}\n",
		"much":       "    a: {type: foreach, over: [x], action: {item_id: acme/much}, collect: all}\n",
		"hundredths": "    a: {type: foreach, over: \"${inputs.hundred}\", action: {item_id: acme/echo}}\n",
	} {
		inputs := object{"deep": nested(graph.MaxDepth), "hundred": make([]any, 100)}
		config := strings.ReplaceAll("  start: a\n  nodes:\n"+nodes, "inputs.deep", "inputs.list")
		config = strings.ReplaceAll(config, "inputs.hundred", "inputs.list")
		switch name {
		case "too deep":
			inputs["list"] = inputs["deep"]
		case "hundredths":
			inputs["list"] = inputs["hundred"]
		}
		failures := 0
		one := func(broken string) *kernel {
			failures = 0
			return &kernel{broken: broken, decide: retries, made: func(call provider.ToolCall) graph.Made {
				if failures++; failures < 3 && call.Input["item_id"] == "acme/bad" {
					return failedCall("read", transcript.CallFailed)
				}
				if call.Input["item_id"] == "acme/much" {
					return graph.Made{Status: transcript.CallOK, Risk: "read",
						Value: strings.Repeat("x", graph.MaxState)}
				}
				return graph.Made{Status: transcript.CallOK, Risk: "read", Value: object{}}
			}}
		}
		k := one("")
		_, _ = graph.Walk(t.Context(), read(t, config), inputs, k)
		done := map[string]bool{}
		for i, what := range k.did {
			if done[what] {
				continue
			}
			done[what] = true
			broken := one(what)
			if _, err := graph.Walk(t.Context(), read(t, config), inputs, broken); err != errBroken ||
				len(broken.did) != i+1 {
				t.Errorf("%s, %s: %v after %q", name, what, err, broken.did)
			}
		}
	}
}

// TestTooMuch: a text that grows beyond its bound fails where it is made: no call is made with a part of it, nothing
// of its node is assigned, and a gate that can't ask isn't passed.
func TestTooMuch(t *testing.T) {
	const twice = `"${inputs.list}${inputs.list}"`
	inputs := object{"list": strings.Repeat("x", declared.MaxFilled/2+1)}
	for name, c := range map[string]struct {
		config string
		calls  int
	}{
		"the state":   {"  start: a\n  state: {big: " + twice + "}\n  nodes:\n    a: {action: {item_id: acme/echo}}\n", 0},
		"an argument": {"  start: a\n  nodes:\n    a: {action: {item_id: acme/echo, params: {text: " + twice + "}}}\n", 0},
		"a list": {"  start: a\n  nodes:\n    a: {type: foreach, over: [x, " + twice + "], action: {item_id: acme/echo}}\n",
			0},
		"an element": {"  start: a\n  nodes:\n    a: {type: foreach, over: [x], action: {item_id: acme/echo, params: {text: " +
			twice + "}}}\n", 0},
		"a deep element": {"  start: a\n  nodes:\n    a: {type: foreach, over: [x], action: {item_id: acme/echo, params: {text: " +
			strings.Repeat("[", graph.MaxDepth) + "x" + strings.Repeat("]", graph.MaxDepth) + "}}}\n", 0},
	} {
		k := &kernel{}
		if _, err := graph.Walk(t.Context(), read(t, c.config), inputs, k); err == nil || len(k.calls) != c.calls {
			t.Errorf("%s: %d calls, %v", name, len(k.calls), err)
		}
	}
	k := &kernel{}
	state, err := graph.Walk(t.Context(), read(t, "  start: a\n  nodes:\n    a: {action: {item_id: acme/echo},"+
		" assign: {a: \"${result}\", big: "+twice+"}, on_error: continue}\n"), inputs, k)
	if err != nil || state["a"] != nil || state["big"] != nil || state[declared.LastError] == nil {
		t.Errorf("assigned: %d members, %v", len(state), err)
	}
	passes := &recordKernel{kernel: kernel{answer: graph.Answer{Yes: true}}}
	_, err = graph.Walk(t.Context(), read(t, "  start: a\n  on_error: continue\n  nodes:\n"+
		"    a: {type: gate, ask: "+twice+", next: b, otherwise: c}\n    b: {type: return}\n    c: {type: return}\n"), inputs, passes)
	if got := fmt.Sprint(passes.results()); err != nil ||
		got != `[a error "" "RESOURCE_EXCEEDED" -> "c" c ok "" "" -> ""]` {
		t.Errorf("a gate: %s, %v", got, err)
	}
}

// TestStateBound: a state may be as large as its bound, and a byte more fails the node that would make it so; the
// state that the graph began with is bound, too.
func TestStateBound(t *testing.T) {
	text := strings.Repeat("x", graph.MaxState/2)
	for size, whole := range map[int]bool{graph.MaxState: true, graph.MaxState + 1: false} {
		rest := strings.Repeat("y", size-len(`{"a":"","b":""}`)-len(text))
		k := &kernel{made: func(provider.ToolCall) graph.Made {
			return graph.Made{Status: transcript.CallOK, Risk: "read", Value: object{"a": text, "b": rest}}
		}}
		state, err := graph.Walk(t.Context(), read(t, "  start: a\n  nodes:\n    a: {action: {item_id: acme/echo},"+
			" assign: {a: \"${result.a}\", b: \"${result.b}\"}}\n"), object{}, k)
		if (err == nil) != whole || whole && state["b"] != rest {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	for name, list := range map[string]any{"too large": strings.Repeat("x", graph.MaxState),
		"too deep": nested(graph.MaxDepth)} {
		k := &kernel{}
		if _, err := graph.Walk(t.Context(), read(t, "  start: a\n  state: {a: \"${inputs.list}\"}\n  nodes:\n"+
			"    a: {action: {item_id: acme/echo}}\n"), object{"list": list}, k); fault.CodeOf(err) != fault.Resource ||
			len(k.did) > 0 {
			t.Errorf("%s: %v, %q", name, err, k.did)
		}
	}
	k := &kernel{}
	if _, err := graph.Walk(t.Context(), read(t, "  start: a\n  nodes:\n"+
		"    a: {type: foreach, over: \"${inputs.list}\", action: {item_id: acme/echo}}\n"), object{"list": make([]any, graph.MaxElements)}, k); err != nil {
		t.Errorf("the longest list: %v", err)
	}
}

// TestGateParts: a gate with a condition alone asks no one, one with a question alone has no condition, and the record
// says what has decided: a deploy that no one was asked about must not look like one that was approved.
func TestGateParts(t *testing.T) {
	for _, c := range []struct {
		gate   string
		answer graph.Answer
		asks   bool
		want   string
	}{
		{`when: {path: inputs.go, value: true}`, graph.Answer{}, false, `a ok "condition" "" -> "b"`},
		{`when: {path: inputs.go, value: false}`, graph.Answer{}, false, `a ok "condition" "" -> "c"`},
		{`ask: "Go?"`, graph.Answer{Yes: true}, true, `a ok "answer" "" -> "b"`},
		{`ask: "Go?"`, graph.Answer{}, true, `a ok "answer" "" -> "c"`},
		{`ask: "Go?"`, graph.Answer{Expired: true}, true, `a ok "expired" "" -> "c"`},
	} {
		k := &recordKernel{kernel: kernel{answer: c.answer}}
		_, err := graph.Walk(t.Context(), read(t, "  start: a\n  nodes:\n    a: {type: gate, "+c.gate+
			", next: b, otherwise: c}\n    b: {type: return}\n    c: {type: return}\n"), object{"go": true}, k)
		if err != nil || k.results()[0] != c.want || strings.Contains(fmt.Sprint(k.did), "ask Go?") != c.asks {
			t.Errorf("%s, %+v: %q, %q, %v", c.gate, c.answer, k.results(), k.did, err)
		}
	}
}

// TestAnswered: of the answers of a call that asks only yes is one, and a call that failed is no answer at all.
func TestAnswered(t *testing.T) {
	for value, want := range map[any]graph.Answer{"yes": {Yes: true}, "no": {}, "expired": {Expired: true}, nil: {},
		true: {}, "Yes": {}} {
		got, err := graph.Answered(&graph.Made{Status: transcript.CallOK, Value: object{"answer": value}})
		if got != want || err != nil {
			t.Errorf("%v: %+v, %v", value, got, err)
		}
	}
	got, err := graph.Answered(&graph.Made{Status: transcript.CallRefused, Value: object{"answer": "yes"}})
	if got.Yes || err == nil {
		t.Errorf("refused: %+v, %v", got, err)
	}
}
