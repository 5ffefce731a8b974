package relock_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest"
)

// TestOddManifests: what rye never writes into a manifest, but a manifest may say.
func TestOddManifests(t *testing.T) {
	w := shop(t).build()
	l, _ := w.made()
	see := *l.Pin(ref("knowledge:see"))
	for name, c := range map[string]struct {
		file    manifest.File
		require manifest.Require
		want    string
	}{
		"an item outside": {manifest.File{Path: "knowledge/see.md", Digest: see.Digest, Size: 1, Mode: cas.File,
			Ref: "knowledge:see", Version: "2.0.0"}, manifest.Require{},
			`"knowledge:see": "knowledge/see.md" is not a valid path of an item`},
		"a range that is none": {manifest.File{Path: ".ai/knowledge/see.md", Digest: see.Digest, Size: 1,
			Mode: cas.File, Ref: "knowledge:see", Version: "2.0.0"},
			manifest.Require{BundleID: "acme/base", Version: "latest"}, `"bundle:acme/util@1.2.0": `},
	} {
		body, _, err := manifest.AppendFileList(nil, &manifest.FileList{BundleID: "acme/util", Version: "1.2.0",
			Requires: requires(c.require)}, []manifest.File{c.file})
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.edited(func(l *file.Lock) { l.Bundles[1].Manifest = w.put(cas.Document, body) })
		if got := all(err); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %s", name, got)
		}
		if e, ok := errors.AsType[*lock.RefusedError](err); !ok || errors.Unwrap(e.Problems[0]) == nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func requires(r manifest.Require) []manifest.Require {
	if r.BundleID == "" {
		return nil
	}
	return []manifest.Require{r}
}

// TestMoreLibrary: a library without a pinned kind, none at all, and one whose trees can't be.
func TestMoreLibrary(t *testing.T) {
	w := shop(t).build()
	l, b := w.made()
	refused := func(std *ai.Space) string {
		t.Helper()
		_, err := lock.NewSet(t.Context(), l, cas.Sum(b), lock.SetOptions{Objects: w, Std: std})
		if e, ok := errors.AsType[*lock.StdError](err); !ok || len(e.Items) == 0 {
			t.Fatalf("got %v", err)
		}
		return all(err)
	}
	if got := refused(nil); strings.Count(got, "doesn't have it") != 8 {
		t.Errorf("got %s", got)
	}
	other := fstest.MapFS{}
	if err := fs.WalkDir(w.std.FS, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, _ := fs.ReadFile(w.std.FS, p)
			other[p] = &fstest.MapFile{Data: text, Mode: 0o644}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	space := &ai.Space{Label: file.FromStd, FS: other, Builtin: true}
	if _, err := lock.NewSet(t.Context(), l, cas.Sum(b), lock.SetOptions{Objects: w, Std: space}); err != nil {
		t.Fatal(all(err))
	}
	const lib = "tools/rye/core/runtimes/lib/python/"
	other[lib+"more.py"] = &fstest.MapFile{Data: []byte("x = 1\n")}
	if got := refused(space); !strings.Contains(got, "with the files, but is") {
		t.Errorf("got %s", got)
	}
	other[lib+"a|b"] = &fstest.MapFile{}
	if got := refused(space); !strings.Contains(got, "a|b") {
		t.Errorf("got %s", got)
	}
	delete(other, lib+"a|b")
	delete(other, lib+"more.py")
	// Another item with this id, which hides the pinned one from callers that ask for its tree.
	other["tools/rye/core/runtimes/python_script_runtime.py"] = &fstest.MapFile{Data: []byte(pyTool(python))}
	if got := refused(space); !strings.Contains(got, "is ambiguous") {
		t.Errorf("got %s", got)
	}
	delete(other, "tools/rye/core/runtimes/python_script_runtime.py")
	// Config that the library alone has is what the binary says: nothing pins it, and it is always there.
	other["config/own.yaml"] = &fstest.MapFile{Data: []byte("a: 1\n")}
	// A file that was added to a tree after the set was made is found when it is used.
	s, err := lock.NewSet(t.Context(), l, cas.Sum(b), lock.SetOptions{Objects: w, Std: space})
	if err != nil {
		t.Fatal(all(err))
	}
	u := w.use(s)
	if err := s.CheckConfig(t.Context(), u.view, u.admit); err != nil {
		t.Error(err)
	}
	if m, err := s.Config(t.Context(), u.view, u.admit, "own"); err != nil || m.Value.Get("a").Text != "1" {
		t.Errorf("got %v", err)
	}
	other[lib+"more.py"] = &fstest.MapFile{Data: []byte("x = 1\n")}
	_, err = u.state(t.Context(), ref("tool:"+python))
	if fault.Of(err).Details["reason"] != "tree" {
		t.Errorf("got %v", err)
	}
}

// TestSidesOfLess: comparing needs no bytes but those of items, and says which it lacks.
func TestSidesOfLess(t *testing.T) {
	w := shop(t).build()
	l, b := w.made()
	was := w.side(l, b, w.options())
	w.edit("tools/acme/shop/run.py", "a test", "another test")
	l, b = w.made()
	// The trees aren't there yet, as when a lock is only tried.
	now := w.side(l, b, lock.SetOptions{Objects: treeless{w}, Std: w.std})
	c, err := lock.Compare(t.Context(), was, now)
	if err != nil || len(c.Report.Unread) > 0 ||
		!strings.Contains(summary(c.Report), "changed tool:acme/shop/run info") {
		t.Errorf("got %v\n%s", err, summary(c.Report))
	}
	// A library whose files can't be opened.
	closed := &ai.Space{Label: file.FromStd, FS: unopened{w.std.FS}, Builtin: true}
	side := w.side(l, b, w.options())
	working := w.view()
	r, err := lock.CompareItem(t.Context(), side, working, ai.NewAdmitter(working, w.trust()), ref("tool:"+bash))
	if err != nil || r.Summary != "nothing is different" {
		t.Errorf("got %v, %v", r, err)
	}
	c, err = lock.Compare(t.Context(), w.side(l, b, lock.SetOptions{Objects: w, Std: closed}), side)
	if err != nil || strings.Contains(summary(c.Report), "rye/core") {
		t.Errorf("got %v, %v", c, err)
	}
	// Items of a kind that only an extractor of the project makes can't be read without trusted keys.
	w = full(t)
	l, b = w.made()
	was = w.side(l, b, w.options())
	w.project()["prompts/acme/hi.txt"].Data = []byte("# Hi\nthere\n")
	w.resign()
	l, b = w.made()
	c, err = lock.Compare(t.Context(), was, w.side(l, b, w.options()))
	if err != nil || !strings.Contains(summary(c.Report), "unread prompt:acme/hi") {
		t.Errorf("got %v\n%s", err, summary(c.Report))
	}
}

type unopened struct{ fs.FS }

func (u unopened) Open(name string) (fs.File, error) {
	if strings.Contains(name, ".") && name != "." && !strings.Contains(name, "extractors") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return u.FS.Open(name)
}

// TestUnreadableFolder: an unreadable directory may hold what would hide a pin.
func TestUnreadableFolder(t *testing.T) {
	w := shop(t).build()
	s := w.set()
	w.spaces["project"].FS = locked{w.project(), "tools/acme/base"}
	if got, want := w.drift(s, "tool:acme/base/fetch"),
		`unreadable "tool:acme/base/fetch": "project/tools/acme/base": permission denied`; got != want {
		t.Errorf("got %s", got)
	}
	// A file stands where a directory could.
	w = shop(t).build()
	s = w.set()
	w.project()["tools/acme/base"] = &fstest.MapFile{Data: []byte("x")}
	if got := w.drift(s, "tool:acme/base/fetch"); got != "" {
		t.Errorf("got %s", got)
	}
	// What can't be read isn't what is pinned.
	w.spaces["project"].FS = locked{w.project(), "tools/acme/hello.sh"}
	if got := w.drift(s, "tool:acme/hello"); !strings.Contains(got,
		`"tool:acme/hello": "project/tools/acme/hello.sh": permission denied`) {
		t.Errorf("got %s", got)
	}
}

// A locked file system doesn't let anybody into one place.
type locked struct {
	fstest.MapFS
	name string
}

func (l locked) refuse(op, name string) error {
	if name == l.name || strings.HasPrefix(name, l.name+"/") {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrPermission}
	}
	return nil
}

func (l locked) Open(name string) (fs.File, error) {
	if err := l.refuse("open", name); err != nil {
		return nil, err
	}
	return l.MapFS.Open(name)
}

func (l locked) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := l.refuse("open", name); err != nil {
		return nil, err
	}
	return l.MapFS.ReadDir(name)
}

func (l locked) Lstat(name string) (fs.FileInfo, error) {
	if err := l.refuse("lstat", name); err != nil {
		return nil, err
	}
	return l.MapFS.Lstat(name)
}

// BenchmarkNewSet: a set of many items of one file is made of what the lock says, and reads none of them.
func BenchmarkNewSet(b *testing.B) {
	w := shop(b).build()
	l, _ := w.made()
	p := *l.Pin(ref("knowledge:acme/note"))
	for i := range 10_000 {
		p.Ref.ID, p.Path = fmt.Sprintf("acme/many/%d", i), fmt.Sprintf("knowledge/acme/many/%d.md", i)
		l.Pins = append(l.Pins, p)
	}
	l, text := w.written(l)
	for b.Loop() {
		if _, err := lock.NewSet(b.Context(), l, cas.Sum(text), w.options()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(l.Pins)), "ns/pin")
}

// A treeless source has no trees.
type treeless struct{ *world }

func (s treeless) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	if id.Kind == cas.TreeKind {
		return cas.Object{}, fs.ErrNotExist
	}
	return s.world.Get(ctx, id)
}
