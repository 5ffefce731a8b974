package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/sign"
)

func TestRef(t *testing.T) {
	ref, err := ParseRef("tool:rye/core/bash")
	if err != nil || ref != (Ref{"tool", "rye/core/bash"}) || ref.String() != "tool:rye/core/bash" ||
		ref.Category() != "rye/core" || ref.Name() != "bash" {
		t.Errorf("got %v, %v", ref, err)
	}
	if ref = (Ref{"tool", "bash"}); ref.Category() != "" || ref.Name() != "bash" {
		t.Errorf("got %q, %q", ref.Category(), ref.Name())
	}
	for text, want := range map[string]string{
		"":                                    `"" names no item: it is empty; expected kind:id, as in tool:rye/bash/bash`,
		"rye/bash":                            `"rye/bash" names no item: the kind is missing; expected kind:id, as in tool:rye/bash`,
		"tool:":                               `"tool:" names no item: nothing stands behind the colon; expected kind:id, as in tool:acme/name`,
		"Tool:x":                              `"Tool:x" names no item: "Tool" is not a kind: expected a lower-case letter, then a-z 0-9 -, at most 32`,
		":x":                                  `":x" names no item: "" is not a kind: expected a lower-case letter, then a-z 0-9 -, at most 32`,
		"bundle:x":                            `"bundle:x" names no item: "bundle" is what a document is called: no item is of that kind`,
		"tool:../x":                           `"tool:../x" names no item: path "../x" is not an id: expected segments of A-Z a-z 0-9 . _ - that begin with a letter or digit, joined by "/"`,
		"tool:a//b":                           `"tool:a//b" names no item: path "a//b" holds an empty segment`,
		"tool:\x1b[31m":                       `"tool:\x1b[31m" names no item: path "\x1b[31m" is not an id: expected segments of A-Z a-z 0-9 . _ - that begin with a letter or digit, joined by "/"`,
		"a23456789012345678901234567890123:x": `"a23456789012345678901234567890123:x" names no item: "a23456789012345678901234567890123" is not a kind: expected a lower-case letter, then a-z 0-9 -, at most 32`,
	} {
		_, err := ParseRef(text)
		if fault.CodeOf(err) != fault.Validation {
			t.Errorf("%q: got %v", text, fault.CodeOf(err))
		}
		if text != "tool:a//b" && err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	var e *portable.Error
	if _, err := ParseRef("tool:CON"); !errors.As(err, &e) {
		t.Errorf("got %v", err)
	}
	for _, kind := range []string{"a", "my-kind-2", "tool"} {
		if err := CheckKind(kind); err != nil {
			t.Error(err)
		}
	}
	long := strings.Repeat("x", 300)
	if _, err := ParseRef(long); len(err.Error()) > 700 {
		t.Errorf("a message of %d bytes", len(err.Error()))
	}
}

func TestIsAsset(t *testing.T) {
	for path, want := range map[string]bool{
		"": false, "a/b.py": false, "_a.py": true, "a/_b/c.py": true, "a/.b.py": true, ".a/b": true, "a_/b.c": false,
		"a/b_.py": false, "__init__.py": true,
	} {
		if got := IsAsset(path); got != want {
			t.Errorf("%q: got %v", path, got)
		}
	}
}

func TestRefOf(t *testing.T) {
	k := builtinKind(t, "tool")
	for path, want := range map[string]string{
		"tools/a/b.py":     "tool:a/b",
		"tools/a.b.YAML":   "tool:a.b",
		"tool/a.py":        `path "tool/a.py" is not in tools/`,
		"tools/_a.py":      `path "tools/_a.py" is an asset's: a segment begins with "_" or "."`,
		"tools/a.txt":      `path "tools/a.txt" is an asset's: no tool has the extension ".txt"`,
		"tools/a":          `path "tools/a" is an asset's: no tool has the extension ""`,
		"tools/a b.py":     `path "tools/a b.py" has an invalid item name: path "a b" is not an id: expected segments of A-Z a-z 0-9 . _ - that begin with a letter or digit, joined by "/"`,
		"tools/con/x.yaml": `path "tools/con/x.yaml" has an invalid item name: path "con/x": "con" is a device on Windows`,
	} {
		ref, err := k.RefOf(path)
		got := ref.String()
		if err != nil {
			if got = err.Error(); fault.CodeOf(err) != fault.Validation || ref != (Ref{}) {
				t.Errorf("%q: %#v", path, err)
			}
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", path, got, want)
		}
	}
	var e *portable.Error
	if _, err := k.RefOf("tools/a b.py"); !errors.As(err, &e) {
		t.Errorf("got %v", err)
	}
}

func TestStyle(t *testing.T) {
	tool, knowledge, directive := builtinKind(t, "tool"), builtinKind(t, "knowledge"), builtinKind(t, "directive")
	for _, c := range []struct {
		kind *Kind
		path string
		want sign.Style
	}{
		{tool, "a.py", sign.Hash | sign.V1Tool},
		{tool, "a.js", sign.Slashes | sign.V1Tool},
		{tool, "a.lua", sign.Dashes | sign.V1Tool},
		{tool, "a.json", sign.NoStyle},
		{knowledge, "a.md", sign.Angle | sign.V1Knowledge},
		{knowledge, "a.yaml", sign.Hash | sign.V1Knowledge},
		{directive, "a.md", sign.Angle | sign.V1Directive},
		{builtinKind(t, "config"), "a.yaml", sign.Hash},
	} {
		if got := c.kind.Style(c.path); got != c.want {
			t.Errorf("%s %s: got %v, want %v", c.kind.Name, c.path, got, c.want)
		}
	}
}

// TestKernelParsers holds every extension of the built-in kinds to a parser.
func TestKernelParsers(t *testing.T) {
	for _, k := range Builtin() {
		if !k.Builtin || k.Dir == "" || len(k.Weights) == 0 {
			t.Errorf("%+v", k)
		}
		for _, ext := range k.Extensions {
			if _, ok := parse.ByName(k.names[ext]); !ok {
				t.Errorf("%s %s has no parser", k.Name, ext)
			}
			if k.Style("x"+ext) == sign.NoStyle {
				t.Errorf("%s %s can't be signed", k.Name, ext)
			}
		}
	}
}

func yamlDoc(t testing.TB, text string) *parse.Doc {
	t.Helper()
	p, ok := parse.ByName("yaml")
	if !ok {
		t.Fatal("no YAML")
	}
	return p.Parse([]byte(text))
}

func readExtractor(t testing.TB, name string) (*Kind, []*value.Problem) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "extractors", name+"_extractor.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return ReadExtractor(yamlDoc(t, string(text)), "rye/core/extractors/"+name+"/"+name+"_extractor")
}

