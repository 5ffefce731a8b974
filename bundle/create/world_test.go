package create

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/itemtest"
	"github.com/rye-build/rye/bundle/recipe"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/admission/admissiontest"
	mkey "github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

var created = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Alice is trusted, Eve is not.
var alice, eve = keytest.Alice(), keytest.Eve()

func trustIn(t testing.TB, more string) *admission.Trust {
	return admissiontest.Trust(t, created, admissiontest.ByAlice+more)
}

var toolText = itemtest.Tool

const subprocess = "rye/core/primitives/subprocess"

// library is what the binary would have.
func library() *ai.Space {
	m := fstest.MapFS{}
	for id, text := range map[string]string{
		subprocess: toolText(subprocess, "null"),
		"rye/core/runtimes/python": toolText("rye/core/runtimes/python", subprocess,
			"anchor: {enabled: true, mode: auto, markers_any: [__init__.py], root: tool_dir}"),
	} {
		m["tools/"+id+".yaml"] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return &ai.Space{Label: "system:rye/std", FS: m, Builtin: true}
}

const (
	directiveText = "# Deploy\n\n```xml\n<directive name=\"deploy\" version=\"1.0.0\">\n<metadata><description>Deploys</description><category>acme</category><author>a</author></metadata>\n</directive>\n```\n\nDo it.\n"
	knowledgeText = "```yaml\nid: notes\ntitle: Notes\nversion: 0.1.0\nentry_type: note\n```\n\nText.\n"
	pyText        = "__version__ = \"1.0.0\"\n__tool_type__ = \"python\"\n__executor_id__ = \"rye/core/runtimes/python\"\n__category__ = \"acme/deploy/run\"\n__tool_description__ = \"runs\"\n"
)

// A world is a directory with a bundle's files, and what Create needs.
type world struct {
	testing.TB
	dir   string
	o     Options
	signs atomic.Int32
}

const recipeText = `id: acme/deploy
version: 1.4.0
description: Deploys, with care
license: MIT
entrypoint: "directive:acme/deploy"
expires: "2027-11-20"
assets: ["docs/**"]
requires: {acme/base: "^2.0.0"}
`

// newWorld makes a good bundle's directory: two items of their own, a tool of several files, assets.
func newWorld(t testing.TB, more ...string) *world {
	w := &world{TB: t, dir: t.TempDir()}
	w.o = Options{Dir: w.dir, Trust: trustIn(t, strings.Join(more, "")), Below: []*ai.Space{library()},
		Store: new(cas.Memory), Sign: w.sign}
	w.recipe(recipeText)
	w.write(".ai/directives/acme/deploy.md", directiveText)
	w.write(".ai/knowledge/acme/deploy/notes.md", knowledgeText)
	w.write(".ai/tools/acme/deploy/run/run.py", pyText)
	w.write(".ai/tools/acme/deploy/run/__init__.py", "")
	w.write(".ai/tools/acme/deploy/run/lib/help.sh", "#!/bin/sh\necho help\n")
	w.write(".ai/tools/acme/deploy/one.yaml", toolText("acme/deploy/one", subprocess))
	w.write(".ai/tools/acme/other.yaml", toolText("acme/other", subprocess))
	w.write("docs/a.md", "about\n")
	w.write("src/main.c", "int main;\n")
	if err := os.Chmod(w.path(".ai/tools/acme/deploy/run/lib/help.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.signAll(alice)
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

func (w *world) recipe(text string) {
	w.Helper()
	var err error
	if w.o.Recipe, err = recipe.Parse([]byte(text)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) write(name, text string) {
	w.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(w.path(name), []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *world) read(name string) string {
	w.Helper()
	b, err := os.ReadFile(w.path(name))
	if err != nil {
		w.Fatal(err)
	}
	return string(b)
}

// signAll signs the items of some refs, or all there are.
func (w *world) signAll(k mkey.Private, refs ...string) {
	w.Helper()
	s, err := ai.OpenDir(w.path(".ai"), "project", ai.System)
	if err != nil {
		w.Fatal(err)
	}
	defer s.Close()
	s.Requires = []string{library().Label}
	v, err := ai.NewView(w.Context(), ai.Options{Spaces: []*ai.Space{s, library()}, Trust: trustIn(w, "")})
	if err != nil {
		w.Fatal(err)
	}
	listing, err := v.Files(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range listing.Files {
		if f.Space != s || len(refs) > 0 && !slices.Contains(refs, f.Ref.String()) {
			continue
		}
		it, err := v.Load(w.Context(), f)
		if errors.Is(err, ai.ErrAsset) {
			continue
		}
		if err != nil {
			w.Fatal(err)
		}
		w.write(".ai/"+f.Path, string(itemtest.Signed(w, ai.NewAdmitter(v, nil), it, created, k)))
	}
}

func (w *world) sign(d *manifest.Document) error {
	w.signs.Add(1)
	return d.Sign(alice, created.Add(time.Duration(w.signs.Load())*time.Hour))
}

func (w *world) create() *Result {
	w.Helper()
	r, err := Create(w.Context(), w.o)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

const at = ".ai/bundles/acme/deploy/manifest.yaml"

// refused wants the problems, one a line, and that the manifest is as it was.
func (w *world) refused(want ...string) {
	w.Helper()
	before, beforeErr := os.ReadFile(w.path(at))
	_, err := Create(w.Context(), w.o)
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok {
		w.Fatalf("%v, want problems", err)
	}
	got := strings.Split(strings.ReplaceAll(refused.Error(), w.dir, "DIR"), "\n")
	if !slices.Equal(got, want) {
		w.Errorf("refused:\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	after, afterErr := os.ReadFile(w.path(at))
	if !bytes.Equal(before, after) || os.IsNotExist(beforeErr) != os.IsNotExist(afterErr) {
		w.Error("the manifest is another one")
	}
}
