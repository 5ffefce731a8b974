package classification

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/value"
)

const (
	maxPatterns   = 256
	maxConditions = 2000
	maxDepth      = 16
	maxValue      = 1000
	maxTries      = 100
	maxWait       = 24 * time.Hour
)

// Read reads a classification. An error is an *Error with everything that is wrong.
func Read(v *value.Value) (*Rules, error) {
	r := &reader{ids: map[string]bool{}}
	rules := new(Rules)
	if v == nil || v.Kind != value.Map {
		r.bad(v, "", "is no object")
		return nil, invalid(r.problems)
	}
	r.keys(v, "", "schema_version", "patterns", "default", "extends", "operators", "combinators", "retry_policy_types",
		"name", "version", "category", "description")
	if s := v.Get("schema_version"); s != nil && !strings.HasPrefix(s.String(), "1.") {
		r.bad(s, "schema_version", `is %q, and this rye reads "1."`, s.Text)
	}
	list := v.Get("patterns")
	switch {
	case list == nil || list.Kind != value.List:
		r.bad(v, "patterns", "is no list")
	case len(list.Items) > maxPatterns:
		r.bad(list, "patterns", "has %d entries, and may have %d", len(list.Items), maxPatterns)
	default:
		for i, item := range list.Items {
			rules.patterns = append(rules.patterns, r.pattern(item, fmt.Sprintf("patterns[%d]", i)))
		}
	}
	if rest := v.Get("default"); rest.IsNull() {
		r.bad(v, "default", "is missing")
	} else if r.object(rest, "default", "category", "retryable", "retry_policy") {
		rules.rest = r.class(rest, "default")
	}
	if len(r.problems) > 0 {
		return nil, invalid(r.problems)
	}
	return rules, nil
}

// A reader notes what is wrong.
type reader struct {
	problems   []*value.Problem
	ids        map[string]bool
	conditions int
}

func (r *reader) bad(v *value.Value, field, format string, args ...any) {
	p := &value.Problem{Field: field, Message: fmt.Sprintf(format, args...)}
	if v != nil {
		p.At = v.At
	}
	r.problems = append(r.problems, p)
}

