package adopt_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/lock/adopt"
	"github.com/rye-build/rye/lock/items"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
)

// TestParts: the files of a plugin replace all that lies below its id, and nothing else; without files it is removed.
func TestParts(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		".ai/tools/plugins/demo/skills/old/skill.yaml": "old",
		".ai/tools/plugins/demo2/x.md":                 "other",
		".git/x":                                       "",
	} {
		at := filepath.Join(dir, filepath.FromSlash(name))
		err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	plan := func(files ...skill.File) *adopt.Plan {
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
		p := adopt.New(v, v.Project, func(context.Context, *ai.Item) error { return nil })
		if err := p.Parts("plugins/demo", files); err != nil {
			t.Fatal(err)
		}
		return p
	}
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, ".ai", filepath.FromSlash(name)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil
	}
	const item, asset = "tools/plugins/demo/skills/a/skill.yaml", "tools/plugins/demo/skills/a/_files/SKILL.md"
	files := []skill.File{{Path: asset, Bytes: []byte("text")}, {Path: item, Bytes: []byte("item")}}
	p := plan(files...)
	if p.Changes() != 3 || len(p.Groups) != 1 || len(p.Groups[0].Differs) != 1 || len(p.Items()) != 1 {
		t.Fatalf("%d changes, %v", p.Changes(), p.Groups)
	}
	undo, err := p.Write(t.Context())
	if err != nil || !has(item) || !has(asset) || has("tools/plugins/demo/skills/old/skill.yaml") ||
		!has("tools/plugins/demo2/x.md") {
		t.Fatal(err)
	}
	if err := undo(); err != nil || has(item) || has(asset) || !has("tools/plugins/demo/skills/old/skill.yaml") {
		t.Fatal("not taken back", err)
	}
	if _, err := plan(files...).Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := plan(files...); p.Changes() != 0 || string(p.Bytes(item)) != "item" || p.Bytes("none") != nil {
		t.Errorf("%d changes to the same files", p.Changes())
	}
	if _, err := plan().Write(t.Context()); err != nil || has(item) || has("tools/plugins/demo") ||
		!has("tools/plugins/demo2/x.md") {
		t.Error("not removed", err)
	}
	// Single files are removed, and brought back.
	p = plan()
	if err := p.Remove("demo2", []string{"tools/plugins/demo2/x.md", "tools/none.md"}); err != nil ||
		p.Changes() != 1 {
		t.Fatal(p.Changes(), err)
	}
	undo, err = p.Write(t.Context())
	if err != nil || has("tools/plugins/demo2/x.md") {
		t.Fatal("not removed", err)
	}
	if err := undo(); err != nil || !has("tools/plugins/demo2/x.md") {
		t.Error("not brought back", err)
	}
}
