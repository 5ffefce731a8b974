package oci

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/format"
)

// isLayer reports whether a request fetches a blob of some size.
func isLayer(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/sha256:")
}

// instead answers in place of the double, which has what it would have said.
func (d *double) instead(t *testing.T, r *http.Request) (*httptest.ResponseRecorder, []byte) {
	rec := httptest.NewRecorder()
	_, name, _ := strings.Cut(r.URL.Path, "/blobs/")
	d.Blob(rec, r, name)
	return rec, rec.Body.Bytes()
}

// TestWrong: what a registry does wrong is found, said with its code, and leaves nothing in the store.
func TestWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, noise(1, 3<<20), noise(2, 6<<20))
	full := newDouble(t)
	if _, err := full.place(t).Push(t.Context(), w.content, "1"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cue  func(*double, http.ResponseWriter, *http.Request) bool
		code fault.Code
		text string
	}{
		"wrong bytes": {func(d *double, rw http.ResponseWriter, r *http.Request) bool {
			if !isLayer(r) {
				return false
			}
			_, b := d.instead(nil, r)
			b[len(b)/2] ^= 1
			rw.Write(b)
			return true
		}, fault.Integrity, "wrong bytes"},
		"endless": {func(d *double, rw http.ResponseWriter, r *http.Request) bool {
			if !isLayer(r) {
				return false
			}
			for buf := make([]byte, 1<<20); ; {
				if _, err := rw.Write(buf); err != nil {
					return true
				}
			}
		}, fault.Integrity, "more than"},
		"always cut": {func(d *double, rw http.ResponseWriter, r *http.Request) bool {
			if !isLayer(r) {
				return false
			}
			rec, _ := d.instead(nil, r)
			rw.Header().Set("Content-Length", rec.Header().Get("Content-Length"))
			rw.Write([]byte("a"))
			panic(http.ErrAbortHandler)
		}, fault.Registry, "closed too early"},
		"another size": {func(d *double, rw http.ResponseWriter, r *http.Request) bool {
			if !isLayer(r) {
				return false
			}
			rw.Header().Set("Content-Length", "1000000000")
			return true
		}, fault.Integrity, "it has 1000000000 bytes, not "},
		"not found": {func(_ *double, rw http.ResponseWriter, r *http.Request) bool {
			if isLayer(r) {
				rw.WriteHeader(http.StatusNotFound)
			}
			return isLayer(r)
		}, fault.NotFound, "not found"},
		"down": {func(_ *double, rw http.ResponseWriter, r *http.Request) bool {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return true
		}, fault.Unavailable, "503"},
		"later": {func(_ *double, rw http.ResponseWriter, r *http.Request) bool {
			rw.Header().Set("Retry-After", "3600")
			rw.WriteHeader(http.StatusTooManyRequests)
			return true
		}, fault.RateLimited, "retry after 1h0m0s"},
		"denied": {func(_ *double, rw http.ResponseWriter, r *http.Request) bool {
			rw.WriteHeader(http.StatusForbidden)
			return true
		}, fault.AuthFailed, "403"},
		"no credentials": {func(_ *double, rw http.ResponseWriter, r *http.Request) bool {
			rw.Header().Set("WWW-Authenticate", `Basic realm="r"`)
			rw.WriteHeader(http.StatusUnauthorized)
			return true
		}, fault.AuthRequired, "user name and password"},
		"large manifest": {func(_ *double, rw http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			rw.Write(make([]byte, format.MaxManifest+1))
			return true
		}, fault.Limit, "more than"},
		"stalls": {func(d *double, rw http.ResponseWriter, r *http.Request) bool {
			if !isLayer(r) {
				return false
			}
			rw.Write([]byte("a"))
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		}, fault.Timeout, "moved within"},
		"redirects": {func(_ *double, rw http.ResponseWriter, r *http.Request) bool {
			http.Redirect(rw, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
			return true
		}, fault.Registry, "redirects"},
		"redirects to a file": {func(_ *double, rw http.ResponseWriter, r *http.Request) bool {
			http.Redirect(rw, r, "file:///etc/passwd", http.StatusTemporaryRedirect)
			return true
		}, fault.Policy, "not an https address"},
		"redirects to http elsewhere": {func(_ *double, rw http.ResponseWriter, r *http.Request) bool {
			http.Redirect(rw, r, "http://registry.example/", http.StatusTemporaryRedirect)
			return true
		}, fault.Policy, "not an https address"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := full.again(t)
			p := d.place(t, func(o *Options) { o.stall = 200 * time.Millisecond })
			d.Mu.Lock()
			d.Cue = func(rw http.ResponseWriter, r *http.Request) bool { return c.cue(d, rw, r) }
			d.Mu.Unlock()
			m, err := p.Get(t.Context(), "1")
			var store cas.Memory
			if err == nil {
				_, _, err = m.Objects(t.Context(), w.content.Objects, &store, t.TempDir())
			}
			if err == nil {
				t.Fatal("it is believed")
			}
			if f := fault.Of(err); f.Code != c.code || !strings.Contains(f.Text, c.text) ||
				!strings.HasPrefix(f.Text, "oci://") || len(f.Hint) == 0 {
				t.Errorf("%s %s", f.Code, f.Text)
			}
			for o := range store.List(t.Context()) {
				t.Errorf("%s is in the store", o.ID)
			}
		})
	}
}

