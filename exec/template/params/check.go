package params

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
)

// MaxProblems bounds the problems in an error.
const MaxProblems = 50

const (
	maxSteps = 1 << 20
	maxCheck = 200 // nested schemas
)

// A Problem is a defect of a value.
type Problem struct {
	Path string `json:"path"` // such as a.b[0]; "" for the whole value
	Msg  string `json:"message"`
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Msg
	}
	return p.Path + ": " + p.Msg
}

// An InvalidError lists the defects of a value.
type InvalidError struct{ Problems []Problem }

func (e *InvalidError) Error() string {
	list := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		list[i] = p.String()
	}
	return strings.Join(list, "; ")
}

// Fault lists the problems on separate lines.
func (e *InvalidError) Fault() *fault.Error {
	f := fault.New(fault.Validation, "%s", e.Error()).On("problems", e.Problems)
	if len(e.Problems) > 1 {
		f.Text = fault.Count(int64(len(e.Problems)), "problem")
		lines := make([]string, len(e.Problems))
		for i, p := range e.Problems {
			lines[i] = p.String()
		}
		f.List(lines...)
	}
	return f
}

// Check returns an *InvalidError unless a value is valid.
func (s *Schema) Check(v any) error {
	c := &checker{steps: maxSteps}
	c.check(s.root, v, "", 0)
	if len(c.problems) == 0 {
		return nil
	}
	return &InvalidError{c.problems}
}

// A checker is the state of one Check.
type checker struct {
	problems []Problem
	quiet    int // greater than 0 inside schemas that need not match: problems are only counted
	found    int
	steps    int
	spent    bool // no steps are left: every value is invalid
}

func (c *checker) bad(path, format string, args ...any) {
	if c.found++; c.quiet == 0 && len(c.problems) < MaxProblems {
		c.problems = append(c.problems, Problem{path, fmt.Sprintf(format, args...)})
	}
}

// step counts a step, and reports whether the checker may continue.
func (c *checker) step(path string, depth int) bool {
	if c.steps--; c.steps >= 0 && depth <= maxCheck && !c.spent {
		return true
	}
	if !c.spent {
		c.spent = true
		c.problems = append(c.problems, Problem{path, "the schema takes too long to check, or is circular"})
	}
	c.found++
	return false
}

// holds reports whether a value is valid, without recording problems.
func (c *checker) holds(n *node, v any, path string, depth int) bool {
	before := c.found
	c.quiet++
	c.check(n, v, path, depth)
	c.quiet--
	ok := c.found == before
	if !c.spent {
		c.found = before
	}
	return ok
}

func (c *checker) check(n *node, val any, path string, depth int) {
	if !c.step(path, depth) {
		return
	}
	if n.never {
		c.bad(path, "no value is allowed here")
		return
	}
	t := typeOf(val)
	if n.types != 0 && n.types&t == 0 {
		c.bad(path, "expected %s, got %s", n.types, t)
		return
	}
	if n.enum != nil && !c.isOneOf(n.enum, val, path) {
		if n.isOne {
			c.bad(path, "must be %s", clip(texts(n.enum)))
		} else {
			c.bad(path, "must be one of %s", clip(texts(n.enum)))
		}
	}
	switch v := val.(type) {
	case string:
		c.text(n, v, path)
	case float64:
		c.number(n, v, path)
	case int64:
		c.number(n, float64(v), path)
	case []any:
		c.array(n, v, path, depth)
	case map[string]any:
		c.object(n, v, path, depth)
	}
	c.combined(n, val, path, depth)
}

// clip joins and shortens values for a message.
func clip(values []string) string {
	values = slices.Clone(values)
	for i, v := range values {
		values[i] = fault.Clip(v, 100)
	}
	if len(values) > 20 {
		values = append(values[:20], "…")
	}
	return strings.Join(values, ", ")
}

// isOneOf reports whether a value is in a list.
func (c *checker) isOneOf(list []any, v any, path string) bool {
	return slices.ContainsFunc(list, func(o any) bool { return c.equal(o, v, path) })
}

