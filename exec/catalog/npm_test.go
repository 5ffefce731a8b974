package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/catalog"
)

func TestParsePackage(t *testing.T) {
	for text, want := range map[string]string{
		"a@1.2.3": "a@1.2.3", "@x/a.b@1.0.0-rc.1": "@x/a.b@1.0.0-rc.1", "a": "", "a@": "", "@1.0.0": "", "a@^1": "",
		"a@latest": "", "@x@1.0.0": "",
		"a/b@1.0.0": "", "@x/../a@1.0.0": "", "@x/a/b@1.0.0": "", "-a@1.0.0": "", "a b@1.0.0": "", "": "",
	} {
		p, err := catalog.ParsePackage(text)
		if got := ""; err == nil {
			if got = p.String(); got != want {
				t.Errorf("%q: %q, want %q", text, got, want)
			}
		} else if want != "" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTakePackage(t *testing.T) {
	list := func(bin string) string {
		digest := strings.Repeat("A", 86) + "=="
		return `{"lockfileVersion": 3, "packages": {"": {}, "node_modules/@x/a": {"version": "1.0.0", "integrity": "sha512-` +
			digest + `"` + bin + `}}}`
	}
	for bin, want := range map[string]string{
		`, "bin": "main.js"`:                         "main.js",
		`, "bin": "./dist/main.js"`:                  "dist/main.js",
		`, "bin": {"other": "x.js"}`:                 "x.js",
		`, "bin": {"other": "x.js", "a": "y.js"}`:    "y.js",
		`, "bin": {"other": "x.js", "more": "y.js"}`: "",
		`, "bin": {"a": 3}`:                          "",
		`, "bin": "../x.js"`:                         "",
		`, "bin": "/x.js"`:                           "",
		`, "bin": "{user_space}/x.js"`:               "",
		``:                                           "",
	} {
		p := &catalog.Package{Name: "@x/a", Version: "1.0.0"}
		err := p.Take([]byte(list(bin)))
		if (err == nil) != (want != "") || err == nil && p.Main != "node_modules/@x/a/"+want {
			t.Errorf("%s: %q, %v", bin, p.Main, err)
		}
	}
	for name, p := range map[string]*catalog.Package{
		"another":         {Name: "b", Version: "1.0.0"},
		"another version": {Name: "@x/a", Version: "2.0.0"},
	} {
		if err := p.Take([]byte(list(`, "bin": "x.js"`))); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := (&catalog.Package{Name: "a", Version: "1.0.0"}).Take([]byte("{}")); err == nil {
		t.Error("no list is taken")
	}
	s := &catalog.Spec{}
	s.Use("s", &catalog.Package{Name: "a", Version: "1.0.0", Main: "node_modules/a/x.js"}, []string{"--y"})
	again, err := catalog.SpecOf(item(t, catalog.ServerRef("s"), s.File()).Model)
	if err != nil || again.Packages != "_s/package-lock.json" || again.Lib != "_s" ||
		strings.Join(again.Args, " ") != "{packages_path}/node_modules/a/x.js --y" {
		t.Errorf("%+v, %v", again, err)
	}
	p := &catalog.Package{Name: "a", Version: "1.0.0"}
	for registry, want := range map[string]bool{"": false, "https://r.example": true} {
		it := item(t, catalog.ServerRef("list"), []byte(strings.Replace(string(p.Resolving(registry, "r.example")),
			"category: npm", "category: mcp/servers", 1)))
		read, err := catalog.SpecOfProgram(it.Model)
		if err != nil || read.Command != "npm" ||
			strings.Contains(strings.Join(read.Args, " "), "--registry=") != want {
			t.Errorf("%+v, %v", read, err)
		}
	}
}

// The program of a package is a file of it, whatever its list says.
func FuzzTakePackage(f *testing.F) {
	digest := strings.Repeat("A", 86) + "=="
	for _, bin := range []string{`"main.js"`, `{"a": "./x.js"}`, `"../../x"`, `"a/../../x"`, `"C:\\x"`, `"x\u0000"`,
		`{"a": "x", "b": "y"}`} {
		f.Add("a@1.0.0",
			`{"lockfileVersion": 3, "packages": {"": {}, "node_modules/a": {"version": "1.0.0", "integrity": "sha512-`+
				digest+`", "bin": `+bin+`}}}`)
	}
	f.Fuzz(func(t *testing.T, name, list string) {
		p, err := catalog.ParsePackage(name)
		if err != nil || p.Take([]byte(list)) != nil {
			return
		}
		below, ok := strings.CutPrefix(p.Main, "node_modules/"+p.Name+"/")
		if !ok || below == "" || strings.Contains(below, "..") && slices.Contains(strings.Split(below, "/"), "..") ||
			strings.ContainsAny(below, "{}$\\\x00") {
			t.Errorf("%q of %s", p.Main, list)
		}
	})
}
