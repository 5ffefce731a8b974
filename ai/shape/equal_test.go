package shape_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/shape"
)

// Equal schemas make no report, whatever is in them, and a report depends on nothing but the values.
func TestEqual(t *testing.T) {
	for _, text := range []string{`{"$ref":"#/nowhere"}`, `7`, `{"type":"text","enum":3}`,
		`{"unevaluatedProperties":false,"not":{"$ref":"#"}}`, `true`, `[]`} {
		s := &shape.Shape{Interface: shape.Interface{Input: schema(t, text), Output: schema(t, text),
			Error: schema(t, text)}}
		if r := shape.Diff(s, s); len(r.Items) != 0 || r.Breaking || r.Summary != "no change" ||
			r.FromHash != r.ToHash || !strings.HasPrefix(r.ToHash, "blake3:") {
			t.Errorf("%s: %+v", text, r)
		}
	}
	a := &shape.Shape{Interface: shape.Interface{Input: map[string]any{"type": "integer", "minimum": int64(3),
		"maximum": 4}}}
	b := &shape.Shape{Interface: shape.Interface{Input: schema(t, `{"maximum":4,"minimum":3.0,"type":"integer"}`)}}
	if r := shape.Diff(a, b); len(r.Items) != 0 || r.FromHash != r.ToHash {
		t.Errorf("%+v", r)
	}
}

// Values that are long stand in a report by their digest.
func TestLong(t *testing.T) {
	long := map[string]any{"enum": []any{strings.Repeat("x", 3000)}}
	r := shape.Diff(&shape.Shape{Interface: shape.Interface{Input: long}},
		&shape.Shape{Interface: shape.Interface{Input: map[string]any{}}})
	if want := `"3004 bytes, blake3:`; len(r.Items) != 1 || !strings.HasPrefix(string(r.Items[0].From), want) ||
		r.Items[0].To != nil {
		t.Errorf("%+v", r)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

// Schemas made to be hard take bounded work, and then they are not called compatible.
func TestHostile(t *testing.T) {
	// Each level refers twice to the next one, so that there are 2^40 ways.
	defs := map[string]any{"d40": map[string]any{"type": "string"}}
	wide := map[string]any{"d40": map[string]any{"type": "integer"}}
	for i := range 40 {
		name, ref := fmt.Sprintf("d%d", i), map[string]any{"$ref": fmt.Sprintf("#/$defs/d%d", i+1)}
		both := map[string]any{"type": "object", "properties": map[string]any{"a": ref, "b": ref}}
		union := map[string]any{"anyOf": []any{ref, map[string]any{"type": "array", "items": ref}}}
		defs[name], wide[name] = both, both
		if i%2 == 1 {
			defs[name], wide[name] = union, union
		}
	}
	deep := func(leaf any) any {
		for range 30 {
			leaf = map[string]any{"properties": map[string]any{"a": leaf}}
		}
		return leaf
	}
	loop := func(name string) any {
		return map[string]any{"$ref": "#/$defs/a", "$defs": map[string]any{
			"a": map[string]any{"properties": map[string]any{"x": map[string]any{"$ref": "#/$defs/b"}}},
			"b": map[string]any{"properties": map[string]any{name: map[string]any{"$ref": "#/$defs/a"}}}}}
	}
	turns := func(word string) any { // left recursion: the reference leads to itself without a step into the value
		return map[string]any{"$ref": "#/$defs/a", "$defs": map[string]any{
			"a": map[string]any{"anyOf": []any{map[string]any{"$ref": "#/$defs/a"}, map[string]any{"type": word}}}}}
	}
	for name, pair := range map[string][2]any{
		"many ways": {map[string]any{"$ref": "#/$defs/d0", "$defs": defs},
			map[string]any{"$ref": "#/$defs/d0", "$defs": wide}},
		"deep":  {deep("text"), deep("words")},
		"loops": {loop("x"), loop("y")},
		"turns": {turns("string"), turns("integer")},
	} {
		r := shape.Diff(&shape.Shape{Interface: shape.Interface{Input: pair[0]}},
			&shape.Shape{Interface: shape.Interface{Input: pair[1]}})
		if name != "loops" && !r.Breaking {
			t.Errorf("%s: %s", name, lines(r))
		}
		if name == "many ways" && !slices.ContainsFunc(r.Items, func(i shape.Item) bool {
			return i.Kind == "undecided" && i.Path == "/input"
		}) {
			t.Errorf("%s is decided: %d items", name, len(r.Items))
		}
	}
}
