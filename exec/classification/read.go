package classification

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/manifest/condition"
)

const (
	maxPatterns = 256
	maxTries    = 100
	maxWait     = 24 * time.Hour
)

// Read reads a classification. Its error lists all problems.
func Read(v *value.Value) (*Rules, error) {
	r := &reader{ids: map[string]bool{}}
	rules := new(Rules)
	if !r.object(v, "", "schema_version", "patterns", "default", "extends", "operators", "combinators",
		"retry_policy_types",
		"name", "version", "category", "description") {
		return nil, invalid(r.Problems)
	}
	if s := v.Get("schema_version"); s != nil && !strings.HasPrefix(s.String(), "1.") {
		r.Bad(s, "schema_version", `%q is not supported: expected "1.…"`, s.Text)
	}
	list := v.Get("patterns")
	switch {
	case list == nil || list.Kind != value.List:
		r.Bad(v, "patterns", "expected a list")
	case len(list.Items) > maxPatterns:
		r.Bad(list, "patterns", "has %d entries; at most %d are allowed", len(list.Items), maxPatterns)
	default:
		for i, item := range list.Items {
			rules.patterns = append(rules.patterns, r.pattern(item, fmt.Sprintf("patterns[%d]", i)))
		}
	}
	if rest := v.Get("default"); r.object(rest, "default", "category", "retryable", "retry_policy") {
		rules.rest = r.class(rest, "default")
	}
	if len(r.Problems) > 0 {
		return nil, invalid(r.Problems)
	}
	return rules, nil
}

// A reader reads a classification and collects problems.
type reader struct {
	fields.Report
	ids map[string]bool
}

func in(field, name string) string { return field + "." + name }

// object reports whether a value is an object. Keys other than these are problems.
func (r *reader) object(v *value.Value, field string, keys ...string) bool {
	if v == nil || v.Kind != value.Map {
		r.Bad(v, field, "expected an object")
		return false
	}
	r.keys(v, field, keys...)
	return true
}

func (r *reader) keys(v *value.Value, field string, keys ...string) {
	for _, e := range v.Map {
		if !slices.Contains(keys, e.Key) {
			r.Bad(e.Value, field, "unknown key %q: expected one of %s", e.Key, strings.Join(keys, ", "))
		}
	}
}

// validID reports whether an id is a letter and at most 63 letters, digits, _ and -.
func validID(id string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	return id != "" && len(id) <= 64 && strings.Contains(letters, id[:1]) &&
		strings.Trim(id, letters+"0123456789_-") == ""
}

func (r *reader) pattern(v *value.Value, field string) (p pattern) {
	if !r.object(v, field, "id", "name", "category", "retryable", "match", "retry_policy", "action") {
		return p
	}
	p.Class = r.class(v, field)
	p.ID, p.Name = v.Get("id").String(), v.Get("name").String()
	switch {
	case !validID(p.ID):
		r.Bad(v, in(field, "id"), "invalid id %q: expected a letter, then at most 63 letters, digits, _ and -", p.ID)
	case r.ids[p.ID]:
		r.Bad(v, in(field, "id"), "%q is used twice", p.ID)
	}
	r.ids[p.ID] = true
	p.match = r.condition(v.Get("match"), in(field, "match"))
	return p
}

var categories = []Category{Transient, RateLimited, Quota, Permanent, LimitHit, Budget, Cancelled}

