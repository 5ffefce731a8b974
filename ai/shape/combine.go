package shape

import (
	"maps"
	"slices"
	"strconv"
)

// parts compares "allOf": all of its schemas must hold.
func (c *comparer) parts(path string, l, r node, from, to map[string]any) effect {
	const name = "allOf"
	old, ok := c.schemas(l, from, name)
	now, ok2 := c.schemas(r, to, name)
	if !ok || !ok2 {
		return c.opaque(path, name, from, to)
	}
	if len(old)+len(now) == 0 {
		return 0
	}
	e := effects(!c.implied(old, l, now), !c.implied(now, r, old))
	if e != 0 && c.inOrder(old, now, e) {
		return c.each(path, name, old, now)
	}
	return c.keyword(path, name, from, to, e)
}

// implied reports whether each schema of wanted follows from a schema of given, or from whole, the schema that
// contains these.
func (c *comparer) implied(given []node, whole node, wanted []node) bool {
	for _, w := range wanted {
		if !c.anyWithin(given, w) && !c.within(whole, w) {
			return false
		}
	}
	return true
}

// anyWithin reports whether one of the schemas accepts nothing that w doesn't.
func (c *comparer) anyWithin(given []node, w node) bool {
	return slices.ContainsFunc(given, func(g node) bool { return c.within(g, w) })
}

// inOrder reports whether a report schema by schema is clearer: the effect is bad, and some schemas are unchanged in
// their place.
func (c *comparer) inOrder(old, now []node, e effect) bool {
	if len(old) != len(now) || c.quiet > 0 || c.section.class(e) != Breaking {
		return false
	}
	for i := range old {
		if c.alike(old[i], now[i]) {
			return true
		}
	}
	return false
}

// each compares the schemas of two lists pair by pair.
func (c *comparer) each(path, name string, old, now []node) (e effect) {
	for i := range old {
		e |= c.compare(path+"/"+name+"/"+strconv.Itoa(i), old[i], now[i])
	}
	return e
}

// schemas returns the schemas of a list; false if the list has an invalid element.
func (c *comparer) schemas(n node, m map[string]any, name string) ([]node, bool) {
	v, has := m[name]
	list, ok := v.([]any)
	if !has || !ok || len(list) == 0 {
		return nil, !has
	}
	c.spend(len(list))
	nodes := make([]node, len(list))
	for i, s := range list {
		nodes[i] = n.child(s)
	}
	return nodes, true
}

// union compares "anyOf" or "oneOf": at least one of its schemas holds, of oneOf exactly one. Both mean the same if
// the schemas of oneOf accept different types. Otherwise single schemas don't show what they accept together.
func (c *comparer) union(path, name string, node, item node, from, to map[string]any) effect {
	old, ok := c.schemas(node, from, name)
	now, ok2 := c.schemas(item, to, name)
	if !ok || !ok2 {
		return c.opaque(path, name, from, to)
	}
	if len(old)+len(now) == 0 {
		return 0
	}
	plainOld := name == "anyOf" || c.disjoint(old)
	plainNow := name == "anyOf" || c.disjoint(now)
	if !plainOld || !plainNow {
		if c.pairwise(old, now) {
			return 0
		}
	}
	e := effects(
		len(now) > 0 && !(plainNow && c.covered(c.branches(old, node, from), now)),
		len(old) > 0 && !(plainOld && c.covered(c.branches(now, item, to), old)))
	if e != 0 && plainOld && plainNow && c.inOrder(old, now, e) {
		return c.each(path, name, old, now)
	}
	return c.keyword(path, name, from, to, e)
}

// covered reports whether each of the schemas is within one of those of the union.
func (c *comparer) covered(branches, union []node) bool {
	for _, b := range branches {
		if !c.withinAny(b, union) {
			return false
		}
	}
	return true
}

func (c *comparer) withinAny(b node, union []node) bool {
	return slices.ContainsFunc(union, func(u node) bool { return c.within(b, u) })
}

// pairwise reports whether the schemas of two lists accept the same values, pair by pair.
func (c *comparer) pairwise(old, now []node) bool {
	if len(old) != len(now) {
		return false
	}
	for i := range old {
		if !c.alike(old[i], now[i]) {
			return false
		}
	}
	return true
}

// disjoint reports whether the schemas accept different types, so that no value matches two of them.
func (c *comparer) disjoint(list []node) bool {
	var seen typeSet
	for _, n := range list {
		t := c.types(n, 0)
		if seen&t != 0 {
			return false
		}
		seen |= t
	}
	return true
}

// branches returns schemas that together accept every value of n: those of its union, otherwise n once for each of
// its types.
func (c *comparer) branches(list []node, n node, object map[string]any) []node {
	if len(list) > 0 {
		return list
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		if list, ok := c.schemas(n, object, name); ok && len(list) > 0 {
			return list
		}
	}
	t := c.types(n, 0)
	for _, name := range []string{"null", "boolean", "string", "array", "object", "number"} {
		one := typeNames[name]
		if t&one == 0 {
			continue
		}
		if t&one == tInteger {
			name = "integer"
		}
		c.spend(len(object))
		part := maps.Clone(object)
		if part == nil {
			part = map[string]any{}
		}
		delete(part, "nullable")
		part["type"] = name
		list = append(list, node{v: part, root: n.root, side: n.side})
	}
	return list
}

// conditions compares the keywords that apply a schema to anything but the value, its members or its elements.
func (c *comparer) conditions(path string, node, item node, from, to map[string]any) (effect effect) {
	for _, name := range []string{"not", "if"} {
		effect |= c.applied(path, name, node, item, from, to, c.exactly)
	}
	for _, name := range []string{"then", "else", "propertyNames"} {
		effect |= c.applied(path, name, node, item, from, to, c.silently)
	}
	// The number of elements that must match can invert the meaning of "contains".
	contains := c.silently
	if from["minContains"] != nil || from["maxContains"] != nil || to["minContains"] != nil ||
		to["maxContains"] != nil {
		contains = c.exactly
	}
	effect |= c.applied(path, "contains", node, item, from, to, contains)
	effect |= c.opaque(path, "minContains", from, to) | c.opaque(path, "maxContains", from, to)
	for _, name := range []string{"format", "dependentRequired", "dependentSchemas", "dependencies"} {
		effect |= c.constraint(path, name, from, to)
	}
	// The scope of these depends on every other keyword.
	for _, name := range []string{"unevaluatedProperties", "unevaluatedItems"} {
		v, ok := from[name]
		w, ok2 := to[name]
		if (ok && v != true || ok2 && w != true) && !c.same(from, to) {
			effect |= c.keyword(path, name, from, to, changed)
		}
	}
	return effect
}

func (c *comparer) exactly(l, r node) effect {
	if c.alike(l, r) {
		return 0
	}
	return changed
}

// applied compares a keyword whose value is a schema and which can only exclude values.
func (c *comparer) applied(path, name string, l, r node, from, to map[string]any,
	compare func(l, r node) effect) effect {
	v, ok := from[name]
	w, ok2 := to[name]
	if !ok || !ok2 {
		return c.constraint(path, name, from, to)
	}
	return c.keyword(path, name, from, to, compare(l.child(v), r.child(w)))
}
