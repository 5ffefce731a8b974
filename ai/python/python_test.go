package python_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/python"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/goldentest"
)

// placed returns a value with the places of all its parts, for the golden files.
func placed(v *value.Value) any {
	at := fmt.Sprintf("%d:%d", v.At.Line, v.At.Column)
	switch v.Kind {
	case value.List:
		items := []any{}
		for _, item := range v.Items {
			items = append(items, placed(item))
		}
		return []any{at, items}
	case value.Map:
		entries := []any{}
		for _, e := range v.Map {
			entries = append(entries, []any{fmt.Sprintf("%d:%d", e.At.Line, e.At.Column), e.Key, placed(e.Value)})
		}
		return []any{at, "object", entries}
	}
	return []any{at, v.Kind.String(), v.Text}
}

func render(m *python.Module) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	line := func(v ...any) {
		if err := enc.Encode(v); err != nil {
			panic(err)
		}
	}
	if m.Doc != "" {
		line("doc", fmt.Sprintf("%d:%d", m.DocAt.Line, m.DocAt.Column), m.Doc)
	}
	for _, e := range m.Names.Map {
		line("name", fmt.Sprintf("%d:%d", e.At.Line, e.At.Column), e.Key, placed(e.Value))
	}
	for _, p := range m.Problems {
		kind := "error"
		if p.Warning {
			kind = "warning"
		}
		line(kind, p.Error(), p.Field)
	}
	return b.Bytes()
}

// Each testdata/NAME.py reads as NAME.jsonl.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.py")
	if err != nil || len(files) < 4 {
		t.Fatal(err, files)
	}
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got := render(python.Read(src))
		want := goldentest.File(t, strings.TrimSuffix(path, ".py")+".jsonl", got)
		// The ends of lines change nothing.
		for _, eol := range []string{"\r\n", "\r"} {
			if got := render(python.Read(bytes.ReplaceAll(src, []byte("\n"), []byte(eol)))); !bytes.Equal(got, want) {
				t.Errorf("%s with %q: got\n%s\nwant\n%s", path, eol, got, want)
			}
		}
		if got := render(python.Read(append([]byte("\ufeff"), src...))); !bytes.Equal(got, want) {
			t.Errorf("%s with a byte order mark: got\n%s\nwant\n%s", path, got, want)
		}
	}
}

