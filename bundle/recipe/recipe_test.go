package recipe

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/manifest"
)

const whole = `# what we ship
id: acme/deploy
version: 1.4.0  # see CHANGES
description: Deploys, with care
license: MIT
entrypoint: "directive:acme/deploy"
expires: "2027-11-20"
include: ["directive:acme/*", ".ai/tools/acme/**"]
exclude:
  # not yet
  - ".ai/tools/acme/drafts/**"
assets: ["docs/**", README.md]
executable: [".ai/tools/acme/**/*.sh"]
allow-secret:
  ".ai/tools/acme/testdata/key.pem": made for the tests, opens nothing
requires: {acme/base: "^2.0.0"}
build:
  pack:
    tool: "tool:acme/pack"
    inputs: ["dist/**/*.js", LICENSE]
    outputs: [app.pack]
  minify: {tool: "tool:acme/minify", inputs: ["src/**/*.js"], outputs: [dist/min, dist/map.json], params: {level: "3", safe: yes}}
`

func TestParse(t *testing.T) {
	r, err := Parse([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	got := []any{r.ID, r.Version, r.Description, r.License, r.Entrypoint, r.Expires, len(r.Include), len(r.Exclude),
		len(r.Assets), r.Requires}
	want := []any{"acme/deploy", "1.4.0", "Deploys, with care", "MIT", "directive:acme/deploy",
		time.Date(2027, 11, 20, 0, 0, 0, 0, time.UTC), 2, 1, 2,
		[]manifest.Require{{BundleID: "acme/base", Version: "^2.0.0"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	if got := r.Allows(".ai/tools/acme/testdata/key.pem"); got != "made for the tests, opens nothing" {
		t.Errorf("allowed: %q", got)
	}
	if r.Allows("key.pem") != "" || !r.Executes(".ai/tools/acme/run.sh") || r.Executes(".ai/tools/acme/run.py") {
		t.Error("a file is taken for another")
	}
}

func TestRefused(t *testing.T) {
	const head = "id: acme/x\nversion: 1.0.0\n"
	for _, c := range []struct{ file, want string }{
		{"version: 1.0.0\n", `bundle.yaml: "id" is missing`},
		{"id: acme/x\n", `bundle.yaml: "version" is missing`},
		{"id: ../x\nversion: 1.0.0\n",
			`bundle.yaml: line 1, column 1: path "../x" is not an id: expected segments of A-Z a-z 0-9 . _ - that begin with a letter or digit, joined by "/"`},
		{"id: acme/x\nversion: 1.0\n",
			`bundle.yaml: line 2, column 1: "1.0" is not a version by semver 2.0, such as 1.4.0 or 2.0.0-rc.1`},
		{head + "includ: [a]\n", `bundle.yaml: line 3, column 1: "includ" is unknown here; did you mean "include"?`},
		{head + "id: acme/y\n", `bundle.yaml: line 3, column 1: "id" stands here a second time, first in line 1`},
		{head + "expires: soon\n",
			`bundle.yaml: line 3, column 1: expected a day such as "2027-01-31" or a time such as "2027-01-31T18:00:00Z"`},
		{head + "include: .ai/tools/**\n", `bundle.yaml: line 3, column 1: expected a list under "include"`},
		{head + "include: [tools/acme/**]\n",
			`bundle.yaml: line 3, column 11: "tools/acme/**" is not in .ai: expected a path such as ".ai/tools/acme/**"; list other files under "assets"`},
		{head + "include: [\"prompt:acme/x\"]\n",
			`bundle.yaml: line 3, column 11: "prompt:acme/x" is not of a built-in kind: expected a path such as ".ai/tools/acme/**"`},
		{head + "include: [\"tool:acme/[x]\"]\n", ""},
		{head + "include: [.ai/keys/me.pem]\n", `bundle.yaml: line 3, column 11: ".ai/keys" is never bundled`},
		{head + "include: [.ai/Vendor/**]\n", `bundle.yaml: line 3, column 11: ".ai/Vendor" is never bundled`},
		{head + "assets: [.ai/tools/x]\n",
			`bundle.yaml: line 3, column 10: ".ai/tools/x" is in .ai: list it under "include"`},
		{head + "assets: [docs/**, docs/**]\n", `bundle.yaml: line 3, column 19: duplicate "docs/**"`},
		{head + "assets: [\"docs/a**\"]\n",
			`bundle.yaml: line 3, column 10: "docs/a**": ** must be a whole segment, as in a/**/b`},
		{head + "assets: [\"../x\"]\n", ""},
		{head + "assets: [\"/etc/passwd\"]\n", ""},
		{head + "exclude: [\"a?\"]\n", ""},
		{head + "exclude: [\"\"]\n", `bundle.yaml: line 3, column 11: expected a path`},
		{head + "allow-secret: [a]\n",
			`bundle.yaml: line 3, column 1: expected entries under "allow-secret", as in testdata/key.pem: why it may be there`},
		{head + "allow-secret: {a: \"\"}\n", `bundle.yaml: line 3, column 16: expected a reason after "a"`},
		{head + "allow-secret: {\"..\": why}\n", ""},
		{head + "requires: {acme/x: \"*\"}\n", `bundle.yaml: line 3, column 12: "acme/x" requires itself`},
		{head + "requires: {acme/y: \"1.0.0\"}\n", ""},
		{"id: rye/std\nversion: 1.0.0\n",
			`bundle.yaml: line 1, column 1: "rye/std" is reserved for rye's own library`},
		{head + "requires: {rye/std: \"*\"}\n",
			`bundle.yaml: line 3, column 12: "rye/std" is part of rye: remove it from "requires"`},
		{head + "requires: {\"a b\": \"*\"}\n", ""},
		{head + "entrypoint: deploy\n", ""},
		{head + "description: \" x\"\n", `bundle.yaml: line 3, column 1: "description" begins or ends with a space`},
		{head + "license: [MIT]\n", `bundle.yaml: line 3, column 1: expected a text after "license"`},
		{head + "assets: [" + strings.Repeat("a/", maxSegments) + "b]\n", ""},
		{"[]\n", ""}, {"", ""}, {"\xff", ""},
	} {
		_, err := Parse([]byte(c.file))
		if err == nil || c.want != "" && err.Error() != c.want {
			t.Errorf("%q: %v\nwant %s", c.file, err, c.want)
		} else if c.want == "" && !strings.HasPrefix(err.Error(), "bundle.yaml: ") {
			t.Errorf("%q: %v", c.file, err)
		}
	}
}

func TestNew(t *testing.T) {
	if r, err := New("acme/x", "1.0.0"); err != nil || !r.Includes(".ai/tools/acme/x/a.py") {
		t.Errorf("%v, %v", r, err)
	}
	for _, bad := range [][2]string{{"", "1.0.0"}, {"acme/x", "1"}} {
		if _, err := New(bad[0], bad[1]); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		glob, path   string
		match, below bool
	}{
		{"a/b.md", "a/b.md", true, false},
		{"a/b.md", "a/b-md", false, false},
		{"a/b.md", "a", false, true},
		{"a/*", "a/b", true, false},
		{"a/*", "a/.b", true, false},
		{"a/*", "a", false, true},
		{"a/*", "a/b/c", false, false},
		{"a/**", "a", false, true},
		{"a/**", "a/b/c", true, true},
		{"**", "a", true, true},
		{"**/x.py", "x.py", true, true},
		{"**/x.py", "a/b/x.py", true, true},
		{"a/**/b/*.sh", "a/b/x.sh", true, true},
		{"a/**/b/*.sh", "a/c/d/b/x.sh", true, true},
		{"a/**/b/*.sh", "a/c/d/x.sh", false, true},
		{"a/**/b/*.sh", "b/c", false, false},
		{"a*b*c", "aXbXbc", true, false},
		{"a*b*c", "abcd", false, false},
		{"[id].ts", "[id].ts", true, false},
		{"*", "", true, false},
		{"a/**/**/c", "a/c", true, true},
	} {
		g, err := ParseGlob(c.glob)
		if err != nil {
			t.Fatal(err)
		}
		if g.Match(c.path) != c.match || g.Below(c.path) != c.below {
			t.Errorf("%s over %q: match %v, below %v", c.glob, c.path, g.Match(c.path), g.Below(c.path))
		}
	}
}

func TestIncludes(t *testing.T) {
	parse := func(more string) *Recipe {
		r, err := Parse([]byte("id: acme/deploy\nversion: 1.0.0\n" + more))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	byID, chosen := parse(""), parse(`include: ["tool:acme/**", ".ai/prompts/**"]
exclude: ["**/*.tmp", ".ai/tools/acme/old.py"]
assets: ["docs/**"]
`)
	for path, want := range map[string][2]bool{
		".ai/tools/acme/deploy/a.py":      {true, true},
		".ai/tools/acme/deploy/lib/x.txt": {true, false},
		".ai/directives/acme/deploy.md":   {true, false},
		".ai/tools/acme/deploy.py":        {true, true},
		".ai/tools/acme/deploy":           {false, false},
		".ai/tools/acme/deployer/a.py":    {false, true},
		".ai/tools/acme/old.py":           {false, false},
		".ai/tools/acme/_private.py":      {false, false},
		".ai/prompts/x.md":                {false, true},
		".ai/prompts/x.tmp":               {false, false},
		".ai/keys/acme/deploy/k.pem":      {false, false},
		".ai/bundles/acme/deploy/m.yaml":  {false, false},
		".ai/Threads/acme/deploy/x":       {false, false},
		".ai/policy.yaml":                 {false, false},
		"docs/a/b.md":                     {false, true},
		"docs/a.tmp":                      {false, false},
		"README.md":                       {false, false},
	} {
		if got := [2]bool{byID.Includes(path), chosen.Includes(path)}; got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if byID.Below("docs") || !chosen.Below("docs") || chosen.Below("src") {
		t.Error("directories are looked into without need, or not looked into")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("id: a\nversion: 1.0.0\nassets: [\"**/*.*.x\"]\n"))
	f.Add([]byte(
		"id: a\nversion: 1.0.0\nbuild:\n  a: {tool: \"tool:x\", inputs: [b], outputs: [a]}\n  b: {tool: \"tool:x\", inputs: [a], outputs: [b]}\n"))
	f.Add([]byte("id: a\nversion: 1.0.0\nbuild: {a: {tool: \"tool:x\", inputs: [\"**\"], outputs: [A/b, a/B]}}\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := Parse(file)
		if err != nil {
			return
		}
		if CheckErr := manifest.CheckVersion(r.Version); CheckErr != nil {
			t.Fatal(CheckErr)
		}
		again, err := format(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(again)
		if s != nil {
			r.patterns, s.patterns = nil, nil // which stand elsewhere now
		}
		if err != nil || !reflect.DeepEqual(r, s) {
			t.Fatalf("formatted it says something else: %v\n%s", err, again)
		}
		r.Includes(".ai/tools/a/b.py")
		r.Includes(strings.Repeat("a/", 400) + "b")
	})
}

func FuzzGlob(f *testing.F) {
	f.Add("a/**/b*c", "a/x/bxc")
	f.Fuzz(func(t *testing.T, text, path string) {
		g, err := ParseGlob(text)
		if err != nil {
			return
		}
		if got, want := g.Match(path), slow(strings.Split(text, "/"), strings.Split(path, "/")); got != want {
			t.Fatalf("%q over %q: %v", text, path, got)
		}
	})
}

// slow matches by trying everything.
func slow(glob, path []string) bool {
	switch {
	case len(glob) == 0:
		return len(path) == 0
	case glob[0] == "**" && len(glob) == 1:
		return len(path) > 0
	case glob[0] == "**":
		return slow(glob[1:], path) || len(path) > 0 && slow(glob, path[1:])
	}
	return len(path) > 0 && slowSegment(glob[0], path[0]) && slow(glob[1:], path[1:])
}

func slowSegment(glob, name string) bool {
	switch {
	case glob == "":
		return name == ""
	case glob[0] == '*':
		return slowSegment(glob[1:], name) || name != "" && slowSegment(glob, name[1:])
	}
	return name != "" && glob[0] == name[0] && slowSegment(glob[1:], name[1:])
}

// The package comment shows a recipe, which must be one.
func TestDoc(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var example strings.Builder
	for line := range strings.Lines(string(doc)) {
		if text, ok := strings.CutPrefix(line, "//\t"); ok {
			example.WriteString(text)
		} else if example.Len() > 0 {
			break
		}
	}
	if r, err := Parse([]byte(example.String())); err != nil || len(r.Include) != 2 {
		t.Errorf("%v\n%s", err, example.String())
	}
}
