package shape

import (
	"cmp"
	"math"
	"strconv"
)

// A limit is one end of the range of numbers that a schema accepts.
type limit struct {
	v    float64
	open bool // v itself is not accepted
}

// limitOf returns the lower end of the range of "minimum" and "exclusiveMinimum" for sign 1, and the negated upper
// end for sign -1. It reports false if it doesn't understand them. Until draft 4, exclusiveMinimum was true or false.
func limitOf(object map[string]any, name, exclusive string, sign float64) (limit, bool) {
	found := limit{v: math.Inf(-1)}
	if v, ok := object[name]; ok {
		f, ok := v.(float64)
		if !ok {
			return found, false
		}
		found.v = sign * f
	}
	switch v := object[exclusive].(type) {
	case float64:
		if sign*v >= found.v {
			found = limit{sign * v, true}
		}
	case bool:
		found.open = v && object[name] != nil
	case nil:
		if _, ok := object[exclusive]; ok {
			return found, false
		}
	default:
		return found, false
	}
	return found, true
}

// above reports whether l excludes more than o.
func (l limit) above(o limit) bool { return l.v > o.v || l.v == o.v && l.open && !o.open }

// numbers compares the keywords about numbers.
func (c *comparer) numbers(path string, from, to map[string]any) (effect effect) {
	for _, end := range []struct {
		name, exclusive string
		sign            float64
	}{{"minimum", "exclusiveMinimum", 1}, {"maximum", "exclusiveMaximum", -1}} {
		a, ok := limitOf(from, end.name, end.exclusive, end.sign)
		b, ok2 := limitOf(to, end.name, end.exclusive, end.sign)
		if !ok || !ok2 {
			effect |= c.opaque(path, end.name, from, to) | c.opaque(path, end.exclusive, from, to)
			continue
		}
		name := end.name
		if c.equalMember(name, from, to) {
			name = end.exclusive
		}
		effect |= c.keyword(path, name, from, to, effects(b.above(a), a.above(b)))
	}
	return effect | c.multiples(path, from, to)
}

func (c *comparer) multiples(path string, from, to map[string]any) effect {
	const name = "multipleOf"
	a, ok := from[name].(float64)
	b, ok2 := to[name].(float64)
	if !ok || !ok2 || a <= 0 || b <= 0 {
		return c.constraint(path, name, from, to)
	}
	// Validators agree on division only for integers.
	integers := typeOf(a) == tInteger && typeOf(b) == tInteger
	return c.keyword(path, name, from, to, effects(a != b && !(integers && math.Mod(a, b) == 0), a != b &&
		!(integers && math.Mod(b, a) == 0)))
}

// bounds compares two keywords that bound the number of characters, elements or members.
func (c *comparer) bounds(path, least, most string, from, to map[string]any) (effect effect) {
	a, ok := count(from, least, 0)
	b, ok2 := count(to, least, 0)
	if ok && ok2 {
		effect = c.keyword(path, least, from, to, effects(a < b, b < a))
	} else {
		effect = c.opaque(path, least, from, to)
	}
	a, ok = count(from, most, math.Inf(1))
	b, ok2 = count(to, most, math.Inf(1))
	if ok && ok2 {
		return effect | c.keyword(path, most, from, to, effects(a > b, b > a))
	}
	return effect | c.opaque(path, most, from, to)
}

func count(m map[string]any, name string, absent float64) (float64, bool) {
	v, ok := m[name]
	if !ok {
		return absent, true
	}
	f, ok := v.(float64)
	return f, ok && f >= 0
}

// arrays compares the keywords about arrays, except "contains".
func (c *comparer) arrays(path string, l, r node, from, to map[string]any) effect {
	effect := c.bounds(path, "minItems", "maxItems", from, to)
	unique, ok := flag(from, "uniqueItems")
	unique2, ok2 := flag(to, "uniqueItems")
	if ok && ok2 {
		effect |= c.keyword(path, "uniqueItems", from, to, effects(unique2 && !unique, unique && !unique2))
	} else {
		effect |= c.opaque(path, "uniqueItems", from, to)
	}
	before, ok := elementsOf(l, from)
	after, ok2 := elementsOf(r, to)
	if !ok || !ok2 {
		return effect | c.opaque(path, "items", from, to) | c.opaque(path, "prefixItems", from, to) |
			c.opaque(path, "additionalItems", from, to)
	}
	longer := after
	if len(before.first) > len(after.first) {
		longer = before
	}
	for i := range longer.first {
		effect |= c.inside(path+longer.name+strconv.Itoa(i), before.at(i), after.at(i))
	}
	name := cmp.Or(after.restName, before.restName)
	if name == "" {
		return effect // both allow anything
	}
	return effect | c.inside(path+name, before.rest, after.rest)
}

func flag(m map[string]any, name string) (value, ok bool) {
	v, has := m[name]
	if !has {
		return false, true
	}
	value, ok = v.(bool)
	return value, ok
}

// elements are a schema's rules about the elements of arrays.
type elements struct {
	first          []any // one schema for each of the first elements
	rest           node
	self           node
	name, restName string // their keywords; restName is "" without a rule about the rest
}

// elementsOf reads "prefixItems" and "items", or "items" and "additionalItems" as before draft 2020-12.
func elementsOf(n node, m map[string]any) (elements, bool) {
	elements := elements{rest: n.anything(), self: n, name: "/prefixItems/"}
	prefix, hasPrefix := m["prefixItems"]
	rest, hasRest := m["items"]
	restName := "/items"
	if list, ok := rest.([]any); ok {
		if hasPrefix {
			return elements, false
		}
		elements.first, elements.name = list, "/items/"
		rest, hasRest = m["additionalItems"]
		restName = "/additionalItems"
	} else if hasPrefix {
		if elements.first, ok = prefix.([]any); !ok {
			return elements, false
		}
	}
	if hasRest {
		elements.rest, elements.restName = n.child(rest), restName
	}
	return elements, true
}

// at returns the schema of the i-th element.
func (e *elements) at(i int) node {
	if i < len(e.first) {
		return e.self.child(e.first[i])
	}
	return e.rest
}
