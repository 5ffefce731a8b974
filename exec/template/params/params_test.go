package params

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest/jcs"
)

func compile(t testing.TB, text string) *Schema {
	t.Helper()
	v, err := jcs.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	s, err := Compile(v)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

// A vector says what comes of values under a schema: what is made of them, or what is wrong with them.
type vector struct {
	Schema json.RawMessage `json:"schema"`
	Cases  []struct {
		Value     json.RawMessage `json:"value"`
		Completed json.RawMessage `json:"completed,omitempty"` // if it is an object and valid
		Problems  []string        `json:"problems,omitempty"`
	} `json:"cases"`
}

func TestVectors(t *testing.T) {
	file := filepath.Join("testdata", "vectors.json")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(b, &vectors); err != nil {
		t.Fatal(err)
	}
	for i := range vectors {
		s := compile(t, string(vectors[i].Schema))
		for j := range vectors[i].Cases {
			c := &vectors[i].Cases[j]
			v, err := jcs.Parse(c.Value)
			if err != nil {
				t.Fatal(err)
			}
			m, isObject := v.(map[string]any)
			var problems []string
			var completed []byte
			err = s.Check(v)
			if isObject {
				var all map[string]any
				if all, err = s.Complete(m); err == nil {
					completed, _ = jcs.Append(nil, all)
				}
			}
			if invalid, ok := errors.AsType[*InvalidError](err); ok {
				for _, p := range invalid.Problems {
					problems = append(problems, p.String())
				}
			} else if err != nil {
				t.Errorf("%T", err)
			}
			if goldentest.Update() {
				c.Completed, c.Problems = completed, problems
				continue
			}
			want, _ := jcs.Canonical(nil, c.Completed)
			if !reflect.DeepEqual(problems, c.Problems) || string(completed) != string(want) {
				t.Errorf("%s: %s:\n got %q %s\nwant %q %s", vectors[i].Schema, c.Value, problems, completed,
					c.Problems, want)
			}
			// What was not repeated can't leak.
			if again, _ := jcs.Append(nil, v); isObject && string(again) != string(mustCanonical(t, c.Value)) {
				t.Errorf("%s was changed", c.Value)
			}
		}
	}
	goldentest.JSON(t, file, vectors)
}

func mustCanonical(t *testing.T, b []byte) []byte {
	t.Helper()
	c, err := jcs.Canonical(nil, b)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSchemaErrors(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`{"type": "text"}`,
			`the schema at "/type": expected one of null, boolean, integer, number, string, array, object`},
		{`{"type": []}`, `the schema at "/type": expected at least one type`},
		{`{"type": [null]}`,
			`the schema at "/type": expected one of null, boolean, integer, number, string, array, object`},
		{`{"properties": {"a/b~c": {"minimum": "1"}}}`,
			`the schema at "/properties/a~1b~0c/minimum": expected a number`},
		{`{"unevaluatedProperties": false}`,
			`the schema at "/unevaluatedProperties": unsupported keyword "unevaluatedProperties"`},
		{`{"minlength": 3}`, `the schema at "/minlength": unsupported keyword "minlength"`},
		{`{"pattern": "(?=x)"}`,
			"the schema at \"/pattern\": invalid or unsupported pattern: error parsing regexp: invalid or unsupported Perl syntax: `(?=`"},
		{`{"pattern": "x{1000}y{1000}x{1000}y{1000}x{1000}"}`,
			`the schema at "/pattern": the pattern "x{1000}y{1000}x{1000}y{1000}x{1000}" takes too long to match`},
		{`{"pattern": "` + strings.Repeat("x", 1001) + `"}`,
			`the schema at "/pattern": the pattern exceeds 1000 bytes`},
		{`{"patternProperties": {"(": {}}}`,
			"the schema at \"/patternProperties\": invalid or unsupported pattern: error parsing regexp: missing closing ): `(`"},
		{`{"$ref": "https://example.com/x"}`,
			`the schema at "/$ref": the reference "https://example.com/x" must be a JSON pointer into the same document`},
		{`{"$ref": "#x"}`, `the schema at "/$ref": the reference "#x" must be a JSON pointer into the same document`},
		{`{"$ref": "#/$defs/x"}`, `the schema at "/$ref": the reference "#/$defs/x" matches nothing`},
		{`{"anyOf": [true], "$ref": "#/anyOf/1"}`, `the schema at "/$ref": the reference "#/anyOf/1" matches nothing`},
		{`{"title": "x", "$ref": "#/title/y"}`, `the schema at "/$ref": the reference "#/title/y" matches nothing`},
		{`{"title": "x", "$ref": "#/title"}`, `the schema at "/title": expected an object, got string`},
		{`{"$ref": 1}`, `the schema at "/$ref": expected a string`},
		{`{"properties": []}`, `the schema at "/properties": expected an object of schemas`},
		{`{"items": 3}`, `the schema at "/items": expected an object, got integer`},
		{`{"items": [3]}`, `the schema at "/items/0": expected an object, got integer`},
		{`{"anyOf": []}`, `the schema at "/anyOf": expected a list of schemas`},
		{`{"enum": []}`, `the schema at "/enum": expected a list of values`},
		{`{"required": ["a", 1]}`, `the schema at "/required": expected a list of names`},
		{`{"required": "a"}`, `the schema at "/required": expected a list of names`},
		{`{"dependentRequired": {"a": "b"}}`, `the schema at "/dependentRequired": expected a list of names`},
		{`{"dependentRequired": []}`, `the schema at "/dependentRequired": expected an object of lists of names`},
		{`{"maxItems": -1}`, `the schema at "/maxItems": expected an integer of at least 0`},
		{`{"multipleOf": 0}`, `the schema at "/multipleOf": expected a number`},
		{`{"uniqueItems": 1}`, `the schema at "/uniqueItems": expected true or false`},
		{`{"nullable": 1}`, `the schema at "/nullable": expected true or false`},
		{`{"pattern": 1}`, `the schema at "/pattern": expected a string`},
		{`{"patternProperties": 1}`, `the schema at "/patternProperties": expected an object of schemas`},
		{`{"not": []}`, `the schema at "/not": expected an object, got array`},
		{`{"$defs": {"x": 1}}`, `the schema at "/$defs/x": expected an object, got integer`},
		{`3`, `the schema: expected an object, got integer`},
	} {
		v, err := jcs.Parse([]byte(c.schema))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = Compile(v); err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.schema, err, c.want)
		}
	}
	if _, err := Compile(map[string]any{"const": 1}); err == nil ||
		err.Error() != "the schema: a int is not a JSON value" {
		t.Error(err)
	}
	if _, err := Compile([]any{struct{}{}}); err == nil {
		t.Error("a struct is a schema")
	}
	var deep any = map[string]any{}
	for range 70 {
		deep = map[string]any{"not": deep}
	}
	if _, err := Compile(deep); err == nil {
		t.Error("a schema of 70 in each other is good")
	}
	many := make([]any, maxNodes+1)
	for i := range many {
		many[i] = true
	}
	if _, err := Compile(map[string]any{"anyOf": many}); err == nil {
		t.Error("a schema of very many is good")
	}
}

