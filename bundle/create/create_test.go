package create

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/cas/goldentest"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/statcache"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/sign"
)

func TestCreate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("modes are another test's")
		return
	}
	w := newWorld(t)
	r := w.create()
	got := w.read(at)
	goldentest.File(t, filepath.Join("testdata", "created.yaml"), []byte(got))
	if !r.Written || r.Items != 4 || r.Remembered || r.Path != at || r.Read != 7 || len(r.Bundle.Files) != 7 {
		t.Errorf("%+v", r)
	}
	for _, f := range r.Bundle.Files {
		o, err := w.o.Store.Get(t.Context(), cas.ID{Kind: cas.Blob, Digest: f.Digest})
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(o); err != nil || string(b) != w.read(f.Path) {
			t.Errorf("%s: the store has %q, %v", f.Path, b, err)
		}
	}
	// What is kept in the store for the bundle is taken from the result, and not made again.
	var inTree []manifest.File
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(cas.Walk(t.Context(), w.o.Store, cas.ID{Kind: cas.TreeKind, Digest: r.Tree},
		func(path string, e cas.Entry) error {
			if e.Mode != cas.Dir {
				inTree = append(inTree, manifest.File{Path: path, Digest: e.Digest, Size: e.Size, Mode: e.Mode})
			}
			return nil
		}))
	slices.SortFunc(inTree, func(a, b manifest.File) int { return strings.Compare(a.Path, b.Path) })
	if !slices.EqualFunc(inTree, r.Bundle.Files, func(a, b manifest.File) bool {
		return a.Path == b.Path && a.Digest == b.Digest && a.Size == b.Size && a.Mode == b.Mode
	}) {
		t.Errorf("the tree has %v", inTree)
	}
	body, _, err := manifest.Split([]byte(got))
	if !bytes.Equal(body, r.Text) {
		t.Errorf("the text is %q", r.Text)
	}
	if err != nil {
		t.Fatal(err)
	}
	o, err := w.o.Store.Get(t.Context(), cas.ID{Kind: cas.Document, Digest: r.ID})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(o); err != nil || !bytes.Equal(b, body) {
		t.Errorf("the store's document is %q, %v", b, err)
	}
}

// What was made can be verified.
func TestCreateVerifies(t *testing.T) {
	w := newWorld(t)
	w.create()
	report, err := bundle.Verify(t.Context(), bundle.InDir(w.dir, "acme/deploy"),
		bundle.VerifyOptions{Trust: w.o.Trust, Below: w.o.Below, AllowExtra: true})
	if err != nil || !report.OK() || report.Good != 7 || len(report.Vouched) != 4 {
		t.Errorf("%v, %+v", err, report)
	}
}

// With unchanged files everything stays as it is, and the store isn't asked for a byte of them.
func TestCreateUnchanged(t *testing.T) {
	w := newWorld(t)
	store := &counting{Store: w.o.Store}
	w.o.Store = store
	w.remember()
	first := w.create()
	w.o.Cache.Close(t.Context())
	text := w.read(at)
	store.blobs.Store(0)
	again := w.create()
	if runtime.GOOS == "linux" && again.Read != 0 {
		t.Errorf("%d files were read", again.Read)
	}
	if again.Written || !again.Remembered || again.ID != first.ID || again.Items != first.Items ||
		w.read(at) != text || store.blobs.Load() != 0 {
		t.Errorf("%+v after reading %d blobs\n%s\nwant\n%s", again, store.blobs.Load(), w.read(at), text)
	}
	// Nor when the manifest is gone, or the lines of others stand there.
	if err := os.Remove(w.path(at)); err != nil {
		t.Fatal(err)
	}
	w.signs.Store(0)
	if r := w.create(); !r.Written || !r.Remembered || w.read(at) != text || store.blobs.Load() != 0 {
		t.Errorf("%+v after reading %d blobs\n%s", r, store.blobs.Load(), w.read(at))
	}
	w.o.Paranoid = true
	if r := w.create(); r.Written || r.Remembered || r.Read != 7 || store.blobs.Load() == 0 {
		t.Errorf("paranoid: %+v after reading %d blobs", r, store.blobs.Load())
	}
}

func (w *world) remember() {
	cache := w.TempDir()
	// An hour from now every file is older than the time in which a change may go unnoticed.
	hence := func() statcache.Moment {
		return statcache.Moment{Wall: time.Now().Add(time.Hour).UnixNano(), Up: 1, Boot: 1}
	}
	w.o.Cache = statcache.Open(filepath.Join(cache, "stat"), statcache.Options{Now: hence})
	w.o.Memory = &Memory{Memory: admission.Memory{File: filepath.Join(cache, "seen", "acme")},
		Under: cas.Sum([]byte("rye 1"))}
}

