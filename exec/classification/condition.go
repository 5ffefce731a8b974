package classification

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"github.com/rye-build/rye/manifest/jcs"
)

// A condition combines others, or compares one value of a failure.
type condition struct {
	join  string // any, all or not; "" compares
	of    []condition
	path  []string
	op    string
	want  any
	regex *regexp.Regexp // of contains and regex
}

// maxText is how much of a string contains and regex search.
const maxText = 4096

func (c *condition) fits(doc any) bool {
	fits := func(o condition) bool { return o.fits(doc) }
	switch c.join {
	case "any":
		return slices.ContainsFunc(c.of, fits)
	case "all":
		return !slices.ContainsFunc(c.of, func(o condition) bool { return !fits(o) })
	case "not":
		return !fits(c.of[0])
	}
	return c.holds(at(doc, c.path))
}

// at returns the value at a path; nil if there is none.
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
		return slices.ContainsFunc(c.want.([]any), func(one any) bool { return equal(v, one) })
	case "contains", "regex":
		s, ok := v.(string)
		return ok && c.regex.MatchString(s[:min(len(s), maxText)])
	default:
		n, ok := order(v, c.want)
		return ok && (c.op == "gt" && n > 0 || c.op == "gte" && n >= 0 || c.op == "lt" && n < 0 || c.op == "lte" && n <= 0)
	}
}

// order compares two numbers or two strings. Other values have no order.
func order(a, b any) (int, bool) {
	if x, ok := jcs.Number(a); ok {
		y, ok := jcs.Number(b)
		return cmp.Compare(x, y), ok
	}
	x, ok := a.(string)
	y, too := b.(string)
	return cmp.Compare(x, y), ok && too
}

func equal(a, b any) bool {
	if x, ok := jcs.Number(a); ok {
		y, ok := jcs.Number(b)
		return ok && x == y
	}
	return reflect.DeepEqual(a, b)
}
