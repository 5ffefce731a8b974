// Package schematest compares the JSON Schema of a file that people write with the reader of that file.
//
// Schemas are for editors. They must accept everything that the reader accepts, and refuse as much of the rest as a
// schema can. So a schema is tested as an editor uses it: with the values that a YAML reader with types returns, in
// which 2 and true are texts only in quotes.
//
// It knows the keywords that our schemas use. Any other keyword fails the test, because an editor would not ignore
// it.
package schematest

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rye-build/rye/manifest/policy/yamltree"
)

// A Schema is a JSON Schema that files are checked with.
type Schema struct {
	t        testing.TB
	root     map[string]any
	patterns map[string]*regexp.Regexp
}

// New reads a schema. It must have "additionalProperties" wherever it has "properties", because check reads
// properties only there.
func New(t testing.TB, text string) *Schema {
	t.Helper()
	s := &Schema{t: t, patterns: map[string]*regexp.Regexp{}}
	if err := json.Unmarshal([]byte(text), &s.root); err != nil {
		t.Fatal(err)
	}
	return s
}

// Refuses returns why the schema refuses a file, or "" if it accepts it. ok is false for a file that yamltree
// refuses: an editor reports that without a schema.
func (s *Schema) Refuses(file []byte) (why string, ok bool) {
	s.t.Helper()
	tree, err := yamltree.Parse(file)
	if err != nil {
		return "", false
	}
	return s.check(s.root, value(tree.Root)), true
}

const puts = "xA*-./: \n"

// Follows checks that the schema accepts a file, and every file with one byte removed or inserted that the reader
// accepts. format is the reader; it returns the file in the layout of package yamltree. Follows inserts no digit: a
// text that is a number needs quotes for an editor, but not for us.
func (s *Schema) Follows(file []byte, format func([]byte) ([]byte, error)) {
	s.t.Helper()
	accepted := 0
	ask := func(file []byte) {
		if formatted, err := format(file); err != nil {
			return
		} else if why, _ := s.Refuses(formatted); why != "" {
			s.t.Errorf("the reader accepts, and the schema says that %s:\n%s", why, formatted)
		}
		accepted++
	}
	ask(slices.Clone(file))
	for i := range file {
		if ask(slices.Delete(slices.Clone(file), i, i+1)); s.t.Failed() {
			return
		}
		for k := range 3 {
			ask(slices.Insert(slices.Clone(file), i, puts[(i+3*k)%len(puts)]))
		}
	}
	if accepted < len(file)/10 {
		s.t.Errorf("of all edits the reader accepts %d: they show nothing", accepted)
	}
}

