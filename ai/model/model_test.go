package model

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/ai/model/declared"
	"github.com/rye-build/rye/ai/model/fields"
)

func readTool(t testing.TB, text string) *Model {
	t.Helper()
	const fine = "version: 1.0.0\ntool_type: x\ncategory: ''\ndescription: d\n"
	return builtinKind(t, "tool").Read(Ref{"tool", "a"}, "tools/a.yaml", []byte(fine+text))
}

// TestPythonNames holds names of Python to what they are read as.
func TestPythonNames(t *testing.T) {
	k := builtinKind(t, "tool")
	m := k.Read(Ref{"tool", "a"}, "tools/a.py", []byte(`"""Doc."""
VERSION = "9.0.0"
LIMITS = "none"
__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/x"
__category__ = ""
__tool_description__ = "Once"
__author__ = "acme"
__slots__ = ["x"]
UNKNOWN = 3
config = {"a": 1}
Config = {"a": 2}
CONFIG = {"a": 3}
__config__ = {"a": 4}
`))
	want := "warning: line 15, column 1: the field 'config' is given twice, with different values; the other counts\n"
	if got := told(m.Problems); got != want {
		t.Errorf("got %s", got)
	}
	if got := strings.Join(tree(m.Fields),
		" "); got != "version tool_type executor_id category description author config docstring name" &&
		got != "docstring version tool_type executor_id category description author config name" {
		t.Errorf("got %s", got)
	}
	if m.Version != "1.0.0" || fmt.Sprint(declared.Plain(m.Tool.Config)) != "map[a:4]" || m.Text("content") != "Doc." {
		t.Errorf("got %+v", m)
	}
}

func TestMarked(t *testing.T) {
	for _, c := range []struct {
		path, text string
		may, is    bool
	}{
		{"tools/a.py", "__executor_id__ = 'x'", true, true},
		{"tools/a.py", "__executor_id__: str = 'x'", true, true},
		{"tools/a.py", "EXECUTOR_ID: str = 'x'", false, false},
		{"tools/a.py", "x = 1; __executor_id__ = None", true, true},
		{"tools/a.py", "\ufeff__executor_id__ = None", true, true},
		{"tools/a.py", "def f():\r    __executor_id__ = None\n", true, false},
		{"tools/a.py", "executor_id = 'x'", true, false},
		{"tools/a.py", "# set __executor_id__ = None", false, false},
		{"tools/a.py", "my__executor_id__ = None", false, false},
		{"tools/a.py", "\"\"\"\n__executor_id__ = None\n\"\"\"\n", true, false},
		{"tools/a.py", "__executor_id__ = None\nx = (\n", true, true},
		{"tools/a.py", "__executor_id__ = pick()\n", true, false},
		{"tools/a.py", "__executor_id__ == 'x'", true, false},
		{"tools/a.yaml", "executor_id: null", true, true},
		{"tools/a.yaml", "\"executor_id\" : null", true, true},
		{"tools/a.yaml", "{version: 1.0.0, executor_id: x}", true, true},
		{"tools/a.yaml", "a:\n  executor_id: x\n", true, false},
		{"tools/a.yaml", "a: 1\n", false, false},
		{"tools/a.yaml", "executor_id: x\n\tb: [\n", true, true},
		{"tools/a.yaml", "- a\n- [", false, false},
		{"tools/a.sh", "# ---\n# executor_id: x\n# ---\n", true, true},
		{"tools/a.sh", "# executor_id: x\n", true, false},
		{"tools/a.js", "/* ---\nexecutor_id: x\n--- */\n", true, true},
		{"tools/a.txt", "executor_id: x\n", false, false},
		{"tools/a.py", "", false, false},
		{"tools/a.py", "\xff\xfe__executor_id__ = None", false, false},
		{"directives/a.md", "<directive name='a'>", true, true},
		{"directives/a.md", "```xml\n  <directive\n", true, true},
		{"directives/a.md", "<!-- x --><directive/>", true, true},
		{"directives/a.md", "Write <directive name='a'> here", false, false},
		{"directives/a.md", "<directives>", false, false},
		{"directives/a.md", "", false, false},
		{"knowledge/a.md", "```yaml\nid: a\n```\n", true, true},
		{"knowledge/a.md", "---\ntitle: a\n---\n", true, true},
		{"knowledge/a.md", "---\ntitle: [\n---\n", true, true},
		{"knowledge/a.md", "---\ncolour: red\n---\n", false, false},
		{"knowledge/a.md", "# A\n\nid: 3\n", true, false},
		{"knowledge/a.md", "valid: 3\n", false, false},
		{"knowledge/a.yaml", "entry_type: x\n", true, true},
		{"config/a.yaml", "", true, true},
		{"config/a.yaml", "[", true, true},
		{"config/a.txt", "", false, false},
	} {
		k := kindOf(t, c.path)
		if got := k.Marked(c.path, []byte(c.text)); got != c.may {
			t.Errorf("%s %q may be one: got %v", c.path, c.text, got)
		}
		if got := k.Read(Ref{k.Name, "a"}, c.path, []byte(c.text)).Marked; got != c.is {
			t.Errorf("%s %q: got %v", c.path, c.text, got)
		}
	}
}

