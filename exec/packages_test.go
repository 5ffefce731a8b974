package exec_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/packages"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/lock/file"
)

// A registry has packages, and is a lock that pins them.
type registry struct {
	testing.TB
	store cas.Memory
	lock  file.Lock
}

func (r *registry) add(name, version, source string, b []byte) {
	r.Helper()
	info, err := r.store.Put(context.Background(), cas.Blob, bytes.NewReader(b))
	if err != nil {
		r.Fatal(err)
	}
	r.lock.Artifacts = append(r.lock.Artifacts, file.Artifact{Name: name, Version: version, Digest: info.Digest,
		Source: source, Size: info.Size})
	slices.SortFunc(r.lock.Artifacts, func(a, b file.Artifact) int { return strings.Compare(a.String(), b.String()) })
}

// npm adds a tarball, and returns its entry in a package-lock.
func (r *registry) npm(at, name, version string, files map[string]string) string {
	r.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	all := maps.Clone(files)
	if all == nil {
		all = map[string]string{}
	}
	all["package.json"] = fmt.Sprintf(`{"name":%q,"version":%q}`, name, version)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		err := w.WriteHeader(&tar.Header{Name: "package/" + path, Size: int64(len(all[path])), Mode: 0o644})
		if err == nil {
			_, err = io.WriteString(w, all[path])
		}
		if err != nil {
			r.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		r.Fatal(err)
	}
	sum := sha512.Sum512(b.Bytes())
	r.add("npm:"+name, version, fmt.Sprintf("sha512:%x", sum), b.Bytes())
	base := name[strings.LastIndex(name, "/")+1:]
	return fmt.Sprintf(
		`%q: {"version": %q, "resolved": "https://npm.example/%s/-/%s-%s.tgz", "integrity": "sha512-%s"}`,
		at, version, name, base, version, base64.StdEncoding.EncodeToString(sum[:]))
}

func packageLock(entries ...string) string {
	return `{"name":"x","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{"":{"name":"x","version":"1.0.0"},` +
		strings.Join(entries, ",") + `}}`
}

// wheel adds a wheel, and returns its line in a list of requirements.
func (r *registry) wheel(name, version, tags string, files map[string]string) string {
	r.Helper()
	info := name + "-" + version + ".dist-info/"
	all := maps.Clone(files)
	all[info+"WHEEL"] = "Wheel-Version: 1.0\n"
	var record strings.Builder
	for _, path := range slices.Sorted(maps.Keys(all)) {
		sum := sha256.Sum256([]byte(all[path]))
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", path, base64.RawURLEncoding.EncodeToString(sum[:]), len(all[path]))
	}
	all[info+"RECORD"] = record.String()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		w, err := z.Create(path)
		if err == nil {
			_, err = io.WriteString(w, all[path])
		}
		if err != nil {
			r.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		r.Fatal(err)
	}
	source := fmt.Sprintf("sha256:%x", sha256.Sum256(b.Bytes()))
	r.add("pypi:"+name, version+":"+tags, source, b.Bytes())
	return fmt.Sprintf("%s==%s --hash=%s\n", name, version, source)
}

// tooled puts a tool with a list of packages into the project.
func (w *world) tooled(id, list, text string, more ...string) string {
	w.Helper()
	dir := ".ai/tools/" + id
	name := id[strings.LastIndex(id, "/")+1:]
	more = append(more, "packages: "+list)
	w.put(map[string]string{
		dir + "/parts": "", dir + "/" + list: text,
		dir + "/" + name + ".yaml": tool(id+"/"+name, "rye/core/runtimes/r", more...),
	})
	ref := "tool:" + id + "/" + name
	w.signed(ref, alice)
	return ref
}

// packed is a base with what a registry pins.
func (w *world) packed(r *registry) *exec.Base {
	b := w.base()
	b.Artifacts, b.Objects = r.lock.ArtifactsOf, &r.store
	return b
}

func (w *world) planned(b *exec.Base, ref string) *exec.Plan {
	w.Helper()
	p, err := w.kernel.Prepare(w.Context(), b, call(ref, nil))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { p.Close() })
	return p
}

