package hook_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/hook"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/condition"
)

type object = map[string]any

func yaml(t testing.TB, text string) *value.Value {
	t.Helper()
	v, problems := parse.YAML([]byte(text), value.Pos{})
	for _, p := range problems {
		t.Fatalf("%s: %v", text, p)
	}
	return v
}

func library(t testing.TB, name string) *value.Value {
	t.Helper()
	b, err := fs.ReadFile(std.FS(), "config/"+name+".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return yaml(t, string(b))
}

// read reads the hooks of config, and those of a directive.
func read(t testing.TB, config, own string) (*hook.Set, error) {
	t.Helper()
	from := hook.Sources{Config: yaml(t, config), Events: library(t, hook.Events),
		Ref: model.Ref{Kind: "directive", ID: "acme/x"}}
	for _, v := range yaml(t, "hooks: "+own).Get("hooks").Items {
		from.Own = append(from.Own, declared.Hook{Event: v.Get("event").String(), Value: v})
	}
	return hook.Read(from)
}

// A stage is where hooks run in these tests: results by item.
type stage struct {
	results  map[string]any
	ran      []string
	recorded []transcript.Hook
	err      error
}

func (s *stage) Run(_ context.Context, h *hook.Hook, params map[string]any) (any, error) {
	s.ran = append(s.ran, fmt.Sprintf("%s %s %v", h.Verb, h.Ref, params))
	v, ok := s.results[h.Ref.ID]
	if !ok {
		return nil, fault.New(fault.Denied, "no permission for %s", h.Ref)
	}
	return v, nil
}

func (s *stage) Record(h transcript.Hook) error {
	s.recorded = append(s.recorded, h)
	return s.err
}

// TestForms: every form of an action, and what is run for it.
func TestForms(t *testing.T) {
	data := object{"n": 3.0, "list": []any{1.0, "a"}, "who": object{"name": "ann"},
		"code": condition.Names{"one", "two"}, "nothing": nil, "none": condition.Names{}}
	for form, want := range map[string]string{
		`action: {primary: load, item_type: knowledge, item_id: acme/rules}`:                                 "load knowledge:acme/rules map[]",
		`action: {item_id: acme/tool, params: {a: "${n}", b: "n is ${n}", c: ["${who.name}"]}}`:              "execute tool:acme/tool map[a:3 b:n is 3 c:[ann]]",
		`action: {item_id: acme/tool, params: {a: "${list}", b: "${list} ${who} ${x.y}", c: 1, d: true}}`:    `execute tool:acme/tool map[a:[1 a] b:[1,"a"] {"name":"ann"}  c:1 d:true]`,
		`action: {item_id: acme/tool, params: {a: "${code}", b: "${code}!", c: "${none}", d: "${nothing}"}}`: `execute tool:acme/tool map[a:one b:one! c:<nil> d:<nil>]`,
		`tool: rye.primary.load, params: {item_type: knowledge, item_id: agent_identity}`:                    "load knowledge:agent_identity map[]",
		`tool: rye/primary/rye_execute, params: {item_id: acme/tool, parameters: {a: 1}}`:                    "execute tool:acme/tool map[a:1]",
		`tool: rye.primary.search, params: {query: x, scope: tool}`:                                          "search tool: map[query:x scope:tool]",
		`tool: acme.notify, params: {a: 1}`:                                                                  "execute tool:acme/notify map[a:1]",
		`tool: acme/v1.2, inputs: {a: 1}`:                                                                    "execute tool:acme/v1.2 map[a:1]",
		`execute: {item_type: directive, content: acme/other}, inputs: {topic: "${who.name}"}`:               "execute directive:acme/other map[topic:ann]",
		`execute: acme/tool, params: ""`:                                                                     "execute tool:acme/tool map[]",
		`load: {item_type: knowledge, item_id: acme/rules, params: {x: 1}}`:                                  "load knowledge:acme/rules map[x:1]",
		`action: {primary: execute, item_id: rye/agent/threads/internal/control, params: {action: retry}}`:   "",
		`action: fail`: "",
	} {
		s, err := read(t, "{}", "[{event: after_step, "+form+"}]")
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		at := &stage{results: map[string]any{"acme/rules": "x", "acme/tool": nil, "agent_identity": "", "": nil,
			"acme/notify": nil, "acme/v1.2": nil, "acme/other": nil}}
		if _, err := s.Fire(t.Context(), hook.AfterStep, data, at); err != nil {
			t.Errorf("%s: %v", form, err)
		}
		if got := strings.Join(at.ran, "; "); got != want || len(at.recorded) != 1 || at.recorded[0].Error != nil {
			t.Errorf("%s: %q; want %q; %+v", form, got, want, at.recorded)
		}
	}
}

// TestDisabled: a hook that its author turned off never runs, whether "false" is written as a boolean or as text: it
// would abort the threads of a user who has switched it off.
func TestDisabled(t *testing.T) {
	for enabled, runs := range map[string]bool{"false": false, `"false"`: false, "true": true, `"true"`: true} {
		s, err := read(t, "hooks: [{id: h, event: limit, action: abort, enabled: "+enabled+"}]\n", "[]")
		if err != nil {
			t.Fatalf("%s: %v", enabled, err)
		}
		d, err := s.Fire(t.Context(), hook.Limit, object{}, &stage{})
		if err != nil || (d.Control == "abort") != runs {
			t.Errorf("enabled: %s: %+v, %v", enabled, d, err)
		}
	}
}

// TestLayers: hooks are asked in the order of their layers, the first that decides is the decision, and infra never
// decides.
func TestLayers(t *testing.T) {
	config := `
infra_hooks: [{id: i, event: limit, action: abort}, {id: t, event: limit, action: {item_id: acme/tool}}]
builtin_hooks: [{id: b, event: limit, action: escalate}]
context_hooks: [{id: c, event: limit, condition: current_value > 4, action: retry}]
hooks: [{id: h, event: limit, action: fail, error: "at ${current_value}"}, {id: not_asked, event: limit, action: abort, enabled: false}]
`
	own :=
		`[{event: limit, name: o, condition: current_value > 5, action: suspend, delay: 1.5}, {event: error, action: retry}]`
	for n, want := range map[float64]string{3: "h fail at 3 ", 4.5: "h fail at 4.5 ", 6: "o suspend  1.5s"} {
		s, err := read(t, config, own)
		if err != nil {
			t.Fatal(err)
		}
		at := &stage{results: map[string]any{"acme/tool": object{"action": "abort"}}}
		d, err := s.Fire(t.Context(), hook.Limit, object{"current_value": n}, at)
		if err != nil {
			t.Fatal(err)
		}
		wait := ""
		if d.Delay != nil {
			wait = d.Delay.String()
		}
		if got := strings.Join([]string{d.By, d.Control, d.Error, wait}, " "); got != want {
			t.Errorf("%v: %q; want %q", n, got, want)
		}
		var order []string
		for _, h := range at.recorded {
			order = append(order, fmt.Sprintf("%s/%d", h.ID, h.Layer))
		}
		full := "o/1 h/2 c/3 b/4 i/5 t/5"
		if n < 5 {
			full = strings.TrimPrefix(full, "o/1 ")
		}
		if n < 4 {
			full = strings.Replace(full, "c/3 ", "", 1)
		}
		if got := strings.Join(order, " "); got != full {
			t.Errorf("%v: %s; want %s", n, got, full)
		}
	}
	s, err := read(t, "infra_hooks: [{id: i, event: limit, action: abort}]", "[]")
	if err != nil {
		t.Fatal(err)
	}
	if d, err := s.Fire(t.Context(), hook.Limit, object{}, &stage{}); err != nil || d.Control != "" ||
		d.Doc() != nil || d.End(hook.Limit, false) != nil {
		t.Errorf("%+v, %v", d, err)
	}
	if s.Any(hook.Failure) || !s.Any(hook.Limit) || !s.Knows(hook.Failure) || s.Knows("mine") {
		t.Error("events")
	}
}

// TestResults: what a hook's item returns is a decision, a text, or nothing.
func TestResults(t *testing.T) {
	for _, c := range []struct {
		result        any
		decides, text string
	}{
		{object{"action": "retry", "delay": 2.0}, "retry", ""},
		{object{"action": "fail", "error": "no", "delay": "soon"}, "fail", ""},
		{object{"action": "dance"}, "", ""}, {object{"success": false}, "", ""}, {nil, "", ""}, {3.0, "", ""},
		{[]any{}, "", ""},
		{"text", "", "text"}, {object{"text": "a", "body": "b"}, "", "a"}, {object{"content": "c"}, "", "c"},
		{object{"body": "b"}, "", "b"}, {object{"text": 3.0}, "", ""},
	} {
		s, err := read(t,
			"hooks: [{id: h, event: after_step, action: {item_id: x}}, {id: g, event: after_step, action: {item_id: x}}]",
			"[]")
		if err != nil {
			t.Fatal(err)
		}
		d, err := s.Fire(t.Context(), hook.AfterStep, object{}, &stage{results: map[string]any{"x": c.result}})
		texts := c.text + " " + c.text
		if c.text == "" {
			texts = ""
		}
		if err != nil || d.Control != c.decides || strings.Join(d.Texts, " ") != texts {
			t.Errorf("%v: %+v, %v", c.result, d, err)
		}
		doc, _ := d.Doc().(map[string]any)
		if (doc == nil) != (c.decides == "" && c.text == "") || doc != nil && doc["action"] != c.decides {
			t.Errorf("%v: %v", c.result, doc)
		}
	}
	// A hook that can't run decides nothing, except at the start.
	own :=
		"[{event: thread_started, id: s, action: {item_id: gone}}, {event: after_step, id: a, action: {item_id: gone}}]"
	s, err := read(t, "{}", own)
	if err != nil {
		t.Fatal(err)
	}
	at := &stage{}
	if d, err := s.Fire(t.Context(), hook.AfterStep, nil, at); err != nil || d.Doc() != nil ||
		at.recorded[0].Error.Code != "PERMISSION_DENIED" {
		t.Errorf("%+v, %v, %+v", d, err, at.recorded)
	}
	if _, err := s.Fire(t.Context(), hook.Started, nil, at); fault.CodeOf(err) != fault.Denied ||
		!strings.Contains(err.Error(), `the hook "s" of thread_started can't run`) {
		t.Errorf("%v", err)
	}
	broken := &stage{err: errors.New("disk full")}
	if _, err := s.Fire(t.Context(), hook.AfterStep, nil, broken); !errors.Is(err, broken.err) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken.err)
	if _, err := s.Fire(ctx, hook.AfterStep, nil, at); !errors.Is(err, broken.err) {
		t.Errorf("%v", err)
	}
	long := &stage{results: map[string]any{"gone": strings.Repeat("x", 256<<10+1)}}
	if _, err := s.Fire(t.Context(), hook.AfterStep, nil, long); fault.CodeOf(err) != fault.Limit {
		t.Errorf("%v", err)
	}
}