// class reads the class of a pattern or of the default.
func (r *reader) class(v *value.Value, field string) Class {
	c := Class{Category: Category(v.Get("category").String()), Policy: Policy{Type: "none"}}
	if !slices.Contains(categories, c.Category) {
		r.Bad(v, in(field, "category"), "invalid category %q: expected one of %s", string(c.Category),
			strings.Trim(fmt.Sprint(categories), "[]"))
	}
	again := v.Get("retryable")
	if again == nil || again.Kind != value.Bool {
		r.Bad(v, in(field, "retryable"), "expected true or false")
		return c
	}
	c.Retryable = again.Text == "true"
	if policy := v.Get("retry_policy"); !policy.IsNull() {
		c.Policy = r.policy(policy, in(field, "retry_policy"), true)
	}
	switch {
	case c.Policy.Type == "": // already reported
	case c.Retryable && !slices.Contains(categories[:3], c.Category):
		r.Bad(v, in(field, "retryable"), "a %s failure can't be retryable", c.Category)
	case c.Retryable && c.Policy.Type == "none":
		r.Bad(v, in(field, "retry_policy"), "must define a wait, because retryable is true")
	case !c.Retryable && c.Policy.Type != "none":
		r.Bad(v, in(field, "retry_policy"), "must be none, because retryable is false")
	}
	return c
}

func (r *reader) policy(v *value.Value, field string, outer bool) (p Policy) {
	if v.Kind != value.Map {
		r.Bad(v, field, "expected an object")
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
				r.Bad(m, in(field, "multiplier"), "must be between 1 and 100")
			}
		}
	case "fixed":
		keys = append(keys, "delay")
		p.Delay = r.seconds(v, field, "delay", 0)
	case "use_header":
		if !outer {
			r.Bad(v, in(field, "type"), "use_header can't be a fallback")
			return p
		}
		keys = append(keys, "header", "fallback")
		if h := v.Get("header"); !h.IsNull() && !strings.EqualFold(h.String(), "retry-after") {
			r.Bad(h, in(field, "header"), "%q is not supported: expected retry-after", h.Text)
		}
		inner := v.Get("fallback")
		if inner.IsNull() {
			r.Bad(v, in(field, "fallback"), "required: how long to wait without the header")
			break
		}
		fallback := r.policy(inner, in(field, "fallback"), false)
		if fallback.Type == "none" {
			r.Bad(inner, in(field, "fallback"), "must define a wait")
		}
		p.Fallback = &fallback
	default:
		r.Bad(v, in(field, "type"), "invalid type %q: expected exponential, fixed, use_header or none", p.Type)
		return Policy{}
	}
	if outer && p.Type != "none" {
		keys = append(keys, "max_retries")
		if n := v.Get("max_retries"); !n.IsNull() {
			most, ok := n.Int()
			if !ok || most < 1 || most > maxTries {
				r.Bad(n, in(field, "max_retries"), "must be between 1 and %d", maxTries)
			}
			p.MaxRetries = int(most)
		}
	}
	r.keys(v, field, keys...)
	return p
}

// seconds reads a duration. It may be missing if a default is given.
func (r *reader) seconds(v *value.Value, field, name string, otherwise time.Duration) time.Duration {
	n := v.Get(name)
	if n.IsNull() && otherwise > 0 {
		return otherwise
	}
	s := r.number(n, in(field, name))
	if s < 0 || s > maxWait.Seconds() {
		r.Bad(v, in(field, name), "must be between 0 and %.0f seconds", maxWait.Seconds())
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// number reads a number. It reports an invalid one and returns 1, which is within every bound.
func (r *reader) number(v *value.Value, field string) float64 {
	if v == nil || v.Kind != value.Int && v.Kind != value.Float {
		r.Bad(v, field, "expected a number")
		return 1
	}
	f, err := strconv.ParseFloat(v.Text, 64)
	if err != nil {
		return -1
	}
	return f
}

// condition reads the condition of a pattern.
func (r *reader) condition(v *value.Value, field string) *condition.Condition {
	if v == nil {
		r.Bad(v, field, "expected a condition")
		return nil
	}
	doc, err := v.JSON()
	if err != nil {
		r.Bad(v, field, "%v", err)
		return nil
	}
	c, problems := condition.Read(doc)
	for _, p := range problems {
		r.Bad(v, strings.TrimSuffix(in(field, p.Field), "."), "%s", p.Message)
	}
	return c
}
