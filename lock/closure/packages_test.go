package closure_test

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/lock/closure"
)

// lister is a tool that names a list of packages.
func lister(id, list string, more ...string) string {
	return tool(id, start, append(more, "packages: "+list, "anchor: {enabled: true, mode: always, root: tool_dir}")...)
}

// hashed is a line of requirements.
func hashed(text string) string { return text + " --hash=sha256:" + strings.Repeat("a", 64) + "\n" }

func TestLists(t *testing.T) {
	w := &world{spaces: map[string]files{
		"project": {
			"tools/acme/one/one.yaml":                lister("acme/one/one", "lists/_requirements.txt"),
			"tools/acme/one/lists/_requirements.txt": hashed("b==2") + hashed("a==1"),
			"tools/acme/none.yaml":                   tool("acme/none", start),
		},
		base: {
			"tools/acme/base/base.yaml":         lister("acme/base/base", "package-lock.json"),
			"tools/acme/base/package-lock.json": `{"lockfileVersion": 3, "packages": {}}`,
		},
	}, roots: []string{"tool:acme/**"}}
	found, _ := w.build(t).close()
	var got []string
	for _, l := range found.Lists {
		names := []string{}
		for i := range l.Packages {
			names = append(names, l.Packages[i].String())
		}
		got = append(got, fmt.Sprint(l.Tool, " ", l.Path, " ", names))
	}
	want := []string{"tool:acme/base/base tools/acme/base/package-lock.json []",
		"tool:acme/one/one tools/acme/one/lists/_requirements.txt [pypi:a@1 pypi:b@2]"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestListProblems(t *testing.T) {
	w := &world{spaces: map[string]files{"project": {
		"tools/acme/alone.yaml":               tool("acme/alone", start, "packages: _requirements.txt"),
		"tools/acme/gone/gone.yaml":           lister("acme/gone/gone", "_requirements.txt"),
		"tools/acme/gone/requirements.txt":    "",
		"tools/acme/named/named.yaml":         lister("acme/named/named", "poetry.lock"),
		"tools/acme/named/poetry.lock":        "",
		"tools/acme/range/range.yaml":         lister("acme/range/range", "_requirements.txt"),
		"tools/acme/range/_requirements.txt":  "\n" + hashed("x>=1"),
		"tools/acme/script/script.yaml":       lister("acme/script/script", "package-lock.json"),
		"tools/acme/script/package-lock.json": "{}",
	}}, roots: []string{"tool:acme/**"}}
	w.build(t).problems(
		`"project/tools/acme/alone.yaml": line 8, column 11: the list of packages "_requirements.txt" needs a directory that belongs to the tool: add anchor: {enabled: true, mode: always}`,
		`"project/tools/acme/gone/gone.yaml": line 8, column 11: the list of packages "_requirements.txt" is missing from the tool's directory`,
		`"project/tools/acme/named/named.yaml": line 8, column 11: the list of packages "poetry.lock" has an unknown name: expected …requirements.txt or package-lock.json`,
		`"project/tools/acme/range/_requirements.txt": line 2, column 1: x needs exactly one version: expected x==VERSION, got "x>=1"`,
		`"project/tools/acme/script/package-lock.json": is not a package-lock.json of lockfileVersion 2 or 3`,
	)
}

// TestListChanged: a list that is another one than was signed is no list.
func TestListChanged(t *testing.T) {
	w := &world{spaces: map[string]files{"project": {
		"tools/acme/one/one.yaml":          lister("acme/one/one", "_requirements.txt"),
		"tools/acme/one/_requirements.txt": hashed("a==1"),
	}}, roots: []string{"tool:acme/**"}}
	b := w.build(t)
	o := b.options(nil)
	it, err := b.view.Find(t.Context(), model.Ref{Kind: "tool", ID: "acme/one/one"})
	if err != nil {
		t.Fatal(err)
	}
	_, tree, err := o.Admit.Subject(t.Context(), it)
	if err != nil {
		t.Fatal(err)
	}
	b.spaces["project"].FS.(fstest.MapFS)["tools/acme/one/_requirements.txt"].Data = []byte(hashed("a==2"))
	if _, err := closure.ListOf(t.Context(), o.Admit, it, tree); err == nil ||
		!strings.HasPrefix(err.Error(), `"tools/acme/one/_requirements.txt": `) {
		t.Errorf("got %v", err)
	}
	text := (&closure.InListError{Path: "x", Line: 3, Err: fs.ErrNotExist}).Error()
	if !strings.HasPrefix(text, `"x": line 3: `) {
		t.Errorf("got %s", text)
	}
}
