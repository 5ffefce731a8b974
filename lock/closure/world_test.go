package closure_test

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/itemtest"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/admission/admissiontest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Alice and Bob are trusted.
var alice, bob = keytest.Alice(), keytest.Bob()

const (
	base     = "system:acme/base"
	more     = "system:acme/more"
	bash     = "rye/core/runtimes/bash_runtime"
	python   = "rye/core/runtimes/python_script_runtime"
	start    = "rye/core/primitives/subprocess"
	override = "\noverride:\n  - \"**\"\n"
)

// files is what stands in a space.
type files map[string]string

func (f files) with(more files) files {
	all := maps.Clone(f)
	maps.Copy(all, more)
	return all
}

// A world is some spaces over the library. Everything in them is signed by Alice unless it is in Unsigned.
type world struct {
	spaces   map[string]files // by label
	requires map[string][]string
	policy   string
	accept   string   // formats, "[v2]" without
	unsigned []string // paths
	roots    []string
}

func level(label string) ai.Level {
	switch label {
	case "project":
		return ai.Project
	case "user":
		return ai.User
	}
	return ai.System
}

func (w *world) trust(t testing.TB) *admission.Trust {
	return admissiontest.Trust(t, noon, fmt.Sprintf("  \"**\": {keys: [alice, bob], accept: %s}\n%s",
		cmp.Or(w.accept, "[v2]"), w.policy))
}

// A built world is ready to be looked at.
type built struct {
	t      testing.TB
	view   *ai.View
	spaces map[string]*ai.Space
	trust  *admission.Trust
	roots  []project.Root
}

func library() *ai.Space { return &ai.Space{Label: file.FromStd, FS: std.FS(), Builtin: true} }

// build makes the spaces and signs what is in them.
func (w *world) build(t testing.TB) *built {
	t.Helper()
	b := w.lay(t)
	for range 2 { // what an extractor makes an item can be signed when the extractor counts
		b.signAll(w.unsigned)
		b.look()
	}
	return b
}

func (w *world) lay(t testing.TB) *built {
	t.Helper()
	b := &built{t: t, spaces: map[string]*ai.Space{}, trust: w.trust(t)}
	for label, f := range w.spaces {
		m := fstest.MapFS{}
		for name, text := range f {
			mode := fs.FileMode(0o644)
			if strings.HasPrefix(text, "#!") {
				mode = 0o755
			}
			m[name] = &fstest.MapFile{Data: []byte(text), Mode: mode}
		}
		b.spaces[label] = &ai.Space{Label: label, Level: level(label), FS: m, Requires: w.requires[label]}
	}
	b.look()
	b.roots = rootsOf(t, w.roots...)
	return b
}

// look makes the view of the spaces as they are now.
func (b *built) look() {
	b.t.Helper()
	all := []*ai.Space{library()}
	for _, label := range slices.Sorted(maps.Keys(b.spaces)) {
		all = append(all, b.spaces[label])
	}
	v, err := ai.NewView(b.t.Context(), ai.Options{Spaces: all, Trust: b.trust,
		MayOverride: b.trust.Root.Policy.MayOverride})
	if err != nil {
		b.t.Fatal(err)
	}
	b.view = v
}

