package closure_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/manifest/sign"
)

// one is a project with these files.
func one(f files, roots ...string) *world {
	return &world{spaces: map[string]files{"project": f}, roots: roots}
}

func TestProblems(t *testing.T) {
	hook := func(id string) string {
		return directive("acme/d", `<hooks><hook event="error"><execute item_type="directive">`+id+
			`</execute></hook></hooks>`, "")
	}
	for _, tc := range []struct {
		name string
		w    *world
		want []string
	}{
		{"no executor", one(files{"tools/acme/a.yaml": tool("acme/a", "acme/gone"),
			"tools/acme/b.yaml": tool("acme/b", "acme/a")}), []string{
			`"project/tools/acme/a.yaml": line 6, column 14: executor tool:acme/gone of tool:acme/a: tool:acme/gone not found`,
		}},
		{"an executor above", &world{spaces: map[string]files{
			"project": {"tools/acme/rt.yaml": tool("acme/rt", start)},
			base:      {"tools/acme/base/x.yaml": tool("acme/base/x", "acme/rt")},
		}, roots: []string{"tool:acme/base/x"}}, []string{
			`"system:acme/base/tools/acme/base/x.yaml": line 6, column 14: executor tool:acme/rt of tool:acme/base/x: tool:acme/rt not found; ` +
				`it is in the space "project", which items of lower spaces can't use`,
		}},
		{"a circle, told once", one(files{"tools/acme/a.yaml": tool("acme/a", "acme/b"),
			"tools/acme/b.yaml": tool("acme/b", "acme/c"),
			"tools/acme/c.yaml": tool("acme/c", "acme/b"), "tools/acme/z.yaml": tool("acme/z", "acme/z")}), []string{
			`"project/tools/acme/b.yaml": line 6, column 14: circular executor chain: tool:acme/b → tool:acme/c → tool:acme/b`,
			`"project/tools/acme/z.yaml": line 6, column 14: circular executor chain: tool:acme/z → tool:acme/z`,
		}},
		{"no primitive", one(files{"tools/acme/a.yaml": tool("acme/a", "acme/b"),
			"tools/acme/b.yaml": tool("acme/b", "null")}), []string{
			`"project/tools/acme/b.yaml": line 7, column 14: invalid executor chain of tool:acme/b; "tool:acme/b" has no executor and is no primitive: those are tool:rye/core/primitives/…`,
		}},
		{"versions", one(files{"tools/acme/a.yaml": tool("acme/a", "acme/b"),
			"tools/acme/b.yaml": tool("acme/b", start, "child_constraints: {acme/a: {min_version: 2.0.0}}")}),
			[]string{
				`"project/tools/acme/a.yaml": line 7, column 14: invalid executor chain of tool:acme/a; "tool:acme/b" runs "tool:acme/a" in versions from "2.0.0", which has 1.2.3`,
			}},
		{"offers", one(files{"directives/acme/d.md": directive("acme/d", "<tools><tool>acme/gone</tool></tools>",
			"")}), []string{
			`"project/directives/acme/d.md": line 5, column 14: tool:acme/gone not found`,
		}},
		{"hooks", one(files{"directives/acme/d.md": hook("acme/gone")}), []string{
			`"project/directives/acme/d.md": line 5, column 59: directive:acme/gone not found`,
		}},
		{"a hook that names nothing", one(files{"directives/acme/d.md": hook("acme gone")}), []string{
			`"project/directives/acme/d.md": line 5, column 59: "directive:acme gone" is not an item: path "acme gone" is not an id: expected segments of A-Z a-z 0-9 . _ - that begin with a letter or digit, joined by "/"`,
		}},
		{"a hook's tool", one(files{"directives/acme/d.md": directive("acme/d",
			`<hooks><hook event="error"><execute>acme/gone</execute></hook></hooks>`, "")}), []string{
			`"project/directives/acme/d.md": line 5, column 37: tool:acme/gone not found`,
		}},
		{"an executor twice", &world{spaces: map[string]files{base: {"tools/acme/rt.yaml": tool("acme/rt", start)},
			more:      {"tools/acme/rt.yaml": tool("acme/rt", start)},
			"project": {"tools/acme/a.yaml": tool("acme/a", "acme/rt")}}}, []string{
			`"project/tools/acme/a.yaml": line 6, column 14: executor tool:acme/rt of tool:acme/a: tool:acme/rt is ambiguous: 2 files have this id; ` +
				`system:acme/base/tools/acme/rt.yaml; system:acme/more/tools/acme/rt.yaml`,
		}},
		{"an executor that can't be read", one(files{"tools/acme/a.yaml": tool("acme/a", "acme/link")}, "tool:acme/a"),
			[]string{
				`"project/tools/acme/a.yaml": line 6, column 14: executor tool:acme/link of tool:acme/a: "project/tools/acme/link.sh": is a symbolic link, which is never an item`,
			}},
		{"an invalid executor", one(files{"tools/acme/a.yaml": tool("acme/a", "acme/b"),
			"tools/acme/b.yaml": tool("acme/b", start, "risk: 7")}), nil},
		{"a kind that isn't there", one(files{"directives/acme/d.md": directive("acme/d",
			`<hooks><hook event="error"><load item_type="prompt" item_id="x"/></hook></hooks>`, "")}), []string{
			`"project/directives/acme/d.md": line 5, column 61: "prompt:x": unknown kind "prompt": expected one of config, directive, knowledge, tool`,
		}},
		{"roots", one(files{"knowledge/acme/a.md": note("acme/a"), "tools/acme/no.py": "print(1)\n"},
			"knowledge:acme/b", "tool:acme/no", "tool:acme/no*"), []string{
			`knowledge:acme/b not found; did you mean knowledge:acme/a?`,
			`tool:acme/no not found; "project/tools/acme/no.py" is not an item: no __executor_id__ at the top level`,
		}},
		{"invalid items", one(files{"knowledge/acme/a.md": "---\nid: other\ntitle: 7\nentry_type: reference\n---\nx\n",
			"config/a.yaml": "a: [\n"}), nil},
		{"unsigned items", &world{spaces: map[string]files{"project": {"knowledge/acme/a.md": note("acme/a"),
			"knowledge/acme/b.md": note("acme/b")}},
			unsigned: []string{"knowledge/acme/a.md", "knowledge/acme/b.md"}}, []string{
			`"project/knowledge/acme/a.md": "knowledge:acme/a" is unsigned; "**" requires 1 key`,
			`"project/knowledge/acme/b.md": "knowledge:acme/b" is unsigned; "**" requires 1 key`,
		}},
		{"one id twice", one(files{"tools/acme/a.yaml": tool("acme/a", start), "tools/acme/a.sh": shTool("acme/a")}),
			[]string{
				`"project/tools/acme/a.sh": tool:acme/a is ambiguous: 2 files have this id; project/tools/acme/a.sh; project/tools/acme/a.yaml`,
				`"project/tools/acme/a.yaml": tool:acme/a is ambiguous: 2 files have this id; project/tools/acme/a.sh; project/tools/acme/a.yaml`,
			}},
		{"upper and lower case", one(files{"knowledge/acme/a.md": note("acme/a"),
			"knowledge/acme/A.md": note("acme/A")}, "knowledge:acme/A"), []string{
			`"project/knowledge/acme/A.md": knowledge:acme/A is ambiguous: 2 files have this id; project/knowledge/acme/A.md; project/knowledge/acme/a.md`,
		}},
		{"two bundles", &world{spaces: map[string]files{base: {"knowledge/acme/a.md": note("acme/a")},
			more:      {"knowledge/acme/a.md": note("acme/a")},
			"project": {"knowledge/acme/b.md": note("acme/b", "acme/a")}}}, []string{
			`"project/knowledge/acme/b.md": line 7, column 14: knowledge:acme/a is ambiguous: 2 files have this id; system:acme/base/knowledge/acme/a.md; system:acme/more/knowledge/acme/a.md`,
		}},
		{"in front of the library", one(files{"tools/rye/core/runtimes/bash_runtime.yaml": tool(bash, start),
			"tools/acme/a.sh": shTool("acme/a")}), []string{
			`tool:rye/core/runtimes/bash_runtime is protected: the space "project" may not replace it; "project/tools/rye/core/runtimes/bash_runtime.yaml" replaces the item of system:rye/std; "override:" in the root policy can allow it`,
			`"project/tools/acme/a.sh": line 5, column 16: executor tool:rye/core/runtimes/bash_runtime of tool:acme/a: tool:rye/core/runtimes/bash_runtime is protected: the space "project" may not replace it; ` +
				`"project/tools/rye/core/runtimes/bash_runtime.yaml" replaces the item of system:rye/std; "override:" in the root policy can allow it`,
		}},
		{"a link", one(files{}), []string{`"project/tools/acme/link.sh": is a symbolic link, which is never an item`}},
		{"a link in a tree", one(files{"tools/acme/k/__init__.py": "", "tools/acme/k/a.py": pyTool("acme/k/a", python),
			"tools/acme/k/b.py": pyTool("acme/k/b", python)}, "tool:acme/k/*"), []string{
			`"project/tools/acme/k/link.txt": is a symbolic link, which a tree can't contain`,
			`"project/tools/acme/k/link.txt": is a symbolic link, which is never an item`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := tc.w.build(t)
			switch tc.name {
			case "an executor that can't be read":
				b.spaces["project"].FS.(fstest.MapFS)["tools/acme/link.sh"] = &fstest.MapFile{Data: []byte("x"),
					Mode: fs.ModeSymlink | 0o777}
			case "an invalid executor": // is reported once
				tc.want = []string{
					`"project/tools/acme/b.yaml": line 8, column 7: Field 'risk' must be a string, got int`}
			case "a link":
				b.spaces["project"].FS.(fstest.MapFS)["tools/acme/link.sh"] = &fstest.MapFile{Data: []byte("x"),
					Mode: fs.ModeSymlink | 0o777}
			case "a link in a tree":
				b.spaces["project"].FS.(fstest.MapFS)["tools/acme/k/link.txt"] = &fstest.MapFile{Data: []byte("x"),
					Mode: fs.ModeSymlink | 0o777}
			case "invalid items":
				_, err := closure.Close(t.Context(), b.options(nil))
				e, ok := err.(*closure.Error)
				if !ok || len(e.Problems) < 4 {
					t.Fatalf("got %v", err)
				}
				for _, p := range e.Problems {
					if p.Field == "" && p.Path != "config/a.yaml" || p.At.Line == 0 {
						t.Errorf("no place in %v", p)
					}
				}
				if !strings.HasSuffix(err.Error(), fmt.Sprintf("(and %d more)", len(e.Problems)-1)) {
					t.Errorf("got %v", err)
				}
				return
			}
			b.problems(tc.want...)
		})
	}
}

