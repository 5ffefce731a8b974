package condition_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/manifest/condition"
	"github.com/rye-build/rye/manifest/jcs"
)

type object = map[string]any

// document is what the conditions of these tests are about.
var document = object{
	"num": int64(3), "int": 4, "f": 3.5, "s": "Ünï x", "null": nil, "yes": true, "no": false,
	"list": []any{"a", object{"b": true}, 1.0},
	"deep": object{"er": object{"s": "ye", "n": 1}}, "code": condition.Names{"http_429", "rate_limited"},
	"none":  condition.Names{},
	"a-b_c": "dash", "cost": object{"current": 0.95, "limit": 1.0},
}

func readJSON(t testing.TB, text string) (*condition.Condition, []*condition.Problem) {
	t.Helper()
	v, err := jcs.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return condition.Read(v)
}

// TestObjects: every operator, on values of the right type, of others, and on missing ones. "?" is unknown.
func TestObjects(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:            "yes",
		`{"any": [{}]}`: "yes",
		`{"not": {}}`:   "no",
		`"num == 3"`:    "yes",
		`{"all": ["num == 3", {"path": "num", "value": 3}]}`:                               "yes",
		`{"not": "num == 3"}`:                                                              "no",
		`{"path": "num", "value": 3}`:                                                      "yes",
		`{"path": "int", "value": 4.0}`:                                                    "yes",
		`{"path": "num", "value": "3"}`:                                                    "no",
		`{"path": "num", "op": "ne", "value": 4}`:                                          "yes",
		`{"path": "num", "op": "ne", "value": 3}`:                                          "no",
		`{"path": "missing", "op": "ne", "value": 3}`:                                      "yes",
		`{"path": "missing"}`:                                                              "yes",
		`{"path": "missing", "value": null}`:                                               "yes",
		`{"path": "null", "value": null}`:                                                  "yes",
		`{"path": "missing", "value": ""}`:                                                 "no",
		`{"path": "num"}`:                                                                  "no",
		`{"path": "num", "op": "gt", "value": 2}`:                                          "yes",
		`{"path": "num", "op": "gt", "value": 3}`:                                          "no",
		`{"path": "f", "op": "gte", "value": 3.5}`:                                         "yes",
		`{"path": "num", "op": "lt", "value": 3.5}`:                                        "yes",
		`{"path": "num", "op": "lte", "value": 2}`:                                         "no",
		`{"path": "num", "op": "gt", "value": "2"}`:                                        "?",
		`{"path": "s", "op": "gt", "value": "A"}`:                                          "yes",
		`{"path": "s", "op": "lte", "value": "A"}`:                                         "no",
		`{"path": "s", "op": "gt", "value": 1}`:                                            "?",
		`{"path": "missing", "op": "lt", "value": 1}`:                                      "?",
		`{"path": "list", "op": "lt", "value": 1}`:                                         "?",
		`{"path": "yes", "op": "gt", "value": 0}`:                                          "?",
		`{"path": "num", "op": "in", "value": [1, 3]}`:                                     "yes",
		`{"path": "num", "op": "in", "value": []}`:                                         "no",
		`{"path": "s", "op": "in", "value": ["x"]}`:                                        "no",
		`{"path": "missing", "op": "in", "value": [null]}`:                                 "yes",
		`{"path": "s", "op": "contains", "value": "üNÏ"}`:                                  "yes",
		`{"path": "s", "op": "contains", "value": "."}`:                                    "no",
		`{"path": "num", "op": "contains", "value": "3"}`:                                  "yes",
		`{"path": "yes", "op": "contains", "value": "RU"}`:                                 "yes",
		`{"path": "list", "op": "contains", "value": "a"}`:                                 "yes",
		`{"path": "list", "op": "contains", "value": "A"}`:                                 "no",
		`{"path": "deep", "op": "contains", "value": "a"}`:                                 "?",
		`{"path": "missing", "op": "contains", "value": "a"}`:                              "no",
		`{"path": "s", "op": "regex", "value": "^ü.* X$"}`:                                 "yes",
		`{"path": "s", "op": "regex", "value": "(?-i)^ü"}`:                                 "no",
		`{"path": "f", "op": "regex", "value": "^3\\.5$"}`:                                 "yes",
		`{"path": "list", "op": "regex", "value": "a"}`:                                    "?",
		`{"path": "missing", "op": "regex", "value": ".*"}`:                                "no",
		`{"path": "num", "op": "exists"}`:                                                  "yes",
		`{"path": "null", "op": "exists"}`:                                                 "no",
		`{"path": "missing.at.all", "op": "exists"}`:                                       "no",
		`{"path": "list.0", "value": "a"}`:                                                 "yes",
		`{"path": "list.1.b", "value": true}`:                                              "yes",
		`{"path": "list.3", "op": "exists"}`:                                               "no",
		`{"path": "list.x", "op": "exists"}`:                                               "no",
		`{"path": "list.-1", "op": "exists"}`:                                              "no",
		`{"path": "deep.er.s", "value": "ye"}`:                                             "yes",
		`{"path": "deep.er", "value": {"s": "ye", "n": 1}}`:                                "yes",
		`{"path": "deep.er", "value": {"s": "ye", "m": 1}}`:                                "no",
		`{"path": "deep.er", "value": {"s": "ye"}}`:                                        "no",
		`{"path": "deep.er", "value": "ye"}`:                                               "no",
		`{"path": "list", "value": ["a", {"b": true}, 1]}`:                                 "yes",
		`{"path": "list", "value": ["a"]}`:                                                 "no",
		`{"path": "code", "value": "http_429"}`:                                            "yes",
		`{"path": "code", "value": "rate_limited"}`:                                        "yes",
		`{"path": "code", "op": "ne", "value": "rate_limited"}`:                            "no",
		`{"path": "code", "op": "ne", "value": "other"}`:                                   "yes",
		`{"path": "code", "op": "in", "value": ["x", "rate_limited"]}`:                     "yes",
		`{"path": "code", "op": "regex", "value": "^http"}`:                                "yes",
		`{"path": "code", "op": "regex", "value": "limited"}`:                              "no",
		`{"path": "none", "op": "regex", "value": "."}`:                                    "no",
		`{"path": "code", "op": "gt", "value": "a"}`:                                       "?",
		`{"path": "code", "value": 3}`:                                                     "no",
		`{"any": [{"path": "num", "value": 1}, {"path": "num", "value": 3}]}`:              "yes",
		`{"any": [{"path": "num", "value": 1}]}`:                                           "no",
		`{"all": [{"path": "num", "value": 3}, {"path": "num", "value": 1}]}`:              "no",
		`{"not": {"any": [{"path": "num", "op": "exists"}]}}`:                              "no",
		`{"all": [{"path": "s", "op": "gt", "value": 1}, {"path": "num"}]}`:                "no",
		`{"any": [{"path": "s", "op": "gt", "value": 1}, {"path": "yes", "value": true}]}`: "yes",
		`{"any": [{"path": "s", "op": "gt", "value": 1}, {"path": "num"}]}`:                "?",
		`{"all": [{"path": "s", "op": "gt", "value": 1}, {"path": "missing"}]}`:            "?",
	} {
		c, problems := readJSON(t, text)
		if problems != nil {
			t.Errorf("%s: %v", text, problems)
			continue
		}
		holds(t, text, c, want)
	}
	if nothing := new(condition.Condition); !nothing.Holds(nil) {
		t.Error("the zero condition doesn't hold")
	}
}

