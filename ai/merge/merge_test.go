package merge_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/merge"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

func read(t testing.TB, text string) *value.Value {
	t.Helper()
	v, problems := parse.YAML([]byte(text), value.Pos{})
	for _, p := range problems {
		t.Fatalf("%s: %v", text, p)
	}
	return v
}

// show returns a value as JSON.
func show(t testing.TB, v *value.Value) string {
	t.Helper()
	j, err := v.JSON()
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestConfig(t *testing.T) {
	for _, c := range []struct{ below, above, want string }{
		{"{a: 1, b: {c: 2, d: 3}}", "{b: {c: 4}, e: 5}", `{"a":1,"b":{"c":4,"d":3},"e":5}`},
		{"{a: {b: {c: {d: 1, e: 2}}}}", "{a: {b: {c: {d: null}}}}", `{"a":{"b":{"c":{"e":2}}}}`},
		{"{a: 1, b: 2}", "{a: null, c: null}", `{"b":2}`},
		{"{a: {b: 1}}", "{a: null}", `{}`},
		{"{a: {b: 1}}", "{a: 1}", `{"a":1}`},
		{"{a: 1}", "{a: {b: null}}", `{"a":{"b":null}}`},
		{"{a: [1, 2]}", "{a: [3]}", `{"a":[3]}`},
		{"{a: []}", "{a: [{id: x}]}", `{"a":[{"id":"x"}]}`},
		{"{a: [{id: x, n: 1, o: 1}, {id: w}]}", "{a: [{id: z}, {id: x, n: 2}]}",
			`{"a":[{"id":"x","n":2},{"id":"w"},{"id":"z"}]}`},
		{"{a: [{id: x}]}", "{a: []}", `{"a":[{"id":"x"}]}`},
		{"{a: [{id: x}]}", "{a: null}", `{}`},
		{"{a: [{n: 1}]}", "{a: [{id: x}]}", `{"a":[{"id":"x"}]}`},
	} {
		below, above := read(t, c.below), read(t, c.above)
		before := show(t, below) + show(t, above)
		got, err := merge.Config(below, above)
		if err != nil || show(t, got) != c.want {
			t.Errorf("%s over %s: %s, %v; want %s", c.above, c.below, show(t, got), err, c.want)
		}
		if show(t, below)+show(t, above) != before {
			t.Errorf("%s over %s: changed", c.above, c.below)
		}
	}
	for above, want := range map[string]string{
		"{a: [{id: w}, {n: 1}]}":       "has no id",
		"{a: [1]}":                     "has no id",
		"{a: [{id: w}, {id: w}]}":      "the id w is used twice",
		"{b: {a: [{id: w}, {id: w}]}}": "the id w is used twice",
	} {
		_, err := merge.Config(read(t, "{a: [{id: x}], b: {a: [{id: x}]}}"), read(t, above))
		if p, ok := errors.AsType[*value.Problem](err); !ok || p.At.Line != 1 || !strings.Contains(p.Message, want) {
			t.Errorf("%s: %v", above, err)
		}
	}
}

// world merges config by name, each of one file.
func world(t testing.TB, files map[string]string) merge.Extended {
	var all merge.Extended
	all = func(names []string) (*value.Value, error) {
		text, ok := files[names[len(names)-1]]
		if !ok {
			return nil, fault.New(fault.NotFound, "there is no %s", names[len(names)-1])
		}
		v, _, err := merge.Layers([]merge.File{{Space: "x", Fields: read(t, text)}}, names, all)
		return v, err
	}
	return all
}

func TestLayers(t *testing.T) {
	others := world(t, map[string]string{
		"one": "{a: 1, b: {x: 1}, extends: two}", "two": "{a: 2, c: 2, extends: none}", "self": "{extends: self}",
		"a": "{extends: b}", "b": "{extends: acme/c}",
		"acme/c": "{extends: a}",
	})
	for _, c := range []struct {
		layers     []string
		want, from string
	}{
		{[]string{"{a: 1}"}, `{"a":1}`, "map[a:s0]"},
		{[]string{"{a: 1, b: 1}", "{b: 2}", "{c: 3}"}, `{"a":1,"b":2,"c":3}`, "map[a:s0 b:s1 c:s2]"},
		{[]string{"{a: 1, b: 1}", "{b: null}"}, `{"a":1}`, "map[a:s0]"},
		{[]string{"{a: 1, b: 1}", "{extends: none, b: 2}"}, `{"b":2}`, "map[b:s1]"},
		{[]string{"{a: 1, b: 1}", "{extends: none, b: 2}", "{a: 3}"}, `{"a":3,"b":2}`, "map[a:s2 b:s1]"},
		{[]string{"{z: 1, c: 9}", "{extends: one, b: {v: 2}}"}, `{"a":1,"b":{"v":2,"x":1},"c":2,"z":1}`,
			"map[a:s1 b:s1 c:s1 z:s0]"},
		{[]string{"{a: 1}", "{extends: null}"}, `{"a":1}`, "map[a:s0]"},
	} {
		var files []merge.File
		for i, text := range c.layers {
			files = append(files, merge.File{Space: fmt.Sprintf("s%d", i), Fields: read(t, text)})
		}
		got, from, err := merge.Layers(files, []string{"mine"}, others)
		if err != nil || show(t, got) != c.want || fmt.Sprint(from) != c.from {
			t.Errorf("%v: %s, %v, %v", c.layers, show(t, got), from, err)
		}
	}
	many := map[string]string{}
	for i := range 12 {
		many[fmt.Sprintf("n%d", i)] = fmt.Sprintf("{extends: n%d}", i+1)
	}
	for name, want := range map[string]string{
		"self": "extends itself: files of one name are merged without it",
		"a":    "config extends itself: mine, a, b, acme/c, a", "missing": "there is no missing",
		"../x": "expected none or the name of a config", "[x]": "expected none or the name",
		"mine": "files of one name are merged without it", "n0": "more than 10 configs extend each other",
	} {
		all := world(t, many)
		from := func(names []string) (*value.Value, error) {
			if strings.HasPrefix(names[len(names)-1], "n") {
				return all(names)
			}
			return others(names)
		}
		_, _, err := merge.Layers([]merge.File{{Fields: read(t, "{a: 1}")}, {Fields: read(t, "{extends: "+name+"}")}},
			[]string{"mine"}, from)
		if e, ok := errors.AsType[*merge.Error](err); !ok || e.File != 1 || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "line 1: extends") {
			t.Errorf("%s: %v; want %s", name, err, want)
		}
	}
	_, _, err := merge.Layers([]merge.File{{Fields: read(t, "{a: [{id: x}]}")}, {Fields: read(t, "{a: [1]}")}},
		[]string{"mine"}, nil)
	if e, ok := errors.AsType[*merge.Error](err); !ok || e.File != 1 {
		t.Errorf("%v", err)
	}
}