// literal returns a value as a Python literal.
func literal(v *value.Value) string {
	var parts []string
	switch v.Kind {
	case value.Null:
		return "None"
	case value.Bool:
		return strings.ToUpper(v.Text[:1]) + v.Text[1:]
	case value.Text:
		return quoted(v.Text)
	case value.List:
		for _, item := range v.Items {
			parts = append(parts, literal(item))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case value.Map:
		for _, e := range v.Map {
			parts = append(parts, quoted(e.Key)+":"+literal(e.Value))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	return v.Text
}

func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		fmt.Fprintf(&b, `\U%08x`, r)
	}
	return b.String() + `"`
}

// all returns the names and values of a module on one line.
func all(m *python.Module) string {
	var parts []string
	for _, e := range m.Names.Map {
		parts = append(parts, e.Key+"="+literal(e.Value))
	}
	return strings.ReplaceAll(strings.Join(parts, " "), `\U000000`, `\`)
}

func problems(m *python.Module) string {
	var parts []string
	for _, p := range m.Problems {
		parts = append(parts, p.Error())
	}
	return strings.Join(parts, "; ")
}

func TestStatements(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"", ""},
		{"A=1", "A=1"},
		{"A=1;B=2;;", "A=1 B=2"},
		{"A = 1; B = A; C = 3 # ;D = 4", "A=1 C=3"},
		{" \t\n\f\nA = 1\n   \n#", "A=1"},
		{"A = \\\n1", "A=1"},
		{"A: int = 1; B: int", "A=1"},
		{"A: lambda: 0 = 1", ""},
		{"(A) = 1\n((B)): int = 2\n(C,) = 3\n() = 4", "A=1 B=2"},
		{"A = 1\nA: str\nA == 2\nA < 3\nf(A=4)\nA.b = 5\nA[0] = 6", "A=1"},
		{"A = 1\nx = A = 2", ""},
		{"A = B = C = D = E = 1\n(A, [B, *C]), x.D, x[E] = y\nF = 1", "F=1"},
		{"A = 1\n(A).b = 1\n(x, A)[0] = 2\nx[A, 1], f(A).b = 3\n[A][0] = 4\n'a'[A] = 5", "A=1"},
		{"A = 1\n[A] = 2", ""},
		{"A = 1\nB = lambda A=2: A\nC = 3", "A=1 C=3"},
		{"A = 1\nA **= 2\nB = 3", "B=3"},
		{"A = 1\ndef A(): pass", ""},
		{"A = 1\nasync def A(): B = 2", ""},
		{"A = 1\nasync with x as y: A = 2", "A=1"},
		{"A = 1\nclass A:\n B = 1\nC = 2", "C=2"},
		{"A = 1\nclass B: A = 2; C = 3\nD = 4", "A=1 D=4"},
		{"A = 1\n@A\n@x(A=3)\ndef f():\n  A = 2", "A=1"},
		{"A = B = 1\nA = B = C = 1\nA = 1\nB = 1\nimport os.B, A", "B=1"},
		{"A = 1; B = 2; C = 3; D = 4; E = 5\nimport A.x, y as B\nfrom .C import (D as x, y as C,)\nfrom E import *",
			"D=4 E=5"},
		{"A = 1\nfrom A", "A=1"},
		{"import", ""},
		{"A = 1\ntype A = int", ""},
		{"A = 1\ntype A[T] = int", ""},
		{"type = 1", "type=1"},
		{"A = 1\nmatch A:\n case 1: A = 2\n case _:\n  A = 3\nmatch = 4", "A=1 match=4"},
		{"A = 1\ndel A\nB = 2\nA = 3", "A=3 B=2"},
		{"A = 1\ndel x.A, y[A], (A,)", ""},
		{"del", ""},
		{"A = 1\nfor A in x: pass\nelse: A = 2", "A=1"},
		{"A = '''\nB = 2\n'''\nf(\nC = 3\n)\nD = 4 + \\\nE == 5", `A="\0a\42\20\3d\20\32\0a"`},
		{"x = f'''\nA = 1\n''' f'{x:{y}}' rf\"\"\"{\nB}\"\"\"\nC = 1", "C=1"},
		{`x = f"{x["a"]} {'}'} {y!r:>{"w"}} {{ }} \{z} \N{DASH} {f'{f"{1}"}'}"` + "\nA = 1", "A=1"},
		{"x = f'{a # comment }'\n}'\nA = 1", "A=1"},
		{"x = f'{a != b}{c:=3}{lambda: 1}{d(e[f])}{\"\\\"\"}{0xf}{rb'x'}{1:\\n\\N{A}}\\\nx' t'{x}'\nA = 1", "A=1"},
		{"x = f'\\N {a}' rf'\\N{b}' f'\\N{c'\nA = 1", "A=1"},
		{"x = f'{{'\nA = 1", "A=1"},
		{"x = f'{y:\\}' f'{y:{z}}'\nA = 1", "A=1"},
		{"x = f'{{' f'}}' f'{{{y}{{'\nA = 1", "A=1"},
		{"A = 1if x else 2\nB = 1", "B=1"},
		{"x->y; x:=1; x != y; x <= y; x // y; x ** y; x << y; ~x; x...y; A = 1", "A=1"},
		{"x >>= 1; x <<= 2; x //= 3; x @= 4; x -= A; A = 1", "A=1"},
	} {
		m := python.Read([]byte(c.src))
		if got := all(m); got != c.want {
			t.Errorf("%q\ngot  %s\nwant %s", c.src, got, c.want)
		}
		for _, p := range m.Problems {
			if !p.Warning {
				t.Errorf("%q: %v", c.src, p)
			}
		}
	}
}

func TestLiterals(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct{ src, want string }{
		{"1,", "[1]"}, {"1,2", "[1,2]"}, {"(1)", "1"}, {"(1,)", "[1]"}, {"()", "[]"}, {"(1,2,)", "[1,2]"}, {"(,)", ""},
		{"1,,", ""},
		{"[]", "[]"}, {"[1,]", "[1]"}, {"[,]", ""}, {"[1 2]", ""}, {"{}", "{}"}, {"{1}", "[1]"}, {"{1,2,}", "[1,2]"},
		{"{1 2}", ""}, {"{(1,2)}", "[[1,2]]"},
		{"{'a':1}", `{"\61":1}`}, {"{'a':1,}", `{"\61":1}`}, {"{'a':}", ""}, {"{'a':1 'b'}", ""}, {"{'a':1,2}", ""},
		{"{'a':1,'b'}", ""}, {"{1:2}", ""},
		{"{[]}", ""}, {"{1,[]}", ""}, {"{1,x}", ""}, {"x'a'", ""}, {"uu'a'", ""}, {"{{}}", ""}, {"{(1,[])}", ""},
		{"{'a':1,[]:2}", ""}, {"{set()}", ""}, {"{x}", ""}, {"{'a': x}", ""}, {"{'a':1,x:2}", ""},
		{"set()", "[]"}, {"set", ""}, {"set(1)", ""}, {"set([])", ""}, {"frozenset()", ""},
		{"-1", "-1"}, {"+1", "1"}, {"- 1.5", "-1.5"}, {"-(1)", "-1"}, {"-((1))", "-1"}, {"-(1", ""}, {"-(1,)", ""},
		{"--1", ""}, {"-'a'", ""}, {"-x", ""}, {"-0", "0"}, {"-0.0", "-0.0"},
		{"1j", ""}, {"[1j]", ""}, {"1+2j", ""}, {"'a'+'b'", ""}, {"'a' 'b'", `"\61\62"`}, {"'a' b'b'", ""},
		{"b'a'", ""}, {"f'a'", ""}, {"'a' f'b'", ""},
		{"...", ""}, {"x", ""}, {"nONE", ""}, {"None", "None"}, {"True", "True"}, {"False", "False"}, {"not 1", ""},
		{"*x,", ""}, {"", ""}, {"(", ""},
		{"1e400", ""}, {"[1e400, x]", ""}, {"1e-400", "0.0"}, {"1E5", "100000.0"}, {"1e16", "1e+16"},
		{"12345678901234567.0", "1.2345678901234568e+16"}, {"0.00001", "1e-05"},
		{"0XFF", "255"}, {"0O17", "15"}, {"0B11", "3"}, {"0xffffffffffffffffffff", "1208925819614629174706175"},
		{"0_0", "0"}, {"0e5", "0.0"}, {"0xe5", "229"}, {"0x_1", "1"},
		{strings.Repeat("9", 4300), strings.Repeat("9", 4300)}, {strings.Repeat("9", 4301), ""},
		{"0x" + strings.Repeat("f", 4300), ""},
		{deep(100), deep(100)}, {deep(101), ""},
		{`'\''`, `"\27"`}, {`"""a""b"""`, `"\61\22\22\62"`}, {`''`, `""`}, {`''''''`, `""`}, {`'\x41'`, `"\41"`},
		{`'\1'`, `"\01"`}, {`'\18'`, `"\01\38"`}, {`'\1234'`, `"\53\34"`},
		{`r'\x'`, `"\5c\78"`}, {`R'\''`, `"\5c\27"`}, {`U'a'`, `"\61"`}, {`ur'a'`, ""}, {`rb'a'`, ""}, {`bR'a'`, ""},
		{`Fr'a'`, ""}, {`'\u12'`, ""}, {`'\ud800'`, ""}, {`'\N{DASH}'`, ""},
		{`'\N{DASH}' x`, ""}, {`r'\N{D}'`, `"\5c\4e\7b\44\7d"`},
	} {
		want := c.want
		if want != "" {
			want = "A=" + want
		}
		if got := all(python.Read([]byte("A = " + c.src))); got != want {
			t.Errorf("%.100q\ngot  %.100s\nwant %.100s", c.src, got, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"A = {\n 'a': 1,\n 'a': 2}", `line 3, column 2: the key "a" is there twice: the last one counts`},
		{"A = {'a': 1, 'a': x}", ""},
		{"é = 1; A = {'é': 1, 2: 3}", "line 1, column 21: a key is no text"},
		{"A = ['\\N{DASH}', 1e999]", `line 1, column 7: \N{…} is not read: write the character, or \u and its number`},
		{"A = '''\n  é\\ud800'''", "line 2, column 4: the text has half a surrogate pair"},
		{`A = 'a' "\u12g4"`, `line 1, column 10: the escape \u has too few hexadecimal digits`},
		{`A = "\xf"`, `line 1, column 6: the escape \x has too few hexadecimal digits`},
		{`A = "\U00110000"`, "line 1, column 6: the escape is beyond the last character"},
		{"A = -1e999", "line 1, column 5: the number is larger than any float"},
		{"A = " + strings.Repeat("1", 5000), "line 1, column 5: an integer of more than 4300 digits is not read"},
		{"A = " + strings.Repeat("(", 101) + "1" + strings.Repeat(")", 101),
			"line 1, column 105: the value is nested more than 100 deep"},
		{"A = 1; A = f()", `line 1, column 8: "A" had a literal and is bound again to something else: it is not read`},
		{"A = 1\nA = f()\nA = 2", ""},
		{"A = 1\nA = [1e999]", "line 2, column 6: the number is larger than any float"},
		{"A = f()\nA = b''\nA = ...", ""},
		{"A = 1; A = f(); A = 2; A = 1e999", "line 1, column 28: the number is larger than any float"},
		{`"\N{DASH}"`, `line 1, column 2: \N{…} is not read: write the character, or \u and its number`},
	} {
		m := python.Read([]byte(c.src))
		if got := problems(m); got != c.want {
			t.Errorf("%.100q\ngot  %s\nwant %s", c.src, got, c.want)
		}
		for _, p := range m.Problems {
			if wrong := strings.Contains(p.Message, "escape"); p.Warning == wrong {
				t.Errorf("%v: warning is %v", p, p.Warning)
			}
			if want := c.src[:1]; want != `"` && p.Field != "A" {
				t.Errorf("%v is about %q", p, p.Field)
			}
		}
	}
	// There is an end to what is said about one file.
	many := strings.Repeat("A = 1e999\n", 200) + "B = 1\nB = f()"
	if m := python.Read([]byte(many)); len(m.Problems) != 100 {
		t.Errorf("%d problems", len(m.Problems))
	}
	many = "A = {" + strings.Repeat("'a': 1, ", 200) + "}"
	if m := python.Read([]byte(many)); len(m.Problems) != 100 {
		t.Errorf("%d problems", len(m.Problems))
	}
}

