package toolcall_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// echoes is a tool that gives back a text, as a function of the test's process.
func echoes(risk string) string {
	return `version: "1.0.0"
category: acme
description: Gives back what it is given
tool_type: function
executor_id: rye/core/primitives/rye
risk: ` + risk + `
config: {function: echo, params: "{params_json}"}
input_schema: {type: object, required: [text], properties: {text: {type: string}}}
`
}

// flow is a graph that moves money.
const flow = `version: "1.0.0"
category: acme
description: Pays by steps
tool_type: graph
executor_id: rye/core/runtimes/state_graph_runtime
risk: money
permissions: [execute:tool:acme/echo]
config: {start: a, nodes: {a: {action: {item_id: acme/echo}}}}
`

const asking = "# asking\n\n```xml\n" + `<directive name="asking" version="1.0.0">
  <metadata>
    <description>Asks</description>
    <model provider="local" id="test-model"/>
    <permissions>
      <execute><tool>acme/echo</tool><tool>acme/pay</tool><tool>acme/after</tool><tool>acme/flow</tool><tool>rye/agent/threads/*</tool></execute>
      <load><knowledge>acme/*</knowledge></load>
    </permissions>
  </metadata>
  <outputs><output name="answer" type="string">The answer</output></outputs>
</directive>
` + "```\nAsk about it.\n"

// maker returns a Maker for a thread of the directive acme/asking, in a project of Alice, and how often the tools were
// called.
func maker(t testing.TB, edit func(*toolcall.Options)) (m *toolcall.Maker, called *atomic.Int64) {
	t.Helper()
	p := projecttest.With(t, `
ask:
  past: {names: ["tool:acme/echo"], when: flow.tools contains "tool:acme/past", answer: refuse}
  after: {names: ["tool:acme/after"], when: flow.tools contains "tool:acme/echo", answer: refuse}
  flown: {names: ["tool:acme/after"], when: flow.tools contains "tool:acme/flow", answer: refuse}
`, map[string]string{"tools/acme/after.yaml": echoes("read"), "tools/acme/flow.yaml": flow,
		"tools/acme/echo.yaml": echoes("read"),
		"tools/acme/pay.yaml":  echoes("money"), "tools/acme/other.yaml": echoes("read"),
		"directives/acme/asking.md": asking,
		"knowledge/acme/style.md":   "---\nid: style\ntitle: Style\nentry_type: reference\nversion: 1.0.0\ncategory: acme\n---\n# Style\n"})
	sandboxtest.Removable(t, filepath.Join(p.Home, "cache"))
	called = new(atomic.Int64)
	functions := func(*session.Session) function.Functions {
		return function.Functions{"echo": function.Of(nil, func(_ context.Context, _ *function.Call, given struct {
			Text string `json:"text"`
		}) (any, error) {
			called.Add(1)
			return object{"said": given.Text}, nil
		})}
	}
	s, err := session.Open(t.Context(), p.Workspace(workspace.Options{}),
		session.Options{Mode: session.Mode{Unlocked: true}, Functions: functions})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	followed, err := plan.Read(t.Context(), &plan.Agents{Session: s}, model.Ref{Kind: "directive", ID: "acme/asking"},
		s.Item)
	must(t, err)
	must(t, followed.Offer(t.Context()))
	o := toolcall.Options{Plan: followed, Thread: thread, Own: true, NewID: func(directive string) string {
		return directive + "-1795000000-k3v9q"
	}}
	if edit != nil {
		edit(&o)
	}
	return toolcall.New(o), called
}

func executes(item string, given object) provider.ToolCall {
	return provider.ToolCall{ID: "a", Name: plan.NameExecute,
		Input: object{"item_type": "tool", "item_id": item, "parameters": given}}
}

// codeOf returns the code of a result that is an error, "" for any other.
func codeOf(t testing.TB, text string) string {
	t.Helper()
	var result struct{ Error struct{ Code string } }
	must(t, json.Unmarshal([]byte(text), &result))
	return result.Error.Code
}

