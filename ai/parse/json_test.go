package parse

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/value"
)

func TestJSONPlaces(t *testing.T) {
	v, problem, _ := JSON([]byte("{\n  \"ä\": [1, 2.5e3,\n    null, true],\n  \"b\": {\"c\": \"d\\n\"}\n}\n"))
	if problem != nil {
		t.Fatal(problem)
	}
	list := v.Get("ä")
	for _, c := range []struct {
		v    *value.Value
		kind value.Kind
		text string
		at   value.Pos
	}{
		{v, value.Map, "", value.Pos{Line: 1, Column: 1}},
		{list, value.List, "", value.Pos{Line: 2, Column: 8}},
		{list.Items[0], value.Int, "1", value.Pos{Line: 2, Column: 9}},
		{list.Items[1], value.Float, "2.5e3", value.Pos{Line: 2, Column: 12}},
		{list.Items[2], value.Null, "", value.Pos{Line: 3, Column: 5}},
		{list.Items[3], value.Bool, "true", value.Pos{Line: 3, Column: 11}},
		{v.Get("b").Get("c"), value.Text, "d\n", value.Pos{Line: 4, Column: 14}},
	} {
		if c.v.Kind != c.kind || c.v.Text != c.text || c.v.At != c.at {
			t.Errorf("got %v %q at %v, want %v %q at %v", c.v.Kind, c.v.Text, c.v.At, c.kind, c.text, c.at)
		}
	}
}

func TestJSONRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "line 1, column 1: unexpected end",
		"{\"a\": 1,\n \"a\": 2}":              `line 2, column 2: duplicate name "a"`,
		"{\"a\": {\"b\": 1, \"\\u0062\": 2}}": `line 1, column 16: duplicate name "b"`,
		"\"\xff\"":                            "line 1, column 2: not UTF-8",
		"\ufeff{}":                            "line 1, column 1: invalid character",
		"{} {}":                               "line 1, column 4: unexpected text after the value",
		"{\"a\": 1":                           "line 1, column 8: unexpected end",
		"[1,]":                                "line 1, column 4: invalid character",
		"{a: 1}":                              "line 1, column 2: ",
		"{1: 2}":                              "line 1, column 2: ",
		"[01]":                                "line 1, column 3: ",
		"\"a\nb\"":                            "invalid character '\\n' in string literal",
		"nul":                                 "unexpected end",
		strings.Repeat("[", 100_000):          "nested more than 1000 deep",
		"[" + strings.Repeat("1,", maxJSONValues) + "1]": "more than 262144 values",
	} {
		_, problem, ours := JSON([]byte(text))
		if problem == nil || !strings.Contains(problem.Error(), want) {
			t.Errorf("%.40q: got %v, want %s", text, problem, want)
		}
		if rule := regexp.MustCompile("duplicate name|more than").MatchString(want); ours != rule {
			t.Errorf("%.40q: a rule of the reader: %v", text, ours)
		}
	}
}

// FuzzJSON compares with encoding/json: an accepted text is valid there and means the same.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e3,null,true,{"b":"\u00e4"}]}`, `[]`, `"x"`, `1e400`, `{"a":1,"a":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, problem, _ := JSON(text)
		if problem != nil {
			if !json.Valid(text) && problem.At.Line < 1 {
				t.Fatalf("no place: %v", problem)
			}
			return
		}
		var want any
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&want); err != nil {
			t.Fatalf("accepted %q, which is not JSON: %v", text, err)
		}
		if got := plainJSON(v); !reflect.DeepEqual(got, want) {
			t.Fatalf("%q means %v, not %v", text, want, got)
		}
	})
}

func plainJSON(v *value.Value) any {
	switch v.Kind {
	case value.Bool:
		return v.Text == "true"
	case value.Int, value.Float:
		return json.Number(v.Text)
	case value.Text:
		return v.Text
	case value.List:
		list := []any{}
		for _, item := range v.Items {
			list = append(list, plainJSON(item))
		}
		return list
	case value.Map:
		m := map[string]any{}
		for _, e := range v.Map {
			m[e.Key] = plainJSON(e.Value)
		}
		return m
	}
	return nil
}
