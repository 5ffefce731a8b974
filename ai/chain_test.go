package ai_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
)

func TestWalk(t *testing.T) {
	v := view(t, noOverride, space("project", files{"tools/acme/fetch.py": pyTool("acme/fetch", python)}))
	c, err := ai.Walk(t.Context(), v, ref("tool:acme/fetch"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range c.Links {
		got = append(got, l.Space.Label+" "+l.Ref.String())
	}
	wantLines(t, "chain", got, "project tool:acme/fetch", "system:rye/std tool:"+python,
		"system:rye/std tool:"+subprocess)
	if c.Tool().ID != "acme/fetch" || c.Primitive().ID != subprocess {
		t.Error("the ends are not the ends")
	}
}

func TestWalkErrors(t *testing.T) {
	bash := "rye/core/runtimes/bash"
	f := files{
		"tools/gone.yaml":     tool("gone", "acme/none"),
		"tools/indirect.yaml": tool("indirect", "gone"),
		"tools/a.yaml":        tool("a", "b"),
		"tools/b.yaml":        tool("b", "c"),
		"tools/c.yaml":        tool("c", "b"),
		"tools/self.yaml":     tool("self", "self"),
		"tools/amb.yaml":      tool("amb", "twice"),
		"tools/twice.yaml":    tool("twice", bash),
		"tools/twice.sh":      "# ---\n# executor_id: " + bash + "\n# ---\n",
		"tools/lone.yaml":     tool("lone", "null"),
		"tools/down.yaml":     tool("down", "lone"),
		"tools/broken.yaml":   "name: other\nversion: 1.0\nexecutor_id: " + bash + "\n",
		"tools/run.yaml": tool("run", bash, "inputs: [body, size]", "child_constraints:",
			"  old: {min_version: 2.0.0}", "  new: {max_version: 1.0.0}", "  out: {range: '^2'}",
			"  pre: {range: '^1.2'}", "  none: {min_version: 0.0.1}",
			"  fits: {min_version: 1.2.3, max_version: 1.2.3, range: '>=1 <2'}"),
		"tools/fits.yaml":  tool("fits", "run", "outputs: [size, body, more]"),
		"tools/free.yaml":  tool("free", "run"),
		"tools/old.yaml":   tool("old", "run", "outputs: [body]"),
		"tools/new.yaml":   tool("new", "run"),
		"tools/out.yaml":   tool("out", "run"),
		"tools/pre.yaml":   strings.Replace(tool("pre", "run"), "1.2.3", "1.2.4-rc.1", 1),
		"tools/none.yaml":  strings.Replace(tool("none", "run"), "version: 1.2.3", "", 1),
		"knowledge/k.md":   "---\nid: k\n---\n",
		"tools/dirty.yaml": tool("dirty", "shadowed"),
	}
	for i := range 12 {
		id := fmt.Sprintf("deep%02d", i)
		f["tools/"+id+".yaml"] = tool(id, fmt.Sprintf("deep%02d", i+1))
	}
	f["tools/deep12.yaml"] = tool("deep12", subprocess)
	f["tools/ok00.yaml"] = tool("ok00", "deep05") // deep05 … deep12 and the primitive: ten
	v := view(t, noOverride, space("project", f))
	for _, c := range []struct{ id, code, want string }{
		{"none-such", "TOOL_NOT_FOUND", `tool:none-such not found`},
		{"gone", "EXECUTOR_NOT_FOUND", `executor tool:acme/none of tool:gone: tool:acme/none not found`},
		{"indirect", "EXECUTOR_NOT_FOUND", `executor tool:acme/none of tool:gone: tool:acme/none not found`},
		{"a", "CIRCULAR_DEPENDENCY", "circular executor chain: tool:a → tool:b → tool:c → tool:b"},
		{"self", "CIRCULAR_DEPENDENCY", "circular executor chain: tool:self → tool:self"},
		{"deep00", "CHAIN_TOO_DEEP",
			"executor chain longer than 10 links: tool:deep00 → tool:deep01 → tool:deep02 → tool:deep03 → tool:deep04 → tool:deep05 → tool:deep06 → tool:deep07 → tool:deep08 → tool:deep09 → tool:deep10"},
		{"amb", "AMBIGUOUS",
			`executor tool:twice of tool:amb: tool:twice is ambiguous: 2 files have this id; project/tools/twice.yaml; project/tools/twice.sh`},
		{"lone", "VALIDATION_FAILED",
			`invalid executor chain of tool:lone; "tool:lone" has no executor and is no primitive: those are tool:rye/core/primitives/…`},
		{"down", "VALIDATION_FAILED",
			`invalid executor chain of tool:down; "tool:lone" has no executor and is no primitive: those are tool:rye/core/primitives/…`},
		{"fits", "", ""},
		{"free", "", ""},
		{"ok00", "", ""},
		{"old", "VALIDATION_FAILED",
			`invalid executor chain of tool:old; "tool:run" wants ["size"] of "tool:old", which gives ["body"]; "tool:run" runs "tool:old" in versions from "2.0.0", which has 1.2.3`},
		{"new", "VERSION_MISMATCH",
			`invalid executor chain of tool:new; "tool:run" runs "tool:new" in versions up to "1.0.0", which has 1.2.3`},
		{"out", "VERSION_MISMATCH",
			`invalid executor chain of tool:out; "tool:run" runs "tool:out" in versions in "^2", which has 1.2.3`},
		{"pre", "VERSION_MISMATCH",
			`invalid executor chain of tool:pre; "tool:run" runs "tool:pre" in versions in "^1.2", which has 1.2.4-rc.1`},
		{"none", "VALIDATION_FAILED",
			`invalid executor chain of tool:none; "tool:none": line 1, column 1: Missing required field: version; "tool:run" runs "tool:none" in versions from "0.0.1", which has "", which is no version`},
	} {
		_, err := ai.Walk(t.Context(), v, model.Ref{Kind: "tool", ID: c.id})
		ce, ok := errors.AsType[*ai.ChainError](err)
		if !ok {
			if err != nil || c.code != "" {
				t.Errorf("%s: got %v, want %s", c.id, err, c.code)
			}
			continue
		}
		if string(ce.Code) != c.code || ce.Error() != c.want {
			t.Errorf("%s: got  %s %s\nwant %s %s", c.id, ce.Code, ce, c.code, c.want)
		}
	}
	// All that is wrong at once, with its place.
	_, err := ai.Walk(t.Context(), v, ref("tool:broken"))
	if ce, ok := errors.AsType[*ai.ChainError](err); !ok || len(ce.Issues) < 4 {
		t.Errorf("got %v", err)
	}
	_, err = ai.Walk(t.Context(), v, ref("knowledge:k"))
	wantError(t, err, `"knowledge:k" is a knowledge: only a tool has a chain`)
}

// TestSpaceRule: what a link runs is in its own space or below, wherever the call comes from.
func TestSpaceRule(t *testing.T) {
	bash := "rye/core/runtimes/bash"
	user := files{
		"tools/u/tool.yaml":  tool("u/tool", "u/runtime"),
		"tools/u/above.yaml": tool("u/above", "p/runtime"),
		"tools/u/runtime.sh": "# ---\n# name: runtime\n# category: u\n# version: 1.0.0\n# tool_type: r\n# description: d\n# executor_id: " +
			bash + "\n# ---\n",
		"tools/both/tool.yml":     tool("both/tool", "both/runtime"),
		"tools/both/runtime.yaml": tool("both/runtime", bash),
	}
	project := files{
		"tools/p/runtime.yaml":    tool("p/runtime", bash),
		"tools/p/tool.yaml":       tool("p/tool", "u/runtime"),
		"tools/both/runtime.yaml": tool("both/runtime", bash),
	}
	v := view(t, noOverride, space("project", project), space("user", user))
	for id, want := range map[string]string{
		"u/tool":    "user user system:rye/std system:rye/std",
		"p/tool":    "project user system:rye/std system:rye/std",
		"both/tool": "user user system:rye/std system:rye/std", // not the project's runtime, which stands in front
	} {
		c, err := ai.Walk(t.Context(), v, model.Ref{Kind: "tool", ID: id})
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		var got []string
		for _, l := range c.Links {
			got = append(got, l.Space.Label)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: got %s, want %s", id, text, want)
		}
	}
	// What is broken above stays there.
	v = view(t, noOverride, space("project", project.with(files{"tools/u/runtime.py": pyTool("u/runtime", python),
		"tools/u/runtime.yaml": tool("u/runtime", bash)})), space("user", user))
	if _, err := v.Find(t.Context(), ref("tool:u/runtime")); err == nil {
		t.Error("two items with one id are one")
	}
	if _, err := ai.Walk(t.Context(), v, ref("tool:u/tool")); err != nil {
		t.Error(err)
	}
	_, err := ai.Walk(t.Context(), v, ref("tool:u/above"))
	wantError(t, err,
		`executor tool:p/runtime of tool:u/above: tool:p/runtime not found; it is in the space "project", which items of lower spaces can't use`)
}

// a careless resolver gives whatever there is.
type careless struct{ v *ai.View }

func (c careless) Resolve(ctx context.Context, ref model.Ref, _ *ai.Space) (*ai.Item, error) {
	return c.v.Resolve(ctx, ref, nil)
}

// TestCarelessResolver: the rule of spaces holds for every resolver.
func TestCarelessResolver(t *testing.T) {
	v := view(t, noOverride, space("project", files{"tools/p.yaml": tool("p", "rye/core/runtimes/bash")}),
		space("user", files{"tools/u.yaml": tool("u", "p")}))
	_, err := ai.Walk(t.Context(), careless{v}, ref("tool:u"))
	wantError(t, err,
		`executor tool:p of tool:u: "tool:u" in the space "user" can't be run by "tool:p" in the space "project", which stands above`)
}

// TestBundles: a bundle uses its own items, those of what it requires, and the library.
func TestBundles(t *testing.T) {
	bash := "rye/core/runtimes/bash"
	a := space("system:acme/a", files{"tools/a/one.yaml": tool("a/one", "b/run"),
		"tools/a/two.yaml": tool("a/two", "c/run"), "tools/both.yaml": tool("both", bash)})
	a.Requires = []string{"system:acme/b"}
	b := space("system:acme/b", files{"tools/b/run.yaml": tool("b/run", bash), "tools/both.yaml": tool("both", bash),
		"tools/b/own.yaml": tool("b/own", "both")})
	c := space("system:acme/c", files{"tools/c/run.yaml": tool("c/run", bash)})
	v := view(t, noOverride, space("project", files{"tools/p.yaml": tool("p", "c/run")}), c, b, a)
	for id, want := range map[string]string{
		"a/one": "",
		"p":     "",
		"b/own": "",
		"a/two": `executor tool:c/run of tool:a/two: tool:c/run not found`,
		"both":  `tool:both is ambiguous: 2 files have this id; system:acme/b/tools/both.yaml; system:acme/a/tools/both.yaml`,
	} {
		_, err := ai.Walk(t.Context(), v, model.Ref{Kind: "tool", ID: id})
		if want != "" {
			wantError(t, err, want)
		} else if err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}
