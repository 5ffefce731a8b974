package oci

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/format"
)

// TestLies: lists and challenges that are wrong, hostile or without end. Errors say what is wrong, and nothing of
// where a registry has sent a request.
func TestLies(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("<html>"))
	}))
	t.Cleanup(elsewhere.Close)
	text := func(body string, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.Write([]byte(body))
		}
	}
	challenge := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", text)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	index := []string{"Content-Type", ocispec.MediaTypeImageIndex}
	for name, c := range map[string]struct {
		path  string
		wrong http.HandlerFunc
		code  fault.Code
		text  string
	}{
		"a page of HTML": {"/tags/", text("<html>"), fault.Registry,
			"invalid answer: failed to decode response: invalid character"},
		"HTML elsewhere": {"/tags/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/?signature=canary", http.StatusFound)
		}, fault.Registry, "invalid answer: failed to decode response"},
		"pages without end": {"/tags/", text(`{"tags":["1.0.0"]}`, "Link",
			`</v2/acme/deploy/tags/list?last=x>; rel="next"`), fault.Limit, "the list has too many pages"},
		"pages elsewhere": {"/tags/", text(`{"tags":["1.0.0"]}`, "Link",
			"<"+elsewhere.URL+`/x?signature=canary>; rel="next"`),
			fault.Registry, "invalid answer: invalid next link …: not the same origin as …"},
		"a broken redirect": {"/tags/", text("", "Location", "http://[canary?"), fault.Registry,
			"the connection closed too early"},
		"too many tags": {"/tags/", text(`{"tags":["x"` + strings.Repeat(`,"x"`, maxTags) + `]}`),
			fault.Limit, "more than 100000 tags"},
		"referrers of HTML": {"/referrers/", text("<html>", index...), fault.Registry,
			"invalid answer: failed to decode response"},
		"a token service inside": {"/tags/", challenge(`Bearer realm="http://169.254.169.254/?x=canary"`),
			fault.Registry, `bearer realm host "169.254.169.254" is 169.254.169.254, in blocked prefix`},
		"a token service of disk": {"/tags/", challenge(`Bearer realm="file:///canary"`), fault.Registry,
			"bearer realm … uses unsupported scheme"},
		"an odd challenge": {"/tags/", challenge(`Negotiate canary`), fault.AuthRequired, "401"},
		"an absurd wait": {"/tags/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "99999999999999999999")
			w.WriteHeader(http.StatusTooManyRequests)
		}, fault.RateLimited, "retry after 24h0m0s"},
		"a date far off": {"/tags/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", "Thu, 01 Jan 2026 00:00:00 GMT")
			w.Header().Set("Retry-After", "Thu, 01 Jan 2026 02:00:00 GMT")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, fault.Unavailable, "retry after 2h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDouble(t)
			p := d.place(t)
			done, err := p.Push(t.Context(), newWorld(t, []byte("a")).content, "1.0.0")
			if err != nil {
				t.Fatal(err)
			}
			m, err := p.Get(t.Context(), done.Digest)
			if err != nil {
				t.Fatal(err)
			}
			var asked atomic.Int64
			d.Mu.Lock()
			d.Cue = func(w http.ResponseWriter, r *http.Request) bool {
				if strings.Contains(r.URL.Path, c.path) {
					asked.Add(1)
					c.wrong(w, r)
					return true
				}
				return false
			}
			d.Mu.Unlock()
			if c.path == "/tags/" {
				_, err = p.Tags(t.Context())
			} else {
				_, _, err = m.signatures(t.Context())
			}
			if err == nil {
				t.Fatal("it is believed")
			}
			if f := fault.Of(err); f.Code != c.code || !strings.Contains(f.Text, c.text) ||
				strings.Contains(f.Text+strings.Join(f.Why, " "), "canary") || strings.Contains(f.Text, "http:") {
				t.Errorf("%s %s %q", f.Code, f.Text, f.Why)
			}
			for cause := err; cause != nil; cause = errors.Unwrap(cause) {
				if strings.Contains(cause.Error(), "canary") {
					t.Errorf("the cause %T: %v", cause, cause)
				}
			}
			if asked.Load() > 1 && strings.Contains(c.text, "retry after") {
				t.Errorf("asked %d times", asked.Load())
			}
		})
	}
}

