package fetch_test

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/packages"
	"github.com/rye-build/rye/lock/packages/fetch"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/web"
)

func sha2(b string) string {
	s := sha256.Sum256([]byte(b))
	return "sha256:" + hex.EncodeToString(s[:])
}
func sha5(b string) string {
	s := sha512.Sum512([]byte(b))
	return "sha512:" + hex.EncodeToString(s[:])
}

// A world is a server with files, a store, and a directory for rye.yaml.
type world struct {
	t      *testing.T
	dir    string
	files  map[string]string // by path
	asked  atomic.Int64
	server *httptest.Server
	store  *cas.Memory
	hook   func(w http.ResponseWriter, r *http.Request) bool
	client *web.Client
}

func newWorld(t *testing.T, files map[string]string) *world {
	w := &world{t: t, dir: t.TempDir(), files: files, store: new(cas.Memory)}
	w.server = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		if w.hook != nil && w.hook(rw, r) {
			return
		}
		text, ok := w.files[r.URL.Path]
		if !ok {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Length", fmt.Sprint(len(text)))
		io.WriteString(rw, text)
	}))
	t.Cleanup(w.server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(w.server.Certificate())
	w.client = web.New(web.Options{Roots: roots, Proxy: func(*url.URL) (*url.URL, error) { return nil, nil }})
	return w
}

// registry is one whose packages come from there; "" is the server.
func (w *world) registry(npm, pypi string, offline bool) *fetch.Registry {
	o := fetch.Options{Dir: w.dir, Store: w.store}
	for where, to := range map[*string]*project.Source{&npm: &o.From.NPM, &pypi: &o.From.PyPI} {
		if *where == "" {
			*where = w.server.URL + "/reg/"
		}
		*to = project.Source{Index: true, Where: *where}
	}
	if !offline {
		o.Fetch = w.client
	}
	return fetch.New(o)
}

func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// has reports whether the store has bytes.
func (w *world) has(text string) bool {
	ids, err := w.store.Missing(context.Background(), []cas.ID{{Kind: cas.Blob, Digest: cas.Sum([]byte(text))}})
	return err == nil && len(ids) == 0
}

func py(name, version string, bytes ...string) *packages.Package {
	p := &packages.Package{Ecosystem: packages.PyPI, Name: name, Version: version}
	for _, b := range bytes {
		p.Files = append(p.Files, packages.File{Source: sha2(b)})
	}
	return p
}

func npm(name, version, bytes string) *packages.Package {
	return &packages.Package{Ecosystem: packages.NPM, Name: name, Version: version,
		Files: []packages.File{{Source: sha5(bytes)}}}
}

func names(all []file.Artifact) (out []string) {
	for _, a := range all {
		out = append(out, a.String())
	}
	slices.Sort(out)
	return out
}

const bare = "/reg/a-b/"

func page(files ...string) string {
	text :=
		"<!DOCTYPE html><html><head><title>Links</title></head><body>\n<!-- <a href=\"x.whl#sha256=0\">no</a> -->\n"
	for i := 0; i < len(files); i += 2 {
		text += fmt.Sprintf("<a href=\"%s#sha256=%s\" data-requires-python=\"&gt;=3\">%s</a><br />\n", files[i],
			sha2(files[i+1])[7:], files[i])
	}
	return text + "</body></html>\n"
}