// Chains end after a while. A circle that nothing reaches doesn't matter.
func TestDeepChain(t *testing.T) {
	f := files{"tools/acme/far/a.yaml": tool("acme/far/a", "acme/far/a")}
	for i := range 12 {
		next := fmt.Sprintf("acme/c%02d", i+1)
		if i == 11 {
			next = start
		}
		f[fmt.Sprintf("tools/acme/c%02d.yaml", i)] = tool(fmt.Sprintf("acme/c%02d", i), next)
	}
	c, _ := one(f, "tool:acme/c03").build(t).close()
	if n := len(pinned(c)); n != 10 {
		t.Errorf("a chain of ten has %d pins", n)
	}
	b := one(f, "tool:acme/c0*").build(t)
	_, err := closure.Close(t.Context(), b.options(nil))
	e, ok := err.(*closure.Error)
	if !ok || len(e.Problems) != 3 {
		t.Fatalf("got %v", err)
	}
	for _, p := range e.Problems {
		if chain, ok := errors.AsType[*ai.ChainError](p); !ok || chain.Code != fault.TooDeep ||
			p.Field != "executor_id" || p.At.Line == 0 {
			t.Errorf("got %v", p)
		}
	}
}

// What is only mentioned is a warning.
func TestWarnings(t *testing.T) {
	w := &world{spaces: map[string]files{
		"project": {
			"directives/acme/d.md": directive("acme/d",
				`<permissions><execute><tool>acme/gone</tool></execute><load><prompt>acme/x</prompt></load></permissions><model tier="tool:acme/none" id="gpt:4" provider="acme/none"/>`,
				`<execute item_id="acme/none"/><load item_type="knowledge" item_id="acme none"/><load item_type="{kind}" item_id="x"/><execute/>`),
			"knowledge/acme/a.md": note("acme/a", "acme/gone", "https://acme.example/a", "'no:kind'", "'  '", "a//b"),
			"knowledge/acme/b.md": "---\nid: b\ntitle: B\nversion: 1.0.0\nentry_type: reference\nreferences: acme/a, acme/gone,\n---\nx\n",
			"tools/rye/x.yaml":    tool("rye/x", start),
			"tools/rye/core/extractors/prompt/prompt_extractor.yaml": "version: 1.0.0\ntool_type: extractor\nexecutor_id: null\ncategory: rye/core/extractors/prompt\n" +
				"description: Prompts\nkind: prompt\ndirectory: tools/prompts\nextensions: [.md]\nparser: yaml\n",
		},
	}}
	c, _ := func() (*closure.Closure, error) {
		b := w.build(t)
		b.roots = rootsOf(t, "directive:**", "knowledge:**", "tool:rye/x")
		return closure.Close(t.Context(), b.options(nil))
	}()
	if c == nil {
		t.Fatal("warnings are problems")
	}
	got := texts(c.Warnings)
	want := []string{
		`"project/directives/acme/d.md": line 5, column 29: tool:acme/gone not found`,
		`"project/directives/acme/d.md": line 5, column 69: "prompt:acme/x": unknown kind "prompt": expected one of config, directive, knowledge, tool`,
		`"project/directives/acme/d.md": line 7, column 18: tool:acme/none not found`,
		`"project/directives/acme/d.md": line 7, column 67: "knowledge:acme none" is not an item: path "acme none" is not an id: expected segments of A-Z a-z 0-9 . _ - that begin with a letter or digit, joined by "/"`,
		`"project/knowledge/acme/a.md": line 7, column 14: knowledge:acme/gone not found`,
		`"project/knowledge/acme/a.md": line 7, column 49: "no:kind": unknown kind "no": expected one of config, directive, knowledge, tool`,
		`"project/knowledge/acme/a.md": line 7, column 66: "knowledge:a//b" is not an item: path "a//b" has an empty segment`,
		`"project/knowledge/acme/b.md": line 7, column 13: knowledge:acme/gone not found`,
	}
	if len(got) == 0 {
		t.Fatal("no warnings")
	}
	same(t, "warnings", got[:len(got)-1], want)
	if last := c.Warnings[len(c.Warnings)-1]; last.Ref != ref("tool:rye/core/extractors/prompt/prompt_extractor") {
		t.Errorf("got %v", last)
	}
}

