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
func (d *Registry) Answer(response http.ResponseWriter, request *http.Request) {
	path, ok := strings.CutPrefix(request.URL.Path, "/v2/acme/deploy")
	if !ok {
		response.WriteHeader(http.StatusOK)
		return
	}
	kind, name, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case kind == "blobs" && strings.HasPrefix(name, "uploads"):
		d.upload(response, request)
	case kind == "blobs":
		d.Blob(response, request, name)
	case kind == "manifests":
		d.manifest(response, request, name)
	case kind == "tags":
		d.list(response, request)
	case kind == "referrers" && d.Referrers:
		d.refer(response, request, name)
	default:
		http.Error(response, "404 page not found", http.StatusNotFound)
	}
}

// list answers with tags, in pages of at most 400.
func (d *Registry) list(response http.ResponseWriter, r *http.Request) {
	d.Mu.Lock()
	tags := slices.Sorted(maps.Keys(d.Tags))
	d.Mu.Unlock()
	i, found := slices.BinarySearch(tags, r.URL.Query().Get("last"))
	if found {
		i++
	}
	if tags = tags[i:]; len(tags) > 400 {
		tags = tags[:400]
		response.Header().Set("Link", fmt.Sprintf(`</v2/acme/deploy/tags/list?n=400&last=%s>; rel="next"`, tags[399]))
	}
	json.NewEncoder(response).Encode(map[string]any{"name": "acme/deploy", "tags": tags})
}

func (d *Registry) upload(response http.ResponseWriter, request *http.Request) {
	if request.Method == http.MethodPost {
		d.Mu.Lock()
		d.uploads++
		response.Header().Set("Location", fmt.Sprintf("/v2/acme/deploy/blobs/uploads/%d?state=secret", d.uploads))
		d.Mu.Unlock()
		response.WriteHeader(http.StatusAccepted)
		return
	}
	b, err := io.ReadAll(request.Body)
	d.Mu.Lock()
	d.Received += int64(len(b))
	d.Mu.Unlock()
	if want := request.URL.Query().Get("digest"); err != nil || format.Sum(b) != want {
		response.WriteHeader(http.StatusBadRequest)
		return
	}
	d.Mu.Lock()
	d.Blobs[format.Sum(b)] = b
	d.Mu.Unlock()
	response.WriteHeader(http.StatusCreated)
}

// Blob answers with a blob.
func (d *Registry) Blob(response http.ResponseWriter, request *http.Request, name string) {
	d.Mu.Lock()
	data, ok := d.Blobs[name]
	d.Mu.Unlock()
	if !ok {
		response.WriteHeader(http.StatusNotFound)
		return
	}
	from := 0
	if text, ok := strings.CutPrefix(request.Header.Get("Range"), "bytes="); ok && d.Ranges {
		from, _ = strconv.Atoi(strings.TrimSuffix(text, "-"))
		response.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
	}
	response.Header().Set("Content-Length", strconv.Itoa(len(data)-from))
	response.Header().Set("Docker-Content-Digest", name)
	if from > 0 {
		response.WriteHeader(http.StatusPartialContent)
	}
	if request.Method == http.MethodGet {
		n, _ := response.Write(data[from:])
		d.Mu.Lock()
		d.Sent += int64(n)
		d.Mu.Unlock()
	}
}

func (d *Registry) manifest(response http.ResponseWriter, request *http.Request, name string) {
	if request.Method == http.MethodPut {
		data, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		d.Mu.Lock()
		defer d.Mu.Unlock()
		d.Manifests[format.Sum(data)] = data
		if !format.ValidDigest(name) {
			d.Tags[name] = format.Sum(data)
		}
		var in ocispec.Manifest
		if json.Unmarshal(data, &in); d.Referrers && in.Subject != nil {
			response.Header().Set("OCI-Subject", in.Subject.Digest.String())
		}
		response.Header().Set("Docker-Content-Digest", format.Sum(data))
		response.WriteHeader(http.StatusCreated)
		return
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if to, ok := d.Tags[name]; ok {
		name = to
	}
	raw, ok := d.Manifests[name]
	if !ok {
		response.WriteHeader(http.StatusNotFound)
		return
	}
	var in struct {
		MediaType string `json:"mediaType"`
	}
	json.Unmarshal(raw, &in)
	response.Header().Set("Content-Type", in.MediaType)
	response.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	response.Header().Set("Docker-Content-Digest", name)
	if request.Method == http.MethodGet {
		response.Write(raw)
	}
}

// refer answers with referrers, in pages of at most 400.
func (d *Registry) refer(response http.ResponseWriter, r *http.Request, subject string) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	index := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}
	for _, name := range slices.Sorted(maps.Keys(d.Manifests)) {
		if name <= r.URL.Query().Get("last") {
			continue
		}
		if n := len(index.Manifests); n == 400 {
			response.Header().Set("Link", fmt.Sprintf(`</v2/acme/deploy/referrers/%s?last=%s>; rel="next"`, subject,
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
	response.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
	var b bytes.Buffer
	json.NewEncoder(&b).Encode(index)
	response.Write(b.Bytes())
}