func TestIndex(t *testing.T) {
	w := newWorld(t, map[string]string{
		bare: page("../../files/A_b-1.0-py3-none-any.whl", "pure",
			"/files/a.b-1.0-2-cp312-abi3-linux_x86_64.whl", "linux", "/files/a-b-1.0.tar.gz", "source"),
		"/reg/only-source/":                            page("/files/only_source-1.0.tar.gz", "source"),
		"/files/A_b-1.0-py3-none-any.whl":              "pure",
		"/files/a.b-1.0-2-cp312-abi3-linux_x86_64.whl": "linux",
		"/reg/@acme/x/-/x-1.2.3.tgz":                   "tarball",
		"/reg/twice/": page("/f/twice-1-py3-none-any.whl", "one",
			"/g/Twice-1-py3-none-any.whl", "two"),
	})
	r := w.registry("", "", false)
	found, err := r.Find(t.Context(), py("a-b", "1.0", "pure", "linux", "source", "gone"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pypi:a-b@1.0:2-cp312-abi3-linux_x86_64", "pypi:a-b@1.0:py3-none-any"}
	if got := names(found); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	more, err := r.Find(t.Context(), npm("@acme/x", "1.2.3", "tarball"))
	if err != nil || !slices.Equal(names(more), []string{"npm:@acme/x@1.2.3"}) {
		t.Errorf("got %v, %v", more, err)
	}
	all, err := r.Bring(t.Context(), append(found, more...))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		text := map[string]string{want[0]: "linux", want[1]: "pure", "npm:@acme/x@1.2.3": "tarball"}[a.String()]
		if a.Digest != cas.Sum([]byte(text)) || a.Size != int64(len(text)) || !w.has(text) {
			t.Errorf("got %+v", a)
		}
	}
	// The next time the registry isn't asked, not even for the page.
	asked := w.asked.Load()
	if again, err := w.registry("", "", true).Bring(t.Context(), all); err != nil || !slices.Equal(again, all) ||
		w.asked.Load() != asked {
		t.Errorf("got %v, %v, after %d questions", again, err, w.asked.Load()-asked)
	}
	if asked != 4 {
		t.Errorf("%d questions, expected one for the page and one for each file", asked)
	}
	for _, c := range []struct {
		p    *packages.Package
		want string
	}{
		{py("only-source", "1.0", "source"),
			"the list names no wheel of pypi:only-source@1.0, and rye runs no source builds"},
		{py("a-b", "1.0", "gone"), `reg/a-b/" has no file of pypi:a-b@1.0 with a digest of the list`},
		{py("twice", "1", "one", "two"), "are wheels for the same"},
		{py("nowhere", "1", "one"), `reg/nowhere/": the server answered 404`},
	} {
		if _, err := r.Find(t.Context(), c.p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.p, err)
		}
	}
}

func TestDirectory(t *testing.T) {
	w := newWorld(t, nil)
	w.write("wheels/a_b-1.0-py3-none-any.whl", "pure")
	w.write("wheels/other.whl", "odd")
	w.write("wheels/x.tgz", "tarball")
	w.write("wheels/sub/a_b-2.0-py3-none-any.whl", "deeper")
	if err := os.Symlink("x.tgz", filepath.Join(w.dir, "wheels", "y.tgz")); err != nil {
		t.Log(err) // Windows doesn't let everybody
	}
	r := w.registry("wheels", "wheels", true)
	found, err := r.Find(t.Context(), py("a-b", "1.0", "pure", "deeper"))
	if err != nil {
		t.Fatal(err)
	}
	more, _ := r.Find(t.Context(), npm("x", "1.0.0", "tarball"))
	all, err := r.Bring(t.Context(), append(found, more...))
	if err != nil || !slices.Equal(names(all), []string{"npm:x@1.0.0", "pypi:a-b@1.0:py3-none-any"}) ||
		!w.has("pure") || !w.has("tarball") {
		t.Errorf("got %v, %v", all, err)
	}
	if _, err := r.Find(t.Context(), py("a-b", "1.0", "odd")); err == nil ||
		!strings.Contains(err.Error(), "no wheel of") {
		t.Errorf("got %v", err)
	}
	lacking, _ := r.Find(t.Context(), npm("z", "1.0.0", "no such"))
	_, err = r.Bring(t.Context(), lacking)
	if f := fault.Of(err); f.Code != fault.NotFound || f.Details["where"] != "wheels" {
		t.Errorf("got %v", err)
	}
	// A file that is another one when it is read again.
	w.write("wheels/x.tgz", "changed")
	w.store = new(cas.Memory)
	same := w.registry("wheels", "wheels", true)
	if _, err := same.Bring(t.Context(), more); err == nil {
		t.Error("another file was taken")
	}
	_, err = w.registry("nowhere", "nowhere", true).Find(t.Context(), py("a-b", "1.0", "pure"))
	if err == nil || !strings.Contains(err.Error(), `from "nowhere"`) || !errors.Is(err, os.ErrNotExist) ||
		fault.Of(err).Details["package"] != "pypi:a-b@1.0" {
		t.Errorf("got %v", err)
	}
}