// TestEnd: what becomes of a thread by each control action.
func TestEnd(t *testing.T) {
	for control, want := range map[string][2]fault.Code{
		"retry": {}, "continue": {}, "skip": {}, "": {}, "fail": {fault.Failed, fault.Failed},
		"abort":    {fault.Cancelled, fault.Cancelled},
		"escalate": {fault.Limit, fault.Budget}, "suspend": {fault.Limit, fault.Budget},
	} {
		for i, money := range []bool{false, true} {
			err := (&hook.Decision{Control: control, By: "h"}).End(hook.Limit, money)
			if (err == nil) != (want[i] == "") || err != nil &&
				(fault.CodeOf(err) != want[i] || !strings.Contains(err.Error(), `"h"`)) {
				t.Errorf("%s: %v", control, err)
			}
		}
	}
	if err := (&hook.Decision{Control: "fail", Error: "enough"}).End(hook.Failure, false); err.Error() != "enough" {
		t.Errorf("%v", err)
	}
}

// TestEvents: a hook without an event belongs to those that its condition speaks of.
func TestEvents(t *testing.T) {
	s, err := read(t, "{}",
		`[{when: cost.current > cost.limit * 0.9, execute: {item_type: directive, content: acme/stop}}, {when: 'error.type == "permission_denied"', action: fail}]`)
	if err != nil {
		t.Fatal(err)
	}
	for event, any := range map[string]bool{hook.AfterStep: true, hook.Failure: true, hook.CallResult: true,
		hook.Limit: false, hook.Started: false} {
		if s.Any(event) != any {
			t.Errorf("%s: %v", event, !any)
		}
	}
	at := &stage{results: map[string]any{"acme/stop": "stop"}}
	if _, err := s.Fire(t.Context(), hook.AfterStep, object{"cost": object{"current": 0.95, "limit": 1.0}},
		at); err != nil || len(at.ran) != 1 {
		t.Errorf("%v %v", at.ran, err)
	}
}