// FuzzConfig: merging is defined for whatever is read, changes nothing, and doing it again changes nothing any more.
func FuzzConfig(f *testing.F) {
	f.Add("{a: [{id: x}], b: {c: null}}", "{a: [{id: x, v: 1}], b: null}")
	f.Add("{a: 1}", "{a: {b: [1]}}")
	f.Fuzz(func(t *testing.T, a, b string) {
		below, problems := parse.YAML([]byte(a), value.Pos{})
		above, more := parse.YAML([]byte(b), value.Pos{})
		if len(problems)+len(more) > 0 || below == nil || above == nil {
			return
		}
		was, err := below.JSON()
		if err != nil {
			return
		}
		merge.Config(below, above)
		if is, err := below.JSON(); err != nil || !reflect.DeepEqual(was, is) {
			t.Errorf("changed: %v", err)
		}
		together := above
		var last string
		for i := range 3 { // the second time removes the nulls in what the first time has added
			if together, err = merge.Config(together, below); err != nil {
				return
			}
			is := fmt.Sprint(plain(together))
			if i == 2 && is != last {
				t.Errorf("merging again makes %s of %s", is, last)
			}
			last = is
		}
	})
}

func plain(v *value.Value) any {
	j, err := v.JSON()
	if err != nil {
		return err
	}
	return j
}
