package ai_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/itemtest"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/admission/admissiontest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Alice is trusted, Eve is not.
var alice, eve = keytest.Alice(), keytest.Seeded(3)

func trust(t testing.TB, more string) *admission.Trust {
	return admissiontest.Trust(t, noon, admissiontest.ByAlice+more)
}

const noOverride = ""

// override lets everything stand in front of everything.
const override = "\noverride:\n  - \"**\"\n"

// A files is a space in memory.
type files map[string]string

func (f files) fs() fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range f {
		m[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return m
}

// with returns the files and others.
func (f files) with(more files) files {
	all := maps.Clone(f)
	maps.Copy(all, more)
	return all
}

var tool, pyTool = itemtest.Tool, itemtest.PyTool

const (
	subprocess = "rye/core/primitives/subprocess"
	python     = "rye/core/runtimes/python"
	anchor     = "anchor: {enabled: true, mode: auto, markers_any: [__init__.py, pyproject.toml], root: tool_dir}\n" +
		"verify_deps: {enabled: true, scope: anchor, extensions: [.py, .json]}"
)

// small is a library as the binary has one.
func small() files {
	return files{
		"tools/rye/core/primitives/subprocess.yaml": tool(subprocess, "null"),
		"tools/rye/core/runtimes/python.yaml":       tool(python, subprocess, anchor),
		"tools/rye/core/runtimes/bash.yaml":         tool("rye/core/runtimes/bash", subprocess),
	}
}

func stdSpace() *ai.Space {
	return &ai.Space{Label: "system:rye/std", FS: small().fs(), Builtin: true}
}

func space(label string, f files) *ai.Space {
	level := ai.System
	switch label {
	case "project":
		level = ai.Project
	case "user":
		level = ai.User
	}
	return &ai.Space{Label: label, Level: level, FS: f.fs()}
}

// view puts spaces over the library.
func view(t testing.TB, policy string, spaces ...*ai.Space) *ai.View {
	t.Helper()
	tr := trust(t, policy)
	v, err := ai.NewView(t.Context(), ai.Options{Spaces: append(spaces, stdSpace()), Trust: tr,
		MayOverride: tr.Root.Policy.MayOverride})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// signIn signs the items of refs in a space in memory, in order, and fails if one can't be.
func signIn(t testing.TB, v *ai.View, s *ai.Space, k key.Private, refs ...string) {
	t.Helper()
	for _, text := range refs {
		it := find(t, v, text)
		if it.Space != s {
			t.Fatalf("%s is in %s", text, it.Space.Label)
		}
		b := itemtest.Signed(t, ai.NewAdmitter(v, nil), it, noon, k)
		if m, ok := s.FS.(fstest.MapFS); ok {
			m[it.Path].Data = b
		} else if err := os.WriteFile(filepath.Join(s.Dir, it.Path), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// signText signs a file of its own, before there is a view to find it in.
func signText(t testing.TB, name, text string, style sign.Style, k key.Private) string {
	t.Helper()
	b, err := sign.Sign([]byte(text), style, sign.Claim{Domain: sign.Item, Name: name}, k, noon, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func ref(text string) model.Ref {
	r, err := model.ParseRef(text)
	if err != nil {
		panic(err)
	}
	return r
}

func find(t testing.TB, v *ai.View, text string) *ai.Item {
	t.Helper()
	it, err := v.Find(t.Context(), ref(text))
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// onDisk writes files into a new directory and opens it as the project.
func onDisk(t testing.TB, f files) *ai.Space {
	t.Helper()
	dir := filepath.Join(t.TempDir(), ".ai")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range f {
		write(t, filepath.Join(dir, name), text)
	}
	s, err := ai.OpenDir(dir, "project", ai.Project)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// wantError compares the text of an error.
func wantError(t testing.TB, err error, want string) {
	t.Helper()
	if err == nil {
		t.Errorf("got no error, want %s", want)
	} else if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}
