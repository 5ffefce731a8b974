package shape_test

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/manifest/jcs"
)

// valid is a small validator, by the words of JSON Schema, for what the schemas below consist of.
func valid(schema, v, root any) bool {
	m, ok := schema.(map[string]any)
	if !ok {
		return schema == true
	}
	if m["$ref"] != nil && !valid(root.(map[string]any)["$defs"].(map[string]any)["d"], v, root) {
		return false
	}
	if t, ok := m["type"]; ok && !slices.ContainsFunc(list(t), func(name any) bool {
		return isType(v, name.(string))
	}) {
		if v != nil || m["nullable"] != true {
			return false
		}
	}
	if enum, ok := m["enum"]; ok && !slices.ContainsFunc(list(enum), func(e any) bool { return text(e) == text(v) }) {
		return false
	}
	if c, ok := m["const"]; ok && text(c) != text(v) {
		return false
	}
	holds := func(s any) bool { return valid(s, v, root) }
	for keyword, arg := range m {
		n, _ := arg.(float64)
		bad := false
		switch f, _ := v.(float64); keyword {
		case "minimum":
			bad = isType(v, "number") && f < n
		case "maximum":
			bad = isType(v, "number") && f > n
		case "exclusiveMinimum":
			bad = isType(v, "number") && f <= n
		case "exclusiveMaximum":
			bad = isType(v, "number") && f >= n
		case "multipleOf":
			bad = isType(v, "number") && math.Mod(f, n) != 0
		case "anyOf":
			bad = !slices.ContainsFunc(list(arg), holds)
		case "oneOf":
			count := 0
			for _, s := range list(arg) {
				if holds(s) {
					count++
				}
			}
			bad = count != 1
		case "allOf":
			bad = slices.ContainsFunc(list(arg), func(s any) bool { return !holds(s) })
		case "not":
			bad = holds(arg)
		}
		if bad {
			return false
		}
	}
	if s, ok := v.(string); ok {
		n := float64(utf8.RuneCountInString(s))
		if least, ok := m["minLength"].(float64); ok && n < least {
			return false
		}
		if most, ok := m["maxLength"].(float64); ok && n > most {
			return false
		}
	}
	if a, ok := v.([]any); ok {
		return validArray(m, a, root)
	}
	if o, ok := v.(map[string]any); ok {
		return validObject(m, o, root)
	}
	return true
}

func validArray(m map[string]any, a []any, root any) bool {
	if least, ok := m["minItems"].(float64); ok && float64(len(a)) < least {
		return false
	}
	if most, ok := m["maxItems"].(float64); ok && float64(len(a)) > most {
		return false
	}
	prefix := list(m["prefixItems"])
	matched := 0
	for i, e := range a {
		s, ok := m["items"]
		if i < len(prefix) {
			s, ok = prefix[i], true
		}
		if ok && !valid(s, e, root) {
			return false
		}
		if s, ok := m["contains"]; ok && valid(s, e, root) {
			matched++
		}
		if m["uniqueItems"] == true && slices.ContainsFunc(a[:i], func(other any) bool {
			return text(other) == text(e)
		}) {
			return false
		}
	}
	return m["contains"] == nil || matched > 0
}

func validObject(m map[string]any, o map[string]any, root any) bool {
	for _, name := range list(m["required"]) {
		if _, ok := o[name.(string)]; !ok {
			return false
		}
	}
	named, _ := m["properties"].(map[string]any)
	for name, e := range o {
		s, ok := named[name]
		if !ok {
			s, ok = m["additionalProperties"]
		}
		if ok && !valid(s, e, root) {
			return false
		}
		if s, ok := m["propertyNames"]; ok && !valid(s, name, root) {
			return false
		}
	}
	if least, ok := m["minProperties"].(float64); ok && float64(len(o)) < least {
		return false
	}
	return true
}

func list(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	if v == nil {
		return nil
	}
	return []any{v}
}