// packagesOf reads all that stands where a call finds its packages.
func packagesOf(t testing.TB, p *exec.Plan) (dir string, files map[string]string) {
	t.Helper()
	for _, v := range p.Action.Env {
		if at, ok := strings.CutPrefix(v, env.PackagePath+"="); ok {
			dir = at
		}
	}
	if dir == "" {
		t.Fatalf("no %s in %q", env.PackagePath, p.Action.Env)
	}
	files = map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(rel)] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(p.Action.Sandbox.Read, func(root string) bool {
		return strings.HasPrefix(dir, root+string(filepath.Separator))
	}) {
		t.Errorf("the sandbox reads %q, and not %q", p.Action.Sandbox.Read, dir)
	}
	return dir, files
}

// TestNodePackages: what a package-lock names stands as Node looks for it, once for all who name the same.
func TestNodePackages(t *testing.T) {
	w, r := newWorld(t), &registry{TB: t}
	one := packageLock(
		r.npm("node_modules/a", "a", "1.0.0", map[string]string{"index.js": "a1"}),
		r.npm("node_modules/a/node_modules/b", "b", "1.0.0", map[string]string{"index.js": "b1"}),
		r.npm("node_modules/b", "b", "2.0.0", map[string]string{"index.js": "b2", "lib/x.js": "same"}),
		r.npm("node_modules/@x/y", "@x/y", "1.0.0", map[string]string{"index.js": "y", "lib/x.js": "same"}),
	)
	two := packageLock(r.npm("node_modules/b", "b", "3.0.0", map[string]string{"index.js": "b3"}))
	first, second, third := w.tooled("acme/one", "package-lock.json", one),
		w.tooled("acme/two", "_package-lock.json", two), w.tooled("acme/three", "package-lock.json", one)
	b := w.packed(r)
	p := w.planned(b, first)
	dir, files := packagesOf(t, p)
	for path, want := range map[string]string{
		"node_modules/a/index.js": "a1", "node_modules/a/node_modules/b/index.js": "b1",
		"node_modules/b/index.js":    "b2",
		"node_modules/@x/y/index.js": "y", "node_modules/b/package.json": `{"name":"b","version":"2.0.0"}`,
		"node_modules/b/lib/x.js": "same",
	} {
		if files[path] != want {
			t.Errorf("%s is %q, expected %q", path, files[path], want)
		}
	}
	if len(files) != 10 || len(p.Artifacts) != 4 || packages.Digest(p.Artifacts).IsZero() {
		t.Errorf("%d files of %d packages: %q", len(files), len(p.Artifacts), files)
	}
	// Another tool has its own, and one that names the same has the same.
	other, files := packagesOf(t, w.planned(b, second))
	if other == dir || len(files) != 2 || files["node_modules/b/index.js"] != "b3" {
		t.Errorf("%q has %q", other, files)
	}
	if same, _ := packagesOf(t, w.planned(b, third)); same != dir {
		t.Errorf("the same packages are in %q and in %q", dir, same)
	}
	// The call says what it ran with.
	result, err := p.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.proved(result).Call.Packages; got != packages.Digest(p.Artifacts) {
		t.Errorf("the receipt says %s, expected %s", got, packages.Digest(p.Artifacts))
	}
	if again := packages.Digest(w.planned(b, third).Artifacts); again != packages.Digest(p.Artifacts) {
		t.Errorf("the same packages are %s and %s", again, packages.Digest(p.Artifacts))
	}
	if packages.Digest(w.planned(b, second).Artifacts) == packages.Digest(p.Artifacts) {
		t.Error("other packages have the same digest")
	}
}

// TestPackagesDamaged: what stands in the cache is compared before it is used, and made again.
func TestPackagesDamaged(t *testing.T) {
	w, r := newWorld(t), &registry{TB: t}
	ref := w.tooled("acme/one", "package-lock.json",
		packageLock(r.npm("node_modules/a", "a", "1.0.0", map[string]string{"index.js": "a1"})))
	b := w.packed(r)
	p := w.planned(b, ref)
	dir, _ := packagesOf(t, p)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "node_modules", "a", "index.js")
	if err := errors.Join(os.Chmod(at, 0o600), os.WriteFile(at, []byte("e1"), 0o600),
		os.Chmod(at, 0o400)); err != nil {
		t.Fatal(err)
	}
	p = w.planned(b, ref)
	if _, files := packagesOf(t, p); files["node_modules/a/index.js"] != "a1" || p.Damage == nil {
		t.Errorf("%q, damage %v", files, p.Damage)
	}
}

