package query

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestString(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{" \t\n", ""},
		{"Shell", "shell"},
		{"a b", "a b"},
		{"a AND b", "a b"},
		{"a OR b c", "a OR b c"},
		{"(a OR b) c", "(a OR b) c"},
		{"a OR (b OR c)", "a OR b OR c"},
		{"a (b (c d))", "a b c d"},
		{"((a))", "a"},
		{"-a", "NOT a"},
		{"-(a b)", "NOT (a b)"},
		{"NOT -a", "NOT NOT a"},
		{"a OR NOT b", "a OR NOT b"},
		{"and or not", "and or not"},
		{`"AND"`, "and"},
		{`"a  B,c"`, `"a b c"`},
		{`"a \"b\" \\ \n"`, `"a b n"`},
		{`"a b"~`, `"a b"~5`},
		{`"a b"~0`, `"a b"`},
		{`"a b"~12`, `"a b"~12`},
		{`"a"~12`, "a"},
		{"a-b", `"a b"`},
		{"a~", "a~1"},
		{"a~0", "a"},
		{"Ab*", "ab*"},
		{"a**b?", "a*b?"},
		{"__a*/", "a*"},
		{"a-b*", "a-b*"},
		{"Name:x", "name:x"},
		{`name:"x y"~3`, `name:"x y"~3`},
		{"name:(x OR -y z*)", "name:x OR NOT name:y name:z*"},
		{"https://x.y", `https:"x y"`},
		{":x", "x"},
		{"1:x", `"1 x"`},
		{"a(b)", "a b"},
		{`a"b"`, "a b"},
		{"~/.ai", "ai"},
		{"a~b", `"a b"`},
		{"中文", `"中 文"`},
		{"--json", "json"},
		{"a -- b", ""},
	} {
		q, err := Parse(c.text)
		if err != nil && c.want == "" && c.text != "" {
			continue
		}
		if err != nil || q.String() != c.want {
			t.Errorf("%q: %v, %v, not %q", c.text, q, err, c.want)
			continue
		}
		if again, err := Parse(c.want); err != nil || !reflect.DeepEqual(again, q) {
			t.Errorf("%q: %v is not read back: %v", c.text, c.want, err)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`"a`, `query, column 1: this quote is not closed; add "\""`},
		{`é "a\"`, `query, column 3: this quote is not closed; add "\""`},
		{"a (b", `query, column 3: this "(" is not closed; add ")", or put the text in quotes`},
		{"(", `query, column 1: this "(" is not closed; add ")", or put the text in quotes`},
		{"()", "query, column 1: nothing between the parentheses; leave them out"},
		{"a)", `query, column 2: this ")" closes no "("; leave it out, or put the text in quotes`},
		{")", `query, column 1: this ")" closes no "("; leave it out, or put the text in quotes`},
		{"AND", `query, column 1: nothing precedes "AND"; write "and" for the word`},
		{"OR a", `query, column 1: nothing precedes "OR"; write "or" for the word`},
		{"a OR", `query, column 3: nothing follows "OR"; write "or" for the word`},
		{"a AND OR b", `query, column 7: nothing precedes "OR"; write "or" for the word`},
		{"(a AND)", `query, column 4: nothing follows "AND"; write "and" for the word`},
		{"NOT", `query, column 1: nothing follows "NOT"; write "not" for the word`},
		{"a -", `query, column 3: nothing follows "-"; write the word after it without a space, or leave it out`},
		{"a - b", `query, column 3: nothing follows "-"; write the word after it without a space, or leave it out`},
		{"(-)", `query, column 2: nothing follows "-"; write the word after it without a space, or leave it out`},
		{"name:",
			`query, column 1: nothing follows "name:"; write the word after it without a space, or put the text in quotes`},
		{"name: x",
			`query, column 1: nothing follows "name:"; write the word after it without a space, or put the text in quotes`},
		{"a:(b:c)", `query, column 4: the field "b" within the field "a"; put the text in quotes if it is no field`},
		{"!!", "query, column 1: no letter and no digit to look for"},
		{`""`, "query, column 1: no letter and no digit to look for"},
		{"_~1", "query, column 1: no letter and no digit to look for"},
		{"*", "query, column 1: wildcards without a letter or digit; an empty query finds everything"},
		{"name:*", "query, column 6: wildcards without a letter or digit; an empty query finds everything"},
		{"a*~", "query, column 1: a word with wildcards can't be fuzzy; leave out one of them"},
		{"a!*",
			`query, column 1: "a!*" is not one word; use wildcards and ~ with words only, or put the text in quotes`},
		{"a~3", `query, column 1: the distance "~3" is too large; at most ~2 is possible`},
		{"a~99999999999999999999",
			`query, column 1: the distance "~99999999999999999999" is too large; at most ~2 is possible`},
		{`"a b"~x`, `query, column 6: "~x" is no distance; write ~ and a number up to 1000`},
		{`"a b"~1001`, `query, column 6: "~1001" is no distance; write ~ and a number up to 1000`},
		{`"a b"~+1`, `query, column 6: "~+1" is no distance; write ~ and a number up to 1000`},
		{"a \xff", "query, column 3: not UTF-8"},
		{strings.Repeat("a", MaxQuery+1), "query, column 1: the query has 4097 bytes; at most 4096 are possible"},
		{strings.Repeat("a ", MaxWords+1), "query, column 201: more than 100 words"},
		{strings.Repeat("a* ", MaxWords+1), "query, column 301: more than 100 words"},
		{strings.Repeat("(", 51) + "a", "query, column 51: nested more than 50 deep"},
		{strings.Repeat("NOT ", 51) + "a", "query, column 201: nested more than 50 deep"},
	} {
		q, err := Parse(c.text)
		if _, ok := errors.AsType[*ParseError](err); !ok || err.Error() != c.want {
			t.Errorf("%.60q: %v, %v\nnot %s", c.text, q, err, c.want)
		}
	}
	if _, err := Parse("a\ufffd b"); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a OR b -c", `name:"x y"~3 (z* AND q~2)`, "NOT NOT a", "É:x", "a-b_c/d.e", "ſK\u0345",
		`"\"`, "中文*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Parse(text)
		if err != nil {
			if _, ok := errors.AsType[*ParseError](err); !ok {
				t.Fatal(err)
			}
			return
		}
		s := q.String()
		if len(s) > MaxQuery { // "f:(a b)" is written "f:a f:b"
			return
		}
		again, err := Parse(s)
		if err != nil {
			t.Fatalf("%q is written %q: %v", text, s, err)
		}
		if !reflect.DeepEqual(again, q) {
			t.Fatalf("%q is written %q, which means %q", text, s, again)
		}
		for _, r := range q.Places("name", text) {
			if r.Start < 0 || r.End <= r.Start || r.End > len(text) {
				t.Fatalf("%v", r)
			}
		}
	})
}