func TestProblems(t *testing.T) {
	many := "[" + strings.Repeat("{event: error, action: retry}, ", 256) + "{event: error, action: retry}]"
	for _, c := range []struct{ config, own, want string }{
		{"{}", "[{event: eror, action: retry}]", `hooks[0]: unknown event "eror": expected one of thread_started`},
		{"{}", "[{id: x, action: retry}]", "event: required"},
		{"{}", "[{event: error}]", "expected one of action, tool, execute and load"},
		{"{}", "[{event: error, action: retry, tool: acme/x}]", "expected one of action, tool, execute and load"},
		{"{}", "[{event: error, action: repeat}]", `unknown action "repeat": expected one of retry, fail`},
		{"{}", "[{event: error, action: 3}]", "action: expected a string"},
		{"{}", "[{event: error, action: retry, delay: soon}]", "delay: expected between 0 and 86400 seconds"},
		{"{}", "[{event: error, action: retry, delay: -1}]", "delay: expected between 0"},
		{"{}", "[{event: error, action: retry, condition: 'a ='}]", "condition: column 3"},
		{"{}", "[{event: error, action: retry, conditon: a}]", `unknown key "conditon"`},
		{"{}", "[{event: error, action: retry, layer: 3}]", `unknown key "layer"`},
		{"{}", "[{event: error, action: retry, content: x}]", `unknown key "content"`},
		{"{}", "[{event: error, action: {primary: sign, item_id: a}}]", "a hook can't sign"},
		{"{}", "[{event: error, action: {item_id: ../a}}]", `invalid item "tool:../a"`},
		{"{}", "[{event: error, action: {item_id: a, params: 3}}]", "params: expected an object"},
		{"{}", "[{event: error, execute: 3}]", "execute: expected an id or an object"},
		{"{}", "[{event: error, tool: acme/x, params: many}]", "params: expected an object"},
		{"{}", "[{event: error, action: {item_id: rye/agent/threads/internal/control, params: {action: jump}}}]",
			`unknown action "jump"`},
		{"{}",
			"[{event: error, action: {item_id: rye/agent/threads/internal/control, params: {action: fail, error: 3}}}]",
			`error: expected a string`},
		{"{}", "[3]", "hooks[0]: expected an object"},
		{"{}", "[{event: error, action: retry, delay: 99999999999999999999}]", "expected an object"},
		{"{}", many, "has 257 hooks"},
		{"hooks: [{event: error, action: retry}]", "[]", "a hook in config needs an id"},
		{"hooks: {}", "[]", "hooks: expected a list"},
		{"hoks: []", "[]", `unknown key "hoks": expected one of`},
		{"builtin_hooks: [{id: x, event: error, action: x}]", "[]",
			`invalid config:hook_conditions: builtin_hooks[0]: unknown action "x"`},
	} {
		s, err := read(t, c.config, c.own)
		if err == nil || s != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v", c.config, c.own, err)
			continue
		}
		if code := fault.CodeOf(err); code != fault.Config && code != fault.Validation {
			t.Errorf("%v: %s", err, code)
		}
	}
}