// told writes problems as lines.
func told(problems []*value.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		if p.Warning {
			b.WriteString("warning: ")
		}
		fmt.Fprintln(&b, p)
	}
	return b.String()
}

// TestExtractorsOfRYE reads extractors in the form of the existing system, and items by them.
func TestExtractorsOfRYE(t *testing.T) {
	kinds := map[string]*Kind{}
	for _, c := range []struct{ name, dir, extensions, problems string }{
		{"tool", "tools", ".py .yaml .yml .js .sh", `warning: line 8, column 38: files with .json are not items: they are left out
warning: line 8, column 61: files with .toml are not items: they are left out
`},
		{"directive", "directives", ".md", ""},
		{"knowledge", "knowledge", ".md .yaml .yml", ""},
	} {
		k, problems := readExtractor(t, c.name)
		if got := told(problems); got != c.problems || k == nil {
			t.Fatalf("%s: got\n%s", c.name, got)
		}
		if k.Name != c.name || k.Dir != c.dir || strings.Join(k.Extensions, " ") != c.extensions || k.Builtin ||
			k.From == "" {
			t.Errorf("got %+v", k)
		}
		for _, ext := range k.Extensions {
			if want := kernelParser(c.name, ext); k.names[ext] != want {
				t.Errorf("%s is read by %s, not %s", ext, k.names[ext], want)
			}
		}
		kinds[c.name] = k
	}
	// What is right by the schemas that are built in is right by these, but for what they demand more.
	root := filepath.Join("testdata", "items")
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(file, ".json") || strings.Contains(file, "config") {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, file)
		path := filepath.ToSlash(rel)
		k := kindOf(t, path)
		ref, err := k.RefOf(path)
		if err != nil {
			return err
		}
		want, got := k.Read(ref, path, text), kinds[k.Name].Read(ref, path, text)
		if want.Invalid() || !want.Marked {
			if want.Marked != got.Marked || want.Invalid() && !got.Invalid() {
				t.Errorf("%s: marked %v, invalid %v", path, got.Marked, got.Invalid())
			}
			return nil
		}
		rest := slices.DeleteFunc(slices.Clone(got.Problems), func(p *value.Problem) bool {
			return strings.HasPrefix(p.Message, "Missing required field: author") ||
				strings.HasPrefix(p.Message, "Missing required field: category")
		})
		if len(rest) > 0 {
			t.Errorf("%s: %s", path, told(rest))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAddedKind reads items of a kind that an extractor adds.
func TestAddedKind(t *testing.T) {
	k, problems := readExtractor(t, "prompt")
	if k == nil || len(problems) > 0 {
		t.Fatal(told(problems))
	}
	if k.Name != "prompt" || k.Dir != "prompts" ||
		!slices.Equal(k.Weights, []Weight{{"title", 4}, {"summary", 2.5}, {"content", 1}}) {
		t.Errorf("got %+v", k)
	}
	for path, want := range map[string]sign.Style{"a.md": sign.Angle, "a.txt": sign.Hash, "a.TMPL": sign.Slashes,
		"a.sql": sign.Dashes, "a.py": sign.Hash, "a.foo": sign.NoStyle} {
		if got := k.Style(path); got != want {
			t.Errorf("%s: got %v", path, got)
		}
	}
	for _, c := range []struct {
		path, text string
		marked     bool
		title      string
		problems   string
	}{
		{"prompts/a.md",
			"---\ntitle: A\nversion: 1.0.0\nmeta: {summary: Short}\nsteps: [{name: x}]\nvars: [a]\nrole: user\nweight: 0.75\ncount: 10\nshown: true\n---\nHello",
			true, "A", ""},
		{"prompts/a.txt", "# title: Text\n# version: 2.0.0\nHello", true, "Text", ""},
		{"prompts/a.txt", "Hello", false, "a",
			"line 1, column 1: Missing required field: title\nline 1, column 1: Missing required field: version\n"},
		{"prompts/a.tmpl", "// ---\n// title: T\n// version: 1.0.0\n// ---\n", true, "T", ""},
		{"prompts/a.md", "Only text", false, "a",
			"line 1, column 1: Missing required field: title\nline 1, column 1: Missing required field: version\n"},
		{"prompts/a.rst", "Only text", false, "a", `no prompt has the extension ".rst"` + "\n"},
		{"prompts/a.md", "---\ntitle: A\nversion: '1'\nmeta: {}\nsteps: [{nam: x}, 3]\nvars: [1]\nrole: tool\nweight: 0.25\ncount: 11\nshown: maybe\n---\n", true, "A", `line 3, column 10: Field 'version' must be semver format (X.Y.Z), got '1'
line 4, column 7: Missing required field: meta.summary
line 5, column 9: Field 'steps[0]' missing required key 'name'
line 5, column 19: Field 'steps[1]' must be an object
line 6, column 8: Field 'vars[0]' must be a string
line 7, column 7: Field 'role' must be one of ['system', 'user'], got 'tool'
line 8, column 9: Field 'weight' must be >= 0.5, got 0.25
line 9, column 8: Field 'count' must be <= 10, got 11
line 10, column 8: Field 'shown' must be a boolean, got str
`},
	} {
		m := k.Read(Ref{"prompt", "a"}, c.path, []byte(c.text))
		if got := told(m.Problems); got != c.problems {
			t.Errorf("%q: got\n%swant\n%s", c.text, got, c.problems)
		}
		if m.Marked != c.marked || k.Marked(c.path, []byte(c.text)) != c.marked || m.Title != c.title {
			t.Errorf("%q: marked %v, title %q", c.text, m.Marked, m.Title)
		}
		if m.Directive != nil || m.Tool != nil || m.Knowledge != nil || m.Grants().Permissions != nil ||
			m.Interface().Input != nil {
			t.Errorf("%q: got %+v", c.text, m)
		}
	}
	m := k.Read(Ref{"prompt", "a"}, "prompts/a.md",
		[]byte("---\ntitle: A\nversion: 1.0.0\nmeta: {summary: Short, x: [1, b]}\n---\nHello"))
	for field, want := range map[string]string{"summary": "Short", "name": "a", "title": "A", "content": "Hello",
		"meta": "Short 1 b", "none": ""} {
		if got := m.Text(field); got != want {
			t.Errorf("%s: got %q", field, got)
		}
	}
}