// TestPackagesTogether: calls that come at once share one copy.
func TestPackagesTogether(t *testing.T) {
	w, r := newWorld(t), &registry{TB: t}
	ref := w.tooled("acme/one", "package-lock.json",
		packageLock(r.npm("node_modules/a", "a", "1.0.0", map[string]string{"index.js": "a1"})))
	b := w.packed(r)
	dirs := make([]string, 8)
	var wg sync.WaitGroup
	for i := range dirs {
		wg.Go(func() {
			p, err := w.kernel.Prepare(t.Context(), b, call(ref, nil))
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close()
			dirs[i], _ = packagesOf(t, p)
		})
	}
	wg.Wait()
	if slices.Sort(dirs); len(slices.Compact(dirs)) != 1 {
		t.Errorf("%q", dirs)
	}
}

// TestPythonPackages: wheels for every Python are put where an import looks, and no Python is asked.
func TestPythonPackages(t *testing.T) {
	w, r := newWorld(t), &registry{TB: t}
	list := "# made by hand\n" + r.wheel("demo", "1.0", "py3-none-any",
		map[string]string{"demo/__init__.py": "d", "demo-1.0.data/purelib/more.py": "m"}) +
		r.wheel("space", "2.0", "py2.py3-none-any", map[string]string{"space.py": "s", "demo/extra.py": "e"})
	ref := w.tooled("acme/one", "_requirements.txt", list)
	dir, files := packagesOf(t, w.planned(w.packed(r), ref))
	if filepath.Base(dir) != "site-packages" || files["demo/__init__.py"] != "d" || files["more.py"] != "m" ||
		files["space.py"] != "s" || files["demo/extra.py"] != "e" {
		t.Errorf("%q has %q", dir, files)
	}
	if w.probe.calls != 0 {
		t.Errorf("%d actions to prepare one", w.probe.calls)
	}
}

// asked has the probe be a Python, and says how often it was asked.
func (w *world) asked(answer map[string]any) *int {
	w.program("bin/python3", "python")
	asked := new(int)
	// The chain's own primitive may start a server, which answers no question.
	w.probe.do = func(context.Context, *primitive.Action, primitive.Sink) (*primitive.Result, error) {
		return gives(nil), nil
	}
	programs := &probe{}
	w.kernel.Primitives[process] = programs
	programs.do = func(_ context.Context, a *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
		*asked++
		if a.Sandbox.Network.All || len(a.Sandbox.Network.Hosts) > 0 || len(a.Files.Read) > 0 ||
			len(a.Sandbox.Write) != 2 ||
			slices.Contains(a.Sandbox.Read, w.project) {
			w.Errorf("a Python is asked with %+v", a.Sandbox)
		}
		if answer == nil {
			return &primitive.Result{Failed: true, Failure: "no such option"}, nil
		}
		return gives(answer), nil
	}
	return asked
}

func cpython311() map[string]any {
	return map[string]any{"name": "cpython", "major": int64(3), "minor": 11.0, "threads": false,
		"platform": "linux-x86_64", "libc": "glibc 2.36", "bits": int64(64),
		"markers": map[string]any{"python_version": "3.11", "sys_platform": "linux", "os_name": "posix"}}
}

