package exec_test

import (
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// TestDerivedRisk: the risk of a tool that declares none follows from the grants in force and their enforcement, and
// the call runs only in the sandbox that this risk takes for granted.
func TestDerivedRisk(t *testing.T) {
	const granted = "grants:\n  \"tool:acme/**\": [\"files:write:out\", \"network:*\"]\n"
	for name, c := range map[string]struct {
		lines    []string
		bobs     bool
		stranger bool // the user isn't present
		policy   string
		bare     bool // a machine without a sandbox
		want     declared.Risk
		why      string // its beginning; "" for a declared one
		need     floor.Level
	}{
		"nothing":             {want: declared.Read, why: "it gets no network", need: floor.Landlock},
		"nothing, unenforced": {bare: true, want: declared.Destructive, why: "no sandbox"},
		"outputs": {lines: everything[3:], policy: "grants:\n  \"tool:acme/**\": [\"files:write:.ai/outputs\"]\n",
			want: declared.Read, why: "it gets no", need: floor.Landlock},
		"files":             {lines: everything[3:], want: declared.Write, why: "it may write", need: floor.Landlock},
		"files, unenforced": {lines: everything[3:], bare: true, want: declared.Destructive, why: "no sandbox"},
		"files, only reading": {lines: everything[3:], policy: "grants:\n  \"tool:acme/**\": [\"files:read:.\"]\n",
			want: declared.Read, why: "it gets no", need: floor.Landlock},
		"network": {lines: []string{"network: all"}, want: declared.Destructive, why: "it may use the network"},
		"hosts": {lines: []string{"network: [a.example]"},
			want: declared.Destructive, why: "it may use the network"},
		"no network for any": {lines: []string{"network: all"}, policy: "exec: {network: none}\n",
			want: declared.Read, why: "it gets no", need: floor.Landlock},
		"secret": {lines: []string{"secrets: [token]"}, policy: "exec:\n  secrets: {token: [\"tool:acme/**\"]}\n",
			want: declared.Destructive, why: "it gets secrets"},
		"secret withheld": {lines: []string{"secrets: [token]"}, want: declared.Read, why: "it gets no", need: floor.Landlock},
		"calls":           {lines: everything[:1], want: declared.Destructive, why: "it may run or sign"},
		"a stranger's":    {lines: everything, bobs: true, bare: true, want: declared.Read, why: "it gets no", need: floor.Landlock},
		"a stranger's, granted": {lines: everything, bobs: true, policy: granted,
			want: declared.Destructive, why: "it may use the network", need: floor.Landlock},
		"a stranger's, without a sandbox": {bobs: true, bare: true, policy: "exec: {strangers: limits}\n",
			want: declared.Destructive, why: "no sandbox", need: floor.Limits},
		"a stranger's, in more than is asked": {bobs: true, policy: "exec: {strangers: limits}\n",
			want: declared.Read, why: "it gets no", need: floor.Landlock},
		"without its user": {stranger: true, bare: true, want: declared.Read, why: "it gets no", need: floor.Landlock},
		"a floor": {bare: true, policy: "exec: {floor: namespace}\n",
			want: declared.Read, why: "it gets no", need: floor.Namespace},
		"declared":             {lines: []string{"risk: read", "network: all"}, want: declared.Read},
		"declared, unenforced": {lines: []string{"risk: read"}, bare: true, want: declared.Read},
		"by its effects":       {lines: []string{"effects: [network]"}, want: declared.Write},
		"pure":                 {lines: []string{"pure: true"}, want: declared.Read},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			w := newWorld(t)
			w.kernel.Confines = func() bool { return !c.bare }
			if w.policy = ""; c.policy != "" {
				w.policy = "\n" + c.policy
			}
			w.put(map[string]string{"docs/x": "", "src/a/x": "", "out/x": "",
				".ai/tools/acme/x.yaml": tool("acme/x", probing, c.lines...)})
			w.signed(x, map[bool]key.Private{false: alice, true: bob}[c.bobs])
			run := call(x, nil)
			run.Stranger = c.stranger
			p := w.prepare(run)
			if p.Risk != c.want || !strings.HasPrefix(p.Derived, c.why) || (p.Derived == "") != (c.why == "") {
				t.Errorf("the risk is %v: %s; want %v: %s", p.Risk, p.Derived, c.want, c.why)
			}
			if got := p.Action.Sandbox.Level; got != c.need {
				t.Errorf("it needs the sandbox %v; want %v", got, c.need)
			}
		})
	}
}

// TestRiskOnRecord: the log and the receipt have the risk that was used, and why.
func TestRiskOnRecord(t *testing.T) {
	for text, want := range map[string][2]string{
		"tags: [x]":    {"read", "it gets no network, secrets or other items, and writes no project file"},
		"network: all": {"destructive", "it may use the network"},
		"risk: money":  {"money", ""},
	} {
		w := newWorld(t).with(text)
		w.kernel.Confines = func() bool { return true }
		proof := w.proved(w.ok(call(x, nil)))
		for _, c := range []record.Call{proof.Call, w.records()[0].Call} {
			if c.Risk != want[0] || c.Derived != want[1] {
				t.Errorf("%s: recorded as %q, %q; want %q", text, c.Risk, c.Derived, want)
			}
		}
	}
}

// TestDerivedApproval: an approval is for the risk that was derived; with other grants it is for another call.
func TestDerivedApproval(t *testing.T) {
	for _, c := range []struct {
		policy string
		want   fault.Code
	}{{"", ""}, {"\ngrants:\n  \"tool:acme/**\": []\n", fault.Conflict}} {
		w := newWorld(t).with("files: {write: [out]}")
		w.put(map[string]string{"out/x": ""})
		w.kernel.Confines = func() bool { return true }
		given := call(x, map[string]any{"amount": 5.0})
		given.Approval = w.approved(given)
		w.policy = c.policy
		if c.want == "" {
			w.prepare(given)
		} else if err := w.refused(given); fault.CodeOf(err) != c.want {
			t.Errorf("%q: %v", c.policy, err)
		}
	}
}