// equal compares two values.
func (c *checker) equal(left, right any, path string) bool {
	if !c.step(path, 0) {
		return false
	}
	switch values := left.(type) {
	case []any:
		b, ok := right.([]any)
		if !ok || len(values) != len(b) {
			return false
		}
		for i := range values {
			if !c.equal(values[i], b[i], path) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := right.(map[string]any)
		if !ok || len(values) != len(b) {
			return false
		}
		for key := range values {
			if other, ok := b[key]; !ok || !c.equal(values[key], other, path) {
				return false
			}
		}
		return true
	}
	switch right.(type) {
	case []any, map[string]any:
		return false
	}
	if x, ok := jcs.Number(left); ok {
		y, ok := jcs.Number(right)
		return ok && x == y
	}
	return left == right
}

func (c *checker) text(n *node, s, path string) {
	if n.minLen >= 0 || n.maxLen >= 0 {
		size := utf8.RuneCountInString(s)
		c.count(size, n.minLen, n.maxLen, path, "characters")
	}
	if n.pattern != nil && !c.matches(n.pattern, s, path) {
		c.bad(path, "does not match the pattern %q", n.pattern)
	}
}

// matches reports whether a pattern matches. Text that is too long never matches.
func (c *checker) matches(p *pattern, s, path string) bool {
	c.steps -= len(s) * p.size >> 8
	return len(s) <= maxMatched && c.step(path, 0) && p.MatchString(s)
}

// count checks the bounds of a count.
func (c *checker) count(have, least, most int, path, what string) {
	if least >= 0 && have < least {
		c.bad(path, "must have at least %d %s, has %d", least, what, have)
	}
	if most >= 0 && have > most {
		c.bad(path, "must have at most %d %s, has %d", most, what, have)
	}
}

func (c *checker) number(n *node, num float64, path string) {
	switch {
	case n.min != nil && num < *n.min:
		c.bad(path, "must be >= %s", number(*n.min))
	case n.above != nil && num <= *n.above:
		c.bad(path, "must be > %s", number(*n.above))
	}
	switch {
	case n.max != nil && num > *n.max:
		c.bad(path, "must be <= %s", number(*n.max))
	case n.below != nil && num >= *n.below:
		c.bad(path, "must be < %s", number(*n.below))
	}
	if n.multiple != nil && !isMultiple(num, *n.multiple) {
		c.bad(path, "must be a multiple of %s", number(*n.multiple))
	}
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// isMultiple divides decimal numbers: 0.3 is a multiple of 0.1, although the doubles aren't.
func isMultiple(f, of float64) bool {
	a, ok := new(big.Rat).SetString(number(f))
	b, ok2 := new(big.Rat).SetString(number(of))
	return ok && ok2 && a.Quo(a, b).IsInt()
}

func (c *checker) array(n *node, list []any, path string, depth int) {
	c.count(len(list), n.minItems, n.maxItems, path, "items")
	if n.unique {
		c.distinct(list, path)
	}
	if n.prefix != nil || n.items != nil {
		for i, v := range list {
			at := path + "[" + strconv.Itoa(i) + "]"
			if i < len(n.prefix) {
				c.check(n.prefix[i], v, at, depth+1)
			} else if n.items != nil {
				c.check(n.items, v, at, depth+1)
			}
			if c.spent {
				return
			}
		}
	}
	if n.contains != nil {
		matches := 0
		for _, v := range list {
			if c.holds(n.contains, v, path, depth+1) {
				matches++
			}
		}
		least := n.minMatch
		if least < 0 {
			least = 1
		}
		c.count(matches, least, n.maxMatch, path, "items that match contains")
	}
}

// distinct checks that no two values are equal.
func (c *checker) distinct(list []any, path string) {
	seen := make(map[string]int, len(list))
	var buf []byte
	for i, v := range list {
		b, err := jcs.Append(buf[:0], v)
		if err != nil {
			c.bad(path, "can't compare the values: %v", err)
			return
		}
		if first, twice := seen[string(b)]; twice {
			c.bad(path, "the items %d and %d are equal", first, i)
			return
		}
		seen[string(b)] = i
		buf = b
	}
}

func (c *checker) object(n *node, object map[string]any, path string, depth int) {
	c.count(len(object), n.minProps, n.maxProps, path, "members")
	for _, name := range n.required {
		if _, ok := object[name]; !ok {
			c.bad(join(path, name), "required field missing")
		}
	}
	if n.properties == nil && n.patterns == nil && n.additional == nil && n.names == nil && n.dependent == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if c.spent {
			return
		}
		c.member(n, object, name, join(path, name), depth)
	}
}

// member checks one member of an object.
func (c *checker) member(n *node, object map[string]any, name, at string, depth int) {
	for _, other := range n.dependent[name] {
		if _, ok := object[other]; !ok {
			c.bad(at, "requires %q", other)
		}
	}
	if n.names != nil && !c.holds(n.names, name, at, depth+1) {
		c.bad(at, "name not allowed")
	}
	declared := false
	if p := n.properties[name]; p != nil {
		declared = true
		c.check(p, object[name], at, depth+1)
	}
	for _, p := range n.patterns {
		if c.matches(p.pattern, name, at) {
			declared = true
			c.check(p.n, object[name], at, depth+1)
		}
	}
	switch {
	case declared || n.additional == nil:
	case n.additional.never:
		c.bad(at, "unknown field%s", expected(n))
	default:
		c.check(n.additional, object[name], at, depth+1)
	}
}

// expected lists the declared properties, for the error about another one.
func expected(n *node) string {
	if len(n.properties) == 0 {
		return ""
	}
	names := slices.Sorted(maps.Keys(n.properties))
	for i := range names {
		names[i] = printable(names[i])
	}
	return "; expected one of " + clip(names)
}

// join appends a name to the path of an object.
func join(path, name string) string {
	if name = printable(name); path == "" || name[0] == '[' {
		return path + name
	}
	return path + "." + name
}

// printable returns a name for a path, quoted if necessary.
func printable(name string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	switch {
	case len(name) > 100:
		return "[" + strconv.QuoteToASCII(name[:100]) + "…]"
	case name == "" || strings.Trim(name, plain) != "":
		return "[" + strconv.QuoteToASCII(name) + "]"
	}
	return name
}

// combined checks the subschemas for the same value.
func (c *checker) combined(n *node, val any, path string, depth int) {
	if n.ref != nil {
		c.check(n.ref, val, path, depth+1)
	}
	for _, sub := range n.all {
		c.check(sub, val, path, depth+1)
	}
	if n.any != nil && !slices.ContainsFunc(n.any, func(sub *node) bool { return c.holds(sub, val, path, depth+1) }) {
		c.alternatives(n.any, val, path, depth)
	}
	if n.one != nil {
		matches := 0
		for _, sub := range n.one {
			if c.holds(sub, val, path, depth+1) {
				matches++
			}
		}
		switch matches {
		case 0:
			c.alternatives(n.one, val, path, depth)
		case 1:
		default:
			c.bad(path, "matches %d alternatives: exactly one must match", matches)
		}
	}
	if n.not != nil && c.holds(n.not, val, path, depth+1) {
		c.bad(path, "value not allowed here")
	}
	if n.when == nil {
		return
	}
	next := n.els
	if c.holds(n.when, val, path, depth+1) {
		next = n.then
	}
	if next != nil {
		c.check(next, val, path, depth+1)
	}
}

// alternatives reports that a value matches none of several schemas, with the reasons.
func (c *checker) alternatives(list []*node, val any, path string, depth int) {
	if c.quiet > 0 || c.spent {
		c.bad(path, "")
		return
	}
	var reasons []string
	for i, sub := range list {
		if i == 5 {
			reasons = append(reasons, "…")
			break
		}
		inner := &checker{steps: c.steps}
		inner.check(sub, val, path, depth+1)
		c.steps = inner.steps
		if len(inner.problems) > 0 {
			reasons = append(reasons, inner.problems[0].String())
		}
	}
	c.bad(path, "matches none of %d alternatives (%s)", len(list), strings.Join(reasons, " | "))
}