// A counting store counts the files that are read from it.
type counting struct {
	Store
	blobs atomic.Int64
}

func (s *counting) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	if id.Kind == cas.Blob {
		s.blobs.Add(1)
	}
	return s.Store.Get(ctx, id)
}

// Whatever could change an answer makes that all is checked again.
func TestCreateForgets(t *testing.T) {
	for name, change := range map[string]func(*world){
		"a file":      func(w *world) { w.write("docs/a.md", "more\n") },
		"a new file":  func(w *world) { w.write("docs/b.md", "more\n") },
		"a mode":      func(w *world) { os.Chmod(w.path("docs/a.md"), 0o755) },
		"a left file": func(w *world) { w.write(".ai/tools/acme/left.txt", "") },
		"rye":         func(w *world) { w.o.Memory.Under = cas.Sum([]byte("rye 2")) },
		"no name":     func(w *world) { w.o.Memory.Under = cas.Digest{} },
		"policy":      func(w *world) { w.o.Trust = trustIn(w, "# new\n") },
		"project":     func(w *world) { w.o.Trust.Project = &trustIn(w, "").Root },
		"allowance":   func(w *world) { w.recipe(recipeText + "allow-secret: {docs/x: why}\n") },
		"time":        func(w *world) { w.o.Trust.Now = w.o.Trust.Now.Add(-time.Second) },
		"garbage":     func(w *world) { os.WriteFile(w.o.Memory.File, []byte("x"), 0o600) },
		"damage":      func(w *world) { os.WriteFile(w.o.Memory.File, []byte("rye found good 1\n\n\n\n\n"), 0o600) },
		"a flipped letter": func(w *world) {
			b, _ := os.ReadFile(w.o.Memory.File)
			b[30] ^= 1
			os.WriteFile(w.o.Memory.File, b, 0o600)
		},
		"the store": func(w *world) {
			w.o.Store = new(cas.Memory)
			os.Remove(w.path(at))
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			w := newWorld(t)
			w.remember()
			w.create()
			if r := w.create(); !r.Remembered {
				t.Fatal("nothing is remembered")
			}
			change(w)
			if runtime.GOOS == "windows" && name == "a mode" {
				return
			}
			if r := w.create(); r.Remembered {
				t.Error("it is remembered all the same")
			}
		})
	}
}

func TestCreateHead(t *testing.T) {
	w := newWorld(t)
	first := w.create()
	w.recipe(strings.Replace(recipeText, "1.4.0", "1.4.1", 1))
	if r := w.create(); r.ID == first.ID || !r.Written || r.Name != "bundle:acme/deploy@1.4.1" ||
		len(r.Signatures) != 1 {
		t.Errorf("%+v", r.Document)
	}
}

// Others who signed the same manifest stay; a signature that doesn't hold goes, and so do those of another manifest.
func TestCreateKeepsSignatures(t *testing.T) {
	w := newWorld(t)
	w.create()
	b, err := bundle.Parse([]byte(w.read(at)))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Sign(eve, created); err != nil {
		t.Fatal(err)
	}
	body, err := b.Body()
	if err != nil {
		t.Fatal(err)
	}
	both := manifest.Join(nil, body, b.Signatures)
	w.write(at, string(both))
	if r := w.create(); r.Written || w.read(at) != string(both) {
		t.Errorf("signed by %d\n%s", len(r.Signatures), w.read(at))
	}
	for i := range b.Signatures {
		if b.Signatures[i].Key == alice.Public().Fingerprint() {
			b.Signatures[i].Sig[3] ^= 1
		}
	}
	w.write(at, string(manifest.Join(nil, body, b.Signatures)))
	r := w.create()
	if signers, err := r.Check(w.o.Trust.Find); err != nil || len(signers) != 1 || len(r.Signatures) != 2 {
		t.Errorf("%v, %v", signers, err)
	}
	w.write("docs/a.md", "other\n")
	if r := w.create(); len(r.Signatures) != 1 {
		t.Errorf("another manifest is signed by %d", len(r.Signatures))
	}
	w.write(at, "what is no manifest\n")
	if r := w.create(); !r.Written || len(r.Signatures) != 1 {
		t.Errorf("%+v", r.Document)
	}
}