// A set has one item of each ref.
func TestConflict(t *testing.T) {
	w := &world{spaces: map[string]files{
		"project": {"tools/acme/rt.yaml": tool("acme/rt", start), "tools/acme/own.yaml": tool("acme/own", "acme/rt")},
		base: {"tools/acme/rt.yaml": tool("acme/rt", start),
			"tools/acme/base/x.yaml": tool("acme/base/x", "acme/rt"),
			"knowledge/acme/k.md":    note("acme/k", "tool:acme/rt")},
	}}
	w.roots = []string{"tool:acme/own", "tool:acme/base/x"}
	w.build(t).problems(
		`"project/tools/acme/rt.yaml": "tool:acme/rt" is needed from "project" by "tool:acme/own" and from "system:acme/base" by "tool:acme/base/x": a lock can pin only one item per ref`)
	w.roots = []string{"tool:acme/rt", "tool:acme/base/x"}
	w.build(t).problems(
		`"project/tools/acme/rt.yaml": "tool:acme/rt" is needed from "project" by the project and from "system:acme/base" by "tool:acme/base/x": a lock can pin only one item per ref`)
	// What isn't run is taken from where it stands highest, if the item that names it can reach one at all.
	w.roots = []string{"knowledge:acme/k"}
	c, _ := w.build(t).close()
	same(t, "pins", pinned(c), []string{"knowledge:acme/k " + base, "tool:acme/rt project", "tool:" + start + inStd})
}

