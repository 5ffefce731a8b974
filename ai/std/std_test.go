package std

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
)

// walk returns the paths of all files, sorted.
func walk(t *testing.T) (paths []string) {
	t.Helper()
	if err := fs.WalkDir(FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, p)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return paths
}

func read(t *testing.T, p string) []byte {
	t.Helper()
	b, err := fs.ReadFile(FS(), p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// kinds returns what the library's own extractors make of the kinds.
func kinds(t *testing.T) map[string]*model.Kind {
	t.Helper()
	paths, err := fs.Glob(FS(), "tools/rye/core/extractors/*/*_extractor.yaml")
	if err != nil {
		t.Fatal(err)
	}
	yaml, _ := parse.ByName("yaml")
	found := map[string]*model.Kind{}
	for _, p := range paths {
		id := strings.TrimSuffix(strings.TrimPrefix(p, "tools/"), path.Ext(p))
		k, problems := model.ReadExtractor(yaml.Parse(read(t, p)), id)
		report(t, p, problems)
		if k == nil {
			t.Fatalf("%s is no extractor", p)
		}
		found[k.Name] = k
	}
	return found
}

// report fails for each problem: the library has none, warnings included.
func report(t *testing.T, what string, problems []*value.Problem) {
	t.Helper()
	for _, p := range problems {
		t.Errorf("%s: %v", what, p)
	}
}

// items reads every item.
func items(t *testing.T) map[string]*model.Model {
	t.Helper()
	found := map[string]*model.Model{}
	all := kinds(t)
	for _, p := range walk(t) {
		for _, k := range all {
			if ref, err := k.RefOf(p); err == nil && k.Marked(p, read(t, p)) {
				m := k.Read(ref, p, read(t, p))
				report(t, p, m.Problems)
				if !m.Marked {
					t.Errorf("%s has no marker", p)
				}
				found[ref.String()] = m
			}
		}
	}
	return found
}

func TestCheck(t *testing.T) {
	if err := Check(); err != nil {
		t.Fatal(err)
	}
	Manifest()[0] ^= 1 // a copy
	if err := Check(); err != nil {
		t.Fatal(err)
	}
	const name, other, more = "tools/rye/core/primitives/subprocess.yaml", "knowledge/rye/keys.md", "tools/rye/x.py"
	tree := fstest.MapFS{}
	for _, p := range walk(t) {
		tree[p] = &fstest.MapFile{Data: read(t, p)}
	}
	if err := check(tree, Manifest()); err != nil {
		t.Fatal(err)
	}
	tree[name].Data = append([]byte("#\n"), tree[name].Data...)
	tree[more] = &fstest.MapFile{Data: []byte("x = 1\n")}
	was := cas.Sum(tree[other].Data)
	delete(tree, other)
	err := check(tree, Manifest())
	if err == nil {
		t.Fatal("what is changed is not noticed")
	}
	for _, want := range []string{
		fmt.Sprintf("std: %q is %s, and %s in the manifest", ".ai/"+name, cas.Sum(tree[name].Data),
			cas.Sum(read(t, name))),
		fmt.Sprintf("std: %q is not in the manifest", ".ai/"+more),
		fmt.Sprintf("std: %q is missing", ".ai/"+other),
	} {
		if !strings.Contains(err.Error(), want+"\n") && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
	var e *Error
	if !errors.As(check(fstest.MapFS{}, Manifest()), &e) || e.Found != (cas.Digest{}) {
		t.Errorf("an empty tree: %v", e)
	}
	delete(tree, more)
	delete(tree, name)
	if err := check(tree, []byte("rye: \"manifest/2\"\n")); err == nil {
		t.Error("half a manifest is taken")
	}
	if was == (cas.Digest{}) {
		t.Error("no digest")
	}
}

// TestLoopIsSmall: what decides about threads can be read in one sitting.
func TestLoopIsSmall(t *testing.T) {
	paths, err := fs.Glob(FS(), "tools/rye/agent/*.star")
	if err != nil || len(paths) != 4 {
		t.Fatal(paths, err)
	}
	lines := 0
	for _, p := range append(paths, "config/hook_conditions.yaml", "directives/rye/agent/threads/thread_summary.md") {
		lines += bytes.Count(read(t, p), []byte("\n"))
	}
	if lines > 400 {
		t.Errorf("%d lines", lines)
	}
}

func TestFiles(t *testing.T) {
	list, files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	if list.BundleID != "rye/std" || len(list.Signatures) != 0 {
		t.Errorf("the manifest is %s with %d signatures", list.BundleID, len(list.Signatures))
	}
	if got := walk(t); len(got) != len(files) {
		t.Errorf("%d files, and %d in the manifest", len(got), len(files))
	}
	found := items(t)
	for _, f := range files {
		if f.Mode != cas.File {
			t.Errorf("%s has the mode %s", f.Path, f.Mode)
		}
		if f.Ref == "" {
			continue
		}
		if m := found[f.Ref]; m == nil || m.Version != f.Version {
			t.Errorf("the manifest has %s %s, and there is %v", f.Ref, f.Version, m)
		}
		delete(found, f.Ref)
	}
	for ref := range found {
		t.Errorf("%s is not in the manifest", ref)
	}
}

// TestEveryFile holds each file to be an item or an asset, and text.
func TestEveryFile(t *testing.T) {
	all := kinds(t)
	if got, want := len(all), 4; got != want {
		t.Errorf("%d kinds, want %d", got, want)
	}
	for _, p := range walk(t) {
		b := read(t, p)
		if len(b) == 0 || b[len(b)-1] != '\n' || strings.ContainsAny(string(b), "\r\t") ||
			strings.Contains(string(b), " \n") {
			t.Errorf("%s isn't lines of text without tabs and spaces at their ends", p)
		}
		item := false
		for _, k := range all {
			_, err := k.RefOf(p)
			item = item || err == nil && k.Marked(p, b)
		}
		_, rest, _ := strings.Cut(p, "/")
		if item == model.IsAsset(rest) {
			t.Errorf("%s: item %v, asset %v", p, item, model.IsAsset(rest))
		}
	}
}

// TestExecutors follows every tool to its primitive.
func TestExecutors(t *testing.T) {
	found := items(t)
	primitives := 0
	for ref, m := range found {
		if m.Tool == nil {
			continue
		}
		if m.Tool.Primitive {
			primitives++
		}
		for links := 1; !m.Tool.Primitive; links++ {
			next := found["tool:"+m.Tool.Executor]
			if next == nil || next.Tool == nil || links == 10 {
				t.Fatalf("%s: no tool %q after %d links", ref, m.Tool.Executor, links)
			}
			m = next
		}
	}
	if primitives != 6+4 { // extractors have no executor either
		t.Errorf("%d primitives", primitives)
	}
	for _, id := range []string{
		"primitives/subprocess", "primitives/http_client", "runtimes/python_script_runtime",
		"runtimes/python_function_runtime",
		"runtimes/node_runtime", "runtimes/bash_runtime", "runtimes/starlark_runtime", "primitives/wasm",
		"runtimes/wasm_runtime", "primitives/rye", "primitives/mcp", "runtimes/mcp_stdio_runtime",
		"runtimes/mcp_http_runtime", "system/system", "telemetry/telemetry",
		"bundler/bundler", "runtimes/python/function", "runtimes/python/script", "runtimes/node/node",
	} {
		if m := found["tool:rye/core/"+id]; m == nil || m.Tool == nil {
			t.Errorf("rye/core/%s, which existing tools name, isn't there", id)
		}
	}
}

// filledIn are the names that the package comment promises to runtimes.
var filledIn = []string{"{tool_path}", "{tool_dir}", "{project_path}", "{params_json}", "{anchor_path}",
	"{runtime_lib}"}

// TestRuntimes holds runtimes to what their primitive takes, and to what the package comment says of them.
func TestRuntimes(t *testing.T) {
	found := items(t)
	place := regexp.MustCompile(`\$?\{[^}]*\}`)
	for ref, m := range found {
		// another name of a runtime has no config
		if m.Tool == nil || m.Tool.Type != "runtime" || m.Tool.Config == nil {
			continue
		}
		takes := found["tool:"+m.Tool.Executor].Tool.ConfigSchema.Get("properties")
		for _, e := range m.Tool.Config.Map {
			if takes.Get(e.Key) == nil {
				t.Errorf("%s: the primitive takes no %s", ref, e.Key)
			}
		}
		for _, text := range texts(m.Tool.Config, m.Tool.Anchor) {
			for _, p := range place.FindAllString(text, -1) {
				name := "${" + m.Tool.EnvConfig.Get("interpreter").Get("var").String() + "}"
				if !slices.Contains(filledIn, p) && p != name {
					t.Errorf("%s: %s isn't filled in", ref, p)
				}
				if strings.Contains(p, "params_json") && text != p {
					t.Errorf("%s: the parameters are part of %q", ref, text)
				}
			}
			if _, file, ok := strings.Cut(text, "{runtime_lib}/"); ok {
				read(t, path.Join("tools", path.Dir(m.Ref.ID), m.Tool.Anchor.Get("lib").String(), file))
			}
		}
	}
}

// texts returns all the texts in values.
func texts(values ...*value.Value) (all []string) {
	for _, v := range values {
		if v == nil {
			continue
		}
		if v.Kind == value.Text {
			all = append(all, v.Text)
		}
		all = append(all, texts(v.Items...)...)
		for _, e := range v.Map {
			all = append(all, texts(e.Value)...)
		}
	}
	return all
}

func TestKnowledge(t *testing.T) {
	found := items(t)
	var topics []string
	mention, printing := regexp.MustCompile("`rye docs ([a-z-]+)`"),
		regexp.MustCompile("`rye show[^`]*`\\s(prints|says)")
	for ref, m := range found {
		if m.Ref.Kind != "knowledge" {
			continue
		}
		topics = append(topics, m.Ref.Name())
		if len(m.Tags) == 0 || m.Title == "" || m.Category != "rye" ||
			m.Fields.Get("entry_type").String() != "reference" {
			t.Errorf("%s: title %q, category %q, tags %q", ref, m.Title, m.Category, m.Tags)
		}
		if !strings.HasPrefix(m.Body, "# "+m.Title+"\n") {
			t.Errorf("%s doesn't begin with its title, but with %.40q", ref, m.Body)
		}
		if lines := proseLines(m.Body); lines < 15 || lines > 140 {
			t.Errorf("%s has %d lines of text", ref, lines)
		}
		for _, show := range printing.FindAllString(m.Body, -1) {
			if !strings.Contains(show, " --source`") {
				t.Errorf("%s: %s, but it prints an item's file only with --source", ref, show)
			}
		}
		for line := range strings.Lines(m.Body) {
			if n := len([]rune(line)); n > 121 && !strings.HasPrefix(line, "|") {
				t.Errorf("%s has a line of %d characters: %s", ref, n, line)
			}
		}
		for _, r := range m.Fields.Get("references").Items {
			if found["knowledge:"+r.String()] == nil || "knowledge:"+r.String() == ref {
				t.Errorf("%s refers to %q", ref, r)
			}
		}
		for _, topic := range mention.FindAllStringSubmatch(m.Body, -1) {
			if found["knowledge:rye/"+topic[1]] == nil {
				t.Errorf("%s names the topic %q", ref, topic[1])
			}
		}
		if strings.Contains(m.Body, "rye:signed:v1") || len(m.Fields.Get("references").Items) == 0 {
			t.Errorf("%s has no references", ref)
		}
	}
	slices.Sort(topics)
	want := []string{"answers", "approvals", "audit", "automation", "backup", "budgets", "build", "bundles", "chain",
		"ci", "coming-from", "commands", "conditions", "core-tools", "design",
		"directive-format", "errors", "exec", "extractors", "graphs", "hooks", "install", "items", "keys",
		"knowledge-format", "lock", "lsp", "mcp", "mcp-servers", "oci", "operations", "overview",
		"packages", "plugins", "policy", "providers", "registry", "registry-host", "registry-private",
		"registry-release", "registry-trust", "release", "resilience", "runtimes",
		"sandbox", "search-syntax", "secrets",
		"serve", "signing", "skills", "sources", "spaces", "speed",
		"starlark", "store", "threads", "threat-model", "tool-format", "transcripts",
		"unsigned-plugins", "vendoring", "wasm",
		"what-to-commit"}
	if !slices.Equal(topics, want) {
		t.Errorf("topics %q, want %q", topics, want)
	}
}

// proseLines counts the lines of a page outside of its blocks, whose commands and files are followed in a test.
func proseLines(body string) (lines int) {
	block := false
	for line := range strings.Lines(body) {
		switch {
		case strings.HasPrefix(line, "```"):
			block = !block
		case !block:
			lines++
		}
	}
	return lines
}

// What the documentation shows of policies and revocation lists is read by what reads them.
func TestPolicyExamples(t *testing.T) {
	_, body, _ := strings.Cut(string(read(t, "knowledge/rye/policy.md")), "\n# ")
	example := func(first string) []byte {
		_, rest, found := strings.Cut(body, "\n```text\n"+first+"\n")
		rest, _, closed := strings.Cut(rest, "\n```\n")
		if !found || !closed {
			t.Fatalf("no example begins with %s", first)
		}
		return []byte(first + "\n" + rest + "\n")
	}
	if _, err := policy.Parse(example("rye: policy/2")); err != nil {
		t.Error(err)
	}
	list, err := manifest.ReadRevocations(bytes.NewReader(example(`rye: "revocations/2"`)))
	if err != nil || list.List != "acme" || len(list.Entries) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
}

// render fills in a template as the command does.
func render(template []byte, ref model.Ref, description string) []byte {
	return []byte(strings.NewReplacer("{{id}}", ref.ID, "{{name}}", ref.Name(), "{{category}}", ref.Category(),
		"{{description}}", description).Replace(string(template)))
}

func TestTemplates(t *testing.T) {
	const dir = "tools/rye/core/templates/"
	all := kinds(t)
	seen := map[string]bool{}
	for _, p := range walk(t) {
		if !strings.HasPrefix(p, dir) {
			continue
		}
		ext := path.Ext(p)
		name := strings.TrimSuffix(strings.TrimPrefix(p, dir+"_"), ext)
		k := all[name]
		if k == nil {
			t.Errorf("%s is of no kind", p)
			continue
		}
		seen[name] = true
		for _, id := range []string{"greet", "acme/greet", "acme/deep/er/greet_2"} {
			for _, description := range []string{"Greets a person", "yes: it's 100 % — #1, [ok] | 'so'", "null",
				"!#$%'()*+,-./:;=?@[]^_`{|}~"} {
				ref := model.Ref{Kind: k.Name, ID: id}
				file := k.Dir + "/" + id + ext
				content := render(read(t, p), ref, description)
				if got, err := k.RefOf(file); got != ref || err != nil {
					t.Errorf("%s is %v, %v", file, got, err)
				}
				if !k.Marked(file, content) {
					t.Errorf("%s: what comes of %s isn't marked", file, p)
				}
				m := k.Read(ref, file, content)
				report(t, p+" as "+file, m.Problems)
				if strings.Contains(string(content), "{{") {
					t.Errorf("%s: something isn't filled in:\n%s", p, content)
				}
				if m.Category != ref.Category() && k.Name != "config" {
					t.Errorf("%s has the category %q", file, m.Category)
				}
				if k.Name != "config" && m.Description != description && m.Title != description {
					t.Errorf("%s says %q, %q, not %q", file, m.Description, m.Title, description)
				}
			}
		}
	}
	for name := range all {
		if !seen[name] {
			t.Errorf("there is no template for a %s", name)
		}
	}
}

// TestPipelines: the files for other services have the placeholders of the package comment, and no others.
func TestPipelines(t *testing.T) {
	const dir = "tools/rye/core/pipelines/"
	known := []string{"<<version>>", "<<directory>>", "<<-C>>", "<<prefix>>"}
	yaml, _ := parse.ByName("yaml")
	found := map[string]bool{}
	for _, p := range walk(t) {
		if !strings.HasPrefix(p, dir) {
			continue
		}
		text := string(read(t, p))
		for _, place := range regexp.MustCompile(`<<[^>]*>>`).FindAllString(text, -1) {
			found[place] = true
			if !slices.Contains(known, place) {
				t.Errorf("%s: %s isn't filled in", p, place)
			}
			text = strings.ReplaceAll(text, place, "x")
		}
		report(t, p, yaml.Parse([]byte(text)).Problems)
	}
	if len(found) != len(known) {
		t.Errorf("%v", found)
	}
}

func TestManifestIsCanonical(t *testing.T) {
	list, files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := manifest.AppendFileList(nil, list, files)
	if err != nil || string(again) != string(Manifest()) {
		t.Errorf("written again it differs: %v", err)
	}
}
