package oci

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rye-build/rye/cas/oci/format"
)

// A double is a registry in memory.
type double struct {
	*httptest.Server
	referrers bool // whether it has the Referrers API
	ranges    bool // whether it sends parts
	// cue is called before each request, and says that it has answered.
	cue func(http.ResponseWriter, *http.Request) bool

	mu        sync.Mutex
	blobs     map[string][]byte
	manifests map[string][]byte // by digest
	tags      map[string]string
	asked     []string // methods and paths
	uploads   int
	sent      int64 // bytes of bodies of blobs that went out
}

func newDouble(t *testing.T) *double {
	d := &double{referrers: true, ranges: true, blobs: map[string][]byte{}, manifests: map[string][]byte{}, tags: map[string]string{}}
	d.Server = httptest.NewServer(d)
	t.Cleanup(d.Server.Close)
	return d
}

func (d *double) host() string { return strings.TrimPrefix(d.URL, "http://") }

// place opens the repository of the double.
func (d *double) place(t *testing.T, change ...func(*Options)) *Place {
	t.Helper()
	o := Options{Transport: new(http.Transport), pauses: []time.Duration{time.Millisecond, time.Millisecond}}
	for _, f := range change {
		f(&o)
	}
	p, err := Open(Reference{Host: d.host(), Name: "acme/deploy"}, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// count returns how many requests there were whose method and path begin with a text.
func (d *double) count(prefix string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.asked {
		if strings.HasPrefix(a, prefix) {
			n++
		}
	}
	return n
}

func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.TLS == nil && r.Method == "" {
		return
	}
	d.mu.Lock()
	d.asked = append(d.asked, r.Method+" "+r.URL.Path)
	cue := d.cue
	d.mu.Unlock()
	if cue != nil && cue(w, r) {
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/v2/acme/deploy")
	if !ok {
		w.WriteHeader(http.StatusOK)
		return
	}
	kind, name, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case kind == "blobs" && strings.HasPrefix(name, "uploads"):
		d.upload(w, r)
	case kind == "blobs":
		d.blob(w, r, name)
	case kind == "manifests":
		d.manifest(w, r, name)
	case kind == "tags":
		d.mu.Lock()
		tags := slices.Sorted(maps.Keys(d.tags))
		d.mu.Unlock()
		json.NewEncoder(w).Encode(map[string]any{"name": "acme/deploy", "tags": tags})
	case kind == "referrers" && d.referrers:
		d.refer(w, name)
	default:
		http.Error(w, "404 page not found", http.StatusNotFound)
	}
}

func (d *double) upload(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		d.mu.Lock()
		d.uploads++
		w.Header().Set("Location", fmt.Sprintf("/v2/acme/deploy/blobs/uploads/%d?state=secret", d.uploads))
		d.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
		return
	}
	b, err := io.ReadAll(r.Body)
	if want := r.URL.Query().Get("digest"); err != nil || format.Sum(b) != want {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	d.mu.Lock()
	d.blobs[format.Sum(b)] = b
	d.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
}

func (d *double) blob(w http.ResponseWriter, r *http.Request, name string) {
	d.mu.Lock()
	b, ok := d.blobs[name]
	d.mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	from := 0
	if text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok && d.ranges {
		from, _ = strconv.Atoi(strings.TrimSuffix(text, "-"))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(b)-1, len(b)))
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(b)-from))
	w.Header().Set("Docker-Content-Digest", name)
	if from > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	if r.Method == http.MethodGet {
		n, _ := w.Write(b[from:])
		d.mu.Lock()
		d.sent += int64(n)
		d.mu.Unlock()
	}
}

func (d *double) manifest(w http.ResponseWriter, r *http.Request, name string) {
	if r.Method == http.MethodPut {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.manifests[format.Sum(b)] = b
		if !format.ValidDigest(name) {
			d.tags[name] = format.Sum(b)
		}
		var in ocispec.Manifest
		if json.Unmarshal(b, &in); d.referrers && in.Subject != nil {
			w.Header().Set("OCI-Subject", in.Subject.Digest.String())
		}
		w.Header().Set("Docker-Content-Digest", format.Sum(b))
		w.WriteHeader(http.StatusCreated)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if to, ok := d.tags[name]; ok {
		name = to
	}
	b, ok := d.manifests[name]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	var in struct {
		MediaType string `json:"mediaType"`
	}
	json.Unmarshal(b, &in)
	w.Header().Set("Content-Type", in.MediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.Header().Set("Docker-Content-Digest", name)
	if r.Method == http.MethodGet {
		w.Write(b)
	}
}

func (d *double) refer(w http.ResponseWriter, subject string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	index := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}
	for _, name := range slices.Sorted(maps.Keys(d.manifests)) {
		var in ocispec.Manifest
		if b := d.manifests[name]; json.Unmarshal(b, &in) == nil && in.Subject != nil && in.Subject.Digest.String() == subject {
			e := blob(ocispec.MediaTypeImageManifest, b)
			e.ArtifactType = in.ArtifactType
			index.Manifests = append(index.Manifests, e)
		}
	}
	w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
	var b bytes.Buffer
	json.NewEncoder(&b).Encode(index)
	w.Write(b.Bytes())
}