// A schema without anything said takes everything.
func TestNoSchema(t *testing.T) {
	s, err := Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{"a": []any{1.0, "x"}}
	got, err := s.Complete(m)
	if err != nil || !reflect.DeepEqual(got, m) || s.Declares("a") || len(s.Fields()) != 0 {
		t.Error(got, err)
	}
	if got, err := s.Complete(nil); err != nil || got == nil || len(got) != 0 {
		t.Error(got, err)
	}
	if err := s.Check([]any{nil, "x"}); err != nil {
		t.Error(err)
	}
	never, _ := Compile(false)
	if err := never.Check("x"); err == nil || err.Error() != "no value is allowed here" {
		t.Error(err)
	}
}

// Hostile schemas come to an end, and say no.
// TestIntegers: an int64, as programs of ours make them, is the integer that it is, wherever it stands.
func TestIntegers(t *testing.T) {
	s := compile(t,
		`{"properties": {"n": {"type": "integer", "maximum": 9, "multipleOf": 2, "enum": [2, 4, 11]}, "l": {"uniqueItems": true}, "s": {"type": "string"}}}`)
	for _, ok := range []map[string]any{{"n": int64(2)}, {"n": 4.0}, {"l": []any{int64(1), 2.0}}} {
		if err := s.Check(ok); err != nil {
			t.Errorf("%v: %v", ok, err)
		}
	}
	for _, bad := range []map[string]any{{"n": int64(3)}, {"n": int64(11)}, {"n": int64(6)},
		{"l": []any{int64(1), 1.0}}, {"l": []any{1.0, int64(1)}}, {"s": int64(1)}} {
		if err := s.Check(bad); err == nil {
			t.Errorf("%v is valid", bad)
		}
	}
}

