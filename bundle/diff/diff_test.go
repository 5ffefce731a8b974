package diff

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/manifest"
)

const (
	fetch = `name: fetch
version: 1.0.0
tool_type: http
executor_id: rye/core/primitives/http_client
category: acme
description: Fetches
risk: read
permissions: [rye.execute.tool.acme.log]
limits: {turns: 4}
network: [api.acme.example]
secrets: [token]
config: {url: "https://api.acme.example"}
input_schema: {type: object, properties: {q: {type: string}}}
`
	prompt = "# Deploy\n\n```xml\n<directive name=\"deploy\" version=\"1.0.0\">\n<metadata><description>Deploys</description><category>acme</category><author>a</author></metadata>\n" +
		"<inputs><input name=\"env\" type=\"string\" required=\"true\">Where</input></inputs>\n</directive>\n```\n\nDo it well.\nThen tell them that it is done.\n"
	note = "---\nid: note\ntitle: Note\nversion: 1.0.0\nentry_type: reference\n---\nOne two three.\n"
)

// A pack is the files of a bundle with the refs of its items.
type pack map[string]struct{ text, ref, version string }

func first() pack {
	return pack{
		".ai/tools/acme/fetch.yaml":     {fetch, "tool:acme/fetch", "1.0.0"},
		".ai/tools/acme/old.yaml":       {strings.ReplaceAll(fetch, "fetch", "old"), "tool:acme/old", "1.0.0"},
		".ai/directives/acme/deploy.md": {prompt, "directive:acme/deploy", "1.0.0"},
		".ai/knowledge/acme/note.md":    {note, "knowledge:acme/note", "1.0.0"},
		"docs/a.md":                     {"about\n", "", ""},
		"docs/b.md":                     {"more\n", "", ""},
		"run.sh":                        {"#!/bin/sh\n", "", ""},
	}
}

func (p pack) edit(path string, pairs ...string) {
	e := p[path]
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(e.text, pairs[i]) {
			panic(pairs[i])
		}
		e.text = strings.Replace(e.text, pairs[i], pairs[i+1], 1)
	}
	p[path] = e
}

func (p pack) side(t testing.TB, l manifest.FileList) Side {
	t.Helper()
	store := new(cas.Memory)
	var files []manifest.File
	for path, e := range p {
		info, err := store.Put(t.Context(), cas.Blob, strings.NewReader(e.text))
		if err != nil {
			t.Fatal(err)
		}
		f := manifest.File{Path: path, Digest: info.Digest, Size: info.Size, Mode: cas.File, Ref: e.ref,
			Version: e.version}
		if strings.HasSuffix(path, ".sh") {
			f.Mode = cas.Exec
		}
		files = append(files, f)
	}
	if l.BundleID == "" {
		l.BundleID, l.Version = "acme/deploy", "1.0.0"
	}
	body, _, err := manifest.AppendFileList(nil, &l, files)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Parse(body)
	if err != nil {
		t.Fatal(err)
	}
	return Side{Bundle: b, Files: store, Below: []*ai.Space{{Label: "system:rye/std", FS: std.FS(), Builtin: true}}}
}

