package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/guard"
)

// A gate is a registry that lets nothing pass without what it wants, and the token service beside it.
type gate struct {
	*httptest.Server
	challenge string // WWW-Authenticate; "URL" in it is that of the service
	token     func(w http.ResponseWriter, r *http.Request)

	mu    sync.Mutex
	pass  []string // values of Authorization that are good
	asked []string // methods, paths and Authorization of requests, and forms of those for tokens
}

func newGate(t testing.TB, challenge string) *gate {
	g := &gate{challenge: challenge}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	said := r.Method + " " + r.URL.Path
	if r.URL.Path == "/token" {
		said += " " + r.Form.Encode()
	}
	auth := r.Header.Get("Authorization")
	g.mu.Lock()
	g.asked = append(g.asked, strings.TrimSpace(said+" "+auth))
	good := slices.Contains(g.pass, auth)
	g.mu.Unlock()
	switch {
	case r.URL.Path == "/token":
		g.token(w, r)
	case !good:
		w.Header().Set("WWW-Authenticate", strings.ReplaceAll(g.challenge, "URL", g.URL))
		w.WriteHeader(http.StatusUnauthorized)
	}
}

// seen returns the requests since the last call.
func (g *gate) seen() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer func() { g.asked = nil }()
	return g.asked
}

func (g *gate) repository(c Credential) *Repository {
	return &Repository{Host: strings.TrimPrefix(g.URL, "http://"), Name: "acme/deploy", PlainHTTP: true,
		HTTP:       &http.Client{Transport: &guard.Guard{Next: new(http.Transport)}, CheckRedirect: guard.Follow},
		Credential: func(context.Context) (Credential, error) { return c, nil }}
}

// status makes a request for a path, and returns the status of the answer.
func (r *Repository) status(ctx context.Context, path, actions string) (int, error) {
	req, err := r.Request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := r.Do(req, actions)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// TestBasic: credentials are asked for once and then sent at once; those that are refused aren't sent a third time.
func TestBasic(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		credential Credential
		err        string
		seen       []string // of two requests
	}{
		"right": {Credential{User: "me", Password: "x"}, "",
			[]string{"GET /v2/acme/deploy/a", "GET /v2/acme/deploy/a Basic bWU6eA==",
				"GET /v2/acme/deploy/a Basic bWU6eA=="}},
		"wrong": {Credential{User: "me", Password: "y"}, "401",
			[]string{"GET /v2/acme/deploy/a", "GET /v2/acme/deploy/a Basic bWU6eQ==",
				"GET /v2/acme/deploy/a Basic bWU6eQ==", "GET /v2/acme/deploy/a Basic bWU6eQ=="}},
		"none": {Credential{}, "the registry wants a user and a password",
			[]string{"GET /v2/acme/deploy/a", "GET /v2/acme/deploy/a"}},
		"no password": {Credential{User: "me"}, "the user or the password is missing",
			[]string{"GET /v2/acme/deploy/a", "GET /v2/acme/deploy/a"}},
		"a token": {Credential{Token: "t"}, "the user or the password is missing",
			[]string{"GET /v2/acme/deploy/a", "GET /v2/acme/deploy/a"}},
	} {
		g := newGate(t, `Basic realm="URL/token"`)
		g.pass = []string{"Basic bWU6eA=="}
		r := g.repository(c.credential)
		for range 2 {
			status, err := r.status(t.Context(), "/a", Pull)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("%d", status)
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
				t.Errorf("%s: %v, want %s", name, err, c.err)
			}
		}
		if seen := g.seen(); !slices.Equal(seen, c.seen) {
			t.Errorf("%s: %q, want %q", name, seen, c.seen)
		}
	}
}

// TestCredentialError: if credentials can't be found, the request ends with that.
func TestCredentialError(t *testing.T) {
	t.Parallel()
	for challenge, want := range map[string]string{`Basic realm="x"`: "the credential can't be read: no",
		`Bearer realm="URL/token"`: "no"} {
		g := newGate(t, challenge)
		r := g.repository(Credential{})
		r.Credential = func(context.Context) (Credential, error) { return Credential{}, errors.New("no") }
		if _, err := r.status(t.Context(), "/a", Pull); err == nil || err.Error() != want {
			t.Errorf("%s: %v", challenge, err)
		}
	}
}