// What stands in front of the library, as policy allows, is shown.
func TestOverride(t *testing.T) {
	w := one(files{"tools/rye/core/runtimes/bash_runtime.yaml": tool(bash, start),
		"tools/acme/a.sh": shTool("acme/a")})
	w.policy = override
	c, _ := w.build(t).close()
	same(t, "pins", pinned(c), []string{"tool:acme/a project", "tool:" + start + inStd, "tool:" + bash + " project"})
	same(t, "warnings", texts(c.Warnings), []string{
		`"project/tools/rye/core/runtimes/bash_runtime.yaml": overrides the item in "system:rye/std", as "override:" in your policy allows`,
	})
}

// A bundle names what is in its reach: its own, what it requires, the library.
func TestReach(t *testing.T) {
	w := &world{
		spaces: map[string]files{
			"project": {"knowledge/acme/own.md": note("acme/own")},
			base:      {"knowledge/acme/base/a.md": note("acme/base/a", "acme/own", "acme/more/b")},
			more: {"knowledge/acme/more/b.md": note("acme/more/b"),
				"tools/acme/more/t.yaml": tool("acme/more/t", start),
				"tools/acme/more/u.yaml": tool("acme/more/u", start)},
		},
		roots: []string{"knowledge:acme/base/a"},
	}
	c, _ := w.build(t).close()
	same(t, "pins", pinned(c), []string{"knowledge:acme/base/a " + base})
	same(t, "warnings", texts(c.Warnings), []string{
		`"system:acme/base/knowledge/acme/base/a.md": line 7, column 14: knowledge:acme/own not found; it is in the space "project", which items of lower spaces can't use`,
		`"system:acme/base/knowledge/acme/base/a.md": line 7, column 24: knowledge:acme/more/b not found`,
	})
	w.requires = map[string][]string{base: {more}}
	w.spaces[base]["directives/acme/base/d.md"] = directive("acme/base/d",
		`<permissions><execute><tool>acme/*</tool></execute><load><knowledge>acme/own/*</knowledge></load></permissions>`,
		"")
	w.spaces["project"]["tools/acme/p.yaml"] = tool("acme/p", start)
	w.spaces["project"]["tools/acme/more/u.yaml"] = tool("acme/more/u", start)
	w.roots = append(w.roots, "directive:acme/base/d")
	c, _ = w.build(t).close()
	same(t, "pins", pinned(c), []string{"directive:acme/base/d " + base, "knowledge:acme/base/a " + base,
		"knowledge:acme/more/b " + more,
		"tool:acme/more/t " + more, "tool:acme/more/u project", "tool:" + start + inStd})
}

