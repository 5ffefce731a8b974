package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/rye-build/rye/manifest/jcs"
)

const (
	// maxNested bounds the nesting of a call's arguments, because messages, requests and events contain them.
	maxNested = 32
	// MaxTokens is the largest plausible number of tokens.
	MaxTokens = 100_000_000
)

func object(v any) map[string]any { m, _ := v.(map[string]any); return m }

func list(v any) []any { l, _ := v.([]any); return l }

func text(v any) string { s, _ := v.(string); return s }

// encode returns a value as JSON, or "" if it isn't a JSON value.
func encode(v any) string {
	b, err := jcs.Append(nil, v)
	if err != nil {
		return ""
	}
	return string(b)
}

// decode decodes JSON that package jcs may refuse, such as an integer beyond 2^53, so that one odd number doesn't
// spoil an event. Numbers beyond a double become text. It returns nil if s isn't JSON.
func decode(s string) any {
	if v, err := jcs.Parse([]byte(s)); err == nil {
		return v
	}
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		return nil
	}
	return doubles(v)
}

func doubles(val any) any {
	switch number := val.(type) {
	case json.Number:
		if f, err := number.Float64(); err == nil {
			return f
		}
		return number.String()
	case []any:
		for i := range number {
			number[i] = doubles(number[i])
		}
	case map[string]any:
		for name := range number {
			number[name] = doubles(number[name])
		}
	}
	return val
}

// deeper reports whether arrays and objects nest deeper than n.
func deeper(v any, n int) bool {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			if n == 0 || deeper(one, n-1) {
				return true
			}
		}
	case map[string]any:
		for _, one := range v {
			if n == 0 || deeper(one, n-1) {
				return true
			}
		}
	}
	return false
}

// number returns a plausible number of tokens.
func number(v any) (int64, bool) {
	f, ok := jcs.Number(v)
	if !ok || math.IsNaN(f) || f < 0 || f > MaxTokens || f != math.Trunc(f) {
		return 0, false
	}
	return int64(f), true
}

// A tally reads the numbers of a usage. One invalid number invalidates all.
type tally struct {
	in      map[string]any
	invalid bool
}

// must returns a required number.
func (t *tally) must(name string) int64 {
	n, ok := number(t.in[name])
	t.invalid = t.invalid || !ok
	return n
}

// may returns an optional number, which may be null.
func (t *tally) may(path ...string) int64 {
	var v any = t.in
	for _, name := range path {
		v = object(v)[name]
	}
	if v == nil {
		return 0
	}
	n, ok := number(v)
	t.invalid = t.invalid || !ok
	return n
}

// usage returns the usage, or a zero one if a number was invalid. A usage without any token is invalid, too.
func (t *tally) usage(u Usage) Usage {
	if t.invalid || t.in == nil || min(u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning) < 0 ||
		u.Prompt()+u.Answered() == 0 {
		return Usage{}
	}
	u.Reported = true
	return u
}

// arguments reads the arguments of a call.
func arguments(c *ToolCall, raw string) {
	if strings.TrimSpace(raw) == "" {
		c.Input = map[string]any{}
		return
	}
	if v, err := jcs.Parse([]byte(raw)); err == nil {
		input(c, v, raw)
		return
	}
	c.Raw = raw
}

// input sets arguments that are a value already. raw is the value's text; if it is "", input encodes the value.
func input(toolCall *ToolCall, val any, raw string) {
	if s, ok := val.(string); ok {
		arguments(toolCall, s)
		return
	}
	m, ok := val.(map[string]any)
	if val == nil {
		m, ok = map[string]any{}, true
	}
	if ok && !deeper(m, maxNested) {
		toolCall.Input = m
		return
	}
	if toolCall.Raw = raw; raw == "" {
		b, _ := json.Marshal(val)
		toolCall.Raw = string(b)
	}
}

// Wrong returns the reason why the arguments are invalid, so that the model can correct them.
func (c *ToolCall) Wrong() string {
	v, err := jcs.Parse([]byte(c.Raw))
	switch {
	case err != nil:
		return fmt.Sprintf("are not valid JSON: %v", err)
	case object(v) == nil:
		return "are not a JSON object"
	}
	return fmt.Sprintf("nest deeper than %d", maxNested)
}

// given returns the arguments of a call to send back: an object.
func given(c *ToolCall) map[string]any {
	switch {
	case c.Raw != "":
		return map[string]any{"_raw": valid(c.Raw)}
	case c.Input == nil:
		return map[string]any{}
	}
	return c.Input
}

func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