// TestTokens: one token for each set of scopes, asked for as the credentials are, and a new one when it is refused.
func TestTokens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		credential Credential
		asks       string // for a token to pull
	}{
		"anonymous": {Credential{}, "GET /token scope=repository%3Aacme%2Fdeploy%3Apull&scope=x&service=s"},
		"a user's": {Credential{User: "me", Password: "x"},
			"GET /token scope=repository%3Aacme%2Fdeploy%3Apull&scope=x&service=s Basic bWU6eA=="},
		"identity": {Credential{User: "me", Token: "t"},
			"POST /token client_id=rye&grant_type=refresh_token&refresh_token=t&scope=repository%3Aacme%2Fdeploy%3Apull+x&service=s"},
	} {
		g := newGate(t, `Bearer realm="URL/token",service="s",scope="repository:acme/deploy:pull x"`)
		n := 0
		g.token = func(w http.ResponseWriter, r *http.Request) {
			g.mu.Lock()
			defer g.mu.Unlock()
			n++
			g.pass = append(g.pass, fmt.Sprintf("Bearer t%d", n))
			json.NewEncoder(w).Encode(map[string]string{"access_token": fmt.Sprintf("t%d", n)})
		}
		r := g.repository(c.credential)
		ask := func(actions string, want ...string) {
			t.Helper()
			if status, err := r.status(t.Context(), "/a", actions); err != nil || status != http.StatusOK {
				t.Errorf("%s: %d, %v", name, status, err)
			}
			if seen := g.seen(); !slices.Equal(seen, want) {
				t.Errorf("%s: %q, want %q", name, seen, want)
			}
		}
		const get = "GET /v2/acme/deploy/a"
		ask(Pull, get, c.asks, get+" Bearer t1")
		// the registry wants more than the request needs, which it says only when asked
		ask(Pull, get, get+" Bearer t1")
		push := strings.ReplaceAll(c.asks, "%3Apull", "%3Apull%2Cpush")
		ask(Push, get, push, get+" Bearer t2")
		g.mu.Lock()
		g.pass = nil
		g.mu.Unlock()
		ask(Pull, get, get+" Bearer t1", c.asks, get+" Bearer t3")
		// Without more scopes a token is sent at once.
		g.challenge = `Bearer realm="URL/token",service="s"`
		only := strings.NewReplacer("&scope=x", "", "+x", "").Replace(c.asks)
		ask(Pull, get, only, get+" Bearer t4")
		ask(Pull, get+" Bearer t4")
		// And when the registry changes its mind.
		g.mu.Lock()
		g.pass = nil
		g.mu.Unlock()
		ask(Pull, get+" Bearer t4", only, get+" Bearer t5")
	}
}