// A broken file has one problem, and what stands before and after it is read.
func TestBroken(t *testing.T) {
	for _, c := range []struct{ src, problem, want string }{
		{"x = 'a\nA = 1", "line 1, column 5: the string is never closed", "A=1"},
		{"L = [1]\nx = '''a\nA = 1", "line 2, column 5: the string is never closed", "L=[1] A=1"},
		{"x = f'{a\nA = 1", "line 1, column 5: the string is never closed", "A=1"},
		{"x = f'{a:\n}'\nA = 1", "line 1, column 5: the string is never closed", "A=1"},
		{"x = f'{a:x'\nA = 1", "line 1, column 5: the string is never closed", "A=1"},
		{"x = f'a\nA = 1", "line 1, column 5: the string is never closed", "A=1"},
		{"x = rf'''{a:\nA = 1", "line 1, column 5: the string is never closed", "A=1"},
		{"x = f'''a\nA = 1", "line 1, column 5: the string is never closed", "A=1"},
		{"x = f'{a:{b'\nA = 1", "line 1, column 11: the string is never closed", "A=1"},
		{"x = f'{\"\n'\nA = 1", "line 1, column 8: the string is never closed", "A=1"},
		{"x = f'{a)}'\nA = 1", `line 1, column 9: ')' closes nothing`, "A=1"},
		{"x = 'a\\", "line 1, column 5: the string is never closed", ""},
		{"A = {\n 'b': (1,\n\nB = 2\nC = 'a'", `line 2, column 7: the "(" is never closed`, "B=2 C=\"\\61\""},
		{"A = (1\nB = [2\n]\nC = 3", `line 1, column 5: the "(" is never closed`, "C=3"},
		{"x = (1]\nA = 1", `line 1, column 7: ']' where '(' is open`, "A=1"},
		{"x = {1)\nA = 1", `line 1, column 7: ')' where '{' is open`, "A=1"},
		{"x)\nA = 1", `line 1, column 2: ')' closes nothing`, "A=1"},
		{strings.Repeat("(", 201) + "\nA = 1", "line 1, column 201: more than 200 brackets are nested", "A=1"},
		{"f'{" + strings.Repeat("(", 201) + "\nA = 1", "line 1, column 1: more than 200 brackets are nested", "A=1"},
		{strings.Repeat("f'{", 60) + "\nA = 1", "line 1, column 154: more than 50 strings are nested", "A=1"},
		{"f'" + strings.Repeat("{x:", 60) + "\nA = 1", "line 1, column 1: more than 50 strings are nested", "A=1"},
		{"é = $\nA = 1", `line 1, column 5: the character '$' (U+0024) belongs to no token`, "A=1"},
		{"x = a – b\nA = 1", `line 1, column 7: the character '–' (U+2013) belongs to no token`, "A=1"},
		{"x = a€ \nA = 1", `line 1, column 6: the character '€' (U+20AC) belongs to no token`, "A=1"},
		{"x = !a\nA = 1", `line 1, column 5: the character '!' (U+0021) belongs to no token`, "A=1"},
		{"x = \\ \nA = 1", "line 1, column 5: the backslash is not the last character of its line", "A=1"},
		{"\\ \nA = 1", "line 1, column 1: the backslash is not the last character of its line", "A=1"},
		{"(\n\\ \nA = 1", "line 2, column 1: the backslash is not the last character of its line", "A=1"},
		{"A = 1\nx = \\", "line 2, column 5: the file ends after a backslash", "A=1"},
		{"A = 1\nx = \\\n", "line 2, column 5: the file ends after a backslash", "A=1"},
		{"x = 0x\nA = 1", "line 1, column 5: the number is malformed", "A=1"},
		{"x = 0b2\nA = 1", "line 1, column 5: the number is malformed", "A=1"},
		{"x = 1__0\nA = 1", "line 1, column 5: the number is malformed", "A=1"},
		{"x = 1_\nA = 1", "line 1, column 5: the number is malformed", "A=1"},
		{"x = 1._5\nA = 1", "line 1, column 5: the number is malformed", "A=1"},
		{"x = 1e+\nA = 1", "line 1, column 5: the number is malformed", "A=1"},
		{"x = 12abc\nA = 1", "line 1, column 5: the number is malformed", "A=1"},
		{"x = 0777\nA = 1", "line 1, column 5: the number begins with a zero", "A=1"},
		{" x = 1\nA = 1", "line 1, column 2: unexpected indentation", "A=1"},
		{"if x:\n\ty\n  z\nA = 1", "line 3, column 3: the indentation is that of no block around it", "A=1"},
		{"if x:\n  if y:\n\tz\nA = 1", "line 3, column 2: the indentation mixes tabs and spaces", "A=1"},
		{"if x:\n        y\n\tz\nA = 1", "line 3, column 2: the indentation mixes tabs and spaces", "A=1"},
		{"if x:\nA = 1", "line 2, column 1: an indented block is missing", "A=1"},
		{"A = 1\nif x:\n", "line 3, column 1: an indented block is missing", "A=1"},
		{"\\\n  A = 1\nB = 1", "line 2, column 3: unexpected indentation", "B=1"},
		{blocksOf(101) + "A = 1", "line 102, column 102: more than 100 blocks are nested", "A=1"},
		{"A = 1\n# \x00\nB = [1]", "line 2, column 3: a NUL byte", "A=1"},
		{"A = 'a\x00b'", "line 1, column 7: a NUL byte", `A="\61\00\62"`},
		{"A = 1\nB = 'é\xff'\nC = 1\nx = \xff\nD = 1", "line 2, column 7: byte 0xff is not UTF-8", "A=1 C=1 D=1"},
		{"# coding: latin-1\nA = 1\nB = [1]", `line 1, column 11: the coding "latin-1" is not read, only UTF-8`,
			"A=1"},
		{"\n#! coding=\t cp1252 é\nA = 1", `line 2, column 13: the coding "cp1252" is not read, only UTF-8`, "A=1"},
		{"x\n# coding: latin-1\nA = [1]", "", "A=[1]"},
		{"#\n#\n# coding: latin-1\nA = [1]", "", "A=[1]"},
		{"# coding latin-1 coding: ? coding:\nA = [1]", "", "A=[1]"},
		{"# coding: u8\nA = [1]", "", "A=[1]"},
		{"# coding: UTF-8-unix\nA = [1]", "", "A=[1]"},
		{"if x:\n  if y:\n    z\n  z\nelse: \\\n  pass\nA = [1]", "", "A=[1]"},
		{"if x:\n    y\n  \\\n  \n  # a\n    z\nA = [1]", "", "A=[1]"},
		{"if x:\n  \\\n      y\n  z\nA = [1]", "", "A=[1]"},
		{"$\n'''a'''", `line 1, column 1: the character '$' (U+0024) belongs to no token`, ""},
	} {
		m := python.Read([]byte(c.src))
		if got := problems(m); got != c.problem {
			t.Errorf("%.100q\ngot  %s\nwant %s", c.src, got, c.problem)
		}
		if got := all(m); got != c.want {
			t.Errorf("%.100q\ngot  %s\nwant %s", c.src, got, c.want)
		}
		if m.Doc != "" {
			t.Errorf("%.100q: %q", c.src, m.Doc)
		}
	}
}

