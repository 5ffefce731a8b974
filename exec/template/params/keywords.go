package params

import (
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// keywords is the state of reading one schema.
type keywords struct {
	c     *compiler
	n     *node
	m     map[string]any
	at    string
	depth int

	exclusiveMin, exclusiveMax, nullable bool // as in early drafts
}

func (k *keywords) errorf(key, format string, args ...any) error {
	return badSchema(pointer(k.at, key), format, args...)
}

// annotations lists the keywords that don't constrain values.
var annotations = map[string]bool{
	"title": true, "examples": true, "example": true, "format": true, "deprecated": true, "readOnly": true,
	"writeOnly": true,
	"$comment":  true, "$schema": true, "$id": true, "contentEncoding": true, "contentMediaType": true,
}

func (k *keywords) keyword(key string, val any) (err error) {
	n := k.n
	switch key {
	case "type":
		n.types, err = k.typeSet(val)
	case "enum":
		list, ok := val.([]any)
		if !ok || len(list) == 0 {
			return k.errorf(key, "expected a list of values")
		}
		if !n.isOne {
			n.enum = list
		}
	case "const":
		// With an enum both apply: the enum goes into allOf.
		if list, ok := k.m["enum"].([]any); ok {
			both := newNode()
			both.enum = list
			n.all = append(n.all, both)
		}
		n.enum, n.isOne = []any{val}, true
	case "nullable":
		k.nullable, err = k.boolean(key, val)
	case "default":
		n.fallback, n.hasDefault = val, true
	case "description":
		n.description, _ = val.(string)
	case "$defs", "definitions":
		_, err = k.schemas(key, val)
	case "$ref":
		ref, ok := val.(string)
		if !ok {
			return k.errorf(key, "expected a string")
		}
		n.ref, err = k.c.resolve(pointer(k.at, key), ref, k.depth)
	case "allOf", "anyOf", "oneOf":
		var list []*node
		if list, err = k.list(key, val); err == nil {
			switch key {
			case "allOf":
				n.all = append(n.all, list...)
			case "anyOf":
				n.any = list
			default:
				n.one = list
			}
		}
	default:
		return k.typed(key, val)
	}
	return err
}

// typed reads the keywords for subschemas, and those for values of one type.
func (k *keywords) typed(key string, val any) (err error) {
	n := k.n
	if into := map[string]**node{"not": &n.not, "if": &n.when, "then": &n.then, "else": &n.els,
		"additionalProperties": &n.additional,
		"propertyNames":        &n.names, "contains": &n.contains}[key]; into != nil {
		*into, err = k.sub(key, val)
		return err
	}
	switch key {
	case "properties":
		n.properties, err = k.schemas(key, val)
	case "patternProperties":
		err = k.patterns(key, val)
	case "required":
		if _, early := val.(bool); early {
			return nil // on a property, as in an early draft
		}
		n.required, err = k.strings(key, val)
	case "dependentRequired":
		err = k.dependent(key, val)
	case "items":
		if _, early := val.([]any); early {
			n.prefix, err = k.list(key, val)
		} else {
			n.items, err = k.sub(key, val)
		}
	case "prefixItems":
		n.prefix, err = k.list(key, val)
	case "additionalItems":
		if _, early := k.m["items"].([]any); early {
			n.items, err = k.sub(key, val)
		}
	case "uniqueItems":
		n.unique, err = k.boolean(key, val)
	case "pattern":
		text, ok := val.(string)
		if !ok {
			return k.errorf(key, "expected a string")
		}
		n.pattern, err = k.compile(key, text)
	default:
		return k.bound(key, val)
	}
	return err
}

// bound reads the keywords with numbers.
func (k *keywords) bound(key string, val any) error {
	n := k.n
	if into := map[string]*int{"minProperties": &n.minProps, "maxProperties": &n.maxProps, "minItems": &n.minItems,
		"maxItems":  &n.maxItems,
		"minLength": &n.minLen, "maxLength": &n.maxLen, "minContains": &n.minMatch,
		"maxContains": &n.maxMatch}[key]; into != nil {
		f, ok := val.(float64)
		if !ok || typeOf(f) != tInteger || f < 0 || f > 1<<53 {
			return k.errorf(key, "expected an integer of at least 0")
		}
		*into = int(min(f, 1<<31-1))
		return nil
	}
	if into := map[string]**float64{"minimum": &n.min, "maximum": &n.max, "exclusiveMinimum": &n.above,
		"exclusiveMaximum": &n.below,
		"multipleOf":       &n.multiple}[key]; into != nil {
		number, ok := val.(float64)
		if early, isBool := val.(bool); isBool && key == "exclusiveMinimum" {
			k.exclusiveMin = early
			return nil
		} else if isBool && key == "exclusiveMaximum" {
			k.exclusiveMax = early
			return nil
		}
		if !ok || key == "multipleOf" && number <= 0 {
			return k.errorf(key, "expected a number")
		}
		*into = &number
		return nil
	}
	if annotations[key] || strings.HasPrefix(key, "x-") {
		return nil
	}
	return k.errorf(key, "unsupported keyword %q", key)
}

// finish combines keywords that depend on each other.
func (k *keywords) finish() {
	n := k.n
	if k.exclusiveMin {
		n.min, n.above = nil, n.min
	}
	if k.exclusiveMax {
		n.max, n.below = nil, n.max
	}
	if k.nullable && n.types != 0 {
		n.types |= tNull
	}
}

func (k *keywords) typeSet(v any) (types, error) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var set types
	for _, name := range list {
		i := slices.Index(typeNames[:], fmt.Sprint(name))
		if _, isString := name.(string); i < 0 || !isString {
			return 0, k.errorf("type", "expected one of %s", strings.Join(typeNames[:], ", "))
		}
		set |= 1 << i
	}
	if set == 0 {
		return 0, k.errorf("type", "expected at least one type")
	}
	if set&tNumber != 0 {
		set |= tInteger
	}
	return set, nil
}

