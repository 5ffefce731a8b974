package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"oras.land/oras-go/v2/registry/remote/auth"

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
	return plain(g.URL, new(http.Transport), func(context.Context) (Credential, error) { return c, nil })
}

// plain is a repository of a registry without TLS.
func plain(url string, next http.RoundTripper, credential func(context.Context) (Credential, error)) *Repository {
	r := New(strings.TrimPrefix(url, "http://"), "acme/deploy",
		&http.Client{Transport: &guard.Guard{Next: next}, CheckRedirect: guard.Follow}, credential)
	r.UsePlainHTTP()
	return r
}

// status makes a request for a path, and returns the status of the answer.
func (r *Repository) status(ctx context.Context, path string, actions ...string) (int, error) {
	ctx = auth.AppendRepositoryScope(ctx, r.oras.Reference, actions...)
	req, err := r.Request(ctx, http.MethodGet, path)
	if err != nil {
		return 0, err
	}
	resp, err := r.Do(req)
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
		"right": {Credential{User: "me", Password: "x"}, "", []string{"GET /v2/acme/deploy/a",
			"GET /v2/acme/deploy/a Basic bWU6eA==", "GET /v2/acme/deploy/a Basic bWU6eA=="}},
		"wrong": {Credential{User: "me", Password: "y"}, "401", []string{"GET /v2/acme/deploy/a",
			"GET /v2/acme/deploy/a Basic bWU6eQ==",
			"GET /v2/acme/deploy/a Basic bWU6eQ==", "GET /v2/acme/deploy/a Basic bWU6eQ=="}},
		"none": {Credential{}, "the registry requires a user name and password",
			[]string{"GET /v2/acme/deploy/a", "GET /v2/acme/deploy/a"}},
		"no password": {Credential{User: "me"}, ": missing username or password for basic auth",
			[]string{"GET /v2/acme/deploy/a", "GET /v2/acme/deploy/a"}},
		"a token": {Credential{Token: "t"}, ": missing username or password for basic auth",
			[]string{"GET /v2/acme/deploy/a", "GET /v2/acme/deploy/a"}},
	} {
		g := newGate(t, `Basic realm="URL/token"`)
		g.pass = []string{"Basic bWU6eA=="}
		r := g.repository(c.credential)
		for range 2 {
			status, err := r.status(t.Context(), "/a")
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("%d", status)
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.HasSuffix(err.Error(), c.err)) {
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
	for challenge, want := range map[string]string{`Basic realm="x"`: ": failed to resolve credential: no",
		`Bearer realm="URL/token"`: ": no"} {
		g := newGate(t, challenge)
		no := errors.New("no")
		r := plain(g.URL, new(http.Transport), func(context.Context) (Credential, error) { return Credential{}, no })
		if _, err := r.status(t.Context(), "/a"); !errors.Is(err, no) || !strings.HasSuffix(err.Error(), want) {
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
			"POST /token client_id=rye&grant_type=refresh_token&refresh_token=t&" +
				"scope=repository%3Aacme%2Fdeploy%3Apull+x&service=s"},
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
		ask := func(action string, want ...string) {
			t.Helper()
			if status, err := r.status(t.Context(), "/a", action); err != nil || status != http.StatusOK {
				t.Errorf("%s: %d, %v", name, status, err)
			}
			if seen := g.seen(); !slices.Equal(seen, want) {
				t.Errorf("%s: %q, want %q", name, seen, want)
			}
		}
		const get = "GET /v2/acme/deploy/a"
		ask(auth.ActionPull, get, c.asks, get+" Bearer t1")
		// the registry wants more than the request needs, which it says only when asked
		ask(auth.ActionPull, get, get+" Bearer t1")
		push := strings.ReplaceAll(c.asks, "%3Apull", "%3Apull%2Cpush")
		ask(auth.ActionPush, get, push, get+" Bearer t2")
		g.mu.Lock()
		g.pass = nil
		g.mu.Unlock()
		ask(auth.ActionPull, get, get+" Bearer t1", c.asks, get+" Bearer t3")
		// Without more scopes a token is sent at once.
		g.challenge = `Bearer realm="URL/token",service="s"`
		only := strings.NewReplacer("&scope=x", "", "+x", "").Replace(c.asks)
		ask(auth.ActionPull, get, only, get+" Bearer t4")
		ask(auth.ActionPull, get+" Bearer t4")
		// And when the registry changes its mind.
		g.mu.Lock()
		g.pass = nil
		g.mu.Unlock()
		ask(auth.ActionPull, get+" Bearer t4", only, get+" Bearer t5")
	}
}

// TestTokenOnce: requests that are refused together ask for one token.
func TestTokenOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 8
		tokens := 0
		says := func(req *http.Request, status int, challenge, body string) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{"Www-Authenticate": {challenge}},
				Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
		}
		r := plain("http://127.0.0.1:1", transport(func(req *http.Request) (*http.Response, error) {
			switch {
			case req.URL.Path == "/token":
				synctest.Wait() // until the other requests wait for this token
				tokens++
				return says(req, http.StatusOK, "", `{"token":"t"}`)
			case req.Header.Get("Authorization") == "Bearer t":
				return says(req, http.StatusOK, "", "")
			}
			return says(req, http.StatusUnauthorized, `Bearer realm="http://127.0.0.1:1/token"`, "")
		}), nil)
		ended := make(chan error, n)
		for range n {
			go func() {
				status, err := r.status(t.Context(), "/a")
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
	})
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
		status, err := r.status(t.Context(), "/a")
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
		"HTML":              {me, text("<html>"), "failed to decode response: invalid character"},
		"nothing":           {me, text(""), "failed to decode response: EOF"},
		"no token":          {me, text("{}"), "empty token returned"},
		"no token of OAuth": {identity, text(`{"token":"t"}`), "empty token returned"},
		"a list":            {identity, text(`[]`), "failed to decode response: json"},
		"too long": {me, text(`{"token":"` + strings.Repeat("x", 128<<10) + `"}`),
			"failed to decode response: unexpected EOF"},
		"refuses": {me, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		}, "the registry answered 403 Forbidden"},
		"a redirect, with a body": {identity, to(http.StatusTemporaryRedirect, elsewhere.URL),
			"refusing to resend a token request body to another origin"},
		"a redirect for good": {identity, to(http.StatusPermanentRedirect, elsewhere.URL),
			"refusing to resend a token request body to another origin"},
		"a redirect inside": {me, to(http.StatusFound, named),
			`redirect of token request rejected: bearer realm host "localhost" resolves to `},
		"a redirect to a file": {me, to(http.StatusFound, "file:///etc/passwd"),
			`redirect of token request rejected: bearer realm "file:///etc/passwd" uses unsupported scheme`},
		"redirects": {me, to(http.StatusFound, "/token"), "more than 5 redirects"},
	} {
		g := newGate(t, `Bearer realm="URL/token"`)
		g.token = c.token
		if _, err := g.repository(c.credential).status(t.Context(), "/a"); err == nil ||
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
	if status, err := g.repository(me).status(t.Context(), "/a"); err != nil || status != http.StatusOK {
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
		me := func(context.Context) (Credential, error) { return Credential{User: "me", Password: "x"}, nil }
		next, leads := new(http.Transport), true
		r := plain(g.URL, transport(func(req *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			if err == nil && resp.StatusCode == http.StatusOK && leads {
				resp.StatusCode = http.StatusTemporaryRedirect
				resp.Header.Set("Location", other.URL+"/b")
			}
			return resp, err
		}), me)
		status, err := r.status(t.Context(), "/a")
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
		leads = false
		resp, err := r.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		if seen := strings.Join(other.seen(), "\n"); strings.Contains(seen, "bWU6") ||
			(err != nil && fault.CodeOf(err) == fault.AuthRequired) != strings.HasPrefix(challenge, "Basic") {
			t.Errorf("%s: %v after %q", challenge, err, seen)
		}
	}
}