// What a server sends is the file, or nothing of it is kept.
func TestHostile(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	w := newWorld(t, map[string]string{
		"/reg/good/-/good-1.0.0.tgz": large, "/reg/forged/-/forged-1.0.0.tgz": "forged",
	})
	w.hook = func(rw http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/reg/short/-/short-1.0.0.tgz":
			rw.Header().Set("Content-Length", "1000")
			io.WriteString(rw, "short")
		case "/reg/huge/-/huge-1.0.0.tgz":
			rw.Header().Set("Content-Length", "3000000000")
		case "/reg/packed/-/packed-1.0.0.tgz":
			rw.Header().Set("Content-Encoding", "gzip")
			io.WriteString(rw, "packed")
		case "/reg/down/-/down-1.0.0.tgz":
			rw.WriteHeader(http.StatusServiceUnavailable)
		default:
			return false
		}
		return true
	}
	bring := func(all ...*packages.Package) error {
		r := w.registry("", "", false)
		var found []file.Artifact
		for _, p := range all {
			more, err := r.Find(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, more...)
		}
		_, err := r.Bring(t.Context(), found)
		return err
	}
	err := bring(npm("good", "1.0.0", large), npm("forged", "1.0.0", "true"))
	digest := fault.Of(err).Details
	if digest["package"] != "npm:forged@1.0.0" || digest["expected"] != sha5("true") ||
		digest["found"] != sha5("forged") ||
		digest["where"] != w.server.URL+"/reg/forged/-/forged-1.0.0.tgz" {
		t.Errorf("got %v", err)
	}
	if w.has("forged") {
		t.Error("the forged file was kept")
	}
	for _, c := range []struct{ name, want string }{
		{"short", "the connection closed after 5 of 1000 bytes"}, {"huge", "3000000000"}, {"packed", "compressed"},
		{"down", "503"}, {"nowhere", "404"},
	} {
		if err := bring(npm(c.name, "1.0.0", c.name)); err == nil || !strings.Contains(err.Error(), c.want) ||
			w.has(c.name) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	// The registry's digest fits, but the lock has pinned another one.
	r := w.registry("", "", false)
	found, _ := r.Find(t.Context(), npm("good", "1.0.0", large))
	found[0].Digest = cas.Sum([]byte("pinned"))
	if _, err := r.Bring(t.Context(), found); err == nil ||
		!strings.Contains(err.Error(), "expected "+found[0].Digest.String()) {
		t.Errorf("got %v", err)
	}
}