// blocksOf returns so many blocks, one in the other.
func blocksOf(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "if x:\n")
	}
	return b.String() + strings.Repeat(" ", n) + "y\n"
}

func TestDoc(t *testing.T) {
	for _, c := range []struct{ src, want, at string }{
		{"# a\n\n  '''\n a\n b \x1f'''", "", "0:0"}, // indented
		{"# a\n\n'''\n a\n b \x1f'''\n'c'", "a\n b", "3:1"},
		{"('a' \"b\")", "ab", "1:1"},
		{"'a'; A = 1", "a", "1:1"},
		{"A = 1; 'a'", "", "0:0"},
		{"def f(): 'a'", "", "0:0"},
		{"'a',", "", "0:0"},
		{"'a' + 'b'", "", "0:0"},
		{"b'a'", "", "0:0"},
		{"f'a'", "", "0:0"},
		{"r'\\a'", "\\a", "1:1"},
		{"(1)", "", "0:0"},
		{"", "", "0:0"},
	} {
		m := python.Read([]byte(c.src))
		if at := fmt.Sprintf("%d:%d", m.DocAt.Line, m.DocAt.Column); m.Doc != c.want || at != c.at {
			t.Errorf("%q: %q at %s", c.src, m.Doc, at)
		}
	}
}

// Of what a sound file says the pattern finds a part, and says nothing else.
func TestPattern(t *testing.T) {
	src :=
		"'''\nA = 1\n'''\nx = [\nB = 2\n]\nC = 1; D = [1]\nC = 2\nE = 1\nE = [1]\nF = 1\nif x: F = 2\ndef __a__(): pass\n__b__ = 'b'\n__c_ = 1\n____ = 1\n" +
			"G: int = 1\nH = 'a' \\\n'b'\n_A = 1\nA1 = 1\n"
	if got, want := all(python.ByPattern([]byte(src))), `C=2 F=1 __b__="\62" ____=1 _A=1`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// What a hostile file costs is bounded.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	if m := python.Read(make([]byte, 16<<20+1)); problems(m) != "the file is larger than 16 MiB" || m.Names == nil {
		t.Error(problems(m))
	}
	ones := func(n int) string { return "[" + strings.Repeat("1,", n) + "]" }
	if m := python.Read([]byte("A = " + ones(1<<18-1))); len(m.Names.Get("A").Items) != 1<<18-1 {
		t.Error(problems(m))
	}
	m := python.Read([]byte("A = " + ones(1<<18) + "\nB = ''"))
	if want :=
		"line 1, column 524292: the file has more than 262144 values; line 2, column 5: the file has more than 262144 values"; problems(m) != want ||
		all(m) != "" {
		t.Error(problems(m))
	}
	if m := python.Read([]byte("A = " + ones(1<<19) + "\nB = 1\ndel x" +
		ones(1<<19))); problems(m) != "line 1, column 5: the line has more than 1048576 tokens" || all(m) != "B=1" {
		t.Error(problems(m))
	}
	// Each of these lines would be read to the end of the file.
	for _, line := range []string{"(\n", "f'''{\n", "[ '''\n'''\n", "x = {'''\n", "A = 1\nA = [1]x\n",
		"A = {\nB = 1\n}x\n", "'''\n f'''{\"\"\"\n"} {
		src := []byte(strings.Repeat(line, 1<<17/len(line)))
		python.Read(src)
		python.ByPattern(src)
	}
	for n, want := range map[int]string{100: "A=1", 1 << 14: ""} {
		if got := all(python.Read([]byte(strings.Repeat("(\n", n) + "A = 1"))); got != want {
			t.Errorf("after %d lines: %q", n, got)
		}
	}
	keys := []byte("A = {")
	for i := range 50000 {
		keys = fmt.Appendf(keys, "'%d':1,", i)
		if i == 20 {
			keys = append(keys, "'3':1,'3':1,'3':1,"...)
		}
	}
	if m := python.Read(append(keys, '}')); len(m.Names.Get("A").Map) != 50000 || len(m.Problems) != 3 {
		t.Error(len(m.Problems))
	}
}