// TestWheelChosen: of wheels for platforms the one for the Python that runs is taken, and what a marker leaves out
// isn't there.
func TestWheelChosen(t *testing.T) {
	w, r := newWorld(t), &registry{TB: t}
	lines := []string{}
	for _, tags := range []string{"cp310-cp310-manylinux_2_17_x86_64", "cp311-cp311-manylinux_2_17_x86_64",
		"cp311-cp311-win_amd64", "py3-none-any"} {
		lines = append(lines, strings.TrimSuffix(r.wheel("fast", "1.0", tags, map[string]string{"fast.py": tags}),
			"\n"))
	}
	list := lines[0]
	for _, l := range lines[1:] {
		list += " " + l[strings.Index(l, "--hash"):]
	}
	list += "\n"
	marked := func(line, marker string) string { return strings.Replace(line, " --hash", " ; "+marker+" --hash", 1) }
	list += marked(r.wheel("old", "1.0", "py3-none-any", map[string]string{"old.py": ""}), `python_version < "3.9"`)
	list += marked(r.wheel("new", "1.0", "py3-none-any", map[string]string{"new.py": ""}), `sys_platform == "linux"`)
	ref := w.tooled("acme/one", "requirements.txt", list, "network: all", "files: {read: ['.']}")
	asked := w.asked(cpython311())
	b := w.packed(r)
	for range 2 {
		_, files := packagesOf(t, w.planned(b, ref))
		_, old := files["old.py"]
		_, fresh := files["new.py"]
		if files["fast.py"] != "cp311-cp311-manylinux_2_17_x86_64" || old || !fresh {
			t.Errorf("%q", files)
		}
	}
	if *asked != 1 {
		t.Errorf("asked %d times", *asked)
	}
}

