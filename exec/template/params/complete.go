package params

import (
	"maps"
	"slices"
	"strconv"

	"github.com/rye-build/rye/manifest/jcs"
)

// Complete returns values with the defaults of missing ones, after checking them. It doesn't change its argument, but
// may share parts of it. An error is an *InvalidError.
func (s *Schema) Complete(values map[string]any) (map[string]any, error) {
	c := &completer{steps: maxSteps}
	all, _ := c.complete(s.root, values, 0).(map[string]any)
	if c.steps < 0 {
		return nil, &InvalidError{[]Problem{{"", "the schema takes too long to complete, or is circular"}}}
	}
	if all == nil {
		all = map[string]any{}
	}
	if err := s.Check(all); err != nil {
		return nil, err
	}
	return all, nil
}

// A completer is the state of one Complete or Fit.
type completer struct{ steps int }

func (c *completer) complete(n *node, val any, depth int) any {
	if c.steps--; c.steps < 0 || depth > maxCheck {
		c.steps = -1
		return val
	}
	switch object := val.(type) {
	case map[string]any:
		return c.object(n, object, depth)
	case []any:
		var list []any // a copy, once an item may differ
		for i, item := range object {
			sub := n.element(i)
			if sub == nil {
				continue
			}
			done := c.complete(sub, item, depth+1)
			if list == nil && isContainer(item) {
				list = slices.Clone(object)
			}
			if list != nil {
				list[i] = done
			}
		}
		if list != nil {
			return list
		}
	}
	return val
}

func (c *completer) object(n *node, m map[string]any, depth int) map[string]any {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]any{}
	}
	for _, n := range n.same() {
		for name, p := range n.properties {
			if c.steps--; c.steps < 0 {
				return out
			}
			v, given := out[name]
			if !given {
				if v, given = p.defaultValue(); !given {
					continue
				}
			}
			out[name] = c.complete(p, v, depth+1)
		}
	}
	return out
}

// defaultValue returns the default of a property.
func (n *node) defaultValue() (any, bool) {
	for _, n := range n.same() {
		if n.hasDefault {
			return n.fallback, true
		}
	}
	return nil, false
}

// element returns the schema of a list's element, or nil.
func (n *node) element(i int) *node {
	for _, n := range n.same() {
		switch {
		case i < len(n.prefix):
			return n.prefix[i]
		case n.items != nil:
			return n.items
		}
	}
	return nil
}

func isContainer(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return true
	}
	return false
}

// Fit returns a value with its strings and numbers converted to the types that the schema requires, where that is
// unambiguous. It doesn't check the value.
func (s *Schema) Fit(v any) any {
	c := &completer{steps: maxSteps}
	return c.fit(s.root, v, 0)
}

func (c *completer) fit(n *node, given any, depth int) any {
	if c.steps--; c.steps < 0 || depth > maxCheck {
		return given
	}
	switch val := given.(type) {
	case int64:
		return c.fit(n, float64(val), depth)
	case map[string]any:
		out := maps.Clone(val)
		for name, item := range out {
			if p := n.property(name); p != nil {
				out[name] = c.fit(p, item, depth+1)
			} else if n.additional != nil {
				out[name] = c.fit(n.additional, item, depth+1)
			} else {
				out[name] = c.fit(newNode(), item, depth+1)
			}
		}
		return out
	case []any:
		list := make([]any, len(val))
		for i, item := range val {
			sub := n.element(i)
			if sub == nil {
				sub = newNode()
			}
			list[i] = c.fit(sub, item, depth+1)
		}
		return list
	case float64, bool:
		if n.may == tString {
			if b, err := jcs.Append(nil, val); err == nil {
				return string(b)
			}
		}
	case string:
		if n.may&tString == 0 {
			if parsed, ok := scalarOf(n.may, val); ok {
				return parsed
			}
		}
	}
	return given
}

// scalarOf parses a text as a number, boolean or null, if the types allow it.
func scalarOf(kinds types, text string) (any, bool) {
	switch {
	case text == "null" && kinds&tNull != 0:
		return nil, true
	case (text == "true" || text == "false") && kinds&tBool != 0:
		return text == "true", true
	case kinds&(tInteger|tNumber) == 0 || text == "" || text[0] != '-' && (text[0] < '0' || '9' < text[0]) ||
		len(text) > maxNumber:
		return nil, false
	}
	v, err := jcs.Parse([]byte(text))
	if f, ok := v.(float64); ok && err == nil && kinds&typeOf(f) != 0 {
		return f, true
	}
	return nil, false
}

// maxNumber is the longest text that is parsed as a number.
const maxNumber = 400

// quoted quotes and shortens a text for a message.
func quoted(s string) string {
	if len(s) > 100 {
		return strconv.QuoteToASCII(s[:100]) + "…"
	}
	return strconv.QuoteToASCII(s)
}