// TestSurvived: what passes costs time alone.
func TestSurvived(t *testing.T) {
	t.Parallel()
	w := newWorld(t, noise(1, 3<<20), noise(2, 20<<20))
	full := newDouble(t)
	if _, err := full.place(t).Push(t.Context(), w.content, "1"); err != nil {
		t.Fatal(err)
	}
	for name, cue := range map[string]func(*double, http.ResponseWriter, *http.Request, int) bool{
		"every third is busy": func(_ *double, rw http.ResponseWriter, r *http.Request, n int) bool {
			if n%3 == 0 {
				rw.Header().Set("Retry-After", "0")
				rw.WriteHeader(http.StatusTooManyRequests)
			}
			return n%3 == 0
		},
		"cut at every megabyte": func(d *double, rw http.ResponseWriter, r *http.Request, n int) bool {
			if !isLayer(r) {
				return false
			}
			rec, b := d.instead(nil, r)
			for k, v := range rec.Header() {
				rw.Header()[k] = v
			}
			rw.WriteHeader(rec.Code)
			rw.Write(b[:min(len(b), 1<<20)])
			if len(b) > 1<<20 {
				panic(http.ErrAbortHandler)
			}
			return true
		},
		"other ranges": func(d *double, rw http.ResponseWriter, r *http.Request, n int) bool {
			if !isLayer(r) {
				return false
			}
			if r.Header.Get("Range") != "" {
				rw.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return true
			}
			if n%4 == 0 {
				_, b := d.instead(nil, r)
				rw.Header().Set("Content-Length", strconv.Itoa(len(b)))
				rw.Write(b[:len(b)/2])
				panic(http.ErrAbortHandler)
			}
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := full.again(t)
			p := d.place(t)
			var n atomic.Int64
			d.Mu.Lock()
			d.Cue = func(rw http.ResponseWriter, r *http.Request) bool { return cue(d, rw, r, int(n.Add(1))) }
			d.Mu.Unlock()
			if _, err := w.pull(t.Context(), p, "1", t.TempDir()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestForeign: what isn't a bundle is refused by what it is.
func TestForeign(t *testing.T) {
	t.Parallel()
	d := newDouble(t)
	p := d.place(t)
	w := newWorld(t, []byte("a"))
	done, err := p.Push(t.Context(), w.content, "good")
	if err != nil {
		t.Fatal(err)
	}
	good := string(d.Manifests[done.Digest])
	for text, want := range map[string]string{
		`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json",` +
			`"manifests":[{"mediaType":"x","digest":"sha256:00","size":1}]}`: "an index of several manifests",
		`{"schemaVersion":2,"manifests":[{}]}`: "an index of several manifests",
		`{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json",` +
			`"config":{}}`: "a container image",
		`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",` +
			`"config":{}}`: "a container image",
		`{"schemaVersion":2,"mediaType":"text/html"}`: `a manifest of type "text/html"`,
		strings.Replace(good, `"application/vnd.rye.bundle.v2"`, `"application/vnd.other"`,
			1): `an artifact of type "application/vnd.other"`,
		strings.Replace(good, `"schemaVersion":2`, `"schemaVersion":2 `,
			1): "not written as rye writes it",
		strings.Replace(good, `"layers":[`, `"extra":1,"layers":[`,
			1): "not written as rye writes it",
		strings.Replace(good, `io.github.rye-build.blake3":"blake3:`, `io.github.rye-build.blake3":"sha512:`,
			1): "not a digest",
		strings.Replace(good, `io.github.rye-build.size":"1"`, `io.github.rye-build.size":"99999999999"`,
			1): "is not a size",
		strings.Replace(good, `io.github.rye-build.size":"1"`, `io.github.rye-build.size":"2"`,
			1): "do not hold what the document names",
		good[:strings.Index(good, `"layers"`)] +
			`"layers":[]}`: "layers: none",
		"<html>": "invalid manifest",
		strings.Replace(good, `"digest":"sha256:`, `"digest":"sha512:`, 1): "not a sha256",
	} {
		d.Mu.Lock()
		d.Manifests[format.Sum([]byte(text))] = []byte(text)
		d.Tags["bad"] = format.Sum([]byte(text))
		d.Mu.Unlock()
		m, err := p.Get(t.Context(), "bad")
		if err == nil {
			_, _, err = m.Objects(t.Context(), w.content.Objects, new(cas.Memory), t.TempDir())
		}
		if err == nil || !strings.Contains(err.Error(), want) || !slices.Contains(fault.Of(err).Hint, "rye docs oci") {
			t.Errorf("%v, want %s", err, want)
		}
	}
	// By digest there come other bytes than before.
	d.Mu.Lock()
	d.Manifests[done.Digest] = []byte(strings.Replace(good, "acme/deploy", "acme/other", 1))
	d.Mu.Unlock()
	if _, err := p.Get(t.Context(), done.Digest); err == nil || fault.CodeOf(err) != fault.Integrity {
		t.Errorf("%v", err)
	}
}

// pushed is a registry that has the world's content as 1, and the manifest of that.
func (w *world) pushed(t *testing.T) (*double, *Place, *format.Manifest) {
	t.Helper()
	d := newDouble(t)
	p := d.place(t)
	done, err := p.Push(t.Context(), w.content, "1")
	if err != nil {
		t.Fatal(err)
	}
	m, err := format.ParseManifest(d.Manifests[done.Digest])
	if err != nil {
		t.Fatal(err)
	}
	return d, p, m
}

// TestLayer: a layer whose bytes the registry vouches for, and which isn't what the document says.
func TestLayer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []byte("hello"))
	pack := func(text string) []byte {
		z, _ := zstd.NewWriter(nil)
		return z.EncodeAll([]byte(text), nil)
	}
	for name, c := range map[string]struct {
		blob []byte
		text string // that it claims to hold
		want string
	}{
		"another object": {pack("jello"), "jello", "damaged"},
		"too long":       {pack("hello and more"), "hello", "more than 5 bytes"},
		"a bomb":         {pack(strings.Repeat("hello", 1<<20)), "hello", "more than 5 bytes"},
		"too short":      {pack("hell"), "hello", "1 bytes too few"},
		"a lie":          {pack("jello"), "hello", "damaged"},
		"not zstd":       {[]byte("hello"), "hello", "is not what the manifest says"},
	} {
		d, p, m := w.pushed(t)
		m.Layers[0] = format.Descriptor{SHA256: format.Sum(c.blob), Size: int64(len(c.blob)),
			Digest: cas.Sum([]byte(c.text)), Length: 5}
		text, err := m.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		d.Blobs[format.Sum(c.blob)], d.Manifests[format.Sum(text)], d.Tags["1"] = c.blob, text, format.Sum(text)
		if _, err := w.pull(t.Context(), p, "1", t.TempDir()); err == nil || !strings.Contains(err.Error(), c.want) ||
			!slices.Equal(fault.Of(err).Hint, []string{"rye docs oci"}) {
			t.Errorf("%s: %v, want %s: %q", name, err, c.want, fault.Of(err).Hint)
		}
	}
}

// TestReuse: a layer that another encoder made is reused if it holds the same bytes, and not if it only claims to.
func TestReuse(t *testing.T) {
	t.Parallel()
	object := []byte(strings.Repeat("some text, and more. ", 10_000))
	w := newWorld(t, object)
	for _, lies := range []bool{false, true} {
		d, p, m := w.pushed(t)
		held := object
		if lies {
			held = []byte(strings.Repeat("another text, as long", 10_000))
		}
		z, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
		other := z.EncodeAll(held, nil)
		delete(d.Blobs, m.Layers[0].SHA256)
		m.Layers[0].SHA256, m.Layers[0].Size = format.Sum(other), int64(len(other))
		text, _ := m.Append(nil)
		d.Blobs[format.Sum(other)], d.Manifests[format.Sum(text)], d.Tags["1"] = other, text, format.Sum(text)
		again, err := p.Push(t.Context(), w.content, "1")
		if err != nil || (again.Digest == format.Sum(text)) == lies || (again.Sent == 0) == lies {
			t.Errorf("%t: %+v, %v", lies, again, err)
		}
		if _, err := w.pull(t.Context(), p, "1", t.TempDir()); err != nil {
			t.Errorf("%t: %v", lies, err)
		}
	}
}

// TestChange: a change in a large object, and a small one more, send the layers beside them.
func TestChange(t *testing.T) {
	t.Parallel()
	if testing.Short() { // TestPushPull has the same goroutines
		t.Skip("many megabytes")
	}
	big := noise(7, 48<<20)
	w := newWorld(t, big, noise(8, 1<<20))
	d := newDouble(t)
	p := d.place(t)
	first, err := p.Push(t.Context(), w.content, "1")
	if err != nil {
		t.Fatal(err)
	}
	copy(big[24<<20:], noise(9, 480_000))
	second, err := p.Push(t.Context(), newWorld(t, big, noise(8, 1<<20)).content, "1")
	if err != nil || second.Digest == first.Digest || second.Sent > 2*format.MaxLayer ||
		second.Sent > first.Sent*6/10 {
		t.Errorf("%+v, then %+v, %v", first, second, err)
	}
}

// TestSigners: who signs later adds a referrer and changes no digest; junk beside it changes nothing.
func TestSigners(t *testing.T) {
	t.Parallel()
	for name, p := range places(t) {
		w := newWorld(t, []byte("a"))
		var digest string
		for i := range 3 {
			w.content.Attachments[0].Parts[0].Bytes = fmt.Appendf(nil, "line %d\n", i)
			done, err := p.Push(t.Context(), w.content, "1")
			if err != nil || digest != "" && done.Digest != digest {
				t.Fatalf("%s: %+v, %v", name, done, err)
			}
			digest = done.Digest
		}
		m, err := p.Get(t.Context(), digest)
		if err != nil {
			t.Fatal(err)
		}
		junk, _ := json.Marshal(ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest,
			ArtifactType: format.SignaturesType, Subject: &m.self,
			Config: format.Blob("x", nil), Layers: []ocispec.Descriptor{{MediaType: format.SignaturesType,
				Digest: "sha256:00", Size: -1}}})
		if err := p.at.putManifest(t.Context(), format.Blob(ocispec.MediaTypeImageManifest, junk), junk,
			""); err != nil {
			t.Fatal(err)
		}
		all, left, err := m.signatures(t.Context())
		if err != nil || len(all) != 3 || len(left) != 1 || !strings.Contains(left[0].Error(), "without a sha256") {
			t.Errorf("%s: %d attachments, %v, %v", name, len(all), left, err)
		}
	}
}

// TestCredentials: they go to the registry, and nowhere along with a redirect.
func TestCredentials(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var leaked []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		for _, name := range []string{"Authorization", "Cookie"} {
			if v := r.Header.Get(name); v != "" {
				leaked = append(leaked, name+": "+v)
			}
		}
		if scheme := r.URL.Query().Get("ask"); scheme != "" {
			rw.Header().Set("WWW-Authenticate", scheme+` realm="http://`+r.Host+`/token"`)
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		rw.Write([]byte("stored elsewhere"))
	}))
	defer elsewhere.Close()
	d := newDouble(t)
	var tokens atomic.Int64
	d.Mu.Lock()
	d.Cue = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			if user, password, ok := r.BasicAuth(); ok && user == "me" && password == "secret" {
				tokens.Add(1)
				rw.Write([]byte(`{"token":"t0ken"}`))
			} else {
				rw.WriteHeader(http.StatusUnauthorized)
			}
			return true
		}
		if r.Header.Get("Authorization") != "Bearer t0ken" {
			rw.Header().Set("WWW-Authenticate", `Bearer realm="`+d.URL+`/token",service="s"`)
			rw.WriteHeader(http.StatusUnauthorized)
			return true
		}
		return false
	}
	d.Mu.Unlock()
	with := func(c Credential) *Place {
		return d.place(t, func(o *Options) {
			o.Credential = func(_ context.Context, host string) (Credential, error) {
				if host != d.Host() {
					t.Errorf("asked for the credentials of %q", host)
				}
				return c, nil
			}
		})
	}
	w := newWorld(t, noise(1, 1<<20))
	p := with(Credential{User: "me", Password: "secret"})
	if _, err := p.Push(t.Context(), w.content, "1"); err != nil || tokens.Load() == 0 {
		t.Fatalf("%v, %d tokens", err, tokens.Load())
	}
	if _, err := w.pull(t.Context(), p, "1", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.pull(t.Context(), with(Credential{User: "me", Password: "wrong"}), "1",
		t.TempDir()); fault.CodeOf(err) != fault.AuthFailed {
		t.Errorf("%v", err)
	}
	if _, err := w.pull(t.Context(), d.place(t), "1", t.TempDir()); fault.CodeOf(err) != fault.AuthRequired ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	plain := d.Cue
	for _, query := range []string{"", "?ask=Basic", "?ask=Bearer"} {
		d.Mu.Lock()
		d.Cue = func(rw http.ResponseWriter, r *http.Request) bool {
			if plain(rw, r) {
				return true
			}
			if isLayer(r) {
				http.Redirect(rw, r, elsewhere.URL+"/blob"+query, http.StatusTemporaryRedirect)
			}
			return isLayer(r)
		}
		d.Mu.Unlock()
		if _, err := w.pull(t.Context(), p, "1", t.TempDir()); err == nil {
			t.Error("another blob is believed")
		}
	}
	if len(leaked) > 0 {
		t.Errorf("sent elsewhere: %q", leaked)
	}
	// An upload that is to go on elsewhere.
	d.Mu.Lock()
	d.Cue = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			rw.Header().Set("Location", elsewhere.URL+"/upload?state=hidden")
			rw.WriteHeader(http.StatusAccepted)
		}
		return r.Method == http.MethodPost
	}
	d.Mu.Unlock()
	if _, err := p.Push(t.Context(), newWorld(t, []byte("new")).content, "2"); err == nil ||
		strings.Contains(err.Error(), "hidden") || len(leaked) > 0 {
		t.Errorf("%v, %q", err, leaked)
	}
}