// TestTokenOnce: requests that are refused together ask for one token.
func TestTokenOnce(t *testing.T) {
	t.Parallel()
	g := newGate(t, `Bearer realm="URL/token"`)
	const n = 8
	var together sync.WaitGroup
	together.Add(n)
	tokens := 0
	g.token = func(w http.ResponseWriter, r *http.Request) {
		tokens++
		w.Write([]byte(`{"token":"t"}`))
	}
	g.pass = []string{"Bearer t"}
	r := g.repository(Credential{})
	next := r.HTTP.Transport
	r.HTTP.Transport = transport(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		if err == nil && resp.StatusCode == http.StatusUnauthorized {
			together.Done()
			together.Wait()
		}
		return resp, err
	})
	ended := make(chan error, n)
	for range n {
		go func() {
			status, err := r.status(t.Context(), "/a", Pull)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("%d", status)
			}
			ended <- err
		}()
	}
	for range n {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if tokens != 1 {
		t.Errorf("%d tokens", tokens)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRefusedTwice: a registry that refuses the token that its own service gave is believed.
func TestRefusedTwice(t *testing.T) {
	t.Parallel()
	g := newGate(t, `Bearer realm="URL/token"`)
	g.token = func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"token":"t"}`)) }
	r := g.repository(Credential{})
	for _, want := range []int{3, 3} { // the request, the token, the request
		status, err := r.status(t.Context(), "/a", Pull)
		if seen := g.seen(); err != nil || status != http.StatusUnauthorized || len(seen) != want {
			t.Errorf("%d, %v after %q", status, err, seen)
		}
	}
}

// TestTokenLies: a token service that gives something else is refused, and what credentials it was sent go no further.
func TestTokenLies(t *testing.T) {
	t.Parallel()
	var leaked sync.Map
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		if r.Header.Get("Authorization") != "" || r.Form.Has("refresh_token") {
			leaked.Store(r.Method+r.URL.String(), r.Form.Encode())
		}
		w.Write([]byte(`{"token":"other","access_token":"other"}`))
	}))
	t.Cleanup(elsewhere.Close)
	named := strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1)
	me, identity := Credential{User: "me", Password: "canary"}, Credential{Token: "canary"}
	to := func(status int, where string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, where, status) }
	}
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) }
	}
	for name, c := range map[string]struct {
		credential Credential
		token      http.HandlerFunc
		want       string
	}{
		"HTML":              {me, text("<html>"), "it can't be decoded: invalid character"},
		"nothing":           {me, text(""), "it can't be decoded: EOF"},
		"no token":          {me, text("{}"), "the token is empty"},
		"no token of OAuth": {identity, text(`{"token":"t"}`), "the token is empty"},
		"a list":            {identity, text(`[]`), "it can't be decoded: json"},
		"too long": {me, text(`{"token":"` + strings.Repeat("x", maxToken) + `"}`),
			"it can't be decoded: unexpected EOF"},
		"refuses": {me, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		}, "the registry answered 403 Forbidden"},
		"a redirect, with a body": {identity, to(http.StatusTemporaryRedirect, elsewhere.URL),
			"a token request with a credential is not sent to another server"},
		"a redirect for good": {identity, to(http.StatusPermanentRedirect, elsewhere.URL),
			"a token request with a credential is not sent to another server"},
		"a redirect inside": {me, to(http.StatusFound, named),
			`the token service redirects: the token service "localhost" is at `},
		"a redirect to a file": {me, to(http.StatusFound, "file:///etc/passwd"),
			`the token service redirects: the token service "file:///etc/passwd" has the scheme`},
		"redirects": {me, to(http.StatusFound, "/token"), "more than 5 redirects"},
	} {
		g := newGate(t, `Bearer realm="URL/token"`)
		g.token = c.token
		if _, err := g.repository(c.credential).status(t.Context(), "/a", Pull); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		for _, one := range g.seen() {
			if strings.HasPrefix(one, "GET /v2/") && strings.Contains(one, " B") {
				t.Errorf("%s: %s", name, one)
			}
		}
	}
	// Another port of the same host may be the service, and hears of the request, not of the credentials.
	g := newGate(t, `Bearer realm="URL/token"`)
	g.token = to(http.StatusFound, elsewhere.URL+"/last")
	g.pass = []string{"Bearer other"}
	if status, err := g.repository(me).status(t.Context(), "/a", Pull); err != nil || status != http.StatusOK {
		t.Errorf("%d, %v", status, err)
	}
	leaked.Range(func(k, v any) bool {
		t.Errorf("sent elsewhere: %v %v", k, v)
		return true
	})
}

// TestElsewhere: a host that a registry redirects to is answered nothing, whatever it asks for, and gets nothing.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	for _, challenge := range []string{`Basic realm="x"`, `Bearer realm="URL/token"`} {
		other := newGate(t, challenge)
		g := newGate(t, `Basic realm="x"`)
		g.pass = []string{"Basic bWU6eA=="}
		r := g.repository(Credential{User: "me", Password: "x"})
		next := r.HTTP.Transport
		r.HTTP.Transport = transport(func(req *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			if err == nil && resp.StatusCode == http.StatusOK {
				resp.StatusCode = http.StatusTemporaryRedirect
				resp.Header.Set("Location", other.URL+"/b")
			}
			return resp, err
		})
		status, err := r.status(t.Context(), "/a", Pull)
		if seen := other.seen(); err != nil || status != http.StatusUnauthorized ||
			!slices.Equal(seen, []string{"GET /b"}) {
			t.Errorf("%s: %d, %v after %q", challenge, status, err, seen)
		}
		// Asked directly, as a list that goes on there would, it gets no credentials either.
		other.token = func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"token":"anybody"}`)) }
		other.pass = []string{"Bearer anybody"}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, other.URL+"/c", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.HTTP.Transport = next
		resp, err := r.Do(req, Pull)
		if err == nil {
			resp.Body.Close()
		}
		if seen := strings.Join(other.seen(), "\n"); strings.Contains(seen, "bWU6") ||
			(err != nil && fault.CodeOf(err) == fault.AuthRequired) != strings.HasPrefix(challenge, "Basic") {
			t.Errorf("%s: %v after %q", challenge, err, seen)
		}
	}
}

