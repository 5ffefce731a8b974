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
func Read(val *value.Value) (*Rules, error) {
	reader := &reader{ids: map[string]bool{}}
	rules := new(Rules)
	if !reader.object(val, "", "schema_version", "patterns", "default", "extends", "operators", "combinators",
		"retry_policy_types",
		"name", "version", "category", "description") {
		return nil, invalid(reader.Problems)
	}
	if s := val.Get("schema_version"); s != nil && !strings.HasPrefix(s.String(), "1.") {
		reader.Bad(s, "schema_version", `%q is not supported: expected "1.…"`, s.Text)
	}
	list := val.Get("patterns")
	switch {
	case list == nil || list.Kind != value.List:
		reader.Bad(val, "patterns", "expected a list")
	case len(list.Items) > maxPatterns:
		reader.Bad(list, "patterns", "has %d entries; at most %d are allowed", len(list.Items), maxPatterns)
	default:
		for i, item := range list.Items {
			rules.patterns = append(rules.patterns, reader.pattern(item, fmt.Sprintf("patterns[%d]", i)))
		}
	}
	if rest := val.Get("default"); reader.object(rest, "default", "category", "retryable", "retry_policy") {
		rules.rest = reader.class(rest, "default")
	}
	if len(reader.Problems) > 0 {
		return nil, invalid(reader.Problems)
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

func (r *reader) pattern(val *value.Value, field string) (pattern pattern) {
	if !r.object(val, field, "id", "name", "category", "retryable", "match", "retry_policy", "action") {
		return pattern
	}
	pattern.Class = r.class(val, field)
	pattern.ID, pattern.Name = val.Get("id").String(), val.Get("name").String()
	switch {
	case !validID(pattern.ID):
		r.Bad(val, in(field, "id"), "invalid id %q: expected a letter, then at most 63 letters, digits, _ and -",
			pattern.ID)
	case r.ids[pattern.ID]:
		r.Bad(val, in(field, "id"), "%q is used twice", pattern.ID)
	}
	r.ids[pattern.ID] = true
	pattern.match = r.condition(val.Get("match"), in(field, "match"))
	return pattern
}

var categories = []Category{Transient, RateLimited, Quota, Permanent, LimitHit, Budget, Cancelled}

// class reads the class of a pattern or of the default.
func (r *reader) class(val *value.Value, field string) Class {
	class := Class{Category: Category(val.Get("category").String()), Policy: Policy{Type: "none"}}
	if !slices.Contains(categories, class.Category) {
		r.Bad(val, in(field, "category"), "invalid category %q: expected one of %s", string(class.Category),
			strings.Trim(fmt.Sprint(categories), "[]"))
	}
	again := val.Get("retryable")
	if again == nil || again.Kind != value.Bool {
		r.Bad(val, in(field, "retryable"), "expected true or false")
		return class
	}
	class.Retryable = again.Text == "true"
	if policy := val.Get("retry_policy"); !policy.IsNull() {
		class.Policy = r.policy(policy, in(field, "retry_policy"), true)
	}
	switch {
	case class.Policy.Type == "": // already reported
	case class.Retryable && !slices.Contains(categories[:3], class.Category):
		r.Bad(val, in(field, "retryable"), "a %s failure can't be retryable", class.Category)
	case class.Retryable && class.Policy.Type == "none":
		r.Bad(val, in(field, "retry_policy"), "must define a wait, because retryable is true")
	case !class.Retryable && class.Policy.Type != "none":
		r.Bad(val, in(field, "retry_policy"), "must be none, because retryable is false")
	}
	return class
}

func (r *reader) policy(val *value.Value, field string, outer bool) (policy Policy) {
	if val.Kind != value.Map {
		r.Bad(val, field, "expected an object")
		return policy
	}
	keys := []string{"type"}
	switch policy.Type = val.Get("type").String(); policy.Type {
	case "none":
	case "exponential":
		keys = append(keys, "base", "max", "multiplier")
		policy.Base, policy.Max = r.seconds(val, field, "base", 0), r.seconds(val, field, "max", 120*time.Second)
		policy.Multiplier = 2
		if m := val.Get("multiplier"); !m.IsNull() {
			if policy.Multiplier = r.number(m, in(field, "multiplier")); policy.Multiplier < 1 ||
				policy.Multiplier > 100 {
				r.Bad(m, in(field, "multiplier"), "must be between 1 and 100")
			}
		}
	case "fixed":
		keys = append(keys, "delay")
		policy.Delay = r.seconds(val, field, "delay", 0)
	case "use_header":
		if !outer {
			r.Bad(val, in(field, "type"), "use_header can't be a fallback")
			return policy
		}
		keys = append(keys, "header", "fallback")
		if h := val.Get("header"); !h.IsNull() && !strings.EqualFold(h.String(), "retry-after") {
			r.Bad(h, in(field, "header"), "%q is not supported: expected retry-after", h.Text)
		}
		inner := val.Get("fallback")
		if inner.IsNull() {
			r.Bad(val, in(field, "fallback"), "required: how long to wait without the header")
			break
		}
		fallback := r.policy(inner, in(field, "fallback"), false)
		if fallback.Type == "none" {
			r.Bad(inner, in(field, "fallback"), "must define a wait")
		}
		policy.Fallback = &fallback
	default:
		r.Bad(val, in(field, "type"), "invalid type %q: expected exponential, fixed, use_header or none", policy.Type)
		return Policy{}
	}
	if outer && policy.Type != "none" {
		keys = append(keys, "max_retries")
		if n := val.Get("max_retries"); !n.IsNull() {
			most, ok := n.Int()
			if !ok || most < 1 || most > maxTries {
				r.Bad(n, in(field, "max_retries"), "must be between 1 and %d", maxTries)
			}
			policy.MaxRetries = int(most)
		}
	}
	r.keys(val, field, keys...)
	return policy
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
func (r *reader) condition(val *value.Value, field string) *condition.Condition {
	if val == nil {
		r.Bad(val, field, "expected a condition")
		return nil
	}
	doc, err := val.JSON()
	if err != nil {
		r.Bad(val, field, "%v", err)
		return nil
	}
	c, problems := condition.Read(doc)
	for _, p := range problems {
		r.Bad(val, strings.TrimSuffix(in(field, p.Field), "."), "%s", p.Message)
	}
	return c
}
