package classification_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/classification"
)

func library(t testing.TB) string {
	t.Helper()
	b, err := fs.ReadFile(std.FS(), "config/"+classification.Name+".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func read(t testing.TB, text string) (*classification.Rules, error) {
	t.Helper()
	v, problems := parse.YAML([]byte(text), value.Pos{})
	for _, p := range problems {
		t.Fatal(p)
	}
	return classification.Read(v)
}

type object = map[string]any

// TestLibrary: the library's classification of typical failures.
func TestLibrary(t *testing.T) {
	rules, err := read(t, library(t))
	if err != nil {
		t.Fatal(err)
	}
	is := func(list ...string) object {
		e := object{}
		for i := 0; i < len(list); i += 2 {
			e[list[i]] = list[i+1]
		}
		return object{"error": e}
	}
	status := func(n int64) object {
		return object{"status_code": n, "error": object{"message": "HTTP: the network, a timeout, too many requests"}}
	}
	for _, c := range []struct {
		doc   object
		id    string
		kind  classification.Category
		again bool
		waits string // after each of three tries, first if the service asks for 7 seconds, then if it asks for nothing
	}{
		{status(429), "http_429", classification.RateLimited, true, "7s 7s 7s 1s 2s 4s"},
		{status(503), "http_5xx", classification.Transient, true, "7s 7s 7s 1s 2s 4s"},
		{status(502), "http_5xx", classification.Transient, true, "7s 7s 7s 1s 2s 4s"},
		{status(500), "", classification.Permanent, false, "0s 0s 0s 0s 0s 0s"},
		{status(404), "", classification.Permanent, false, "0s 0s 0s 0s 0s 0s"},
		{status(401), "auth_failure", classification.Permanent, false, "0s 0s 0s 0s 0s 0s"},
		{status(422), "validation_error", classification.Permanent, false, "0s 0s 0s 0s 0s 0s"},
		{is("type", "ConnectionError"), "network_connection", classification.Transient, true, "1s 2s 4s 1s 2s 4s"},
		{is("type", "TimeoutError"), "network_timeout", classification.Transient, true, "1s 2s 4s 1s 2s 4s"},
		{is("message", "It Timed Out"), "network_timeout", classification.Transient, true, "1s 2s 4s 1s 2s 4s"},
		{is("message", "Too Many Requests"), "http_429", classification.RateLimited, true, "7s 7s 7s 1s 2s 4s"},
		{is("message", "it timed out", "type", "Other"), "", classification.Permanent, false, "0s 0s 0s 0s 0s 0s"},
		{is("message", strings.Repeat("x", 4096)+"timed out"), "", classification.Permanent, false, "0s 0s 0s 0s 0s 0s"},
		{object{"cancelled": true, "status_code": int64(503)}, "cancelled", classification.Cancelled, false, "0s 0s 0s 0s 0s 0s"},
		{nil, "", classification.Permanent, false, "0s 0s 0s 0s 0s 0s"},
	} {
		got := rules.Of(c.doc)
		var waits []string
		for _, said := range []time.Duration{7 * time.Second, 0} {
			for n := range 3 {
				waits = append(waits, got.Policy.Wait(n, said).String())
			}
		}
		if got.ID != c.id || got.Category != c.kind || got.Retryable != c.again || strings.Join(waits, " ") != c.waits {
			t.Errorf("%v: %+v, %q", c.doc, got, waits)
		}
	}
	last := rules.Of(is("type", "TimeoutError")).Policy
	if got := last.Wait(40, 0); got != 30*time.Second {
		t.Errorf("the longest wait is %s", got)
	}
	header := rules.Of(status(429)).Policy
	if got := header.Wait(0, 100*time.Hour); got != 24*time.Hour {
		t.Errorf("the service makes us wait for %s", got)
	}
}

// with returns rules of one pattern.
func with(match, policy string) string {
	return fmt.Sprintf("patterns: [{id: x, category: transient, retryable: true, match: %s, retry_policy: %s}]\ndefault: {category: permanent, retryable: false}\n", match, policy)
}

// TestConditions: every operator, on values of the right type and of others.
func TestConditions(t *testing.T) {
	doc := object{"num": int64(3), "f": 3.5, "s": "Ünï x", "null": nil, "list": []any{"a", object{"b": true}}, "deep": object{"er": object{"s": "ye"}}}
	for match, want := range map[string]bool{
		`{path: num, value: 3}`: true, `{path: num, value: 3.0}`: true, `{path: num, value: "3"}`: false, `{path: num, op: ne, value: 4}`: true,
		`{path: num, op: ne, value: 3}`: false, `{path: none}`: true, `{path: "null", value: null}`: true, `{path: num}`: false,
		`{path: num, op: gt, value: 2}`: true, `{path: num, op: gt, value: 3}`: false, `{path: f, op: gte, value: 3.5}`: true, `{path: num, op: lt, value: 3.5}`: true,
		`{path: num, op: lte, value: 2}`: false, `{path: num, op: gt, value: "2"}`: false, `{path: s, op: gt, value: "A"}`: true, `{path: s, op: gt, value: 1}`: false,
		`{path: none, op: lt, value: 1}`: false, `{path: list, op: lt, value: 1}`: false,
		`{path: num, op: in, value: [1, 3]}`: true, `{path: num, op: in, value: []}`: false, `{path: s, op: in, value: ["x"]}`: false,
		`{path: s, op: contains, value: "üNÏ"}`: true, `{path: num, op: contains, value: "3"}`: false, `{path: s, op: regex, value: "^ü.* X$"}`: true, `{path: num, op: regex, value: "3"}`: false,
		`{path: s, op: regex, value: "a|x)|(b"}`: false,
		`{path: num, op: exists}`:                true, `{path: "null", op: exists}`: false, `{path: none.at.all, op: exists}`: false,
		`{path: list.0, value: a}`: true, `{path: list.1.b, value: true}`: true, `{path: list.2, op: exists}`: false, `{path: list.x, op: exists}`: false, `{path: list.-1, op: exists}`: false,
		`{path: deep.er.s, value: ye}`: true, `{path: deep.er, value: {s: ye}}`: true, `{path: list, op: eq, value: [a, {b: true}]}`: true,
		`{any: [{path: num, value: 1}, {path: num, value: 3}]}`: true, `{any: [{path: num, value: 1}]}`: false, `{all: [{path: num, value: 3}, {path: num, value: 1}]}`: false,
		`{all: [{path: num, value: 3}, {not: {path: num, value: 1}}]}`: true, `{not: {any: [{path: num, op: exists}]}}`: false,
	} {
		rules, err := read(t, with(match, "{type: fixed, delay: 1}"))
		if strings.Contains(match, "a|x)") {
			if err == nil {
				t.Errorf("%s is accepted", match)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", match, err)
			continue
		}
		if got := rules.Of(doc); got.Retryable != want {
			t.Errorf("%s: %v", match, got)
		}
	}
}

// TestOrder: the first pattern that matches counts.
func TestOrder(t *testing.T) {
	rules, err := read(t, `
schema_version: "1.0.0"
extends: anything
operators: {}
patterns:
  - {id: one, name: first, action: fail, category: quota, retryable: true, match: {path: a, value: 1}, retry_policy: {type: fixed, delay: 0.5, max_retries: 3}}
  - {id: two, category: permanent, retryable: false, match: {path: a, op: exists}, retry_policy: {type: none}}
default: {category: transient, retryable: true, retry_policy: {type: exponential, base: 0.1, max: 1, multiplier: 3}}
`)
	if err != nil {
		t.Fatal(err)
	}
	one, two, rest := rules.Of(object{"a": int64(1)}), rules.Of(object{"a": "b"}), rules.Of(nil)
	if one.ID != "one" || one.Policy.Wait(5, time.Hour) != time.Second/2 || one.Policy.MaxRetries != 3 || two.ID != "two" || two.Retryable || rest.ID != "" {
		t.Errorf("%+v %+v %+v", one, two, rest)
	}
	for n, want := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond, time.Second, time.Second} {
		if got := rest.Policy.Wait(n, 0); got != want {
			t.Errorf("after %d tries it waits %s; want %s", n, got, want)
		}
	}
}

// TestIssues: one error lists everything that is wrong.
func TestIssues(t *testing.T) {
	const sound = "{path: a}"
	nested := strings.Repeat("{not: ", 16) + sound + strings.Repeat("}", 16)
	many := "{any: [" + strings.Repeat("{path: a},", 2100) + "]}"
	for text, want := range map[string][]string{
		"[]": {"expected an object"},
		"{}": {"patterns: expected a list", "default: expected an object"},
		"schema_version: 2.0\nother: 1\npatterns: {}\ndefault: 1\n": {
			`unknown key "other"`, `schema_version: "2.0" is not supported`, "patterns: expected a list", "default: expected an object",
		},
		"patterns: [1, {}]\ndefault: {category: odd}\n": {
			"patterns[0]: expected an object", `patterns[1].category: invalid category "": expected one of transient`, "patterns[1].retryable: expected true or false",
			`patterns[1].id: invalid id ""`, "patterns[1].match: expected a condition", `default.category: invalid category "odd"`, "default.retryable: expected",
		},
		"patterns: [" + strings.Repeat("{},", 257) + "]\ndefault: {category: permanent, retryable: false}\n":    {"patterns: has 257 entries; at most 256 are allowed"},
		"patterns: []\ndefault: {category: permanent, retryable: true, retry_policy: {type: fixed, delay: 1}}":  {"default.retryable: a permanent failure can't be retryable"},
		"patterns: []\ndefault: {category: transient, retryable: true}":                                         {"default.retry_policy: must say how long to wait"},
		"patterns: []\ndefault: {category: transient, retryable: false, retry_policy: {type: fixed, delay: 1}}": {"default.retry_policy: must be none"},
		"patterns: []\ndefault: {category: transient, retryable: false, retry_policy: 1}":                       {"default.retry_policy: expected an object"},
		with(sound, "{type: fixed}"):                                                         {"retry_policy.delay: expected a number"},
		with(sound, "{type: fixed, delay: x}"):                                               {"retry_policy.delay: expected a number"},
		with(sound, "{type: fixed, delay: -1}"):                                              {"retry_policy.delay: must be between 0 and 86400 seconds"},
		with(sound, "{type: fixed, delay: 1e999}"):                                           {"retry_policy.delay: must be between"},
		with(sound, "{type: fixed, delay: 1, max: 2}"):                                       {`unknown key "max": expected one of type, delay, max_retries`},
		with(sound, "{type: fixed, delay: 1, max_retries: 0}"):                               {"max_retries: must be between 1 and 100"},
		with(sound, "{type: exponential, base: 86401}"):                                      {"retry_policy.base: must be between"},
		with(sound, "{type: exponential, base: 1, multiplier: 0.5}"):                         {"multiplier: must be between 1 and 100"},
		with(sound, "{type: sometimes}"):                                                     {`invalid type "sometimes": expected exponential, fixed, use_header or none`},
		with(sound, "{type: use_header}"):                                                    {"fallback: required"},
		with(sound, "{type: use_header, header: x-wait, fallback: {type: none}}"):            {`header: "x-wait" is not supported`, "fallback: must say how long"},
		with(sound, "{type: use_header, fallback: {type: use_header}}"):                      {"use_header can't be a fallback"},
		with(sound, "{type: use_header, fallback: {type: fixed, delay: 1, max_retries: 3}}"): {`unknown key "max_retries"`},
		with("{path: a..b}", "{type: fixed, delay: 1}"):                                      {`match.path: invalid path "a..b"`},
		with("{op: eq, value: 1}", "{type: fixed, delay: 1}"):                                {`match.path: invalid path ""`},
		with("{path: a, vlaue: 1}", "{type: fixed, delay: 1}"):                               {`unknown key "vlaue"`},
		with("{any: [], path: a}", "{type: fixed, delay: 1}"):                                {`unknown key "path"`, "match.any: expected a list of conditions"},
		with("{all: {path: a}}", "{type: fixed, delay: 1}"):                                  {"match.all: expected a list of conditions"},
		with("{not: [{path: a}]}", "{type: fixed, delay: 1}"):                                {"match.not: expected a condition"},
		with("{path: a, op: like}", "{type: fixed, delay: 1}"):                               {`match.op: invalid operator "like"`},
		with("{path: a, op: in, value: 1}", "{type: fixed, delay: 1}"):                       {"match.value: expected a list"},
		with("{path: a, op: gt, value: [1]}", "{type: fixed, delay: 1}"):                     {"match.value: expected a number or a string"},
		with("{path: a, op: contains}", "{type: fixed, delay: 1}"):                           {"match.value: expected a string of 1 to 1000 bytes"},
		with("{path: a, op: regex, value: '('}", "{type: fixed, delay: 1}"):                  {"missing closing )"},
		with("{path: a, op: exists, value: true}", "{type: fixed, delay: 1}"):                {"match.value: not allowed with exists"},
		with("{path: a, value: 99999999999999999999}", "{type: fixed, delay: 1}"):            {"beyond what JSON's readers agree about"},
		with(nested, "{type: fixed, delay: 1}"):                                              {"more than 2000 conditions, or nested more than 16 levels deep"},
		with(many, "{type: fixed, delay: 1}"):                                                {"more than 2000 conditions"},
		strings.ReplaceAll(library(t), "id: http_5xx", "id: http_429"):                       {`"http_429" is used twice`},
	} {
		rules, err := read(t, text)
		e, ok := errors.AsType[*fault.Error](err)
		if !ok || e.Code != fault.Config || rules != nil {
			t.Errorf("%.200s: %v", text, err)
			continue
		}
		if len(e.Details["problems"].([]string)) != len(want) {
			t.Errorf("%.200s: %d issues: %v", text, len(e.Details["problems"].([]string)), err)
		}
		for _, w := range want {
			if !strings.Contains(strings.Join(e.Details["problems"].([]string), "\n"), w) {
				t.Errorf("%.200s: %v\nlacks %s", text, err, w)
			}
		}
	}
	if _, err := classification.Read(nil); fault.Of(err).Hint == nil || !strings.Contains(strings.Join(fault.Of(err).Why, ""), "expected an object") {
		t.Errorf("%v", err)
	}
}

// FuzzRead: an accepted classification answers everything, and never waits longer than a day.
func FuzzRead(f *testing.F) {
	f.Add(library(f), "timed out", int64(503))
	f.Add(with("{path: error.message, op: regex, value: '(a|b)*'}", "{type: use_header, fallback: {type: exponential, base: 86400, multiplier: 100}}"), "ab", int64(0))
	f.Add("patterns: [{}]\ndefault: {}\n", "", int64(1))
	f.Fuzz(func(t *testing.T, text, message string, status int64) {
		v, problems := parse.YAML([]byte(text), value.Pos{})
		if len(problems) > 0 {
			return
		}
		rules, err := classification.Read(v)
		if err != nil {
			if rules != nil || err.Error() == "" {
				t.Errorf("%v, %v", rules, err)
			}
			return
		}
		c := rules.Of(object{"status_code": status, "error": object{"message": message}})
		for n := range 50 {
			if d := c.Policy.Wait(n, time.Duration(status)); d < 0 || d > 24*time.Hour || d > 0 && !c.Retryable {
				t.Errorf("%+v waits %s", c, d)
			}
		}
	})
}