// Evidence about the same files stays as long as its manifest is admitted.
func TestCreateKeepsEvidence(t *testing.T) {
	w := newWorld(t)
	first := w.create()
	head := *first.FileList
	head.Evidence = []manifest.Evidence{{Name: "sbom.cdx.json", Digest: cas.Sum([]byte("{}")), Size: 2,
		Type: "application/vnd.cyclonedx+json"}}
	body, list, err := manifest.AppendFileList(nil, &head, first.Bundle.Files)
	if err != nil {
		t.Fatal(err)
	}
	w.write(at, string(body))
	if r := w.create(); len(r.Evidence) != 0 || r.ID != first.ID {
		t.Errorf("unsigned evidence: %+v", r.Evidence)
	}
	if err := list.Sign(alice, created); err != nil {
		t.Fatal(err)
	}
	w.write(at, string(manifest.Join(nil, body, list.Signatures)))
	if r := w.create(); r.Written || r.ID != list.ID || len(r.Evidence) != 1 || r.Subject != first.ID {
		t.Errorf("%+v", r.FileList)
	}
	w.write("docs/a.md", "other\n")
	if r := w.create(); len(r.Evidence) != 0 {
		t.Errorf("evidence about other files: %+v", r.Evidence)
	}
}

// On Windows only the last manifest and the recipe say which files are executable.
func TestCreateModes(t *testing.T) {
	w := newWorld(t)
	help := ".ai/tools/acme/deploy/run/lib/help.sh"
	c := &creation{Options: w.o, result: &Result{}}
	if c.mode(help, cas.Exec) != cas.Exec || c.mode(help, cas.File) != cas.File {
		t.Error("what the file system says doesn't count")
	}
	c.noModes = true
	if c.mode(help, cas.File) != cas.File {
		t.Error("executable without reason")
	}
	c.old = &bundle.Bundle{Files: []manifest.File{{Path: help, Mode: cas.Exec}}}
	if c.mode(help, cas.File) != cas.Exec || c.mode("docs/a.md", cas.File) != cas.File {
		t.Error("the last manifest doesn't count")
	}
	c.old = nil
	w.recipe(recipeText + "executable: [\"**/*.sh\"]\n")
	c.Recipe = w.o.Recipe
	if c.mode(help, cas.File) != cas.Exec || c.mode("docs/a.md", cas.File) != cas.File {
		t.Error("the recipe doesn't count")
	}
}

