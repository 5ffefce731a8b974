package function_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/primitive/primitivetest"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// say is what the functions of these tests take.
type say struct {
	Value any    `json:"value"`
	Why   string `json:"why"`
	File  string `json:"file"`
}

// running are those of forever.
var running atomic.Int64

func permission(t testing.TB, text string) capability.Capability {
	c, err := capability.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func functions(t testing.TB) function.Functions {
	write := func(_ context.Context, _ *function.Call, p say) (any, error) {
		return nil, os.WriteFile(p.File, nil, 0o600)
	}
	return function.Functions{
		"echo": function.Of(nil, func(_ context.Context, _ *function.Call, p say) (any, error) {
			return p.Value, nil
		}),
		"fail": function.Of(nil, func(_ context.Context, _ *function.Call, p say) (any, error) {
			return nil, errors.New(p.Why)
		}),
		"nan": function.Of(nil, func(context.Context, *function.Call, say) (any, error) { return math.NaN(), nil }),
		"forever": function.Of(nil, func(ctx context.Context, c *function.Call, p say) (any, error) {
			running.Add(1)
			defer running.Add(-1)
			if _, err := fmt.Fprintln(c.Errs, "x"); err != nil {
				return nil, err
			}
			if err := os.WriteFile(p.File, nil, 0o600); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}),
		"chatter": function.Of(nil, func(_ context.Context, c *function.Call, _ say) (any, error) {
			for {
				if _, err := fmt.Fprintln(c.Errs, strings.Repeat("x", 1000)); err != nil {
					return nil, err
				}
			}
		}),
		"write": function.Of(func(p say) function.Need {
			return function.Need{Permissions: []capability.Capability{permission(t, "sign:file:"+p.Why)}}
		}, write),
		"own": function.Of(func(say) function.Need { return function.Need{Own: true} }, write),
	}
}

// action calls a function.
func action(t testing.TB, name string, params any) *primitive.Action {
	text, err := jcs.Append(nil, params)
	if err != nil {
		t.Fatal(err)
	}
	return &primitive.Action{
		Config:  map[string]any{"function": name, "params": string(text), "timeout": int64(300)},
		Sandbox: sandbox.Spec{Level: floor.Landlock},
	}
}

// with returns an action with another value in its configuration.
func with(name string, v any) func(testing.TB) *primitive.Action {
	return func(t testing.TB) *primitive.Action {
		a := action(t, "echo", map[string]any{"value": "x"})
		a.Config[name] = v
		return a
	}
}

func there(path string) func() bool {
	return func() bool {
		_, err := os.Stat(path)
		return err == nil
	}
}

// try writes a file through a function that needs a grant.
func try(name string, grant func(testing.TB, *primitive.Action, bool)) primitivetest.Try {
	return func(t testing.TB, granted bool) (*primitive.Action, func() bool) {
		at := filepath.Join(t.TempDir(), "written")
		a := action(t, name, map[string]any{"file": at, "why": "acme/a"})
		grant(t, a, granted)
		return a, there(at)
	}
}

func TestPrimitive(t *testing.T) {
	primitivetest.Test(t, primitivetest.Subject{
		Primitive: functions(t),
		Value: func(t testing.TB, v any) *primitive.Action {
			return action(t, "echo", map[string]any{"value": v})
		},
		Fails: func(t testing.TB, reason string) *primitive.Action {
			return action(t, "fail", map[string]any{"why": reason})
		},
		Stream: func(t testing.TB, n int) (*primitive.Action, []byte) {
			text := strings.Repeat("0123456789", n/10+1)
			return action(t, "echo", map[string]any{"value": text}), []byte(`"` + text + "\"\n")
		},
		Forever: func(t testing.TB) primitivetest.Endless {
			at := filepath.Join(t.TempDir(), "begun")
			return primitivetest.Endless{
				Action: action(t, "forever", map[string]any{"file": at}), Begun: there(at),
				Left: func() []string { return make([]string, running.Load()) },
			}
		},
		Wrong: map[string]func(testing.TB) *primitive.Action{
			"no function":                      with("function", nil),
			"a function that there isn't":      with("function", "none"),
			"parameters that are none":         with("params", nil),
			"parameters that aren't JSON":      with("params", "{"),
			"parameters that aren't an object": with("params", "[]"),
			"null":                             with("params", "null"),
			"a parameter that it doesn't take": with("params", `{"more": 1}`),
			"a parameter of another type":      with("params", `{"why": 1}`),
			"a parameter that is there twice":  with("params", `{"why": "a", "why": "b"}`),
			"a pure tool": func(t testing.TB) *primitive.Action {
				a := action(t, "echo", map[string]any{})
				a.Pure = true
				return a
			},
		},
		Tries: map[string]primitivetest.Try{
			"what needs a capability": try("write", func(t testing.TB, a *primitive.Action, granted bool) {
				list := []capability.Capability{permission(t, "sign:file:acme/b"), permission(t, "load:file:*")}
				if granted {
					list = append(list, permission(t, "sign:file:acme/*"))
				}
				var err error
				if a.Permissions, err = capability.NewSet(list); err != nil {
					t.Fatal(err)
				}
			}),
			"what is the user's own": try("own", func(_ testing.TB, a *primitive.Action, granted bool) {
				a.Stranger = !granted
			}),
		},
	})
}

// A refusal says what was missing.
func TestRefused(t *testing.T) {
	for want, change := range map[string]func(*primitive.Action){
		`unknown function "none"`: func(a *primitive.Action) { a.Config["function"] = "none" },
		`invalid call of rye's function "write": unknown parameter "more"`: func(a *primitive.Action) {
			a.Config["params"] = `{"more": 1}`
		},
		`rye's function "write" needs "sign:file:acme/a", which the call wasn't granted`: func(*primitive.Action) {},
		`rye's function "own" is only for the user's own tools, and this call involves another signer's`: func(
			a *primitive.Action) {
			a.Config["function"], a.Stranger = "own", true
		},
	} {
		a := action(t, "write", map[string]any{"why": "acme/a"})
		change(a)
		r, err := functions(t).Run(t.Context(), a, nil)
		if r != nil || err == nil || err.Error() != want {
			t.Errorf("%v, %v; want %s", r, err, want)
		}
		e := fault.Of(err)
		known, unknown := e.Details["known"].([]string)
		if e.Code != fault.Validation && e.Code != fault.Denied || unknown && !slices.Contains(known, "echo") {
			t.Errorf("%#v", err)
		}
	}
}

// What a tool decides is laid under what a tool above it does, and says which programs there may be.
func TestOptions(t *testing.T) {
	var got map[string]any
	f := function.Functions{"run": function.Seeking(function.Of(nil,
		func(_ context.Context, c *function.Call, p say) (any, error) {
			got = c.Options
			c.Confined(floor.Landlock, []string{"landlock"})
			c.Confined(floor.Limits, nil)
			c.Confined(floor.Namespace, []string{"netns"})
			if p.Why != "" {
				return nil, &sandbox.UnavailableError{Level: floor.Namespace}
			}
			return true, nil
		}), func(options map[string]any, p say) []string { return []string{options["command"].(string), p.File} })}
	a := action(t, "run", map[string]any{"file": "x"})
	a.Sandbox.Level = floor.Limits
	a.Config["options"] = map[string]any{"command": "a",
		"of": map[string]any{"one": int64(1), "two": map[string]any{"deep": true}}}
	a.Config["more"] = map[string]any{"command": "b", "of": map[string]any{"two": map[string]any{"other": nil}}}
	r, err := f.Run(t.Context(), a, nil)
	if err != nil || r.Level != floor.Limits || !slices.Equal(r.Enforced, []string{"in-process"}) {
		t.Errorf("%+v, %v", r, err)
	}
	want := `{"command":"b","of":{"one":1,"two":{"deep":true,"other":null}}}`
	if text, err := jcs.Append(nil, got); err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
	if seeks := f.Seeks(a.Config); !slices.Equal(seeks, []string{"b", "x"}) {
		t.Errorf("%q", seeks)
	}
	// What something ran in before isn't taken back: then it is a failure.
	a.Config["params"] = `{"why": "unavailable"}`
	if r, err := f.Run(t.Context(), a, nil); err != nil || !r.Failed {
		t.Errorf("%+v, %v", r, err)
	}
	for _, config := range []map[string]any{nil, {"function": "none"}, {"function": "run", "params": "{"}} {
		if seeks := f.Seeks(config); seeks != nil {
			t.Errorf("%v seeks %q", config, seeks)
		}
	}
	f["never"] = function.Of(nil, func(context.Context, *function.Call, say) (any, error) {
		return nil, &sandbox.UnavailableError{Level: floor.Namespace}
	})
	_, err = f.Run(t.Context(), action(t, "never", map[string]any{}), nil)
	if _, ok := errors.AsType[*sandbox.UnavailableError](err); !ok {
		t.Errorf("%v", err)
	}
}

type listener struct{ told int }

func (l *listener) Emit(_ primitive.Stream, b []byte) error {
	l.told += len(b)
	return nil
}

// What is said and what is answered count together; what is no JSON is no answer.
func TestSaid(t *testing.T) {
	a, to := action(t, "chatter", map[string]any{}), new(listener)
	a.Sandbox.Limits.Output = 1 << 16
	r, err := functions(t).Run(t.Context(), a, to)
	if err != nil || r.Ended != "output" || !r.Failed || to.told > 1<<16 || to.told < 1<<15 {
		t.Errorf("%+v, %v, %d bytes", r, err, to.told)
	}
	r, err = functions(t).Run(t.Context(), action(t, "nan", map[string]any{}), nil)
	if err != nil || !r.Failed || r.Ended != "" || !strings.Contains(r.Failure, "not valid JSON") || r.Value != nil {
		t.Errorf("%+v, %v", r, err)
	}
	a = action(t, "forever", map[string]any{"file": filepath.Join(t.TempDir(), "begun")})
	a.Config["timeout"] = 0.01
	r, err = functions(t).Run(t.Context(), a, nil)
	if err != nil || r.Ended != "timeout" || r.Value != nil {
		t.Errorf("%+v, %v", r, err)
	}
	a.Config = map[string]any{"function": "echo", "params": `{"value": {"success": false, "error": "no"}}`}
	r, err = functions(t).Run(t.Context(), a, nil)
	if err != nil || !r.Failed || r.Failure != "no" || time.Duration(r.Usage["wall_ms"]) < 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// What a call is made with is refused, or is taken whole.
func FuzzParams(f *testing.F) {
	for _, s := range []string{`{}`, `{"value":1}`, `{"why":"x","why":"y"}`, `[]`, `null`, `{"value":1e999}`,
		"{\"value\":\"\\ud800\"}", `{"Why":"x"}`, ``} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := action(t, "echo", nil)
		a.Config["params"] = text
		r, err := functions(t).Run(t.Context(), a, nil)
		if err != nil {
			return
		}
		given, err := jcs.Parse([]byte(text))
		object, ok := given.(map[string]any)
		if err != nil || !ok {
			t.Fatalf("%q was taken", text)
		}
		want, _ := jcs.Append(nil, object["value"])
		got, err := jcs.Append(nil, r.Value)
		if _, said := object["value"]; said && (err != nil || string(got) != string(want)) {
			t.Errorf("%q gives %s, not %s (%v)", text, got, want, err)
		}
	})
}
