package plan_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
	"github.com/rye-build/rye/manifest/policy/floor"
)

const echo = `version: "1.0.0"
category: acme
description: Gives back what it is given
tool_type: function
executor_id: rye/core/primitives/rye
risk: read
config: {function: echo, params: "{params_json}"}
input_schema: {type: object, properties: {text: {type: string}}}
`

const asking = "# asking\n\n```xml\n" + `<directive name="asking" version="1.0.0">
  <metadata>
    <description>Asks</description>
    <model provider="local" id="test-model"/>
    <limits turns="6" spend="0.5"/>
    <permissions><execute><tool>acme/echo</tool></execute><load><knowledge>acme/*</knowledge></load></permissions>
  </metadata>
  <inputs>
    <input name="topic" type="string" required="true">What about</input>
    <input name="depth" type="integer" default="2">How deep</input>
  </inputs>
</directive>
` + "```\nAsk about {input:topic}.\n"

// named is asking under another name.
func named(name string) string { return strings.ReplaceAll(asking, "asking", name) }

// opened opens a session of a project of Alice.
func opened(t testing.TB, policy string) *session.Session {
	t.Helper()
	flow := strings.Replace(echo, "tool_type: function\nexecutor_id: rye/core/primitives/rye",
		"tool_type: graph\nexecutor_id: rye/core/runtimes/state_graph_runtime", 1)
	flow = flow[:strings.Index(flow, "config:")] +
		"permissions: [execute:tool:acme/echo]\nconfig: {start: a, max_steps: 9, nodes: {a: {action: {item_id: acme/echo}}}}\n"
	p := projecttest.With(t, policy, map[string]string{"tools/acme/echo.yaml": echo, "tools/acme/flow.yaml": flow,
		"directives/acme/asking.md": asking,
		"directives/acme/plain.md":  regexp.MustCompile(`<permissions>.*`).ReplaceAllString(named("plain"), ""),
		"directives/acme/empty.md":  strings.TrimSuffix(named("empty"), "Ask about {input:topic}.\n")})
	s, err := session.Open(t.Context(), p.Workspace(workspace.Options{}),
		session.Options{Mode: session.Mode{Unlocked: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func followed(t testing.TB, s *session.Session, kind, id string) (*plan.Plan, error) {
	t.Helper()
	return plan.Read(t.Context(), &plan.Agents{Session: s}, model.Ref{Kind: kind, ID: id}, s.Item)
}

// TestFollow: a thread follows a directive with steps, by the library's loop, or a graph, and nothing else.
func TestFollow(t *testing.T) {
	s := opened(t, "")
	for id, want := range map[string]fault.Code{
		"directive:acme/asking": "", "tool:acme/flow": "", "tool:acme/echo": fault.Validation,
		"directive:acme/empty": fault.Validation, "directive:acme/none": fault.NotFound,
	} {
		kind, name, _ := strings.Cut(id, ":")
		p, err := followed(t, s, kind, name)
		if (err == nil) != (want == "") || err != nil && fault.CodeOf(err) != want {
			t.Errorf("%s: %v", id, err)
		}
		if err != nil {
			// Each refusal leads to another command.
			says := map[string]string{"tool:acme/echo": "is not a directive", "directive:acme/empty": "has no steps"}
			if !strings.Contains(err.Error(), says[id]) {
				t.Errorf("%s: %v", id, err)
			}
			continue
		}
		if (p.Graph != nil) != (kind == "tool") || (p.Program != nil) != (kind == "directive") || !p.Owned {
			t.Errorf("%s: %+v", id, p)
		}
		l := p.Limits()
		if turns := map[bool]int64{true: 9, false: 6}[p.Graph != nil]; l.Turns != turns || p.Graph == nil &&
			l.Spend != limits.Nano/2 {
			t.Errorf("%s: %+v", id, l)
		}
	}
}

// TestComplete: inputs get their defaults, and what the directive doesn't declare is refused before a thread begins.
func TestComplete(t *testing.T) {
	p, err := followed(t, opened(t, ""), "directive", "acme/asking")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := p.Complete(params.Values(object{"topic": "rye"})); err != nil || got["topic"] != "rye" ||
		len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	for _, given := range []object{{}, {"topic": 7.0}, {"topic": "rye", "other": "x"}} {
		if got, err := p.Complete(params.Values(given)); fault.CodeOf(err) != fault.Validation ||
			!strings.Contains(err.Error(), "invalid inputs for") {
			t.Errorf("%v: %v, %v", given, got, err)
		}
	}
}

// TestNarrow: a child may do what its directive and its parent both may, and what is taken away never comes back. What
// only the directive declares is refused with words for that.
func TestNarrow(t *testing.T) {
	p, err := followed(t, opened(t, ""), "directive", "acme/asking")
	if err != nil {
		t.Fatal(err)
	}
	allowed := func() (all []bool) {
		for _, of := range [][3]string{{capability.Execute, "tool", "acme/echo"},
			{capability.Load, "knowledge", "acme/style"}, {capability.Execute, "tool", "acme/other"}} {
			all = append(all, p.Allows(of[0], of[1], of[2]) == nil)
		}
		return all
	}
	if got := allowed(); !reflect.DeepEqual(got, []bool{true, true, false}) {
		t.Errorf("%v", got)
	}
	parent, err := capability.ParseSet([]string{"rye.execute.tool.acme.*"})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Narrow(parent); err != nil {
		t.Fatal(err)
	}
	if got := allowed(); !reflect.DeepEqual(got, []bool{true, false, false}) {
		t.Errorf("%v", got)
	}
	err = p.Allows(capability.Load, "knowledge", "acme/style")
	if fault.CodeOf(err) != fault.Denied || !strings.Contains(err.Error(), "no policy or directive above it grants") {
		t.Error(err)
	}
	wide, err := capability.ParseSet([]string{"rye.execute.*", "rye.load.*"})
	if err == nil {
		err = p.Narrow(wide)
	}
	if got := allowed(); err != nil || !reflect.DeepEqual(got, []bool{true, false, false}) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestPermit: a policy that grants a directive less leaves it with that.
func TestPermit(t *testing.T) {
	s := opened(t, "\ngrants:\n  \"directive:acme/asking\": [\"rye.load.knowledge.acme.*\"]\n")
	p, err := followed(t, s, "directive", "acme/asking")
	if err == nil {
		err = p.Permit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if p.Allows(capability.Execute, "tool", "acme/echo") == nil ||
		p.Allows(capability.Load, "knowledge", "acme/style") != nil {
		t.Errorf("%v", p.Caps.Strings())
	}
}

// TestPermitStranger: a directive of another signer has what a policy grants it, and is refused if that is nothing of
// what it declares. One of the user's own runs with what it is left with.
func TestPermitStranger(t *testing.T) {
	const load, other = `["rye.load.knowledge.acme.*"]`, `["rye.load.directive.acme.*"]`
	for name, c := range map[string]struct {
		own       bool
		directive string
		granted   string
		refused   bool
		left      int // permissions
	}{
		"own, without a line":          {true, "asking", "", false, 2},
		"own, left with nothing":       {true, "asking", other, false, 0},
		"another's, without a line":    {false, "asking", "", true, 0},
		"another's, granted one":       {false, "asking", load, false, 1},
		"another's, granted another":   {false, "asking", other, true, 0},
		"another's, declaring nothing": {false, "plain", "", false, 0},
	} {
		policy := ""
		if c.granted != "" {
			policy = "\ngrants:\n  \"directive:acme/*\": " + c.granted + "\n"
		}
		p, err := followed(t, opened(t, policy), "directive", "acme/"+c.directive)
		if err != nil {
			t.Fatal(err)
		}
		p.Owned = c.own
		err = p.Permit(t.Context())
		if (err != nil) != c.refused || err != nil && fault.CodeOf(err) != fault.Denied ||
			len(p.Caps.Strings()) != c.left {
			t.Errorf("%s: %v, %q", name, err, p.Caps.Strings())
		}
	}
}

// TestSame: a thread goes on with the lock and the directive that it began with, and with no permission that it didn't
// begin with. Another directive stays another one, however often the thread is resumed.
func TestSame(t *testing.T) {
	s := opened(t, "")
	for name, c := range map[string]struct {
		change func(*transcript.Started)
		code   fault.Code
		left   int
	}{
		"the same":             {func(*transcript.Started) {}, "", 2},
		"with less":            {func(b *transcript.Started) { b.Grants = b.Grants[:1] }, "", 1},
		"with more":            {func(b *transcript.Started) { b.Grants = append(b.Grants, "rye.execute.*") }, "", 2},
		"with nothing":         {func(b *transcript.Started) { b.Grants = nil }, "", 0},
		"with what is none":    {func(b *transcript.Started) { b.Grants = []string{"x"} }, fault.Validation, 2},
		"under another lock":   {func(b *transcript.Started) { b.Set = cas.Sum(nil) }, fault.LockMismatch, 2},
		"of another directive": {func(b *transcript.Started) { b.Directive.Digest = cas.Sum(nil) }, fault.Conflict, 2},
	} {
		p, err := followed(t, s, "directive", "acme/asking")
		if err != nil {
			t.Fatal(err)
		}
		began := &transcript.Started{Set: s.Set(), Directive: transcript.Item{Digest: p.Directive.Raw},
			Grants: p.Caps.Strings()}
		c.change(began)
		err = p.Same("acme/asking-1795000000-a2b3c", began)
		if (err != nil) != (c.code != "") || len(p.Caps.Strings()) != c.left {
			t.Errorf("%s: %v, %q", name, err, p.Caps.Strings())
		}
		if err != nil && c.code != fault.Validation &&
			(fault.CodeOf(err) != c.code || fault.Of(err).Line().Retryable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAfter: a thread that goes on with the work of another has what is left of that one's limits, and may do no more
// than that one might.
func TestAfter(t *testing.T) {
	s := opened(t, "")
	caps, err := capability.ParseSet([]string{"rye.load.knowledge.acme.*", "rye.search.*"})
	if err != nil {
		t.Fatal(err)
	}
	rest := limits.Set{Turns: 1, Spend: 7}
	for name, c := range map[string]struct {
		after *plan.After
		turns int64
		left  int
	}{"new": {nil, 6, 2}, "after another": {&plan.After{Caps: caps, Limits: rest}, 1, 1}} {
		p, err := followed(t, s, "directive", "acme/asking")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.after.Permit(t.Context(), p); err != nil || len(p.Caps.Strings()) != c.left {
			t.Errorf("%s: %v, %q", name, err, p.Caps.Strings())
		}
		if l := c.after.Bound(p.Limits()); l.Turns != c.turns {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// TestOffered: a model without a permission isn't offered the tools for items, which could do nothing; what the
// directive itself needs stays.
func TestOffered(t *testing.T) {
	s := opened(t, "")
	for id, want := range map[string][]string{
		"acme/plain":  nil,
		"acme/asking": {plan.NameExecute, plan.NameLoad, plan.NameSearch},
	} {
		p, err := followed(t, s, "directive", id)
		if err != nil {
			t.Fatal(err)
		}
		p.Says.Outputs = []declared.Output{{Name: "answer"}}
		want = append(want, plan.NameReturn)
		if got := plan.OfferedNames(p.Offered()); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

// TestProgram: the library's loop is the user's own, comes with its files, and can ask for nothing until a thread
// answers it.
func TestProgram(t *testing.T) {
	s := opened(t, "")
	program, l, err := (&plan.Agents{Session: s}).Program(t.Context(), plan.LoopID)
	if err != nil || program.Ref.ID != plan.LoopID || !l.Own || l.Level != floor.None || l.Ask != nil ||
		l.Files[l.Main] == "" {
		t.Errorf("%+v, %v", l, err)
	}
}
