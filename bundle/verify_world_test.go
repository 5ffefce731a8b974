package bundle_test

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/itemtest"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/admission/admissiontest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Alice and Bob are trusted, Eve is not.
var alice, bob, eve = keytest.Alice(), keytest.Bob(), keytest.Eve()

func trusting(t testing.TB, more string) *admission.Trust {
	return admissiontest.Trust(t, noon, admissiontest.ByAlice+more)
}

func library() *ai.Space { return &ai.Space{Label: "system:rye/std", FS: std.FS(), Builtin: true} }

const (
	hello = `#!/usr/bin/env bash
# ---
# version: 1.0.0
# tool_type: shell
# executor_id: rye/core/runtimes/bash_runtime
# category: acme
# description: Says hello to https://docs.example.com
# permissions: [rye.execute.tool.acme.multi]
# secrets: [acme-token]
# network: [api.example.com]
# risk: write
# config: {command: "/usr/bin/env", url: "https://api.example.net/v1?x=1", cwd: "../up"}
# ---
echo hello
`
	multi = `__version__ = "1.2.3"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python_script_runtime"
__category__ = "acme/multi"
__tool_description__ = "several files"
`
	note = "---\nid: note\ntitle: Note\nversion: 2.0.0\nentry_type: reference\n---\nhttps://not.a.host.example/\n"
)

// A pack is a bundle that is being made: its files in memory, as they stand in a directory.
type pack struct {
	t        testing.TB
	files    fstest.MapFS
	refs     map[string]string // by path
	evidence map[string]manifest.Evidence
	list     *manifest.FileList
	body     []byte
	all      []manifest.File
	store    cas.Memory
	names    map[string]cas.ID
}