func (b *built) signAll(unsigned []string) {
	b.t.Helper()
	l, err := b.view.Files(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	admit := ai.NewAdmitter(b.view, nil)
	for _, f := range l.Files {
		if f.Space.Builtin || slices.Contains(unsigned, f.Path) {
			continue
		}
		it, err := b.view.Load(b.t.Context(), f)
		if err != nil || it.Signed.Format != sign.None {
			continue
		}
		b.sign(admit, it, alice)
	}
}

func (b *built) sign(admit *ai.Admitter, it *ai.Item, k key.Private) {
	b.t.Helper()
	subject, _, err := admit.Subject(b.t.Context(), it)
	if err != nil {
		return
	}
	signed, err := sign.Sign(it.Bytes, subject.Signing(), subject.Claim(), k, noon, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	it.Space.FS.(fstest.MapFS)[it.Path].Data = signed
}

func rootsOf(t testing.TB, texts ...string) []project.Root {
	t.Helper()
	if len(texts) == 0 {
		return nil
	}
	text := "roots:\n"
	for _, r := range texts {
		text += fmt.Sprintf("  - %q\n", r)
	}
	p, err := project.Parse([]byte(text), "")
	if err != nil {
		t.Fatal(err)
	}
	return p.Roots
}

func (b *built) options(store closure.Store) closure.Options {
	admit := ai.NewAdmitter(b.view, b.trust)
	admit.KeepTrees()
	return closure.Options{View: b.view, Admit: admit, Roots: b.roots, Store: store, Uses: true}
}

// close wants a closure, and returns it with the store that it was put into.
func (b *built) close() (*closure.Closure, *cas.Memory) {
	b.t.Helper()
	store := &cas.Memory{}
	batch, err := store.Batch(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	defer batch.Close()
	found, err := closure.Close(b.t.Context(), b.options(batch))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := batch.Commit(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	return found, store
}

// problems wants these problems.
func (b *built) problems(want ...string) {
	b.t.Helper()
	_, err := closure.Close(b.t.Context(), b.options(nil))
	e, ok := err.(*closure.Error)
	if !ok {
		b.t.Fatalf("got %v, want problems", err)
	}
	same(b.t, "problems", texts(e.Problems), want)
}

func texts(problems []*closure.Problem) (all []string) {
	for _, p := range problems {
		all = append(all, p.Error())
	}
	return all
}

func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n  got\n%s\n  want\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// pinned returns the pins without those of extractors, as "ref from".
func pinned(c *closure.Closure) (all []string) {
	for _, p := range c.Pins {
		if !strings.HasPrefix(p.Ref.ID, "rye/core/extractors/") {
			all = append(all, p.Ref.String()+" "+p.From)
		}
	}
	return all
}

// uses returns the uses without those as extractor, as "from why to:line".
func uses(c *closure.Closure) (all []string) {
	for _, u := range c.Uses {
		if u.Why == closure.AsExtractor {
			continue
		}
		from, to := "-", "-"
		if u.From != (model.Ref{}) {
			from = u.From.String()
		}
		if u.To != (model.Ref{}) {
			to = u.To.String()
		}
		text := fmt.Sprintf("%s %s %s", from, u.Why, to)
		if u.Pattern != "" {
			text += " by " + u.Pattern
		}
		if u.Line > 0 {
			text += fmt.Sprintf(" line %d", u.Line)
		}
		all = append(all, text)
	}
	return all
}

func ref(text string) model.Ref {
	r, err := model.ParseRef(text)
	if err != nil {
		panic(err)
	}
	return r
}

var tool, pyTool = itemtest.Tool, itemtest.PyTool

// shTool returns a script.
func shTool(id string) string {
	r := model.Ref{ID: id}
	return fmt.Sprintf(
		"#!/usr/bin/env bash\n# ---\n# version: 1.0.0\n# tool_type: shell\n# executor_id: %s\n# category: %q\n# description: a test\n# ---\necho hello\n",
		bash, r.Category())
}

// note returns knowledge that refers to other knowledge.
func note(id string, references ...string) string {
	r := model.Ref{ID: id}
	text := fmt.Sprintf("---\nid: %s\ntitle: A note\nversion: 2.0.0\nentry_type: reference\n", r.Name())
	if len(references) > 0 {
		text += "references: [" + strings.Join(references, ", ") + "]\n"
	}
	return text + "---\nText.\n"
}

// directive returns a directive with elements in its metadata and beside it.
func directive(id, metadata, rest string) string {
	r := model.Ref{ID: id}
	return fmt.Sprintf(
		"```xml\n<directive name=%q version=\"1.0.0\">\n<metadata><description>A test</description>\n%s\n</metadata>\n%s\n</directive>\n```\nDo it.\n",
		r.Name(), metadata, rest)
}

func readAll(t testing.TB, store cas.Getter, id cas.ID) []byte {
	t.Helper()
	o, err := store.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	b, err := io.ReadAll(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