// TestRealm: which token services a registry may name.
func TestRealm(t *testing.T) {
	t.Parallel()
	for realm, want := range map[string]string{
		"": "", "https://127.0.0.1/": "of its networks", "https://10.1.2.3/t": "of its networks",
		"https://[::ffff:10.0.0.1]/": "of its networks", "https://169.254.169.254/": "of its networks",
		"https://100.100.100.200/": "of its networks", "https://0.0.0.0/": "of its networks",
		"https://[fe80::1]/": "of its networks", "https://192.0.2.1/t": "", "https://localhost/": "of its networks",
		"http://192.0.2.1/": "without https", "ftp://192.0.2.1/": "has the scheme", "/token": "has the scheme",
		"https://%zz/":       "invalid address",
		"https://R.invalid/": "", "https://other.invalid/": "",
	} {
		err := checkRealm(t.Context(), realm, &url.URL{Scheme: "https", Host: "r.invalid:5000"})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %s", realm, err, want)
		}
	}
	if err := checkRealm(t.Context(), "http://127.0.0.1:1/",
		&url.URL{Scheme: "http", Host: "127.0.0.1:5000"}); err != nil {
		t.Error(err)
	}
}

// TestChallenge: what registries write.
func TestChallenge(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		scheme string
		params map[string]string
	}{
		`Bearer realm="https://a/t?x",service="s",scope="repository:a:pull"`: {bearer,
			map[string]string{"realm": "https://a/t?x", "service": "s", "scope": "repository:a:pull"}},
		"BEARER\trealm = \"a\\\"b\" , service=s": {bearer, map[string]string{"realm": `a"b`, "service": "s"}},
		`Bearer realm="",a=`:                     {bearer, map[string]string{"realm": ""}},
		`Bearer realm="a" b=c`:                   {bearer, map[string]string{"realm": "a"}},
		`Bearer realm="a`:                        {bearer, nil},
		`Bearer a="\q",b=c`:                      {bearer, nil},
		`Bearer`:                                 {bearer, nil},
		`Basic realm="x"`:                        {basic, map[string]string{"realm": "x"}},
		`Negotiate abc==`:                        {"negotiate", map[string]string{"abc": "="}},
		``:                                       {"", nil},
		`, Bearer realm="x"`:                     {"", nil},
	} {
		scheme, params := parseChallenge(text)
		if scheme != want.scheme || scheme == bearer && !maps.Equal(params, want.params) {
			t.Errorf("%q: %s %q", text, scheme, params)
		}
	}
}

// FuzzChallenge: what is written as a challenge is read again, whatever stands in it.
func FuzzChallenge(f *testing.F) {
	f.Add("https://a/t", "s", `Bearer realm="x`)
	f.Add("\"", "\\\n\x00", `Bearer a="\x`)
	f.Fuzz(func(t *testing.T, realm, service, junk string) {
		parseChallenge(junk)
		scheme, params := parseChallenge(fmt.Sprintf("Bearer realm=%q, service=%q,%s", realm, service, "a=b"))
		valid := strings.ToValidUTF8(realm+service, "") == realm+service
		if scheme != bearer || valid && !maps.Equal(params,
			map[string]string{"realm": realm, "service": service, "a": "b"}) {
			t.Errorf("%q", params)
		}
		_, params = parseChallenge("Bearer " + junk)
		for name := range params {
			if rest, _ := word(name); rest != name || name == "" {
				t.Errorf("%q has the parameter %q", junk, name)
			}
		}
	})
}

// TestMerge: a resource is named once.
func TestMerge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, want string }{
		{"repository:a/b:pull", "", "repository:a/b:pull"},
		{"repository:a/b:pull", "repository:a/b:push,pull", "repository:a/b:pull,push"},
		{"repository:a/b:pull", "repository:a/b:* registry:catalog:*", "registry:catalog:* repository:a/b:*"},
		{"repository:a/b:pull", "x a:b c:d: repository:c:pull", "a:b repository:a/b:pull repository:c:pull x"},
	} {
		if got := strings.Join(merge(strings.Fields(c.a), strings.Fields(c.b)), " "); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
