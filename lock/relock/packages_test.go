package relock_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/packages"
	"github.com/rye-build/rye/lock/packages/fetch"
	"github.com/rye-build/rye/lock/relock"
)

// A counter has all files whose bytes are their names, one wheel for each digest of those that it knows, and counts
// what it is asked for.
type counter struct {
	world *world
	files []string // the bytes of the wheels there are

	mu             sync.Mutex
	found, brought []string
	err            error
}

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (c *counter) Find(_ context.Context, p *packages.Package) (all []file.Artifact, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = append(c.found, p.String())
	for i, text := range c.files {
		if p.Has(sha(text)) {
			all = append(all, file.Artifact{Name: p.Key(), Version: fmt.Sprintf("%s:py3-none-p%d", p.Version, i),
				Source: sha(text)})
		}
	}
	return all, c.err
}

func (c *counter) Bring(ctx context.Context, all []file.Artifact) ([]file.Artifact, error) {
	out := slices.Clone(all)
	for i, a := range all {
		at := slices.IndexFunc(c.files, func(text string) bool { return sha(text) == a.Source })
		info, err := c.world.store.Put(ctx, cas.Blob, strings.NewReader(c.files[at]))
		if err != nil {
			return nil, err
		}
		if a.Digest.IsZero() {
			c.brought = append(c.brought, a.String())
		}
		out[i].Digest, out[i].Size = info.Digest, info.Size
	}
	return out, nil
}

// asked says what was asked for since it was called last, in order.
func (c *counter) asked() string {
	slices.Sort(c.found)
	text := fmt.Sprint(c.found, c.brought)
	c.found, c.brought = nil, nil
	return text
}

// line is a line of requirements.
func line(name string, bytes ...string) string {
	for _, b := range bytes {
		name += " --hash=" + sha(b)
	}
	return name + "\n"
}

// lister is a tool with a list.
func lister(id string) string {
	return strings.Replace(pyTool(id), "__version__", "__packages__ = \"_requirements.txt\"\n__version__", 1)
}

func listing(t *testing.T) (*world, *counter) {
	w := shop(t)
	w.roots = []string{"tool:acme/one/run", "tool:acme/two/run"}
	w.requires = map[string][]requirement{}
	w.files = map[string]files{"project": {
		"tools/acme/one/run.py": lister("acme/one/run"), "tools/acme/one/__init__.py": "",
		"tools/acme/one/_requirements.txt": line("a==1", "a", "source") + line("b==1", "b"),
		"tools/acme/two/run.py":            lister("acme/two/run"), "tools/acme/two/__init__.py": "",
		"tools/acme/two/_requirements.txt": line("b==1", "b") + line("b-2==1", "b2"),
	}}
	return w.build(), &counter{world: w, files: []string{"a", "b", "b2", "more"}}
}

