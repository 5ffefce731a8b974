package relock_test

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/project"
)

func walk(t testing.TB, s *ai.Space) (all []string) {
	t.Helper()
	if err := fs.WalkDir(s.FS, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, p)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSet: a set has what is pinned, the files of pinned tools, config, and nothing else.
func TestSet(t *testing.T) {
	w := shop(t).build()
	s := w.set()
	want := map[string]string{
		"project": "config/net.yaml directives/acme/deploy.md knowledge/acme/note.md tools/acme/hello.sh tools/acme/shop/__init__.py tools/acme/shop/idle.py " +
			"tools/acme/shop/lib/go.sh tools/acme/shop/lib/help.py tools/acme/shop/run.py tools/acme/shop/walk.py",
		base: "config/net.yaml tools/acme/base/fetch.yaml tools/acme/deep/multi/__init__.py tools/acme/deep/multi/helper.py tools/acme/deep/multi/multi.py",
		util: "knowledge/see.md",
	}
	spaces := s.Spaces()
	for _, space := range spaces {
		if space.Builtin {
			continue
		}
		if got := strings.Join(walk(t, space), " "); got != want[space.Label] {
			t.Errorf("%s: got\n%s\nwant\n%s", space.Label, got, want[space.Label])
		}
		delete(want, space.Label)
	}
	if len(want) > 0 {
		t.Errorf("there is no %v", want)
	}
	if !slices.Equal(spaces[1].Requires, []string{util, "system:rye/std"}) {
		t.Errorf("got %q", spaces[1].Requires)
	}
	u := w.use(s)
	for _, p := range s.Lock().Pins {
		if _, err := u.state(t.Context(), p.Ref); err != nil {
			t.Errorf("%s: %v", p.Ref, err)
		}
	}
	if err := s.CheckConfig(t.Context(), u.view, u.admit); err != nil {
		t.Error(err)
	}
	for _, root := range w.roots {
		if strings.HasPrefix(root, "tool:") {
			if _, err := ai.Walk(t.Context(), u.resolver, ref(root)); err != nil {
				t.Errorf("%s: %v", root, err)
			}
		}
	}
}

// edited is a set of the world's lock after an edit of it, or why there is none.
func (w *world) edited(edit func(*file.Lock)) (*lock.Set, error) {
	w.Helper()
	l, _ := w.made()
	edit(l)
	l, b := w.written(l)
	return lock.NewSet(w.Context(), l, cas.Sum(b), w.options())
}

// gone is a source without an object.
type gone struct {
	*world
	id cas.Digest
}

func (g gone) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	if id.Digest == g.id {
		return cas.Object{}, fs.ErrNotExist
	}
	return g.world.Get(ctx, id)
}

