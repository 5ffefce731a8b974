package condition

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rye-build/rye/manifest/jcs"
)

// A Problem is a mistake in a condition.
type Problem struct {
	Field   string // as in "any[1].value"; "" for the condition as a whole
	Message string
}

func (p *Problem) Error() string { return strings.TrimPrefix(p.Field+": ", ": ") + p.Message }

// Read reads a condition in either form from JSON's values.
func Read(v any) (*Condition, []*Problem) {
	r := new(reader)
	c := r.condition(v, "", 1)
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	return c, nil
}

// Parse reads a condition as text. An error is a *Problem.
func Parse(text string) (*Condition, error) {
	c, problems := Read(text)
	if problems != nil {
		return nil, problems[0]
	}
	return c, nil
}

// A reader reads a condition and collects its problems.
type reader struct {
	problems []*Problem
	nodes    int
	full     bool // too many nodes, reported only once
}

func (r *reader) bad(field, format string, args ...any) {
	r.problems = append(r.problems, &Problem{field, fmt.Sprintf(format, args...)})
}

// room counts a node, and reports whether it is within the limits.
func (r *reader) room(field string, depth int) bool {
	if r.nodes++; r.nodes <= maxNodes && depth <= maxDepth {
		return true
	}
	if !r.full {
		r.full = true
		r.bad(field, "more than %d conditions, or nested more than %d levels deep", maxNodes, maxDepth)
	}
	return false
}

func below(field, name string) string { return strings.TrimPrefix(field+"."+name, ".") }

func (r *reader) condition(v any, field string, depth int) *Condition {
	condition := new(Condition)
	if !r.room(field, depth) {
		return condition
	}
	switch v := v.(type) {
	case string:
		return r.text(v, field, depth)
	case map[string]any:
		r.object(condition, v, field, depth)
	default:
		r.bad(field, "expected a condition")
	}
	return condition
}

func (r *reader) object(condition *Condition, object map[string]any, field string, depth int) {
	for _, join := range []string{"any", "all", "not"} {
		inner, ok := object[join]
		if !ok {
			continue
		}
		condition.join = join
		r.keys(object, field, join)
		list, isList := inner.([]any)
		switch {
		case join == "not":
			condition.parts = []*Condition{r.condition(inner, below(field, join), depth+1)}
		case !isList || len(list) == 0:
			r.bad(below(field, join), "expected a list of conditions")
		default:
			for i, one := range list {
				condition.parts = append(condition.parts,
					r.condition(one, fmt.Sprintf("%s[%d]", below(field, join), i), depth+1))
			}
		}
		return
	}
	if len(object) == 0 {
		return
	}
	r.keys(object, field, "path", "op", "value")
	path, _ := object["path"].(string)
	condition.left.path = strings.Split(path, ".")
	if slices.Contains(condition.left.path, "") {
		r.bad(below(field, "path"), "invalid path %.100q", path)
	}
	condition.op = "eq"
	if op, ok := object["op"]; ok {
		condition.op, _ = op.(string)
	}
	value, given := object["value"]
	r.compares(condition, value, given, field)
}

func (r *reader) keys(v map[string]any, field string, keys ...string) {
	for _, key := range slices.Sorted(maps.Keys(v)) {
		if !slices.Contains(keys, key) {
			r.bad(field, "unknown key %q: expected one of %s", key, strings.Join(keys, ", "))
		}
	}
}

// operators are the names of operators in objects.
var operators = []string{"eq", "ne", "gt", "gte", "lt", "lte", "in", "contains", "regex", "exists"}

// compares sets the value on the right of a comparison.
func (r *reader) compares(c *Condition, value any, given bool, field string) {
	c.right.value = value
	if !slices.Contains(operators, c.op) {
		r.bad(below(field, "op"), "invalid operator %.100q: expected one of %s", c.op, strings.Join(operators, ", "))
		return
	}
	if _, err := jcs.Append(nil, value); err != nil {
		r.bad(below(field, "value"), "not a JSON value: %v", err)
		return
	}
	if wrong := c.checked(value, given); wrong != "" {
		r.bad(below(field, "value"), "%s", wrong)
	}
}

// checked returns the mistake in the value of a comparison, or "". It compiles the value of contains and regex.
func (c *Condition) checked(value any, given bool) string {
	text, isText := value.(string)
	_, isNumber := jcs.Number(value)
	list, isList := value.([]any)
	switch c.op {
	case "exists":
		if given {
			return "not allowed with exists"
		}
	case "in":
		if !isList || len(list) > maxList {
			return fmt.Sprintf("expected a list of at most %d values", maxList)
		}
	case "gt", "gte", "lt", "lte":
		if !isNumber && !isText {
			return "expected a number or a string"
		}
	case "contains", "regex":
		if !isText || text == "" || len(text) > maxValue {
			return fmt.Sprintf("expected a string of 1 to %d bytes", maxValue)
		}
		if c.op == "contains" {
			text = regexp.QuoteMeta(text)
		}
		var err error
		if c.regex, err = regexp.Compile("(?i)" + text); err != nil {
			return err.Error()
		}
	}
	return ""
}