func (k *keywords) boolean(key string, v any) (bool, error) {
	b, ok := v.(bool)
	if !ok {
		return false, k.errorf(key, "expected true or false")
	}
	return b, nil
}

func (k *keywords) sub(key string, v any) (*node, error) {
	return k.c.schema(pointer(k.at, key), v, k.depth)
}

func (k *keywords) list(key string, v any) ([]*node, error) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 && key != "items" {
		return nil, k.errorf(key, "expected a list of schemas")
	}
	at := pointer(k.at, key)
	nodes := make([]*node, len(list))
	for i := range list {
		var err error
		if nodes[i], err = k.c.schema(pointer(at, strconv.Itoa(i)), list[i], k.depth); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

func (k *keywords) schemas(key string, v any) (map[string]*node, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, k.errorf(key, "expected an object of schemas")
	}
	at := pointer(k.at, key)
	nodes := make(map[string]*node, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		var err error
		if nodes[name], err = k.c.schema(pointer(at, name), m[name], k.depth); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

func (k *keywords) patterns(key string, v any) error {
	nodes, err := k.schemas(key, v)
	if err != nil {
		return err
	}
	for _, text := range slices.Sorted(maps.Keys(nodes)) {
		re, err := k.compile(key, text)
		if err != nil {
			return err
		}
		k.n.patterns = append(k.n.patterns, patternNode{re, nodes[text]})
	}
	return nil
}

func (k *keywords) compile(key, text string) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, k.errorf(key, "the pattern exceeds %d bytes", maxPattern)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, k.errorf(key, "invalid or unsupported pattern: %v", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxProgram {
		return nil, k.errorf(key, "the pattern %q takes too long to match", text)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, k.errorf(key, "invalid or unsupported pattern: %v", err)
	}
	return &pattern{re, len(program.Inst)}, nil
}

func (k *keywords) strings(key string, v any) ([]string, error) {
	list, ok := v.([]any)
	names := make([]string, len(list))
	for i := range list {
		if names[i], ok = list[i].(string); !ok {
			break
		}
	}
	if !ok {
		return nil, k.errorf(key, "expected a list of names")
	}
	return names, nil
}

func (k *keywords) dependent(key string, v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return k.errorf(key, "expected an object of lists of names")
	}
	k.n.dependent = make(map[string][]string, len(m))
	for name := range m {
		var err error
		if k.n.dependent[name], err = k.strings(key, m[name]); err != nil {
			return err
		}
	}
	return nil
}
