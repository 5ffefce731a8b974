package parts_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/exec/catalog"
	"github.com/rye-build/rye/exec/parts"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// A world is a plugin's directory, and a project for its stages.
type world struct {
	*testing.T
	dir     string
	project *projecttest.Project
	hours   int // how often items were made
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, dir: t.TempDir(), project: projecttest.Signed(t)}
	w.write("plugin.json", `{"$schema": "`+plugin.ManifestSchema+`", "name": "greeter", "version": "1.0.0"}`)
	w.write("LICENSE", "MIT\n")
	w.skill("say-hello")
	return w
}

func (w *world) write(name, text string) {
	w.Helper()
	at := filepath.Join(w.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *world) skill(name string) {
	w.write("skills/"+name+"/SKILL.md", "---\nname: "+name+"\ndescription: Does it\n---\nDo it.\n")
}

func (w *world) read() *plugin.Plugin {
	w.Helper()
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { root.Close() })
	p, err := plugin.Read(root.FS())
	if err != nil {
		w.Fatal(err)
	}
	return p
}

func (w *world) stage() *catalog.Stage {
	w.Helper()
	st, err := catalog.NewStage(w.Context(), w.project.Paths(), workspace.Options{Offline: true,
		Now: func() time.Time { return projecttest.Noon }}, session.Options{}, w.project.Dir)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { st.Close() })
	return st
}

// options are those of a plugin at a moment: a signature that is made anew differs.
func (w *world) options(p *plugin.Plugin, id string, at time.Time) parts.Options {
	return parts.Options{Plugin: p, ID: id, From: id, Stage: w.stage(), Old: parts.Old(w.dir),
		Key: catalog.Key{Private: keytest.Alice(), Now: func() time.Time { return at }}}
}

// TestMake: a skill becomes its two items and its files, which stay as they are until the skill changes.
func TestMake(t *testing.T) {
	w := newWorld(t)
	made, err := parts.Make(t.Context(), w.options(w.read(), "acme/greeter", projecttest.Noon))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"directive:acme/greeter/say_hello", "tool:acme/greeter/skills/say-hello/skill"}; !slices.Equal(
		made.Refs, want) {
		t.Errorf("%v", made.Refs)
	}
	var names []string
	for _, f := range made.Files {
		names = append(names, f.Path)
	}
	if want := []string{"directives/acme/greeter/say_hello.md",
		"tools/acme/greeter/skills/say-hello/_files/SKILL.md",
		"tools/acme/greeter/skills/say-hello/_licence/LICENSE",
		"tools/acme/greeter/skills/say-hello/skill.yaml"}; !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
	w.write("io.github.rye-build/items/tools/acme/old/skill.yaml", "left by another version\n")
	if err := made.Write(w.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "io.github.rye-build/items/tools/acme/old")); !os.IsNotExist(err) {
		t.Errorf("an item of another version stays: %v", err)
	}
	again, err := parts.Make(t.Context(), w.options(w.read(), "acme/greeter", projecttest.Noon.Add(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range again.Files {
		if string(again.Files[i].Bytes) != string(made.Files[i].Bytes) {
			t.Errorf("%s differs though nothing changed", again.Files[i].Path)
		}
	}
	if err := again.Write(w.dir); err != nil {
		t.Error(err)
	}
}

// TestMakeRefused: a plugin that can't become items becomes none of them.
func TestMakeRefused(t *testing.T) {
	w := newWorld(t)
	read := w.read()
	for _, id := range []string{"Acme greeter", "../greeter", ""} {
		if _, err := parts.Make(t.Context(), w.options(read, id, projecttest.Noon)); err == nil {
			t.Errorf("made items of %q", id)
		}
	}
	options := w.options(read, "acme/greeter", projecttest.Noon)
	if _, err := parts.Make(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	if _, err := parts.Make(t.Context(), options); err == nil {
		t.Error("items of a stage were replaced")
	}
	closed := w.options(read, "acme/greeter", projecttest.Noon)
	if err := closed.Stage.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := parts.Make(t.Context(), closed); err == nil {
		t.Error("made items on a closed stage")
	}
	if err := os.Remove(filepath.Join(w.dir, "skills/say-hello/SKILL.md")); err != nil {
		t.Fatal(err)
	}
	if _, err := parts.Make(t.Context(), w.options(read, "acme/greeter", projecttest.Noon)); err == nil {
		t.Error("made items of a skill that is gone")
	}
	w.skill("1a")
	w.skill("skill-1a")
	twins := w.read()
	made, err := parts.Make(t.Context(), w.options(twins, "acme/greeter", projecttest.Noon))
	if err != nil || len(made.Skipped) != 2 || len(made.Refs) != 0 {
		t.Fatalf("%v, %+v", err, made)
	}
	if err := parts.Check(twins, made.Skipped); err == nil || !strings.Contains(err.Error(), "breaks 2 rules") {
		t.Error(err)
	}
}

// TestWriteRefused: nothing is written where it can't be, and a plugin that is rejected as a whole is refused.
func TestWriteRefused(t *testing.T) {
	w := newWorld(t)
	made, err := parts.Make(t.Context(), w.options(w.read(), "acme/greeter", projecttest.Noon))
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Write(filepath.Join(w.dir, "nothing")); err == nil {
		t.Error("wrote into a directory that doesn't exist")
	}
	if err := new(parts.Made).Write(w.dir); err != nil {
		t.Errorf("a plugin without parts: %v", err)
	}
	w.write("io.github.rye-build/items/directives", "a file in the place of a directory")
	if err := made.Write(w.dir); err == nil {
		t.Error("wrote through a file")
	}
	if err := parts.Check(w.read(), nil); err != nil {
		t.Error(err)
	}
	w.write("plugin.json", "{}")
	if err := parts.Check(w.read(), nil); err == nil || !strings.Contains(err.Error(), "rejected") {
		t.Error(err)
	}
}
