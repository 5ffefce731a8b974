// Package ocitest is an OCI registry for tests.
package ocitest

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

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rye-build/rye/cas/oci/format"
)

// A Registry keeps one repository, acme/deploy, in memory. What it does wrong is said by Cue.
type Registry struct {
	*httptest.Server
	Referrers bool // whether it has the Referrers API
	Ranges    bool // whether it sends parts
	// Cue is called before each request, and says that it has answered.
	Cue func(http.ResponseWriter, *http.Request) bool

	busy sync.WaitGroup // with requests

	Mu        sync.Mutex // of what follows, while requests come
	Blobs     map[string][]byte
	Manifests map[string][]byte // by digest
	Tags      map[string]string
	asked     []string // methods and paths
	uploads   int
	Sent      int64 // bytes of bodies of blobs that went out
	Received  int64 // and that came in
}

// New starts a registry that ends with the test.
func New(t testing.TB) *Registry {
	d := &Registry{Referrers: true, Ranges: true, Blobs: map[string][]byte{}, Manifests: map[string][]byte{},
		Tags: map[string]string{}}
	d.Server = httptest.NewServer(d)
	t.Cleanup(d.Server.Close)
	return d
}

// Host is what references name.
func (d *Registry) Host() string { return strings.TrimPrefix(d.URL, "http://") }

// Count returns how many requests there were whose method and path begin with a text.
func (d *Registry) Count(prefix string) (n int) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	for _, a := range d.asked {
		if strings.HasPrefix(a, prefix) {
			n++
		}
	}
	return n
}

// HangUp ends all requests: what a client that has ended left behind changes nothing afterwards.
func (d *Registry) HangUp() {
	d.CloseClientConnections()
	d.busy.Wait()
}

// ServeHTTP implements http.Handler.
func (d *Registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.busy.Add(1)
	defer d.busy.Done()
	d.Mu.Lock()
	d.asked = append(d.asked, r.Method+" "+r.URL.Path)
	cue := d.Cue
	d.Mu.Unlock()
	if cue == nil || !cue(w, r) {
		d.Answer(w, r)
	}
}

// Answer answers as a registry does.
func (d *Registry) Answer(w http.ResponseWriter, r *http.Request) {
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
		d.Blob(w, r, name)
	case kind == "manifests":
		d.manifest(w, r, name)
	case kind == "tags":
		d.list(w, r)
	case kind == "referrers" && d.Referrers:
		d.refer(w, r, name)
	default:
		http.Error(w, "404 page not found", http.StatusNotFound)
	}
}

// list answers with tags, in pages of at most 400.
func (d *Registry) list(w http.ResponseWriter, r *http.Request) {
	d.Mu.Lock()
	tags := slices.Sorted(maps.Keys(d.Tags))
	d.Mu.Unlock()
	i, found := slices.BinarySearch(tags, r.URL.Query().Get("last"))
	if found {
		i++
	}
	if tags = tags[i:]; len(tags) > 400 {
		tags = tags[:400]
		w.Header().Set("Link", fmt.Sprintf(`</v2/acme/deploy/tags/list?n=400&last=%s>; rel="next"`, tags[399]))
	}
	json.NewEncoder(w).Encode(map[string]any{"name": "acme/deploy", "tags": tags})
}

func (d *Registry) upload(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		d.Mu.Lock()
		d.uploads++
		w.Header().Set("Location", fmt.Sprintf("/v2/acme/deploy/blobs/uploads/%d?state=secret", d.uploads))
		d.Mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
		return
	}
	b, err := io.ReadAll(r.Body)
	d.Mu.Lock()
	d.Received += int64(len(b))
	d.Mu.Unlock()
	if want := r.URL.Query().Get("digest"); err != nil || format.Sum(b) != want {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	d.Mu.Lock()
	d.Blobs[format.Sum(b)] = b
	d.Mu.Unlock()
	w.WriteHeader(http.StatusCreated)
}

// Blob answers with a blob.
func (d *Registry) Blob(w http.ResponseWriter, r *http.Request, name string) {
	d.Mu.Lock()
	b, ok := d.Blobs[name]
	d.Mu.Unlock()
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	from := 0
	if text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok && d.Ranges {
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
		d.Mu.Lock()
		d.Sent += int64(n)
		d.Mu.Unlock()
	}
}

func (d *Registry) manifest(w http.ResponseWriter, r *http.Request, name string) {
	if r.Method == http.MethodPut {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		d.Mu.Lock()
		defer d.Mu.Unlock()
		d.Manifests[format.Sum(b)] = b
		if !format.ValidDigest(name) {
			d.Tags[name] = format.Sum(b)
		}
		var in ocispec.Manifest
		if json.Unmarshal(b, &in); d.Referrers && in.Subject != nil {
			w.Header().Set("OCI-Subject", in.Subject.Digest.String())
		}
		w.Header().Set("Docker-Content-Digest", format.Sum(b))
		w.WriteHeader(http.StatusCreated)
		return
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if to, ok := d.Tags[name]; ok {
		name = to
	}
	b, ok := d.Manifests[name]
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

// refer answers with referrers, in pages of at most 400.
func (d *Registry) refer(w http.ResponseWriter, r *http.Request, subject string) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	index := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}
	for _, name := range slices.Sorted(maps.Keys(d.Manifests)) {
		if name <= r.URL.Query().Get("last") {
			continue
		}
		if n := len(index.Manifests); n == 400 {
			w.Header().Set("Link", fmt.Sprintf(`</v2/acme/deploy/referrers/%s?last=%s>; rel="next"`, subject,
				index.Manifests[n-1].Digest))
			break
		}
		var in ocispec.Manifest
		if b := d.Manifests[name]; json.Unmarshal(b, &in) == nil && in.Subject != nil &&
			in.Subject.Digest.String() == subject {
			e := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.Digest(name),
				Size: int64(len(b))}
			e.ArtifactType = in.ArtifactType
			index.Manifests = append(index.Manifests, e)
		}
	}
	w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
	var b bytes.Buffer
	json.NewEncoder(&b).Encode(index)
	w.Write(b.Bytes())
}