func newPack(t testing.TB) *pack {
	t.Helper()
	p := &pack{t: t, files: fstest.MapFS{}, refs: map[string]string{}, evidence: map[string]manifest.Evidence{},
		names: map[string]cas.ID{}}
	for name, text := range map[string]string{
		".ai/tools/acme/hello.sh":          hello,
		".ai/tools/acme/multi/multi.py":    multi,
		".ai/tools/acme/multi/__init__.py": "",
		".ai/tools/acme/multi/helper.py":   "x = 1\n",
		".ai/knowledge/acme/note.md":       note,
		".ai/knowledge/acme/_draft.md":     "nothing\n",
		"README.md":                        "# demo\r\n",
		"docs/guide.txt":                   "guide\nof lines\n",
		"docs/run.sh":                      "#!/bin/sh -e\n",
	} {
		p.files[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	p.files[".ai/tools/acme/hello.sh"].Mode = 0o755
	p.refs[".ai/tools/acme/hello.sh"] = "tool:acme/hello 1.0.0"
	p.refs[".ai/tools/acme/multi/multi.py"] = "tool:acme/multi/multi 1.2.3"
	p.refs[".ai/knowledge/acme/note.md"] = "knowledge:acme/note 2.0.0"
	return p
}

// signItems signs the items as they are now.
func (p *pack) signItems(k key.Private) {
	p.t.Helper()
	sub, err := fs.Sub(p.files, ".ai")
	if err != nil {
		p.t.Fatal(err)
	}
	space := &ai.Space{Label: "test", FS: sub, Requires: []string{"system:rye/std"}}
	view, err := ai.NewView(p.t.Context(), ai.Options{Spaces: []*ai.Space{space, library()}})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(p.refs)) {
		at, err := view.At(space, strings.TrimPrefix(name, ".ai/"))
		if err != nil {
			p.t.Fatal(err)
		}
		it, err := view.Load(p.t.Context(), at)
		if err != nil {
			p.t.Fatal(err)
		}
		p.files[name].Data = itemtest.Signed(p.t, ai.NewAdmitter(view, nil), it, noon, k)
	}
}

// make makes the manifest of the files as they are now, signed by some keys, and puts all into the store.
func (p *pack) make(l manifest.FileList, keys ...key.Private) *pack {
	p.t.Helper()
	if l.BundleID == "" {
		l.BundleID, l.Version = "acme/demo", "1.0.0"
	}
	p.all = nil
	for name, f := range p.files {
		ref, version, _ := strings.Cut(p.refs[name], " ")
		m := manifest.File{Path: name, Digest: p.put(f.Data), Size: int64(len(f.Data)), Mode: cas.File, Ref: ref,
			Version: version}
		if f.Mode&0o100 != 0 {
			m.Mode = cas.Exec
		}
		p.all = append(p.all, m)
	}
	l.Evidence = slices.Collect(maps.Values(p.evidence))
	var err error
	if p.body, p.list, err = manifest.AppendFileList(nil, &l, p.all); err != nil {
		p.t.Fatal(err)
	}
	for _, k := range keys {
		if err := p.list.Sign(k, noon); err != nil {
			p.t.Fatal(err)
		}
	}
	id, err := p.store.Put(p.t.Context(), cas.Document, bytes.NewReader(p.body))
	if err != nil {
		p.t.Fatal(err)
	}
	if len(keys) > 0 {
		p.names[bundle.SignaturesRef(id.Digest)] = cas.ID{Kind: cas.Blob, Digest: p.put(p.list.Signatures.Append(nil))}
	}
	return p
}

// prove adds evidence.
func (p *pack) prove(name, kind string, b []byte) {
	p.evidence[name] = manifest.Evidence{Name: name, Digest: p.put(b), Size: int64(len(b)), Type: kind}
}

func (p *pack) put(b []byte) cas.Digest {
	info, err := p.store.Put(p.t.Context(), cas.Blob, bytes.NewReader(b))
	if err != nil {
		p.t.Fatal(err)
	}
	return info.Digest
}

// Ref makes a pack the refs of its store.
func (p *pack) Ref(name string) (cas.ID, error) {
	if id, ok := p.names[name]; ok {
		return id, nil
	}
	return cas.ID{}, fs.ErrNotExist
}

// dir writes the bundle into a directory.
func (p *pack) dir() string {
	p.t.Helper()
	dir := p.t.TempDir()
	write := func(name string, b []byte, mode fs.FileMode) {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(at, b, mode); err != nil {
			p.t.Fatal(err)
		}
	}
	for name, f := range p.files {
		write(name, f.Data, f.Mode)
	}
	home := ".ai/bundles/" + p.list.BundleID + "/"
	write(home+"manifest.yaml", manifest.Join(nil, p.body, p.list.Signatures), 0o644)
	for _, e := range p.list.Evidence {
		write(home+e.Name, p.get(e.Digest), 0o644)
	}
	return dir
}

func (p *pack) get(d cas.Digest) []byte {
	o, err := p.store.Get(p.t.Context(), cas.ID{Kind: cas.Blob, Digest: d})
	if err != nil {
		p.t.Fatal(err)
	}
	defer o.Close()
	b, err := io.ReadAll(o)
	if err != nil {
		p.t.Fatal(err)
	}
	return b
}

func (p *pack) archive() []byte {
	p.t.Helper()
	var b bytes.Buffer
	if err := archive.Write(p.t.Context(), &b, p.body, p.list.Signatures, &p.store); err != nil {
		p.t.Fatal(err)
	}
	return b.Bytes()
}

// sources are all the places where the bundle can be.
func (p *pack) sources() map[string]bundle.Source {
	return map[string]bundle.Source{
		"directory": bundle.InDir(p.dir(), p.list.BundleID),
		"archive":   bundle.InArchive(bytes.NewReader(p.archive())),
		"store":     bundle.InStore(&p.store, p, p.list.ID),
	}
}

func (p *pack) options() bundle.VerifyOptions {
	return bundle.VerifyOptions{Trust: trusting(p.t, ""), Below: []*ai.Space{library()}, TempDir: p.t.TempDir()}
}

func verify(t testing.TB, src bundle.Source, o bundle.VerifyOptions) *bundle.Report {
	t.Helper()
	r, err := bundle.Verify(t.Context(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func lines(all []*bundle.Failure) (text []string) {
	for _, f := range all {
		text = append(text, f.Error())
	}
	return text
}

// failures wants lines that begin so, in order.
func failures(t testing.TB, name string, r *bundle.Report, want ...string) {
	t.Helper()
	got := lines(r.Failures)
	ok := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		ok = ok && strings.HasPrefix(got[i], want[i])
	}
	if !ok || r.OK() != (len(want) == 0) {
		t.Errorf("%s: got\n\t%s\nwant\n\t%s", name, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
