package toolcall_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/toolcall"
)

type object = map[string]any

// given is what a model writes.
func given(t testing.TB, text string) (o object) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestParse(t *testing.T) {
	for text, want := range map[string]toolcall.ChildArgs{
		`{"directive_name":"acme/step"}`:                    {},
		`{"directive_name":"directive:acme/step"}`:          {},
		`{"directive_name":"acme/step","async_exec":false}`: {},
		`{"directive_name":"acme/step","async_exec":true}`:  {Async: true},
		`{"directive_name":"acme/step","inputs":{"a":[1,{"b":"c"}]}}`: {Inputs: object{"a": []any{1.0,
			object{"b": "c"}}}},
		`{"directive_name":"acme/step","model":"fast","limit_overrides":{"turns":5,"spend":0.000000001,"duration_seconds":1.5,"tokens":1000000000000}}`: {
			Model: "fast", Limits: []string{"duration_seconds=1.5", "spend=0.000000001", "tokens=1000000000000",
				"turns=5"}},
	} {
		want.Directive.Kind, want.Directive.ID = "directive", "acme/step"
		got, err := toolcall.ParseChild(given(t, text))
		if err != nil || got.Directive != want.Directive || got.Model != want.Model ||
			!reflect.DeepEqual(got.Limits, want.Limits) ||
			len(got.Inputs) != len(want.Inputs) || len(want.Inputs) > 0 &&
			!reflect.DeepEqual(got.Inputs, want.Inputs) {
			t.Errorf("%s: %+v, %v", text, got, err)
			continue
		}
		l := limits.None()
		if err := l.Override(got.Limits); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestIntegers: a loop's integers are numbers too.
func TestIntegers(t *testing.T) {
	for _, n := range []any{int64(5), 5.0} {
		c, err := toolcall.ParseChild(object{"directive_name": "acme/step", "limit_overrides": object{"turns": n}})
		if err != nil || !reflect.DeepEqual(c.Limits, []string{"turns=5"}) {
			t.Errorf("%T: %+v, %v", n, c, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                                          "directive_name",
		`{"directive_name":7}`:                                        "directive_name",
		`{"directive_name":""}`:                                       "invalid directive: ",
		`{"directive_name":"../step"}`:                                "invalid directive: ",
		`{"directive_name":"tool:acme/x"}`:                            "invalid directive: ",
		`{"directive_name":"a","more":1}`:                             "more",
		`{"directive_name":"a","inputs":[]}`:                          "inputs",
		`{"directive_name":"a","model":3}`:                            "model",
		`{"directive_name":"a","async_exec":"no"}`:                    "async_exec",
		`{"directive_name":"a","limit_overrides":{"turns":"many"}}`:   "turns",
		`{"directive_name":"a","limit_overrides":{"max_turns":3}}`:    "max_turns",
		`{"directive_name":"a","limit_overrides":{"memory_mib":300}}`: "memory_mib",
	} {
		c, err := toolcall.ParseChild(given(t, text))
		if fault.CodeOf(err) != fault.Validation || !strings.Contains(err.Error(), want) || c != nil {
			t.Errorf("%s: %+v, %v (%s)", text, c, err, fault.CodeOf(err))
		}
	}
	if c, err := toolcall.ParseChild(nil); err == nil || c != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

// FuzzParse: whatever a model writes is refused, or a directive with limits by their names that can be set or refused.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"directive_name":"acme/step","inputs":{"a":1},"limit_overrides":{"turns":-5,"spend":1e-9}}`))
	f.Add([]byte(`{"directive_name":"directive:a","async_exec":true,"model":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var o object
		if json.Unmarshal(b, &o) != nil {
			return
		}
		c, err := toolcall.ParseChild(o)
		if (err == nil) != (c != nil) {
			t.Fatalf("%+v, %v", c, err)
		}
		if err != nil {
			return
		}
		if c.Directive.Kind != "directive" || c.Directive.ID == "" {
			t.Fatalf("%s: %+v", b, c)
		}
		l := limits.None()
		if err := l.Override(c.Limits); err != nil && fault.CodeOf(err) != fault.Validation {
			t.Fatalf("%s: %v", b, err)
		}
	})
}
