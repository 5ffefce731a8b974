package shape

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/manifest/jcs"
)

// A node is a schema and the document that resolves its references.
type node struct {
	v    any // as written: an object, true or false
	root any
	side uint8  // which of the two documents root is
	ref  string // the reference that was followed to get here
}

// child returns a schema below n.
func (n node) child(v any) node { return node{v: v, root: n.root, side: n.side} }

// with returns n with its schema replaced.
func (n node) with(v any) node {
	n.v = v
	return n
}

// anything is the schema true.
func (n node) anything() node { return n.child(true) }

// annotations are the keywords that don't affect which values are valid. References into "$defs" and "definitions"
// are resolved elsewhere.
var annotations = map[string]bool{
	"title": true, "description": true, "default": true, "examples": true, "example": true, "deprecated": true,
	"readOnly": true, "writeOnly": true, "$comment": true, "$defs": true, "definitions": true, "$schema": true,
}

// isAnnotation reports whether a keyword is an annotation. "x-type" is rye's own keyword; other extensions are hints.
func isAnnotation(keyword string) bool {
	return annotations[keyword] || strings.HasPrefix(keyword, "x-") && keyword != "x-type"
}

// maxRefs is the longest chain of references.
const maxRefs = 16

// resolve follows references, and wrappers of a single schema, to the schema that they mean: true, false or an object
// without "$ref". It reports false if no such schema exists.
func (c *comparer) resolve(n node) (node, bool) {
	for range maxRefs {
		object, isObject := n.v.(map[string]any)
		if _, isBool := n.v.(bool); !isObject {
			return n, isBool
		}
		c.spend(len(object))
		inner, alone := wrapped(object)
		ref, isRef := object["$ref"].(string)
		switch {
		case object["$ref"] != nil && !isRef:
			return n, false
		case isRef && alone:
			target, ok := lookup(n.root, ref)
			if !ok {
				return n, false
			}
			n.v, n.ref = target, ref
		case isRef:
			// The keywords next to the reference hold too.
			object = maps.Clone(object)
			delete(object, "$ref")
			all, ok := object["allOf"].([]any)
			if object["allOf"] != nil && !ok {
				return n, false
			}
			object["allOf"] = append(slices.Clone(all), map[string]any{"$ref": ref})
			return n.with(object), true
		case alone:
			n.v = inner
		default:
			return n, true
		}
	}
	return n, false
}

// wrapped reports whether m means the same as one schema inside it: a reference (inner is nil), or the only schema of
// an allOf, anyOf or oneOf.
func wrapped(m map[string]any) (inner any, alone bool) {
	for keyword, val := range m {
		if isAnnotation(keyword) {
			continue
		}
		if alone {
			return nil, false
		}
		switch keyword {
		case "$ref":
			alone = true
		case "allOf", "anyOf", "oneOf":
			list, _ := val.([]any)
			if len(list) != 1 {
				return nil, false
			}
			inner, alone = list[0], true
		default:
			return nil, false
		}
	}
	return inner, alone
}

// lookup returns the value in root that the JSON pointer in the fragment of ref points to.
func lookup(root any, ref string) (any, bool) {
	pointer, ok := strings.CutPrefix(ref, "#")
	pointer, err := url.PathUnescape(pointer)
	if !ok || err != nil || pointer != "" && pointer[0] != '/' {
		return nil, false
	}
	if pointer == "" {
		return root, true
	}
	for _, token := range strings.Split(pointer[1:], "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch v := root.(type) {
		case map[string]any:
			if root, ok = v[token]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != token {
				return nil, false
			}
			root = v[i]
		default:
			return nil, false
		}
	}
	return root, true
}

// A typeSet is the set of JSON types that a schema accepts.
type typeSet uint8

const (
	tNull typeSet = 1 << iota
	tBoolean
	tInteger
	tFraction // a number that isn't an integer
	tString
	tArray
	tObject

	tNumber = tInteger | tFraction
	tAll    = 1<<7 - 1
)

var typeNames = map[string]typeSet{
	"null": tNull, "boolean": tBoolean, "integer": tInteger, "number": tNumber, "string": tString, "array": tArray,
	"object": tObject,
}

func typeOf(v any) typeSet {
	switch v := v.(type) {
	case nil:
		return tNull
	case bool:
		return tBoolean
	case float64:
		if v == float64(int64(v)) || v > 1<<53 || v < -1<<53 {
			return tInteger
		}
		return tFraction
	case string:
		return tString
	case []any:
		return tArray
	}
	return tObject
}

// declared returns the types of "type" and "nullable"; false if it doesn't understand them.
func (c *comparer) declared(object map[string]any) (typeSet, bool) {
	v, ok := object["type"]
	if !ok {
		return tAll, true
	}
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	c.spend(len(list))
	var typeSet typeSet
	for _, e := range list {
		name, _ := e.(string)
		one, ok := typeNames[name]
		if !ok {
			return tAll, false
		}
		typeSet |= one
	}
	if object["nullable"] == true {
		typeSet |= tNull
	}
	return typeSet, true
}

// maxTypes is the depth to which types looks into unions.
const maxTypes = 6

// types returns a set that includes the types of all values that n accepts. It is as small as a quick look can make
// it.
func (c *comparer) types(n node, depth int) typeSet {
	n, ok := c.resolve(n)
	if !ok || depth == maxTypes || c.spend(1) {
		return tAll
	}
	object, isObject := n.v.(map[string]any)
	if !isObject {
		if n.v == false {
			return 0
		}
		return tAll
	}
	set, _ := c.declared(object)
	if list, ok := c.values(object); ok && list != nil {
		set = 0
		for _, v := range list {
			set |= typeOf(v)
		}
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if list, _ := object[keyword].([]any); len(list) > 0 {
			var union typeSet
			for _, branch := range list {
				union |= c.types(n.child(branch), depth+1)
			}
			set &= union
		}
	}
	if list, ok := object["allOf"].([]any); ok {
		for _, part := range list {
			set &= c.types(n.child(part), depth+1)
		}
	}
	return set
}

// values returns the values of "enum" and "const" that have a declared type, by their JSON forms; nil without both
// keywords, and false if it doesn't understand them.
func (c *comparer) values(object map[string]any) (map[string]any, bool) {
	enum, hasEnum := object["enum"]
	constant, hasConst := object["const"]
	if !hasEnum && !hasConst {
		return nil, true
	}
	list, isList := enum.([]any)
	if hasEnum && !isList {
		return nil, false
	}
	if !hasEnum {
		list = []any{constant}
	}
	typeSet, ok := c.declared(object)
	if !ok {
		return nil, false
	}
	only, _ := jcs.Append(nil, constant)
	found := make(map[string]any, len(list))
	for _, v := range list {
		text, err := jcs.Append(nil, v)
		if c.spend(1+len(text)/32) || err != nil {
			return nil, false
		}
		if typeSet&typeOf(v) != 0 && (!hasConst || string(text) == string(only)) {
			found[string(text)] = v
		}
	}
	return found, true
}

// names returns the sorted keys of both maps.
func names[V any](a, b map[string]V) []string {
	all := make([]string, 0, len(a)+len(b))
	all = slices.AppendSeq(all, maps.Keys(a))
	for name := range b {
		if _, ok := a[name]; !ok {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// escape returns name as a token of a JSON pointer.
func escape(name string) string { return escaper.Replace(name) }