// TestPackagesDry: what only a Python knows stays open where nothing may be started, and what is known without one
// doesn't.
func TestPackagesDry(t *testing.T) {
	w, r := newWorld(t), &registry{TB: t}
	asked := w.asked(cpython311())
	pure := r.wheel("pure", "1.0", "py3-none-any", map[string]string{"pure.py": ""})
	lists := map[string]string{
		"pure":   pure,
		"tagged": pure + r.wheel("fast", "1.0", "cp311-cp311-manylinux_2_17_x86_64", map[string]string{"fast.py": ""}),
		"marked": strings.Replace(pure, " --hash", ` ; python_version >= "3.9" --hash`, 1),
	}
	for name, list := range lists {
		ref := w.tooled("acme/"+name, "requirements.txt", list)
		c := call(ref, nil)
		c.Dry = true
		p, err := w.kernel.Prepare(t.Context(), w.packed(r), c)
		if err != nil {
			t.Fatal(err)
		}
		if p.Undecided != (name != "pure") || p.Undecided != (len(p.Artifacts) == 0) {
			t.Errorf("%s: undecided %v with %d packages", name, p.Undecided, len(p.Artifacts))
		}
		if p.Undecided != (len(p.Possible) > 0) {
			t.Errorf("%s: undecided %v of %v", name, p.Undecided, p.Possible)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if *asked != 0 || w.probe.calls != 0 {
		t.Errorf("%d actions, and a Python was asked %d times", w.probe.calls, *asked)
	}
	// The same that runs is decided.
	for name := range lists {
		if p := w.planned(w.packed(r), "tool:acme/"+name+"/"+name); p.Undecided || len(p.Artifacts) == 0 {
			t.Errorf("%s: undecided %v with %d packages", name, p.Undecided, len(p.Artifacts))
		}
	}
	if *asked != 1 {
		t.Errorf("asked %d times", *asked)
	}
}

// TestPackagesNone: a tool whose list has nothing for this Python has no packages, and none of the project's either.
func TestPackagesNone(t *testing.T) {
	w, r := newWorld(t), &registry{TB: t}
	w.asked(cpython311())
	old := strings.Replace(r.wheel("old", "1.0", "py3-none-any", map[string]string{"old.py": ""}), " --hash",
		` ; python_version < "3.9" --hash`, 1)
	for name, list := range map[string]string{"old": old, "empty": "# nothing\n"} {
		p := w.planned(w.packed(r), w.tooled("acme/"+name, "requirements.txt", list))
		i := slices.IndexFunc(p.Action.Env, func(v string) bool { return strings.HasPrefix(v, env.PackagePath+"=") })
		if len(p.Artifacts) != 0 || !packages.Digest(p.Artifacts).IsZero() || i < 0 || !slices.IsSorted(p.Action.Env) {
			t.Errorf("%s: %d packages, %q", name, len(p.Artifacts), p.Action.Env)
			continue
		}
		_, at, _ := strings.Cut(p.Action.Env[i], "=")
		if _, err := os.Stat(at); !filepath.IsAbs(at) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q is there: %v", name, at, err)
		}
	}
}

func TestWheelNone(t *testing.T) {
	w, r := newWorld(t), &registry{TB: t}
	ref := w.tooled("acme/one", "requirements.txt",
		r.wheel("fast", "1.0", "cp312-cp312-win_amd64", map[string]string{"fast.py": ""}))
	w.asked(cpython311())
	_, err := w.kernel.Prepare(t.Context(), w.packed(r), call(ref, nil))
	no := fault.Of(err)
	want := map[string]any{"ref": ref, "wheels": []string{"cp312-cp312-win_amd64"},
		"python": "cpython 3.11, cp311-cp311-manylinux_2_36_x86_64", "package": "pypi:fast@1.0"}
	if no.Code != fault.VersionMismatch || !reflect.DeepEqual(no.Details, want) {
		t.Errorf("%v", err)
	}
	for name, answer := range map[string]map[string]any{"fails": nil, "odd": {"name": "cpython"}} {
		w.asked(answer)
		other := w.tooled("acme/"+name, "requirements.txt",
			r.wheel("fast", "1.0", "cp312-cp312-win_amd64", map[string]string{"fast.py": ""}))
		w.program("bin/"+name, name) // a program that wasn't asked yet
		if _, err := w.kernel.Prepare(t.Context(), w.packed(r), call(other, nil)); err == nil ||
			!strings.Contains(err.Error(), "doesn't say which wheels it takes") {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.probe.starts = nil
	if _, err := w.kernel.Prepare(t.Context(), w.packed(r), call(ref, nil)); err == nil ||
		!strings.Contains(err.Error(), "starts no Python") {
		t.Error(err)
	}
}

func TestPackagesRefused(t *testing.T) {
	plain := map[string]string{"index.js": "1"}
	for name, c := range map[string]struct {
		list string // its name; package-lock.json
		text func(r *registry) string
		base func(b *exec.Base, r *registry)
		want string
		as   func(error) bool
	}{
		"no lock": {text: func(r *registry) string {
			return packageLock(r.npm("node_modules/a", "a", "1.0.0", plain))
		},
			base: func(b *exec.Base, _ *registry) {
				b.Artifacts, b.Objects = nil, nil
			}, want: "needs packages, but no lock pins them"},
		"not pinned": {text: func(r *registry) string {
			return packageLock(r.npm("node_modules/a", "a", "1.0.0", plain))
		},
			base: func(b *exec.Base, r *registry) {
				r.lock.Artifacts = nil
			}, want: `needs the package "npm:a@1.0.0", which is not locked`},
		"another is pinned": {text: func(r *registry) string {
			return packageLock(r.npm("node_modules/a", "a", "1.0.0", plain))
		},
			base: func(b *exec.Base, r *registry) {
				r.lock.Artifacts[0].Source = "sha512:00"
			}, want: `which is not locked`},
		"gone": {text: func(r *registry) string { return packageLock(r.npm("node_modules/a", "a", "1.0.0", plain)) },
			base: func(b *exec.Base, r *registry) { b.Objects = new(cas.Memory) }, want: " is missing",
			as: func(err error) bool { return errors.Is(err, fs.ErrNotExist) }},
		"other bytes": {text: func(r *registry) string {
			return packageLock(r.npm("node_modules/a", "a", "1.0.0", plain))
		},
			base: func(b *exec.Base, r *registry) { b.Objects = &liar{&r.store} }, want: "npm:a@1.0.0",
			as: func(err error) bool { _, ok := errors.AsType[*cas.DamagedError](err); return ok }},
		"hostile": {text: func(r *registry) string {
			return packageLock(r.npm("node_modules/a", "a", "1.0.0", map[string]string{"../../../evil.js": "1"}))
		}, want: `".." is not a name`, as: func(err error) bool { return fault.CodeOf(err) == fault.Validation }},
		"no wheel": {list: "requirements.txt", text: func(r *registry) string {
			source := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("no zip")))
			r.add("pypi:a", "1.0:py3-none-any", source, []byte("no zip"))
			return "a==1.0 --hash=" + source
		}, want: "is not a zip archive"},
		// A lock isn't signed: if its digest of a package differs from that in the tool's list, the package is
		// refused.
		"another's tarball": {text: func(r *registry) string {
			list := packageLock(r.npm("node_modules/a", "a", "1.0.0", plain))
			r.npm("node_modules/b", "b", "1.0.0", plain)
			r.swap()
			return list
		}, want: "the tool's list has sha512:", as: isSource},
		"another's wheel": {list: "requirements.txt", text: func(r *registry) string {
			list := r.wheel("a", "1.0", "py3-none-any", map[string]string{"a.py": "1"})
			r.wheel("b", "1.0", "py3-none-any", map[string]string{"b.py": "1"})
			r.swap()
			return list
		}, want: "the tool's list has sha256:", as: isSource},
		"places": {text: manyPlaces, want: `needs the package "npm:a@1.0.0"`, as: func(err error) bool {
			return fault.CodeOf(err) == fault.Limit &&
				strings.Contains(err.Error(), fmt.Sprintf("%d files", materialise.MaxFiles))
		}},
		"two for one place": {list: "requirements.txt", text: func(r *registry) string {
			return r.wheel("a", "1.0", "py3-none-any", map[string]string{"x.py": "1"}) + r.wheel("b", "1.0",
				"py3-none-any", map[string]string{"x.py": "2"})
		}, want: "two different files have this path"},
		"by case": {list: "requirements.txt", text: func(r *registry) string {
			return r.wheel("a", "1.0", "py3-none-any", map[string]string{"x.py": "1"}) + r.wheel("b", "1.0",
				"py3-none-any", map[string]string{"X.py": "1"})
		}, want: "where upper and lower case are the same"},
		"no hash": {list: "requirements.txt", text: func(*registry) string {
			return "a==1.0\n"
		}, want: "requirements.txt: line 1"},
		"other OS": {text: func(r *registry) string {
			return packageLock(strings.Replace(r.npm("node_modules/a", "a", "1.0.0", plain), "{", `{"os": ["plan9"], `,
				1))
		}, want: "doesn't support"},
		"no list": {list: "list.txt", text: func(*registry) string {
			return ""
		}, want: `"list.txt" is not a list of packages`},
		"elsewhere": {list: "../requirements.txt", text: func(*registry) string { return "" }, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := newWorld(t), &registry{TB: t}
			if c.list == "" {
				c.list = "package-lock.json"
			}
			if name == "elsewhere" {
				w.put(map[string]string{".ai/tools/acme/x.yaml": tool("acme/x", probing, "packages: requirements.txt"),
					".ai/tools/acme/requirements.txt": ""})
				w.signed(x, alice)
				err := w.refused(call(x, nil))
				if !strings.Contains(err.Error(), `"requirements.txt" is not a file of the tool's tree`) {
					t.Error(err)
				}
				return
			}
			ref := w.tooled("acme/one", c.list, c.text(r))
			b := w.packed(r)
			if c.base != nil {
				c.base(b, r)
			}
			p, err := w.kernel.Prepare(t.Context(), b, call(ref, nil))
			if err == nil {
				p.Close()
				t.Fatal("it may run")
			}
			if !strings.Contains(err.Error(), c.want) || c.as != nil && !c.as(err) {
				t.Errorf("%v, expected one with %q", err, c.want)
			}
			if entries, _ := os.ReadDir(filepath.Join(w.dir, "cache", "scratch")); len(entries) > 0 {
				t.Errorf("%d scratch directories are left", len(entries))
			}
		})
	}
}

// swap has the first two packages pinned as each other's bytes.
func (r *registry) swap() {
	a, b := &r.lock.Artifacts[0], &r.lock.Artifacts[1]
	a.Digest, a.Size, b.Digest, b.Size = b.Digest, b.Size, a.Digest, a.Size
}

func isSource(err error) bool {
	no := fault.Of(err)
	want, _ := no.Details["expected"].(string)
	found, _ := no.Details["found"].(string)
	return no.Code == fault.Integrity && want != found && len(want) == len(found)
}
