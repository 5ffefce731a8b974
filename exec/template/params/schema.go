package params

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/jcs"
)

// A Schema defines the valid values. It is immutable, and safe for concurrent use.
type Schema struct{ root *node }

// badSchema returns the error for an invalid or unsupported schema at a JSON pointer.
func badSchema(at, format string, args ...any) error {
	e := fault.New(fault.Validation, "the schema: %s", fmt.Sprintf(format, args...)).On("pointer", at)
	if at != "" {
		e.Text = fmt.Sprintf("the schema at %q: %s", at, fmt.Sprintf(format, args...))
	}
	return e
}

// types is a set of JSON types. The empty set allows all.
type types uint8

const (
	tNull types = 1 << iota
	tBool
	tInteger
	tNumber // not an integer, unless tInteger is set too
	tString
	tArray
	tObject
	tAll = 1<<iota - 1
)

// typeNames has the names in the order of the bits.
var typeNames = [...]string{"null", "boolean", "integer", "number", "string", "array", "object"}

func (t types) String() string {
	var names []string
	for i, name := range typeNames {
		if t&(1<<i) != 0 && !(name == "integer" && t&tNumber != 0) {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

// typeOf returns the type of a value; for an integer only tInteger.
func typeOf(v any) types {
	switch v := v.(type) {
	case nil:
		return tNull
	case bool:
		return tBool
	case float64:
		if v == math.Trunc(v) {
			return tInteger
		}
		return tNumber
	case int64:
		return tInteger
	case string:
		return tString
	case []any:
		return tArray
	}
	return tObject
}

// A node is one schema. A missing number is nil, a missing count -1.
type node struct {
	never bool // no value is valid
	types types
	enum  []any
	isOne bool // enum is the value of const

	properties           map[string]*node
	patterns             []patternNode
	additional, names    *node
	required             []string
	dependent            map[string][]string
	minProps, maxProps   int
	prefix               []*node
	items, contains      *node
	minItems, maxItems   int
	minMatch, maxMatch   int // of contains
	unique               bool
	minLen, maxLen       int
	pattern              *pattern
	min, max             *float64
	above, below         *float64 // exclusive
	multiple             *float64
	all, any, one        []*node
	not, when, then, els *node
	ref                  *node
	fallback             any
	hasDefault           bool
	description          string

	may types // at least the types of all valid values
}

// newNode returns a schema that accepts everything.
func newNode() *node {
	return &node{minProps: -1, maxProps: -1, minItems: -1, maxItems: -1, minLen: -1, maxLen: -1, minMatch: -1,
		maxMatch: -1, may: tAll}
}

type patternNode struct {
	*pattern
	n *node
}

// A pattern is a regular expression and the size of its program, which bounds the matching steps per byte.
type pattern struct {
	*regexp.Regexp
	size int
}

const (
	maxSchemaDepth = 64
	maxNodes       = 1 << 16
	maxPattern     = 1000 // bytes
	maxProgram     = 5000 // instructions
	maxMatched     = 64 << 10
)

// Compile compiles a schema, a result of jcs.Parse or value.Value.JSON. nil accepts everything.
func Compile(v any) (*Schema, error) {
	if v == nil {
		return &Schema{newNode()}, nil
	}
	v, err := normal(v, 0)
	if err != nil {
		return nil, err
	}
	c := &compiler{root: v, done: map[string]*node{}}
	n, err := c.schema("", v, 0)
	if err != nil {
		return nil, err
	}
	known := make(map[*node]bool, len(c.done))
	for _, n := range c.done {
		n.infer(known)
	}
	return &Schema{n}, nil
}

// normal returns a value with all numbers as float64.
func normal(val any, depth int) (any, error) {
	if depth > maxSchemaDepth {
		return nil, badSchema("", "nested more than %d levels deep", maxSchemaDepth)
	}
	switch data := val.(type) {
	case nil, bool, string, float64:
		return data, nil
	case int64:
		return float64(data), nil
	case []any:
		list := make([]any, len(data))
		for i := range data {
			var err error
			if list[i], err = normal(data[i], depth+1); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		m := make(map[string]any, len(data))
		for key := range data {
			var err error
			if m[key], err = normal(data[key], depth+1); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return nil, badSchema("", "a %T is not a JSON value", val)
}

// A compiler makes the nodes of one document. It makes one node for each place, so that references may be circular.
type compiler struct {
	root any
	done map[string]*node // by pointer
}

func (c *compiler) schema(at string, val any, depth int) (*node, error) {
	if n, ok := c.done[at]; ok {
		return n, nil
	}
	n := newNode()
	c.done[at] = n
	if len(c.done) > maxNodes || depth > maxSchemaDepth {
		return nil, badSchema(at, "too many schemas, or nested too deeply")
	}
	object, ok := val.(map[string]any)
	if !ok {
		b, isBool := val.(bool)
		if !isBool {
			return nil, badSchema(at, "expected an object, got %s", typeOf(val))
		}
		n.never = !b
		return n, nil
	}
	k := &keywords{c: c, n: n, m: object, at: at, depth: depth + 1}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if err := k.keyword(key, object[key]); err != nil {
			return nil, err
		}
	}
	k.finish()
	return n, nil
}

// pointer appends a segment to a JSON pointer.
func pointer(at, segment string) string {
	if !strings.ContainsAny(segment, "~/") { // creating a Replacer costs more than everything else here
		return at + "/" + segment
	}
	return at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(segment)
}

// resolve returns the schema that a reference points to.
func (c *compiler) resolve(at, ref string, depth int) (*node, error) {
	path, ok := strings.CutPrefix(ref, "#")
	path, err := url.PathUnescape(path)
	if !ok || err != nil || path != "" && path[0] != '/' {
		return nil, badSchema(at, "the reference %q must be a JSON pointer into the same document", ref)
	}
	val, found := c.root, true
	for _, segment := range strings.Split(path, "/")[1:] {
		segment = strings.NewReplacer("~1", "/", "~0", "~").Replace(segment)
		switch in := val.(type) {
		case map[string]any:
			val, found = in[segment]
		case []any:
			i, err := strconv.Atoi(segment)
			if found = err == nil && i >= 0 && i < len(in); found {
				val = in[i]
			}
		default:
			found = false
		}
		if !found {
			return nil, badSchema(at, "the reference %q matches nothing", ref)
		}
	}
	return c.schema(path, val, depth)
}

// A Field describes one parameter of a tool.
type Field struct {
	Name, Type, Description string // Type is such as "integer", "string or null"; "" for any
	Required                bool
	Default                 any // a JSON value
	HasDefault              bool
	Values                  []string // the allowed values as JSON, if they are listed
}

// Fields returns the declared properties, required ones first, each group sorted by name.
func (s *Schema) Fields() []Field {
	all := map[string]*Field{}
	for _, n := range s.root.same() {
		for name, p := range n.properties {
			if all[name] == nil {
				all[name] = p.field(name)
			}
		}
	}
	for _, n := range s.root.same() {
		for _, name := range n.required {
			if f := all[name]; f != nil {
				f.Required = true
			}
		}
	}
	fields := make([]Field, 0, len(all))
	for _, f := range all {
		fields = append(fields, *f)
	}
	slices.SortFunc(fields, func(a, b Field) int {
		if a.Required != b.Required {
			if a.Required {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return fields
}

// field describes a property.
func (n *node) field(name string) *Field {
	field := &Field{Name: name}
	if n.may != tAll {
		field.Type = n.may.String()
	}
	for _, n := range n.same() {
		if field.Description == "" {
			field.Description = n.description
		}
		if n.hasDefault && !field.HasDefault {
			field.Default, field.HasDefault = n.fallback, true
		}
		if field.Values == nil {
			field.Values = texts(n.enum)
		}
	}
	return field
}

// Declares reports whether the schema declares a property, so that templates may refer to it.
func (s *Schema) Declares(name string) bool { return s.root.property(name) != nil }

// maxSame bounds the result of same.
const maxSame = 256

// same returns the node and all nodes that apply whenever it does.
func (n *node) same() []*node {
	list := []*node{n}
	if n.ref == nil && n.all == nil {
		return list
	}
	seen := map[*node]bool{n: true}
	add := func(n *node) {
		if n != nil && !seen[n] && len(list) < maxSame {
			seen[n] = true
			list = append(list, n)
		}
	}
	for i := 0; i < len(list); i++ {
		add(list[i].ref)
		for _, sub := range list[i].all {
			add(sub)
		}
	}
	return list
}

// property returns the schema of a declared property, or nil.
func (n *node) property(name string) *node {
	for _, n := range n.same() {
		if p := n.properties[name]; p != nil {
			return p
		}
	}
	return nil
}

// infer computes the types that valid values may have. For a node that refers to itself it assumes all types.
func (n *node) infer(known map[*node]bool) types {
	if known[n] {
		return n.may
	}
	known[n] = true
	kinds := n.types
	if kinds == 0 {
		kinds = tAll
	}
	if n.never {
		kinds = 0
	}
	if n.enum != nil {
		var of types
		for _, v := range n.enum {
			of |= typeOf(v)
		}
		kinds &= of
	}
	if n.ref != nil {
		kinds &= n.ref.infer(known)
	}
	for _, sub := range n.all {
		kinds &= sub.infer(known)
	}
	for _, list := range [][]*node{n.any, n.one} {
		var of types
		for _, sub := range list {
			of |= sub.infer(known)
		}
		if len(list) > 0 {
			kinds &= of
		}
	}
	n.may = kinds
	return kinds
}

// texts returns values as JSON.
func texts(values []any) []string {
	if values == nil {
		return nil
	}
	list := make([]string, len(values))
	for i, v := range values {
		b, err := jcs.Append(nil, v)
		if err != nil {
			b = []byte("…")
		}
		list[i] = string(b)
	}
	return list
}