func text(v any) string {
	b, err := jcs.Append(nil, v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func isType(v any, name string) bool {
	f, isNumber := v.(float64)
	switch name {
	case "null":
		return v == nil
	case "boolean":
		return v == true || v == false
	case "number":
		return isNumber
	case "integer":
		return isNumber && f == math.Trunc(f)
	case "string":
		_, ok := v.(string)
		return ok
	case "array":
		_, ok := v.([]any)
		return ok
	}
	_, ok := v.(map[string]any)
	return ok
}

// A gen makes schemas and values. They are of few words, so that they meet.
type gen struct{ *rand.Rand }

func (g gen) oneIn(n int) bool { return g.IntN(n) == 0 }

func (g gen) schema(depth int) any {
	if g.oneIn(12) {
		return g.oneIn(2)
	}
	m := map[string]any{}
	types := []any{"null", "boolean", "integer", "number", "string", "array", "object"}
	if !g.oneIn(5) {
		m["type"] = types[g.IntN(len(types))]
		if g.oneIn(4) {
			m["type"] = []any{m["type"], types[g.IntN(len(types))]}
		}
		if g.oneIn(8) {
			m["nullable"] = true
		}
	}
	for _, k := range []struct {
		odds int
		name string
		make func() any
	}{
		{12, "enum", func() any { return []any{g.value(1), g.value(1), g.value(0)} }},
		{30, "const", func() any { return g.value(1) }},
		{6, "minimum", g.number}, {6, "maximum", g.number}, {12, "exclusiveMinimum", g.number},
		{12, "exclusiveMaximum", g.number},
		{12, "multipleOf", func() any { return float64(1 + g.IntN(4)) }},
		{9, "minLength", g.count}, {9, "maxLength", g.count}, {9, "minItems", g.count}, {9, "maxItems", g.count},
		{20, "minProperties", g.count},
		{20, "uniqueItems", func() any { return g.oneIn(2) }},
		{25, "$ref", func() any { return "#/$defs/d" }},
	} {
		if g.oneIn(k.odds) {
			m[k.name] = k.make()
		}
	}
	if depth == 0 {
		return m
	}
	sub := func() any { return g.schema(depth - 1) }
	subs := func() any {
		s := []any{sub()}
		for g.oneIn(2) {
			s = append(s, sub())
		}
		return s
	}
	for _, k := range []struct {
		odds int
		name string
		make func() any
	}{
		{3, "properties", func() any {
			p := map[string]any{}
			for _, name := range []string{"a", "b", "cc"} {
				if g.oneIn(2) {
					p[name] = sub()
				}
			}
			return p
		}},
		{4, "additionalProperties", func() any {
			if g.oneIn(2) {
				return false
			}
			return sub()
		}},
		{4, "required", func() any { return []any{[]any{"a", "b", "cc"}[g.IntN(3)]} }},
		{20, "propertyNames", func() any { return map[string]any{"maxLength": g.count()} }},
		{3, "items", sub}, {9, "prefixItems", subs}, {15, "contains", sub},
		{9, "anyOf", subs}, {12, "oneOf", subs}, {12, "allOf", subs}, {15, "not", sub},
	} {
		if g.oneIn(k.odds) {
			m[k.name] = k.make()
		}
	}
	return m
}

func (g gen) number() any { return float64(g.IntN(9)-4) / 2 }

func (g gen) count() any { return float64(g.IntN(3)) }

func (g gen) value(depth int) any {
	n := 8
	if depth == 0 {
		n = 5
	}
	switch g.IntN(n) {
	case 0:
		return nil
	case 1:
		return g.oneIn(2)
	case 2:
		return float64(g.IntN(9) - 4)
	case 3:
		return g.number()
	case 4:
		return []any{"", "a", "bb", "ü"}[g.IntN(4)]
	case 5:
		a := []any{}
		for range g.IntN(3) {
			a = append(a, g.value(depth-1))
		}
		return a
	}
	o := map[string]any{}
	for _, name := range []string{"a", "b", "cc", "d"} {
		if g.oneIn(2) {
			o[name] = g.value(depth - 1)
		}
	}
	return o
}

// change returns a schema that is like s.
func (g gen) change(s any, depth int) any {
	m, ok := s.(map[string]any)
	if !ok || g.oneIn(10) {
		return g.schema(depth)
	}
	m = maps.Clone(m)
	other, _ := g.schema(depth).(map[string]any)
	keys := slices.Sorted(maps.Keys(m))
	for _, k := range keys {
		if !g.oneIn(3) {
			continue
		}
		switch v := m[k].(type) {
		case map[string]any:
			if k == "properties" {
				p := maps.Clone(v)
				for _, name := range slices.Sorted(maps.Keys(p)) {
					if g.oneIn(2) {
						p[name] = g.change(p[name], max(0, depth-1))
					}
				}
				if g.oneIn(3) {
					delete(p, "a")
				}
				if _, ok := p["b"]; !ok && g.oneIn(3) {
					p["b"] = g.schema(max(0, depth-1))
				}
				m[k] = p
				continue
			}
			m[k] = g.change(v, max(0, depth-1))
		case []any:
			if k == "anyOf" || k == "oneOf" || k == "allOf" || k == "prefixItems" {
				l := slices.Clone(v)
				g.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
				if g.oneIn(2) {
					l[0] = g.change(l[0], max(0, depth-1))
				}
				if g.oneIn(2) {
					l = append(l, g.schema(0))
				}
				m[k] = l
				continue
			}
			delete(m, k)
		case float64:
			m[k] = v + 1
			if g.oneIn(2) {
				delete(m, k)
			}
		default:
			delete(m, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(other)) {
		if g.oneIn(6) {
			m[k] = other[k]
		}
	}
	return m
}

// What a report doesn't call breaking or a warning is true of every value: an input that was valid still is, and an
// output that is valid now was valid before. For inputs those that hold a member which the old schema left open and
// the new one names don't count: such schemas are only used where additional properties are closed or constrained.
func TestSound(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	g := gen{rand.New(rand.NewPCG(7, 8))}
	calm, checked, accepted := 0, 0, 0
	for range 2500 {
		old := g.schema(2)
		now := g.change(old, 2)
		defs := g.schema(1)
		strip(defs, "$ref")
		before, after := withDefs(old, defs), withDefs(now, defs)
		if g.oneIn(3) {
			defs = g.change(defs, 1)
			strip(defs, "$ref")
			after = withDefs(now, defs)
		}
		in := shape.Diff(&shape.Shape{Interface: shape.Interface{Input: before}},
			&shape.Shape{Interface: shape.Interface{Input: after}})
		out := shape.Diff(&shape.Shape{Interface: shape.Interface{Output: before}},
			&shape.Shape{Interface: shape.Interface{Output: after}})
		inCalm := !in.Breaking && !slices.ContainsFunc(in.Items, func(i shape.Item) bool {
			return i.Kind == "property_added"
		})
		outCalm := !out.Breaking && !slices.ContainsFunc(out.Items, func(i shape.Item) bool {
			return i.Class == shape.Warning
		})
		if !inCalm && !outCalm {
			continue
		}
		calm++
		for range 60 {
			v := g.value(3)
			was, is := valid(before, v, before), valid(after, v, after)
			if was || is {
				accepted++
			}
			checked++
			if inCalm && was && !is {
				t.Fatalf("input:  %s\nbefore: %s\nafter:  %s\n%s", text(v), text(before), text(after), lines(in))
			}
			if outCalm && is && !was {
				t.Fatalf("output: %s\nbefore: %s\nafter:  %s\n%s", text(v), text(before), text(after), lines(out))
			}
		}
	}
	if calm < 500 || accepted*20 < checked {
		t.Errorf("%d pairs are calm, of %d values %d are accepted: the test tests little", calm, checked, accepted)
	}
}

// An added property of an open input is called compatible, and that is so for all values without undeclared members.
func TestSoundOpen(t *testing.T) {
	g := gen{rand.New(rand.NewPCG(9, 10))}
	calm := 0
	for range 2000 {
		p := map[string]any{"a": g.schema(1), "b": g.schema(1)}
		strip(p, "$ref")
		q := maps.Clone(p)
		q["cc"] = g.schema(1)
		strip(q, "$ref")
		if g.oneIn(2) {
			q["a"] = g.change(q["a"], 1)
			strip(q, "$ref")
		}
		before, after := map[string]any{"type": "object", "properties": p},
			map[string]any{"type": "object", "properties": q}
		r := shape.Diff(&shape.Shape{Interface: shape.Interface{Input: before}},
			&shape.Shape{Interface: shape.Interface{Input: after}})
		if r.Breaking {
			continue
		}
		// Below the first level the same holds of the nested properties.
		if slices.ContainsFunc(r.Items, func(i shape.Item) bool {
			return i.Kind == "property_added" && i.Path != "/input/properties/cc"
		}) {
			continue
		}
		calm++
		for range 20 {
			v := map[string]any{"a": g.value(1), "b": g.value(1)}
			if g.oneIn(3) {
				delete(v, "b")
			}
			if valid(before, v, before) && !valid(after, v, after) {
				t.Fatalf("%s\nbefore: %s\nafter:  %s\n%s", text(v), text(before), text(after), lines(r))
			}
		}
	}
	if calm < 200 {
		t.Errorf("only %d are calm", calm)
	}
}

func withDefs(s, d any) any {
	m, ok := s.(map[string]any)
	if !ok {
		return s
	}
	m = maps.Clone(m)
	m["$defs"] = map[string]any{"d": d}
	return m
}

// strip takes a keyword out of a schema and everything in it.
func strip(v any, keyword string) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, keyword)
		for _, e := range v {
			strip(e, keyword)
		}
	case []any:
		for _, e := range v {
			strip(e, keyword)
		}
	}
}

// A schema compared with itself in other words makes no difference.
func TestSameInOtherWords(t *testing.T) {
	g := gen{rand.New(rand.NewPCG(11, 12))}
	for range 500 {
		s := g.schema(2)
		d := g.schema(1)
		strip(d, "$ref")
		before := withDefs(s, d)
		after := map[string]any{"$ref": "#/$defs/s", "$defs": map[string]any{"s": s, "d": d}}
		r := shape.Diff(&shape.Shape{Interface: shape.Interface{Input: before}},
			&shape.Shape{Interface: shape.Interface{Input: after}})
		if r.Breaking && !strings.Contains(text(s), `"not"`) {
			t.Fatalf("%s\n%s\n%s", text(before), text(after), lines(r))
		}
	}
}

func FuzzDiff(f *testing.F) {
	if testing.Short() {
		f.Skip("one thing at a time, many times over")
	}
	g := gen{rand.New(rand.NewPCG(13, 14))}
	for range 10 { // few enough that a fuzzer of some seconds gets past them
		s := g.schema(2)
		f.Add([]byte(text(s)), []byte(text(g.change(s, 2))))
	}
	f.Add([]byte(`{"items":[{"$ref":"#/items/0"}],"additionalItems":{"type":[]}}`),
		[]byte(`{"patternProperties":{"":false},"unevaluatedItems":{}}`))
	f.Fuzz(sound)
}

// Definitions that contain each other take Diff as long as it may: for a fuzzer's seed that is too long on a busy
// machine.
func TestCircular(t *testing.T) {
	sound(t, []byte(`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#"},{"$ref":"#/$defs/a"}]}}}`),
		[]byte(`{"$ref":"#/%24defs/a","$defs":{"a":{"not":{"$ref":"#"}}}}`))
}

// sound says that a shape doesn't differ from itself, and that two have the same differences each time.
func sound(t *testing.T, a, b []byte) {
	before, err := jcs.Parse(a)
	if err != nil {
		return
	}
	after, err := jcs.Parse(b)
	if err != nil {
		return
	}
	x := &shape.Shape{Interface: shape.Interface{Input: before, Output: before},
		Grants: shape.Grants{Limits: before, Network: before, Files: before}, Examples: before}
	y := &shape.Shape{Interface: shape.Interface{Input: after, Output: after},
		Grants: shape.Grants{Limits: after, Network: after, Files: after}, Examples: after}
	if r := shape.Diff(x, x); len(r.Items) > 0 {
		t.Fatalf("%s: %s", a, lines(r))
	}
	r := shape.Diff(x, y)
	again := shape.Diff(x, y)
	one, err := json.Marshal(r)
	two, _ := json.Marshal(again)
	if err != nil || string(one) != string(two) {
		t.Fatalf("%s\n%s\n%v", one, two, err)
	}
	for _, i := range r.Items {
		if i.Kind == "" || i.Class == "" {
			t.Fatalf("%+v", i)
		}
	}
}
