package shape

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"github.com/rye-build/rye/manifest/jcs"
)

// A section is one of the three schemas of an interface.
type section uint8

const (
	input section = iota
	output
	failure // "error"
)

func (s section) String() string { return [...]string{"input", "output", "error"}[s] }

// An effect is how the set of accepted values changes.
type effect uint8

const (
	narrowed effect = 1 << iota // a value that was accepted may no longer be
	widened                     // a value that wasn't accepted may be now
	changed  = narrowed | widened
)

func (e effect) String() string { return [...]string{"equal", "narrowed", "widened", "changed"}[e] }

// effects returns the effect of two failed inclusions: of the old values in the new ones, and the reverse.
func effects(isNarrowed, isWidened bool) (e effect) {
	if isNarrowed {
		e = narrowed
	}
	if isWidened {
		e |= widened
	}
	return e
}

// class returns the class of an effect for callers, who send the input and rely on the output.
func (s section) class(e effect) Class {
	if s == input && e == widened || s != input && e == narrowed || e == 0 {
		return Compatible
	}
	return Breaking
}

const (
	maxWork  = 1 << 17 // steps of one comparison, a bound for hostile schemas
	maxDepth = 128     // of nested schemas, including referenced ones
)

// A pair is two schemas under comparison, recorded because references led to both.
type pair struct {
	left, right string
	side        uint8 // of the left one
}

// A mark is the comparer's state when the comparison of a pair began.
type mark struct{ descents, exact int }

// A comparer compares two schemas. It always returns the effect on the set of values, or more than that. Its reports,
// unless it is quiet, follow the rules of the section.
type comparer struct {
	section  section
	items    []Item
	quiet    int // number of enclosing comparisons that want only the effect
	exact    int // number of those that need both directions
	work     int
	depth    int
	descents int // number of steps into values that led here
	open     map[pair]mark
}

// diffSchemas compares two schemas of a section; nil is no schema.
func diffSchemas(section section, before, after any) []Item {
	path := "/" + section.String()
	from, err := jcs.Append(nil, before)
	to, err2 := jcs.Append(nil, after)
	if err != nil || err2 != nil {
		return unjudged(path, before, after)
	}
	if bytes.Equal(from, to) {
		return nil
	}
	comparer := &comparer{section: section, open: map[pair]mark{}}
	left, errLeft := document(from, 0)
	right, errRight := document(to, 1)
	switch {
	case errLeft != nil || errRight != nil:
		return unjudged(path, before, after)
	case before == nil || after == nil:
		i := Item{Kind: "schema_added", Path: path, To: raw(after),
			Class: section.class(comparer.silently(left, right))}
		if after == nil {
			i.Kind, i.From, i.To = "schema_removed", raw(before), nil
		}
		return []Item{i}
	}
	comparer.compare(path, left, right)
	if comparer.work > maxWork {
		return append(comparer.items, Item{Kind: "undecided", Path: path, Class: Breaking})
	}
	return comparer.items
}

// document parses a schema again, so that it consists of the types of package jcs and shares nothing.
func document(text []byte, side uint8) (node, error) {
	v, err := jcs.Parse(text)
	if v == nil {
		v = true // a missing schema allows everything
	}
	return node{v: v, root: v, side: side}, err
}

// spend counts n steps and reports whether the bound is exceeded.
func (c *comparer) spend(n int) bool {
	c.work += n
	return c.work > maxWork
}

// add reports an item about the values from and to. After too much work it reports nothing, because "undecided"
// covers everything.
func (c *comparer) add(kind, path string, from, to any, class Class) {
	if c.quiet > 0 || c.spend(1) {
		return
	}
	i := Item{Kind: kind, Path: path, Class: class}
	for _, v := range []struct {
		to  *json.RawMessage
		any any
	}{{&i.From, from}, {&i.To, to}} {
		if v.any != nil {
			text, err := jcs.Append(nil, v.any)
			c.spend(len(text) / 32)
			*v.to = shorten(text, err)
		}
	}
	c.items = append(c.items, i)
}

// keyword reports the effect of one keyword and returns it.
func (c *comparer) keyword(path, name string, l, r map[string]any, e effect) effect {
	if e != 0 && c.quiet == 0 {
		c.add(name+"_"+e.String(), path+"/"+escape(name), l[name], r[name], c.section.class(e))
	}
	return e
}

