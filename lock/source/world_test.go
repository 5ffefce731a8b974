package source

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/disk"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/lock/web/webtest"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/admission/admissiontest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/sign"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Alice is trusted, with bundles and indexes; Bob with one index alone; Eve with nothing.
var alice, bob, eve = keytest.Alice(), keytest.Bob(), keytest.Eve()

func trusting(t testing.TB, more string) *admission.Trust {
	return admissiontest.Trust(t, noon, admissiontest.ByAlice+"  \"index:bobs\": {keys: [bob]}\n"+more)
}

// A pack is a bundle, with everything that belongs to it.
type pack struct {
	t     testing.TB
	list  *manifest.FileList
	body  []byte
	files map[string][]byte // the evidence by its path beside the manifest
	store cas.Memory
}

// pad is something that doesn't get smaller when it is packed.
func pad(n int) []byte {
	b := make([]byte, n)
	for i, state := 0, uint32(1); i < n; i++ {
		state = state*1664525 + 1013904223
		b[i] = byte(state >> 24)
	}
	return b
}

// newPack makes a bundle with one item and some assets. What it requires is written "ID RANGE".
func newPack(t testing.TB, id, version string, requires []string, keys ...key.Private) *pack {
	t.Helper()
	const noteAt = ".ai/knowledge/acme/note.md"
	p := &pack{t: t, files: map[string][]byte{"README.md": []byte("# " + id + " " + version),
		"data/deep/pad": pad(100_000)}}
	note := fmt.Sprintf("---\nid: note\ntitle: Note\nversion: %s\nentry_type: reference\n---\nof %s\n", version, id)
	signed, err := sign.Sign([]byte(note), sign.StyleOf(noteAt),
		sign.Claim{Domain: sign.Item, Name: "knowledge:acme/note"}, alice, noon, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.files[noteAt] = signed
	var files []manifest.File
	for path, b := range p.files {
		f := manifest.File{Path: path, Digest: p.put(b), Size: int64(len(b)), Mode: cas.File}
		if path == noteAt {
			f.Ref, f.Version = "knowledge:acme/note", version
		}
		files = append(files, f)
	}
	sbom := []byte("{}")
	p.files[".ai/bundles/"+id+"/sbom.json"] = sbom
	l := &manifest.FileList{BundleID: id, Version: version,
		Evidence: []manifest.Evidence{{Name: "sbom.json", Digest: p.put(sbom), Size: 2, Type: bundle.TypeCycloneDX}}}
	for _, r := range requires {
		id, versions, _ := strings.Cut(r, " ")
		l.Requires = append(l.Requires, manifest.Require{BundleID: id, Version: versions})
	}
	if p.body, p.list, err = manifest.AppendFileList(nil, l, files); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if err := p.list.Sign(k, noon); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *pack) put(b []byte) cas.Digest {
	info, err := p.store.Put(p.t.Context(), cas.Blob, bytes.NewReader(b))
	if err != nil {
		p.t.Fatal(err)
	}
	return info.Digest
}

func (p *pack) archive() []byte {
	p.t.Helper()
	var b bytes.Buffer
	if err := archive.Write(p.t.Context(), &b, p.body, p.list.Signatures, &p.store); err != nil {
		p.t.Fatal(err)
	}
	return b.Bytes()
}

// dir writes the bundle into a directory, as the project that it was made in.
func (p *pack) dir(dir string) {
	p.t.Helper()
	for path, b := range p.files {
		write(p.t, filepath.Join(dir, path), b)
	}
	write(p.t, filepath.Join(dir, ".ai", "bundles", p.list.BundleID, "manifest.yaml"),
		manifest.Join(nil, p.body, p.list.Signatures))
}

// entry is what an index says of the bundle.
func (p *pack) entry(at string) index.Entry {
	p.t.Helper()
	requires, err := requiresOf(&bundle.Bundle{FileList: p.list})
	if err != nil {
		p.t.Fatal(err)
	}
	return index.Entry{ID: p.list.BundleID, Version: p.list.Version, Manifest: p.list.ID, Archive: at,
		Size: int64(len(p.archive())), Requires: requires}
}

// want is what a lock says of the bundle.
func (p *pack) want(src project.Source) file.Bundle {
	return file.Bundle{ID: p.list.BundleID, Version: p.list.Version, Manifest: p.list.ID, Source: src}
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// signed is the text of an index.
func signed(t testing.TB, x index.Index, keys ...key.Private) []byte {
	t.Helper()
	body, read, err := index.Append(nil, &x)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if err := read.Sign(k, noon); err != nil {
			t.Fatal(err)
		}
	}
	return manifest.Join(nil, body, read.Signatures)
}

// A world is a project, a store, a memory, and a server that has what the test puts there.
type world struct {
	t       testing.TB
	dir     string // of the project
	store   *disk.Store
	options Options

	mu     sync.Mutex
	server *httptest.Server // is started when its address is asked for
	served map[string][]byte
	handle map[string]http.HandlerFunc // instead of what is served
	asked  map[string]int

	certificate *tls.Certificate // of the server
}

func newWorld(t testing.TB) *world {
	t.Helper()
	root := t.TempDir()
	w := &world{t: t, dir: filepath.Join(root, "project"), served: map[string][]byte{},
		handle: map[string]http.HandlerFunc{}, asked: map[string]int{}}
	var err error
	if w.store, err = disk.Open(filepath.Join(root, "store"), disk.Options{Create: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.store.Close() })
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	certificate, roots := webtest.Certificate(t)
	w.certificate = certificate
	client := web.New(web.Options{Roots: roots, Proxy: func(*url.URL) (*url.URL, error) { return nil, nil }})
	w.options = Options{Dir: w.dir, Fetch: client, Store: w.store,
		Verify:  bundle.VerifyOptions{Trust: trusting(t, ""), TempDir: t.TempDir()},
		Journal: &rollback.Journal{Path: filepath.Join(root, "state", "rollback")}, Now: func() time.Time {
			return noon
		}}
	return w
}

// url is the address of the server.
func (w *world) url() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.server == nil {
		w.server = httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
		w.server.TLS = &tls.Config{Certificates: []tls.Certificate{*w.certificate}}
		w.server.StartTLS()
		w.t.Cleanup(w.server.Close)
	}
	return w.server.URL
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.asked[r.URL.Path]++
	b, ok := w.served[r.URL.Path]
	handle := w.handle[r.URL.Path]
	w.mu.Unlock()
	switch {
	case handle != nil:
		handle(rw, r)
	case ok:
		rw.Write(b)
	default:
		http.NotFound(rw, r)
	}
}