func TestEndless(t *testing.T) {
	branching := `{"$defs": {`
	for i := range 30 {
		branching += fmt.Sprintf(`"a%d": {"allOf": [{"$ref": "#/$defs/a%d"}, {"$ref": "#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	branching += `"a30": {}}, "$ref": "#/$defs/a0"}`
	for _, text := range []string{
		`{"$ref": "#"}`, `{"allOf": [{"$ref": "#"}, {"$ref": "#"}]}`, `{"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}`,
		`{"not": {"$ref": "#"}}`,
		`{"oneOf": [{"$ref": "#"}]}`, `{"if": {"$ref": "#"}}`, branching,
		`{"properties": {"a": {"default": {}, "$ref": "#"}}}`,
		`{"properties": {"a": {"$ref": "#", "default": {}}, "b": {"$ref": "#", "default": {}}}}`,
	} {
		s := compile(t, text)
		m := map[string]any{"a": "x"}
		if strings.Contains(text, "default") {
			m = nil
		}
		if got, err := s.Complete(m); err == nil {
			t.Errorf("%.80s: %v", text, got)
		}
		s.Fit(map[string]any{"a": map[string]any{"a": "1"}})
		s.Fields()
	}
	s := compile(t, `{"items": {"pattern": "^(x?){400}y"}}`)
	if err := s.Check([]any{strings.Repeat("x", maxMatched+1)}); err == nil {
		t.Error("a long text matches")
	}
	list := make([]any, 1000)
	for i := range list {
		list[i] = strings.Repeat("x", maxMatched)
	}
	if err := s.Check(list); err == nil || !strings.Contains(err.Error(), "takes too long") {
		t.Errorf("%.200v", err)
	}
	deep := any("x")
	for range 300 {
		deep = []any{deep}
	}
	if err := compile(t, `{"items": {"$ref": "#"}}`).Check(deep); err == nil {
		t.Error("300 lists in each other were checked")
	}
	big := make([]any, 2000)
	for i := range big {
		big[i] = "x"
	}
	if err := compile(t, `{"items": {"type": "integer"}}`).Check(big); err == nil ||
		len(err.(*InvalidError).Problems) != MaxProblems {
		t.Error("there are more problems than told, or fewer")
	}
}

func TestFit(t *testing.T) {
	s := compile(t, `{"properties": {"args": {"items": {"type": "string"}}, "timeout": {"type": "number"}, "n": {"type": "integer"}, "any": {},
		"b": {"type": "boolean"}, "z": {"type": ["null", "integer"]}, "h": {"type": "object", "additionalProperties": {"type": "string"}},
		"e": {"enum": ["1", "2"]}, "u": {"type": ["string", "integer"]}, "never": false, "o": {"anyOf": [{"type": "integer"}, {"type": "number"}]}}}`)
	for _, c := range []struct{ in, want any }{
		{map[string]any{"args": []any{int64(5), 0.5, true, "x", nil, []any{int64(1)}}},
			map[string]any{"args": []any{"5", "0.5", "true", "x", nil, []any{1.0}}}},
		{map[string]any{"timeout": "30", "n": "5"}, map[string]any{"timeout": 30.0, "n": 5.0}},
		{map[string]any{"timeout": "x", "n": "5.5"}, map[string]any{"timeout": "x", "n": "5.5"}},
		{map[string]any{"timeout": "0x10", "n": "1_000"}, map[string]any{"timeout": "0x10", "n": "1_000"}},
		{map[string]any{"timeout": " 3", "n": ""}, map[string]any{"timeout": " 3", "n": ""}},
		{map[string]any{"timeout": strings.Repeat("1", 500)}, map[string]any{"timeout": strings.Repeat("1", 500)}},
		{map[string]any{"b": "true", "z": "null"}, map[string]any{"b": true, "z": nil}},
		{map[string]any{"b": "yes", "z": "7"}, map[string]any{"b": "yes", "z": 7.0}},
		{map[string]any{"h": map[string]any{"x": int64(1), "y": false}},
			map[string]any{"h": map[string]any{"x": "1", "y": "false"}}},
		{map[string]any{"any": []any{int64(1), "1", map[string]any{"x": int64(2)}}},
			map[string]any{"any": []any{1.0, "1", map[string]any{"x": 2.0}}}},
		{map[string]any{"e": 1.0, "u": "1", "never": "1", "o": "1.5"},
			map[string]any{"e": "1", "u": "1", "never": "1", "o": 1.5}},
		{nil, nil},
	} {
		if got := s.Fit(c.in); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.in, got, c.want)
		}
	}
}

