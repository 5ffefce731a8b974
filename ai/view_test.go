package ai_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

func TestFind(t *testing.T) {
	v := view(t, noOverride,
		space("project", files{"tools/acme/a.py": pyTool("acme/a", python), "tools/acme/b.py": "print('an asset')\n"}),
		space("user", files{"tools/acme/a.py": pyTool("acme/a", python), "tools/acme/b.py": pyTool("acme/b", python),
			"tools/acme/c.py": pyTool("acme/c", python)}))
	for id, want := range map[string]string{"acme/a": "project", "acme/b": "user", "acme/c": "user",
		subprocess: "system:rye/std"} {
		it := find(t, v, "tool:"+id)
		if it.Space.Label != want || it.ID != id || it.Raw.IsZero() || it.Stripped != it.Raw || it.Broken != nil ||
			it.Model.Ref != it.Ref {
			t.Errorf("%s: got %+v", id, it)
		}
	}
	all, err := v.All(t.Context(), ref("tool:acme/a"))
	if err != nil || len(all) != 2 || all[0].Space.Label != "project" || all[1].Space.Label != "user" {
		t.Errorf("got %v, %v", all, err)
	}
	for text, want := range map[string]string{
		"tool:acme/d":       `tool:acme/d not found; did you mean tool:acme/a, tool:acme/b, tool:acme/c?`,
		"tool:subproces":    `tool:subproces not found`,
		"tool:subprocess":   `tool:subprocess not found; did you mean tool:rye/core/primitives/subprocess?`,
		"knowledge:acme/a":  `knowledge:acme/a not found; did you mean tool:acme/a?`,
		"tool:Acme/A":       `tool:Acme/A not found; did you mean tool:acme/a, tool:acme/b, tool:acme/c?`,
		"workflow:acme/a":   `"workflow:acme/a": unknown kind "workflow": expected one of config, directive, knowledge, tool`,
		"tool:acme/nothing": `tool:acme/nothing not found`,
	} {
		_, err := v.Find(t.Context(), ref(text))
		wantError(t, err, want)
		if strings.HasPrefix(want, "there is no") && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there somehow", text)
		}
	}
	_, err = v.Resolve(t.Context(), ref("tool:acme/b"), v.Spaces()[2])
	wantError(t, err, `tool:acme/b not found; it is in the space "user", which items of lower spaces can't use`)
	v = view(t, noOverride, space("project", files{"tools/acme/b.py": "print('an asset')\n"}))
	_, err = v.Find(t.Context(), ref("tool:acme/b"))
	wantError(t, err,
		`tool:acme/b not found; "project/tools/acme/b.py" is not an item: no __executor_id__ at the top level`)
	for _, id := range []string{"../x", "a//b", "_x", "a/.b", "/etc/passwd", "a b", "CON", ""} {
		if it, err := v.Find(t.Context(), model.Ref{Kind: "tool", ID: id}); err == nil {
			t.Errorf("%q is %v", id, it)
		}
	}
}

// TestSigned: an item has its digests with and without lines, and broken lines are no reason not to read it.
func TestSigned(t *testing.T) {
	text := pyTool("a", python)
	signed := signText(t, "tool:a", text, sign.Hash, eve)
	v := view(t, noOverride, space("project", files{"tools/a.py": signed,
		"tools/b.py": signed + signed[:strings.Index(signed, "\n")+1] + "x"}))
	it := find(t, v, "tool:a")
	if it.Stripped == it.Raw || it.Signed.Format != sign.V2 || string(it.Bytes) != signed {
		t.Errorf("got %+v", it)
	}
	v = view(t, noOverride, space("project", files{"tools/a.py": signed[:strings.Index(signed, "\n")+1] + signed}))
	if it := find(t, v, "tool:a"); it.Broken == nil || !it.Stripped.IsZero() || it.Raw.IsZero() {
		t.Errorf("got %+v", it)
	}
}