// silently returns the effect of replacing l by r, without reports.
func (c *comparer) silently(l, r node) effect {
	c.quiet++
	defer func() { c.quiet-- }()
	return c.compare("", l, r)
}

// within reports whether r accepts all values of l.
func (c *comparer) within(l, r node) bool { return c.silently(l, r)&narrowed == 0 }

// alike reports whether l and r accept the same values.
func (c *comparer) alike(l, r node) bool {
	c.exact++
	defer func() { c.exact-- }()
	return c.silently(l, r) == 0
}

// inside compares schemas of members or elements of the values.
func (c *comparer) inside(path string, l, r node) effect {
	c.descents++
	defer func() { c.descents-- }()
	return c.compare(path, l, r)
}

// compare reports the changes from left to right and returns their effect.
func (c *comparer) compare(path string, left, right node) effect {
	c.depth++
	defer func() { c.depth-- }()
	if c.spend(1) {
		return changed
	}
	if c.depth > maxDepth {
		return c.undecided(path, left, right)
	}
	c.annotations(path, left.v, right.v)
	resolvedLeft, ok := c.resolve(left)
	resolvedRight, ok2 := c.resolve(right)
	switch {
	case !ok && !ok2 && external(left.v) != "" && external(left.v) == external(right.v):
		return 0
	case !ok || !ok2:
		return c.undecided(path, left, right)
	}
	if resolvedLeft.ref != "" && resolvedRight.ref != "" {
		p := pair{resolvedLeft.ref, resolvedRight.ref, resolvedLeft.side}
		if m, ok := c.open[p]; ok {
			// The pair contains itself, so the running comparison of the pair finds its changes. That holds only if
			// each round looks at fewer values, and if the running comparison asks for no less than this one.
			if m.descents < c.descents && m.exact == c.exact {
				return 0
			}
			return c.undecided(path, left, right)
		}
		c.open[p] = mark{c.descents, c.exact}
		defer delete(c.open, p)
	}
	if resolvedLeft.v == false || resolvedRight.v == false {
		e := effects(resolvedLeft.v != false, resolvedRight.v != false)
		if e != 0 {
			c.add("schema_"+e.String(), path, left.v, right.v, c.section.class(e))
		}
		return e
	}
	if anything(resolvedLeft.v) && anything(resolvedRight.v) {
		return 0 // a comparison of their members would not end
	}
	return c.keywords(path, resolvedLeft, resolvedRight)
}

// anything reports whether a schema is true or {}.
func anything(v any) bool {
	m, isObject := v.(map[string]any)
	return v == true || isObject && len(m) == 0
}

// undecided reports that l and r can't be compared.
func (c *comparer) undecided(path string, l, r node) effect {
	c.add("undecided", path, l.v, r.v, Breaking)
	return changed
}

// external returns the reference of a schema that consists only of a reference to another document.
func external(v any) string {
	m, _ := v.(map[string]any)
	ref, _ := m["$ref"].(string)
	if _, alone := wrapped(m); !alone || ref == "" || ref[0] == '#' {
		return ""
	}
	return ref
}

// annotations reports changes without effect on values.
func (c *comparer) annotations(path string, l, r any) {
	if c.quiet > 0 {
		return
	}
	from, _ := l.(map[string]any)
	to, _ := r.(map[string]any)
	for _, name := range names(from, to) {
		if !isAnnotation(name) || name == "$defs" || name == "definitions" || c.equalMember(name, from, to) {
			continue
		}
		class := Info
		if name == "$schema" {
			class = Warning
		}
		c.add(name+"_changed", path+"/"+escape(name), from[name], to[name], class)
	}
}

