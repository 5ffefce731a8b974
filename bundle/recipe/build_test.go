package recipe

import (
	"reflect"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
)

func TestSteps(t *testing.T) {
	r, err := Parse([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	glob := func(text string) Glob {
		g, err := ParseGlob(text)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	want := []Step{
		{Name: "pack", Tool: model.Ref{Kind: "tool", ID: "acme/pack"},
			Inputs:  []Glob{glob("dist/**/*.js"), glob("LICENSE")},
			Outputs: []string{"app.pack"}, Needs: []string{"minify"}},
		{Name: "minify", Tool: model.Ref{Kind: "tool", ID: "acme/minify"}, Inputs: []Glob{glob("src/**/*.js")},
			Outputs: []string{"dist/map.json", "dist/min"}, Params: []Param{{"level", "3"}, {"safe", "yes"}}},
	}
	if !reflect.DeepEqual(r.Build, want) {
		t.Errorf("%+v\nwant %+v", r.Build, want)
	}
	if r.Step("pack") != &r.Build[0] || r.Step("other") != nil {
		t.Error("a step isn't found by its name")
	}
	if s := r.Step("pack"); !s.Takes("dist/min/a.js") || s.Takes("src/a.js") || !s.Makes("app.pack") ||
		s.Makes("app.packed") {
		t.Error("pack takes and makes other files")
	}
	// Outputs belong to the bundle, so their directories are searched.
	for file, in := range map[string]bool{"app.pack": true, "dist/min/x/y.js": true, "dist/map.json": true,
		"dist/other": false} {
		if r.Includes(file) != in {
			t.Errorf("%s: included is %v", file, !in)
		}
	}
	for dir, in := range map[string]bool{"dist": true, "dist/min": true, "dist/min/x": true, "dist/other": false,
		"app": false} {
		if r.Below(dir) != in {
			t.Errorf("below %s: %v", dir, !in)
		}
	}
}

func TestStepsRefused(t *testing.T) {
	const head = "id: acme/x\nversion: 1.0.0\nbuild:\n"
	for _, c := range []struct{ file, want string }{
		{"  a: {tool: \"tool:x\"}\n", `line 4, column 3: step "a" has no "outputs"`},
		{"  a: {outputs: [a]}\n", `line 4, column 3: "a" has no field "tool"`},
		{"  a: {tool: \"directive:x\", outputs: [a]}\n", `line 4, column 7: "directive:x" is not a tool`},
		{"  a: {tool: x, outputs: [a]}\n", ""},
		{"  a b: {tool: \"tool:x\", outputs: [a]}\n",
			`line 4, column 3: "a b" can't be the name of a step: expected letters, digits, . _ -, at most 64`},
		{"  a: [x]\n", `line 4, column 3: expected tool, inputs, outputs and params in "a"`},
		{"  a: {tool: \"tool:x\", output: [a]}\n", ""},
		{"  a: {tool: \"tool:x\", outputs: a}\n", ""},
		{"  a: {tool: \"tool:x\", outputs: [../a]}\n", ""},
		{"  a: {tool: \"tool:x\", outputs: [\".ai/tools/x\"]}\n",
			`line 4, column 33: ".ai/tools/x" can't be an output: rye's own files are written or signed by people`},
		{"  a: {tool: \"tool:x\", outputs: [Bundle.yaml]}\n", ""},
		{"  a: {tool: \"tool:x\", outputs: [x/node_modules/y]}\n",
			`line 4, column 33: path "x/node_modules/y": "node_modules" is never part of a tree`},
		{"  a: {tool: \"tool:x\", inputs: [\"a?\"], outputs: [a]}\n", ""},
		{"  a: {tool: \"tool:x\", inputs: [\".ai/keys/**\"], outputs: [a]}\n",
			`line 4, column 32: ".ai/keys" can't be an input: it never belongs to a bundle`},
		{"  a: {tool: \"tool:x\", outputs: [a], params: [x]}\n", ""},
		{"  a: {tool: \"tool:x\", outputs: [a], params: {x: \"\"}}\n", `line 4, column 46: expected a text after "x"`},
		{"  a: {tool: \"tool:x\", outputs: [a]}\n  b: {tool: \"tool:x\", outputs: [A]}\n",
			`line 5, column 33: "A" overlaps an output of step "a"`},
		{"  a: {tool: \"tool:x\", outputs: [a, a/b]}\n", ""},
		{"  a: {tool: \"tool:x\", outputs: [a/b]}\n  b: {tool: \"tool:x\", outputs: [a]}\n", ""},
		{"  a: {tool: \"tool:x\", inputs: [b, \"a/**/c\"], outputs: [a]}\n",
			`line 4, column 35: "a/**/c" matches an output of its own step "a"`},
		{"  a: {tool: \"tool:x\", inputs: [b], outputs: [a]}\n  b: {tool: \"tool:x\", inputs: [c], outputs: [b]}\n" +
			"  c: {tool: \"tool:x\", inputs: [b], outputs: [c]}\n",
			`line 5, column 3: circular steps: b needs c needs b`},
	} {
		_, err := Parse([]byte(head + c.file))
		if err == nil || c.want != "" && err.Error() != "bundle.yaml: "+c.want {
			t.Errorf("%q: %v\nwant %s", c.file, err, c.want)
		}
	}
	for _, file := range []string{"build: [a]\n", "build: {}\n" + "build: {}\n",
		"build:\n" + strings.Repeat("  a: b\n", 2)} {
		if _, err := Parse([]byte("id: acme/x\nversion: 1.0.0\n" + file)); err == nil {
			t.Errorf("%q is accepted", file)
		}
	}
}