// Patterns are segments; what begins with a star is about everything.
func TestPermissions(t *testing.T) {
	f := files{}
	for _, id := range []string{"acme/a", "acme/a/b", "acme/a/b/c", "acme/x/b", "acme-x/b", "other/b"} {
		f["knowledge/"+id+".md"] = note(id)
	}
	f["tools/acme/a/b.yaml"] = tool("acme/a/b", start)
	for _, tc := range []struct {
		permission string
		want       []string
	}{
		{"load:knowledge:acme/*", []string{"knowledge:acme/a", "knowledge:acme/a/b", "knowledge:acme/a/b/c",
			"knowledge:acme/x/b"}},
		{"load:knowledge:acme/*/b", []string{"knowledge:acme/a/b", "knowledge:acme/x/b"}},
		{"search:knowledge:acme/a/*", []string{"knowledge:acme/a", "knowledge:acme/a/b", "knowledge:acme/a/b/c"}},
		{"*:*:acme/a/b", []string{"knowledge:acme/a/b", "tool:acme/a/b"}},
		{"load:knowledge:*", nil},
		{"load:knowledge:*/b", nil},
		{"load:knowledge", nil},
		{"*:*:*", nil},
		{"execute:tool:rye/agent/threads/thread_directive", nil}, // which threads run themselves
		{"execute:tool:nothing/*", nil},
	} {
		f["tools/acme/t.yaml"] = tool("acme/t", start, fmt.Sprintf("permissions: [%q]", tc.permission))
		f["tools/acme/u.yaml"] = tool("acme/u", start, fmt.Sprintf("permissions: [%q]", tc.permission))
		c, _ := one(f, "tool:acme/t", "tool:acme/u").build(t).close()
		var want []string
		for _, r := range tc.want {
			want = append(want, r+" project")
		}
		want = append(want, "tool:acme/t project", "tool:acme/u project", "tool:"+start+inStd)
		same(t, tc.permission, pinned(c), want)
		if len(c.Warnings) > 0 {
			t.Errorf("%s: %v", tc.permission, c.Warnings)
		}
	}
	// An item that is covered has to be as it should; of an unsigned one nothing that it covers is looked for.
	bad := f.with(
		files{"knowledge/acme/bad.md": "---\nid: good\ntitle: X\nversion: 1.0.0\nentry_type: reference\n---\nx\n",
			"tools/acme/t.yaml": tool("acme/t", start, `permissions: ["load:knowledge:acme/*"]`)})
	one(bad, "tool:acme/t").build(t).
		problems(
			`"project/knowledge/acme/bad.md": line 3, column 5: Field 'id' value 'good' must match filename 'bad'`)
	w := one(bad, "tool:acme/t")
	w.unsigned = []string{"tools/acme/t.yaml"}
	w.build(t).problems(`"project/tools/acme/t.yaml": "tool:acme/t" is unsigned; "**" requires 1 key`)
	two := &world{spaces: map[string]files{"project": {"tools/acme/t.yaml": tool("acme/t", start,
		`permissions: ["load:knowledge:acme/*"]`)},
		base: {"knowledge/acme/a.md": note("acme/a")}, more: {"knowledge/acme/a.md": note("acme/a")}}}
	two.build(t).
		problems(
			`"project/tools/acme/t.yaml": line 8, column 15: knowledge:acme/a is ambiguous: 2 files have this id; system:acme/base/knowledge/acme/a.md; system:acme/more/knowledge/acme/a.md`)
}

