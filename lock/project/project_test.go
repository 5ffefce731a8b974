package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest/policy/yamltree"
)

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", path))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func goodFiles(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	return files
}

// meaning is what a project says, without how it is written.
type meaning struct {
	Name, Version, Rye string
	Requires           []string
	Roots              []string
	Registries         []string `json:",omitempty"`
	Searched           bool     `json:",omitempty"`
	NPM, PyPI          string   `json:",omitempty"`
}

func meant(p *Project) meaning {
	m := meaning{Name: p.Name, Version: p.Version, Rye: p.Rye, NPM: p.Packages.NPM.Where, PyPI: p.Packages.PyPI.Where,
		Searched: p.Searched}
	for _, r := range p.Requires {
		line := fmt.Sprintf("%s %s (%s) index=%t remote=%t %s", r.ID, r.Text, r.Range, r.Source.Index,
			r.Source.Remote(), r.Source.Where)
		if r.Allow != nil {
			line += fmt.Sprintf(" allow=%q", r.Allow)
		}
		m.Requires = append(m.Requires, line)
	}
	for _, r := range p.Roots {
		m.Roots = append(m.Roots, fmt.Sprintf("%s one=%t", r.Text, r.One))
	}
	for _, r := range p.Registries {
		m.Registries = append(m.Registries, fmt.Sprintf("%s %q %s %s", r.URL, r.Names, r.Log, r.Key))
	}
	return m
}

func TestGood(t *testing.T) {
	type golden struct {
		Meaning meaning
		Format  []string
	}
	got := map[string]golden{}
	for _, file := range goodFiles(t) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Parse(b, "1.0.0")
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		checkStable(t, p)
		got[filepath.Base(file)] = golden{meant(p), strings.Split(string(p.Format()), "\n")}
	}
	b, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	goldentest.File(t, "testdata/good.json", append(b, '\n'))
}

// checkStable wants the same meaning of what is written, and the same text the second time.
func checkStable(t *testing.T, p *Project) {
	t.Helper()
	b := p.Format()
	again, err := Parse(b, p.running)
	if err != nil {
		t.Fatalf("%v in\n%s", err, b)
	}
	if !bytes.Equal(again.Format(), b) || !reflect.DeepEqual(meant(again), meant(p)) {
		t.Fatalf("written again it is other\n%s\n%s", b, again.Format())
	}
}

type badCase struct {
	Text, Want string
	Valid      bool `json:",omitempty"` // the schema for editors accepts it
}

func badCases(t testing.TB) (cases []badCase) {
	t.Helper()
	if err := json.Unmarshal(read(t, "bad.json"), &cases); err != nil || len(cases) < 40 {
		t.Fatal(len(cases), err)
	}
	return cases
}

func TestBad(t *testing.T) {
	cases := badCases(t)
	for i, c := range cases {
		_, err := Parse([]byte(c.Text), "1.0.0")
		switch {
		case err == nil:
			t.Errorf("%q is accepted", c.Text)
		case goldentest.Update():
			cases[i].Want = err.Error()
		case err.Error() != c.Want:
			t.Errorf("%q:\n got %s\nwant %s", c.Text, err, c.Want)
		}
	}
	goldentest.JSON(t, "testdata/bad.json", cases)
}