func TestFields(t *testing.T) {
	s := compile(t, `{"required": ["q"], "properties": {"q": {"type": "string", "description": "What"}, "n": {"$ref": "#/$defs/n", "default": 5},
		"mode": {"enum": ["a", "b", null]}, "x": true}, "$defs": {"n": {"type": ["integer", "null"], "description": "How many"}},
		"allOf": [{"properties": {"deep": {"type": "number"}}, "required": ["deep", "elsewhere"]}]}`)
	want := []Field{
		{Name: "deep", Type: "number", Required: true},
		{Name: "q", Type: "string", Description: "What", Required: true},
		{Name: "mode", Type: "null or string", Values: []string{`"a"`, `"b"`, "null"}},
		{Name: "n", Type: "null or integer", Description: "How many", Default: 5.0, HasDefault: true},
		{Name: "x"},
	}
	if got := s.Fields(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for name, want := range map[string]bool{"q": true, "deep": true, "elsewhere": false, "": false} {
		if s.Declares(name) != want {
			t.Error(name)
		}
	}
}

func TestRead(t *testing.T) {
	s := compile(t, `{"properties": {"n": {"type": "integer"}, "f": {"type": "number"}, "b": {"type": "boolean"}, "s": {"type": "string"},
		"any": {}, "tags": {"type": "array", "items": {"type": "string"}}, "nums": {"type": "array", "items": {"type": "integer"}}, "list": {"type": "array"},
		"o": {"type": "object"}, "z": {"type": ["null", "string"]}, "u": {"type": ["integer", "string"]}, "e": {"enum": [1, "x"]}, "so": {"type": ["string", "object"]}},
		"additionalProperties": {"type": "integer"}}`)
	for _, c := range []struct {
		pairs []string
		want  map[string]any
	}{
		{nil, map[string]any{}},
		{[]string{"n=5", "f=-1.5e3", "b=false", "s=5"}, map[string]any{"n": 5.0, "f": -1500.0, "b": false, "s": "5"}},
		{[]string{"s=", "any=5", "z=null", "u=5"}, map[string]any{"s": "", "any": "5", "z": nil, "u": 5.0}},
		{[]string{"z=x", "u=x", "s=a=b", "e=1"}, map[string]any{"z": "x", "u": "x", "s": "a=b", "e": 1.0}},
		{[]string{"tags=a"}, map[string]any{"tags": []any{"a"}}},
		{[]string{"tags=a", "tags=[b]", "nums=1", "nums=2"},
			map[string]any{"tags": []any{"a", "[b]"}, "nums": []any{1.0, 2.0}}},
		{[]string{`tags=["a"]`, "tags=b", "list=x"}, map[string]any{"tags": []any{"a", "b"}, "list": []any{"x"}}},
		{[]string{`o={"a": [1]}`, "so={x}", "other=7"},
			map[string]any{"o": map[string]any{"a": []any{1.0}}, "so": "{x}", "other": 7.0}},
		{[]string{"s=@file", "any=$(rm -rf /)"}, map[string]any{"s": "@file", "any": "$(rm -rf /)"}},
	} {
		got, err := s.Read(Caller{Pairs: c.pairs})
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: got %v, %v; want %v", c.pairs, got, err, c.want)
		}
	}
	files := map[string]string{"-": `{"n": 1}`, "p.json": "{\"s\": \"x\",\n \"é\": 01}",
		"long": strings.Repeat(" ", MaxBytes+1), "bom": "\ufeff{}"}
	open := func(name string) (io.ReadCloser, error) {
		if text, ok := files[name]; ok {
			return io.NopCloser(strings.NewReader(text)), nil
		}
		if name == "broken" {
			return io.NopCloser(io.MultiReader(strings.NewReader("{"), broken{})), nil
		}
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	for _, text := range []string{`{"n": 1}`, "-", "@-"} {
		got, err := s.Read(Caller{Pairs: []string{"s=x"}, Text: text, Open: open})
		if err != nil || !reflect.DeepEqual(got, map[string]any{"n": 1.0, "s": "x"}) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, c := range []struct {
		pairs      []string
		text, want string
	}{
		{[]string{"n=x"}, "", `-p n: expected integer, got "x"`},
		{[]string{"n=1.5"}, "", `-p n: expected integer, got "1.5"`},
		{[]string{"b=1"}, "", `-p b: expected boolean, got "1"`},
		{[]string{"o=[1]"}, "", `-p o: expected object, got "[1]"`},
		{[]string{"nums=x"}, "", `-p nums: expected array, got "x"`},
		{[]string{"other=x"}, "", `-p other: expected integer, got "x"`},
		{[]string{"s=1", "s=2"}, "", `-p s: given twice`},
		{[]string{"n=1", "n=2"}, "", `-p n: given twice`},
		{[]string{"any=1", "any=2"}, "", `-p any: given twice`},
		{[]string{"n"}, "", `-p "n": expected NAME=VALUE`},
		{[]string{`{"n":1}`}, "", `-p "{\"n\":1}": expected NAME=VALUE; an object goes after --params`},
		{[]string{"=" + strings.Repeat("x", 200)}, "", `-p "=` + strings.Repeat("x", 99) + `"…: expected NAME=VALUE`},
		{[]string{"s=\xff"}, "", `-p s: not valid UTF-8`},
		{[]string{"s=" + strings.Repeat("x", MaxBytes)}, "", `-p s: the parameters exceed 16777216 bytes`},
		{make([]string, MaxPairs+1), "", `-p: given more than 10000 times`},
		{[]string{"n=1"}, `{"n": 2}`, `-p n: also in --params`},
		{nil, "[1]", `--params: expected an object, got array`},
		{nil, "x", `--params: line 1, column 1: expected a value`},
		{nil, "@", `--params: "@" needs the name of a file`},
		{nil, "@p.json", `--params @p.json: line 2, column 8: expected "," or "}"`},
		{nil, "@long", `--params @long: the parameters exceed 16777216 bytes`},
		{nil, "@bom", `--params @bom: line 1, column 1: expected a value`},
		{nil, "@none", `--params @none: open none: file does not exist`},
		{nil, "@broken", `--params @broken: it broke`},
		{nil, strings.Repeat(" ", MaxBytes+1), `--params: the parameters exceed 16777216 bytes`},
	} {
		got, err := s.Read(Caller{Pairs: c.pairs, Text: c.text, Open: open})
		if fault.CodeOf(err) != fault.Validation || err.Error() != c.want {
			t.Errorf("%.60q %.60q:\n got %v, %v\nwant %s", c.pairs, c.text, got, err, c.want)
		}
	}
	if _, err := s.Read(Caller{Text: "@none", Open: open}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	// Where there may be no other name, checking says which there are.
	closed := compile(t, `{"properties": {"n": {}, "a b": {}}, "additionalProperties": false}`)
	got, err := closed.Read(Caller{Pairs: []string{"m=1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := closed.Complete(got); err == nil || err.Error() != `m: unknown field; expected one of ["a b"], n` {
		t.Error(err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("it broke") }

// No schema and no value make a panic; what is complete stays so; what is said to be wrong stays wrong.
func FuzzSchema(f *testing.F) {
	b, err := os.ReadFile(filepath.Join("testdata", "vectors.json"))
	if err != nil {
		f.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(b, &vectors); err != nil {
		f.Fatal(err)
	}
	for _, v := range vectors {
		for _, c := range v.Cases {
			f.Add([]byte(v.Schema), []byte(c.Value), "a=1")
		}
	}
	f.Fuzz(func(t *testing.T, schema, values []byte, pair string) {
		v, err := jcs.Parse(schema)
		if err != nil {
			return
		}
		s, err := Compile(v)
		if err != nil {
			if fault.Of(err).Details["pointer"] == nil {
				t.Errorf("%T", err)
			}
			return
		}
		s.Fields()
		if m, err := s.Read(Caller{Pairs: []string{pair, pair}}); err == nil && len(m) != 1 {
			t.Errorf("%q makes %v", pair, m)
		}
		value, err := jcs.Parse(values)
		if err != nil {
			return
		}
		s.Check(s.Fit(value))
		m, ok := value.(map[string]any)
		if !ok {
			return
		}
		all, err := s.Complete(m)
		if err != nil {
			return
		}
		for name, v := range m {
			if _, ok := all[name]; !ok {
				t.Errorf("%q with %v is lost", name, v)
			}
		}
		again, err := s.Complete(all)
		if err != nil || !reflect.DeepEqual(all, again) {
			t.Errorf("%v is completed to %v, %v", all, again, err)
		}
	})
}

func BenchmarkComplete(b *testing.B) {
	s := compile(b, `{"required": ["q"], "additionalProperties": false, "properties": {"q": {"type": "string", "minLength": 1}, "n": {"type": "integer", "default": 5},
		"tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}}}}`)
	m := map[string]any{"q": "x", "tags": []any{"a", "b", "c"}}
	for b.Loop() {
		if _, err := s.Complete(m); err != nil {
			b.Fatal(err)
		}
	}
}