func TestFold(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !isWord(r) && !unicode.Is(unicode.M, r) {
			continue
		}
		f := fold(r)
		if fold(f) != f {
			t.Errorf("%U becomes %U and then %U", r, f, fold(f))
		}
		if isWord(r) && !isWord(f) {
			t.Errorf("%U becomes %U, which is no letter", r, f)
		}
		for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
			if fold(o) != f {
				t.Errorf("%U becomes %U, but %U %U", r, f, o, fold(o))
			}
		}
	}
}

func TestTokens(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"Hello, World", "hello@0 world@1"},
		{"end. Next", "end@0 next@1"},
		{"rye/core/file-system.py", "rye@0 core@1 file@2 system@3 py@4 rye/core/file-system.py@0 file-system.py@2"},
		{"a-b/c_d", "a@0 b@1 c@2 d@3 a-b/c_d@0 a-b@0 c_d@2"},
		{"__init__ a--b -c-", "init@0 a@1 b@2 c@3"},
		{"naïve cafe\u0301 \u0301x", "naïve@0 cafe\u0301@1 x@2"},
		{"中文abc", "中@0 文@1 abc@2"},
		{"a中-文", "a@0 中@1 文@2"},
		{"x\xffy", "x@0 y@1"},
		{"3½ ٣", "3½@0 ٣@1"},
		{strings.Repeat("é", 60), strings.Repeat("é", 50) + "@0"},
		{"a-" + strings.Repeat("b", 99), "a@0 " + strings.Repeat("b", 99) + "@1"},
	} {
		var tok Tokenizer
		var got []string
		n := 0
		count := tok.Each(c.text, func(k Token) {
			got = append(got, fmt.Sprintf("%s@%d", k.Term, k.Pos))
			n = max(n, k.Pos+1)
			if c := c.text[k.Start:k.End]; !utf8.ValidString(c) || c == "" {
				t.Errorf("the place of %s is %q", k.Term, c)
			}
		})
		if s := strings.Join(got, " "); s != c.want || count != n {
			t.Errorf("%q: %s, %d positions", c.text, s, count)
		}
	}
}

