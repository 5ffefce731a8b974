package retry

import (
	"context"
	"encoding/json"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/manifest/jcs"
)

// rules returns the rules in a text.
func rules(t *testing.T, text string) func(context.Context) (*classification.Rules, error) {
	t.Helper()
	v, problems := parse.YAML([]byte(text), value.Pos{})
	for _, p := range problems {
		t.Fatal(p)
	}
	return func(context.Context) (*classification.Rules, error) { return classification.Read(v) }
}

func parsed(t testing.TB, text string) config {
	t.Helper()
	v, err := jcs.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v.(config)
}

// TestSettings: the defaults.
func TestSettings(t *testing.T) {
	s, err := read(parsed(t, `{"resilience": {"cache": {}, "breaker": {}, "rate": {}, "retry": {"max_attempts": 2}}}`))
	want := &settings{
		cache: &cacheSetting{time.Minute, 100}, breaker: &breakerSetting{failures: 5, successes: 2,
			cooldown: 30 * time.Second},
		rate: &rateSetting{10, 5}, retry: retrySetting{attempts: 2, first: time.Second, longest: 2 * time.Minute},
	}
	if err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, %v", s, err)
	}
}

// wrong maps invalid configurations to their errors.
var wrong = map[string]string{
	`{"resilience": 1}`:                                                               "resilience: expected an object",
	`{"resilience": {"retries": {}, "tries": {}}}`:                                    `resilience: unknown key "retries": expected one of cache, breaker, rate, retry, timeout, fallback; resilience: unknown key "tries"`,
	`{"resilience": {"cache": {"ttl": 0}}}`:                                           "resilience.cache.ttl must be a number between 0.001 and 86400",
	`{"resilience": {"cache": {"ttl": "1"}}}`:                                         "resilience.cache.ttl must be a number",
	`{"resilience": {"cache": {"ttl": 1e300}}}`:                                       "resilience.cache.ttl must be a number",
	`{"resilience": {"cache": {"max_entries": 1.5}}}`:                                 "resilience.cache.max_entries must be an integer",
	`{"resilience": {"cache": []}}`:                                                   "resilience.cache: expected an object",
	`{"resilience": {"breaker": {"failures": 0, "successes": -1, "cooldown": null}}}`: "breaker.failures must be a number between 1 and 1000; resilience.breaker.cooldown must be a number between 0.001 and 86400; resilience.breaker.successes must be",
	`{"resilience": {"rate": {"per_second": 0}}}`:                                     "resilience.rate.per_second must be a number between 0.001 and 1e+06",
	`{"resilience": {"rate": {"burst": 0.5}}}`:                                        "resilience.rate.burst must be",
	`{"resilience": {"retry": {}}}`:                                                   "resilience.retry.max_attempts must be a number between 1 and 10",
	`{"resilience": {"retry": {"max_attempts": 11}}}`:                                 "resilience.retry.max_attempts must be a number between 1 and 10",
	`{"resilience": {"retry": {"max_attempts": 2, "jitter": 2}}}`:                     "resilience.retry.jitter must be a number between 0 and 1",
	`{"resilience": {"retry": {"max_attempts": 2, "backoff": "odd"}}}`:                "resilience.retry.backoff: expected exponential or linear, got odd",
	`{"resilience": {"retry": {"max_attempts": 2, "idempotent": "yes"}}}`:             "resilience.retry.idempotent: expected true or false",
	`{"resilience": {"retry": {"max_attempts": 2}}, "retry": {}}`:                     "retry and resilience.retry exclude each other",
	`{"retry": {"max_attempts": 0}}`:                                                  "retry.max_attempts must be a number between 1 and 10",
	`{"retry": []}`:                                                                   "retry: expected an object",
	`{"resilience": {"timeout": {}}}`:                                                 "resilience.timeout.each must be a number",
	`{"resilience": {"fallback": {}}}`:                                                "resilience.fallback.value is missing",
	`{"resilience": {"fallback": {"tool": "tool:acme/other", "value": 1}}}`:           `resilience.fallback: unknown key "tool"`,
}

// TestWrong: an error names every invalid setting, and nothing runs.
func TestWrong(t *testing.T) {
	for text, want := range wrong {
		w := newWorld(script(gives("x")))
		a := action(nil)
		a.Config = parsed(t, text)
		_, err := w.Run(t.Context(), a, nil)
		if fault.CodeOf(err) != fault.Validation || !strings.Contains(err.Error(), want) || w.calls != 0 {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

// TestSchema: the schema of the library's primitives accepts the same and refuses the same.
func TestSchema(t *testing.T) {
	var first any
	for _, name := range []string{"http_client", "starlark", "subprocess", "wasm"} {
		b, err := fs.ReadFile(std.FS(), "tools/rye/core/primitives/"+name+".yaml")
		if err != nil {
			t.Fatal(err)
		}
		v, _ := parse.YAML(b, value.Pos{})
		said, err := v.Get("config_schema").Get("properties").Get(Entry).JSON()
		if err != nil || said == nil {
			t.Fatalf("%s has no schema for it: %v", name, err)
		}
		if first == nil {
			first = said
		}
		if !reflect.DeepEqual(said, first) {
			t.Errorf("%s has another schema", name)
		}
	}
	schema, err := params.Compile(config{"type": "object", "properties": config{Entry: first}})
	if err != nil {
		t.Fatal(err)
	}
	for text := range wrong {
		c := parsed(t, text)
		if _, both := c[retry]; !both && schema.Check(c) == nil {
			t.Errorf("the schema accepts %s", text)
		}
	}
	full := parsed(t, `{"resilience": {"cache": {"ttl": 1, "max_entries": 1000}, "breaker": {"failures": 1000, "cooldown": 0.001, "successes": 1}, "rate": {"per_second": 0.001, "burst": 1},
		"retry": {"max_attempts": 10, "backoff": "linear", "first": 86400, "longest": 1, "jitter": 1, "idempotent": true}, "timeout": {"each": 86400}, "fallback": {"value": null}}}`)
	if err := schema.Check(full); err != nil {
		t.Error(err)
	}
	if _, err := read(full); err != nil {
		t.Error(err)
	}
}

// FuzzSettings: accepted settings are within their bounds.
func FuzzSettings(f *testing.F) {
	f.Add([]byte(
		`{"resilience": {"cache": {"ttl": 1}, "breaker": {"failures": 2}, "rate": {"burst": 3}, "retry": {"max_attempts": 3, "first": 0.1, "jitter": 1}, "timeout": {"each": 2}, "fallback": {"value": []}}}`))
	f.Add([]byte(`{"retry": {"max_attempts": 1e9, "backoff": "linear"}}`))
	f.Add([]byte(`{"resilience": {"retry": {"max_attempts": null}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c config
		if json.Unmarshal(b, &c) != nil {
			return
		}
		s, err := read(c)
		if err != nil {
			if err.Error() == "" {
				t.Error("it says nothing")
			}
			return
		}
		if n := s.retry.attempts; n < 1 || n > MaxAttempts || s.each < 0 || s.retry.jitter < 0 || s.retry.jitter > 1 {
			t.Errorf("%+v", s)
		}
		if s.rate != nil && (s.rate.burst < 1 || s.rate.perSecond < 0.001) || s.breaker != nil &&
			(s.breaker.failures < 1 || s.breaker.successes < 1 || s.breaker.cooldown <= 0) {
			t.Errorf("%+v", s)
		}
		if s.cache != nil && (s.cache.ttl <= 0 || s.cache.most < 1) {
			t.Errorf("%+v", s.cache)
		}
	})
}
