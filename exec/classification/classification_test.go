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
		{is("message", strings.Repeat("x", 4096)+"timed out"), "", classification.Permanent, false,
			"0s 0s 0s 0s 0s 0s"},
		{object{"cancelled": true, "status_code": int64(503)}, "cancelled", classification.Cancelled, false,
			"0s 0s 0s 0s 0s 0s"},
		{nil, "", classification.Permanent, false, "0s 0s 0s 0s 0s 0s"},
	} {
		got := rules.Of(c.doc)
		var waits []string
		for _, said := range []time.Duration{7 * time.Second, 0} {
			for n := range 3 {
				waits = append(waits, got.Policy.Wait(n, said).String())
			}
		}
		if got.ID != c.id || got.Category != c.kind || got.Retryable != c.again ||
			strings.Join(waits, " ") != c.waits {
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
	return fmt.Sprintf(
		"patterns: [{id: x, category: transient, retryable: true, match: %s, retry_policy: %s}]\ndefault: {category: permanent, retryable: false}\n",
		match, policy)
}

// TestMessage: of a message only so much is searched, and the caller's failure stays as it is.
func TestMessage(t *testing.T) {
	rules, err := read(t, with(`'error.message matches "timed out"'`, "{type: fixed, delay: 1}"))
	if err != nil {
		t.Fatal(err)
	}
	for pad, want := range map[int]bool{0: true, 4087: true, 4088: false} {
		doc := object{"error": object{"message": strings.Repeat("x", pad) + "timed out"}}
		if got := rules.Of(doc).Retryable; got != want || len(doc["error"].(object)["message"].(string)) != pad+9 {
			t.Errorf("after %d bytes: %v", pad, got)
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
	if one.ID != "one" || one.Policy.Wait(5, time.Hour) != time.Second/2 || one.Policy.MaxRetries != 3 ||
		two.ID != "two" || two.Retryable || rest.ID != "" {
		t.Errorf("%+v %+v %+v", one, two, rest)
	}
	for n, want := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond,
		time.Second, time.Second} {
		if got := rest.Policy.Wait(n, 0); got != want {
			t.Errorf("after %d tries it waits %s; want %s", n, got, want)
		}
	}
}

// TestIssues: one error lists everything that is wrong.
func TestIssues(t *testing.T) {
	const sound = "{path: a}"
	for text, want := range map[string][]string{
		"[]": {"expected an object"},
		"{}": {"patterns: expected a list", "default: expected an object"},
		"schema_version: 2.0\nother: 1\npatterns: {}\ndefault: 1\n": {
			`unknown key "other"`, `schema_version: "2.0" is not supported`, "patterns: expected a list",
			"default: expected an object",
		},
		"patterns: [1, {}]\ndefault: {category: odd}\n": {
			"patterns[0]: expected an object", `patterns[1].category: invalid category "": expected one of transient`,
			"patterns[1].retryable: expected true or false",
			`patterns[1].id: invalid id ""`, "patterns[1].match: expected a condition",
			`default.category: invalid category "odd"`, "default.retryable: expected",
		},
		"patterns: [" + strings.Repeat("{},", 257) +
			"]\ndefault: {category: permanent, retryable: false}\n": {
			"patterns: has 257 entries; at most 256 are allowed"},
		"patterns: []\ndefault: {category: permanent, retryable: true, retry_policy: {type: fixed, delay: 1}}": {
			"default.retryable: a permanent failure can't be retryable"},
		"patterns: []\ndefault: {category: transient, retryable: true}": {
			"default.retry_policy: must define a wait"},
		"patterns: []\ndefault: {category: transient, retryable: false, retry_policy: {type: fixed, delay: 1}}": {
			"default.retry_policy: must be none"},
		"patterns: []\ndefault: {category: transient, retryable: false, retry_policy: 1}": {
			"default.retry_policy: expected an object"},
		with(sound, "{type: fixed}"): {
			"retry_policy.delay: expected a number"},
		with(sound, "{type: fixed, delay: x}"): {
			"retry_policy.delay: expected a number"},
		with(sound, "{type: fixed, delay: -1}"): {
			"retry_policy.delay: must be between 0 and 86400 seconds"},
		with(sound, "{type: fixed, delay: 1e999}"): {
			"retry_policy.delay: must be between"},
		with(sound, "{type: fixed, delay: 1, max: 2}"): {
			`unknown key "max": expected one of type, delay, max_retries`},
		with(sound, "{type: fixed, delay: 1, max_retries: 0}"): {
			"max_retries: must be between 1 and 100"},
		with(sound, "{type: exponential, base: 86401}"): {
			"retry_policy.base: must be between"},
		with(sound, "{type: exponential, base: 1, multiplier: 0.5}"): {
			"multiplier: must be between 1 and 100"},
		with(sound, "{type: sometimes}"): {
			`invalid type "sometimes": expected exponential, fixed, use_header or none`},
		with(sound, "{type: use_header}"): {"fallback: required"},
		with(sound, "{type: use_header, header: x-wait, fallback: {type: none}}"): {
			`header: "x-wait" is not supported`, "fallback: must define a wait"},
		with(sound, "{type: use_header, fallback: {type: use_header}}"): {
			"use_header can't be a fallback"},
		with(sound, "{type: use_header, fallback: {type: fixed, delay: 1, max_retries: 3}}"): {
			`unknown key "max_retries"`},
		with("{path: a..b}",
			"{type: fixed, delay: 1}"): {`patterns[0].match.path: invalid path "a..b"`},
		with("{any: [], path: a}", "{type: fixed, delay: 1}"): {`match: unknown key "path"`,
			"match.any: expected a list of conditions"},
		with("a =", "{type: fixed, delay: 1}"): {
			"patterns[0].match: column 3: unexpected character '='"},
		with("{path: a, value: 99999999999999999999}",
			"{type: fixed, delay: 1}"): {"beyond what JSON's readers agree about"},
		strings.ReplaceAll(library(t), "id: http_5xx", "id: http_429"): {`"http_429" is used twice`},
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
	if _, err := classification.Read(nil); fault.Of(err).Hint == nil ||
		!strings.Contains(strings.Join(fault.Of(err).Why, ""), "expected an object") {
		t.Errorf("%v", err)
	}
}

// FuzzRead: an accepted classification answers everything, and never waits longer than a day.
func FuzzRead(f *testing.F) {
	f.Add(library(f), "timed out", int64(503))
	f.Add(with("{path: error.message, op: regex, value: '(a|b)*'}",
		"{type: use_header, fallback: {type: exponential, base: 86400, multiplier: 100}}"), "ab", int64(0))
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