func TestMakePackages(t *testing.T) {
	w, c := listing(t)
	old := &file.Lock{}
	var unasked []string
	again := func(change func(r *relock.Request)) ([]string, error) {
		t.Helper()
		r := w.request(nil)
		r.Old, r.Packages = old, c
		if change != nil {
			change(&r)
		}
		made, err := relock.Make(t.Context(), r)
		if err != nil {
			return nil, err
		}
		old, unasked = made.Lock, made.Unasked
		var names []string
		for _, a := range old.Artifacts {
			if a.Digest.IsZero() || a.Size == 0 {
				t.Errorf("%+v is pinned", a)
			}
			names = append(names, a.String())
		}
		return names, nil
	}
	steps := []struct {
		name        string
		change      func(r *relock.Request)
		lists       map[string]string
		code        string // a file of the tool one, which is no list
		want, asked string
		unasked     string
	}{
		{name: "first", want: "[pypi:a@1:py3-none-p0 pypi:b-2@1:py3-none-p2 pypi:b@1:py3-none-p1]",
			asked: "[pypi:a@1 pypi:b-2@1 pypi:b@1] [pypi:a@1:py3-none-p0 pypi:b-2@1:py3-none-p2 pypi:b@1:py3-none-p1]"},
		{name: "again", want: "[pypi:a@1:py3-none-p0 pypi:b-2@1:py3-none-p2 pypi:b@1:py3-none-p1]", asked: "[] []"},
		{name: "no registry", change: func(r *relock.Request) {
			r.Packages = nil
		}, want: "[pypi:a@1:py3-none-p0 pypi:b-2@1:py3-none-p2 pypi:b@1:py3-none-p1]", asked: "[] []"},
		// What a list allows but isn't pinned is asked for again when everything is, and nothing else.
		{name: "update", change: func(r *relock.Request) {
			r.UpdateAll = true
		}, want: "[pypi:a@1:py3-none-p0 pypi:b-2@1:py3-none-p2 pypi:b@1:py3-none-p1]", asked: "[pypi:a@1] []"},
		// A change of the code alone keeps what is pinned, where no registry can be asked for more.
		{name: "code, and no registry", code: "1", change: func(r *relock.Request) { r.Packages = nil },
			want: "[pypi:a@1:py3-none-p0 pypi:b-2@1:py3-none-p2 pypi:b@1:py3-none-p1]", asked: "[] []"},
		{name: "code, offline", code: "2", change: func(r *relock.Request) {
			r.Packages = offline{c}
		}, unasked: "pypi:a@1",
			want: "[pypi:a@1:py3-none-p0 pypi:b-2@1:py3-none-p2 pypi:b@1:py3-none-p1]", asked: "[] []"},
		{name: "code", code: "3", want: "[pypi:a@1:py3-none-p0 pypi:b-2@1:py3-none-p2 pypi:b@1:py3-none-p1]",
			asked: "[pypi:a@1] []"},
		{name: "another file", lists: map[string]string{"two": line("b==1", "b", "more") + line("b-2==1", "b2")},
			want:  "[pypi:a@1:py3-none-p0 pypi:b-2@1:py3-none-p2 pypi:b@1:py3-none-p1 pypi:b@1:py3-none-p3]",
			asked: "[pypi:b@1] [pypi:b@1:py3-none-p3]"},
		{name: "fewer", lists: map[string]string{"two": "", "one": line("b==1", "b")}, want: "[pypi:b@1:py3-none-p1]",
			asked: "[] []"},
	}
	for _, step := range steps {
		for tool, text := range step.lists {
			w.files["project"]["tools/acme/"+tool+"/_requirements.txt"] = text
			w.build()
		}
		if step.code != "" {
			w.files["project"]["tools/acme/one/__init__.py"] = step.code
			w.build()
		}
		got, err := again(step.change)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if fmt.Sprint(got) != step.want || c.asked() != step.asked {
			t.Errorf("%s: got %q", step.name, got)
		}
		if strings.Join(unasked, " ") != step.unasked {
			t.Errorf("%s: %q may have more files", step.name, unasked)
		}
	}
	// What isn't pinned yet is an error where no registry may be asked.
	w.files["project"]["tools/acme/one/_requirements.txt"] = line("a==1", "a")
	w.build()
	_, err := again(func(r *relock.Request) { r.Packages = nil })
	if f := fault.Of(err); f.Code != fault.LockMismatch || f.Details["package"] != "pypi:a@1" ||
		f.Details["tool"] != "tool:acme/one/run" {
		t.Errorf("got %v", err)
	}
	_, err = again(func(r *relock.Request) { r.Packages = offline{c} })
	if off, ok := errors.AsType[*fetch.OfflineError](err); !ok || off.Package != "pypi:a@1" {
		t.Errorf("got %v", err)
	}
	c.err = errors.New("no such page")
	if _, err := again(nil); !errors.Is(err, c.err) ||
		err.Error() != `"tool:acme/one/run" needs a package: no such page` {
		t.Errorf("got %v", err)
	}
}