// TestUnreadable holds files that can't be read to one problem each, and to no list of what they lack.
func TestUnreadable(t *testing.T) {
	for path, text := range map[string]string{
		"tools/a.yaml":    "executor_id: \xff",
		"tools/a.py":      "\x00",
		"directives/a.md": "<directive\x00",
		"knowledge/a.md":  "id: \xff",
		"config/a.yaml":   "a: \x00",
	} {
		k := kindOf(t, path)
		m := k.Read(Ref{k.Name, "a"}, path, []byte(text))
		if len(m.Problems) != 1 || !m.Invalid() {
			t.Errorf("%s: %s", path, told(m.Problems))
		}
	}
}

// TestManyProblems bounds the number of reported problems.
func TestManyProblems(t *testing.T) {
	m := readTool(t, "executor_id: null\ninputs: ["+strings.Repeat("1, ", 5000)+"]\n")
	if len(m.Problems) != fields.MaxProblems || !m.Invalid() {
		t.Errorf("%d problems", len(m.Problems))
	}
	if last := m.Problems[fields.MaxProblems-1].Message; last != "there are more problems than are told" {
		t.Errorf("got %s", last)
	}
	m = readTool(t, "executor_id: null\npermissions: ["+strings.Repeat("rye.*, ", 257)+"]\n")
	if got := told(m.Problems); got != "line 6, column 14: Field 'permissions' has 257 entries, more than 256\n" {
		t.Errorf("got %s", got)
	}
}

// TestManyFields reads as many fields as package parse hands on, of every kind of trouble.
func TestManyFields(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	var b strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&b, "  key%d: [%d]\n", i, i)
	}
	for _, name := range []string{"limits", "anchor", "child_constraints", "env_config", "input_schema", "config"} {
		if m := readTool(t, "executor_id: null\n"+name+":\n"+b.String()); len(m.Problems) > fields.MaxProblems ||
			m.Fields.Get(name) == nil {
			t.Errorf("%s: %d problems", name, len(m.Problems))
		}
	}
	all := strings.ReplaceAll(b.String(), "  key", "key")
	if m := readTool(t, all); len(m.Fields.Map) < 30_000 {
		t.Errorf("%d fields", len(m.Fields.Map))
	}
	if k, problems := ReadExtractor(yamlDoc(t, all), "x/y_extractor"); k != nil ||
		len(problems) != fields.MaxProblems {
		t.Errorf("%d problems", len(problems))
	}
}

// TestShapes holds every valid item to hashes, and one with numbers that none agrees about to none.
func TestShapes(t *testing.T) {
	for _, path := range []string{"directives/web/everything.md", "tools/acme/fetch.py", "tools/acme/runtime.yaml",
		"knowledge/acme/style.md"} {
		text, err := os.ReadFile(filepath.Join("testdata", "items", path))
		if err != nil {
			t.Fatal(err)
		}
		k := kindOf(t, path)
		ref, err := k.RefOf(path)
		if err != nil {
			t.Fatal(err)
		}
		m := k.Read(ref, path, text)
		if _, err := m.Interface().Hash(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := m.Grants().Hash(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	m := readTool(t, "executor_id: null\nconfig_schema: {type: integer, maximum: 99999999999999999999}\n")
	if _, err := m.Interface().Hash(); err == nil || !m.Invalid() {
		t.Error("a number out of range has a hash")
	}
}

func TestText(t *testing.T) {
	m := readTool(t, "executor_id: null\ntags: 'a, b,'\nexamples: [{x: [1, true, null]}, y]\n")
	for field, want := range map[string]string{"tags": "a b", "examples": "1 true y", "name": "a", "description": "d",
		"category": "", "content": "", "version": "1.0.0"} {
		if got := m.Text(field); got != want {
			t.Errorf("%s: got %q", field, got)
		}
	}
}

// TestShared reads with the same kinds from many goroutines.
func TestShared(t *testing.T) {
	kinds := Builtin()
	added, problems := readExtractor(t, "prompt")
	if added == nil {
		t.Fatal(told(problems))
	}
	files := map[string][]byte{"prompts/a.md": []byte("---\ntitle: A\n---\n")}
	for _, path := range []string{"directives/web/everything.md", "directives/wrong.md", "tools/acme/fetch.py",
		"tools/acme/wrong.yaml", "knowledge/acme/style.md"} {
		text, err := os.ReadFile(filepath.Join("testdata", "items", path))
		if err != nil {
			t.Fatal(err)
		}
		files[path] = text
	}
	kinds = append(kinds, added)
	want := map[string]string{}
	read := func(path string) string {
		for _, k := range kinds {
			if strings.HasPrefix(path, k.Dir+"/") {
				ref, err := k.RefOf(path)
				if err != nil {
					return err.Error()
				}
				return string(dump(t, k.Read(ref, path, files[path]), k.Marked(path, files[path])))
			}
		}
		return ""
	}
	for path := range files {
		want[path] = read(path)
	}
	var wait sync.WaitGroup
	for range 100 {
		wait.Go(func() {
			for path := range files {
				if got := read(path); got != want[path] {
					t.Errorf("%s: got %s", path, got)
				}
			}
		})
	}
	wait.Wait()
}