// keywords compares two schemas that are neither references nor false.
func (c *comparer) keywords(path string, node, item node) effect {
	from, _ := node.v.(map[string]any)
	to, _ := item.v.(map[string]any)
	if c.spend(len(from) + len(to)) {
		return changed
	}
	effect := c.typesAndValues(path, node, item, from, to)
	both := c.types(node, 0) & c.types(item, 0)
	if both&tNumber != 0 {
		effect |= c.numbers(path, from, to)
	}
	if both&tString != 0 {
		effect |= c.bounds(path, "minLength", "maxLength", from, to)
		for _, name := range []string{"pattern", "contentEncoding", "contentMediaType", "contentSchema"} {
			effect |= c.constraint(path, name, from, to)
		}
	}
	if both&tArray != 0 {
		effect |= c.arrays(path, node, item, from, to)
	}
	if both&tObject != 0 {
		effect |= c.objects(path, node, item, from, to)
	}
	effect |= c.parts(path, node, item, from, to)
	effect |= c.union(path, "anyOf", node, item, from, to)
	effect |= c.union(path, "oneOf", node, item, from, to)
	effect |= c.conditions(path, node, item, from, to)
	for _, name := range names(from, to) {
		if !known()[name] && !isAnnotation(name) {
			effect |= c.opaque(path, name, from, to)
		}
	}
	return effect
}

// known has the keywords that are compared by meaning; others are opaque.
var known = sync.OnceValue(func() map[string]bool {
	m := map[string]bool{}
	for _, name := range []string{"type", "nullable", "enum", "const",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
		"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType", "contentSchema",
		"items", "prefixItems", "additionalItems", "unevaluatedItems", "minItems", "maxItems", "uniqueItems",
		"contains", "minContains", "maxContains",
		"properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames",
		"required",
		"minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies",
		"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref"} {
		m[name] = true
	}
	return m
})

// typesAndValues compares "type", "nullable", "enum" and "const".
func (c *comparer) typesAndValues(path string, node, item node, from, to map[string]any) (effect effect) {
	old, ok := c.values(from)
	now, ok2 := c.values(to)
	if !ok || !ok2 {
		return c.opaque(path, "enum", from, to) | c.opaque(path, "const", from, to) |
			c.opaque(path, "type", from, to) | c.opaque(path, "nullable", from, to)
	}
	if old != nil || now != nil {
		name := "enum"
		if from[name] == nil && to[name] == nil {
			name = "const"
		}
		effect = c.keyword(path, name, from, to, effects(now != nil && (old == nil || !subset(old, now)), old != nil &&
			(now == nil || !subset(now, old))))
		if old != nil && now != nil {
			return effect // the values determine the types
		}
	}
	if c.equalMember("type", from, to) && c.equalMember("nullable", from, to) {
		return effect
	}
	_, ok = c.declared(from)
	_, ok2 = c.declared(to)
	if !ok || !ok2 || !c.equalMember("nullable", from, to) && (from["type"] == nil || to["type"] == nil) {
		return effect | c.opaque(path, "type", from, to) | c.opaque(path, "nullable", from, to)
	}
	t, u := c.types(node, 0), c.types(item, 0)
	return effect | c.keyword(path, "type", from, to, effects(t&^u != 0, u&^t != 0))
}

func (c *comparer) equalMember(name string, from, to map[string]any) bool {
	a, ok := from[name]
	b, ok2 := to[name]
	return ok == ok2 && c.same(a, b)
}

func subset(a, b map[string]any) bool {
	for v := range a {
		if _, ok := b[v]; !ok {
			return false
		}
	}
	return true
}

// same reports whether two values are equal and mean the same: an equal reference may lead to another schema.
func (c *comparer) same(left, right any) bool {
	if c.spend(1) {
		return false
	}
	switch a := left.(type) {
	case []any:
		b, ok := right.([]any)
		return ok && slices.EqualFunc(a, b, c.same)
	case map[string]any:
		b, ok := right.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, v := range a {
			w, ok := b[name]
			if !ok || name == "$ref" || name == "$dynamicRef" || !c.same(v, w) {
				return false
			}
		}
		return true
	}
	switch right.(type) {
	case []any, map[string]any:
		return false
	}
	return left == right
}

// opaque compares an unknown keyword: any change counts.
func (c *comparer) opaque(path, name string, from, to map[string]any) effect {
	a, ok := from[name]
	b, ok2 := to[name]
	if ok == ok2 && c.same(a, b) {
		return 0
	}
	return c.keyword(path, name, from, to, changed)
}

// constraint compares a keyword that can only exclude values.
func (c *comparer) constraint(path, name string, from, to map[string]any) effect {
	_, ok := from[name]
	_, ok2 := to[name]
	if ok != ok2 {
		return c.keyword(path, name, from, to, effects(ok2, ok))
	}
	return c.opaque(path, name, from, to)
}