// refusing is a repository on r.invalid:5000 whose registry answers everything with a challenge, and everything else
// with a token. asked takes the addresses of requests, with a credential if they have one.
func refusing(challenge string, asked *[]string) *Repository {
	return New("r.invalid:5000", "acme/deploy", &http.Client{CheckRedirect: guard.Follow,
		Transport: &guard.Guard{Next: transport(func(req *http.Request) (*http.Response, error) {
			resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{},
				Body: io.NopCloser(strings.NewReader(`{"token":"t","access_token":"t"}`)), Request: req}
			said := req.URL.Scheme + "://" + req.URL.Host
			if auth := req.Header.Get("Authorization"); auth != "" {
				said += " " + auth
			}
			*asked = append(*asked, said)
			if strings.HasPrefix(req.URL.Path, "/v2/acme/deploy/") && req.Header.Get("Authorization") != "Bearer t" {
				resp.StatusCode = http.StatusUnauthorized
				resp.Header.Set("WWW-Authenticate", challenge)
			}
			return resp, nil
		})}}, func(context.Context) (Credential, error) { return Credential{User: "me", Password: "canary"}, nil })
}

// TestRealm: which token services a registry may name.
func TestRealm(t *testing.T) {
	t.Parallel()
	for realm, want := range map[string]string{
		"https://127.0.0.1/": "in blocked prefix", "https://10.1.2.3/t": "in blocked prefix",
		"https://172.16.0.1/":  "in blocked prefix",
		"https://192.168.1.1/": "in blocked prefix", "https://[::ffff:10.0.0.1]/": "in blocked prefix",
		"https://[fd00::1]/":           "in blocked prefix",
		"https://[64:ff9b::10.0.0.1]/": "in blocked prefix", "https://169.254.169.254/": "in blocked prefix",
		"https://100.64.0.1/":      "in blocked prefix",
		"https://100.100.100.200/": "in blocked prefix", "https://0.0.0.0/": "in blocked prefix",
		"https://[fe80::1]/": "in blocked prefix",
		"https://[::1]/":     "in blocked prefix", "https://192.0.2.1/t": "",
		"https://localhost/": "in blocked prefix",
		"http://192.0.2.1/":  "uses http but registry was contacted over https",
		"ftp://192.0.2.1/":   "uses unsupported scheme",
		"http://r.invalid/":  "uses http but registry was contacted over https", "/token": "uses unsupported scheme",
		"https://%zz/": "failed to parse bearer realm", "": "not an https address", "https://R.invalid/": "",
		"https://other.invalid/": "",
	} {
		var asked []string
		status, err := refusing(`Bearer realm="`+realm+`"`, &asked).status(t.Context(), "/a")
		const registry, token = "https://r.invalid:5000", " Basic bWU6Y2FuYXJ5"
		if want == "" {
			u, _ := url.Parse(realm)
			if seen := []string{registry, "https://" + u.Host + token, registry + " Bearer t"}; err != nil ||
				status != http.StatusOK || !slices.Equal(asked, seen) {
				t.Errorf("%q: %d, %v after %q", realm, status, err, asked)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || !slices.Equal(asked, []string{registry}) {
			t.Errorf("%q: %v, want %s, after %q", realm, err, want, asked)
		}
	}
	// A registry of this machine without TLS names a service beside it.
	g := newGate(t, `Bearer realm="URL/token"`)
	g.token = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"token":"t"}`) }
	g.pass = []string{"Bearer t"}
	if status, err := g.repository(Credential{}).status(t.Context(), "/a"); err != nil || status != http.StatusOK {
		t.Errorf("%d, %v", status, err)
	}
}

// FuzzChallenge: whatever a registry reached by TLS asks for, credentials go to it and to services by TLS, and to no
// network of this machine.
func FuzzChallenge(f *testing.F) {
	f.Add(`Bearer realm="https://192.0.2.1/t",service="s",scope="repository:a:pull"`)
	f.Add(`Basic realm="x"`)
	f.Add("BEARER\trealm = \"https://10.0.0.1\" , service=s")
	f.Add(`Bearer realm="http://192.0.2.1`)
	f.Add(`Bearer realm="https://r.invalid@127.0.0.1/"`)
	f.Fuzz(func(t *testing.T, challenge string) {
		var asked []string
		_, _ = refusing(challenge, &asked).status(t.Context(), "/a") // the credential is what this is about
		for _, one := range asked {
			at, answer, _ := strings.Cut(one, " ")
			u, err := url.Parse(at)
			if err != nil || u.Scheme != "https" {
				t.Fatalf("%q asks %q", challenge, one)
			}
			if answer == "Bearer t" && u.Host != "r.invalid:5000" {
				t.Errorf("%q sends the token to %s", challenge, at)
			}
			a, err := netip.ParseAddr(u.Hostname())
			if err == nil && slices.ContainsFunc(forbidden(),
				func(p netip.Prefix) bool { return p.Contains(a.Unmap()) }) {
				t.Errorf("%q asks %q", challenge, one)
			}
		}
	})
}
