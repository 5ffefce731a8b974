package graph_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/graph"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
)

// head is what every graph of these tests begins with: 8 lines.
const head = `version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state_graph_runtime
category: acme
description: Tests
input_schema:
  properties: {url: {type: string}, list: {type: array}, n: {type: integer}}
config:
`

// whole has one node of each type.
const whole = `  start: fetch
  max_steps: 20
  on_error: continue
  state: {seen: 0, from: "${inputs.url}"}
  hooks: [{event: after_step, action: continue}]
  nodes:
    fetch:
      action: {item_id: acme/fetch, params: {url: "${inputs.url}", deep: {list: ["${state.seen}", 1, null]}}}
      assign: {page: "${result.text}", copy: "$${literal} of ${result.title}"}
      next: [{to: each, when: {path: result.status, value: ok}}, {to: ask, when: "state.seen > 2"}, {to: done}]
      on_error: done
    each:
      type: foreach
      over: "${inputs.list}"
      as: one
      action: {primary: load, item_type: knowledge, item_id: acme/facts, params: {q: "${one.name}"}}
      collect: all
      max_parallel: 2
      on_error: continue
      next: ask
    ask:
      type: gate
      when: {any: ["state.seen == 0", {not: {path: inputs.n, op: gt, value: 3}}]}
      ask: "Go on with ${state.page}?"
      timeout: 60
      next: again
      otherwise: done
    again: {action: {primary: search, item_type: tool, params: {query: x, scope: tool}}}
    done: {type: return}
`

// kind is that of tools.
func kind() *model.Kind {
	all := model.Builtin()
	return all[slices.IndexFunc(all, func(k *model.Kind) bool { return k.Name == "tool" })]
}

func tool(t testing.TB, text string) *model.Tool {
	t.Helper()
	m := kind().Read(model.Ref{Kind: "tool", ID: "acme/flow"}, "tools/acme/flow.yaml", []byte(text))
	if m.Tool == nil {
		t.Fatal(m.Problems)
	}
	return m.Tool
}

func read(t testing.TB, config string) *graph.Graph {
	t.Helper()
	g, problems := graph.Read(tool(t, head+config))
	if g == nil {
		t.Fatalf("%v", problems)
	}
	return g
}

// TestRead: what a graph says, and what its nodes do.
func TestRead(t *testing.T) {
	g := read(t, whole)
	if g.Start != "fetch" || g.Steps != 20 || !g.Continue || len(g.State) != 2 || len(g.Hooks) != 1 ||
		len(g.Nodes) != 5 {
		t.Errorf("%+v", g)
	}
	if got := fmt.Sprint(g.Permissions()); got != "[execute:tool:acme/fetch load:knowledge:acme/facts]" {
		t.Error(got)
	}
	fetch, each, ask := g.Node("fetch"), g.Node("each"), g.Node("ask")
	doc := map[string]any{"result": map[string]any{"status": "ok"}, "state": map[string]any{"seen": 3.0}}
	for _, want := range []string{"each", "ask", "done"} {
		if to := fetch.Follow(doc); to != want {
			t.Errorf("%s, want %s", to, want)
		}
		if want == "each" {
			doc["result"] = nil
		} else {
			doc["state"] = nil
		}
	}
	if to, on := g.On(fetch); to != "done" || on {
		t.Errorf("%s, %t", to, on)
	}
	if to, on := g.On(each); to != "" || !on {
		t.Errorf("%s, %t", to, on)
	}
	if to, on := g.On(g.Node("again")); to != "" || !on {
		t.Errorf("%s, %t", to, on)
	}
	if each.As != "one" || each.AtOnce != 2 || each.Collect != "all" || ask.Timeout.Seconds() != 60 ||
		ask.Otherwise != "done" || g.Node("none") != nil || g.Node("again").Follow(nil) != "" {
		t.Errorf("%+v, %+v", each, ask)
	}
	if fetch.Call.Starts() {
		t.Error("it starts no thread")
	}
}

