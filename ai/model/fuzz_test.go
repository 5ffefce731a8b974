package model

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/shape"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/manifest"
)

// seeds calls add with every file below a folder of testdata.
func seeds(f *testing.F, folder string, add func(path string, text []byte)) {
	root := filepath.Join("testdata", folder)
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(file, ".json") {
			return err
		}
		text, err := os.ReadFile(file)
		if err == nil {
			rel, _ := filepath.Rel(root, file)
			add(filepath.ToSlash(rel), text)
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
}

// checkProblems holds problems to their order, and their places into the file.
func checkProblems(t *testing.T, text []byte, problems []*value.Problem) {
	t.Helper()
	lines := strings.Count(string(text), "\n") + strings.Count(string(text), "\r") + 2
	for i, p := range problems {
		if p.At.Line > lines || p.Message == "" {
			t.Fatalf("a problem at line %d of %d: %q", p.At.Line, lines, p.Message)
		}
		if i > 0 && p.At.Compare(problems[i-1].At) < 0 && i != fields.MaxProblems-1 {
			t.Fatalf("%v stands before %v", problems[i-1], p)
		}
		for _, r := range p.Message {
			if r < ' ' || r == 0x7f {
				t.Fatalf("a control character in %q", p.Message)
			}
		}
	}
	if len(problems) > fields.MaxProblems {
		t.Fatalf("%d problems", len(problems))
	}
}

func fuzzKind(f *testing.F, name, path string) {
	k := builtinKind(f, name)
	seeds(f, "items", func(p string, text []byte) {
		if strings.HasPrefix(p, k.Dir+"/") {
			f.Add(text)
		}
	})
	path = k.Dir + "/" + path
	ref, err := k.RefOf(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m := k.Read(ref, path, text)
		checkProblems(t, text, m.Problems)
		if again := k.Read(ref, path, text); string(dump(t, again, true)) != string(dump(t, m, true)) {
			t.Fatal("read otherwise the second time")
		}
		if m.Marked && !k.Marked(path, text) {
			t.Fatal("an item that isn't marked")
		}
		if m.Invalid() || !m.Marked {
			return
		}
		// What is valid can be hashed, and says what every item of its kind must say.
		if _, err := m.Interface().Hash(); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Grants().Hash(); err != nil {
			t.Fatal(err)
		}
		if name != "config" && manifest.CheckVersion(m.Version) != nil {
			t.Fatalf("version %q is valid", m.Version)
		}
		if m.Tool != nil && slices.ContainsFunc(m.Tool.Files.Write, func(p string) bool {
			return !shape.Writable(p)
		}) {
			t.Fatalf("writes %q", m.Tool.Files.Write)
		}
		if m.Tool != nil && (m.Tool.Executor == "") != m.Tool.Primitive {
			t.Fatalf("executor %q, primitive %v", m.Tool.Executor, m.Tool.Primitive)
		}
	})
}

func FuzzDirective(f *testing.F)  { fuzzKind(f, "directive", "wrong.md") }
func FuzzToolPython(f *testing.F) { fuzzKind(f, "tool", "acme/fetch.py") }
func FuzzToolYAML(f *testing.F)   { fuzzKind(f, "tool", "acme/runtime.yaml") }
func FuzzToolHeader(f *testing.F) { fuzzKind(f, "tool", "acme/list.sh") }
func FuzzKnowledge(f *testing.F)  { fuzzKind(f, "knowledge", "acme/style.md") }
func FuzzConfig(f *testing.F)     { fuzzKind(f, "config", "websearch.yaml") }

func FuzzExtractor(f *testing.F) {
	seeds(f, "extractors", func(p string, text []byte) { f.Add(text, []byte("---\ntitle: x\nversion: 1.0.0\n---\n")) })
	yaml, _ := parse.ByName("yaml")
	f.Fuzz(func(t *testing.T, text, item []byte) {
		k, problems := ReadExtractor(yaml.Parse(text), "acme/x_extractor")
		checkProblems(t, text, problems)
		invalid := false
		for _, p := range problems {
			invalid = invalid || !p.Warning
		}
		if invalid != (k == nil) {
			t.Fatalf("kind %v, problems %v", k, problems)
		}
		if k == nil {
			return
		}
		if CheckKind(k.Name) != nil || len(k.Extensions) == 0 || builtinDir(k.Name) != "" &&
			k.Dir != builtinDir(k.Name) || builtinDir(k.Name) == "" && badDirectory(k.Dir) != "" {
			t.Fatalf("got %+v", k)
		}
		for _, ext := range k.Extensions {
			path := k.Dir + "/a" + ext
			ref, err := k.RefOf(path)
			if err != nil {
				t.Fatal(err)
			}
			m := k.Read(ref, path, item)
			checkProblems(t, item, m.Problems)
			if k.Name == "tool" && m.Tool.Executor != "" && !strings.Contains(string(item), "xecutor_id") &&
				!strings.Contains(string(item), "EXECUTOR_ID") && !strings.Contains(string(item), `\`) {
				t.Fatal("an executor from elsewhere")
			}
		}
	})
}

func FuzzRef(f *testing.F) {
	f.Add("tool:rye/bash/bash")
	f.Add("bundle:x")
	f.Fuzz(func(t *testing.T, text string) {
		ref, err := ParseRef(text)
		if err != nil {
			return
		}
		if ref.String() != text || ref.Category() == "" && ref.Name() != ref.ID || ref.Category() != "" &&
			ref.Category()+"/"+ref.Name() != ref.ID {
			t.Fatalf("%q: %+v", text, ref)
		}
	})
}