func TestOffline(t *testing.T) {
	w := newWorld(t, nil)
	r := w.registry("", "", true)
	_, err := r.Find(t.Context(), py("a-b", "1.0", "pure"))
	if off, ok := errors.AsType[*fetch.OfflineError](err); !ok || off.Package != "pypi:a-b@1.0" {
		t.Errorf("got %v", err)
	}
	found, err := r.Find(t.Context(), npm("x", "1.0.0", "tarball"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Bring(t.Context(), found)
	if off, ok := errors.AsType[*fetch.OfflineError](err); !ok || off.Where != w.server.URL+"/reg/x/-/x-1.0.0.tgz" ||
		w.asked.Load() != 0 {
		t.Errorf("got %v", err)
	}
}

// What is vendored isn't fetched, unless it is damaged.
func TestVendored(t *testing.T) {
	w := newWorld(t, map[string]string{"/reg/x/-/x-1.0.0.tgz": "tarball"})
	vendored := new(cas.Memory)
	put, err := vendored.Put(t.Context(), cas.Blob, strings.NewReader("tarball"))
	if err != nil {
		t.Fatal(err)
	}
	want := []file.Artifact{{Name: "npm:x", Version: "1.0.0", Digest: put.Digest, Source: sha5("tarball"), Size: 7}}
	for _, c := range []struct {
		from  cas.Getter
		asked int64
	}{{vendored, 0}, {damaged{vendored}, 1}, {new(cas.Memory), 1}} {
		w.store = new(cas.Memory)
		w.asked.Store(0)
		var read int64
		r := fetch.New(fetch.Options{Dir: w.dir, From: project.Registries{NPM: project.Source{Index: true,
			Where: w.server.URL + "/reg"}}, Fetch: w.client,
			Store: w.store, Vendored: c.from, Progress: func(n int64) { read += n }})
		got, err := r.Bring(t.Context(), want)
		if err != nil || !slices.Equal(got, want) || !w.has("tarball") || w.asked.Load() != c.asked ||
			read != 7*c.asked {
			t.Errorf("got %v, %v after %d questions and %d bytes", got, err, w.asked.Load(), read)
		}
	}
}

// What is vendored for a digest of the lock is held against the registry's digest too.
func TestVendoredForged(t *testing.T) {
	w := newWorld(t, map[string]string{"/reg/x/-/x-1.0.0.tgz": "tarball"})
	vendored := new(cas.Memory)
	put, err := vendored.Put(t.Context(), cas.Blob, strings.NewReader("forged"))
	if err != nil {
		t.Fatal(err)
	}
	r := fetch.New(fetch.Options{Dir: w.dir, From: project.Registries{NPM: project.Source{Index: true,
		Where: w.server.URL + "/reg"}}, Fetch: w.client,
		Store: w.store, Vendored: vendored})
	_, err = r.Bring(t.Context(), []file.Artifact{{Name: "npm:x", Version: "1.0.0", Digest: put.Digest,
		Source: sha5("tarball"), Size: 6}})
	digest := fault.Of(err).Details
	if digest["package"] != "npm:x@1.0.0" || digest["expected"] != sha5("tarball") ||
		digest["found"] != sha5("forged") || digest["where"] != "the vendor directory" {
		t.Errorf("got %v", err)
	}
	if w.has("forged") || w.asked.Load() != 0 {
		t.Errorf("%d questions; the forged file was kept: %v", w.asked.Load(), w.has("forged"))
	}
}

// A damaged getter has other bytes than it should.
type damaged struct{ cas.Getter }

func (d damaged) Get(ctx context.Context, id cas.ID) (cas.Object, error) {
	o, err := d.Getter.Get(ctx, id)
	if err != nil {
		return o, err
	}
	o.Close()
	return cas.Verify(cas.Info{ID: id, Size: o.Size}, io.NopCloser(strings.NewReader("other.."))), nil
}

func TestCancelled(t *testing.T) {
	w := newWorld(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	w.hook = func(rw http.ResponseWriter, r *http.Request) bool {
		cancel(stopped)
		<-r.Context().Done()
		return true
	}
	r := w.registry("", "", false)
	found, _ := r.Find(t.Context(), npm("x", "1.0.0", "tarball"))
	if _, err := r.Bring(ctx, found); err == nil || w.has("tarball") {
		t.Errorf("got %v", err)
	}
}

func TestUnknown(t *testing.T) {
	w := newWorld(t, nil)
	_, err := w.registry("", "", false).Bring(t.Context(),
		[]file.Artifact{{Name: "cargo:x", Version: "1", Source: sha2("x")}})
	if err == nil || !strings.Contains(err.Error(), "unknown registry") {
		t.Errorf("got %v", err)
	}
}