func TestTooMany(t *testing.T) {
	var requires, roots strings.Builder
	requires.WriteString("requires:\n")
	roots.WriteString("roots:\n")
	for i := range maxRequires + 1 {
		fmt.Fprintf(&requires, "  b%d: {version: \"*\", from: b}\n", i)
		fmt.Fprintf(&roots, "  - b%d\n", i)
	}
	for text, want := range map[string]string{
		requires.String(): "rye.yaml: line 1, column 1: more than 1000 requirements",
		roots.String():    "rye.yaml: line 1, column 1: more than 1000 roots",
		strings.Repeat("# x\n", yamltree.MaxBytes/4+1): "rye.yaml: is longer than 1048576 bytes",
	} {
		if _, err := Parse([]byte(text), ""); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestNewer(t *testing.T) {
	const text = "rye: \"0.3.0\"\nthings: {a: b}\n"
	for running, newer := range map[string]bool{"0.2.9": true, "0.3.0-rc.1": true, "0.3.0": false, "1.0.0": false,
		"devel": false, "": false} {
		_, err := Parse([]byte(text), running)
		var e *NewerError
		if errors.As(err, &e) != newer || err == nil {
			t.Errorf("%q: %v", running, err)
		}
		if newer && err.Error() != "rye.yaml: requires rye 0.3.0 or newer, this is "+running {
			t.Error(err)
		}
	}
}

func mustParse(t testing.TB, text string) *Project {
	t.Helper()
	p, err := Parse([]byte(text), "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRoots(t *testing.T) {
	p := mustParse(t, "roots: [\"tool:acme/a\", \"tool:x/**\", acme/b]\n")
	for ref, want := range map[model.Ref][3]bool{
		{Kind: "tool", ID: "acme/a"}:      {true, false, false},
		{Kind: "knowledge", ID: "acme/a"}: {false, false, false},
		{Kind: "tool", ID: "x/y/z"}:       {false, true, false},
		{Kind: "directive", ID: "acme/b"}: {false, false, true},
		{Kind: "tool", ID: "acme/b"}:      {false, false, true},
	} {
		for i := range p.Roots {
			if p.Roots[i].Match(ref, "project") != want[i] {
				t.Errorf("%s, %s: want %t", p.Roots[i].Text, ref, want[i])
			}
		}
	}
	if !p.Roots[0].One || p.Roots[1].One || p.Roots[2].One {
		t.Error("which roots are refs?")
	}
}

func TestEdits(t *testing.T) {
	const text = `# ours
name: shop

# what we use
requires:
  # the base
  acme/base: {version: "^2.1", from: "../base"}  # for now
  acme/notes: {version: "*", from: "../notes"}
`
	need := func(id, versions, where string, index bool) Requirement {
		s, err := ParseSource(where, index)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewRequirement(id, versions, s)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	p := mustParse(t, text)
	for _, c := range []struct {
		name string
		edit func() (*Project, error)
		want string
	}{
		{"add", func() (*Project, error) { return p.Add(need("x", "^1", "https://x.example/i", true)) },
			text + "  x: {version: \"^1\", index: \"https://x.example/i\"}\n"},
		{"add to nothing", func() (*Project, error) {
			return mustParse(t, "name: shop\nroots: [a]\n").Add(need("x", "^1", "./x", false))
		}, "name: shop\n\nrequires:\n  x: {version: \"^1\", from: x}\n\nroots:\n  - a\n"},
		{"add what is there", func() (*Project, error) {
			return p.Add(need("acme/base", "^3", "https://x.example/i", true))
		},
			strings.Replace(text, `{version: "^2.1", from: "../base"}`,
				`{version: "^3", index: "https://x.example/i"}`, 1)},
		{"add from elsewhere", func() (*Project, error) {
			q, err := p.Add(need("acme/base", "^3", "https://x.example/i", true))
			if err != nil {
				return nil, err
			}
			return q.Add(need("acme/base", "^2.1", "../base", false))
		}, text},
		{"set version", func() (*Project, error) {
			return p.SetVersion("acme/notes", "~1.2")
		}, strings.Replace(text, `"*"`, `"~1.2"`, 1)},
		{"remove", func() (*Project, error) { return p.Remove("acme/base") },
			strings.Replace(text, "  # the base\n  acme/base: {version: \"^2.1\", from: \"../base\"}  # for now\n", "",
				1)},
		{"remove the last", func() (*Project, error) {
			return mustParse(t, "# a\nrequires: # b\n  x: {version: \"*\", from: x}\n").Remove("x")
		},
			"# a\nrequires: {}  # b\n"},
	} {
		before := p.Format()
		q, err := c.edit()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		checkStable(t, q)
		if got := string(q.Format()); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
		if !bytes.Equal(p.Format(), before) {
			t.Errorf("%s changed the project that it was made from", c.name)
		}
	}
	for _, edit := range []func() (*Project, error){
		func() (*Project, error) { return p.Remove("acme/bass") },
		func() (*Project, error) { return p.SetVersion("acme/bass", "*") },
	} {
		_, err := edit()
		if !errors.Is(err, fs.ErrNotExist) || fault.Of(err).Details["bundle"] != "acme/bass" ||
			err.Error() != `rye.yaml does not require the bundle "acme/bass"; did you mean "acme/base"?` {
			t.Error(err)
		}
	}
	if _, err := p.SetVersion("acme/base", "1.2.3"); err == nil {
		t.Error("an edit makes what is no range")
	}
	if _, err := p.Add(Requirement{ID: "x", Text: "*"}); err == nil {
		t.Error("an edit makes a requirement that comes from nowhere")
	}
}

func TestNewRequirement(t *testing.T) {
	for _, c := range []struct{ id, versions, want string }{
		{"rye/std", "*", `"rye/std" is part of rye and cannot be required`},
		{"a//b", "*", `"a//b"`},
		{"a", "1", "version range"},
		{"a", ">2 <1", `no version can match the range ">2 <1"`},
	} {
		if _, err := NewRequirement(c.id, c.versions, Source{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v", c.id, c.versions, err)
		}
	}
}

func TestSources(t *testing.T) {
	for text, want := range map[string]string{
		"a": "a", "./a": "a", "../a/b.rye": "../a/b.rye", "..": "..", "../..": "../..", "./../a": "../a",
		"https://x.example":                "https://x.example",
		"https://x.example:8443/a/b?c=d@e": "https://x.example:8443/a/b?c=d@e",
	} {
		if s, err := ParseSource(text, true); err != nil || s != (Source{true, want}) ||
			s.Remote() != strings.HasPrefix(want, "https:") {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
	for text, want := range map[string]string{
		"":                                 "empty",
		strings.Repeat("a/", 501):          "longer than 1000 bytes",
		strings.Repeat("../", 33) + "a":    "more than 32 directories",
		".":                                `"."`,
		"./":                               "empty",
		"a/../b":                           `".."`,
		"a/./b":                            `"."`,
		"/etc":                             "absolute",
		"C:/x":                             "':'",
		`a\b`:                              `\\`,
		"~/x":                              "~ is not supported",
		"git@x.example:a/b":                "':'",
		"a/":                               "empty",
		"file:///a":                        "expected an https address or a path",
		"HTTPS://x.example/a":              "expected an https address or a path",
		"sftp://x.example/a":               "expected an https address or a path",
		"https://":                         "invalid address",
		"https:///a":                       "invalid address",
		"https://:443/a":                   "invalid address",
		"https://x.example/%zz":            "invalid address",
		"https://u:p@x.example/a":          "a user name or password",
		"https://u@x.example/a":            "a user name or password",
		"https://x.example/a#b":            "a fragment",
		"https://x.example/a#":             "a fragment",
		"https://X.example/a":              "lower case",
		"https://x.example/a/../b":         `not contain "." or ".."`,
		"https://x.example/%2e%2E/b":       `not contain "." or ".."`,
		"https://x.example/\u00e9":         "printable ASCII",
		"https://x.example/a b":            "printable ASCII",
		"https://x.example/\"":             "write it as",
		"x/" + strings.Repeat("\u202e", 3): "is",
	} {
		_, err := ParseSource(text, false)
		if err == nil || fault.Of(err).Details["source"] != text || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("a message of %d bytes", len(err.Error()))
		}
	}
}

// TestPlainHTTP: an address may begin with http; whether rye fetches from there is another question.
func TestPlainHTTP(t *testing.T) {
	for where, ok := range map[string]bool{
		"http://127.0.0.1:8098/index.yaml": true, "http://localhost/x": true, "http://[::1]:80/x": true,
		"http://10.0.0.1/x": true, "ftp://10.0.0.1/x": false, "http://u@127.0.0.1/x": false,
		"git+http://127.0.0.1/r": false,
	} {
		if _, err := ParseSource(where, true); (err == nil) != ok {
			t.Errorf("%s: %v", where, err)
		}
	}
}

// TestEditRoots: what edits make of roots, and what a bundle adds to them.
func TestEditRoots(t *testing.T) {
	p, err := Parse([]byte("requires:\n  acme/a: {version: \"*\", from: a, use: [\"tool:acme/a/**\"]}\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	texts := func(p *Project) (all []string) {
		for _, r := range p.AllRoots() {
			all = append(all, r.From+" "+r.Text)
		}
		return all
	}
	if got := texts(p); !slices.Equal(got, []string{"project .", "system:acme/a tool:acme/a/**"}) {
		t.Errorf("got %q", got)
	}
	if p, err = p.AddRoot("tool:rye/x"); err != nil {
		t.Fatal(err)
	}
	if got := texts(p); !slices.Equal(got, []string{"project .", " tool:rye/x", "system:acme/a tool:acme/a/**"}) {
		t.Errorf("got %q", got)
	}
	if _, err := p.RemoveRoot("tool:none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	for _, text := range []string{".", "tool:rye/x"} {
		if p, err = p.RemoveRoot(text); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.Roots) > 0 || strings.Contains(string(p.Format()), "roots") {
		t.Errorf("left: %s", p.Format())
	}
}

// The rights of a plugin's servers are edited one server at a time, sorted, and the last one takes the key with it.
func TestSetAllow(t *testing.T) {
	p, err := Parse([]byte("requires:\n  plugins/a: {version: \"*\", from: a}\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, edit := range []struct {
		server string
		rights []string
		want   string
	}{
		{"db", nil, ""},
		{"db", []string{"network:b.example", "files:read:.", "network:b.example"},
			`, allow: {db: ["files:read:.", "network:b.example"]}`},
		{"web", []string{"secret:a=B"}, `, allow: {db: ["files:read:.", "network:b.example"], web: ["secret:a=B"]}`},
		{"db", nil, `, allow: {web: ["secret:a=B"]}`},
		{"web", nil, ""},
	} {
		if p, err = p.SetAllow("plugins/a", edit.server, edit.rights); err != nil {
			t.Fatal(err)
		}
		if got := string(p.Format()); got != "requires:\n  plugins/a: {version: \"*\", from: a"+edit.want+"}\n" {
			t.Errorf("%s %q: %s", edit.server, edit.rights, got)
		}
	}
	for id, rights := range map[string]string{"plugins/b": "network:a.example", "plugins/a": "network:a b"} {
		if _, err := p.SetAllow(id, "db", []string{rights}); err == nil {
			t.Errorf("%s got %q", id, rights)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range goodFiles(f) {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, c := range badCases(f) {
		f.Add([]byte(c.Text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b, "1.0.0")
		if (p == nil) == (err == nil) {
			t.Fatal(p, err)
		}
		if err != nil {
			return
		}
		checkStable(t, p)
		if len(p.Requires) == 0 {
			return
		}
		id := p.Requires[0].ID
		q, err := p.Remove(id)
		if err != nil {
			t.Fatal(err)
		}
		if _, there := q.Requirement(id); there || len(q.Requires) != len(p.Requires)-1 {
			t.Fatalf("%q was not removed from\n%s", id, b)
		}
		checkStable(t, q)
		if q, err = q.Add(p.Requires[0]); err != nil || len(q.Requires) != len(p.Requires) {
			t.Fatal(q, err)
		}
		if r, ok := q.Requirement(id); !ok || !reflect.DeepEqual(r, p.Requires[0]) {
			t.Fatalf("%+v was added as %+v", p.Requires[0], r)
		}
		if q, err = q.SetVersion(id, "*"); err != nil {
			t.Fatal(err)
		}
		checkStable(t, q)
	})
}

// The example of the package comment is a vector.
func TestComment(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var example strings.Builder
	for line := range strings.Lines(string(source)) {
		if text, ok := strings.CutPrefix(line, "//\t"); ok {
			example.WriteString(text)
		} else if line == "//\n" && example.Len() > 0 {
			example.WriteString("\n")
		} else if example.Len() > 0 {
			break
		}
	}
	if got, want := strings.TrimSpace(example.String()),
		strings.TrimSpace(string(read(t, "good/full.yaml"))); got != want {
		t.Errorf("the comment has\n%s\nthe vector\n%s", got, want)
	}
}

// TestHost says which name a source has under "inside:" of a policy.
func TestHost(t *testing.T) {
	for text, want := range map[string]string{
		"../a":                                   "",
		"oci-layout:../a:1.0.0":                  "",
		"https://x.example/a":                    "x.example",
		"https://x.example:8443/a":               "x.example:8443",
		"http://127.0.0.1:8080/a":                "127.0.0.1:8080",
		"http://localhost/a":                     "localhost:80",
		"git+https://g.example/a.git?dir=b@v1":   "g.example",
		"oci://r.example/a:1.0.0":                "r.example",
		"oci://127.0.0.1:5000/acme/notes:stable": "127.0.0.1:5000",
	} {
		s, err := ParseSource(text, false)
		if got := s.Host(); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// TestRegistries: which registry a bundle comes from, and what edits make of the section.
func TestRegistries(t *testing.T) {
	b, err := os.ReadFile("testdata/good/registries.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse(b, "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	first := p.Registries[0]
	if len(p.RegistriesOf("acme/x/y")) != 1 || p.RegistriesOf("other/x") != nil || p.RegistriesOf("acmes/x") != nil {
		t.Errorf("%+v", p.Registries)
	}
	base, _ := p.Requirement("acme/base")
	if url, ok := base.Source.Registry(); !ok || url != first.URL || base.Source.Host() != "registry.example" ||
		!base.Source.Remote() || !base.Source.Pinned() {
		t.Errorf("%+v", base.Source)
	}
	second := first
	second.URL, second.Names = "https://second.example:8443/rye", []string{"other/**"}
	next, err := p.AddRegistry(second)
	if err != nil {
		t.Fatal(err)
	}
	first.Names = []string{"acme/**", "more/*"}
	if next, err = next.AddRegistry(first); err != nil {
		t.Fatal(err)
	}
	r, err := NewRequirement("more/x", "^2", RegistryAt(first.URL))
	if err != nil {
		t.Fatal(err)
	}
	if next, err = next.Add(r); err != nil {
		t.Fatal(err)
	}
	if got := len(next.RegistriesOf("more/x")) + len(next.RegistriesOf("other/x")); got != 2 {
		t.Errorf("%d registries", got)
	}
	if more, _ := next.Requirement("more/x"); more.Source != RegistryAt(first.URL) {
		t.Errorf("%+v", more)
	}
	if text := string(next.Format()); strings.Contains(text, "registry:") ||
		strings.Count(text, "https://registry.example") != 1 {
		t.Errorf("%s", text)
	}
	if _, err := p.AddRegistry(Registry{URL: "https://third.example/", Names: []string{"x/**"}, Log: first.Log,
		Key: first.Key}); err == nil {
		t.Error("an address with a slash at its end was written")
	}
	if _, ok := (Source{Index: true, Where: "registry:https://x.example"}).Registry(); ok {
		t.Error("an index is a registry")
	}
}