// TestRemember: what a thread called before two handoffs is known to the policies still: a line that refuses a tool
// after another one isn't forgotten with a summary, nor by a child.
func TestRemember(t *testing.T) {
	m, called := maker(t, nil)
	dir, continues := t.TempDir(), ""
	for i, calls := range []string{"tool:acme/past", "tool:acme/pay", ""} {
		id := fmt.Sprintf("acme/asking-179500000%d-a2b3c", i)
		w, err := transcript.Create(filepath.Join(dir, filepath.FromSlash(id)), id,
			transcript.Started{Kind: "directive", Continues: continues,
				Directive: transcript.Item{Ref: "directive:acme/asking", Digest: cas.Sum(nil)},
				Policy:    []cas.Digest{}, Grants: []string{}, Model: "m"},
			transcript.Driver{Epoch: 1}, transcript.Options{Key: keytest.Seeded(1), Now: time.Now})
		must(t, err)
		if calls != "" {
			_, err = w.Append(transcript.Request{Turn: 1, Attempt: 1, Digest: cas.Sum(nil), Messages: []any{},
				Provider: transcript.Item{Ref: "tool:acme/p", Digest: cas.Sum(nil)}, Model: "m"},
				transcript.Answer{Turn: 1, Attempt: 1, Model: "m"},
				transcript.CallStarted{Call: "c1", ID: "a", Ref: calls, Turn: 1, Name: "rye_execute"},
				transcript.CallResult{Call: "c1", Status: "ok", Output: "x"})
			must(t, err)
		}
		must(t, w.Close())
		continues = id
	}
	m.Remember(t.Context(), dir, continues)
	child, childCalled := maker(t, func(o *toolcall.Options) { o.Parent = m })
	for name, asked := range map[string]*toolcall.Maker{"the thread": m, "its child": child} {
		c := asked.Prepare(t.Context(), executes("acme/echo", object{"text": "x"}))
		text, err := c.Make(t.Context())
		must(t, err)
		if codeOf(t, text) != string(fault.Policy) || called.Load()+childCalled.Load() != 0 {
			t.Errorf("%s: %s, %d calls", name, text, called.Load()+childCalled.Load())
		}
	}
}

// TestMake: a call that the directive permits is made once, and the record can say what it was and what it gave.
func TestMake(t *testing.T) {
	m, called := maker(t, nil)
	c := m.Prepare(t.Context(), executes("acme/echo", object{"text": "x"}))
	c.Record = "c1"
	if s := c.Started(3); s.Ref != "tool:acme/echo" || s.Digest.IsZero() || s.Risk != "read" || s.Turn != 3 ||
		s.Call != "c1" || called.Load() != 0 {
		t.Errorf("%+v, %d calls", s, called.Load())
	}
	text, err := c.Make(t.Context())
	must(t, err)
	if text != `{"data":{"said":"x"},"success":true}` || c.Result.Status != transcript.CallOK || c.Result.Exec == "" ||
		called.Load() != 1 {
		t.Errorf("%s, %+v, %d calls", text, c.Result, called.Load())
	}
}

// TestRefusedCalls: what is wrong with a call is its result, under a code that the model can read, and no error of the
// thread. Nothing is run.
func TestRefusedCalls(t *testing.T) {
	m, called := maker(t, nil)
	for name, c := range map[string]struct {
		call provider.ToolCall
		want fault.Code
	}{
		"no such tool":      {provider.ToolCall{ID: "a", Name: "rye_delete", Input: object{}}, fault.ToolNotFound},
		"arguments cut off": {provider.ToolCall{ID: "a", Name: plan.NameExecute, Raw: `{"item_`}, fault.Parsing},
		"an unknown kind": {provider.ToolCall{ID: "a", Name: plan.NameExecute,
			Input: object{"item_type": "song", "item_id": "acme/x"}}, fault.Validation},
		"no permission":      {executes("acme/other", object{"text": "x"}), fault.Denied},
		"missing parameters": {executes("acme/echo", object{}), fault.Validation},
		"an approval":        {executes("acme/pay", object{"text": "x"}), fault.Approval},
		"no artifact": {executes("rye/agent/threads/artifact_read", object{"ref": "blake3:00"}),
			fault.NotFound},
		"to be signed": {provider.ToolCall{ID: "a", Name: plan.NameSign,
			Input: object{"item_type": "tool", "item_id": "acme/echo"}}, fault.ToolNotFound},
	} {
		call := m.Prepare(t.Context(), c.call)
		text, err := call.Make(t.Context())
		if err != nil || codeOf(t, text) != string(c.want) || call.Result.Status == transcript.CallOK ||
			call.Result.Error == nil {
			t.Errorf("%s: %s, %+v, %v", name, text, call.Result, err)
		}
		// Policies forget a tool that was refused, and not one that failed.
		refused := fault.New(c.want, "").Line().Exit == fault.ExitRefused
		if (call.Result.Status == transcript.CallRefused) != refused {
			t.Errorf("%s: recorded as %s", name, call.Result.Status)
		}
	}
	if called.Load() > 0 {
		t.Errorf("%d calls were made", called.Load())
	}
}

