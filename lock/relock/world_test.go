package relock_test

import (
	"bytes"
	"context"
	"fmt"
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
	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/closure"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/admission/admissiontest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/sign"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Alice and Bob are trusted, Eve is not.
var alice, bob, eve = keytest.Alice(), keytest.Bob(), keytest.Eve()

const (
	base   = "system:acme/base"
	util   = "system:acme/util"
	bash   = "rye/core/runtimes/bash_runtime"
	python = "rye/core/runtimes/python_script_runtime"
	http   = "rye/core/primitives/http_client"
	prompt = "version: 1.0.0\ntool_type: extractor\nexecutor_id: null\ncategory: rye/core/extractors\ndescription: Prompts\nkind: prompt\ndirectory: prompts\n" +
		"extensions: [.txt]\nparser: {.txt: {pattern: {fields: {title: '^# (.*)$'}}}}\ncomment: {.txt: \"#\"}\n" +
		"validation_schema: {fields: {title: {type: string}}}\n"
)

// files is what stands in a space.
type files map[string]string

// A requirement is what the project or a bundle requires: id and range.
type requirement [2]string

// A world is spaces over the library, all signed by Alice, and where the lock of it finds its bytes.
type world struct {
	testing.TB
	files    map[string]files // by label
	versions map[string]string
	requires map[string][]requirement // "project" requires as well
	roots    []string
	policy   string
	plugin   string // the label of the bundle that is one
	std      *ai.Space

	spaces map[string]*ai.Space
	store  *cas.Memory
	names  map[string]cas.ID
	ids    map[string]cas.Digest // of bundles, by label
}

// shop is a project that uses a bundle, which uses another one.
func shop(t testing.TB) *world {
	return &world{TB: t, std: library(), store: &cas.Memory{}, names: map[string]cas.ID{},
		ids: map[string]cas.Digest{},
		files: map[string]files{
			"project": {
				"tools/acme/shop/run.py":      pyTool("acme/shop/run"),
				"tools/acme/shop/walk.py":     pyTool("acme/shop/walk"),
				"tools/acme/shop/idle.py":     pyTool("acme/shop/idle"),
				"tools/acme/shop/__init__.py": "",
				"tools/acme/shop/lib/help.py": "x = 1\n",
				"tools/acme/shop/lib/go.sh":   "#!/bin/sh\n",
				"tools/acme/hello.sh":         shTool("acme/hello"),
				"tools/acme/unused.sh":        shTool("acme/unused"),
				"knowledge/acme/note.md":      note("acme/note", "see"),
				"directives/acme/deploy.md":   directive("acme/deploy"),
				"config/net.yaml":             "retries: 3\nhosts: {a: one}\n",
			},
			base: {
				"tools/acme/base/fetch.yaml": tool("acme/base/fetch", http, "risk: read",
					"network: [api.example.com]", "permissions: [rye.load.knowledge.acme.x]"),
				"tools/acme/base/idle.yaml":         tool("acme/base/idle", http),
				"tools/acme/base/data.json":         "{}\n",
				"tools/acme/deep/multi/multi.py":    pyTool("acme/deep/multi/multi"),
				"tools/acme/deep/multi/__init__.py": "",
				"tools/acme/deep/multi/helper.py":   "y = 2\n",
				"knowledge/acme/idle.md":            note("acme/idle"),
				"config/net.yaml":                   "retries: 1\nhosts: {b: two}\n",
			},
			util: {
				"knowledge/acme/see.md": note("see"),
				"knowledge/see.md":      note("see"),
			},
		},
		versions: map[string]string{base: "2.1.4", util: "1.2.0"},
		requires: map[string][]requirement{"project": {{"acme/base", "^2.1"}},
			base: {{"acme/util", "^1.0"}, {"rye/std", "*"}}},
		roots: []string{"tool:acme/shop/run", "tool:acme/shop/walk", "tool:acme/hello", "directive:acme/**",
			"knowledge:acme/note",
			"tool:acme/base/fetch", "tool:acme/deep/multi/multi"},
	}
}

func library() *ai.Space { return &ai.Space{Label: file.FromStd, FS: std.FS(), Builtin: true} }

var tool = itemtest.Tool

func pyTool(id string) string { return itemtest.PyTool(id, python) }

func shTool(id string) string {
	return fmt.Sprintf(
		"#!/usr/bin/env bash\n# ---\n# version: 1.0.0\n# tool_type: shell\n# executor_id: %s\n# category: %q\n# description: a test\n# ---\necho hello\n",
		bash, model.Ref{ID: id}.Category())
}

func note(id string, references ...string) string {
	text := fmt.Sprintf("---\nid: %s\ntitle: A note\nversion: 2.0.0\nentry_type: reference\n",
		model.Ref{ID: id}.Name())
	if len(references) > 0 {
		text += "references: [" + strings.Join(references, ", ") + "]\n"
	}
	return text + "---\nText.\n"
}

func directive(id string) string {
	return fmt.Sprintf(
		"```xml\n<directive name=%q version=\"1.0.0\">\n<metadata><description>A test</description><category>acme</category><author>a</author>\n"+
			"<permissions><execute><tool>acme/base/fetch</tool></execute></permissions>\n</metadata>\n</directive>\n```\nDo it.\n",
		model.Ref{ID: id}.Name())
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

func (w *world) trust() *admission.Trust {
	return admissiontest.Trust(w, noon, "  \"**\": {keys: [alice, bob]}\n"+w.policy)
}

// view makes a view of the spaces as they stand, without a lock.
func (w *world) view() *ai.View {
	w.Helper()
	all := []*ai.Space{w.std}
	for _, label := range slices.Sorted(maps.Keys(w.spaces)) {
		all = append(all, w.spaces[label])
	}
	trust := w.trust()
	v, err := ai.NewView(w.Context(), ai.Options{Spaces: all, Trust: trust,
		MayOverride: trust.Root.Policy.MayOverride})
	if err != nil {
		w.Fatal(err)
	}
	return v
}

// build makes the spaces of the files, and signs them.
func (w *world) build() *world {
	w.Helper()
	w.spaces = map[string]*ai.Space{}
	for label, f := range w.files {
		m := fstest.MapFS{}
		for name, text := range f {
			mode := fs.FileMode(0o644)
			if strings.HasPrefix(text, "#!") {
				mode = 0o755
			}
			m[name] = &fstest.MapFile{Data: []byte(text), Mode: mode}
		}
		w.spaces[label] = &ai.Space{Label: label, Level: level(label), FS: m}
		for _, r := range w.requires[label] {
			w.spaces[label].Requires = append(w.spaces[label].Requires, file.System+r[0])
		}
	}
	for range 2 { // what an extractor makes an item can be signed when the extractor counts
		v := w.view()
		l, err := v.Files(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		for _, f := range l.Files {
			if !f.Space.Builtin {
				w.sign(v, f, alice)
			}
		}
	}
	return w
}

func (w *world) sign(v *ai.View, f ai.File, k key.Private) {
	w.Helper()
	it, err := v.Load(w.Context(), f)
	if err != nil || it.Signed.Format != sign.None {
		return
	}
	it.Space.FS.(fstest.MapFS)[it.Path].Data = itemtest.Signed(w, ai.NewAdmitter(v, nil), it, noon, k)
}

// project is what stands in the project, to be changed.
func (w *world) project() fstest.MapFS { return w.spaces["project"].FS.(fstest.MapFS) }

func (w *world) put(kind cas.Kind, b []byte) cas.Digest {
	w.Helper()
	info, err := w.store.Put(w.Context(), kind, bytes.NewReader(b))
	if err != nil {
		w.Fatal(err)
	}
	return info.Digest
}

// Ref makes a world the refs of its store.
func (w *world) Ref(name string) (cas.ID, error) {
	if id, ok := w.names[name]; ok {
		return id, nil
	}
	return cas.ID{}, fs.ErrNotExist
}

func (w *world) Get(ctx context.Context, id cas.ID) (cas.Object, error) { return w.store.Get(ctx, id) }

// pack puts a bundle with the files of a space into the store.
func (w *world) pack(label string) cas.Digest {
	w.Helper()
	v := w.view()
	s := w.spaces[label]
	var all []manifest.File
	l := &manifest.FileList{BundleID: strings.TrimPrefix(label, file.System), Version: w.versions[label]}
	if label == w.plugin {
		l.Plugin = manifest.PluginVersion
	}
	for name, f := range s.FS.(fstest.MapFS) {
		m := manifest.File{Path: bundle.LayoutOf(l).Items + "/" + name, Digest: w.put(cas.Blob, f.Data),
			Size: int64(len(f.Data)), Mode: cas.File}
		if f.Mode&0o100 != 0 {
			m.Mode = cas.Exec
		}
		if at, err := v.At(s, name); err == nil {
			if it, err := v.Load(w.Context(), at); err == nil {
				m.Ref, m.Version = it.Ref.String(), it.Model.Version
			}
		}
		all = append(all, m)
	}
	readme := []byte("# About\n")
	all = append(all, manifest.File{Path: "README.md", Digest: w.put(cas.Blob, readme), Size: int64(len(readme)),
		Mode: cas.File})
	for _, r := range w.requires[label] {
		l.Requires = append(l.Requires, manifest.Require{BundleID: r[0], Version: r[1]})
	}
	body, l, err := manifest.AppendFileList(nil, l, all)
	if err != nil {
		w.Fatal(err)
	}
	if err := l.Sign(alice, noon); err != nil {
		w.Fatal(err)
	}
	id := w.put(cas.Document, body)
	w.names[bundle.SignaturesRef(id)] = cas.ID{Kind: cas.Blob, Digest: w.put(cas.Blob, l.Signatures.Append(nil))}
	w.ids[label] = id
	return id
}

// made is a lock of the world as it is now, with the bytes of the file.
func (w *world) made() (*file.Lock, []byte) {
	w.Helper()
	text := "roots:\n"
	for _, r := range w.roots {
		text += fmt.Sprintf("  - %q\n", r)
	}
	p, err := project.Parse([]byte(text), "")
	if err != nil {
		w.Fatal(err)
	}
	v := w.view()
	admit := ai.NewAdmitter(v, w.trust())
	admit.KeepTrees()
	batch, err := w.store.Batch(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	defer batch.Close()
	found, err := closure.Close(w.Context(), closure.Options{View: v, Admit: admit, Roots: p.Roots, Store: batch})
	if err != nil {
		if e, ok := err.(*closure.Error); ok {
			for _, p := range e.Problems {
				w.Log(p)
			}
		}
		w.Fatal(err)
	}
	if err := batch.Commit(w.Context()); err != nil {
		w.Fatal(err)
	}
	l := &file.Lock{Pins: found.Pins, Definitions: found.Definitions}
	for _, label := range slices.Sorted(maps.Keys(w.versions)) {
		id := strings.TrimPrefix(label, file.System)
		l.Bundles = append(l.Bundles, file.Bundle{ID: id, Version: w.versions[label], Manifest: w.pack(label),
			Source: project.Source{Where: "../" + id}})
	}
	for _, r := range w.requires["project"] {
		need, err := project.NewRequirement(r[0], r[1], project.Source{Where: "../" + r[0]})
		if err != nil {
			w.Fatal(err)
		}
		l.Requires = append(l.Requires, need)
	}
	return w.written(l)
}

// written is a lock as it is read back.
func (w *world) written(l *file.Lock) (*file.Lock, []byte) {
	w.Helper()
	b, err := file.Append(nil, l)
	if err != nil {
		w.Fatal(err)
	}
	if l, err = file.Parse(b); err != nil {
		w.Fatal(err)
	}
	return l, b
}

func (w *world) options() lock.SetOptions { return lock.SetOptions{Objects: w, Std: w.std} }

// set is the set of a lock of the world as it is now.
func (w *world) set() *lock.Set {
	w.Helper()
	l, b := w.made()
	return w.setOf(l, cas.Sum(b))
}

func (w *world) setOf(l *file.Lock, id cas.Digest) *lock.Set {
	w.Helper()
	s, err := lock.NewSet(w.Context(), l, id, w.options())
	if err != nil {
		w.Fatal(all(err))
	}
	return s
}

// A use is a set that is being used.
type use struct {
	*lock.Set
	view     *ai.View
	resolver ai.Resolver
	admit    *ai.Admitter
}

func (w *world) use(s *lock.Set) *use {
	w.Helper()
	trust := w.trust()
	v, err := s.View(w.Context(), trust, trust.Root.Policy.MayOverride)
	if err != nil {
		w.Fatal(err)
	}
	return &use{s, v, s.Resolver(v), ai.NewAdmitter(s.Resolver(v), s.Examiner(trust))}
}

// state is everything that a pinned item is when it is used: its bytes and those of the files that come with it.
func (u *use) state(ctx context.Context, ref model.Ref) (string, error) {
	it, err := u.resolver.Resolve(ctx, ref, nil)
	if err != nil {
		return "", err
	}
	if err := u.admit.Require(ctx, it, policy.ToUse); err != nil {
		return "", err
	}
	t, err := u.admit.Tree(ctx, it)
	if err != nil {
		return "", err
	}
	text := string(it.Bytes)
	if t == nil {
		t = &tree.Tree{}
	}
	for _, f := range t.Files {
		text += fmt.Sprintf("%s %s %s\n", f.Path, f.Mode, f.Raw)
	}
	if ref.Kind == "config" {
		m, err := u.Config(ctx, u.view, u.admit, ref.ID)
		if err != nil {
			return "", err
		}
		v, err := m.Value.JSON()
		if err != nil {
			return "", err
		}
		text += fmt.Sprint(v)
	}
	return text, nil
}

func ref(text string) model.Ref {
	r, err := model.ParseRef(text)
	if err != nil {
		panic(err)
	}
	return r
}

// all is every message of an error, one in a line.
func all(err error) string {
	if err == nil {
		return ""
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var lines []string
		for _, err := range many.Unwrap() {
			lines = append(lines, err.Error())
		}
		return strings.Join(lines, "\n")
	}
	return err.Error()
}

// says wants an error to say so. In what is wanted are the digests of what stands in braces.
func (w *world) says(err error, want ...string) {
	w.Helper()
	if got := all(err); got != strings.Join(want, "\n") {
		w.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}