func TestProtected(t *testing.T) {
	bash := "rye/core/runtimes/bash"
	s := space("project", files{
		"tools/" + bash + ".yaml":   tool(bash, subprocess),
		"tools/rye/core/own.yaml":   tool("rye/core/own", bash),
		"tools/acme/x.yaml":         tool("acme/x", bash),
		"knowledge/rye/overview.md": "---\nid: overview\n---\n",
	})
	v := view(t, noOverride, s)
	const want = `tool:rye/core/runtimes/bash is protected: the space "project" may not replace it; "project/tools/rye/core/runtimes/bash.yaml" replaces the item of system:rye/std; "override:" in the root policy can allow it`
	_, err := v.Find(t.Context(), ref("tool:"+bash))
	wantError(t, err, want)
	_, err = ai.Walk(t.Context(), v, ref("tool:acme/x"))
	ce, ok := errors.AsType[*ai.ChainError](err)
	if !ok || ce.Code != fault.Policy {
		t.Errorf("got %v", err)
	}
	wantError(t, err, `executor tool:`+bash+` of tool:acme/x: `+want)
	// An item that hides nothing is fine, and the library's own links don't look up.
	find(t, v, "tool:rye/core/own")
	find(t, v, "knowledge:rye/overview")
	if _, err := v.Resolve(t.Context(), ref("tool:"+bash), v.Spaces()[len(v.Spaces())-1]); err != nil {
		t.Error(err)
	}
	v = view(t, override, s)
	if it := find(t, v, "tool:"+bash); it.Space.Label != "project" {
		t.Errorf("found in %s", it.Space.Label)
	}
	// A bundle is no better, and an override for another name none.
	for _, policy := range []string{noOverride, "\noverride:\n  - \"tool:rye/other\"\n"} {
		v = view(t, policy, space("system:evil/x", files{"tools/" + bash + ".yaml": tool(bash, subprocess)}))
		if _, err := v.Find(t.Context(), ref("tool:"+bash)); err == nil {
			t.Error("a bundle takes the place of the library's item")
		}
	}
}

// extractor returns one in YAML.
func extractor(kind, more string) string {
	return "name: " + kind +
		"_extractor\ncategory: \"rye/core/extractors\"\nversion: 1.0.0\ntool_type: extractor\ndescription: an extractor\nexecutor_id: null\n" +
		"kind: " + kind +
		"\nparser: {.md: markdown_frontmatter, .yaml: yaml, .sql: comment_header, .py: python_ast}\n" + more
}

const (
	workflow = "directory: workflows\nextensions: [.md, .yaml, .sql, .py]\n"
	inTools  = "tools/rye/core/extractors/"
)

// kindsOf says which kinds a view has, and where from.
func kindsOf(v *ai.View) string {
	var b strings.Builder
	for _, k := range v.Kinds() {
		from := k.From
		if k.Builtin {
			from = "builtin"
		}
		fmt.Fprintf(&b, "%s=%s ", k.Name, strings.TrimPrefix(from, "rye/core/extractors/"))
	}
	return strings.TrimSpace(b.String())
}

func warnings(v *ai.View) (all []string) {
	for _, w := range v.Warnings() {
		all = append(all, w.Error())
	}
	return all
}