func FuzzTokens(f *testing.F) {
	f.Add("rye/core_a-b.c 中文 é\u0301 x\xff")
	f.Fuzz(func(t *testing.T, text string) {
		var tok Tokenizer
		tok.Each(text, func(k Token) {
			if k.Start < 0 || k.Start >= k.End || k.End > len(text) || len(k.Term) == 0 || len(k.Term) > maxTerm {
				t.Fatalf("%+v", k)
			}
		})
		w := words(text)
		if again := words(strings.Join(w, " ")); !slices.Equal(w, again) {
			t.Fatalf("%q becomes %q", w, again)
		}
	})
}

// TestDistance compares with the definition, by recursion.
func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, term string
		want          bool
	}{
		{"a*", "a", true}, {"a*", "abc", true}, {"a*", "ba", false}, {"*a", "bca", true}, {"*a*", "bab", true},
		{"*a*", "b", false},
		{"a?c", "abc", true}, {"a?c", "ac", false}, {"a?c", "aéc", true}, {"?", "", false},
		{"*a*b*c", "xaxxbxxc", true},
		{"*a*b*c", "xaxxcxxb", false}, {"a*b", "ab", true}, {"a*b?", "abab", false}, {"a*b?", "ababc", true},
		{strings.Repeat("*a", 50) + "b", strings.Repeat("a", 100), false},
	} {
		if glob([]rune(c.pattern), []rune(c.term)) != c.want {
			t.Errorf("%s %s: not %v", c.pattern, c.term, c.want)
		}
	}
}

func TestScope(t *testing.T) {
	for _, c := range []struct {
		text string
		want Scope
	}{
		{"", Scope{}}, {"*", Scope{}}, {"rye.search.*", Scope{}}, {"*:*", Scope{}}, {"*:**", Scope{}},
		{"tool", Scope{"tool", ""}},
		{"tool:**", Scope{"tool", ""}}, {"tool:", Scope{"tool", ""}}, {"tool.*", Scope{"tool", ""}},
		{"tool:rye/core", Scope{"tool", "rye/core"}}, {"tool:rye/core/**", Scope{"tool", "rye/core"}},
		{"tool:rye/core/*", Scope{"tool", "rye/core"}}, {"tool:rye/core/", Scope{"tool", "rye/core"}},
		{"*:rye", Scope{"", "rye"}}, {"tool:a.b/c", Scope{"tool", "a.b/c"}},
		{"tool.rye.*", Scope{"tool", "rye"}}, {"tool.rye", Scope{"tool", "rye"}},
		{"rye.search.tool.rye.core.*", Scope{"tool", "rye/core"}},
		{"rye.execute.directive.x", Scope{"directive", "x"}},
		{"rye.load.knowledge", Scope{"knowledge", ""}},
	} {
		got, err := ParseScope(c.text)
		if err != nil || got != c.want {
			t.Errorf("%q: %+v, %v", c.text, got, err)
		}
		if again, err := ParseScope(got.String()); err != nil || again != got {
			t.Errorf("%q: %q means %+v, %v", c.text, got, again, err)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"rye/core", `scope "rye/core": a kind stands before an id, as in "tool:rye/core/**"`},
		{":rye", `scope ":rye": no kind; write one as in "tool:rye/core/**"`},
		{"to ol", `scope "to ol": no kind; write one as in "tool:rye/core/**"`},
		{"tool:rye/*/x", `scope "tool:rye/*/x": "*" is no segment of an id; wildcards stand at the end alone`},
		{"tool:rye/x*", `scope "tool:rye/x*": "x*" is no segment of an id; wildcards stand at the end alone`},
		{"tool:rye//x", `scope "tool:rye//x": "" is no segment of an id; wildcards stand at the end alone`},
		{"tool:../x", `scope "tool:../x": ".." is no segment of an id; wildcards stand at the end alone`},
		{"tool:é", `scope "tool:é": "é" is no segment of an id; wildcards stand at the end alone`},
	} {
		got, err := ParseScope(c.text)
		if err == nil || err.Error() != c.want {
			t.Errorf("%q: %+v, %v", c.text, got, err)
		}
	}
	core := Scope{"tool", "rye/core"}
	for id, want := range map[string]bool{"rye/core": true, "rye/core/x": true, "rye/core-x": false, "rye/cor": false,
		"rye": false} {
		if core.Covers("tool", id) != want || core.Covers("directive", id) {
			t.Errorf("%s: not %v", id, want)
		}
	}
}

