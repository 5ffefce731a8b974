package project

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rye-build/rye/manifest/policy/yamltree"
)

func schemaOf(t testing.TB) map[string]any {
	t.Helper()
	var s map[string]any
	if err := json.Unmarshal([]byte(Schema()), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func keysOf(m any) []string {
	var keys []string
	for k := range m.(map[string]any) {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// What the schema names the reader knows, and the other way round.
func TestSchemaKeys(t *testing.T) {
	s := schemaOf(t)
	properties := s["properties"].(map[string]any)
	require := properties["requires"].(map[string]any)["additionalProperties"].(map[string]any)
	for _, c := range []struct {
		schema map[string]any
		reader []string
	}{{s, order}, {require, requireKeys}} {
		want := slices.Sorted(slices.Values(c.reader))
		if got := keysOf(c.schema["properties"]); !slices.Equal(got, want) || c.schema["additionalProperties"] != false {
			t.Errorf("the schema knows %q, the reader %q", got, want)
		}
	}
	for _, c := range []struct {
		got  any
		want int
	}{
		{properties["requires"].(map[string]any)["maxProperties"], maxRequires},
		{properties["roots"].(map[string]any)["maxItems"], maxRoots},
		{s["$defs"].(map[string]any)["source"].(map[string]any)["maxLength"], maxSource},
	} {
		if c.got != float64(c.want) {
			t.Errorf("the schema allows %v, the reader %d", c.got, c.want)
		}
	}
}

// The vectors are good to the schema too, and bad but for what it can't say.
func TestSchemaVectors(t *testing.T) {
	v := validator{t, schemaOf(t)}
	for _, file := range goodFiles(t) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tree, err := yamltree.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if why := v.check(v.root, plain(tree.Root)); why != "" {
			t.Errorf("%s: %s", file, why)
		}
	}
	for _, c := range badCases(t) {
		tree, err := yamltree.Parse([]byte(c.Text))
		if err != nil {
			continue // no YAML of ours: an editor says so without a schema
		}
		if why := v.check(v.root, plain(tree.Root)); (why == "") != c.Valid {
			t.Errorf("%q: the schema says %q", c.Text, why)
		}
	}
}

// plain returns a node as JSON has it.
func plain(n *yamltree.Node) any {
	switch n.Shape {
	case yamltree.Scalar:
		return n.Text
	case yamltree.List:
		list := []any{}
		for _, kid := range n.Kids {
			list = append(list, plain(kid))
		}
		return list
	}
	m := map[string]any{}
	for _, kid := range n.Kids {
		m[kid.Key] = plain(kid)
	}
	return m
}

// A validator knows the words that our schema uses, and fails the test at any other.
type validator struct {
	t    *testing.T
	root map[string]any
}

func (v validator) check(s map[string]any, value any) string {
	text, isText := value.(string)
	list, isList := value.([]any)
	object, isObject := value.(map[string]any)
	for word, arg := range s {
		bad := false
		switch word {
		case "$schema", "title", "description", "$defs", "properties":
		case "$ref":
			name, _ := strings.CutPrefix(arg.(string), "#/$defs/")
			if why := v.check(v.root["$defs"].(map[string]any)[name].(map[string]any), value); why != "" {
				return why
			}
		case "type":
			bad = !map[string]bool{"string": isText, "array": isList, "object": isObject}[arg.(string)]
		case "minLength":
			bad = isText && utf8.RuneCountInString(text) < int(arg.(float64))
		case "maxLength":
			bad = isText && utf8.RuneCountInString(text) > int(arg.(float64))
		case "pattern":
			bad = isText && !regexp.MustCompile(arg.(string)).MatchString(text)
		case "const":
			bad = value != arg
		case "minItems":
			bad = isList && len(list) < int(arg.(float64))
		case "maxItems":
			bad = isList && len(list) > int(arg.(float64))
		case "maxProperties":
			bad = len(object) > int(arg.(float64))
		case "uniqueItems":
			for i, item := range list {
				bad = bad || slices.Contains(list[:i], item)
			}
		case "not":
			bad = v.check(arg.(map[string]any), value) == ""
		case "required":
			for _, key := range arg.([]any) {
				_, there := object[key.(string)]
				bad = bad || isObject && !there
			}
		case "oneOf":
			n := 0
			for _, one := range arg.([]any) {
				if v.check(one.(map[string]any), value) == "" {
					n++
				}
			}
			bad = n != 1
		case "items":
			for _, item := range list {
				if why := v.check(arg.(map[string]any), item); why != "" {
					return why
				}
			}
		case "propertyNames":
			for key := range object {
				if why := v.check(arg.(map[string]any), key); why != "" {
					return why
				}
			}
		case "additionalProperties":
			properties, _ := s["properties"].(map[string]any)
			for key, kid := range object {
				rule := arg
				if known, ok := properties[key]; ok {
					rule = known
				}
				if rule == false {
					return fmt.Sprintf("%q is unknown", key)
				} else if why := v.check(rule.(map[string]any), kid); why != "" {
					return why
				}
			}
		default:
			v.t.Fatalf("the validator doesn't know %q", word)
		}
		if bad {
			return fmt.Sprintf("%v is not %s %v", value, word, arg)
		}
	}
	return ""
}
