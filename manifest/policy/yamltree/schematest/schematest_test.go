package schematest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Each word refuses what it is there to refuse, and says nothing about values of another type.
func TestWords(t *testing.T) {
	for _, c := range []struct{ schema, accepts, refuses string }{
		{`"type": "string"`, "a", "1"},
		{`"type": "string"`, `"1"`, "[a]"},
		{`"type": "integer"`, "2", `"2"`},
		{`"type": "integer"`, "2", "2.5"},
		{`"type": "number"`, "2.5", "a"},
		{`"type": "boolean"`, "true", `"true"`},
		{`"type": ["array", "object"]`, "[a]", "null"},
		{`"type": "object"`, "{a: b}", "[a]"},
		{`"const": "a"`, "a", "b"},
		{`"enum": [["a"], ["a", "b"]]`, "[a, b]", "[b, a]"},
		{`"not": {"const": "a"}`, "b", "a"},
		{`"oneOf": [{"minLength": 2}, {"maxLength": 2}]`, "abc", "ab"},
		{`"minLength": 2`, "ab", "a"},
		{`"maxLength": 1`, "ä", "ab"},
		{`"pattern": "^a"`, "ab", "ba"},
		{`"minimum": 1`, "1", "0"},
		{`"minimum": 1`, `"0"`, "-1"},
		{`"minItems": 1`, "[a]", "[]"},
		{`"maxItems": 1`, "{a: b, c: d}", "[a, b]"},
		{`"uniqueItems": true`, "[a, b]", "[a, b, a]"},
		{`"maxProperties": 1`, "[a, b]", "{a: b, c: d}"},
		{`"required": ["a"]`, "{a: b}", "{b: a}"},
		{`"items": {"const": "a"}`, "[a]", "[a, b]"},
		{`"propertyNames": {"maxLength": 1}`, "{a: bc}", "{bc: a}"},
		{`"properties": {"a": {"const": "b"}}, "additionalProperties": false`, "{a: b}", "{a: c}"},
		{`"properties": {"a": {}}, "additionalProperties": false`, "{a: b}", "{c: d}"},
		{`"properties": {"a": {}}, "additionalProperties": {"const": "d"}`, "{a: b, c: d}", "{a: b, c: e}"},
		{`"$ref": "#/$defs/x"`, "x", "y"},
	} {
		s := New(t,
			`{"$schema": "", "title": "", "description": "", "$defs": {"x": {"const": "x"}}, "additionalProperties": {`+
				c.schema+`}}`)
		if why, ok := s.Refuses([]byte("k: " + c.accepts + "\n")); why != "" || !ok {
			t.Errorf("%s: %s: %q, %t", c.schema, c.accepts, why, ok)
		}
		if why, ok := s.Refuses([]byte("k: " + c.refuses + "\n")); why == "" || !ok {
			t.Errorf("%s: %s is accepted, %t", c.schema, c.refuses, ok)
		}
	}
	if _, ok := New(t, "{}").Refuses([]byte("a: &b c\n")); ok {
		t.Error("what is no YAML of ours is held against a schema")
	}
}

func TestKeys(t *testing.T) {
	s := New(t,
		`{"additionalProperties": false, "properties": {"b": {}, "a": {"additionalProperties": {"additionalProperties": false, "properties": {"c": {}}}}}}`)
	if got := s.Keys(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q", got)
	}
	if got := s.Keys("a", "*"); !slices.Equal(got, []string{"c"}) {
		t.Errorf("%q", got)
	}
}

// A quiet records failures, so that a test can check that another one fails.
type quiet struct {
	testing.TB
	told []string
}

func (q *quiet) Helper()                      {}
func (q *quiet) Failed() bool                 { return len(q.told) > 0 }
func (q *quiet) Errorf(f string, args ...any) { q.told = append(q.told, fmt.Sprintf(f, args...)) }

// A schema that refuses what the reader takes is found, by the file or by an edit of it; so is a reader that takes
// nothing.
func TestFollows(t *testing.T) {
	take := func(b []byte) ([]byte, error) { return b, nil }
	none := func([]byte) ([]byte, error) { return nil, fmt.Errorf("no") }
	for _, c := range []struct {
		schema string
		reader func([]byte) ([]byte, error)
		want   string
	}{
		{`{}`, take, ""},
		{`{"required": ["b"]}`, take, "the reader accepts, and the schema says"},
		{`{"additionalProperties": {"const": "word"}}`, take, "the reader accepts, and the schema says"},
		{`{}`, none, "they show nothing"},
	} {
		q := &quiet{TB: t}
		New(q, c.schema).Follows([]byte("key: word\n"), c.reader)
		if got := strings.Join(q.told, "\n"); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.schema, got, c.want)
		}
	}
}