func in(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// object reports whether a value is an object, which has no other than these keys.
func (r *reader) object(v *value.Value, field string, keys ...string) bool {
	if v == nil || v.Kind != value.Map {
		r.bad(v, field, "is no object")
		return false
	}
	r.keys(v, field, keys...)
	return true
}

func (r *reader) keys(v *value.Value, field string, keys ...string) {
	for _, e := range v.Map {
		if !slices.Contains(keys, e.Key) {
			r.bad(e.Value, field, "has the unknown key %q; there are %s", e.Key, strings.Join(keys, ", "))
		}
	}
}

// isID reports whether a pattern may be called s.
func isID(s string) bool {
	for i, c := range s {
		if letter := 'a' <= c|0x20 && c|0x20 <= 'z'; !letter && (i == 0 || !strings.ContainsRune("0123456789_-", c)) {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

func (r *reader) pattern(v *value.Value, field string) (p pattern) {
	if !r.object(v, field, "id", "name", "category", "retryable", "match", "retry_policy", "action") {
		return p
	}
	p.Class = r.class(v, field)
	p.ID = v.Get("id").String()
	switch {
	case !isID(p.ID):
		r.bad(v, in(field, "id"), "%q isn't a letter and up to 63 letters, digits, \"_\" and \"-\"", p.ID)
	case r.ids[p.ID]:
		r.bad(v, in(field, "id"), "%q is there twice", p.ID)
	}
	r.ids[p.ID] = true
	p.match = r.condition(v.Get("match"), in(field, "match"), 1)
	return p
}

var categories = []Category{Transient, RateLimited, Quota, Permanent, LimitHit, Budget, Cancelled}

// class reads what is said of the failures of a pattern.
func (r *reader) class(v *value.Value, field string) Class {
	c := Class{Category: Category(v.Get("category").String()), Policy: Policy{Type: "none"}}
	if !slices.Contains(categories, c.Category) {
		r.bad(v, in(field, "category"), "%q is none of %s", string(c.Category), strings.Trim(fmt.Sprint(categories), "[]"))
	}
	again := v.Get("retryable")
	if again == nil || again.Kind != value.Bool {
		r.bad(v, in(field, "retryable"), "is neither true nor false")
		return c
	}
	c.Retryable = again.Text == "true"
	if policy := v.Get("retry_policy"); !policy.IsNull() {
		c.Policy = r.policy(policy, in(field, "retry_policy"), true)
	}
	switch {
	case c.Policy.Type == "": // which has been told
	case c.Retryable && !slices.Contains(categories[:3], c.Category):
		r.bad(v, in(field, "retryable"), "what is %s isn't retryable", c.Category)
	case c.Retryable && c.Policy.Type == "none":
		r.bad(v, in(field, "retry_policy"), "doesn't say how long to wait, and it is retryable")
	case !c.Retryable && c.Policy.Type != "none":
		r.bad(v, in(field, "retry_policy"), "says how long to wait, and it isn't retryable")
	}
	return c
}

func (r *reader) policy(v *value.Value, field string, outer bool) Policy {
	var p Policy
	if v.Kind != value.Map {
		r.bad(v, field, "is no object")
		return p
	}
	keys := []string{"type"}
	switch p.Type = v.Get("type").String(); p.Type {
	case "none":
	case "exponential":
		keys = append(keys, "base", "max", "multiplier")
		p.Base, p.Max = r.seconds(v, field, "base", 0), r.seconds(v, field, "max", 120*time.Second)
		p.Multiplier = 2
		if m := v.Get("multiplier"); !m.IsNull() {
			if p.Multiplier = r.number(m, in(field, "multiplier")); p.Multiplier < 1 || p.Multiplier > 100 {
				r.bad(m, in(field, "multiplier"), "isn't between 1 and 100")
			}
		}
	case "fixed":
		keys = append(keys, "delay")
		p.Delay = r.seconds(v, field, "delay", 0)
	case "use_header":
		if !outer {
			r.bad(v, in(field, "type"), "use_header is no fallback")
			return p
		}
		keys = append(keys, "header", "fallback")
		if h := v.Get("header"); !h.IsNull() && !strings.EqualFold(h.String(), "retry-after") {
			r.bad(h, in(field, "header"), "%q isn't retry-after, the one that is read", h.Text)
		}
		inner := v.Get("fallback")
		if inner.IsNull() {
			r.bad(v, in(field, "fallback"), "is missing: it says how long to wait if the other side doesn't")
			break
		}
		fallback := r.policy(inner, in(field, "fallback"), false)
		if fallback.Type == "none" {
			r.bad(inner, in(field, "fallback"), "doesn't say how long to wait")
		}
		p.Fallback = &fallback
	default:
		r.bad(v, in(field, "type"), "%q is none of exponential, fixed, use_header, none", p.Type)
		return Policy{}
	}
	if outer && p.Type != "none" {
		keys = append(keys, "max_retries")
		if n := v.Get("max_retries"); !n.IsNull() {
			most, ok := n.Int()
			if !ok || most < 1 || most > maxTries {
				r.bad(n, in(field, "max_retries"), "isn't between 1 and %d", maxTries)
			}
			p.MaxRetries = int(most)
		}
	}
	r.keys(v, field, keys...)
	return p
}

// seconds reads a time; or is what holds if there is none, 0 if there has to be one.
func (r *reader) seconds(v *value.Value, field, name string, or time.Duration) time.Duration {
	n := v.Get(name)
	if n.IsNull() && or > 0 {
		return or
	}
	s := r.number(n, in(field, name))
	if s < 0 || s > maxWait.Seconds() {
		r.bad(v, in(field, name), "isn't between 0 and %.0f seconds", maxWait.Seconds())
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// number reads a number. An invalid one is reported once, and read as 1, which is within every bound.
func (r *reader) number(v *value.Value, field string) float64 {
	if v == nil || v.Kind != value.Int && v.Kind != value.Float {
		r.bad(v, field, "is no number")
		return 1
	}
	f, err := strconv.ParseFloat(v.Text, 64)
	if err != nil {
		return -1
	}
	return f
}

func (r *reader) condition(v *value.Value, field string, depth int) (c condition) {
	if r.conditions++; r.conditions > maxConditions || depth > maxDepth {
		if r.conditions == maxConditions+1 || depth > maxDepth {
			r.bad(v, field, "there are more than %d conditions, or they nest more than %d deep", maxConditions, maxDepth)
		}
		return c
	}
	if v == nil || v.Kind != value.Map {
		r.bad(v, field, "is no condition")
		return c
	}
	for _, join := range []string{"any", "all", "not"} {
		inner := v.Get(join)
		if inner == nil {
			continue
		}
		c.join = join
		r.keys(v, field, join)
		switch {
		case join == "not":
			c.of = []condition{r.condition(inner, in(field, join), depth+1)}
		case inner.Kind != value.List || len(inner.Items) == 0:
			r.bad(inner, in(field, join), "is no list of conditions")
		default:
			for i, item := range inner.Items {
				c.of = append(c.of, r.condition(item, fmt.Sprintf("%s[%d]", in(field, join), i), depth+1))
			}
		}
		return c
	}
	r.keys(v, field, "path", "op", "value")
	path := v.Get("path").String()
	c.path = strings.Split(path, ".")
	if slices.Contains(c.path, "") {
		r.bad(v, in(field, "path"), "%q is no path", path)
	}
	r.look(&c, v, field)
	return c
}

// look reads what a condition asks of what it finds.
func (r *reader) look(c *condition, v *value.Value, field string) {
	c.op = "eq"
	if op := v.Get("op"); op != nil {
		c.op = op.String()
	}
	want, err := v.Get("value").JSON()
	if err != nil {
		r.bad(v, in(field, "value"), "%v", err)
	}
	c.want = want
	s, isText := want.(string)
	_, isNumber := number(want)
	list, isList := want.([]any)
	switch c.op {
	case "eq", "ne":
	case "exists":
		if v.Get("value") != nil {
			r.bad(v, in(field, "value"), "is there, and exists has none")
		}
	case "in":
		if !isList || len(list) > maxPatterns {
			r.bad(v, in(field, "value"), "is no list of at most %d values", maxPatterns)
		}
	case "gt", "gte", "lt", "lte":
		if !isNumber && !isText {
			r.bad(v, in(field, "value"), "is neither a number nor a text")
		}
	case "contains", "regex":
		if !isText || s == "" || len(s) > maxValue {
			r.bad(v, in(field, "value"), "is no text of 1 to %d bytes", maxValue)
			return
		}
		if c.op == "regex" {
			if c.regex, err = regexp.Compile("(?i)" + s); err != nil {
				r.bad(v, in(field, "value"), "%v", err)
			}
		}
	default:
		r.bad(v, in(field, "op"), "%q is none of eq, ne, gt, gte, lt, lte, in, contains, regex, exists", c.op)
	}
}