// TestFill: values keep their types, and what a template is filled with is never a template.
func TestFill(t *testing.T) {
	g := read(t, `  start: a
  nodes:
    a:
      action: {item_id: acme/x, params: {whole: "${inputs.list}", text: "n=${inputs.n}, ${inputs.list}${inputs.url}", none: "${inputs.url.deep}", in: "a${inputs.url.deep}b",
        esc: "$${inputs.n} costs $5", many: [1, true, null, 2.5, {k: "${inputs.n}"}], first: "${inputs.list.0}"}}
`)
	inputs := map[string]any{"list": []any{"${inputs.n}", 1.0, map[string]any{"a": nil}}, "n": 3.0,
		"url": "${inputs.list}"}
	v, err := g.Node("a").Call.Params.Fill(map[string]any{"inputs": inputs, "state": map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	want, err := jcs.Parse([]byte(`{"whole": ["${inputs.n}", 1, {"a": null}], "text": "n=3, [\"${inputs.n}\",1,{\"a\":null}]${inputs.list}", "none": null, "in": "ab",
		"esc": "${inputs.n} costs $5", "many": [1, true, null, 2.5, {"k": 3}], "first": "${inputs.n}"}`))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := jcs.Append(nil, v)
	b, _ := jcs.Append(nil, want)
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%s\nwant %s", a, b)
	}
}

// TestFilled: no template gives more than its bound, whatever it is filled with.
func TestFilled(t *testing.T) {
	many := strings.Repeat("${inputs.url}", 2000)
	for name, param := range map[string]string{
		"one text": many, "a list": `x", more: ["` + strings.Repeat(`${inputs.url}", "`, 2000) + `x"], y: "`,
		"a value": "${inputs.list}", "in a text": "a${inputs.list}",
		"an object": `x", more: {a: "` + many + `"}, y: "`,
	} {
		g := read(t, "  start: a\n  nodes:\n    a: {action: {item_id: acme/x, params: {p: \""+param+"\"}}}\n")
		list := []any{}
		for range 1 << 19 {
			list = append(list, map[string]any{"a": 1.0})
		}
		_, err := g.Node("a").Call.Params.Fill(map[string]any{"inputs": map[string]any{"url": strings.Repeat("x",
			1000), "list": list}})
		if err == nil || fault.CodeOf(err) != fault.Resource {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestProblems: what can't be right is refused with its line.
func TestProblems(t *testing.T) {
	many := ""
	for i := range graph.MaxNodes + 1 {
		many += fmt.Sprintf("    n%d: {type: return}\n", i)
	}
	node := func(text string) string { return "  start: a\n  nodes:\n    a: " + text + "\n    z: {type: return}\n" }
	act := func(rest string) string { return node("{action: {item_id: acme/x}, next: z" + rest + "}") }
	for name, c := range map[string]struct{ config, want string }{
		"no start": {"  nodes: {a: {type: return}}\n",
			"line 9, column 3: expected the name of the first node"},
		"unknown start": {"  start: b\n  nodes: {a: {type: return}}\n", `line 9, column 10: unknown node "b"`},
		"no nodes":      {"  start: a\n", "line 9, column 3: nodes are missing"},
		"empty nodes":   {"  start: a\n  nodes: {}\n", "line 10, column 10: nodes are missing"},
		"too many":      {"  start: n0\n  nodes:\n" + many, "1001 nodes"},
		"a bad name": {"  start: a\n  nodes:\n    a: {type: return}\n    a b: {type: return}\n",
			`line 12, column 5: invalid node name "a b"`},
		"a reserved name": {"  start: fail\n  nodes:\n    fail: {type: return}\n",
			`invalid node name "fail"`},
		"a key":              {act(", then: x"), `line 11, column 45: unknown key "then"`},
		"a key of the graph": {"  begin: a\n" + act(""), `unknown key "begin"`},
		"no object":          {node("1"), "line 11, column 8: expected an object"},
		"a type":             {node("{type: loop}"), `line 11, column 15: unknown type "loop"`},
		"an unknown node": {node("{action: {item_id: acme/x}, next: y}"),
			`line 11, column 42: unknown node "y": expected one of a, z`},
		"an edge": {node("{action: {item_id: acme/x}, next: [{to: y}]}"), `unknown node "y"`},
		"an edge to nothing": {node("{action: {item_id: acme/x}, next: [{when: \"1 == 1\"}]}"),
			"expected the name of a node"},
		"no edges": {node("{action: {item_id: acme/x}, next: {to: z}}"),
			"expected the name of a node, or a list"},
		"edges behind": {node("{action: {item_id: acme/x}, next: [{to: z}, {to: a}]}"),
			"this one is never taken"},
		"an error's node": {act(", on_error: y"), `unknown node "y"`},
		"unreachable": {"  start: a\n  nodes:\n    a: {type: return}\n    z: {type: return}\n",
			`line 12, column 5: unreachable node: nothing leads to it from "a"`},
		"no way out": {
			"  start: a\n  nodes:\n    a: {action: {item_id: acme/x}, next: b}\n    b: {action: {item_id: acme/x}, next: a}\n",
			"line 11, column 5: no way leads from this node to a return"},
		"no state": {act(`, assign: {x: "${state.y}"}`),
			"line 11, column 57: ${state.y}: unknown variable: no node assigns state.y"},
		"no input": {node(`{action: {item_id: acme/x, params: {p: "${inputs.nope}"}}, next: z}`),
			"${inputs.nope}: unknown variable: the graph declares no input nope"},
		"no root": {node(`{action: {item_id: acme/x, params: {p: "a ${env.HOME} b"}}, next: z}`),
			"${env.HOME}: unknown variable: here there are state, inputs"},
		"a result too early": {node(`{action: {item_id: acme/x, params: {p: "${result.a}"}}, next: z}`),
			"${result.a}: unknown variable: here there are state, inputs"},
		"an element elsewhere": {act(`, assign: {x: "${item}"}`), "${item}: unknown variable"},
		"no path":              {node(`{action: {item_id: acme/x, params: {p: "${a b}"}}, next: z}`), "invalid path"},
		"an open path":         {node(`{action: {item_id: acme/x, params: {p: "${a"}}, next: z}`), "invalid path"},
		"a state of rye":       {act(`, assign: {_x: 1}`), `invalid name "_x"`},
		"assign":               {act(`, assign: [1]`), "expected an object"},
		"a condition": {node(`{action: {item_id: acme/x}, next: [{to: z, when: "state.x =="}]}`),
			"line 11, column 57:"},
		"a condition's state": {node(`{action: {item_id: acme/x}, next: [{to: z, when: "state.x == 1"}]}`),
			"state.x: unknown variable"},
		"a condition's root": {node(`{action: {item_id: acme/x}, next: [{to: z, when: "env.x == 1"}]}`),
			"env.x: unknown variable"},
		"a condition's value": {
			node(`{action: {item_id: acme/x}, next: [{to: z, when: {path: state, value: 9007199254740999}}]}`),
			"beyond what JSON's readers agree about"},
		"no action": {node("{next: z}"), "line 11, column 8: the action is missing"},
		"a primary": {node("{action: {primary: run, item_id: acme/x}, next: z}"), `unknown primary "run"`},
		"no item":   {node("{action: {item_type: tool}, next: z}"), "item_id is missing"},
		"an item with a path": {node(`{action: {item_id: "acme/${inputs.url}"}, next: z}`),
			"item_id can't contain variables"},
		"params": {node("{action: {item_id: acme/x, params: [1]}, next: z}"), "expected an object"},
		"a number": {node("{action: {item_id: acme/x, params: {p: 1e999}}, next: z}"),
			"beyond what JSON's readers agree about"},
		"over": {node(`{type: foreach, over: "a ${inputs.list}", action: {item_id: acme/x}, next: z}`),
			"expected a list, or ${PATH}"},
		"no over": {node(`{type: foreach, action: {item_id: acme/x}, next: z}`),
			"expected a list, or ${PATH}"},
		"over unknown": {node(`{type: foreach, over: "${state.q}", action: {item_id: acme/x}, next: z}`),
			"no node assigns state.q"},
		"as": {node(`{type: foreach, over: [1], as: state, action: {item_id: acme/x}, next: z}`),
			`invalid name "state"`},
		"collect": {node(`{type: foreach, over: [1], collect: "a b", action: {item_id: acme/x}, next: z}`),
			`invalid name "a b"`},
		"max_parallel": {
			node(`{type: foreach, over: [1], max_parallel: 65, action: {item_id: acme/x}, next: z}`),
			"expected a whole number from 1 to 64"},
		"an empty gate": {node("{type: gate, next: z}"), "a gate needs when, ask or both"},
		"a gate's way":  {node(`{type: gate, when: "inputs.n > 1", otherwise: y, next: z}`), `unknown node "y"`},
		"a gate's text": {node(`{type: gate, ask: "Now ${inputs.nope}?", next: z}`), "no input nope"},
		"a long text": {node(`{type: gate, ask: "` + strings.Repeat("x", 5000) + `", next: z}`),
			"more than 4096 bytes"},
		"a gate's time": {node(`{type: gate, when: "inputs.n > 1", timeout: 5, next: z}`),
			"only a gate that asks has a timeout"},
		"a text that is none": {node(`{type: gate, ask: [1], next: z}`), "expected a text"},
		"max_steps": {"  max_steps: 0\n" + act(""),
			"line 9, column 14: expected a whole number from 1 to 1000000"},
		"on_error":    {"  on_error: ignore\n" + act(""), "expected fail or continue"},
		"hooks":       {"  hooks: {a: 1}\n" + act(""), "expected a list"},
		"first state": {"  state: {a: \"${state.b}\"}\n" + act(""), "here there are inputs"},
	} {
		g, problems := graph.Read(tool(t, head+c.config))
		text := ""
		for _, p := range problems {
			text += p.Error() + "\n"
		}
		if g != nil || !strings.Contains(text, c.want) {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
	if g, problems := graph.Read(tool(t, strings.TrimSuffix(head, "config:\n"))); g != nil || len(problems) != 1 {
		t.Errorf("%v", problems)
	}
}

// TestDraw: each form of drawing has every node, every way and the mark.
func TestDraw(t *testing.T) {
	for form, want := range map[string]string{
		"text": `> fetch  tool:acme/fetch
      -> each  [result.status ok]
      -> ask  [state.seen > 2]
      -> done  [else]
      -> done  [error]
  each  foreach one in ${inputs.list}: load knowledge:acme/facts
      -> ask
* ask  ask Go on with ${state.page}?
      -> again  [yes]
      -> done  [otherwise]
  again  search tool
      -> (end)
  done  return
`,
		"dot": `digraph {
  node [shape=box];
  "fetch" [label="fetch\ntool:acme/fetch"];
  "fetch" -> "each" [label="result.status ok"];
  "fetch" -> "ask" [label="state.seen > 2"];
  "fetch" -> "done" [label="else"];
  "fetch" -> "done" [label="error"];
  "each" [label="each\nforeach one in ${inputs.list}: load knowledge:acme/facts", shape=box3d];
  "each" -> "ask" [label=""];
  "ask" [label="ask\nask Go on with ${state.page}?", shape=diamond, style=filled];
  "ask" -> "again" [label="yes"];
  "ask" -> "done" [label="otherwise"];
  "again" [label="again\nsearch tool"];
  "again" -> "(end)" [label=""];
  "done" [label="done\nreturn", shape=doublecircle];
  "(end)" [shape=point];
}
`,
		"mermaid": `flowchart TD
  n0["fetch<br>tool:acme/fetch"]
  n0 -->|"result.status ok"| n1
  n0 -->|"state.seen #62; 2"| n2
  n0 -->|"else"| n4
  n0 -->|"error"| n4
  n1[["each<br>foreach one in $#123;inputs.list#125;: load knowledge:acme/facts"]]
  n1 --> n2
  n2{"ask<br>ask Go on with $#123;state.page#125;?"}
  n2 -->|"yes"| n3
  n2 -->|"otherwise"| n4
  n3["again<br>search tool"]
  n3 --> e
  n4(["done<br>return"])
  e(("end"))
  style n2 stroke-width:4px
`} {
		var b strings.Builder
		if err := read(t, whole).Draw(&b, form, "ask"); err != nil || b.String() != want {
			t.Errorf("%s: %v\n%s", form, err, b.String())
		}
	}
}

// FuzzRead: no file makes the reader fail, and what it accepts fills and draws.
func FuzzRead(f *testing.F) {
	f.Add(whole)
	f.Add("  start: a\n  nodes: {a: {type: gate, when: {all: [x]}, next: [{to: a, when: 1}]}}\n")
	f.Add("  start: a\n  nodes: {a: {action: {item_id: \"${\", params: {b: \"$${}${}${state..a}\"}}}}\n")
	f.Fuzz(func(t *testing.T, config string) {
		m := kind().Read(model.Ref{Kind: "tool", ID: "acme/flow"}, "tools/acme/flow.yaml", []byte(head+config))
		if m.Tool == nil || m.Invalid() {
			return
		}
		g, problems := graph.Read(m.Tool)
		if (g == nil) != (len(problems) > 0) {
			t.Fatalf("%v and %v", g, problems)
		}
		if g == nil {
			return
		}
		doc := map[string]any{"state": map[string]any{"a": "${state.a}"}, "inputs": map[string]any{"url": "x"},
			"result": nil}
		for _, n := range g.Nodes {
			n.Follow(doc)
			if n.Call != nil {
				if _, err := n.Call.Params.Fill(doc); err != nil && fault.CodeOf(err) != fault.Resource {
					t.Fatal(err)
				}
			}
		}
		for _, form := range graph.Forms {
			if err := g.Draw(new(strings.Builder), form, g.Start); err != nil {
				t.Fatal(err)
			}
		}
	})
}