// TestLeft: attachments that are damaged or hostile are left out, and it is said which and why; those beside them
// count.
func TestLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks func(d *double, m *Image)
		why    string
	}{
		"a blob with other bytes": {func(d *double, _ *Image) {
			d.Blobs[format.Sum([]byte("line 1\n"))] = []byte("LINE 1\n")
		}, "wrong bytes for sha256:"},
		"a blob too long": {func(d *double, _ *Image) {
			d.Blobs[format.Sum([]byte("line 1\n"))] = []byte("line 1\nmore")
		}, "it has 11 bytes"},
		"a blob too short": {func(d *double, _ *Image) {
			d.Blobs[format.Sum([]byte("line 1\n"))] = []byte("li")
		}, "it has 2 bytes"},
		"no blob": {func(d *double, _ *Image) { delete(d.Blobs, format.Sum([]byte("line 1\n"))) },
			"not found"},
	} {
		d := newDouble(t)
		p := d.place(t)
		w := newWorld(t, []byte("a"))
		var m *Image
		for _, line := range []string{"line 1\n", "line 2\n"} {
			w.content.Attachments[0].Parts[0].Bytes = []byte(line)
			done, err := p.Push(t.Context(), w.content, "1")
			if err == nil {
				m, err = p.Get(t.Context(), done.Digest)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		d.Mu.Lock()
		c.breaks(d, m)
		d.Mu.Unlock()
		all, left, err := m.signatures(t.Context())
		if err != nil || len(all) != 1 || string(all[0].Parts[0].Bytes) != "line 2\n" || len(left) != 1 ||
			!strings.Contains(left[0].Error(), c.why) {
			t.Errorf("%s: %+v, left %v, %v", name, all, left, err)
		}
	}

	// What a list calls a digest is no path.
	d := newDouble(t)
	p := d.place(t)
	done, err := p.Push(t.Context(), newWorld(t, []byte("a")).content, "1")
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Get(t.Context(), done.Digest)
	if err != nil {
		t.Fatal(err)
	}
	d.Mu.Lock()
	d.Cue = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/referrers/") {
			return false
		}
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		fmt.Fprintf(w, `{"manifests":[{"digest":"../../../admin","artifactType":%q}]}`, format.SignaturesType)
		return true
	}
	d.Mu.Unlock()
	all, left, err := m.signatures(t.Context())
	if err != nil || len(all) != 0 || len(left) != 1 || d.Count("GET /admin") != 0 {
		t.Errorf("%+v, left %v, %v", all, left, err)
	}
}

// TestHead: a blob that the registry has with another size is none.
func TestHead(t *testing.T) {
	t.Parallel()
	d := newDouble(t)
	p := d.place(t)
	w := newWorld(t, noise(1, 1000))
	done, err := p.Push(t.Context(), w.content, "1")
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range d.Blobs {
		d.Blobs[name] = b[:len(b)/2]
	}
	again, err := p.Push(t.Context(), w.content, "1")
	if err != nil || again.Sent != done.Sent {
		t.Errorf("%+v, %v, want %+v", again, err, done)
	}
	if _, err := w.pull(t.Context(), p, "1", t.TempDir()); err != nil {
		t.Error(err)
	}
}