func TestKinds(t *testing.T) {
	const none = "config=builtin directive=builtin knowledge=builtin tool=builtin"
	const at = "tool:rye/core/extractors/"
	good := extractor("workflow", workflow)
	signed := signText(t, at+"workflow_extractor", good, sign.Hash, alice)
	strange := signText(t, at+"workflow_extractor", good, sign.Hash, eve)
	remap := extractor("tool", "extensions: [.md, .sh]\n")
	remap = strings.Replace(remap, "{.md: markdown_frontmatter, .yaml: yaml, .sql: comment_header, .py: python_ast}",
		"{.md: markdown_frontmatter}", 1)
	mine := func(id, text string) string { return signText(t, at+id, text, sign.Hash, alice) }
	for _, c := range []struct {
		name            string
		system, project files
		want            string
		warnings        []string
	}{
		{"nothing", nil, nil, none, nil},
		{"of the library", files{inTools + "workflow_extractor.yaml": good}, nil,
			none + " workflow=workflow_extractor", nil},
		{"signed", nil, files{inTools + "workflow_extractor.yaml": signed}, none + " workflow=workflow_extractor",
			nil},
		{"deeper", nil, files{inTools + "x/y/w_extractor.yaml": mine("x/y/w_extractor", good)},
			none + " workflow=x/y/w_extractor", nil},
		{"unsigned", nil, files{inTools + "workflow_extractor.yaml": good}, none,
			[]string{
				`"project/tools/rye/core/extractors/workflow_extractor.yaml": "tool:rye/core/extractors/workflow_extractor" is unsigned; "**" requires 1 key`}},
		{"of a stranger", nil, files{inTools + "workflow_extractor.yaml": strange}, none,
			[]string{
				`"project/tools/rye/core/extractors/workflow_extractor.yaml": "tool:rye/core/extractors/workflow_extractor" is not signed by a key of the policy`}},
		{"changed", nil, files{inTools + "workflow_extractor.yaml": signed + "# more\n"}, none,
			[]string{
				`"project/tools/rye/core/extractors/workflow_extractor.yaml": content was changed after signing`}},
		{"invalid", nil, files{inTools + "workflow_extractor.yaml": mine("workflow_extractor", good+"colour: red\n")},
			none,
			[]string{
				`"project/tools/rye/core/extractors/workflow_extractor.yaml": line 12, column 1: an extractor has no field 'colour'`}},
		{"remaps executors", nil, files{inTools + "workflow_extractor.yaml": mine("workflow_extractor",
			good+"extraction_rules: {executor_id: {type: path, key: run}}\n")}, none,
			[]string{`"project/tools/rye/core/extractors/workflow_extractor.yaml": line 12, column 20: `}},
		{"takes the library's id", files{inTools + "workflow_extractor.yaml": good},
			files{inTools + "workflow_extractor.yaml": signed}, none + " workflow=workflow_extractor",
			[]string{
				`"project/tools/rye/core/extractors/workflow_extractor.yaml": tool:rye/core/extractors/workflow_extractor is protected: the space "project" may not replace it; "project/tools/rye/core/extractors/workflow_extractor.yaml" replaces the item of system:x; "override:" in the root policy can allow it`}},
		{"takes the library's kind", files{inTools + "workflow_extractor.yaml": good},
			files{inTools + "w_extractor.yaml": mine("w_extractor", good)}, none + " workflow=workflow_extractor",
			[]string{
				`"project/tools/rye/core/extractors/w_extractor.yaml": tool:rye/core/extractors/workflow_extractor is protected: the space "project" may not replace it`}},
		{"takes a directory", files{inTools + "workflow_extractor.yaml": good},
			files{inTools + "flow_extractor.yaml": mine("flow_extractor",
				strings.Replace(extractor("flow", workflow), "directory: workflows", "directory: Workflows", 1))},
			none + " workflow=workflow_extractor",
			[]string{
				`"project/tools/rye/core/extractors/flow_extractor.yaml": says that the kind "flow" is in "Workflows/", which belongs to the kind "workflow"`}},
		{"two of one kind", nil, files{inTools + "workflow_extractor.yaml": signed,
			inTools + "b/w_extractor.yaml": mine("b/w_extractor", good)}, none,
			[]string{
				`"project/tools/rye/core/extractors/b/w_extractor.yaml": tool:rye/core/extractors/b/w_extractor is ambiguous`,
				`"project/tools/rye/core/extractors/workflow_extractor.yaml": tool:rye/core/extractors/workflow_extractor is ambiguous`}},
		{"no extractor by type", nil, files{inTools + "x_extractor.yaml": tool("rye/core/extractors/x_extractor",
			"null"), inTools + "_y_extractor.yaml": good, inTools + "z_extractor.yaml": "a: 1\n",
			inTools + "notes.yaml": good}, none, nil},
		{"another language", nil,
			files{inTools + "workflow_extractor.py": pyTool("rye/core/extractors/workflow_extractor", python)}, none,
			nil},
		{"elsewhere", nil, files{"tools/acme/workflow_extractor.yaml": good}, none, nil},
		{"the kernel's", nil, files{inTools + "tool_extractor.yaml": mine("tool_extractor", remap)},
			"config=builtin directive=builtin knowledge=builtin tool=tool_extractor",
			[]string{
				`"project/tools/rye/core/extractors/tool_extractor.yaml": line 2, column 1: the extractor demands nothing of a tool`}},
	} {
		system := space("system:x", c.system)
		system.Builtin = true
		tr := trust(t, noOverride)
		project := space("project", c.project)
		v, err := ai.NewView(t.Context(), ai.Options{Spaces: []*ai.Space{system, project}, Trust: tr,
			MayOverride: tr.Root.Policy.MayOverride})
		if err != nil {
			t.Fatal(err)
		}
		if got := kindsOf(v); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		got := warnings(v)
		ok := len(got) == len(c.warnings)
		for i := range got {
			ok = ok && strings.HasPrefix(got[i], c.warnings[i])
		}
		if !ok {
			wantLines(t, c.name, got, c.warnings...)
		}
		if v, err = ai.NewView(t.Context(), ai.Options{Spaces: []*ai.Space{project}}); err != nil ||
			kindsOf(v) != none {
			t.Errorf("%s: no key is trusted, and %s", c.name, kindsOf(v))
		}
	}
}

