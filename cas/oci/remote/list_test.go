package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/format"
	"github.com/rye-build/rye/cas/oci/guard"
	"github.com/rye-build/rye/cas/oci/ocitest"
	"github.com/rye-build/rye/cas/oci/spec"
)

func at(url string) *Repository {
	return &Repository{Host: strings.TrimPrefix(url, "http://"), Name: "acme/deploy", PlainHTTP: true,
		HTTP: &http.Client{Transport: &guard.Guard{Next: new(http.Transport)}, CheckRedirect: guard.Follow}}
}

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
func attached(subject string, i int) (spec.Descriptor, []byte) {
	b := fmt.Appendf(nil,
		`{"mediaType":%q,"config":{"mediaType":"text/plain"},"subject":{"digest":%q},"annotations":{"n":"%d"}}`,
		spec.ManifestType, subject, i)
	return format.Blob(spec.ManifestType, b), b
}

func (r *Repository) all(ctx context.Context, subject string) (all []spec.Descriptor, err error) {
	_, err = r.Referrers(ctx, subject, func(page []spec.Descriptor) error {
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
		plain := []byte(`{"mediaType":"` + spec.ManifestType + `"}`)
		if err := r.PutManifest(t.Context(), format.Blob(spec.ManifestType, plain), plain, "1"); err != nil ||
			d.Tags["1"] != format.Sum(plain) || r.lists.Load() != unknown {
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
	const other = `{"mediaType":"a/b","digest":"sha512:00","size":7,"urls":["https://x"],"annotations":{"k":"v"},"data":"e30=",` +
		`"platform":{"architecture":"amd64","os":"linux","os.version":"1","os.features":["f"],"variant":"v"},"artifactType":"c/d"}`
	subject := format.Sum([]byte("subject"))
	d := ocitest.New(t)
	d.Referrers = false
	keep := func(list string) {
		b := []byte(`{"schemaVersion":2,"mediaType":"` + spec.IndexType + `","manifests":[` + list + `]}`)
		d.Manifests[format.Sum(b)], d.Tags[tagOf(subject)] = b, format.Sum(b)
	}
	keep(other + `,{"mediaType":"","digest":"","size":0},` + other)
	m, b := attached(subject, 1)
	if err := at(d.URL).PutManifest(t.Context(), m, b, ""); err != nil {
		t.Fatal(err)
	}
	want := `{"schemaVersion":2,"mediaType":"` + spec.IndexType + `","manifests":[` + other +
		fmt.Sprintf(`,{"mediaType":%q,"digest":%q,"size":%d,"annotations":{"n":"1"},"artifactType":"text/plain"}]}`,
			spec.ManifestType, m.Digest, m.Size)
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
			"the registry has stored"},
		"no digest": {says(http.StatusCreated, "Docker-Content-Digest", "x"), says(http.StatusNotFound),
			"invalid Docker-Content-Digest: x"},
		"no list to write": {says(http.StatusCreated), says(http.StatusNotFound),
			"the list under the tag " + tagOf(subject) + " can't be written: the registry answered 404"},
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
	for text, want := range map[string]string{`{`: "the manifest ",
		`{"subject":{"digest":"sha256:../x"}}`: "the subject "} {
		if err := r.PutManifest(t.Context(), format.Blob(spec.ManifestType, []byte(text)), []byte(text),
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
		"elsewhere":   {says(http.StatusAccepted, "Location", "http://localhost/up"), nil, "not at the registry"},
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
		if err := uploads(c.begin, c.end); (err == nil) != (c.want == "") || err != nil &&
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestUploadTo: an upload goes on where credentials may go.
func TestUploadTo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ begun, location, want string }{
		{"https://h/v2/a/blobs/uploads/", "/x?y", "https://h/x?y"},
		{"https://h/v2/a/blobs/uploads/", "x", "https://h/v2/a/blobs/uploads/x"},
		{"https://h/v2/", "https://h:443/x", "https://h:443/x"},
		{"https://h:443/v2/", "https://h/x", "https://h:443/x"},
		{"https://[::1]:443/v2/", "https://[::1]/x", "https://[::1]:443/x"},
		{"http://h/v2/", "http://h:80/x", "http://h:80/x"},
		{"http://h:5000/v2/", "http://h:5000/x", "http://h:5000/x"},
		{"https://h/v2/", "http://h/x", ""}, {"https://h:5000/v2/", "http://h:5000/x", ""},
		{"https://h/v2/", "https://h:8443/x", ""}, {"https://h/v2/", "https://i/x", ""},
		{"https://h/v2/", "//i/x", ""}, {"https://h/v2/", "https://h@i/x", ""}, {"https://h/v2/", "file:///x", ""},
		{"https://h/v2/", "http://[", ""}, {"https://h/v2/", "", ""},
	} {
		begun, err := url.Parse(c.begun)
		if err != nil {
			t.Fatal(err)
		}
		resp := &http.Response{Header: http.Header{}, Request: &http.Request{URL: begun}}
		if c.location != "" {
			resp.Header.Set("Location", c.location)
		}
		got, err := uploadTo(begun, resp)
		if (err == nil) != (c.want != "") || err == nil && got.String() != c.want {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}

// TestFollow: a list goes on where it began.
func TestFollow(t *testing.T) {
	t.Parallel()
	from := &url.URL{Scheme: "https", Host: "h:5000", Path: "/v2/a/tags/list", RawQuery: "n=1"}
	for link, want := range map[string]string{
		"": "", `</v2/a/tags/list?last=x>; rel="next"`: "https://h:5000/v2/a/tags/list?last=x",
		`<?last=x>`: "https://h:5000/v2/a/tags/list?last=x", `<https://H:5000/x>`: "https://H:5000/x",
		`/x>`: "begin with <", `</x`: "has no >", `<http://h:5000/>`: "not on the server of",
		`<//i/x>`: "not on the server of", `<https://h/x>`: "not on the server of", `<http://[>`: "missing",
	} {
		next, err := follow(from, link)
		switch {
		case err != nil && (want == "" || !strings.Contains(err.Error(), want)), err == nil &&
			(next == nil) != (want == ""), next != nil && next.String() != want:
			t.Errorf("%q: %v, %v, want %s", link, next, err, want)
		}
	}
}

// FuzzFollow: no Link leads to another host.
func FuzzFollow(f *testing.F) {
	for _, link := range []string{`</v2/a/tags/list?last=x>; rel="next"`, `<https://h/x>`, `<//i/x>`,
		`<https://h@i/x>`, `<\\i\x>`, `<:80>`} {
		f.Add(link)
	}
	from := &url.URL{Scheme: "https", Host: "h", Path: "/v2/a/tags/list"}
	f.Fuzz(func(t *testing.T, link string) {
		next, err := follow(from, link)
		if err != nil || next == nil {
			return
		}
		req, err := http.NewRequest(http.MethodGet, next.String(), nil)
		if err == nil && (req.URL.Scheme != "https" || !strings.EqualFold(req.URL.Hostname(), "h") ||
			guard.Port(req.URL) != "443") {
			t.Errorf("%q leads to %s", link, next)
		}
	})
}

// TestListed: what stands under the tag of a list and isn't one is none, or wrong.
func TestListed(t *testing.T) {
	t.Parallel()
	self := []byte(`{"mediaType":"` + spec.IndexType + `"}`)
	subject := format.Sum(self)
	for name, c := range map[string]struct {
		kind, digest, body string
		want               string
	}{
		"the subject": {spec.IndexType, subject, string(self), ""},
		"an image":    {spec.ManifestType, "", `{"manifests":[{"digest":"x"}]}`, ""},
		"a list": {spec.IndexType + "; charset=utf-8", format.Sum([]byte(`{"manifests":[{"digest":"x"}]}`)),
			`{"manifests":[{"digest":"x"}]}`, "x"},
		"of no type": {";", "", "{}", "invalid Content-Type: "},
		"HTML": {spec.IndexType, "", "<html>",
			"the list under the tag " + tagOf(subject) + " can't be decoded: invalid character"},
		"another digest": {spec.IndexType, subject, "{}", "the digest is another one"},
		"too long":       {spec.IndexType, "", `{"x":"` + strings.Repeat("x", maxPage) + `"}`, "the list is too long"},
	} {
		r := answers(t,
			map[string]http.HandlerFunc{"/v2/acme/deploy/manifests/" + tagOf(subject): func(w http.ResponseWriter,
				_ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				w.Header().Set("Docker-Content-Digest", c.digest)
				w.Write([]byte(c.body))
			}})
		all, err := r.all(t.Context(), subject)
		if len(all) == 1 {
			err = errors.New(all[0].Digest)
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
	r := answers(t, map[string]http.HandlerFunc{"/v2/acme/deploy/referrers/" + subject: func(w http.ResponseWriter,
		r *http.Request) {
		answer(w, r)
	}})
	says := func(status int, kind, body string) {
		answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			w.Write([]byte(body))
		}
	}
	for _, c := range []struct {
		status     int
		kind, body string
		want       string
		lists      int32
	}{
		{http.StatusNotFound, "", `{"errors":[{"code":"NAME_UNKNOWN","message":"m"}]}`,
			"the registry answered 404 Not Found", unknown},
		{http.StatusForbidden, "", `{"status":500}`, "the registry answered 403 Forbidden", unknown},
		{http.StatusOK, spec.IndexType, `[]`, "it can't be decoded", unknown},
		{http.StatusOK, spec.IndexType, `{"manifests":[{"digest":"x"}]}`, "", byAPI},
		{http.StatusNotFound, "", `{"errors":[{"code":"NAME_UNKNOWN"},{"code":"X"}]}`,
			"the registry has no list of referrers: unsupported", byAPI},
		{http.StatusOK, "text/html", "<html>", "the list of referrers is of type text/html: unsupported", byAPI},
	} {
		says(c.status, c.kind, c.body)
		_, err := r.all(t.Context(), subject)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) ||
			r.lists.Load() != c.lists {
			t.Errorf("%+v: %v, %d", c, err, r.lists.Load())
		}
	}
	r.lists.Store(unknown)
	if all, err := r.all(t.Context(), subject); err != nil || len(all) != 0 || !r.ByTag() {
		t.Errorf("%v, %v", all, err)
	}
}

// TestPages: pages follow each other, but not for ever, and each says how many entries it should have.
func TestPages(t *testing.T) {
	t.Parallel()
	var asked []string
	subject := format.Sum([]byte("subject"))
	page := func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		w.Header().Set("Content-Type", spec.IndexType)
		if last := len(asked); r.URL.Query().Get("last") != "3" {
			w.Header().Set("Link", fmt.Sprintf(`<?last=%d>; rel="next"`, last))
		}
		json.NewEncoder(w).Encode(map[string]any{"tags": []string{"x"}, "manifests": []spec.Descriptor{{Digest: "x"}}})
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
	more, err := r.Referrers(t.Context(), subject, func([]spec.Descriptor) error { return nil })
	if err != nil || !more || len(asked) != 4+2*maxPages {
		t.Errorf("%t, %v after %d pages", more, err, len(asked)-4-maxPages)
	}
	no := errors.New("no")
	if err := r.Tags(t.Context(), func([]string) error { return no }); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
}
