package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/rye-build/rye/manifest/jcs"
)

const (
	// maxNested is how deep the arguments of a call may nest: they stand inside messages, requests and events.
	maxNested = 32
	// MaxTokens is the largest number of tokens that is believed.
	MaxTokens = 100_000_000
)

func object(v any) map[string]any { m, _ := v.(map[string]any); return m }

func list(v any) []any { l, _ := v.([]any); return l }

func text(v any) string { s, _ := v.(string); return s }

// encode returns a value as JSON; "" if it is none.
func encode(v any) string {
	b, err := jcs.Append(nil, v)
	if err != nil {
		return ""
	}
	return string(b)
}

// decode reads JSON that package jcs may refuse, such as an integer beyond 2^53: one odd number in an event doesn't
// make the rest of it worthless. Numbers that no double holds are text. It returns nil if s is no JSON.
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

func doubles(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	case []any:
		for i := range v {
			v[i] = doubles(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = doubles(v[name])
		}
	}
	return v
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

// number returns a number of tokens that can be true.
func number(v any) (int64, bool) {
	f, ok := jcs.Number(v)
	if !ok || math.IsNaN(f) || f < 0 || f > MaxTokens || f != math.Trunc(f) {
		return 0, false
	}
	return int64(f), true
}

// A tally reads the numbers of a usage. One that is wrong spoils all.
type tally struct {
	in    map[string]any
	wrong bool
}

// must returns a number that has to be there.
func (t *tally) must(name string) int64 {
	n, ok := number(t.in[name])
	t.wrong = t.wrong || !ok
	return n
}

// may returns a number that may be missing, or null.
func (t *tally) may(path ...string) int64 {
	var v any = t.in
	for _, name := range path {
		v = object(v)[name]
	}
	if v == nil {
		return 0
	}
	n, ok := number(v)
	t.wrong = t.wrong || !ok
	return n
}

// usage returns what was read, unless a number was wrong. A request and an answer without a token can't be.
func (t *tally) usage(u Usage) Usage {
	if t.wrong || t.in == nil || min(u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning) < 0 ||
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

// input takes arguments that are a value already. Raw is that value as text; "" encodes it.
func input(c *ToolCall, v any, raw string) {
	if s, ok := v.(string); ok {
		arguments(c, s)
		return
	}
	m, ok := v.(map[string]any)
	if v == nil {
		m, ok = map[string]any{}, true
	}
	if ok && !deeper(m, maxNested) {
		c.Input = m
		return
	}
	if c.Raw = raw; raw == "" {
		b, _ := json.Marshal(v)
		c.Raw = string(b)
	}
}

// Wrong says what is wrong with arguments that are no Input: a model can only mend what it knows of.
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

// given returns the arguments of a call as they are sent back: an object.
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