// TestOverriddenKind: with the root policy's leave a project reads its files in its own way.
func TestOverriddenKind(t *testing.T) {
	text := signText(t, "tool:rye/core/extractors/workflow_extractor",
		extractor("workflow", "directory: workflows\nextensions: [.md, .yaml, .sql, .py]\n"), sign.Hash, alice)
	s := space("project", files{inTools + "workflow_extractor.yaml": text,
		"workflows/a.md": "---\ntitle: A\n---\ntext\n"})
	lib := space("system:x", files{inTools + "workflow_extractor.yaml": extractor("workflow", workflow)})
	lib.Builtin = true
	tr := trust(t, override)
	v, err := ai.NewView(t.Context(), ai.Options{Spaces: []*ai.Space{lib, s}, Trust: tr,
		MayOverride: tr.Root.Policy.MayOverride})
	if err != nil || len(v.Warnings()) > 0 {
		t.Fatal(err, warnings(v))
	}
	if it := find(t, v, "workflow:a"); it.Model.Title != "A" {
		t.Errorf("got %q", it.Model.Title)
	}
}

func TestSpacesTwice(t *testing.T) {
	_, err := ai.NewView(t.Context(), ai.Options{Spaces: []*ai.Space{space("project", nil), space("project", nil)}})
	wantError(t, err, `two spaces are called "project"`)
}

func TestPaths(t *testing.T) {
	v := view(t, noOverride)
	for _, c := range []struct{ ref, ext, want string }{
		{"tool:acme/x", ".py", "tools/acme/x.py"},
		{"config:agent", ".yaml", "config/agent.yaml"},
		{"tool:acme/x", ".json", `path "tools/acme/x.json" is an asset's: no tool has the extension ".json"`},
		{"tool:acme/x", ".PY", `"tool:acme/x" is no item of the file "tools/acme/x.PY"`},
		{"workflow:x", ".md",
			`"workflow:x": unknown kind "workflow": expected one of config, directive, knowledge, tool`},
	} {
		got, err := v.PathFor(ref(c.ref), c.ext)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %s", c.ref, got)
		}
	}
	s := v.Spaces()[0]
	for p, want := range map[string]string{
		"tools/rye/bash/bash.py": "tool:rye/bash/bash",
		"knowledge/x.md":         "knowledge:x",
		"tools/x.PY":             `has the extension ".PY", which a tool has in lower case`,
		"tools/_x.py":            `path "tools/_x.py" is an asset's: a segment begins with "_" or "."`,
		"tools":                  `path "tools" is not in tools/`,
		"bundles/x.yaml":         `path "bundles/x.yaml" is in no directory of a kind: config/, directives/, knowledge/, tools/`,
	} {
		f, err := v.At(s, p)
		got := f.Ref.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", p, got, want)
		}
	}
}