// holds checks what a condition says of the document. What is unknown doesn't hold, unless "not" stands before it.
func holds(t *testing.T, text string, c *condition.Condition, want string) {
	t.Helper()
	is := map[condition.Answer]string{condition.Yes: "yes", condition.No: "no", condition.Unknown: "?"}
	if got := is[c.Ask(document)]; got != want {
		t.Errorf("%s: %s; want %s", text, got, want)
	}
	if got := c.Holds(document); want != "?" && got != (want == "yes") {
		t.Errorf("%s holds: %v; want %s", text, got, want)
	}
}

// TestOrder: a bound means what it says at the bound itself: a policy that lets a payment of up to 100 pass must not
// let one of 101 pass, nor ask about one of 100.
func TestOrder(t *testing.T) {
	for op, want := range map[string]string{"<": "yes no no", "<=": "yes yes no", ">": "no no yes",
		">=": "no yes yes", "==": "no yes no", "!=": "yes no yes"} {
		for i, answer := range strings.Fields(want) {
			for _, text := range []string{fmt.Sprintf("%d %s 100", 99+i, op),
				fmt.Sprintf("'%c' %s 'b'", 'a'+rune(i), op)} {
				c, err := condition.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				holds(t, text, c, answer)
			}
		}
	}
}

// TestEqual: lists and objects are equal if all of their parts are.
func TestEqual(t *testing.T) {
	for text, want := range map[string]string{
		`["a", {"b": true}, 1]`: "yes", `["a", {"b": true}]`: "no", `["a", {"b": true}, 1, 2]`: "no",
		`["a", {"b": false}, 1]`: "no", `["a", {"c": true}, 1]`: "no", `["a", {"b": true, "c": 1}, 1]`: "no",
		`["a", {}, 1]`: "no", `["a", "b", 1]`: "no", `"a"`: "no", `{"0": "a"}`: "no", `["a", {"b": true}, "1"]`: "no",
	} {
		c, problems := readJSON(t, `{"path": "list", "op": "eq", "value": `+text+`}`)
		if len(problems) > 0 {
			t.Fatal(problems[0])
		}
		holds(t, text, c, want)
	}
}

