package parse

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rye-build/rye/ai/value"
)

// fuzzParser holds a parser to what every one promises, whatever the file.
func fuzzParser(f *testing.F, name string) {
	for _, v := range vectors(f) {
		f.Add(v.content)
	}
	p := parserOf(f, name)
	f.Fuzz(func(t *testing.T, content []byte) {
		d := p.Parse(content)
		if again := p.Parse(content); !reflect.DeepEqual(d, again) {
			t.Errorf("read twice: %s\n%s", dump(d), dump(again))
		}
		checkDoc(t, content, d)
		if bytes.IndexByte(content, '\r') < 0 && len(content) < MaxFile/2 {
			changed := bytes.ReplaceAll(content, []byte("\n"), []byte("\r\n"))
			if got := p.Parse(changed); !reflect.DeepEqual(got, d) {
				t.Errorf("with CR LF: %s\nwith LF: %s", dump(got), dump(d))
			}
		}
	})
}

func FuzzParseDirective(f *testing.F) { fuzzParser(f, "markdown_xml") }
func FuzzParseKnowledge(f *testing.F) { fuzzParser(f, "markdown_frontmatter") }
func FuzzParseYAML(f *testing.F)      { fuzzParser(f, "yaml") }
func FuzzParseHeader(f *testing.F)    { fuzzParser(f, "comment_header") }
func FuzzParsePython(f *testing.F)    { fuzzParser(f, "python_ast") }
func FuzzParsePattern(f *testing.F)   { fuzzParser(f, "pattern") }

// FuzzPattern makes patterns of any description.
func FuzzPattern(f *testing.F) {
	f.Add("{fields: {a: '^(x*)$'}, lines: 4, body: rest}", "x\ny\n")
	f.Add("{fields: {a: '(', b: 1, c: '((x){9}){9}()'}, lines: a, body: 1}", "x\ny\n")
	f.Fuzz(func(t *testing.T, description, content string) {
		spec, _ := YAML([]byte(description), value.Pos{})
		p, problems := Pattern(spec)
		checkDoc(t, []byte(description), &Doc{Fields: newObject(value.Pos{}).v, Problems: problems})
		checkDoc(t, []byte(content), p.Parse([]byte(content)))
	})
}

// checkDoc checks that every place is one of the file, that keys differ and numbers are JSON's.
func checkDoc(t *testing.T, content []byte, d *Doc) {
	t.Helper()
	text := strings.TrimPrefix(string(content), "\ufeff")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(text, "\n")
	inside := func(at value.Pos, what string) {
		t.Helper()
		if at == (value.Pos{}) {
			return
		}
		if at.Line < 1 || at.Line > len(lines) || at.Column < 0 ||
			at.Column > utf8.RuneCountInString(lines[at.Line-1])+1 {
			t.Errorf("%s is at %s, outside the file", what, place(at))
		}
	}
	if d.Fields == nil || d.Fields.Kind != value.Map {
		t.Fatal("no fields")
	}
	checkValue(t, d.Fields, inside)
	inside(d.BodyAt, "the body")
	if (d.Body == "") != (d.BodyAt == value.Pos{}) || d.Body != strings.TrimSpace(d.Body) {
		t.Errorf("body %q at %s", d.Body, place(d.BodyAt))
	}
	if len(d.Problems) > maxProblems {
		t.Errorf("%d problems", len(d.Problems))
	}
	for i, p := range d.Problems {
		inside(p.At, p.Message)
		if i > 0 && p.At.Compare(d.Problems[i-1].At) < 0 {
			t.Errorf("%s comes too late", told(p))
		}
		if p.Message == "" || len(p.Message) > 300 {
			t.Errorf("message %q", p.Message)
		}
	}
}

func checkValue(t *testing.T, v *value.Value, inside func(value.Pos, string)) {
	t.Helper()
	inside(v.At, v.Kind.String())
	seen := map[string]bool{}
	for _, e := range v.Map {
		inside(e.At, e.Key)
		if seen[e.Key] {
			t.Errorf("the key %q stands twice", e.Key)
		}
		seen[e.Key] = true
		checkValue(t, e.Value, inside)
	}
	for _, item := range v.Items {
		checkValue(t, item, inside)
	}
	if (v.Kind == value.Int || v.Kind == value.Float) && !json.Valid([]byte(v.Text)) {
		t.Errorf("the number %q isn't JSON's", v.Text)
	}
	if v.Kind == value.Int && strings.ContainsAny(v.Text, ".eE") {
		t.Errorf("the integer %q", v.Text)
	}
}