func TestConfig(t *testing.T) {
	mine := func(text string) string { return signText(t, "config:agent", text, sign.Hash, alice) }
	base := files{
		"config/agent.yaml": "limits: {turns: 5, tokens: 100}\nhooks: [a, b]\nname: base\ndeep: {a: {b: {c: 1, d: 2}}}\n"}
	lib := space("system:x", base)
	lib.Builtin = true
	user := space("user", files{"config/agent.yaml": mine("limits: {turns: 6}\nown: true\n")})
	project := space("project",
		files{"config/agent.yaml": mine(
			"limits: {tokens: 7, spend: \"1\"}\nhooks: [c]\nname: {x: 1}\ndeep: {a: {b: {d: 3}}}\n"),
			"config/bad.yaml": "a: [\n", "config/loose.yaml": "a: 1\n",
			"config/more.yaml":   signText(t, "config:more", "extends: agent\nmore: 1\n", sign.Hash, alice),
			"config/circle.yaml": signText(t, "config:circle", "extends: circle\n", sign.Hash, alice)})
	tr := trust(t, noOverride)
	v, err := ai.NewView(t.Context(), ai.Options{Spaces: []*ai.Space{project, user, lib}, Trust: tr})
	if err != nil {
		t.Fatal(err)
	}
	a := ai.NewAdmitter(v, tr)
	m, err := v.Config(t.Context(), a, "agent")
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.Value.JSON()
	if err != nil {
		t.Fatal(err)
	}
	const want = "map[deep:map[a:map[b:map[c:1 d:3]]] hooks:[c] limits:map[spend:1 tokens:7 turns:6] name:map[x:1] own:true]"
	if text := fmt.Sprint(got); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	if text := fmt.Sprint(m.From); text != "map[deep:project hooks:project limits:project name:project own:user]" {
		t.Errorf("got %s", text)
	}
	if len(m.Layers) != 3 || m.Layers[0].Space != lib || m.Layers[2].Space != project {
		t.Errorf("got %v", m.Layers)
	}
	if m, err = v.Config(t.Context(), a, "more"); err != nil ||
		fmt.Sprint(m.From) != "map[deep:project hooks:project limits:project more:project name:project own:project]" {
		t.Errorf("got %v, %v", m, err)
	}
	_, err = v.Config(t.Context(), a, "circle")
	wantError(t, err,
		`"project/config/circle.yaml": line 2: extends: config:circle extends itself: files of one name are merged without it`)
	if m, err = v.Config(t.Context(), a, "agent"); err != nil {
		t.Fatal(err)
	}
	// What stands below is left as it was.
	if it := m.Layers[0]; it.Model.Fields.Get("limits").Get("turns").Text != "5" {
		t.Error("the library's layer was changed")
	}
	_, err = v.Config(t.Context(), a, "none")
	wantError(t, err, `config:none not found`)
	_, err = v.Config(t.Context(), a, "loose")
	wantError(t, err, `"project/config/loose.yaml": "config:loose" is unsigned; "**" requires 1 key`)
	if _, err = v.Config(t.Context(), a, "../policy"); err == nil {
		t.Error("read a file outside")
	}
	signIn(t, v, project, alice, "config:bad")
	_, err = v.Config(t.Context(), a, "bad")
	if p, ok := errors.AsType[*value.Problem](err); !ok || p.At.Line == 0 {
		t.Errorf("malformed: %v", err)
	}
	// A layer that isn't admitted is not left out.
	user.FS.(fstest.MapFS)["config/agent.yaml"].Data = []byte("limits: {turns: 1000}\n")
	if _, err = v.Config(t.Context(), a, "agent"); err == nil {
		t.Error("the user's layer is unsigned")
	}
	two := []*ai.Space{space("system:a", files{"config/agent.yaml": mine("a: 1\n")}),
		space("system:b", files{"config/agent.yaml": mine("a: 2\n")}), lib}
	if v, err = ai.NewView(t.Context(), ai.Options{Spaces: two, Trust: tr}); err != nil {
		t.Fatal(err)
	}
	_, err = v.Config(t.Context(), ai.NewAdmitter(v, tr), "agent")
	wantError(t, err,
		`config:agent is ambiguous: 2 files have this id; system:a/config/agent.yaml; system:b/config/agent.yaml`)
}