// TestMakePackagesSides: of a merge each side says what a list brought that is still as that side had it, all of it,
// though the list allows files that are never pinned.
func TestMakePackagesSides(t *testing.T) {
	w, c := listing(t)
	lockOf := func(text string, all bool) *file.Lock {
		w.files["project"]["tools/acme/one/_requirements.txt"] = text
		w.build()
		r := w.request(nil)
		r.Packages, r.UpdateAll = c, all
		made, err := relock.Make(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return made.Lock
	}
	list := line("a==1", "a", "source", "late")
	ours := lockOf(list, false)
	c.files = append(c.files, "late")
	theirs := lockOf(list, true)
	other := lockOf(line("a==1", "a", "source", "more"), false)
	lockOf(list, false)
	c.asked()
	for _, tc := range []struct {
		sides       []*file.Lock
		all         bool
		want, asked string
	}{
		{[]*file.Lock{ours, nil}, false, "[p0]", "[] []"},
		{[]*file.Lock{ours, theirs}, false, "[p0 p4]", "[] []"},
		{[]*file.Lock{theirs, other}, false, "[p0 p4]", "[] []"},
		{[]*file.Lock{other, nil}, false, "[p0 p4]", "[pypi:a@1] [pypi:a@1:py3-none-p4]"},
		{[]*file.Lock{ours, nil}, true, "[p0 p4]", "[pypi:a@1] [pypi:a@1:py3-none-p4]"},
	} {
		r := w.request(nil)
		// What is merged has no pins of the project.
		r.Old, r.Sides, r.Packages, r.UpdateAll = &file.Lock{Artifacts: tc.sides[0].Artifacts}, tc.sides, c, tc.all
		made, err := relock.Make(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range made.Lock.ArtifactsOf("pypi:a", "1") {
			got = append(got, a.Version[len("1:py3-none-"):])
		}
		if asked := c.asked(); fmt.Sprint(got) != tc.want || asked != tc.asked {
			t.Errorf("got %q, asked %s, want %s and %s", got, asked, tc.want, tc.asked)
		}
	}
}

// TestMakePackagesDown: where a registry doesn't answer it isn't asked for everything else.
func TestMakePackagesDown(t *testing.T) {
	w, c := listing(t)
	list := ""
	for n := range 100 {
		list += line(fmt.Sprintf("p%d==1", n), "a", "source")
	}
	w.files["project"]["tools/acme/one/_requirements.txt"] = list
	w.build()
	r := w.request(nil)
	r.Packages, c.err = c, errors.New("down")
	if _, err := relock.Make(t.Context(), r); !errors.Is(err, c.err) || len(c.found) > 20 {
		t.Errorf("asked for %d packages, %v", len(c.found), err)
	}
}

// Offline is a registry that asks no server.
type offline struct{ relock.Packages }

func (offline) Find(_ context.Context, p *packages.Package) ([]file.Artifact, error) {
	return nil, &fetch.OfflineError{Package: p.String(), Where: "https://registry.example/"}
}

// TestMakeTwoFiles: two lists may not mean two files by one name.
func TestMakeTwoFiles(t *testing.T) {
	w, c := listing(t)
	entry := func(sum string) string {
		return `{"lockfileVersion": 3, "packages": {"node_modules/x": {"version": "1.0.0", "resolved": "https://r.example/x-1.0.0.tgz", "integrity": "sha512-` +
			sum + `"}}}`
	}
	for tool, sum := range map[string]string{"one": strings.Repeat("A", 86) + "==",
		"two": strings.Repeat("A", 84) + "AQ=="} {
		w.files["project"]["tools/acme/"+tool+"/package-lock.json"] = entry(sum)
		w.files["project"]["tools/acme/"+tool+"/run.py"] = strings.Replace(lister("acme/"+tool+"/run"),
			"_requirements.txt", "package-lock.json", 1)
	}
	w.build()
	r := w.request(nil)
	r.Packages = tarballs{c}
	_, err := relock.Make(t.Context(), r)
	if f := fault.Of(err); f.Code != fault.Conflict || f.Details["package"] != "npm:x@1.0.0" || len(f.Why) != 2 ||
		!strings.HasSuffix(f.Why[0], "for tool:acme/one/run") ||
		!strings.HasSuffix(f.Why[1], "for tool:acme/two/run") {
		t.Errorf("got %v", err)
	}
}

// Tarballs are one for each package.
type tarballs struct{ relock.Packages }

func (tarballs) Find(_ context.Context, p *packages.Package) ([]file.Artifact, error) {
	return []file.Artifact{{Name: p.Key(), Version: p.Version, Source: p.Files[0].Source}}, nil
}

// TestMakePackagesCancelled: who breaks off gets the reason, and no lock.
func TestMakePackagesCancelled(t *testing.T) {
	w, c := listing(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	r := w.request(nil)
	r.Packages = stopping{c, func() { cancel(stopped) }}
	if _, err := relock.Make(ctx, r); !errors.Is(err, stopped) {
		t.Errorf("got %v", err)
	}
}

type stopping struct {
	relock.Packages
	stop func()
}

func (s stopping) Find(context.Context, *packages.Package) ([]file.Artifact, error) {
	s.stop()
	return nil, nil
}

// TestObjectsOfPackages: the files of packages are objects that the lock needs.
func TestObjectsOfPackages(t *testing.T) {
	w, c := listing(t)
	r := w.request(nil)
	r.Packages = c
	batch, err := w.store.Batch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Close()
	r.Store = batch
	made, err := relock.Make(t.Context(), r)
	if err == nil {
		err = batch.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	set, err := lock.NewSet(t.Context(), made.Lock, made.ID, lock.SetOptions{Objects: lock.First(w), Std: w.std})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := set.Objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range made.Lock.Artifacts {
		i := slices.IndexFunc(objects, func(o lock.Object) bool {
			return o.ID == cas.ID{Kind: cas.Blob, Digest: a.Digest}
		})
		if i < 0 || objects[i].NeededBy != a.String() || objects[i].Size != a.Size {
			t.Errorf("%s isn't among the objects", a)
		}
	}
}
