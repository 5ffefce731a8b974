package yamltree

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func mustParse(t testing.TB, text string) Tree {
	t.Helper()
	tree, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return tree
}

// The example of the package comment is in the form that it describes.
func TestDocExample(t *testing.T) {
	src, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(src), "// # Writing\n//\n")
	text, _, ok := strings.Cut(rest, "// Sections are blocks")
	if !ok {
		t.Fatal("no example")
	}
	var example strings.Builder
	for line := range strings.Lines(strings.TrimSuffix(text, "//\n")) {
		example.WriteString(strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "//"), "\t") + "\n")
	}
	if got := string(mustParse(t, example.String()).Format()); got != example.String() {
		t.Errorf("formatted:\n%s\nthe comment:\n%s", got, example.String())
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"comments alone", "\n\n# a\n\n\n#b  \n\n", "# a\n\n#b\n"},
		{"marker", "---\n\n# a\nb: c", "---\n# a\nb: c\n"},
		{"marker alone", "---\n", "---\n"},
		{"quotes", `a: 'it''s # "x"' # c`, "a: \"it's # \\\"x\\\"\"  # c\n"},
		{"escapes", `a: "\x41\\\"" # c # d`, "a: \"A\\\\\\\"\"  # c # d\n"},
		{"words", "a: [no, 1e3, 010, 10, \"10\", x y, é, -, b/c.d, ~]",
			"a:\n  - \"no\"\n  - \"1e3\"\n  - \"010\"\n  - 10\n  - \"10\"\n  - \"x y\"\n  - \"é\"\n  - \"-\"\n  - b/c.d\n  - \"~\"\n"},
		{"closing bracket", "a: {b: {c: d # 1\n  } # 2\n}\n# 3\n", "a:  # 1\n  b: {c: d}\n# 2\n# 3\n"},
		{"value below", "a:\n  b: # 1\n    c # 2\nd: e\n", "a:\n  b: c  # 1\n  # 2\nd: e\n"},
		{"explicit key", "? a\n: {? b : c}\n", "a:\n  b: c\n"},
		{"dashes", "a:\n- b\n# 1\n- c\n# 2\nd: e\n", "a:\n  - b\n  # 1\n  - c\n# 2\nd: e\n"},
		{"tails", "a:\n  b:\n    c: d\n    # 1\n  # 2\n    # 3\n# 4\ne: f\n",
			"a:\n  b:\n    c: d\n    # 1\n  # 2\n  # 3\n# 4\ne: f\n"},
		{"wide", "a:\n  b: {c: " + strings.Repeat("x", 39) + ", d: " + strings.Repeat("x",
			39) + ", e: " + strings.Repeat("x", 39) + "}\n",
			"a:\n  b:\n    c: " + strings.Repeat("x", 39) + "\n    d: " + strings.Repeat("x",
				39) + "\n    e: " + strings.Repeat("x", 39) + "\n"},
	} {
		got := string(mustParse(t, c.text).Format())
		if got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
		if again := string(mustParse(t, got).Format()); again != got {
			t.Errorf("%s: again\n%s", c.name, again)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		text         string
		line, column int
	}{
		{"a: b\r\n", 1, 5}, {"\ta: b", 1, 1}, {"a: \"\\0\"", 1, 4}, {"\ufeffa: b", 1, 1}, {"a: b\u2028", 1, 5},
		{"a: \xff", 1, 0},
		{"a: \"\\u200b\"", 1, 4}, {"a: b\n---\n", 2, 1}, {"...\n", 1, 1}, {"--- a\n", 1, 1}, {"%YAML 1.1\n", 1, 1},
		{"a: &x b", 1, 4}, {"a: *x", 0, 0}, {"a: !x b", 1, 4}, {"<<: {a: b}", 1, 1}, {"a: |\n  b\n", 1, 4},
		{"a: >\n  b\n", 1, 4},
		{"a: \"b\n  c\"", 1, 4}, {"a: 'b\n  c'", 1, 4}, {"a: b\n  c\n", 2, 3}, {"a:", 1, 1}, {"a: b\na: c", 2, 1},
		{"{[a]: b}", 1, 2},
		{": b", 0, 0}, {"- a", 1, 0}, {"a", 1, 0}, {"a: [{b: c}]", 1, 5}, {"a: [[b]]", 1, 5}, {"a:\n-\n", 2, 2},
		{"a: {b: {c: {d: {e: {f: g}}}}}", 1, 24},
		{"a: [", 0, 0}, {strings.Repeat("#", MaxBytes+1), 0, 0}, {"a: " + strings.Repeat("b", maxText+1), 1, 4},
	} {
		_, err := Parse([]byte(c.text))
		var e *Error
		if !errors.As(err, &e) || c.line > 0 && (e.Line != c.line || e.Column != c.column) {
			t.Errorf("%.40q: %v, want line %d, column %d", c.text, err, c.line, c.column)
		}
	}
	e := &Error{Family: "x", Msg: "m"}
	for want, e := range map[string]*Error{"x: m": e, "x: line 1: m": {"x", 1, 0, "m"},
		"x: line 1, column 2: m": {"x", 1, 2, "m"}} {
		if e.Error() != want {
			t.Errorf("got %q, want %q", e, want)
		}
	}
}