// TestGoroutines shares everything that may be shared.
func TestGoroutines(t *testing.T) {
	s := onDisk(t, multi())
	v := view(t, noOverride, s)
	signIn(t, v, s, alice, "tool:acme/web/fetch", "tool:acme/web/other", "tool:acme/one")
	tr := trust(t, noOverride)
	a := ai.NewAdmitter(v, tr)
	var wait sync.WaitGroup
	for i := range 100 {
		wait.Go(func() {
			id := []string{"acme/web/fetch", "acme/web/other", "acme/one", python}[i%4]
			c, err := ai.Walk(t.Context(), v, model.Ref{Kind: "tool", ID: id})
			if err != nil {
				t.Error(err)
				return
			}
			for _, it := range c.Links {
				if err := a.Require(t.Context(), it, policy.ToUse); err != nil {
					t.Error(err)
				}
			}
			if i >= 20 {
				return
			}
			if l, err := v.Files(t.Context()); err != nil || len(l.Files) != 7 {
				t.Errorf("%d files, %v", len(l.Files), err)
			}
			if _, err := v.Find(t.Context(), model.Ref{Kind: "tool", ID: "none"}); err == nil {
				t.Error("found")
			}
		})
	}
	wait.Wait()
}

// project writes a project of n tools in a hundred directories.
func project(b *testing.B, n int) *ai.Space {
	f := files{}
	for i := range n {
		id := fmt.Sprintf("acme/d%02d/tool%05d", i%100, i)
		f["tools/"+id+".py"] = pyTool(id, python) + strings.Repeat("# a line of a tool of the usual size\n", 50)
	}
	return onDisk(b, f)
}

// items is small, so that benchmarks can be run in passing: go test -bench . -items 10000.
var items = flag.Int("items", 500, "how many items benchmarks have")

func BenchmarkFiles(b *testing.B) {
	v := view(b, noOverride, project(b, *items))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Files(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N**items), "ns/item")
}

func BenchmarkLoad(b *testing.B) {
	v := view(b, noOverride, project(b, *items))
	l, err := v.Files(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, f := range l.Files {
			if _, err := v.Load(b.Context(), f); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(l.Files)), "ns/item")
}

func BenchmarkAdmit(b *testing.B) {
	v, tr := view(b, noOverride, project(b, *items)), trust(b, noOverride)
	l, err := v.Files(b.Context(), "tool")
	if err != nil {
		b.Fatal(err)
	}
	var loaded []*ai.Item
	for _, f := range l.Files {
		it, err := v.Load(b.Context(), f)
		if err != nil {
			b.Fatal(err)
		}
		loaded = append(loaded, it)
	}
	for b.Loop() {
		a := ai.NewAdmitter(v, tr)
		for _, it := range loaded {
			if _, err := a.Admit(b.Context(), it, policy.ToUse); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(loaded)), "ns/item")
}

func BenchmarkNewView(b *testing.B) {
	s := project(b, *items)
	for b.Loop() {
		view(b, noOverride, s)
	}
}

func BenchmarkWalk(b *testing.B) {
	v := view(b, noOverride, project(b, *items))
	for b.Loop() {
		if _, err := ai.Walk(b.Context(), v, model.Ref{Kind: "tool", ID: "acme/d01/tool00001"}); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzAt: a path is at most one item's, and that item is found at this path and no other.
func FuzzAt(f *testing.F) {
	for _, p := range []string{"tools/rye/bash/bash.py", "tools/a.b/c.d.yaml", "tools/../x.py", "tools//x.py",
		"config/a.yaml", "tools/X.PY", "knowledge/.md", "tools/a.py/", "tools/a\\b.py"} {
		f.Add(p)
	}
	v, err := ai.NewView(f.Context(), ai.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, p string) {
		at, err := v.At(nil, p)
		if err != nil {
			return
		}
		again, err := v.PathFor(at.Ref, p[strings.LastIndexByte(p, '.'):])
		if err != nil || again != p {
			t.Errorf("%q is %s, which is at %q, %v", p, at.Ref, again, err)
		}
		if !fs.ValidPath(p) || !strings.HasPrefix(p, at.Kind.Dir+"/"+at.ID) {
			t.Errorf("%q is %s", p, at.Ref)
		}
	})
}
