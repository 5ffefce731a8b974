package parse

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/parse/simple"
	"github.com/rye-build/rye/ai/value"
)

func unmoved(line, column int) value.Pos { return value.Pos{Line: line, Column: column} }

// readsSimple reads a text in both ways, checks that they agree, and reports whether the simple reader gave up.
func readsSimple(t *testing.T, text string) bool {
	t.Helper()
	y := &yamlReader{report: &report{}, place: unmoved}
	if !utf8.ValidString(text) || y.printable(text) != text {
		return false // neither is given such a text
	}
	got := simple.Read(text, unmoved)
	if got == nil {
		return false
	}
	if want := y.document(text); !reflect.DeepEqual(got, want) || len(y.problems) > 0 {
		t.Errorf("%q:\n%s\nwant\n%s", text, dump(&Doc{Fields: got}), dump(&Doc{Fields: want, Problems: y.problems}))
	}
	return true
}

// What most items have is read without the reader of all YAML, and means the same.
func TestSimple(t *testing.T) {
	for _, text := range []string{
		"a: b", "a: b\n", "\n# c\n  # d\na: b c\nd: 'e'\n\n\nf: \"g # h: i\"",
		"a:\n  b: 1.50\n  c:\n    d: true\n  e: 0x10\nf: /g/h.i\n",
		"a:\n- b\n- \"c\"\n-   d e\nf:\n  - g\n  - 1_000\n",
		"a:\n  - b: c\n    d: e\n  - b: f\n    g:\n      - h\n  # i\n  - j\nk: null\n",
		"a: [b, c/d,   e.f-g, 1, null]\nh: []\n", "  a: b\n  c: http://d:e/f#g,[h]{i}\n", "a: ä — b\nc: 'ä'\n",
		"a: b!c &d *e\n", "true: 2024-01-01\nnull: y1\n",
		"a: {b: c}\n", "a: {b: {c: [d, 'e f', \"g, h\"]}, i: 1.5}\nj: {}\n",
		"a: [b:c:*, d e,  \"--f\", {g: h}, []]\n.a: \"#\"\n_b: c\n", "a:\n  - {b: c d, e: [f]}\n  - [g]\n",
	} {
		if !readsSimple(t, text) {
			t.Errorf("%q is too much", text)
		}
	}
}

// What is read otherwise, or has to be told of, is left to the other reader.
func TestNotSimple(t *testing.T) {
	for _, text := range []string{
		"", "# a\n", "a", "a:", "a:\n", "a: b\na: c\n", "a: b\n c\n", "a: b\n  c: d\n", "a:\n  b: c\n d: e\n",
		"a:\n  - b\n - c\n", "a: yes\n", "a: 010\n", "a: .inf\n",
		"a: b # c\n", "a: b: c\n", "a: b:\n", "a: \"b\\n\"\n", "a: 'b''c'\n", "a: 'b\n", "a: 'b' c\n", "a: |\n  b\n",
		"a: >-\n  b\n", "a: &b c\n", "a: *b\n", "a: !b c\n", "? a\n: b\n",
		"a: {b: c\n", "a: {b: c,\n  d: e}\n", "a: {b: c, b: d}\n", "a: {b}\n", "a: {b: }\n", "a: {\"b\": c}\n",
		"a: { b: c }\n", "a: {b: yes}\n", "a: {b: ä, c: d}\n", "a: [\"ä\", b]\n", "a: [b #c]\n", "a: [b c: d]\n",
		"a: [*b]\n", "a: {b: c} d\n", "a: [b]]\n", "a: [b\n",
		"a: " + strings.Repeat("[", 30) + strings.Repeat("]", 30) + "\n",
		"a: [b: c]\n", "a: [b,\n c]\n", "a: [b,c]\n", "a: [b, yes]\n", "a: [b, ]\n", "a:\tb\n", "- a\n- b\n",
		"---\na: b\n", "a: b\n---\na: c\n", "a: b\n...\n", "<<: a\n", "a: b \n", "a: - b\n", "a: -1\n",
		"a:\n  - - b\n", "a:\n  -\n    b\n", "a: ~\n", "\"a\": b\n", "ä: b\n", "a:b\n", "a: @b\n", "a: %b\n",
		"a: `b`\n", "a: b\n  \nc\n", "a: " + strings.Repeat("b", 64<<10),
		strings.Repeat("a: b\n", 2), deep(23), manyKeys(65),
	} {
		if readsSimple(t, text) {
			t.Errorf("%.100q is read", text)
		}
	}
}

func deep(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String() + strings.Repeat(" ", n) + "a: b\n"
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a%d: b\n", i)
	}
	return b.String()
}

func FuzzSimple(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(string(v.content))
	}
	for _, text := range []string{"a: b\nc:\n  - d: 'e'\n    f: \"g\"\n  - h\ni: [j, k/l]\n",
		"# a\nb:\n- c\n- d: e\n  f:\n  - g\nh: i", "a:\n    b:\n     c: 0x10\n    d: 12:30\n",
		"a: {b: [c d, 'e', {f: 1}], .g: \"h\"}\ni: [j:k, l*]\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { readsSimple(t, text) })
}
