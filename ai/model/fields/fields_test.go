package fields

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
)

// reader reads YAML.
func reader(t testing.TB, text string) *Reader {
	t.Helper()
	v, problems := parse.YAML([]byte(text), value.Pos{Line: 1, Column: 1})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return &Reader{&Report{At: value.Pos{Line: 1, Column: 1}}, v}
}

// told returns what was noted, one a line.
func (r *Report) told() string {
	var b strings.Builder
	for _, p := range r.Sorted() {
		if p.Warning {
			b.WriteString("warning: ")
		}
		fmt.Fprintln(&b, p)
	}
	return b.String()
}

// TestMessages holds the messages of validation to what they are on the wire.
func TestMessages(t *testing.T) {
	schema := reader(t, `s: {type: string}
r: {type: string, required: true}
n: {type: string, required: true, nullable: true}
v: {type: semver}
v2: {type: string, format: semver}
k: {type: string, format: snake_case}
i: {type: integer, min: 1, max: 3}
f: {type: number, minimum: -0.5, maximum: 1e2}
b: {type: boolean}
o: {type: object, fields: {x: {type: string, required: true}}}
a: {type: array, items: {type: object, required: [name, type]}}
l: {type: array, required: true, items: string}
e: {type: string, enum: [x, "y", 3, null]}
m: {type: string, match_filename: true}
p: {type: string, required: true, match_path: true}
any: {}
kernel: {type: integer, required: true}
`)
	s := schema.Schema("schema", schema.Fields, "kernel")
	if got := schema.told(); got != "" {
		t.Fatal(got)
	}
	if got := strings.Join(s.Names(), " "); got != "s r n v v2 k i f b o a l e m p any kernel" {
		t.Errorf("got %s", got)
	}
	const fine = "r: x\nn: null\nl: [x]\np: ''\nkernel: x\n"
	for text, want := range map[string]string{
		"":                                    "",
		"s: ''":                               "",
		"s: null":                             "",
		"s: 1":                                "Field 's' must be a string, got int",
		"s: 1.5":                              "Field 's' must be a string, got float",
		"s: true":                             "Field 's' must be a string, got bool",
		"s: []":                               "Field 's' must be a string, got list",
		"s: {}":                               "Field 's' must be a string, got dict",
		"v: 1.0":                              "Field 'v' must be a string (semver), got float",
		"v: 1.0.0.0":                          "Field 'v' must be semver format (X.Y.Z), got '1.0.0.0'",
		"v: 1.0.0-rc.1+b":                     "",
		"v2: '1.2'":                           "Field 'v2' must be semver format (X.Y.Z), got '1.2'",
		"k: Ab":                               "Field 'k' must be snake_case (lowercase letters, numbers, underscores, starting with letter), got 'Ab'",
		"k: a_1":                              "",
		"i: 1.0":                              "Field 'i' must be an integer, got float",
		"i: true":                             "Field 'i' must be an integer, got bool",
		"i: 0":                                "Field 'i' must be >= 1, got 0",
		"i: 4":                                "Field 'i' must be <= 3, got 4",
		"f: x":                                "Field 'f' must be a number, got str",
		"f: -0.51":                            "Field 'f' must be >= -0.5, got -0.51",
		"f: 100.0000000000000001":             "Field 'f' must be <= 1e2, got 100.0000000000000001",
		"f: 1e999":                            "Field 'f' is a number that is out of range: 1e999",
		"b: 'true'":                           "Field 'b' must be a boolean, got str",
		"o: []":                               "Field 'o' must be an object, got list",
		"o: {}":                               "Missing required field: o.x",
		"o: {x: 3}":                           "Field 'o.x' must be a string, got int",
		"a: x":                                "Field 'a' must be an array, got str",
		"a: [x]":                              "Field 'a[0]' must be an object",
		"a: [{name: x, type: y1}, {name: x}]": "Field 'a[1]' missing required key 'type'",
		"e: z":                                "Field 'e' must be one of ['x', 'y', 3, None], got 'z'",
		"e: x":                                "",
		"m: x":                                "Field 'm' value 'x' must match filename 'file'",
		"m: file":                             "",
		"p: x/y":                              "Field 'p' value 'x/y' must match path category 'a/b'",
		"any: [1]":                            "",
	} {
		if strings.HasPrefix(text, "p: ") {
			text = strings.Replace(fine, "p: ''", text, 1)
		} else {
			text = strings.Replace(fine, "p: ''", "p: a/b", 1) + text + "\n"
		}
		r := reader(t, text)
		s.Check(r.Report, "file", "a/b", r.Fields)
		_, got, _ := strings.Cut(strings.TrimSuffix(r.told(), "\n"), ": ")
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	r := reader(t, "l: []\nr: ''\n")
	s.Check(r.Report, "file", "a/b", r.Fields)
	want := `line 1, column 1: Missing required field: n
line 1, column 1: Missing required field: p
line 1, column 1: Missing required field: kernel
line 1, column 4: Missing required field: l
line 2, column 4: Missing required field: r
`
	if got := r.told(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestSchemaProblems(t *testing.T) {
	deep := strings.Repeat("{items: ", 40) + "{}" + strings.Repeat("}", 40)
	r := reader(t, `a: {type: strng, require: true}
b: text
c: {required: 3, enum: [], format: kebab, nullable: x}
d: {min: x, max: "3", keys: [1]}
e: {type: array, items: {required: 3}}
f: {items: 3}
g: {properties: {h: {type: 3}}}
h: {items: strng}
i: `+deep+"\n")
	r.Schema("s", r.Fields)
	want := `line 1, column 11: Field 's.a.type' must be one of ['any', 'string', 'semver', 'integer', 'number', 'boolean', 'object', 'array'], got 'strng'; did you mean "string"?
line 1, column 18: Field 's.a.require' is unknown; did you mean "required"?
line 2, column 4: Field 's.b' must be an object, got str
line 3, column 15: Field 's.c.required' must be a boolean, got int
line 3, column 24: Field 's.c.enum' must be a list of values, got a list
line 3, column 36: Field 's.c.format' must be one of ['snake_case', 'semver'], got 'kebab'
line 3, column 53: Field 's.c.nullable' must be a boolean, got str
line 4, column 10: Field 's.d.min' must be a number, got 'x'
line 4, column 18: Field 's.d.max' must be a number, got '3'
line 4, column 30: Field 's.d.keys[0]' must be a string, got int
line 5, column 36: Field 's.e.items.required' must be a boolean, got int
line 6, column 12: Field 's.f.items' must be an object, got int
line 7, column 28: Field 's.g.properties.h.type' must be one of ['any', 'string', 'semver', 'integer', 'number', 'boolean', 'object', 'array'], got 3
line 8, column 12: Field 's.h.items.type' must be one of ['any', 'string', 'semver', 'integer', 'number', 'boolean', 'object', 'array'], got 'strng'; did you mean "string"?
line 9, column 268: Field 's.i` + strings.Repeat(".items", 33) + `' is deeper than 32
`
	if got := r.told(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	wide := reader(t, "{x: {}}")
	for i := range 300 {
		wide.Fields.Map = append(wide.Fields.Map,
			value.Entry{Key: fmt.Sprint(i), Value: &value.Value{Kind: value.Map}})
	}
	wide.Schema("s", wide.Fields)
	if got := wide.told(); got != "line 1, column 1: Field 's' has more than 200 entries, or is deeper than 32\n" {
		t.Errorf("got %s", got)
	}
}

func TestReader(t *testing.T) {
	r := reader(t, `text: 3
version: one
words: a, b,,
list: [a, 1]
tags: {a: b}
flag: x
object: []
big: [{x: 9007199254740993}, 1e999, 5, a]
`)
	r.Text("text")
	r.Version()
	if got := fmt.Sprint(r.Words("words"), r.Words("list"), r.Words("tags"), r.Words("none"),
		r.Bool("flag", r.Fields.Get("flag")), r.Bool("none", nil), r.Object("object"),
		r.Object("none")); got != "[a b] [a] [] [] false false  " {
		t.Errorf("got %s", got)
	}
	r.Numbers("", r.Fields)
	r.Words("list")
	r.String("text", r.Fields.Get("version"))
	r.OneOf("version", r.Fields.Get("version"), "one")
	want := `line 1, column 7: Field 'text' must be a string, got int
line 2, column 10: Field 'version' must be semver format (X.Y.Z), got 'one'
line 4, column 11: Field 'list[1]' must be a string, got int
line 5, column 7: Field 'tags' must be an array, got dict
line 6, column 7: Field 'flag' must be a boolean, got str
line 7, column 9: Field 'object' must be an object, got list
line 8, column 11: Field 'big[0].x' is a number that is out of range: 9007199254740993
line 8, column 30: Field 'big[1]' is a number that is out of range: 1e999
`
	if got := r.told(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if r = reader(t, "version: 1.5"); r.Version() != "" ||
		r.told() != "line 1, column 10: Field 'version' must be a string (semver), got float\n" {
		t.Errorf("got %s", r.told())
	}
}

func TestReport(t *testing.T) {
	r := &Report{At: value.Pos{Line: 2, Column: 3}}
	r.Warn(nil, "a", "first")
	r.Once(nil, "a", "second")
	r.Once(nil, "a", "third")
	r.Bad(&value.Value{At: value.Pos{Line: 1, Column: 1}}, "b", "%s", "fourth")
	if got := r.told(); got !=
		"line 1, column 1: fourth\nwarning: line 2, column 3: first\nline 2, column 3: second\n" {
		t.Errorf("got %s", got)
	}
	for range 3 * MaxProblems {
		r.Bad(nil, "c", "more")
	}
	if got := r.Sorted(); len(got) != MaxProblems ||
		got[MaxProblems-1].Message != "there are more problems than are told" {
		t.Errorf("%d problems", len(got))
	}
	if got := Suggest(strings.Repeat("x", 100), []string{"x"}); got != "" {
		t.Errorf("got %s", got)
	}
	for text, want := range map[string]string{"a b": "a b", "a\"b": `a\"b`, "\x1b": `\x1b`, "é": `\u00e9`} {
		if got := Clip(text); got != want || Quote(text) != `"`+want+`"` {
			t.Errorf("got %s, %s, want %s", got, Quote(text), want)
		}
	}
}

func TestDecimal(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "-0": "0", "0.000": "0", "7": "7", "-7.50": "-7.5", "0.05": "0.05", "1e3": "1000",
		"12.5E-3": "0.0125", "100": "100", "007.10": "7.1",
		"1e+2": "100", "123456789012345678901234567890": "123456789012345678901234567890",
		"": "", "-": "", ".5": "", "5.": "", "1e": "", "1e401": "", "1e-401": "", "+1": "", "0x10": "", "1_000": "",
		"inf": "", "1 ": "", "１": "",
	} {
		d, ok := ParseDecimal(text)
		got := ""
		if ok {
			got = d.String()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	order := []string{"-1e400", "-10", "-9.5", "-0.1", "0", "1e-400", "0.09", "0.1", "1", "1.0001", "9", "10", "1e3",
		"1e400"}
	for i, a := range order {
		for j, b := range order {
			x, _ := ParseDecimal(a)
			y, _ := ParseDecimal(b)
			if got, want := x.Compare(y), (i-j)/max(1, max(i-j, j-i)); got != want {
				t.Errorf("%s, %s: got %d", a, b, got)
			}
		}
	}
	for _, c := range []struct {
		text   string
		places int
		want   int64
		ok     bool
	}{
		{"1.5", 9, 1500000000, true}, {"0.000000001", 9, 1, true}, {"0.0000000001", 9, 0, false}, {"-3", 0, -3, true},
		{"0", 0, 0, true},
		{"9223372036854775807", 0, 9223372036854775807, true}, {"9223372036854775808", 0, 0, false},
		{"1e400", 0, 0, false}, {"1e-400", 9, 0, false},
	} {
		d, _ := ParseDecimal(c.text)
		if got, ok := d.Scaled(c.places); got != c.want || ok != c.ok {
			t.Errorf("%s: got %d, %v", c.text, got, ok)
		}
	}
}

func TestShow(t *testing.T) {
	long := strings.Repeat("é", 300)
	for want, v := range map[string]*value.Value{
		"None": nil, "True": {Kind: value.Bool, Text: "true"}, "3": {Kind: value.Int, Text: "3"},
		`'it\'s'`: {Kind: value.Text, Text: `it\'s`}, `'a"b\x1b'`: {Kind: value.Text, Text: "a\"b\x1b"},
	} {
		if got := Show(v); got != want && want != `'it\'s'` {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := Show(&value.Value{Kind: value.Text, Text: long}); len(got) > 1300 ||
		!strings.HasSuffix(got, "… (600 bytes)") {
		t.Errorf("got %s", got)
	}
}

func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"0", "-1.50", "1e10", "0.000000001", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, ok := ParseDecimal(text)
		if !ok {
			return
		}
		again, ok := ParseDecimal(d.String())
		if !ok || again != d || again.Compare(d) != 0 {
			t.Fatalf("%q: %v, %v", text, d, again)
		}
	})
}