// TestTexts: conditions as text, their order, and what can't be compared.
func TestTexts(t *testing.T) {
	for text, want := range map[string]string{
		"cost.current > cost.limit * 0.9":     "yes",
		"cost.limit * 0.9 < cost.current":     "yes",
		"cost.current > cost.limit":           "no",
		"2 * num * 2 == 12":                   "yes",
		"num * s > 1":                         "?",
		"num * missing != 7":                  "?",
		"error.type == \"permission_denied\"": "no",
		"code == 'rate_limited'":              "yes",
		"'rate_limited' == code":              "yes",
		"code != 'rate_limited'":              "no",
		"s == 'Ünï x'":                        "yes",
		`deep.er.s == "ye" and num == 3`:      "yes",
		`num == 1 or num == 2 or num == 3`:    "yes",
		`num == 3 or num == 3 and num == 1`:   "yes",
		`(num == 3 or num == 3) and num == 1`: "no",
		`not num == 1 and num == 3`:           "yes",
		`not (num == 1 or num == 3)`:          "no",
		`not not yes`:                         "yes",
		"yes":                                 "yes",
		"no":                                  "no",
		"true":                                "yes",
		"false or yes":                        "yes",
		"missing":                             "?",
		"num":                                 "?",
		"null == missing":                     "yes",
		"-3 < num":                            "yes",
		"num>=3":                              "yes",
		"num<=2":                              "no",
		"1.5e1 == 15":                         "yes",
		"1.5e+1 == 15":                        "yes",
		"1.5E+1 == 15":                        "yes",
		"1+1 == 2":                            "!",
		"- 1 < 2":                             "!",
		"-":                                   "!",
		"'\x7f' == s":                         "!",
		"num == 9 and A == null":              "no",
		"Zz == null and zA == null":           "yes",
		"num in [1, 3, 'x']":                  "yes",
		"num in []":                           "no",
		"missing in [null, false]":            "yes",
		`s contains "üNÏ"`:                    "yes",
		`s matches "^ü.* X$"`:                 "yes",
		`'it''`:                               "!",
		`"it's \"it\" \\" == 'it\'s "it" \\'`: "yes",
		`list.0 == "a"`:                       "yes",
		"a-b_c == 'dash'":                     "yes",
		"missing > 100":                       "?",
		"not missing > 100":                   "?",
		"s > 100 and num == 1":                "no",
		"andy == null and nothing == null":    "yes",
		"'and' == 'and'":                      "yes",
		"'(' == '('":                          "yes",
	} {
		c, err := condition.Parse(text)
		if want == "!" {
			if err == nil {
				t.Errorf("%s is accepted", text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		holds(t, text, c, want)
	}
	unknown, err := condition.Parse("not missing > 100")
	if err != nil || !unknown.Holds(document) {
		t.Errorf("what can't be compared isn't false: %v", err)
	}
}

func TestProblems(t *testing.T) {
	sound := `{"path": "a"}`
	nested := strings.Repeat(`{"not": `, 16) + sound + strings.Repeat("}", 16)
	many := `{"any": [` + strings.Repeat(sound+", ", 1100) + sound + "]}"
	for text, want := range map[string]string{
		`[]`:                                    "expected a condition",
		`null`:                                  "expected a condition",
		`{"path": "a..b"}`:                      `path: invalid path "a..b"`,
		`{"op": "eq", "value": 1}`:              `path: invalid path ""`,
		`{"path": 3}`:                           `path: invalid path ""`,
		`{"path": "a", "vlaue": 1}`:             `unknown key "vlaue"`,
		`{"any": [], "path": "a"}`:              `unknown key "path": expected one of any; any: expected a list of conditions`,
		`{"all": {"path": "a"}}`:                "all: expected a list of conditions",
		`{"not": [{"path": "a"}]}`:              "not: expected a condition",
		`{"any": [{"path": ""}, "a b"]}`:        `any[0].path: invalid path ""; any[1]: column 3: unexpected b`,
		`{"path": "a", "op": "like"}`:           `op: invalid operator "like"`,
		`{"path": "a", "op": 1}`:                `op: invalid operator ""`,
		`{"path": "a", "op": "true"}`:           `op: invalid operator "true"`,
		`{"path": "a", "op": "in", "value": 1}`: "value: expected a list of at most 256 values",
		`{"path": "a", "op": "in", "value": [` + strings.Repeat("1,",
			256) + `1]}`: "value: expected a list of at most 256 values",
		`{"path": "a", "op": "gt", "value": [1]}`:      "value: expected a number or a string",
		`{"path": "a", "op": "contains"}`:              "value: expected a string of 1 to 1000 bytes",
		`{"path": "a", "op": "contains", "value": ""}`: "value: expected a string of 1 to 1000 bytes",
		`{"path": "a", "op": "regex", "value": "` + strings.Repeat("a",
			1001) + `"}`: "value: expected a string of 1 to 1000 bytes",
		`{"path": "a", "op": "regex", "value": "("}`:                 "missing closing )",
		`{"path": "a", "op": "regex", "value": "a|x)|(b"}`:           "unexpected )",
		`{"path": "a", "op": "regex", "value": "(?:a{1000}){1000}"}`: "invalid repeat count",
		`{"path": "a", "op": "exists", "value": true}`:               "value: not allowed with exists",
		nested:                                  "more than 1000 conditions, or nested more than 16 levels deep",
		many:                                    "more than 1000 conditions",
		`""`:                                    "column 1: expected a path, a number or a string",
		`"a =="`:                                "column 5: expected a path",
		`"a = 1"`:                               `column 3: unexpected character '='`,
		`"a && b"`:                              `column 3: unexpected character '&'`,
		`"Ü == 1"`:                              `column 1: unexpected character 'Ü'`,
		`"a == 1 2"`:                            "column 8: unexpected 2",
		`"(a"`:                                  "column 3: expected )",
		`"a..b"`:                                `column 1: invalid path "a..b"`,
		`"a. == 1"`:                             `column 1: invalid path "a."`,
		`"and == 1"`:                            "column 1: expected a path",
		`"a in b"`:                              "column 6: expected [",
		`"a in [b]"`:                            "column 8: a list has only values",
		`"a in [1 2]"`:                          "column 9: expected ,",
		`"a in [1"`:                             "column 8: expected ,",
		`"a contains b"`:                        "column 12: expected a string",
		`"a contains 3"`:                        "expected a string of 1 to 1000 bytes",
		`"a matches '('"`:                       "missing closing )",
		`"a == 'x"`:                             "column 6: a string doesn't end",
		`"a == 'x\\n'"`:                         `a string has a \ that isn't followed by`,
		`"a == 'x\\"`:                           `a string has a \ that isn't followed by`,
		`"a == '\u0007'"`:                       "a string has a control character",
		`"a == 1.2.3"`:                          `invalid number "1.2.3"`,
		`"a == 0x10"`:                           `invalid number "0x10"`,
		`"a == 1_000"`:                          `invalid number "1_000"`,
		`"a == 1e999"`:                          `invalid number "1e999"`,
		`"` + strings.Repeat("not ", 20) + `a"`: "nested more than 16 levels deep",
		`"` + strings.Repeat("(", 4000) + `"`:   "nested more than 16 levels deep",
		`"` + strings.Repeat("a or ", 700) + `a"`: "",
		`"` + strings.Repeat("a or ", 900) +
			`a"`: "a condition is UTF-8 text of at most 4096 bytes",
		`{"any": ["` + strings.Repeat("a or ", 700) + `a", "` + strings.Repeat("a or ",
			700) + `a"]}`: "more than 1000 conditions",
	} {
		c, problems := readJSON(t, text)
		var all []string
		for _, p := range problems {
			all = append(all, p.Error())
		}
		got := strings.Join(all, "; ")
		if !strings.Contains(got, want) || (c == nil) != (got != "") || want == "" && got != "" || want != "" &&
			strings.Count(got, "; ") != strings.Count(want, "; ") {
			t.Errorf("%.100s: %.300s; want %s", text, got, want)
		}
	}
	if _, problems := condition.Read(object{"path": "a", "value": []any{struct{}{}}}); len(problems) != 1 ||
		!strings.Contains(problems[0].Error(), "not a JSON value") {
		t.Errorf("%v", problems)
	}
	if _, err := condition.Parse("a == \xff"); err == nil {
		t.Error("text that isn't UTF-8 is accepted")
	}
}

func TestRoots(t *testing.T) {
	c, problems := condition.Read(object{"any": []any{"params.a * caller.b > 2 and 'x' == tenant",
		object{"not": object{"path": "params.c"}}}})
	if got := c.Roots(); problems != nil || !reflect.DeepEqual(got, []string{"caller", "params", "tenant"}) {
		t.Errorf("%v %v", got, problems)
	}
}

func ExampleParse() {
	c, err := condition.Parse(`params.amount > 100 and not caller == "ci"`)
	fmt.Println(err, c.Roots())
	for _, amount := range []any{100.0, 120.0, "120"} {
		doc := map[string]any{"params": map[string]any{"amount": amount}, "caller": "ann"}
		fmt.Println(c.Holds(doc), c.Ask(doc) != condition.No)
	}
	// Output:
	// <nil> [caller params]
	// false false
	// true true
	// false true
}

// FuzzParse: whatever is read answers, holds only if the answer isn't no, and needs no more than its bounds.
func FuzzParse(f *testing.F) {
	for _, text := range []string{`a.b > 2 * c and not (d in [1, "x"] or e matches 'x*')`, "((((", "not not a", `"\"`,
		"a == -1e5", "a contains 'b'"} {
		f.Add(text, `{"a": {"b": 3}, "c": "x"}`)
	}
	f.Fuzz(func(t *testing.T, text, doc string) {
		v, err := jcs.Parse([]byte(doc))
		if err != nil {
			return
		}
		c, err := condition.Parse(text)
		if (c == nil) == (err == nil) {
			t.Fatalf("%v, %v", c, err)
		}
		check(t, c, v)
	})
}

// FuzzRead is FuzzParse for objects.
func FuzzRead(f *testing.F) {
	f.Add(
		`{"any": [{"path": "a.0", "op": "regex", "value": "(a|b)*"}, {"not": {"path": "b", "op": "gt", "value": 1}}, "a == b"]}`,
		`{"a": ["ab"]}`)
	f.Add(`{"all": [{"path": "a", "op": "in", "value": [1, null]}, {"path": "a", "op": "contains", "value": "x"}]}`,
		`{"a": null}`)
	f.Fuzz(func(t *testing.T, text, doc string) {
		given, err := jcs.Parse([]byte(text))
		v, err2 := jcs.Parse([]byte(doc))
		if err != nil || err2 != nil {
			return
		}
		c, problems := condition.Read(given)
		if (c == nil) != (len(problems) > 0) {
			t.Fatalf("%v, %v", c, problems)
		}
		check(t, c, v)
	})
}

func check(t *testing.T, c *condition.Condition, doc any) {
	if c == nil {
		return
	}
	answer := c.Ask(doc)
	if holds := c.Holds(doc); answer == condition.Yes && !holds || answer == condition.No && holds {
		t.Errorf("holds: %v, asked: %v", holds, answer)
	}
	c.Roots()
}
