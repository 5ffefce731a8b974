package condition

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/manifest/jcs"
)

// Limits of a condition.
const (
	MaxText  = 4096 // bytes of a text
	maxNodes = 1000
	maxDepth = 16
	maxValue = 1000 // bytes of a string that contains and regex search for
	maxList  = 256
)

// A Condition is about a document. It is immutable and safe for concurrent use. The zero value always holds.
type Condition struct {
	join        string // any, all or not; "" for a comparison
	parts       []*Condition
	op          string
	left, right operand
	regex       *regexp.Regexp // of contains and regex
}

// An operand is one side of a comparison: a path, a product, or a value.
type operand struct {
	path    []string
	product []operand
	value   any
}

// Names is a value with several names.
type Names []string

// An Answer says whether a condition holds.
type Answer int

// The answers. Unknown means that the answer depends on a comparison that is not possible.
const (
	No Answer = iota
	Unknown
	Yes
)

func answer(yes bool) Answer {
	if yes {
		return Yes
	}
	return No
}

// Holds reports whether the condition holds for a document. A comparison that is not possible doesn't hold.
func (c *Condition) Holds(doc any) bool { return c.ask(doc, No) == Yes }

// Ask is Holds for callers that must know whether a comparison was not possible.
func (c *Condition) Ask(doc any) Answer { return c.ask(doc, Unknown) }

func (c *Condition) ask(doc any, unknown Answer) Answer {
	switch c.join {
	case "any":
		best := No
		for _, o := range c.parts {
			best = max(best, o.ask(doc, unknown))
		}
		return best
	case "all":
		worst := Yes
		for _, o := range c.parts {
			worst = min(worst, o.ask(doc, unknown))
		}
		return worst
	case "not":
		return Yes - c.parts[0].ask(doc, unknown)
	}
	if c.op == "" {
		return Yes
	}
	if a := c.compare(c.left.of(doc), c.right.of(doc)); a != Unknown {
		return a
	}
	return unknown
}

// uncountable is a product with a factor that isn't a number. It equals nothing.
type uncountable struct{}

func (o *operand) of(doc any) any {
	switch {
	case o.product != nil:
		n := 1.0
		for i := range o.product {
			factor, ok := number(o.product[i].of(doc))
			if !ok {
				return uncountable{}
			}
			n *= factor
		}
		return n
	case o.path != nil:
		return at(doc, o.path)
	}
	return o.value
}

// At returns the value of a document at a path; nil if there is none.
func At(doc any, path string) any { return at(doc, strings.Split(path, ".")) }

func at(val any, path []string) any {
	for _, name := range path {
		switch in := val.(type) {
		case map[string]any:
			val = in[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			val = in[i]
		default:
			return nil
		}
	}
	return val
}

func (c *Condition) compare(val, want any) Answer {
	if val == any(uncountable{}) || want == any(uncountable{}) {
		return Unknown
	}
	switch c.op {
	case "true":
		b, ok := val.(bool)
		if !ok {
			return Unknown
		}
		return answer(b)
	case "eq":
		return answer(equal(val, want))
	case "ne":
		return answer(!equal(val, want))
	case "exists":
		return answer(val != nil)
	case "in":
		return answer(slices.ContainsFunc(want.([]any), func(one any) bool { return equal(val, one) }))
	case "contains", "regex":
		return c.search(val, want)
	}
	n, ok := order(val, want)
	if !ok {
		return Unknown
	}
	return answer(c.op == "gt" && n > 0 || c.op == "gte" && n >= 0 || c.op == "lt" && n < 0 || c.op == "lte" && n <= 0)
}

func (c *Condition) search(val, want any) Answer {
	if list, ok := val.([]any); ok && c.op == "contains" {
		return answer(slices.ContainsFunc(list, func(one any) bool { return equal(one, want) }))
	}
	switch v := val.(type) {
	case nil:
		return No
	case string:
		return answer(c.regex.MatchString(v))
	case Names:
		return answer(len(v) > 0 && c.regex.MatchString(v[0]))
	case map[string]any, []any:
		return Unknown
	}
	text, err := jcs.Append(nil, val)
	if err != nil {
		return Unknown
	}
	return answer(c.regex.Match(text))
}

// number returns a value as a number, if it is one.
func number(v any) (float64, bool) {
	if n, ok := v.(int); ok {
		return float64(n), true
	}
	return jcs.Number(v)
}

// order compares two numbers or two strings. Other values have no order.
func order(a, b any) (int, bool) {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return cmp.Compare(x, y), ok
	}
	x, ok := a.(string)
	y, too := b.(string)
	return strings.Compare(x, y), ok && too
}

func equal(left, right any) bool {
	if names, ok := right.(Names); ok {
		left, right = names, left
	}
	if names, ok := left.(Names); ok {
		return slices.ContainsFunc(names, func(n string) bool { return n == right })
	}
	if x, ok := number(left); ok {
		y, ok := number(right)
		return ok && x == y
	}
	switch x := left.(type) {
	case []any:
		y, ok := right.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	case map[string]any:
		y, ok := right.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for name, v := range x {
			w, ok := y[name]
			if !ok || !equal(v, w) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(left, right)
}

// Roots returns the first names of all paths, sorted, so that a caller can refuse those that its documents don't have.
func (c *Condition) Roots() (all []string) {
	for _, path := range c.Paths() {
		root, _, _ := strings.Cut(path, ".")
		all = append(all, root)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Paths returns all paths, sorted.
func (c *Condition) Paths() (all []string) {
	for _, o := range c.parts {
		all = append(all, o.Paths()...)
	}
	all = append(append(all, c.left.paths()...), c.right.paths()...)
	slices.Sort(all)
	return slices.Compact(all)
}

func (o *operand) paths() (all []string) {
	for i := range o.product {
		all = append(all, o.product[i].paths()...)
	}
	if o.path != nil {
		all = append(all, strings.Join(o.path, "."))
	}
	return all
}