func FuzzScope(f *testing.F) {
	f.Add("rye.search.tool.rye.core.*")
	f.Add("*:a/b/**")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScope(text)
		if err != nil {
			return
		}
		if again, err := ParseScope(s.String()); err != nil || again != s {
			t.Fatalf("%q is written %q: %v", text, s, err)
		}
	})
}

func TestPlaces(t *testing.T) {
	for _, c := range []struct{ query, text, want string }{
		{"shell", "Shell, shells, SHELL", "[Shell], shells, [SHELL]"},
		{"shell*", "Shell, shells", "[Shell], [shells]"},
		{"shll~", "Shell, shells", "[Shell], shells"},
		{"file-system", "the file-system, file x system", "the [file]-[system], file x system"},
		{"file-s*", "the file-system x", "the [file-system] x"},
		{`"a b"~3`, "a x b x x x x b x a", "[a] x [b] x x x x [b] x [a]"},
		{`"a b c"`, "a b a b c", "a b [a] [b] [c]"},
		{"a -b", "a b", "[a] b"},
		{"NOT NOT a", "a", "[a]"},
		{"body:a", "a", "a"},
		{"Name:a", "a", "[a]"},
		{"a", "b", "b"},
		{"", "b", "b"},
		{"fil* file-sys*", "file-system", "[file-system]"},
	} {
		q, err := Parse(c.query)
		if err != nil {
			t.Fatal(err)
		}
		if got := paint(c.text, q.Places("name", c.text)); got != c.want {
			t.Errorf("%s: %s", c.query, got)
		}
	}
	q, _ := Parse("a")
	if n := len(q.Places("x", strings.Repeat("a ", 5000))); n != maxRanges {
		t.Errorf("%d places", n)
	}
}

func paint(text string, ranges []Range) string {
	var b strings.Builder
	at := 0
	for _, r := range ranges {
		b.WriteString(text[at:r.Start] + "[" + text[r.Start:r.End] + "]")
		at = r.End
	}
	return b.String() + text[at:]
}

func TestCut(t *testing.T) {
	long := strings.Repeat("lorem ipsum ", 20) + "the wanted word and the wanted thing" + strings.Repeat(" dolor sit",
		20)
	for _, c := range []struct {
		query, text string
		size        int
		want        string
	}{
		{"a", "a b", 10, "[a] b"},
		{"x", "a b", 10, "a b"},
		{"", "", 10, ""},
		{"x", "one two three four", 10, "one two…"},
		{"wanted", long, 60, "…ipsum the [wanted] word and the [wanted] thing dolor sit dolor…"},
		{"wanted", long, 8, "…[wanted]…"},
		{"b", "a\n\n\tb\x00\x1b[31mc", 100, "a [b] [31mc"},
		{"lorem", long, 30, "[lorem] ipsum [lorem] ipsum [lorem]…"},
		{"sit", "sit", 2, "si…"},
	} {
		q, err := Parse(c.query)
		if err != nil {
			t.Fatal(err)
		}
		s := Cut(c.text, q.Places("name", c.text), c.size)
		got := paint(s.Text, s.Ranges)
		if s.Before {
			got = "…" + got
		}
		if s.After {
			got += "…"
		}
		if got != c.want {
			t.Errorf("%s: %q, not %q", c.query, got, c.want)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("lorem a ipsum é 中 a", "a", 7)
	f.Fuzz(func(t *testing.T, text, word string, size int) {
		q, err := Parse(word)
		if err != nil || size < 0 || size > 1000 {
			return
		}
		s := Cut(text, q.Places("x", text), size)
		last := 0
		for _, r := range s.Ranges {
			if r.Start < last || r.End < r.Start || r.End > len(s.Text) {
				t.Fatalf("%v in %q", s.Ranges, s.Text)
			}
			last = r.End
		}
		// A byte that is no text becomes a character of three.
		if len(s.Text) > 3*size || !utf8.ValidString(s.Text) {
			t.Fatalf("%q", s.Text)
		}
	})
}

// TestLoose: a question becomes the words that it is about; what has operators or fields stays as it is.
func TestLoose(t *testing.T) {
	for text, want := range map[string]string{
		"how do I allow a secret": "allow OR secret", "How to use ollama models": "ollama OR models",
		"what is a lock": "lock", `run "tool"`: "run OR tool",
		"secret": "", "": "", "how do i": "", "a OR b": "", "tool -secret": "", "name:x secret": "",
	} {
		q, err := Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got := ""
		if loose, question := q.Loose(); loose != nil {
			got = loose.String()
			if question != (text != `run "tool"`) {
				t.Errorf("%q is a question: %v", text, question)
			}
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
