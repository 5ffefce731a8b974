package classification

import (
	"cmp"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// A condition is all, any or not of others, or looks at one place.
type condition struct {
	join  string // "any", "all", "not"; "" looks
	of    []condition
	path  []string
	op    string
	want  any
	regex *regexp.Regexp
}

// maxText is how much of a text is looked at.
const maxText = 4096

func (c *condition) fits(doc any) bool {
	switch c.join {
	case "any":
		for i := range c.of {
			if c.of[i].fits(doc) {
				return true
			}
		}
		return false
	case "all":
		for i := range c.of {
			if !c.of[i].fits(doc) {
				return false
			}
		}
		return true
	case "not":
		return !c.of[0].fits(doc)
	}
	return c.holds(at(doc, c.path))
}

// at returns what stands at a place; nil if nothing does.
func at(v any, path []string) any {
	for _, name := range path {
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

func (c *condition) holds(v any) bool {
	switch c.op {
	case "eq":
		return equal(v, c.want)
	case "ne":
		return !equal(v, c.want)
	case "exists":
		return v != nil
	case "in":
		for _, one := range c.want.([]any) {
			if equal(v, one) {
				return true
			}
		}
	case "contains":
		s, ok := text(v)
		return ok && strings.Contains(strings.ToLower(s), strings.ToLower(c.want.(string)))
	case "regex":
		s, ok := text(v)
		return ok && c.regex.MatchString(s)
	default:
		n, ok := order(v, c.want)
		return ok && (c.op == "gt" && n > 0 || c.op == "gte" && n >= 0 || c.op == "lt" && n < 0 || c.op == "lte" && n <= 0)
	}
	return false
}

func text(v any) (string, bool) {
	s, ok := v.(string)
	return s[:min(len(s), maxText)], ok
}

// order compares two numbers, or two texts. No other values stand in an order.
func order(a, b any) (int, bool) {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return cmp.Compare(x, y), ok
	}
	x, ok := a.(string)
	y, too := b.(string)
	return cmp.Compare(x, y), ok && too
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

func equal(a, b any) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	return reflect.DeepEqual(a, b)
}