// put makes the server have something.
func (w *world) put(path string, b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.served[path] = b
}

// answer makes the server answer otherwise.
func (w *world) answer(path string, handle http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handle[path] = handle
}

func (w *world) requests(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[path]
}

// at is the source of an index or archive on the server.
func (w *world) at(path string, index bool) project.Source {
	return project.Source{Index: index, Where: w.url() + path}
}

// sources begins a command. What the project requires is written "ID", and comes from a source.
func (w *world) sources(requires ...any) *Sources {
	w.t.Helper()
	o := w.options
	for i := 0; i < len(requires); i += 2 {
		r, err := project.NewRequirement(requires[i].(string), "*", requires[i+1].(project.Source))
		if err != nil {
			w.t.Fatal(err)
		}
		o.Requires = append(o.Requires, r)
	}
	return New(o)
}

// offline is the world without its network.
func (w *world) offline() { w.options.Fetch = nil }

// bundles are the refs of bundles in the store.
func (w *world) bundles() (all []string) {
	w.t.Helper()
	refs, err := w.store.Refs()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range refs {
		if strings.HasPrefix(r.Name, "bundles/") {
			all = append(all, r.Name)
		}
	}
	return all
}

// empty wants nothing of a bundle to be found in the store.
func (w *world) empty(name string, p *pack) {
	w.t.Helper()
	if found := w.bundles(); len(found) > 0 {
		w.t.Errorf("%s: the store names %q", name, found)
	}
	if _, err := w.store.Get(w.t.Context(), cas.ID{Kind: cas.Document, Digest: p.list.ID}); err == nil {
		w.t.Errorf("%s: the store has the manifest", name)
	}
}

// whole wants all of a bundle to be in the store.
func (w *world) whole(p *pack) {
	w.t.Helper()
	r, err := bundle.Verify(w.t.Context(), bundle.InStore(w.store, w.store, p.list.ID), w.options.Verify)
	if err != nil || !r.OK() {
		w.t.Errorf("%s@%s: %v %v", p.list.BundleID, p.list.Version, r, err)
	}
}

var library = []*ai.Space{{Label: "system:rye/std", FS: std.FS(), Builtin: true}}

// A slowly server is asked, says how much there is, and sends the beginning.
func slowly(b []byte, sent int, then func()) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Length", fmt.Sprint(len(b)))
		io.Copy(rw, bytes.NewReader(b[:sent]))
		rw.(http.Flusher).Flush()
		then()
	}
}
