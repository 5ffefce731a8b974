package packages_test

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
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/packages"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/lock/file"
)

// A world is a lock with the artifacts that it pins, and a tool with a list of packages.
type world struct {
	testing.TB
	lock   file.Lock
	store  cas.Memory
	dir    string
	copies *materialise.Cache
	asked  int // how often Python was asked
}

func newWorld(t testing.TB) *world {
	t.Helper()
	dir := sandboxtest.Dir(t)
	sandboxtest.Removable(t, filepath.Join(dir, "cache"))
	copies, err := materialise.Open(filepath.Join(dir, "cache"))
	if err != nil {
		t.Fatal(err)
	}
	return &world{TB: t, dir: dir, copies: copies}
}

func (w *world) must(errs ...error) {
	w.Helper()
	if err := errors.Join(errs...); err != nil {
		w.Fatal(err)
	}
}

// pin adds an artifact to the lock and the store.
func (w *world) pin(name, version, source string, content []byte) {
	w.Helper()
	info, err := w.store.Put(w.Context(), cas.Blob, bytes.NewReader(content))
	w.must(err)
	w.lock.Artifacts = append(w.lock.Artifacts, file.Artifact{Name: name, Version: version, Digest: info.Digest,
		Source: source, Size: info.Size})
	slices.SortFunc(w.lock.Artifacts, func(a, b file.Artifact) int { return strings.Compare(a.String(), b.String()) })
}

// npm pins a tarball with one file, and returns its entry in a package-lock.
func (w *world) npm(name, text string) string {
	w.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	archive := tar.NewWriter(z)
	for path, content := range map[string]string{"package.json": fmt.Sprintf(`{"name":%q,"version":"1.0.0"}`, name),
		"index.js": text} {
		w.must(archive.WriteHeader(&tar.Header{Name: "package/" + path, Size: int64(len(content)), Mode: 0o644}))
		_, err := io.WriteString(archive, content)
		w.must(err)
	}
	w.must(archive.Close(), z.Close())
	sum := sha512.Sum512(packed.Bytes())
	w.pin("npm:"+name, "1.0.0", fmt.Sprintf("sha512:%x", sum), packed.Bytes())
	return fmt.Sprintf(
		`"node_modules/%s": {"version": "1.0.0", "resolved": "https://npm.example/%s/-/%s-1.0.0.tgz", "integrity": "sha512-%s"}`,
		name, name, name, base64.StdEncoding.EncodeToString(sum[:]))
}

func packageLock(entries ...string) string {
	return `{"name":"x","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{"":{"name":"x","version":"1.0.0"},` +
		strings.Join(entries, ",") + `}}`
}

// wheel pins a wheel with one file, and returns its line in a list of requirements.
func (w *world) wheel(name, tags, text string) string {
	w.Helper()
	info := name + "-1.0.dist-info/"
	files := map[string]string{name + ".py": text, info + "WHEEL": "Wheel-Version: 1.0\n"}
	var record strings.Builder
	for _, path := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256([]byte(files[path]))
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", path, base64.RawURLEncoding.EncodeToString(sum[:]), len(files[path]))
	}
	files[info+"RECORD"] = record.String()
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		entry, err := z.Create(path)
		w.must(err)
		_, err = io.WriteString(entry, files[path])
		w.must(err)
	}
	w.must(z.Close())
	source := fmt.Sprintf("sha256:%x", sha256.Sum256(packed.Bytes()))
	w.pin("pypi:"+name, "1.0:"+tags, source, packed.Bytes())
	return fmt.Sprintf("%s==1.0 --hash=%s\n", name, source)
}

// request is one for the packages of a list.
func (w *world) request(name, list string) packages.Request {
	w.Helper()
	path := filepath.Join(w.dir, name)
	w.must(os.WriteFile(path, []byte(list), 0o666))
	return packages.Request{
		Ref: model.Ref{Kind: "tool", ID: "acme/x"}, List: name, Path: path, Lock: w.lock.ArtifactsOf, Store: &w.store,
		Copies: w.copies, Dir: w.dir,
		Python: func(context.Context) (*packages.Python, error) {
			w.asked++
			return &packages.Python{Interpreter: &packages.Interpreter{Name: "cpython", Major: 3, Minor: 12,
				Platforms: []string{"any"}}}, nil
		},
	}
}

// unpacked returns the files of a set, by their paths in the directory that the runtime looks in.
func (w *world) unpacked(s *packages.Set) map[string]string {
	w.Helper()
	files := map[string]string{}
	w.must(fs.WalkDir(os.DirFS(s.Path()), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(s.Path(), filepath.FromSlash(path)))
		files[path] = string(b)
		return err
	}))
	return files
}