// Keys returns the names of the properties in a part of the schema, sorted: of the file itself, or of the entry at
// path. A name in the path may be "*" for entries of any name.
func (s *Schema) Keys(path ...string) []string {
	s.t.Helper()
	at := s.root
	for _, name := range path {
		var next any
		if name == "*" {
			next = at["additionalProperties"]
		} else if properties, ok := at["properties"].(map[string]any); ok {
			next = properties[name]
		}
		var ok bool
		if at, ok = next.(map[string]any); !ok {
			s.t.Fatalf("the schema has no %q", path)
		}
	}
	if at["additionalProperties"] != false {
		s.t.Errorf("the schema takes any name in %q", path)
	}
	var keys []string
	for key := range at["properties"].(map[string]any) {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// value returns the value of a node for a YAML reader with types.
func value(n *yamltree.Node) any {
	switch n.Shape {
	case yamltree.Scalar:
		if v := any(nil); n.Plain && json.Unmarshal([]byte(n.Text), &v) == nil {
			return v
		}
		return n.Text
	case yamltree.List:
		list := []any{}
		for _, kid := range n.Kids {
			list = append(list, value(kid))
		}
		return list
	}
	m := map[string]any{}
	for _, kid := range n.Kids {
		m[kid.Key] = value(kid)
	}
	return m
}

// check returns why a part of the schema refuses a value, or "".
func (s *Schema) check(part map[string]any, val any) string {
	for word, arg := range part {
		bad := false
		switch word {
		case "$schema", "title", "description", "$defs", "properties":
		case "$ref":
			name, _ := strings.CutPrefix(arg.(string), "#/$defs/")
			if why := s.check(s.root["$defs"].(map[string]any)[name].(map[string]any), val); why != "" {
				return why
			}
		case "type":
			bad = !isOf(arg, val)
		case "const":
			bad = !reflect.DeepEqual(val, arg)
		case "enum":
			bad = !slices.ContainsFunc(arg.([]any), func(one any) bool { return reflect.DeepEqual(val, one) })
		case "not":
			bad = s.check(arg.(map[string]any), val) == ""
		case "oneOf":
			n := 0
			for _, one := range arg.([]any) {
				if s.check(one.(map[string]any), val) == "" {
					n++
				}
			}
			bad = n != 1
		case "minLength", "maxLength", "pattern", "minimum":
			bad = !s.scalar(word, arg, val)
		case "minItems", "maxItems", "uniqueItems", "maxProperties", "required":
			bad = !size(word, arg, val)
		case "items", "propertyNames", "additionalProperties":
			if why := s.inside(part, word, arg, val); why != "" {
				return why
			}
		default:
			s.t.Fatalf("schematest doesn't know the word %q", word)
		}
		if bad {
			return fmt.Sprintf("%v is not %s %v", val, word, arg)
		}
	}
	return ""
}

// isOf reports whether a value has one of the types in arg, the value of "type".
func isOf(arg, v any) bool {
	if all, ok := arg.([]any); ok {
		return slices.ContainsFunc(all, func(one any) bool { return isOf(one, v) })
	}
	switch v := v.(type) {
	case string:
		return arg == "string"
	case float64:
		return arg == "number" || arg == "integer" && v == math.Trunc(v)
	case bool:
		return arg == "boolean"
	case []any:
		return arg == "array"
	case map[string]any:
		return arg == "object"
	}
	return false
}

// scalar reports whether a text or number satisfies a keyword. Other values always do.
func (s *Schema) scalar(word string, arg, v any) bool {
	switch val := v.(type) {
	case float64:
		return word != "minimum" || val >= arg.(float64)
	case string:
		switch word {
		case "minLength":
			return utf8.RuneCountInString(val) >= int(arg.(float64))
		case "maxLength":
			return utf8.RuneCountInString(val) <= int(arg.(float64))
		case "pattern":
			text := arg.(string)
			if s.patterns[text] == nil {
				s.patterns[text] = regexp.MustCompile(text)
			}
			return s.patterns[text].MatchString(val)
		}
	}
	return true
}

// size reports whether a list or an object satisfies a keyword about it as a whole.
func size(word string, arg, v any) bool {
	switch values := v.(type) {
	case []any:
		switch word {
		case "minItems":
			return len(values) >= int(arg.(float64))
		case "maxItems":
			return len(values) <= int(arg.(float64))
		case "uniqueItems":
			for i, item := range values {
				if slices.ContainsFunc(values[:i], func(one any) bool { return reflect.DeepEqual(one, item) }) {
					return false
				}
			}
		}
	case map[string]any:
		switch word {
		case "maxProperties":
			return len(values) <= int(arg.(float64))
		case "required":
			for _, key := range arg.([]any) {
				if _, there := values[key.(string)]; !there {
					return false
				}
			}
		}
	}
	return true
}

// inside returns why a keyword refuses an element of a list or object, or "".
func (s *Schema) inside(part map[string]any, word string, arg, v any) string {
	switch values := v.(type) {
	case []any:
		for _, item := range values {
			if word != "items" {
				break
			}
			if why := s.check(arg.(map[string]any), item); why != "" {
				return why
			}
		}
	case map[string]any:
		properties, _ := part["properties"].(map[string]any)
		for key, kid := range values {
			var why string
			rule, known := properties[key]
			switch {
			case word == "propertyNames":
				why = s.check(arg.(map[string]any), key)
			case word == "additionalProperties" && known:
				why = s.check(rule.(map[string]any), kid)
			case word == "additionalProperties" && arg == false:
				why = fmt.Sprintf("%q is unknown", key)
			case word == "additionalProperties":
				why = s.check(arg.(map[string]any), kid)
			}
			if why != "" {
				return why
			}
		}
	}
	return ""
}