func TestCreateFails(t *testing.T) {
	bad := errors.New("no")
	for name, c := range map[string]struct {
		change func(*world)
		want   error
	}{
		"signing": {func(w *world) { w.o.Sign = func(*manifest.Document) error { return bad } }, bad},
		"no signer": {func(w *world) {
			w.o.Sign = func(*manifest.Document) error { return nil }
		}, sign.ErrUnsigned},
		"the store's batch":  {func(w *world) { w.o.Store = failing{w.o.Store, "batch", bad} }, bad},
		"the store's commit": {func(w *world) { w.o.Store = failing{w.o.Store, "commit", bad} }, bad},
		"the store's get":    {func(w *world) { w.o.Store = failing{w.o.Store, "get", bad} }, bad},
		"the document":       {func(w *world) { w.o.Store = failing{w.o.Store, "put", bad} }, bad},
		"the manifest's place": {func(w *world) {
			w.write(at+"/x", "a directory stands there")
		}, nil},
		"the bundle's place": {func(w *world) {
			w.write(".ai/bundles", "a file stands there")
		}, nil},
		"no directory": {func(w *world) { w.o.Dir = w.path("nowhere") }, fs.ErrNotExist},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			w := newWorld(t)
			c.change(w)
			r, err := Create(t.Context(), w.o)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Fatalf("%v, %v", r, err)
			}
			err = filepath.WalkDir(w.path(".ai/bundles"), func(path string, d fs.DirEntry, err error) error {
				if err == nil && (strings.HasPrefix(d.Name(), osfile.Unfinished) || d.Name() == "manifest.yaml" &&
					!d.IsDir()) {
					t.Errorf("%s is left", path)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A failing store fails at one thing.
type failing struct {
	Store
	at  string
	err error
}

func (s failing) Batch(ctx context.Context) (cas.Batch, error) {
	if s.at == "batch" {
		return nil, s.err
	}
	b, err := s.Store.Batch(ctx)
	if s.at == "commit" {
		b = lost{b, s.err}
	}
	return b, err
}

// A lost batch can't be committed.
type lost struct {
	cas.Batch
	err error
}

func (l lost) Commit(context.Context) error { return l.err }

func (s failing) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	if s.at == "get" && id.Kind == cas.Blob {
		return cas.Object{}, s.err
	}
	return s.Store.Get(ctx, id)
}

func (s failing) Put(ctx context.Context, kind cas.Kind, r io.Reader) (cas.Info, error) {
	if s.at == "put" {
		return cas.Info{}, s.err
	}
	return s.Store.Put(ctx, kind, r)
}

// After a failure the old manifest still stands, and what a killed process left goes after a while.
func TestCreateKeepsOld(t *testing.T) {
	w := newWorld(t)
	w.create()
	old := w.read(at)
	w.write("docs/a.md", "other\n")
	w.o.Sign = func(*manifest.Document) error { return errors.New("no key") }
	if _, err := Create(t.Context(), w.o); err == nil || w.read(at) != old {
		t.Errorf("%v\n%s", err, w.read(at))
	}
	left, fresh := ".ai/bundles/acme/deploy/"+osfile.Unfinished+"old",
		".ai/bundles/acme/deploy/"+osfile.Unfinished+"new"
	w.write(left, "half")
	w.write(fresh, "half")
	hours := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(w.path(left), hours, hours); err != nil {
		t.Fatal(err)
	}
	w.o.Sign = w.sign
	w.create()
	if _, err := os.Stat(w.path(left)); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
	if w.read(fresh) != "half" {
		t.Error("what another process writes is gone")
	}
}

func TestCreateCancelled(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	w.o.Sign = func(d *manifest.Document) error {
		cancel(why)
		return d.Sign(alice, created)
	}
	if _, err := Create(ctx, w.o); err != why {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(w.path(at)); !os.IsNotExist(err) {
		t.Errorf("the manifest is there: %v", err)
	}
}

// On a store on disk, too.
func TestCreateOnDisk(t *testing.T) {
	w := newWorld(t)
	s, err := disk.Open(filepath.Join(t.TempDir(), "store"), disk.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w.o.Store = s
	first := w.create()
	if again := w.create(); again.Written || again.ID != first.ID {
		t.Errorf("%+v", again)
	}
}

// Assets are searched as they are stored, and not asked back from the store, unless they weren't read.
func TestCreateReadsOnce(t *testing.T) {
	w := newWorld(t)
	store := &counting{Store: w.o.Store}
	w.o.Store = store
	w.create()
	before := store.blobs.Swap(0)
	for i := range 20 {
		w.write(fmt.Sprintf("docs/%d.md", i), fmt.Sprintf("%d\n", i))
	}
	w.write("docs/long.md", strings.Repeat("long\n", 1e6))
	if r := w.create(); len(r.Bundle.Files) != 28 || store.blobs.Load() != before {
		t.Errorf("%d files, %d blobs were read from the store, and %d with 21 files less", len(r.Bundle.Files),
			store.blobs.Load(), before)
	}
	if runtime.GOOS != "linux" {
		return // nothing is remembered
	}
	token := "gh" + "p_kX9fQ2mLw8ZrT5vBn3Yc7HdJs4Gp6AeUi1Ko"
	w.write("docs/b.md", token+"\n")
	w.write("docs/long.md", strings.Repeat("long\n", 1e6)+token)
	w.remember()
	found := []string{`"docs/b.md": line 1, column 1: looks like a secret (github: ghp_…)`,
		`"docs/long.md": line 1000001, column 1: looks like a secret (github: ghp_…)`}
	for _, known := range []bool{false, true} {
		store.blobs.Store(0)
		w.refused(found...)
		w.o.Cache.Close(t.Context())
		if asked := store.blobs.Load() > before; asked != known {
			t.Errorf("%d blobs were read from the store", store.blobs.Load())
		}
	}
}

// The files of directories, told in any order, are listed in the order of their paths.
func TestList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		dirs, want := map[string][]listed{}, []string{}
		for range 1 + r.IntN(40) {
			name := ""
			for range 1 + r.IntN(4) {
				name += "/" + []string{"a", "a-", "a.b", "a0", "b", "B"}[r.IntN(6)]
			}
			// a file and a directory may have the beginning of a name in common
			want = append(want, name[1:]+"+"[r.IntN(2):])
		}
		slices.Sort(want)
		want = slices.Compact(want)
		for _, name := range want {
			dirs[filepath.Dir(name)] = append(dirs[filepath.Dir(name)],
				listed{manifest.File{Path: name}, strings.HasSuffix(name, "+")})
		}
		c := new(creation)
		c.list(slices.Collect(maps.Values(dirs)))
		var got []string
		for i, f := range c.files {
			got = append(got, f.Path)
			if c.read[i] != strings.HasSuffix(f.Path, "+") {
				t.Errorf("%s was read: %v", f.Path, c.read[i])
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q\nwant %q", got, want)
		}
	}
}
