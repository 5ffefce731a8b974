package adopt_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/lock/adopt"
	"github.com/rye-build/rye/lock/items"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
)

const (
	tool = ".ai/tools/skills/greet/skill.yaml"
	main = ".ai/tools/skills/greet/_files/SKILL.md"
	note = ".ai/tools/skills/greet/_files/note.md"
)

// plan plans the skill greet with a text and a file in a project.
func plan(t *testing.T, dir, home, text string, more ...skill.File) (*adopt.Plan, adopt.Skill, error) {
	t.Helper()
	w, err := workspace.Open(t.Context(), projecttest.Paths(dir, home), workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	v, err := items.Open(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	one, err := skill.FromFiles("greet", append(more, skill.File{Path: skill.Main,
		Bytes: []byte("---\nname: greet\ndescription: Greets\n---\n" + text)}))
	if err != nil {
		t.Fatal(err)
	}
	p := adopt.New(v, v.Project, func(context.Context, *ai.Item) error { return nil })
	made, err := p.Skill(t.Context(), "skills", one, skill.Origin{From: "mcp+https://acme.example/mcp"})
	return p, made, err
}

// TestPlan: a skill is written whole, compared with what is there, and taken back on request.
func TestPlan(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	for _, path := range []string{".ai/tools", ".git"} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return string(b)
	}
	write := func(text string, more ...skill.File) func() error {
		p, _, err := plan(t, dir, home, text, more...)
		if err != nil {
			t.Fatal(err)
		}
		undo, err := p.Write(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return undo
	}
	undo := write("one", skill.File{Path: "note.md", Bytes: []byte("n")})
	first := read(tool)
	if first == "" || read(note) != "n" {
		t.Fatal(first)
	}
	if err := undo(); err != nil || read(tool)+read(main)+read(note) != "" {
		t.Error(err, read(tool), read(main))
	}
	write("one", skill.File{Path: "note.md", Bytes: []byte("n")})
	p, made, err := plan(t, dir, home, "two")
	if err != nil || !made.Replaces || len(made.Removed) != 1 || len(p.Groups) != 1 ||
		p.Groups[0].From != "mcp+https://acme.example/mcp" || len(p.Groups[0].Differs) != 4 {
		t.Errorf("%+v %+v %v", made, p.Groups, err)
	}
	if undo, err = p.Write(t.Context()); err != nil || read(note) != "" || read(tool) == first {
		t.Error(err, read(note))
	}
	if err := undo(); err != nil || read(note) != "n" || read(tool) != first {
		t.Error(err, read(note), read(tool))
	}
	// The same again needs no write.
	if _, made, err = plan(t, dir, home, "one", skill.File{Path: "note.md", Bytes: []byte("n")}); err != nil ||
		made.Replaces || len(made.Files)+len(made.Removed) != 0 {
		t.Errorf("%+v %v", made, err)
	}
	// A tool that no import made stays, and so does a file that the user wrote beside it.
	if err := os.WriteFile(filepath.Join(dir, ".ai/tools/skills/greet/mine.md"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err = plan(t, dir, home, "two"); err == nil {
		t.Error("a file of the user would become part of the skill")
	}
}

// TestAddItem: what can't be an item is refused before anything is written.
func TestAddItem(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	for _, path := range []string{".ai/tools", ".git"} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p, _, err := plan(t, dir, home, "one")
	if err != nil {
		t.Fatal(err)
	}
	const signed = "# rye:signed:v2:2026-11-20T09:00:00Z:x\n"
	good := "version: 1.0.0\ntool_type: x\nexecutor_id: rye/core/primitives/subprocess\ncategory: acme\n" +
		"description: A tool\n"
	for name, c := range map[string]struct{ kind, id, ext, text string }{
		"kind":      {"spell", "acme/x", ".yaml", good},
		"id":        {"tool", "acme/../x", ".yaml", good},
		"extension": {"tool", "acme/x", ".exe", good},
		"signature": {"tool", "acme/x", ".yaml", signed + good},
		"no item":   {"tool", "acme/x", ".yaml", "a: b\n"},
	} {
		var written []string
		err := p.AddItem(t.Context(), model.Ref{Kind: c.kind, ID: c.id}, c.ext, []byte(c.text), &written,
			func([]byte) bool { return true })
		if err == nil || len(written) > 0 {
			t.Errorf("%s: planned %v", name, written)
		}
	}
	// A file that can't be read is neither compared nor replaced.
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(tool)), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{tool, main} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/nowhere", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		p, _, err := plan(t, dir, home, "one")
		if err == nil {
			_, err = p.Write(t.Context())
		}
		if err == nil {
			t.Errorf("a link at %s was replaced", name)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}