// TestDryRun: a dry run says that an approval would be asked for, and runs nothing.
func TestDryRun(t *testing.T) {
	m, called := maker(t, nil)
	for item, want := range map[string]string{"acme/echo": "", "acme/pay": "needed: "} {
		w := executes(item, object{"text": "x"})
		w.Input["dry_run"] = true
		c := m.Prepare(t.Context(), w)
		text, err := c.Make(t.Context())
		if err != nil || c.Result.Status != transcript.CallOK || !strings.Contains(text, `"dry_run":true`) ||
			strings.Contains(text, `"approval":"needed`) != (want != "") {
			t.Errorf("%s: %s, %v", item, text, err)
		}
	}
	if called.Load() > 0 {
		t.Errorf("%d calls were made", called.Load())
	}
}

// TestOutputs: the outputs are returned once they are what the directive declares.
func TestOutputs(t *testing.T) {
	m, _ := maker(t, nil)
	for _, c := range []struct {
		given object
		whole bool
	}{{object{}, false}, {object{"answer": 7.0}, false}, {object{"answer": "42"}, true}} {
		call := m.Prepare(t.Context(), provider.ToolCall{ID: "a", Name: plan.NameReturn, Input: c.given})
		text, err := call.Make(t.Context())
		if err != nil || (m.Returned() != nil) != c.whole || (codeOf(t, text) == "") != c.whole {
			t.Errorf("%v: %s, %v, %v", c.given, text, m.Returned(), err)
		}
	}
	if fmt.Sprint(m.Returned()) != "map[answer:42]" {
		t.Errorf("%v", m.Returned())
	}
}

// TestChildren: a call that starts a thread is given to Child with an id and its part of the budget: as many parts as
// there are children, and one more. A turn makes Most calls, and each further one says so.
func TestChildren(t *testing.T) {
	var begun []string
	m, _ := maker(t, func(o *toolcall.Options) {
		o.Child = func(_ context.Context, c *toolcall.Call) (*toolcall.Answer, error) {
			begun = append(begun, fmt.Sprint(c.Child, " ", c.Spawn.Directive, " ", c.Part))
			return &toolcall.Answer{Value: object{"success": true}, Cost: 7}, nil
		}
	})
	start := executes("rye/agent/threads/thread_directive", object{"directive_name": "acme/asking"})
	wanted := make([]provider.ToolCall, toolcall.Most+1)
	for i := range wanted {
		wanted[i] = executes("acme/echo", object{"text": "x"})
	}
	wanted[0], wanted[1] = start, start
	all := m.PrepareAll(t.Context(), wanted)
	for _, c := range all[:2] {
		if text, err := c.Make(t.Context()); err != nil || text != `{"success":true}` || c.Result.Cost != 7 {
			t.Errorf("%s, %+v, %v", text, c.Result, err)
		}
	}
	const want = "acme/asking-1795000000-k3v9q directive:acme/asking 3"
	if fmt.Sprint(begun) != fmt.Sprint([]string{want, want}) {
		t.Errorf("%q", begun)
	}
	last := all[toolcall.Most]
	if text, err := last.Make(t.Context()); err != nil || codeOf(t, text) != string(fault.Limit) {
		t.Errorf("%s, %v", text, err)
	}
}