// Who made the kind of an item is pinned with it.
func TestExtractor(t *testing.T) {
	w := one(files{
		"tools/rye/core/extractors/prompt/prompt_extractor.yaml": "version: 1.0.0\ntool_type: extractor\nexecutor_id: null\ncategory: rye/core/extractors/prompt\n" +
			"description: Prompts\nkind: prompt\ndirectory: prompts\nextensions: [.md]\nparser: {.md: markdown_frontmatter}\nvalidation_schema: {fields: {title: {type: string}}}\n",
		"prompts/acme/x.md": "---\ntitle: X\n---\nHello.\n",
	}, "prompt:acme/x")
	c, _ := w.build(t).close()
	var got []string
	for _, p := range c.Pins {
		got = append(got, p.Ref.String()+" "+p.From)
	}
	same(t, "pins", got, []string{"prompt:acme/x project", "tool:rye/core/extractors/prompt/prompt_extractor project",
		"tool:rye/core/extractors/tool/tool_extractor" + inStd})
}

// A signature of the first format says nothing of other files, so a manifest that lists the tool is not enough.
func TestV1(t *testing.T) {
	w := one(files{"tools/acme/k/__init__.py": "", "tools/acme/k/a.py": pyTool("acme/k/a", python),
		"tools/acme/b.py": pyTool("acme/b", python)})
	w.accept = "[v1, v2]"
	w.unsigned = []string{"tools/acme/k/a.py", "tools/acme/b.py"}
	b := w.build(t)
	for _, path := range w.unsigned {
		f := b.spaces["project"].FS.(fstest.MapFS)[path]
		signed, err := sign.SignV1(f.Data, sign.Hash|sign.V1Tool, alice, noon)
		if err != nil {
			t.Fatal(err)
		}
		f.Data = signed
	}
	o := b.options(nil)
	o.Admit = ai.NewAdmitter(b.view, &bundle.Listing{Trust: b.trust, Listed: func(cas.Digest) bool { return true }})
	_, err := closure.Close(t.Context(), o)
	e, ok := err.(*closure.Error)
	if !ok {
		t.Fatalf("got %v", err)
	}
	same(t, "problems", texts(e.Problems), []string{
		`"project/tools/acme/k/a.py": a v1 signature does not cover the 1 other file in the tool's directory`,
	})
	o.Roots = rootsOf(t, "tool:acme/b")
	c, err := closure.Close(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Pins[0]; p.Format != sign.V1 || len(p.Signers) != 1 {
		t.Errorf("got %+v", p)
	}
	b.roots = o.Roots
	b.problems(
		`"project/tools/acme/b.py": "tool:acme/b" is signed in the first format (v1), which may be shown and upgraded but not used: ` +
			`neither a manifest nor "digests:" lists its digest; signed by "alice" (v1)`)
}

// What policy lists by its digest has no signers.
func TestByDigest(t *testing.T) {
	w := one(files{"knowledge/acme/a.md": note("acme/a")})
	w.unsigned = []string{"knowledge/acme/a.md"}
	b := w.build(t)
	it := find(t, b, "knowledge:acme/a")
	w.policy = fmt.Sprintf("\ndigests:\n  %q: {reason: \"looked at\"}\n", it.Raw)
	c, _ := w.build(t).close()
	if p := c.Pins[0]; p.Ref != it.Ref || p.Signers != nil || p.Format != sign.None {
		t.Errorf("got %+v", p)
	}
}

// References may be as deep as they like.
func TestDeepReferences(t *testing.T) {
	const n = 300
	f := files{}
	for i := range n {
		id := fmt.Sprintf("acme/k%04d", i)
		f["knowledge/"+id+".md"] = note(id, fmt.Sprintf("acme/k%04d", (i+1)%n))
	}
	c, _ := one(f, "knowledge:acme/k0100").build(t).close()
	if got := len(pinned(c)); got != n {
		t.Errorf("%d of %d are reached", got, n)
	}
}

// A place is that of a file on disk where there is one.
func TestPlace(t *testing.T) {
	b := onDisk(t, &world{spaces: map[string]files{"project": {"knowledge/acme/a.md": note("acme/a")}},
		unsigned: []string{"knowledge/acme/a.md"}})
	_, err := closure.Close(t.Context(), b.options(nil))
	e, ok := errors.AsType[*closure.Problem](err)
	if !ok || !strings.HasPrefix(e.Error(), fmt.Sprintf("%+q: ",
		filepath.Join(b.spaces["project"].Dir, "knowledge/acme/a.md"))) {
		t.Errorf("got %v", err)
	}
	if denied, ok := errors.AsType[*fault.Error](err); !ok ||
		denied.Details["file"] != filepath.Join(b.spaces["project"].Dir, "knowledge/acme/a.md") {
		t.Errorf("got %v", denied)
	}
}