// TestTLS: https where there is TLS; plain http only on this machine, or where it is allowed.
func TestTLS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []byte("a"))
	d := newDouble(t)
	secure := httptest.NewTLSServer(d)
	defer secure.Close()
	pool := x509.NewCertPool()
	pool.AddCert(secure.Certificate())
	to := func(at string) *http.Transport {
		tr := secure.Client().Transport.(*http.Transport).Clone()
		tr.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, at)
		}
		return tr
	}
	open := func(host, at string, plain bool) *Place {
		p, err := Open(Reference{Host: host, Name: "acme/deploy"}, Options{Transport: to(at), PlainHTTP: plain,
			pauses: []time.Duration{}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	tls, http1 := strings.TrimPrefix(secure.URL, "https://"), d.Host()
	for _, c := range []struct {
		host, at string
		plain    bool
		want     string
	}{
		{"example.com", tls, false, ""},
		{"example.com", tls, true, ""},
		{"127.0.0.1:1", tls, false, ""},
		{"localhost:5000", http1, false, ""},
		{"[::1]:5000", http1, false, ""},
		{"example.com", http1, true, ""},
		{"example.com", http1, false, "speaks plain HTTP"},
		{"127.example.com", http1, false, "speaks plain HTTP"},
		{"localhost.example.com", http1, false, "speaks plain HTTP"},
		{"10.0.0.1", http1, false, "speaks plain HTTP"},
		{"other.invalid", tls, false, "certificate"},
	} {
		_, err := open(c.host, c.at, c.plain).Push(t.Context(), w.content, "1")
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	// From https never back to http.
	d.Mu.Lock()
	d.Cue = func(rw http.ResponseWriter, r *http.Request) bool {
		http.Redirect(rw, r, d.URL+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	}
	d.Mu.Unlock()
	if _, err := open("example.com", tls, true).Get(t.Context(), "1"); fault.CodeOf(err) != fault.Policy {
		t.Errorf("%v", err)
	}
}
