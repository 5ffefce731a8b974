package ask_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/manifest/policy/ask"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// rules reads lines, which stand as the section has them.
func rules(t testing.TB, text string) ask.Rules {
	t.Helper()
	if text == "" {
		return nil
	}
	tree, err := yamltree.Parse([]byte("ask:\n" + text + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := ask.Read(tree.Root.Get("ask"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

type object = map[string]any

// TestDecide: the strictest line that matches counts, a project only narrows, and without a line the risk decides.
func TestDecide(t *testing.T) {
	const (
		none    = "  x: {names: [\"tool:none\"]}"
		asks    = "  a: {names: [\"tool:acme/*\"], expires: 2h}"
		refuses = "  r: {risk: infra, answer: refuse}"
		allows  = "  l: {names: [\"tool:acme/**\"], answer: allow}"
	)
	call := func(tool, risk string) ask.Call { return ask.Call{Tool: tool, Risk: risk} }
	attended := func(c ask.Call) ask.Call { c.Attended = true; return c }
	given := func(c ask.Call, amount any) ask.Call {
		c.Document = object{"params": object{"amount": amount}, "caller": "ann",
			"flow": object{"tags": []any{"untrusted"}, "directive": nil}}
		return c
	}
	for i, c := range []struct {
		root, project string
		call          ask.Call
		want          string
	}{
		{"", "", call("tool:acme/x", "read"), "allow"},
		{"", "", call("tool:acme/x", "write"), "allow"},
		{"", "", call("tool:acme/x", "infra"), "ask 1h"},
		{"", "", call("tool:acme/x", "destructive"), "ask 1h"},
		{"", "", call("tool:acme/x", "unheard"), "ask 1h"},
		{"", "", attended(call("tool:acme/x", "destructive")), "allow"},
		{none, "", call("tool:acme/x", "money"), "ask 1h"},
		{allows, "", call("tool:acme/x", "destructive"), `allow "l" of your policy`},
		{none, allows, call("tool:acme/x", "destructive"), "ask 1h"},
		{asks, "", attended(call("tool:acme/x", "read")), `ask "a" of your policy 2h`},
		{asks, "", call("tool:acme/x/y", "read"), "allow"},
		{asks + "\n" + allows, "", call("tool:acme/x", "read"), `ask "a" of your policy 2h`},
		{asks + "\n" + refuses, "", call("tool:acme/x", "infra"), `refuse "r" of your policy`},
		{refuses, "", call("tool:acme/x", "write"), "allow"},
		{"  p: {separate: true, expires: 3h}", asks, call("tool:acme/x", "read"),
			`ask "p" of your policy "a" of the project's policy separate 2h`},
		{asks, "  p: {}", call("tool:acme/x", "read"), `ask "a" of your policy "p" of the project's policy 2h`},
		{"  p: {}", asks, call("tool:acme/x", "read"), `ask "p" of your policy "a" of the project's policy 2h`},
		{asks, "  p: {expires: 3h}", call("tool:acme/x", "read"),
			`ask "a" of your policy "p" of the project's policy 2h`},
		{allows, asks, call("tool:acme/x", "read"), `ask "a" of the project's policy 2h`},
		{asks, allows, call("tool:acme/x", "read"), `ask "a" of your policy 2h`},
		{asks, refuses, call("tool:acme/x", "money"), `refuse "r" of the project's policy`},
		{refuses, asks, call("tool:acme/x", "money"), `refuse "r" of your policy`},
		{asks, "  p: {separate: true, expires: 1h}", call("tool:acme/x", "read"),
			`ask "a" of your policy "p" of the project's policy separate 1h`},
		{"  p: {separate: true}\n" + asks, "", call("tool:acme/x", "read"),
			`ask "p" of your policy "a" of your policy separate 2h`},
		{"", "  all: {}", call("tool:acme/x", "infra"), `ask "all" of the project's policy 1h`},
		{"  all: {answer: refuse}", "", call("bundle:acme/x", "read"), "allow"},
		{`  big: {when: "params.amount > 100"}`, "", given(call("tool:x", "read"), 120.0),
			`ask "big" of your policy 1h`},
		{`  big: {when: "params.amount > 100"}`, "", given(call("tool:x", "read"), 100.0), "allow"},
		// What can't be compared is asked about, and not allowed.
		{`  big: {when: "params.amount > 100"}`, "", given(call("tool:x", "read"), "120"),
			`ask "big" of your policy 1h`},
		{`  big: {when: "params.amount > 100", answer: allow}`, "", given(call("tool:x", "money"), "120"), "ask 1h"},
		{`  big: {when: "params.amount > 100", answer: allow}`, "", given(call("tool:x", "money"), 120.0),
			`allow "big" of your policy`},
		{`  flow: {when: "flow.tags contains \"untrusted\"", answer: refuse}`, "", given(call("tool:x", "read"), 1.0),
			`refuse "flow" of your policy`},
		{`  me: {when: "caller == \"ann\" and flow.directive == null", answer: allow}`, "",
			given(call("tool:x", "money"), 1.0), `allow "me" of your policy`},
	} {
		d := ask.Decide(&c.call, rules(t, c.root), rules(t, c.project))
		got := d.Answer.String()
		for _, l := range d.Lines {
			got += " " + l
		}
		if d.Separate {
			got += " separate"
		}
		if d.Answer == ask.Ask {
			got += fmt.Sprintf(" %gh", d.Expires.Hours())
		}
		if got != c.want {
			t.Errorf("%d: %s; want %s", i, got, c.want)
		}
	}
}

// TestNarrow: whatever a project says, the answer is never less strict than without it.
func TestNarrow(t *testing.T) {
	var lines []string
	for _, answer := range []string{"allow", "ask", "refuse"} {
		for _, names := range []string{"", `names: ["tool:acme/*"], `} {
			for _, risk := range []string{"read", "infra"} {
				lines = append(lines, fmt.Sprintf("  x: {%srisk: %s, answer: %s}", names, risk, answer))
			}
		}
	}
	for _, root := range append(lines, "") {
		for _, project := range lines {
			for _, risk := range ask.Risks {
				c := ask.Call{Tool: "tool:acme/x", Risk: risk}
				alone, both := ask.Decide(&c, rules(t, root), nil), ask.Decide(&c, rules(t, root), rules(t, project))
				if both.Answer < alone.Answer {
					t.Errorf("%s: %s becomes %s by the project's %s", root, alone.Answer, both.Answer, project)
				}
			}
		}
	}
}

// TestLines: a line says itself in the words of the file, and which lines are about a tool.
func TestLines(t *testing.T) {
	r := rules(t, `  a: {names: ["tool:b/**", "tool:a"], risk: write, when: "params.x == \"1\"", separate: true, expires: 36h}
  b: {answer: refuse}
  c: {names: ["tool:c"], expires: 7d}`)
	var all []string
	for i := range r {
		all = append(all, r[i].String())
	}
	const want = `names: ["tool:a", "tool:b/**"], risk: write, when: "params.x == \"1\"", answer: ask, separate: true, expires: 36h
answer: refuse
names: ["tool:c"], answer: ask, expires: 7d`
	if got := strings.Join(all, "\n"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for name, want := range map[string]int{"tool:a": 2, "tool:b/x/y": 2, "tool:c": 2, "tool:d": 1, "knowledge:a": 0,
		"tool": 0} {
		if got := r.About(name); len(got) != want {
			t.Errorf("%d lines are about %s; want %d", len(got), name, want)
		}
	}
	if r[0].Expires != 36*time.Hour {
		t.Errorf("%s", r[0].Expires)
	}
	// A line that isn't understood refuses the policy. Read as another line, it would let a call through.
	for line, want := range map[string]string{
		"A b: {}":                              "the name of a line",
		"a: {who: ann}":                        "who",
		"a: {names: {x: y}}":                   "expected a list",
		"a: {risk: high}":                      "read, write, infra",
		"a: {when: [x]}":                       "when",
		"a: {when: \"params.x =\"}":            "in the condition",
		"a: {when: \"env.HOME == 1\"}":         `caller, tenant and flow, not "env"`,
		"a: {answer: maybe}":                   "allow, ask, refuse",
		"a: {separate: perhaps}":               "true, false",
		"a: {expires: 31d}":                    "expected a number of days",
		"a: {answer: allow, separate: true}":   "goes with the answer ask",
		"a: {answer: refuse, expires: 1h}":     "goes with the answer ask",
		"a: {answer: allow}\n  b: {risk: low}": "read, write, infra",
	} {
		tree, err := yamltree.Parse([]byte("ask:\n  " + line + "\n"))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if _, err := ask.Read(tree.Root.Get("ask")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	long := yamltree.Node{Shape: yamltree.Mapping}
	for i := range 1001 {
		long.Kids = append(long.Kids, &yamltree.Node{Key: fmt.Sprintf("a%d", i), Shape: yamltree.Mapping})
	}
	if _, err := ask.Read(&long); err == nil || !strings.Contains(err.Error(), "has more than 1000 lines") {
		t.Errorf("%v", err)
	}
	long.Kids = long.Kids[1:]
	if _, err := ask.Read(&long); err != nil {
		t.Errorf("1000 lines: %v", err)
	}
}
