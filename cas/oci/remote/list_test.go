package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/format"
	"github.com/rye-build/rye/cas/oci/guard"
	"github.com/rye-build/rye/cas/oci/ocitest"
)

func at(url string) *Repository { return plain(url, new(http.Transport), nil) }

// tagOf is the tag under which a registry without the API keeps what refers to a manifest.
func tagOf(subject string) string { return strings.Replace(subject, ":", "-", 1) }

// answers is a repository whose registry answers each path with its handler.
func answers(t *testing.T, paths map[string]http.HandlerFunc) *Repository {
	mux := http.NewServeMux()
	for path, f := range paths {
		mux.HandleFunc(path, f)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return at(s.URL)
}

// attached is the manifest of something about a subject.
func attached(subject string, i int) (ocispec.Descriptor, []byte) {
	b := fmt.Appendf(nil, `{"mediaType":%q,"config":{"mediaType":"text/plain"},"subject":{"digest":%q},`+
		`"annotations":{"n":"%d"}}`, ocispec.MediaTypeImageManifest, subject, i)
	return format.Blob(ocispec.MediaTypeImageManifest, b), b
}

func (r *Repository) all(ctx context.Context, subject string) (all []ocispec.Descriptor, err error) {
	_, err = r.Referrers(ctx, subject, func(page []ocispec.Descriptor) error {
		all = append(all, page...)
		return nil
	})
	return all, err
}

// TestPut: blobs and manifests arrive, and who refers to what is known, however the registry keeps it.
func TestPut(t *testing.T) {
	t.Parallel()
	subject := format.Sum([]byte("subject"))
	for _, api := range []bool{true, false} {
		d := ocitest.New(t)
		d.Referrers = api
		r := at(d.URL)
		blob := []byte("blob")
		if err := r.PutBlob(t.Context(), format.Blob("", blob), blob); err != nil ||
			string(d.Blobs[format.Sum(blob)]) != "blob" {
			t.Errorf("%v", err)
		}
		plain := []byte(`{"mediaType":"` + ocispec.MediaTypeImageManifest + `"}`)
		if err := r.PutManifest(t.Context(), format.Blob(ocispec.MediaTypeImageManifest, plain), plain,
			"1"); err != nil || d.Tags["1"] != format.Sum(plain) {
			t.Errorf("%v, %v", err, d.Tags)
		}
		const n = 8
		ended := make(chan error, n)
		for i := range n {
			go func() {
				m, b := attached(subject, i)
				ended <- r.PutManifest(t.Context(), m, b, "")
			}()
		}
		for range n {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		all, err := r.all(t.Context(), subject)
		if err != nil || len(all) != n || r.ByTag() == api {
			t.Errorf("API %t: %d of %d, %v", api, len(all), n, err)
		}
		puts := d.Count("PUT /v2/acme/deploy/manifests/" + tagOf(subject))
		m, b := attached(subject, 0)
		err = r.PutManifest(t.Context(), m, b, "")
		if again := d.Count("PUT /v2/acme/deploy/manifests/" + tagOf(subject)); err != nil || again != puts ||
			api != (puts == 0) {
			t.Errorf("API %t: %d lists were put, then %d; %v", api, puts, again, err)
		}
		if all, err := at(d.URL).all(t.Context(), subject); err != nil || len(all) != n {
			t.Errorf("API %t: %d of %d, %v", api, len(all), n, err)
		}
	}
}

// TestOthersEntries: what another client wrote into a list stays there as it was; what is there twice or empty goes.
func TestOthersEntries(t *testing.T) {
	t.Parallel()
	const other = `{"mediaType":"a/b","digest":"sha512:00","size":7,"urls":["https://x"],` +
		`"annotations":{"k":"v"},"data":"e30=","platform":{"architecture":"amd64","os":"linux","os.version":"1",` +
		`"os.features":["f"],"variant":"v"},"artifactType":"c/d"}`
	subject := format.Sum([]byte("subject"))
	d := ocitest.New(t)
	d.Referrers = false
	keep := func(list string) {
		b := []byte(`{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageIndex + `","manifests":[` + list + `]}`)
		d.Manifests[format.Sum(b)], d.Tags[tagOf(subject)] = b, format.Sum(b)
	}
	keep(other + `,{"mediaType":"","digest":"","size":0},` + other)
	m, b := attached(subject, 1)
	if err := at(d.URL).PutManifest(t.Context(), m, b, ""); err != nil {
		t.Fatal(err)
	}
	want := `{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageIndex + `","manifests":[` + other +
		fmt.Sprintf(`,{"mediaType":%q,"digest":%q,"size":%d,"annotations":{"n":"1"},"artifactType":"text/plain"}]}`,
			ocispec.MediaTypeImageManifest, m.Digest, m.Size)
	if got := string(d.Manifests[d.Tags[tagOf(subject)]]); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestPutWrong: what a registry may answer to what it is sent.
func TestPutWrong(t *testing.T) {
	t.Parallel()
	subject := format.Sum([]byte("subject"))
	m, b := attached(subject, 1)
	says := func(status int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
		}
	}
	for name, c := range map[string]struct {
		manifests http.HandlerFunc // of all but the list
		list      http.HandlerFunc
		want      string
	}{
		"refused": {says(http.StatusBadRequest), says(http.StatusNotFound),
			"the registry answered 400 Bad Request"},
		"only accepted": {says(http.StatusAccepted), says(http.StatusNotFound),
			"the registry answered 202 Accepted"},
		"another digest": {says(http.StatusCreated, "Docker-Content-Digest", subject), says(http.StatusNotFound),
			"digest mismatch in Docker-Content-Digest"},
		"no digest": {says(http.StatusCreated, "Docker-Content-Digest", "x"), says(http.StatusNotFound),
			"invalid response header: `Docker-Content-Digest: x`"},
		"no list to write": {says(http.StatusCreated), says(http.StatusNotFound), "the registry answered 404"},
		"no list to read": {says(http.StatusCreated), says(http.StatusForbidden),
			"the registry answered 403 Forbidden"},
	} {
		r := answers(t, map[string]http.HandlerFunc{"/v2/acme/deploy/manifests/": c.manifests,
			"/v2/acme/deploy/manifests/" + tagOf(subject): c.list})
		if err := r.PutManifest(t.Context(), m, b, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	r := answers(t, map[string]http.HandlerFunc{"/": says(http.StatusCreated)})
	for text, want := range map[string]string{`{`: "failed to decode manifest",
		`{"subject":{"digest":"sha256:../x"}}`: "failed to build referrers tag for sha256:../x"} {
		if err := r.PutManifest(t.Context(), format.Blob(ocispec.MediaTypeImageManifest, []byte(text)), []byte(text),
			""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	blob := []byte("blob")
	uploads := func(begin, end http.HandlerFunc) error {
		r := answers(t, map[string]http.HandlerFunc{"POST /v2/acme/deploy/blobs/uploads/": begin, "PUT /up": end})
		return r.PutBlob(t.Context(), format.Blob("", blob), blob)
	}
	for name, c := range map[string]struct {
		begin, end http.HandlerFunc
		want       string
	}{
		"refused":     {says(http.StatusBadRequest), nil, "the registry answered 400 Bad Request"},
		"no location": {says(http.StatusAccepted), nil, "no Location header"},
		"elsewhere": {says(http.StatusAccepted, "Location", "http://localhost/up"), nil,
			"on a different host than the registry"},
		"in the end": {says(http.StatusAccepted, "Location", "/up?a=b"), says(http.StatusAccepted),
			"the registry answered 202 Accepted"},
		"": {says(http.StatusAccepted, "Location", "/up?a=b"), func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == "a=b&digest="+url.QueryEscape(format.Sum(blob)) && r.ContentLength == 4 &&
				r.Header.Get("Content-Type") == "application/octet-stream" {
				w.WriteHeader(http.StatusCreated)
			}
		}, ""},
	} {
		if c.end == nil {
			c.end = says(http.StatusInternalServerError)
		}
		if err := uploads(c.begin, c.end); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// one is a repository of a registry that is reached at an address, and whose transport is a function.
func one(base string, f transport) *Repository {
	u, err := url.Parse(base)
	if err != nil {
		panic(err)
	}
	r := New(u.Host, "acme/deploy", &http.Client{CheckRedirect: guard.Follow,
		Transport: &guard.Guard{Plain: true, Next: f}}, nil)
	if u.Scheme == "http" {
		r.UsePlainHTTP()
	}
	return r
}

// TestUploadTo: an upload goes on where credentials may go.
func TestUploadTo(t *testing.T) {
	t.Parallel()
	blob := []byte("blob")
	query := "digest=" + url.QueryEscape(format.Sum(blob))
	for _, c := range []struct{ begun, location, want string }{
		{"https://h", "/x?y=", "https://h/x?" + query + "&y="},
		{"https://h", "x", "https://h/v2/acme/deploy/blobs/uploads/x?" + query},
		{"https://h", "https://h:443/x", "https://h:443/x?" + query},
		{"https://h:443", "https://h/x", "https://h:443/x?" + query},
		{"https://[::1]:443", "https://[::1]/x", ""}, // oras-go adds the port and forgets the brackets
		{"https://[::1]", "https://[::1]:443/x", "https://[::1]:443/x?" + query},
		{"http://h", "http://h:80/x", "http://h:80/x?" + query},
		{"http://h:5000", "http://h:5000/x", "http://h:5000/x?" + query},
		{"https://h", "http://h/x", ""}, {"https://h:5000", "http://h:5000/x", ""},
		{"https://h", "https://h:8443/x", ""}, {"https://h", "https://i/x", ""},
		{"https://h", "//i/x", ""}, {"https://h", "https://h@i/x", ""}, {"https://h", "file:///x", ""},
		{"https://h", "http://[", ""}, {"https://h", "", ""},
	} {
		got := ""
		r := one(c.begun, func(req *http.Request) (*http.Response, error) {
			resp := &http.Response{StatusCode: http.StatusAccepted, Header: http.Header{},
				Body: io.NopCloser(strings.NewReader("")), Request: req}
			if req.Method == http.MethodPut {
				got, resp.StatusCode = req.URL.String(), http.StatusCreated
			} else if c.location != "" {
				resp.Header.Set("Location", c.location)
			}
			return resp, nil
		})
		if err := r.PutBlob(t.Context(), format.Blob("", blob), blob); (err == nil) != (c.want != "") ||
			got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
}

// linked are the addresses that a list on https://h:5000 is read from, when its first page has a Link.
func linked(ctx context.Context, link string) (asked []*url.URL, err error) {
	r := one("https://h:5000", func(req *http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{},
			Body: io.NopCloser(strings.NewReader("{}")), Request: req}
		if asked = append(asked, req.URL); len(asked) == 1 {
			resp.Header.Set("Link", link)
		}
		return resp, nil
	})
	err = r.Tags(ctx, func([]string) error { return nil })
	return asked, err
}

// TestFollow: a list goes on where it began.
func TestFollow(t *testing.T) {
	t.Parallel()
	for link, want := range map[string]string{
		"": "", `</v2/a/tags/list?last=x>; rel="next"`: "https://h:5000/v2/a/tags/list?last=x&n=1000",
		`<?last=x>`:          "https://h:5000/v2/acme/deploy/tags/list?last=x&n=1000",
		`<https://H:5000/x>`: "https://H:5000/x?n=1000", `/x>`: "missing '<'", `</x`: "missing '>'",
		`<http://h:5000/>`: "not the same origin", `<//i/x>`: "not the same origin",
		`<https://h/x>`: "not the same origin", `<http://[>`: "missing ']'",
	} {
		asked, err := linked(t.Context(), link)
		switch {
		case err != nil && (want == "" || !strings.Contains(err.Error(), want)), err == nil &&
			(len(asked) == 2) != (want != ""),
			len(asked) > 2, len(asked) == 2 && asked[1].String() != want:
			t.Errorf("%q: %v, %v, want %s", link, asked, err, want)
		}
	}
}

// FuzzFollow: no Link leads to another host.
func FuzzFollow(f *testing.F) {
	for _, link := range []string{`</v2/a/tags/list?last=x>; rel="next"`, `<https://h/x>`, `<//i/x>`,
		`<https://h@i/x>`, `<\\i\x>`, `<:80>`} {
		f.Add(link)
	}
	f.Fuzz(func(t *testing.T, link string) {
		asked, _ := linked(t.Context(), link) // whether it is one shows in what was asked
		for _, at := range asked {
			if at.Scheme != "https" || !strings.EqualFold(at.Hostname(), "h") || guard.Port(at) != "5000" {
				t.Errorf("%q leads to %s", link, at)
			}
		}
	})
}

// TestListed: what stands under the tag of a list and isn't one is none, or wrong.
func TestListed(t *testing.T) {
	t.Parallel()
	self := []byte(`{"mediaType":"` + ocispec.MediaTypeImageIndex + `"}`)
	subject := format.Sum(self)
	for name, c := range map[string]struct {
		kind, digest, body string
		want               string
	}{
		"the subject": {ocispec.MediaTypeImageIndex, subject, string(self), ""},
		"an image":    {ocispec.MediaTypeImageManifest, "", `{"manifests":[{"digest":"x"}]}`, ""},
		"a list": {ocispec.MediaTypeImageIndex + "; charset=utf-8",
			format.Sum([]byte(`{"manifests":[{"digest":"x"}]}`)), `{"manifests":[{"digest":"x"}]}`, "x"},
		"of no type": {";", "", "{}", "invalid response `Content-Type` header"},
		"HTML": {ocispec.MediaTypeImageIndex, "", "<html>",
			"failed to decode referrers index from referrers tag " + tagOf(subject) + ": invalid character"},
		"like the subject": {ocispec.MediaTypeImageIndex, subject, "{}", ""}, // by its header, and then none
		"another digest":   {ocispec.MediaTypeImageIndex, format.Sum([]byte("other")), "{}", "mismatched digest"},
		"too long": {ocispec.MediaTypeImageIndex, "", `{"x":"` + strings.Repeat("x", maxPage) + `"}`,
			"the list has more than 4194304 bytes"},
	} {
		r := answers(t, map[string]http.HandlerFunc{"/v2/acme/deploy/manifests/" +
			tagOf(subject): func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			w.Header().Set("Docker-Content-Digest", c.digest)
			w.Header().Set("Content-Length", strconv.Itoa(len(c.body)))
			w.Write([]byte(c.body))
		}})
		all, err := r.all(t.Context(), subject)
		if len(all) == 1 {
			err = errors.New(all[0].Digest.String())
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %s", name, all, err, c.want)
		}
		if !r.ByTag() {
			t.Errorf("%s: not by tag", name)
		}
	}
}

// TestReferrersAPI: a registry says whether it has the API, and is held to it.
func TestReferrersAPI(t *testing.T) {
	t.Parallel()
	subject := format.Sum([]byte("subject"))
	var answer http.HandlerFunc
	var tags int // requests for the list under a tag
	says := func(status int, kind, body string) {
		answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			w.Write([]byte(body))
		}
	}
	fresh := func() *Repository {
		return answers(t, map[string]http.HandlerFunc{
			"/v2/acme/deploy/referrers/" + subject: func(w http.ResponseWriter, r *http.Request) { answer(w, r) },
			"/v2/acme/deploy/manifests/" + tagOf(subject): func(w http.ResponseWriter, r *http.Request) {
				tags++
				w.WriteHeader(http.StatusNotFound)
			}})
	}
	old := fresh() // that has answered by the API before
	says(http.StatusOK, ocispec.MediaTypeImageIndex, `{"manifests":[{"digest":"x"}]}`)
	if all, err := old.all(t.Context(), subject); err != nil || len(all) != 1 || old.ByTag() {
		t.Fatalf("%v, %v", all, err)
	}
	for _, c := range []struct {
		status     int
		kind, body string
		want       string // from a registry that is known to have the API
		byTag      bool   // a registry that isn't, hasn't
	}{
		{http.StatusNotFound, "", `{"errors":[{"code":"NAME_UNKNOWN","message":"m"}]}`,
			"the registry answered 404 Not Found", false},
		{http.StatusForbidden, "", `{"status":500}`, "the registry answered 403 Forbidden", false},
		{http.StatusOK, ocispec.MediaTypeImageIndex, `[]`, "failed to decode response", false},
		{http.StatusOK, ocispec.MediaTypeImageIndex, `{"manifests":[{"digest":"x"}]}`, "", false},
		{http.StatusNotFound, "", `{"errors":[{"code":"NAME_UNKNOWN"},{"code":"X"}]}`,
			"failed to query referrers API: unsupported", true},
		{http.StatusOK, "text/html", "<html>", "unknown content returned (text/html), expecting image index: " +
			"unsupported", true},
	} {
		says(c.status, c.kind, c.body)
		if _, err := old.all(t.Context(), subject); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) || tags != 0 {
			t.Errorf("%+v: %v, and %d lists under a tag", c, err, tags)
		}
		r := fresh()
		all, err := r.all(t.Context(), subject)
		if c.byTag && (err != nil || len(all) != 0 || tags != 1 || !r.ByTag()) ||
			!c.byTag && ((err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) ||
				tags != 0) {
			t.Errorf("%+v, first: %v, and %d lists under a tag", c, err, tags)
		}
		tags = 0
	}
}

// TestPages: pages follow each other, but not for ever, and each says how many entries it should have.
func TestPages(t *testing.T) {
	t.Parallel()
	var asked []string
	subject := format.Sum([]byte("subject"))
	page := func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		if last := len(asked); r.URL.Query().Get("last") != "3" {
			w.Header().Set("Link", fmt.Sprintf(`<?last=%d>; rel="next"`, last))
		}
		json.NewEncoder(w).Encode(map[string]any{"tags": []string{"x"},
			"manifests": []ocispec.Descriptor{{Digest: "x"}}})
	}
	r := answers(t, map[string]http.HandlerFunc{"/v2/acme/deploy/tags/list": page,
		"/v2/acme/deploy/referrers/" + subject: page})
	var tags []string
	take := func(page []string) error {
		tags = append(tags, page...)
		return nil
	}
	if err := r.Tags(t.Context(), take); err != nil || len(tags) != 4 ||
		!slices.Equal(asked, []string{"n=1000", "last=1&n=1000", "last=2&n=1000", "last=3&n=1000"}) {
		t.Errorf("%q after %q, %v", tags, asked, err)
	}
	if err := r.Tags(t.Context(), take); fault.CodeOf(err) != fault.Limit || len(asked) != 4+maxPages {
		t.Errorf("%v after %d pages", err, len(asked)-4)
	}
	more, err := r.Referrers(t.Context(), subject, func([]ocispec.Descriptor) error { return nil })
	if err != nil || !more || len(asked) != 4+2*maxPages {
		t.Errorf("%t, %v after %d pages", more, err, len(asked)-4-maxPages)
	}
	no := errors.New("no")
	if err := r.Tags(t.Context(), func([]string) error { return no }); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
}
