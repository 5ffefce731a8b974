package tree_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rye-build/rye/ai/tree"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/sign"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o644} }

func exec(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o755} }

func read(t *testing.T, fsys fs.FS) *tree.Tree {
	t.Helper()
	got, err := tree.Root{FS: fsys, Dir: "tools/x", Except: "x.py"}.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// sample is a tool of several files.
func sample() fstest.MapFS {
	return fstest.MapFS{
		"tools/x/x.py":                     file("executor_id = 1\n"),
		"tools/x/lib/__init__.py":          file(""),
		"tools/x/lib/run.sh":               exec("#!/bin/sh\nexit 0\n"),
		"tools/x/lib.py":                   file("a = 1\n"),
		"tools/x/data.json":                file("{}\n"),
		"tools/x/.hidden":                  file("seen\n"),
		"tools/x/__pycache__/x.pyc":        file("left out"),
		"tools/x/node_modules/a/index.js":  file("left out"),
		"tools/x/.git/config":              file("left out"),
		"tools/x/lib/.DS_Store":            file("left out"),
		"tools/y/y.py":                     file("another tool"),
		"tools/x/z/größe.txt":              file("allowed"),
		"tools/x/x.py.d/x.py":              file("not the tool's own file"),
		"tools/x/lib-and-more/notes v2.md": file("a space is portable"),
	}
}

// TestVector keeps the bytes that are hashed, and the digest that signatures have in them.
func TestVector(t *testing.T) {
	got := read(t, sample())
	var b strings.Builder
	fmt.Fprintf(&b, "rye: \"files/2\"\nfiles:\n")
	for _, f := range got.Files {
		fmt.Fprintf(&b, "  %q: {digest: \"%s\", mode: %q}\n", f.Path, f.Stripped, f.Mode)
	}
	listing := strings.ReplaceAll(b.String(), `\u00f6\u00df`, "öß")
	if d := cas.Sum([]byte(listing)); d != got.Digest {
		t.Errorf("the listing has the digest %s, the tree says %s", d, got.Digest)
	}
	text := listing + "\n" + got.Digest.String() + "\n"
	goldentest.File(t, filepath.Join("testdata", "vectors", "files.txt"), []byte(text))
}

// TestNoOtherFiles: a directory with nothing but the tool makes it a file of its own.
func TestNoOtherFiles(t *testing.T) {
	got := read(t, fstest.MapFS{"tools/x/x.py": file("a"), "tools/x/__pycache__/x.pyc": file("b")})
	if !got.Digest.IsZero() || len(got.Files) != 0 || len(got.Digests()) != 0 {
		t.Errorf("got %v", got)
	}
}

// TestEveryChangeShows changes one thing at a time.
func TestEveryChangeShows(t *testing.T) {
	before := read(t, sample()).Digest
	for name, change := range map[string]func(fstest.MapFS){
		"a byte":        func(m fstest.MapFS) { m["tools/x/lib.py"] = file("a = 2\n") },
		"a line end":    func(m fstest.MapFS) { m["tools/x/lib.py"] = file("a = 1\r\n") },
		"exec bit set":  func(m fstest.MapFS) { m["tools/x/lib.py"] = exec("a = 1\n") },
		"exec bit gone": func(m fstest.MapFS) { m["tools/x/lib/run.sh"].Mode = 0o644 },
		"removed":       func(m fstest.MapFS) { delete(m, "tools/x/data.json") },
		"added":         func(m fstest.MapFS) { m["tools/x/new.py"] = file("") },
		"added, hidden": func(m fstest.MapFS) { m["tools/x/.env"] = file("") },
		"renamed": func(m fstest.MapFS) {
			m["tools/x/lib2.py"] = m["tools/x/lib.py"]
			delete(m, "tools/x/lib.py")
		},
		"moved": func(m fstest.MapFS) {
			m["tools/x/z/lib.py"] = m["tools/x/lib.py"]
			delete(m, "tools/x/lib.py")
		},
		"almost a line":   func(m fstest.MapFS) { m["tools/x/lib.py"] = file("# rye:signed: yes\na = 1\n") },
		"a line, in JSON": func(m fstest.MapFS) { m["tools/x/data.json"] = file("# rye:signed:v2:x\n{}\n") },
	} {
		m := sample()
		change(m)
		if after := read(t, m).Digest; after == before {
			t.Errorf("%s: the tree is the same", name)
		}
	}
	m := sample()
	m["tools/x/x.py"], m["tools/y/y.py"], m["tools/x/__pycache__/y.pyc"] = file("changed"), file("changed"),
		file("new")
	if after := read(t, m).Digest; after != before {
		t.Error("what is not of the tree changes it")
	}
}

// TestSignaturesOfOthers: two tools in one directory can both be signed, and upgrading a helper changes nothing.
func TestSignaturesOfOthers(t *testing.T) {
	k, err := key.Generate(bytes.NewReader(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	m := sample()
	before := read(t, m)
	claim := sign.Claim{Domain: sign.Item, Name: "tool:x/lib"}
	signed, err := sign.Sign(m["tools/x/lib.py"].Data, sign.Hash, claim, k, time.Unix(1e9, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	m["tools/x/lib.py"].Data = signed
	after := read(t, m)
	if after.Digest != before.Digest {
		t.Error("signing a helper changes the tree")
	}
	if n := len(after.Digests()); n != len(after.Files)+1 {
		t.Errorf("a signed file can be revoked by two digests, found %d for %d files", n, len(after.Files))
	}
	// A line of the first format is taken off where it is a comment, and is content where it isn't.
	v1 := "# rye:signed:2026-11-20T09:00:00Z:8c32baea2856eafac9618af8090e77b1c862c7817ed6855a5ef5d2a1cea8b3c5:" +
		"Wl0eozhoFitnYRGDC027hnvHDA0DHhGpqUnQoGwo2g0YIyAuwCT0_1VxPlWCZeE20je2TAs3bgGKhwSDANFQCw==:7f2d9ed0b71b8e5a\n"
	m = sample()
	m["tools/x/lib.py"].Data = []byte(v1 + "a = 1\n")
	if read(t, m).Digest != before.Digest {
		t.Error("a line of the first format in Python changes the tree")
	}
	m = sample()
	notes := m["tools/x/lib-and-more/notes v2.md"]
	notes.Data = append([]byte(v1), notes.Data...)
	if read(t, m).Digest == before.Digest {
		t.Error("a heading of a document is not seen")
	}
	// Lines out of order are refused, whichever key made them.
	m = sample()
	m["tools/x/lib.py"].Data = append(bytes.Clone(signed[:bytes.IndexByte(signed, '\n')+1]), signed...)
	_, err = tree.Root{FS: m, Dir: "tools/x", Except: "x.py"}.Read(t.Context())
	if ie, ok := errors.AsType[*sign.IntegrityError](err); !ok || ie.What != "lines" {
		t.Errorf("one line twice: %v", err)
	}
}

func TestRefused(t *testing.T) {
	m := sample()
	for name, f := range map[string]*fstest.MapFile{
		"link.py":     {Data: []byte("lib.py"), Mode: fs.ModeSymlink | 0o777},
		"out":         {Data: []byte("../../.."), Mode: fs.ModeSymlink | 0o777},
		"fifo":        {Mode: fs.ModeNamedPipe | 0o644},
		"aux.py":      file("device"),
		"a:b":         file("stream"),
		"x~1":         file("short"),
		"sub/e\u0301": file("not normal"),
	} {
		m["tools/x/"+name] = f
	}
	_, err := tree.Root{FS: m, Dir: "tools/x", Except: "x.py"}.Read(t.Context())
	refused, ok := errors.AsType[*tree.RefusedError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	var names []string
	for _, f := range refused.Files {
		names = append(names, f.Path)
	}
	want := []string{"a:b", "aux.py", "fifo", "link.py", "out", "sub/e\u0301", "x~1"}
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if text := err.Error(); !strings.HasPrefix(text, `"a:b": path "a:b" has ':' in it`) ||
		!strings.HasSuffix(text, "(and 6 more)") {
		t.Errorf("got %s", text)
	}
	for _, e := range refused.Files[3:5] {
		if e.Err.Error() != "is a symbolic link, which a tree can't contain" {
			t.Errorf("%s: %v", e.Path, e.Err)
		}
	}
	if _, ok := errors.AsType[*portable.Error](err); !ok {
		t.Error("the reason is not to be found")
	}
}

func TestRefusedTogether(t *testing.T) {
	m := sample()
	m["tools/x/LIB.py"] = file("")
	_, err := tree.Root{FS: m, Dir: "tools/x", Except: "x.py"}.Read(t.Context())
	pe, ok := errors.AsType[*portable.Error](err)
	if !ok || pe.Rule != "duplicate" {
		t.Errorf("got %v", err)
	}
}

func TestMany(t *testing.T) {
	m := fstest.MapFS{}
	for i := range tree.MaxFiles + 1 {
		m[fmt.Sprintf("d/%05d", i)] = file("")
	}
	_, err := tree.Root{FS: m, Dir: "d"}.Read(t.Context())
	if err == nil || err.Error() != `"d": has more than 16384 files, too many for one tool` {
		t.Errorf("got %v", err)
	}
	delete(m, "d/00000")
	if _, err := (tree.Root{FS: m, Dir: "d"}).Read(t.Context()); err != nil {
		t.Error(err)
	}
}

// broken fails to open or read some names.
type broken struct {
	fstest.MapFS
	bad string
}

var errBroken = errors.New("broken")

func (b broken) Open(name string) (fs.File, error) {
	if name == b.bad {
		return nil, errBroken
	}
	return b.MapFS.Open(name)
}

func (b broken) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == b.bad {
		return nil, errBroken
	}
	return b.MapFS.ReadDir(name)
}

func TestErrors(t *testing.T) {
	for _, bad := range []string{"tools/x", "tools/x/lib", "tools/x/lib.py"} {
		_, err := tree.Root{FS: broken{sample(), bad}, Dir: "tools/x"}.Read(t.Context())
		if !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (tree.Root{FS: sample(), Dir: "tools/x"}).Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := tree.New([]tree.File{{Path: "a"}}); err == nil ||
		err.Error() != `"a" is neither a file nor executable` {
		t.Errorf("got %v", err)
	}
	if _, err := tree.New([]tree.File{{Path: "../a", Mode: cas.File}}); err == nil {
		t.Error("a path that leads out is listed")
	}
}

// TestExec: if modes say nothing, Exec decides.
func TestExec(t *testing.T) {
	root := tree.Root{FS: sample(), Dir: "tools/x", Except: "x.py"}
	root.Exec = func(name string, _ fs.FileInfo) bool { return name == "tools/x/lib.py" }
	got, err := root.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range got.Files {
		if (f.Mode == cas.Exec) != (f.Path == "lib.py") {
			t.Errorf("%s is %s", f.Path, f.Mode)
		}
	}
}

// TestBelow: a directory of a runtime is listed alone, under its path.
func TestBelow(t *testing.T) {
	for below, want := range map[string]string{"lib": "lib/__init__.py lib/run.sh", "gone": ""} {
		got, err := tree.Root{FS: sample(), Dir: "tools/x", Below: below}.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range got.Files {
			names = append(names, f.Path)
		}
		if text := strings.Join(names, " "); text != want {
			t.Errorf("%s: got %q", below, text)
		}
	}
	if _, err := (tree.Root{FS: broken{sample(), "tools/x/lib"}, Dir: "tools/x",
		Below: "lib"}).Read(t.Context()); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkRead(b *testing.B) {
	m := fstest.MapFS{}
	for i := range 200 {
		m[fmt.Sprintf("d/lib%03d.py", i)] = file(strings.Repeat("a = 1\n", 400))
	}
	for b.Loop() {
		if _, err := (tree.Root{FS: m, Dir: "d"}).Read(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
