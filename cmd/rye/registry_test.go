package main

import (
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// serveRegistry is "registry [basic|bearer]": an OCI registry by https on this machine, without the Referrers API.
// REGISTRY is its host, and SSL_CERT_FILE its certificate. It may want the user alice with the password in
// REGISTRY_PASSWORD, by itself or from a token service.
func serveRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: registry [basic|bearer]")
	}
	r := &registryDouble{blobs: map[string][]byte{}, manifests: map[string][]byte{}, tags: map[string]string{},
		password: "canary-b1946ac92492"}
	if len(args) == 1 {
		r.wants = args[0]
	}
	server := httptest.NewTLSServer(r)
	ts.Defer(server.Close)
	r.url = server.URL
	roots := ts.MkAbs("registry.pem")
	ts.Check(os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		0o600))
	ts.Setenv("SSL_CERT_FILE", roots)
	ts.Setenv("REGISTRY", server.Listener.Addr().String())
	ts.Setenv("REGISTRY_PASSWORD", r.password)
}

// startProxy is "proxy": a proxy on this machine, in PROXY, through which the registry of the script is example.com, a
// name in its certificate. What it was asked to connect to is written to the file proxied.
func startProxy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: proxy")
	}
	to, log := ts.Getenv("REGISTRY"), ts.MkAbs("proxied")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintln(f, r.Method, r.Host)
			f.Close()
		}
		far, err := net.Dial("tcp", to)
		if err != nil || r.Host != "example.com:443" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer far.Close()
		near, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer near.Close()
		fmt.Fprint(near, "HTTP/1.1 200 OK\r\n\r\n")
		go io.Copy(far, near)
		io.Copy(near, far)
	}))
	ts.Defer(server.Close)
	ts.Setenv("PROXY", server.URL)
}

// A registryDouble keeps everything in memory.
type registryDouble struct {
	url, wants, password string

	mu               sync.Mutex
	blobs, manifests map[string][]byte // by digest
	tags             map[string]string // by NAME:TAG
}

// admits reports whether a request may go on, and answers it if not.
func (d *registryDouble) admits(w http.ResponseWriter, r *http.Request) bool {
	user, password, _ := r.BasicAuth()
	known := user == "alice" && password == d.password
	switch {
	case d.wants == "" || d.wants == "basic" && known:
		return true
	case r.URL.Path == "/token":
		if !known {
			w.WriteHeader(http.StatusUnauthorized)
		} else {
			fmt.Fprintf(w, `{"token": "for-%s"}`, user)
		}
		return false
	case r.Header.Get("Authorization") == "Bearer for-alice":
		return true
	case d.wants == "bearer":
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="double"`, d.url))
	default:
		w.Header().Set("WWW-Authenticate", `Basic realm="double"`)
	}
	w.WriteHeader(http.StatusUnauthorized)
	return false
}

func (d *registryDouble) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !d.admits(w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/v2/")
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(body))
	name, after, blobs := strings.Cut(path, "/blobs/")
	switch {
	case blobs && r.Method == http.MethodPost:
		w.Header().Set("Location", "/v2/"+name+"/blobs/uploads/1")
		w.WriteHeader(http.StatusAccepted)
		return
	case blobs && r.Method == http.MethodPut && r.URL.Query().Get("digest") == digest:
		d.blobs[digest] = body
		w.WriteHeader(http.StatusCreated)
		return
	case blobs:
		d.give(w, r, after, d.blobs[after])
		return
	}
	name, after, manifests := strings.Cut(path, "/manifests/")
	switch {
	case manifests && r.Method == http.MethodPut:
		d.manifests[digest] = body
		if after != digest {
			d.tags[name+":"+after] = digest
		}
		w.Header().Set("Docker-Content-Digest", digest)
		w.WriteHeader(http.StatusCreated)
	case manifests:
		if to := d.tags[name+":"+after]; to != "" {
			after = to
		}
		var m struct{ MediaType string }
		json.Unmarshal(d.manifests[after], &m)
		w.Header().Set("Content-Type", m.MediaType)
		d.give(w, r, after, d.manifests[after])
	case strings.HasSuffix(path, "/tags/list"):
		name, tags := strings.TrimSuffix(path, "/tags/list"), []string{}
		for _, tag := range slices.Sorted(maps.Keys(d.tags)) {
			if tag, ok := strings.CutPrefix(tag, name+":"); ok {
				tags = append(tags, tag)
			}
		}
		json.NewEncoder(w).Encode(map[string]any{"name": name, "tags": tags})
	case path == "":
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// give answers with what has a digest, if there is something.
func (d *registryDouble) give(w http.ResponseWriter, r *http.Request, digest string, b []byte) {
	if b == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.Header().Set("Docker-Content-Digest", digest)
	if r.Method == http.MethodGet {
		w.Write(b)
	}
}

// credentialMain is a credential helper of docker: it knows what REGISTRY and REGISTRY_PASSWORD say, and writes down
// what it was asked for.
func credentialMain() {
	host, _ := io.ReadAll(os.Stdin)
	f, err := os.OpenFile(os.Getenv("HELPER_LOG"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(f, os.Args[1:], strings.TrimSpace(string(host)))
		f.Close()
	}
	if string(host) != os.Getenv("REGISTRY") {
		fmt.Println("credentials not found in native keychain")
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(map[string]string{"ServerURL": string(host), "Username": "alice",
		"Secret": os.Getenv("REGISTRY_PASSWORD")})
}