// TestRefused: everything that doesn't fit is reported at once.
func TestRefused(t *testing.T) {
	w := shop(t).build()
	l, _ := w.made()
	see, bashPin, pythonPin := *l.Pin(ref("knowledge:see")), *l.Pin(ref("tool:" + bash)), *l.Pin(ref("tool:" + python))
	runDigest, runSize := l.Pin(ref("tool:acme/shop/run")).Digest, l.Pin(ref("tool:acme/shop/run")).Size
	other := cas.Sum([]byte("other"))
	nothing, err := w.store.Put(t.Context(), cas.TreeKind, strings.NewReader("rye: \"tree/2\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	outside := w.tree(map[string]string{"tools/acme/shop/run.py": string(w.project()["tools/acme/shop/run.py"].Data),
		"config/evil.yaml": "a: 1\n"})
	changed := w.tree(map[string]string{"tools/acme/shop/run.py": "x"})
	folded := w.tree(map[string]string{"tools/acme/shop/run.py": string(w.project()["tools/acme/shop/run.py"].Data),
		"tools/acme/shop/LIB/help.py": "x = 1\n"})
	halved := w.tree(map[string]string{"tools/acme/shop/run.py": string(w.project()["tools/acme/shop/run.py"].Data),
		"tools/acme/shop/lib/help.py": "x = 2\n"})
	pin := func(text string) func(*file.Lock) *file.Pin {
		return func(l *file.Lock) *file.Pin { return l.Pin(ref(text)) }
	}
	runPin := pin("tool:acme/shop/run")
	for name, c := range map[string]struct {
		edit func(*file.Lock)
		want []string
	}{
		"two bundles in each other's place": {func(l *file.Lock) {
			l.Bundles[0].Manifest, l.Bundles[1].Manifest = l.Bundles[1].Manifest, l.Bundles[0].Manifest
		}, []string{`"bundle:acme/base@2.1.4": the manifest is that of "bundle:acme/util@1.2.0"`,
			`"bundle:acme/util@1.2.0": the manifest is that of "bundle:acme/base@2.1.4"`}},
		"a version that it isn't": {func(l *file.Lock) { l.Bundles[0].Version = "2.1.5" },
			[]string{`"bundle:acme/base@2.1.5": the manifest is that of "bundle:acme/base@2.1.4"`}},
		"no manifest": {func(l *file.Lock) { l.Bundles[0].Manifest = other },
			[]string{fmt.Sprintf("document %s is missing, needed by %q", other, "bundle:acme/base@2.1.4")}},
		"a file for a manifest": {func(l *file.Lock) { l.Bundles[0].Manifest = w.document("x\n") },
			[]string{`"bundle:acme/base@2.1.4": manifest: line 1, column 1: expected ` + "`rye: \"manifest/2\"`" +
				`, found "x"`}},
		"bundles gone": {func(l *file.Lock) { l.Bundles = l.Bundles[1:] }, []string{
			`the project requires the bundle "acme/base" ^2.1, which is not in the lock`,
			`"tool:acme/base/fetch": it comes from the bundle "acme/base", which is not in the lock`,
			`"tool:acme/deep/multi/multi": it comes from the bundle "acme/base", which is not in the lock`}},
		"what a bundle needs is gone": {func(l *file.Lock) { l.Bundles = l.Bundles[:1] }, []string{
			`bundle:acme/base@2.1.4 requires the bundle "acme/util" ^1.0, which is not in the lock`,
			`"knowledge:see": it comes from the bundle "acme/util", which is not in the lock`}},
		"not what the project requires": {func(l *file.Lock) {
			l.Requires[0], err = project.NewRequirement("acme/base", "^3", project.Source{Where: "../x"})
			if err != nil {
				t.Fatal(err)
			}
		}, []string{`the project requires the bundle "acme/base" ^3, but 2.1.4 is locked`}},
		"an item that a bundle hasn't": {func(l *file.Lock) { pin("knowledge:see")(l).From = base },
			[]string{`"knowledge:see": "system:acme/base" has no such item`}},
		"another digest and version": {func(l *file.Lock) {
			pin("knowledge:see")(l).Digest, pin("tool:acme/base/fetch")(l).Version = other, "1.2.4"
		}, []string{
			fmt.Sprintf(`"knowledge:see": it is locked as %s, but is %s in "system:acme/util"`, other, see.Digest),
			`"tool:acme/base/fetch": it is locked in version "1.2.4", but is "1.2.3" in "system:acme/base"`}},
		"another library": {func(l *file.Lock) {
			pin("tool:"+bash)(l).Digest, pin("tool:"+python)(l).Tree = other, other
			l.Pins = append(l.Pins, file.Pin{Ref: ref("tool:rye/nothing"), Digest: other, From: file.FromStd})
		}, []string{
			fmt.Sprintf(
				`the library of this rye differs from the lock: "tool:%s" is locked as %s, but is %s; "tool:%s" is locked as %s with the files, but is %s; `+
					`"tool:rye/nothing" is locked as %s, but this library doesn't have it`, bash, other,
				bashPin.Digest, python, other, pythonPin.Tree, other)}},
		"no tree": {func(l *file.Lock) { runPin(l).Files = other },
			[]string{fmt.Sprintf("tree %s is missing, needed by %q", other, "tool:acme/shop/run")}},
		"an empty tree": {func(l *file.Lock) { runPin(l).Files = nothing.Digest },
			[]string{`"tool:acme/shop/run": its files do not include "tools/acme/shop/run.py" itself`}},
		"a tree with another tool": {func(l *file.Lock) { runPin(l).Files = changed },
			[]string{`"tool:acme/shop/run": its own file "tools/acme/shop/run.py" differs from the pin`}},
		"another mode": {func(l *file.Lock) { runPin(l).Mode = cas.Exec }, []string{
			`"tool:acme/shop/run": its own file "tools/acme/shop/run.py" differs from the pin`,
			fmt.Sprintf(
				`"tools/acme/shop/run.py" in the space "project" has two contents: %[1]s (file, %[2]d bytes) and %[1]s (exec, %[2]d bytes)`,
				runDigest, runSize)}},
		"a tree that reaches into config": {func(l *file.Lock) { runPin(l).Files = outside },
			[]string{`"tool:acme/shop/run": its files are not all below "tools/acme"`}},
		"two files in one place": {func(l *file.Lock) { runPin(l).Files = halved },
			[]string{fmt.Sprintf(
				`"tools/acme/shop/lib/help.py" in the space "project" has two contents: %s (file, 6 bytes) and %s (file, 6 bytes)`,
				minmax(cas.Sum([]byte("x = 1\n")), cas.Sum([]byte("x = 2\n")))...)}},
		"names in two cases": {func(l *file.Lock) { runPin(l).Files = folded },
			[]string{
				`the space "project": path "tools/acme/shop/lib": "lib" is "LIB" where upper and lower case are the same`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.edited(c.edit)
			if _, ok := err.(*lock.RefusedError); !ok {
				t.Fatalf("got %v", err)
			}
			if got := all(err); got != strings.Join(c.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", got, strings.Join(c.want, "\n"))
			}
		})
	}
	_, err = w.edited(func(l *file.Lock) { l.Bundles = nil })
	if want :=
		`the project requires the bundle "acme/base" ^2.1, which is not in the lock (and 3 more)`; err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func minmax(a, b cas.Digest) []any {
	if b.Compare(a) < 0 {
		a, b = b, a
	}
	return []any{a, b}
}

func (w *world) document(text string) cas.Digest { return w.put(cas.Document, []byte(text)) }

// tree puts files and the trees above them, and returns the root.
func (w *world) tree(all map[string]string) cas.Digest {
	w.Helper()
	below := map[string]map[string]string{}
	var entries []cas.Entry
	for name, text := range all {
		dir, rest, deep := strings.Cut(name, "/")
		if !deep {
			entries = append(entries, cas.Entry{Name: name, Mode: cas.File, Digest: w.put(cas.Blob, []byte(text)),
				Size: int64(len(text))})
			continue
		}
		if below[dir] == nil {
			below[dir] = map[string]string{}
		}
		below[dir][rest] = text
	}
	for dir, files := range below {
		entries = append(entries, cas.Entry{Name: dir, Mode: cas.Dir, Digest: w.tree(files)})
	}
	slices.SortFunc(entries, func(a, b cas.Entry) int { return strings.Compare(a.Name, b.Name) })
	b, err := cas.AppendTree(nil, entries)
	if err != nil {
		w.Fatal(err)
	}
	return w.put(cas.TreeKind, b)
}

// TestEndless: trees that share what is below them stand for more files than there can be.
func TestEndless(t *testing.T) {
	w := shop(t).build()
	entries := []cas.Entry{{Name: "run.py", Mode: cas.File, Digest: w.put(cas.Blob, []byte("x")), Size: 1}}
	for range 13 {
		b, err := cas.AppendTree(nil, entries)
		if err != nil {
			t.Fatal(err)
		}
		d := w.put(cas.TreeKind, b)
		entries = nil
		for _, name := range []string{"acme", "shop", "tools"} {
			entries = append(entries, cas.Entry{Name: name, Mode: cas.Dir, Digest: d})
		}
	}
	b, err := cas.AppendTree(nil, entries)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.edited(func(l *file.Lock) { l.Pin(ref("tool:acme/shop/run")).Files = w.put(cas.TreeKind, b) })
	w.says(err, `"tool:acme/shop/run": its files: more than the 16384 that a tool may have`)
	// Each has few enough, and all together too many.
	_, err = w.edited(func(l *file.Lock) {
		for i := range 60 {
			p := *l.Pin(ref("tool:acme/shop/run"))
			p.Ref.ID, p.Path, p.Files = fmt.Sprint("acme/shop/t", i), fmt.Sprintf("tools/acme/shop/t%d.py", i),
				w.nest(i)
			l.Pins = append(l.Pins, p)
		}
	})
	if got := all(err); !strings.Contains(got, "its files: all tools together have more than 524288 files") {
		t.Errorf("got %.300s", got)
	}
}

// nest is a tree of 10,000 files and one of its own.
func (w *world) nest(i int) cas.Digest {
	w.Helper()
	own := cas.Entry{Mode: cas.File, Digest: w.put(cas.Blob, nil)}
	for _, many := range []int{100, 10, 10} {
		var entries []cas.Entry
		for j := range many {
			own.Name = fmt.Sprintf("%03d", j)
			entries = append(entries, own)
		}
		b, err := cas.AppendTree(nil, entries)
		if err != nil {
			w.Fatal(err)
		}
		own = cas.Entry{Mode: cas.Dir, Digest: w.put(cas.TreeKind, b)}
	}
	own.Name = "all"
	b, err := cas.AppendTree(nil, []cas.Entry{own,
		{Name: fmt.Sprint("f", i), Mode: cas.File, Digest: w.put(cas.Blob, nil)}})
	if err != nil {
		w.Fatal(err)
	}
	return w.put(cas.TreeKind, b)
}