// TestLibrary: the hooks of the library decide what threads do by default.
func TestLibrary(t *testing.T) {
	s, err := hook.Read(hook.Sources{Config: library(t, hook.Config), Events: library(t, hook.Events)})
	if err != nil {
		t.Fatal(err)
	}
	failure := func(retryable bool, names ...string) object {
		return object{"error": object{"code": condition.Names(names), "message": "gone"},
			"classification": object{"retryable": retryable}}
	}
	for _, c := range []struct {
		event string
		data  object
		want  string
	}{
		{hook.Limit, object{"limit_code": "turns_exceeded"}, "escalate"},
		{hook.Failure, failure(true, "http_429", "rate_limited"), "retry"},
		{hook.Failure, failure(false, "auth_failure", "permanent"), ""},
		{hook.Failure, failure(false, "cancelled", "cancelled"), "abort"},
		{hook.AfterStep, object{}, ""}, {hook.Started, object{}, ""},
	} {
		d, err := s.Fire(t.Context(), c.event, c.data, &stage{})
		if err != nil || d.Control != c.want {
			t.Errorf("%s %v: %+v, %v", c.event, c.data, d, err)
		}
	}
}

// FuzzRead: whatever can be read answers each event.
func FuzzRead(f *testing.F) {
	f.Add("[{event: error, when: a == 1, tool: rye.primary.load, params: {item_type: knowledge, item_id: x}}]",
		"${a.b}")
	f.Add("[{when: error.x, execute: {item_type: directive, content: a}}]", "x")
	f.Add("[{event: limit, action: {item_id: acme/t, params: {p: '${a}'}}, delay: '5', error: '${b}'}]", "")
	f.Fuzz(func(t *testing.T, own, text string) {
		v, problems := parse.YAML([]byte(own), value.Pos{})
		if len(problems) > 0 || v == nil || v.Kind != value.List {
			return
		}
		from := hook.Sources{Events: library(t, hook.Events)}
		for _, h := range v.Items {
			from.Own = append(from.Own, declared.Hook{Value: h})
		}
		s, err := hook.Read(from)
		if err != nil {
			return
		}
		for _, event := range []string{hook.Failure, hook.Limit, hook.AfterStep, hook.Started} {
			if d, err := s.Fire(t.Context(), event, object{"a": text, "error": object{"code": condition.Names{text}}},
				&stage{results: map[string]any{"x": text}}); err == nil {
				d.End(event, false)
				d.Doc()
			}
		}
	})
}