func compared(t testing.TB, a, b Side) *Report {
	t.Helper()
	r, err := Diff(t.Context(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func changed() pack {
	p := first()
	p.edit(".ai/tools/acme/fetch.yaml", "version: 1.0.0", "version: 2.0.0", "Fetches", "Fetches pages", "risk: read",
		"risk: write", "turns: 4", "turns: 9",
		"[api.acme.example]", "[api.acme.example, cdn.acme.example]", "[token]", "[token, key]",
		"[rye.execute.tool.acme.log]", "[rye.execute.tool.acme.log, rye.execute.tool.acme.x]",
		"http_client", "subprocess", "https://api.acme.example", "https://cdn.acme.example", "{q: {type: string}}",
		"{q: {type: integer}}")
	p.edit(".ai/directives/acme/deploy.md", "Do it well.", "Do it very carefully.", "<author>a</author>",
		"<author>b</author>")
	p.edit(".ai/knowledge/acme/note.md", "two", "2")
	delete(p, ".ai/tools/acme/old.yaml")
	p[".ai/tools/acme/new.yaml"] = struct{ text, ref, version string }{strings.ReplaceAll(fetch, "fetch", "new"),
		"tool:acme/new", "1.0.0"}
	p["docs/a.md"] = struct{ text, ref, version string }{"about it\n", "", ""}
	delete(p, "docs/b.md")
	delete(p, "run.sh")
	p["docs/c.md"] = struct{ text, ref, version string }{"c\n", "", ""}
	return p
}

// Everything that can change, as JSON.
func TestVector(t *testing.T) {
	a := first().side(t, manifest.FileList{BundleID: "acme/deploy", Version: "1.0.0", License: "MIT",
		Expires: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
		Requires: []manifest.Require{{BundleID: "acme/base", Version: "^1.0.0"},
			{BundleID: "acme/gone", Version: "*"}}, Evidence: []manifest.Evidence{{Name: "x", Digest: cas.Sum(nil),
			Type: "text/plain"}}})
	b := changed().side(t, manifest.FileList{BundleID: "acme/deploy", Version: "2.0.0", Description: "Deploys",
		Entrypoint: "directive:acme/deploy",
		Requires: []manifest.Require{{BundleID: "acme/base", Version: "^2.0.0"},
			{BundleID: "acme/more", Version: "*"}}})
	r := compared(t, a, b)
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	goldentest.File(t, filepath.Join("testdata", "report.json"), got)
	if !r.Breaking || r.Class != shape.Breaking {
		t.Errorf("it is %s", r.Class)
	}
	again, err := json.MarshalIndent(compared(t, a, b), "", "  ")
	if err != nil || string(again)+"\n" != string(got) {
		t.Error("it is another report the second time")
	}
}

func TestSame(t *testing.T) {
	a := first().side(t, manifest.FileList{})
	if r := compared(t, a, a); r.Class != "" || r.Breaking || r.Summary != "nothing is different" ||
		len(r.Items)+len(r.Files)+len(r.Headers) > 0 {
		t.Errorf("%+v", r)
	}
	b := first().side(t, manifest.FileList{BundleID: "acme/deploy", Version: "1.0.1"})
	if r := compared(t, a, b); r.Class != shape.Info || r.Summary != "the files are the same" {
		t.Errorf("%+v", r)
	}
}

// Each change alone has its class.
func TestClasses(t *testing.T) {
	const tool, directive, knowledge = ".ai/tools/acme/fetch.yaml", ".ai/directives/acme/deploy.md",
		".ai/knowledge/acme/note.md"
	for name, c := range map[string]struct {
		change func(pack)
		class  shape.Class
		want   string // the summary
	}{
		"signature": {func(p pack) {
			p.edit(tool, "name:", line+"name:")
		}, shape.Info, "1 item signed again, 1 file changed"},
		"comment": {func(p pack) {
			p.edit(tool, "name:", "# about\nname:")
		}, shape.Info, "1 item changed, 1 file changed"},
		"version": {func(p pack) {
			p.edit(tool, "1.0.0", "1.0.1")
		}, shape.Info, "1 item changed, 1 file changed"},
		"description": {func(p pack) {
			p.edit(tool, "Fetches", "Fetches it")
		}, shape.Info, "1 item changed, 1 file changed"},
		"executor": {func(p pack) {
			p.edit(tool, "http_client", "subprocess")
		}, shape.Warning, "1 warning, 1 item changed, 1 file changed"},
		"config": {func(p pack) {
			p.edit(tool, "https://api", "https://cdn")
		}, shape.Warning, "1 warning, 1 item changed, 1 file changed"},
		"risk": {func(p pack) {
			p.edit(tool, "risk: read", "risk: money")
		}, shape.Breaking, "1 breaking, 1 item changed, 1 file changed"},
		"less network": {func(p pack) {
			p.edit(tool, "network: [api.acme.example]\n", "")
		}, shape.Compatible, "1 item changed, 1 file changed"},
		"more files": {func(p pack) {
			p.edit(tool, "network: ", "files: {write: [docs]}\nnetwork: ")
		}, shape.Breaking, "1 breaking, 1 item changed, 1 file changed"},
		"more network": {func(p pack) {
			p.edit(tool, "[api.acme.example]", "all")
		}, shape.Breaking, "1 breaking, 1 item changed, 1 file changed"},
		"secret": {func(p pack) {
			p.edit(tool, "[token]", "[token, key]")
		}, shape.Breaking, "1 breaking, 1 item changed, 1 file changed"},
		"permission": {func(p pack) {
			p.edit(tool, "acme.log", "acme.log2")
		}, shape.Breaking, "1 breaking, 1 item changed, 1 file changed"},
		"limit": {func(p pack) {
			p.edit(tool, "turns: 4", "turns: 3")
		}, shape.Compatible, "1 item changed, 1 file changed"},
		"input": {func(p pack) {
			p.edit(tool, "{q: {type: string}}", "{q: {type: string}}, required: [q]")
		}, shape.Breaking, "1 breaking, 1 item changed, 1 file changed"},
		"prompt": {func(p pack) {
			p.edit(directive, "Do it", "Don't do it")
		}, shape.Warning, "1 warning, 1 item changed, 1 file changed"},
		"new input": {func(p pack) {
			p.edit(directive, "<inputs>", "<inputs><input name=\"x\" type=\"string\" required=\"true\">X</input>")
		}, shape.Breaking, "1 breaking, 1 item changed, 1 file changed"},
		"knowledge": {func(p pack) {
			p.edit(knowledge, "two", "three")
		}, shape.Info, "1 item changed, 1 file changed"},
		"gone": {func(p pack) { delete(p, knowledge) }, shape.Breaking, "1 breaking, 1 item removed, 1 file removed"},
		"moved": {func(p pack) {
			e := p[tool]
			delete(p, tool)
			p[strings.Replace(tool, ".yaml", ".yml", 1)] = e
		}, shape.Info, "1 item changed, 1 file added, 1 file removed"},
		"asset": {func(p pack) { delete(p, "docs/a.md") }, shape.Warning, "1 warning, 1 file removed"},
		"two new": {func(p pack) {
			p["docs/x"], p["docs/y"] = p["docs/a.md"], p["docs/b.md"]
		}, shape.Info, "2 files added"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			p := first()
			c.change(p)
			r := compared(t, first().side(t, manifest.FileList{}), p.side(t, manifest.FileList{}))
			if r.Class != c.class || r.Summary != c.want || r.Breaking != (c.class == shape.Breaking) ||
				len(r.Unread) > 0 {
				got, _ := json.MarshalIndent(r, "", "  ")
				t.Errorf("%s: %s\n%s\nwant %s: %s", r.Class, r.Summary, got, c.class, c.want)
			}
		})
	}
}

const line = "# rye:signed:v2:2026-11-20T12:00:00Z:2373fe2373fe2373fe2373fe2373fe2373fe2373fe2373fe2373fe2373fe2373:Z9V2mCqPYphnM06OKChhzpJxJbjyfMK8GgycGDIESG7urqpXg1NFV1V826XviHmVD0R4nJvcNIUn4DR1uG2BBw:6c31041268f471609c79f5f2dbcc38e4a4ab2f4d416109a4e09fcf50fd0f0062\n"

// Elements of a directive that have no name are named by their position.
func TestMarkup(t *testing.T) {
	const name = ".ai/directives/acme/deploy.md"
	a := first()
	a.edit(name, "<author>a</author>",
		"<author>a</author><owner team=\"ops\">x<mail>o@acme</mail></owner><audience>all</audience>",
		"</directive>",
		"<process><step>one</step><step name=\"two\">do\n it</step></process><model tier=\"x\"/></directive>")
	b := first()
	b.edit(name, "<author>a</author>",
		"<author>a</author><owner team=\"dev\" on=\"call\">x</owner><audience>few</audience>",
		"</directive>", "<process><step>one</step><step name=\"2\">do it now</step></process></directive>",
		"\"string\"", "\"integer\"")
	r := compared(t, a.side(t, manifest.FileList{}), b.side(t, manifest.FileList{}))
	var got []string
	for _, f := range r.Items[0].Fields {
		got = append(got, f.Name+" "+string(f.From)+" "+string(f.To))
	}
	want := []string{`audience "all" "few"`, `metadata/owner/mail "o@acme" `, `metadata/owner@on  "call"`,
		`metadata/owner@team "ops" "dev"`, `model@tier "x" `,
		`process/step[2] "do it" "do it now"`, `process/step[2]@name "two" "2"`}
	if !slices.Equal(got, want) {
		t.Errorf("fields are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(r.Items[0].Shape) == 0 {
		t.Error("nothing is said of the input")
	}
}

func TestModes(t *testing.T) {
	a := first().side(t, manifest.FileList{})
	b := first().side(t, manifest.FileList{})
	for i := range b.Bundle.Files {
		b.Bundle.Files[i].Mode = cas.Exec
	}
	r := compared(t, a, b)
	if r.Class != shape.Warning || r.Summary != "6 warning, 6 files with another mode" || len(r.Items) != 0 {
		t.Errorf("%s: %s", r.Class, r.Summary)
	}
	p := first()
	p["docs/a.md"] = struct{ text, ref, version string }{"other", "", ""}
	c := p.side(t, manifest.FileList{})
	for i := range c.Bundle.Files {
		c.Bundle.Files[i].Mode = cas.Exec
	}
	if r := compared(t, a, c); len(r.Files) != 6 || r.Files[4].Change != Changed || r.Files[4].Class != shape.Warning {
		t.Errorf("%+v", r.Files)
	}
}

// Unverified manifests may say anything.
func TestHostile(t *testing.T) {
	p := first()
	p["docs/a.md"] = struct{ text, ref, version string }{fetch, "tool:acme/outside", "1.0.0"}
	p[".ai/tools/acme/other.yaml"] = struct{ text, ref, version string }{fetch, "tool:acme/another", "1.0.0"}
	p[".ai/prompts/x.md"] = struct{ text, ref, version string }{"x", "prompt:x", ""}
	p[".ai/tools/acme/asset.yaml"] = struct{ text, ref, version string }{"a: b\n", "tool:acme/asset", ""}
	r := compared(t, first().side(t, manifest.FileList{}), p.side(t, manifest.FileList{}))
	var got []string
	for _, u := range r.Unread {
		got = append(got, u.Path+": "+u.Why)
		if u.From || u.Err == nil {
			t.Errorf("%+v", u)
		}
	}
	for i, want := range []string{".ai/prompts/x.md: ",
		`.ai/tools/acme/other.yaml: is "tool:acme/other", but "tool:acme/another" in the manifest`,
		".ai/tools/acme/asset.yaml: ", "docs/a.md: not an item: outside the directory of items"} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) {
			t.Fatalf("%s, want %s", strings.Join(got, "\n"), want)
		}
	}
	if r.Class != shape.Warning || !strings.HasSuffix(r.Summary, "4 items unreadable") {
		t.Errorf("%s: %s", r.Class, r.Summary)
	}
	// Files are missing: the differences of the manifests are reported all the same.
	a, b := first().side(t, manifest.FileList{}), changed().side(t, manifest.FileList{})
	b.Files = new(cas.Memory)
	if r := compared(t, a, b); len(r.Unread) != 4 || len(r.Items) != 5 || r.Items[0].Shape != nil ||
		strings.Contains(r.Unread[0].Why, "bundle:") {
		t.Errorf("%+v", r)
	}
}

func TestInvalidNumbers(t *testing.T) {
	p, q := first(), first()
	for i, o := range []pack{p, q} {
		o.edit(".ai/tools/acme/fetch.yaml", "config: {",
			[]string{"examples: [12345678901234567890]\nconfig: {n: 12345678901234567890, ",
				"examples: [1]\nconfig: {n: 12345678901234567891, "}[i])
	}
	r := compared(t, p.side(t, manifest.FileList{}), q.side(t, manifest.FileList{}))
	if len(r.Items) != 1 || len(r.Items[0].Fields) != 1 || r.Items[0].Fields[0].Name != "config" {
		t.Errorf("%+v", r.Items)
	}
}

func TestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a, b := first().side(t, manifest.FileList{}), changed().side(t, manifest.FileList{})
	if _, err := Diff(ctx, a, b); err == nil {
		t.Error("it ends well")
	}
	a.Below = append(a.Below, a.Below[0])
	if _, err := Diff(t.Context(), a, b); err == nil || !strings.Contains(err.Error(), "two spaces") {
		t.Error(err)
	}
	late, end := context.WithCancel(t.Context())
	b = changed().side(t, manifest.FileList{})
	a = first().side(t, manifest.FileList{})
	b.Files = ending{b.Files, end}
	if _, err := Diff(late, a, b); err != context.Canceled {
		t.Error(err)
	}
}

// An ending getter ends its context.
type ending struct {
	cas.Getter
	end func()
}

func (e ending) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	e.end()
	return e.Getter.Get(ctx, id)
}