// Nothing stops the reader, it reads a file twice alike, and what it reads is read again from a literal of it.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.py")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	for _, s := range []string{"A = 'a\xff'", "# coding: x\nA = 1", "x = f'{a:{b}}'", "if x:\n\tA = 1\n        B = 2",
		"A = {'a': -1e5, 'b': ((0x1F,),)}\r\nA += 1", "x = (\n\\\nA = 1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 1<<16 {
			return
		}
		lines := 1 + bytes.Count(src, []byte("\n")) + bytes.Count(src, []byte("\r"))
		inside := func(at value.Pos) bool {
			return 1 <= at.Line && at.Line <= lines && 1 <= at.Column && at.Column <= len(src)+1
		}
		m := python.Read(src)
		if again := python.Read(src); !bytes.Equal(render(m), render(again)) {
			t.Fatalf("%s\nthen\n%s", render(m), render(again))
		}
		errors := 0
		for _, p := range m.Problems {
			if !inside(p.At) {
				t.Fatal(p)
			}
			if !p.Warning && p.Field == "" {
				errors++
			}
		}
		pattern := python.ByPattern(src)
		for _, e := range m.Names.Map {
			back := python.Read([]byte("A = " + literal(e.Value)))
			if got := back.Names.Get("A"); got == nil || literal(got) != literal(e.Value) || len(back.Problems) > 0 ||
				!inside(e.At) || !inside(e.Value.At) {
				t.Fatalf("%s becomes %s, %s", literal(e.Value), all(back), problems(back))
			}
		}
		if errors > 0 {
			return
		}
		for _, e := range pattern.Names.Map {
			if v := m.Names.Get(e.Key); v == nil || literal(v) != literal(e.Value) {
				t.Fatalf("by pattern %q is %s", e.Key, literal(e.Value))
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	src, err := os.ReadFile("testdata/tool.py")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		python.Read(src)
	}
}