// TestDockerHub: docker.io has another name on the network, and its credentials go there.
func TestDockerHub(t *testing.T) {
	t.Parallel()
	d := newDouble(t)
	d.Mu.Lock()
	d.Cue = func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, ok := r.BasicAuth(); ok && user == "me" && password == "canary" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
		w.WriteHeader(http.StatusUnauthorized)
		w.Write([]byte(`{"errors":[{"code":"DENIED","message":"not with canary"}]}`))
		return true
	}
	d.Mu.Unlock()
	to, err := url.Parse(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	var hosts []string
	open := func(c Credential) *Place {
		p, err := Open(Reference{Host: "docker.io", Name: "acme/deploy"}, Options{
			Transport: transport(func(r *http.Request) (*http.Response, error) {
				hosts = append(hosts, r.URL.Host)
				out := r.Clone(r.Context())
				out.URL.Scheme, out.URL.Host = to.Scheme, to.Host
				resp, err := http.DefaultTransport.RoundTrip(out)
				if err == nil {
					resp.Request = r
				}
				return resp, err
			}),
			Credential: func(_ context.Context, host string) (Credential, error) {
				if host != "docker.io" {
					t.Errorf("asked for the credentials of %q", host)
				}
				return c, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if _, err := open(Credential{User: "me", Password: "canary"}).Tags(t.Context()); err != nil {
		t.Error(err)
	}
	if hosts = slices.Compact(hosts); len(hosts) != 1 || hosts[0] != "registry-1.docker.io" {
		t.Errorf("asked %q", hosts)
	}
	// What the registry says again of the credentials isn't shown.
	_, err = open(Credential{User: "you", Password: "canary"}).Tags(t.Context())
	if f := fault.Of(err); f.Code != fault.AuthFailed || len(f.Why) == 0 ||
		strings.Contains(strings.Join(f.Why, " "), "canary") {
		t.Errorf("%s %s %q", f.Code, f.Text, f.Why)
	}
}

// TestDenied: what the registry says of an error is shown, of a manifest as of a blob: what a person sees of it, and
// no more than a few lines.
func TestDenied(t *testing.T) {
	t.Parallel()
	d := newDouble(t)
	p := d.place(t)
	w := newWorld(t, []byte("a"))
	done, err := p.Push(t.Context(), w.content, "1")
	if err != nil {
		t.Fatal(err)
	}
	said := `{"code":"DENIED","message":"not yours:\u001b[2J\n\u202e pay"},{"code":"LONG","message":"` +
		strings.Repeat("x", 1000) + `"}` + strings.Repeat(`,{"code":"MORE"}`, 20)
	for _, kind := range []string{"/manifests/", "/blobs/", "/tags/"} {
		d.Mu.Lock()
		d.Cue = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, kind) {
				w.WriteHeader(http.StatusForbidden)
				fmt.Fprintf(w, `{"errors":[%s]}`, said)
			}
			return strings.Contains(r.URL.Path, kind)
		}
		d.Mu.Unlock()
		_, err := p.Get(t.Context(), done.Digest)
		if kind == "/tags/" {
			_, err = p.Tags(t.Context())
		}
		f := fault.Of(err)
		if f.Code != fault.AuthFailed || len(f.Why) != fault.MaxLines+1 ||
			f.Why[0] != "DENIED: not yours: [2J   pay" || len(f.Why[1]) > 210 ||
			f.Why[fault.MaxLines] != "and 12 more" {
			t.Errorf("%s: %s %q", kind, f.Code, f.Why)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestManyTags: a registry lists its tags in pages.
func TestManyTags(t *testing.T) {
	t.Parallel()
	d := newDouble(t)
	for i := range 1000 {
		d.Tags[fmt.Sprintf("1.%d.0", i)] = "sha256:" + strings.Repeat("0a", 32)
	}
	d.Tags["sha256-"+strings.Repeat("0a", 32)] = ""
	tags, err := d.place(t).Tags(t.Context())
	if err != nil || len(tags) != 1000 || d.Count("GET /v2/acme/deploy/tags/list") != 3 {
		t.Errorf("%d tags in %d pages, %v", len(tags), d.Count("GET /v2/acme/deploy/tags/list"), err)
	}
}

// pushed pushes something, and returns it as it is then there.
func pushed(t *testing.T, d *double) (*Place, *world, *Image) {
	t.Helper()
	p, w := d.place(t), newWorld(t, []byte("a"))
	done, err := p.Push(t.Context(), w.content, "1")
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Get(t.Context(), done.Digest)
	if err != nil {
		t.Fatal(err)
	}
	return p, w, m
}

// TestJunk: attachments that are large are read as far as there is a use for them, and the others all the same.
func TestJunk(t *testing.T) {
	t.Parallel()
	d := newDouble(t)
	_, _, m := pushed(t, d)
	refer := func(kind string, size, i int) {
		blob := noise(uint64(i), size)
		d.Blobs[format.Sum(blob)] = blob
		b := fmt.Appendf(nil, `{"mediaType":%q,"artifactType":%q,"subject":{"digest":%q},`+
			`"layers":[{"mediaType":%q,"digest":%q,"size":%d}]}`,
			ocispec.MediaTypeImageManifest, kind, m.Digest, kind, format.Sum(blob), size)
		d.Manifests[format.Sum(b)] = b
	}
	for i := range 8 {
		refer(format.SignaturesType, 65<<10, i)
		refer("text/plain", 6<<20, i)
	}
	sent := func() int64 {
		d.HangUp()
		defer func() { d.Sent = 0 }()
		return d.Sent
	}
	sent()
	all, left, err := m.signatures(t.Context())
	if n := sent(); err != nil || len(all) != 1 || len(left) != 8 || n > 64<<10 {
		t.Errorf("%d signatures, left %v, %v, %d bytes", len(all), left, err, n)
	}
	left, err = m.Attached(t.Context(), "text/plain", func(*format.Attachment) error { return nil })
	if n := sent(); err != nil || len(left) != 1 ||
		left[0].Error() != "2 of 8, since only 1000 with 32 MiB are read" || n > 38<<20 {
		t.Errorf("left %v, %v, %d bytes", left, err, n)
	}
}

// TestManyReferrers: a registry lists referrers in pages, however many they are. What isn't read of a list without
// end, and of too many of one type, is said, and a push ends all the same.
func TestManyReferrers(t *testing.T) {
	t.Parallel()
	d := newDouble(t)
	p, w, m := pushed(t, d)
	refer := func(kind string, i int) {
		b := fmt.Appendf(nil, `{"mediaType":%q,"artifactType":%q,"subject":{"digest":%q},"annotations":{"n":"%d"}}`,
			ocispec.MediaTypeImageManifest, kind, m.Digest, i)
		d.Manifests[format.Sum(b)] = b
	}
	for i := range 1200 {
		refer("text/plain", i)
	}
	if all, left, err := m.signatures(t.Context()); err != nil || len(all) != 1 || len(left) != 0 ||
		d.Count("GET /v2/acme/deploy/referrers/") < 4 {
		t.Errorf("%d signatures, left %v, %v", len(all), left, err)
	}
	for i := range maxAttached + 4 {
		refer(format.SignaturesType, i)
	}
	if all, left, err := m.signatures(t.Context()); err != nil || len(all)+len(left) < maxAttached ||
		left[len(left)-1].Error() != "5 of 1005, since only 1000 with 32 MiB are read" {
		t.Errorf("%d signatures, %d left, %v", len(all), len(left), err)
	}
	large := strings.Repeat("x", 3<<20)
	for _, page := range []string{`{"manifests":[{"annotations":{"x":"` + large + `"}}]}`, `{"manifests":[{}]}`} {
		if testing.Short() && len(page) > len(large) { // nothing meets while it is read
			continue
		}
		d.Mu.Lock()
		d.Cue = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/referrers/") {
				return false
			}
			w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
			w.Header().Set("Link", `</v2/acme/deploy/referrers/x>; rel="next"`)
			w.Write([]byte(page))
			return true
		}
		d.Mu.Unlock()
		_, left, err := m.signatures(t.Context())
		if err != nil || len(left) == 0 || !strings.HasPrefix(left[len(left)-1].Error(), "all behind the first ") {
			t.Errorf("%.30s: left %v, %v", page, left, err)
		}
	}
	if again, err := p.Push(t.Context(), w.content, "1"); err != nil || again.Digest != m.Digest {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestTogether: two clients write the list of referrers at once, in a registry that keeps it under a tag, and the
// second takes away what the first has seen in it. Neither is lost.
func TestTogether(t *testing.T) {
	t.Parallel()
	d := newDouble(t)
	d.Referrers = false
	client := func(name string) (*Place, *world) {
		w := newWorld(t, []byte("a"))
		w.content.Attachments[0].Parts[0].Bytes = []byte(name + "\n")
		return d.place(t, func(o *Options) {
			o.Transport = transport(func(r *http.Request) (*http.Response, error) {
				r.Header.Set("Client", name)
				return http.DefaultTransport.RoundTrip(r)
			})
		}), w
	}
	// The first writes once the second has read; the second writes once the first has looked at its own; the first
	// looks again only after that.
	var looks [2]atomic.Int64
	ready, looked, written := make(chan struct{}), make(chan struct{}), make(chan struct{})
	d.Mu.Lock()
	d.Cue = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/manifests/sha256-") {
			return false
		}
		i := 0
		if r.Header.Get("Client") == "second" {
			i = 1
		}
		if r.Method == http.MethodGet {
			looks[i].Add(1)
		}
		switch n := looks[i].Load(); {
		case i == 0 && r.Method == http.MethodPut && n == 2:
			<-ready
		case i == 1 && r.Method == http.MethodPut && n == 2:
			close(ready)
			<-looked
			defer close(written)
		case i == 0 && r.Method == http.MethodGet && n == 3:
			defer close(looked)
		case i == 0 && r.Method == http.MethodGet && n == 4:
			<-written
		default:
			return false
		}
		d.Answer(w, r)
		return true
	}
	d.Mu.Unlock()
	ended := make(chan error, 2)
	for _, name := range []string{"first", "second"} {
		p, w := client(name)
		go func() {
			_, err := p.Push(t.Context(), w.content, "1")
			ended <- err
		}()
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	d.Mu.Lock()
	d.Cue = nil
	d.Mu.Unlock()
	m, err := d.place(t).Get(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	if all, left, err := m.signatures(t.Context()); err != nil || len(all) != 2 || len(left) != 0 {
		t.Errorf("%d signatures, left %v, %v", len(all), left, err)
	}
}
