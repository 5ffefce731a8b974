package value_test

import (
	"cmp"
	"errors"
	"reflect"
	"testing"

	"github.com/rye-build/rye/ai/value"
)

func text(s string) *value.Value { return &value.Value{Kind: value.Text, Text: s} }

func integer(s string) *value.Value {
	return &value.Value{Kind: value.Int, Text: s, At: value.Pos{Line: 3, Column: 7}}
}

func TestGet(t *testing.T) {
	m := &value.Value{Kind: value.Map, Map: []value.Entry{{Key: "a", Value: text("one")},
		{Key: "b", Value: text("two")}}}
	if got := m.Get("b").String(); got != "two" {
		t.Errorf("Get(b) = %q", got)
	}
	if m.Get("c") != nil || text("a").Get("a") != nil || (*value.Value)(nil).Get("a") != nil {
		t.Error("found what isn't there")
	}
	if !m.Get("c").IsNull() || m.IsNull() || !(&value.Value{}).IsNull() {
		t.Error("IsNull is wrong")
	}
	if m.String() != "" || integer("4").String() != "" {
		t.Error("only a text has a text")
	}
}

func TestJSON(t *testing.T) {
	v := &value.Value{Kind: value.Map, Map: []value.Entry{
		{Key: "list", Value: &value.Value{Kind: value.List, Items: []*value.Value{
			{}, {Kind: value.Bool, Text: "true"}, {Kind: value.Bool, Text: "false"}, integer("-12"),
			{Kind: value.Float, Text: "1.5e3"}, text("x"),
		}}},
		{Key: "limit", Value: integer("9007199254740992")},
	}}
	got, err := v.JSON()
	want := map[string]any{"list": []any{nil, true, false, int64(-12), 1500.0, "x"}, "limit": int64(1 << 53)}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("JSON() = %v, %v", got, err)
	}
	if got, err := (*value.Value)(nil).JSON(); got != nil || err != nil {
		t.Errorf("of nothing: %v, %v", got, err)
	}
}

// What JSON's readers disagree about has no JSON form, however deep it lies, and the error says where.
func TestJSONRefuses(t *testing.T) {
	for _, n := range []*value.Value{integer("9007199254740993"), integer("-9007199254740993"),
		integer("123456789012345678901234567890"),
		{Kind: value.Float, Text: "1e999", At: value.Pos{Line: 3, Column: 7}}} {
		for _, v := range []*value.Value{n, {Kind: value.List, Items: []*value.Value{n}},
			{Kind: value.Map, Map: []value.Entry{{Key: "n", Value: n}}}} {
			_, err := v.JSON()
			var p *value.Problem
			if !errors.As(err, &p) || p.At != (value.Pos{Line: 3, Column: 7}) {
				t.Errorf("%s: %v", n.Text, err)
			}
		}
	}
}

func TestInt(t *testing.T) {
	if n, ok := integer("-42").Int(); n != -42 || !ok {
		t.Errorf("Int() = %d, %v", n, ok)
	}
	for _, v := range []*value.Value{nil, text("4"), {Kind: value.Float, Text: "4.0"},
		integer("9223372036854775808")} {
		if n, ok := v.Int(); ok {
			t.Errorf("%v is the integer %d", v, n)
		}
	}
}

func TestProblem(t *testing.T) {
	for want, p := range map[string]*value.Problem{
		"bad":                   {Message: "bad"},
		"line 2: bad":           {At: value.Pos{Line: 2}, Message: "bad"},
		"line 2, column 5: bad": {At: value.Pos{Line: 2, Column: 5}, Message: "bad", Field: "name"},
	} {
		if p.Error() != want {
			t.Errorf("%q, want %q", p, want)
		}
	}
}

func TestOrder(t *testing.T) {
	ordered := []value.Pos{{}, {1, 0}, {1, 1}, {1, 2}, {2, 1}}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := a.Compare(b); got != cmp.Compare(i, j) {
				t.Errorf("%v and %v: %d", a, b, got)
			}
		}
	}
}

func TestKind(t *testing.T) {
	if got := value.Float.String() + value.Map.String() + value.Kind(9).String(); got != "numberobjectkind 9" {
		t.Errorf("kinds are called %q", got)
	}
}