func TestFields(t *testing.T) {
	root := mustParse(t,
		"a: b\nempty: \"\"\nday: 2026-11-20\nsecond: 2026-11-20T10:00:00Z\nbad: 2026-11-31\nlist: [x, y]\ntwice: [x, x]\nspace: [x y]\n").
		Root
	if got, err := root.TextOf("a"); got != "b" || err != nil {
		t.Error(got, err)
	}
	if got, err := root.TextOf("none"); got != "" || err != nil {
		t.Error(got, err)
	}
	if got, err := root.Words("list"); len(got) != 2 || err != nil {
		t.Error(got, err)
	}
	if got, err := root.Words("none"); got != nil || err != nil {
		t.Error(got, err)
	}
	for field, want := range map[string]string{"day": "2026-11-20", "second": "2026-11-20T10:00:00Z", "none": ""} {
		if got, err := root.Date(field); DateText(got) != want || err != nil {
			t.Error(field, got, err)
		}
	}
	if got := DateText(time.Date(2026, 11, 20, 1, 0, 0, 0, time.FixedZone("", 3600))); got != "2026-11-20" {
		t.Error(got)
	}
	for name, err := range map[string]error{
		"empty text":    second(root.TextOf("empty")),
		"list as text":  second(root.TextOf("list")),
		"missing":       second(root.Need("none")),
		"no such day":   second(root.Date("bad")),
		"text as list":  second(root.Words("a")),
		"word twice":    second(root.Words("twice")),
		"two words":     second(root.Words("space")),
		"other choice":  second(root.Choice("a", "c", "d")),
		"unknown field": root.Fields("a"),
		"no fields":     root.Get("a").Fields("b"),
		"no word":       root.CheckWord("a b", "a name"),
		"no first":      root.CheckWord("-a", "a name"),
		"empty word":    root.CheckWord("", "a name"),
		"long word":     root.CheckWord(strings.Repeat("a", maxWord+1), "a name"),
	} {
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := root.Choice("a", "b"); got != "b" || err != nil || root.CheckWord("a.b", "a name") != nil {
		t.Error(got, err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestSuggest(t *testing.T) {
	known := []string{"keys", "threshold", "on", strings.Repeat("x", 99)}
	for word, want := range map[string]string{"kyes": "keys", "key": "keys", "treshold": "threshold",
		"threshhold": "threshold", "zebra": "", "ab": "", "no": "on", strings.Repeat("x", 98): strings.Repeat("x", 99),
		"xyz": ""} {
		got := Suggest(word, known)
		if want != "" {
			want = `; did you mean "` + want + `"?`
		}
		if got != want {
			t.Errorf("%q: %q", word, got)
		}
	}
}

func TestEdit(t *testing.T) {
	text := "# top\n\n# a's\na: b  # 1\n\nlist:\n  # x's\n  - x  # 2\n\n  # loose\n\n  # w's\n  - w\n"
	tree := mustParse(t, text)
	c := tree.Copy()
	c.Root.Get("list").DropItem("w")
	c.Root.Entry("b", "a", "b", "list").Set("new")
	c.Root.Entry("map").SetText("k", "v")
	c.Root.Get("map").SetText("gone", "")
	c.Root.Get("a").Set("c")
	want := "# top\n\n# a's\na: c  # 1\nb: new\n\nlist:\n  # x's\n  - x  # 2\n\n  # loose\n\nmap:\n  k: v\n"
	if got := string(c.Format()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := string(tree.Format()); got != text {
		t.Errorf("the copied tree changed:\n%s", got)
	}
	list := tree.Root.Get("list")
	list.SetList([]string{"z", "x"})
	if !list.HasItem("z") || list.HasItem("w") || tree.Root.HasItem("a") {
		t.Error("wrong items")
	}
	if stays := tree.Root.Drop("a", false); !stays || tree.Root.Get("a") == nil {
		t.Error("what was to stay is gone")
	}
	tree.Root.Drop("a", true)
	if got, want := string(tree.Format()), "# top\n\nlist:\n  - z\n  # x's\n  - x  # 2\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Whatever is read is written in a form that stays, with all texts and all lines of comments.
func FuzzFormat(f *testing.F) {
	for _, text := range []string{"a: b", "---\n# x\na: {b: [c, \"d\"], e: 'f'} # g\n  # h\n\n# i\n",
		"a:\n  b:\n  - c # d\n  # e\n f: g\n", "? a\n: b\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		tree, err := Parse(b)
		if err != nil {
			return
		}
		text := tree.Format()
		again, err := Parse(text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if second := again.Format(); !bytes.Equal(second, text) {
			t.Fatalf("first:\n%s\nthen:\n%s", text, second)
		}
		if got, want := flat(again.Root), flat(tree.Root); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		if got, want := comments(text), comments(b); got < want {
			t.Fatalf("%d of %d lines of comments in\n%s", got, want, text)
		}
	})
}

func flat(n *Node) string {
	s := Quote(n.Key) + Quote(n.Text)
	for _, kid := range n.Kids {
		s += "(" + flat(kid) + ")"
	}
	return s
}

func comments(b []byte) (n int) {
	for line := range bytes.Lines(b) {
		if bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("#")) {
			n++
		}
	}
	return n
}