// TestPrepareNode: each tarball stands where the list has it, and the same list gives the same copy again.
func TestPrepareNode(t *testing.T) {
	w := newWorld(t)
	request := w.request("package-lock.json", packageLock(w.npm("a", "one"), w.npm("b", "two")))
	s, err := packages.Prepare(t.Context(), request)
	w.must(err)
	defer s.Copy.Close()
	files := w.unpacked(s)
	if s.ForPython || s.Undecided || len(s.Artifacts) != 2 || files["node_modules/a/index.js"] != "one" ||
		files["node_modules/b/index.js"] != "two" || len(files) != 4 {
		t.Errorf("%+v: %q", s, files)
	}
	again, err := packages.Prepare(t.Context(), request)
	w.must(err)
	defer again.Copy.Close()
	if again.Path() != s.Path() || packages.Digest(again.Artifacts) != packages.Digest(s.Artifacts) ||
		packages.Digest(s.Artifacts).IsZero() {
		t.Errorf("%s, then %s", s.Path(), again.Path())
	}
	if packages.Digest(s.Artifacts) == packages.Digest(s.Artifacts[:1]) || !packages.Digest(nil).IsZero() {
		t.Error("the digest doesn't depend on the packages")
	}
}

// TestPreparePython: Python is asked only if a wheel is for some Pythons, and never by a dry request.
func TestPreparePython(t *testing.T) {
	for name, c := range map[string]struct {
		tags      []string
		dry       bool
		asked     int
		undecided bool
	}{
		"for every Python":              {tags: []string{"py3-none-any"}},
		"for every Python, dry":         {tags: []string{"py3-none-any"}, dry: true},
		"for one Python":                {tags: []string{"cp312-none-any"}, asked: 1},
		"for one Python, dry":           {tags: []string{"cp312-none-any"}, dry: true, undecided: true},
		"for one Python and for others": {tags: []string{"cp311-none-any", "cp312-none-any"}, asked: 1},
	} {
		w := newWorld(t)
		line := "a==1.0"
		for _, tags := range c.tags {
			line += strings.TrimSuffix(strings.TrimPrefix(w.wheel("a", tags, "for "+tags), "a==1.0"), "\n")
		}
		request := w.request("requirements.txt", line+"\n")
		request.Dry = c.dry
		s, err := packages.Prepare(t.Context(), request)
		w.must(err)
		if w.asked != c.asked || s.Undecided != c.undecided || !s.ForPython {
			t.Errorf("%s: asked %d times, undecided %v", name, w.asked, s.Undecided)
		}
		if c.undecided {
			if s.Copy != nil || s.Path() != "" {
				t.Errorf("%s: %s", name, s.Path())
			}
			continue
		}
		if files, want := w.unpacked(s), "for "+c.tags[len(c.tags)-1]; files["a.py"] != want ||
			filepath.Base(s.Path()) != packages.SitePackages {
			t.Errorf("%s: %q; want %q", name, files, want)
		}
		w.must(s.Copy.Close())
	}
}

// TestPrepareRefuses: only what both the lock and the tool's list name is unpacked, and only if its bytes have both
// digests.
func TestPrepareRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		list   string
		change func(*world, *packages.Request)
		code   fault.Code
	}{
		"no lock": {"package-lock.json", func(_ *world, q *packages.Request) {
			q.Lock = nil
		}, fault.NotLocked},
		"not pinned": {"package-lock.json", func(w *world, _ *packages.Request) {
			w.lock.Artifacts = nil
		}, fault.NotLocked},
		"another is pinned": {"package-lock.json", func(w *world, _ *packages.Request) {
			w.lock.Artifacts[0].Source = fmt.Sprintf("sha512:%0128x", 1)
		}, fault.NotLocked},
		"not in the store": {"package-lock.json", func(_ *world, q *packages.Request) {
			q.Store = &cas.Memory{}
		}, fault.NotFound},
		"no list of packages": {"packages.txt", func(*world, *packages.Request) {}, fault.Validation},
		"no list": {"package-lock.json", func(_ *world, q *packages.Request) {
			q.Path += "x"
		}, fault.Validation},
	} {
		w := newWorld(t)
		text := packageLock(w.npm("a", "one"))
		request := w.request(c.list, text)
		request.Lock = func(name, version string) []file.Artifact { return w.lock.ArtifactsOf(name, version) }
		c.change(w, &request)
		s, err := packages.Prepare(t.Context(), request)
		if err == nil || fault.CodeOf(err) != c.code || s != nil && s.Copy != nil {
			t.Errorf("%s: %+v, %s %v", name, s, fault.CodeOf(err), err)
		}
	}
}

// TestPrepareOtherBytes: an archive that the lock pins, and that isn't the one of the tool's list, is refused.
func TestPrepareOtherBytes(t *testing.T) {
	w := newWorld(t)
	entry := w.npm("a", "one")
	listed := w.lock.Artifacts[0].Source
	w.lock.Artifacts = nil
	w.npm("a", "evil")
	w.lock.Artifacts[0].Source = listed // as a lock that lies would say
	if s, err := packages.Prepare(t.Context(), w.request("package-lock.json",
		packageLock(entry))); fault.CodeOf(err) != fault.Integrity {
		t.Errorf("%+v, %v", s, err)
	}
}
