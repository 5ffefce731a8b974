package oauth_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/oauth"
	"github.com/rye-build/rye/exec/oauth/oauthtest"
	"github.com/rye-build/rye/exec/secret"
)

type object = map[string]any

// A world is a server that wants a sign-in, and a browser.
type world struct{ *oauthtest.Server }

func newWorld(t testing.TB) *world { return &world{oauthtest.New(t)} }

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// login signs in with a browser that follows where it is led.
func (w *world) login(change ...func(*oauth.Login)) (*oauth.Grant, error) {
	l := &oauth.Login{Server: w.URL + "/mcp", Now: func() time.Time { return noon }}
	l.Show = func(address string) {
		go func() {
			answer, err := http.Get(address)
			if err == nil {
				answer.Body.Close()
			}
		}()
	}
	for _, c := range change {
		c(l)
	}
	return l.Run(w.Context())
}

// TestLogin: what is asked, and what is kept.
func TestLogin(t *testing.T) {
	w := newWorld(t)
	g, err := w.login()
	if err != nil {
		t.Fatal(err)
	}
	want := oauth.Grant{Format: 1, Server: w.URL + "/mcp", Issuer: w.Issuer, TokenEndpoint: w.URL + "/token",
		ClientID: "client-1",
		Access:   "access-token-0", Refresh: "refresh-0", Expires: noon.Add(time.Hour)}
	if *g != want {
		t.Errorf("%+v\nwant %+v", *g, want)
	}
	if again := oauth.Parse(g.Text()); again == nil || *again != *g {
		t.Errorf("%+v", again)
	}
	// One that is registered registers no more; and scopes can be others.
	var shown string
	g, err = w.login(func(l *oauth.Login) {
		l.ClientID, l.Scopes = "mine", []string{"few"}
		show := l.Show
		l.Show = func(address string) { shown = address; show(address) }
	})
	if err != nil || g.ClientID != "mine" || w.Clients != 1 || !strings.Contains(shown, "scope=few") {
		t.Errorf("%+v, %v, %d clients, %s", g, err, w.Clients, shown)
	}
}

// TestWellKnown: a server that names nothing has its metadata where they are looked for.
func TestWellKnown(t *testing.T) {
	w := newWorld(t)
	w.Challenge = "Bearer"
	w.Config.Handler = also(w.Config.Handler, "/.well-known/oauth-protected-resource/mcp",
		func(rw http.ResponseWriter, _ *http.Request) {
			w.JSON(rw, object{"resource": w.URL + "/mcp", "authorization_servers": []any{w.Issuer},
				"scopes_supported": []any{"all"}}, nil)
		})
	if _, err := w.login(); err != nil {
		t.Error(err)
	}
}

func also(h http.Handler, path string, f http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path {
			f(rw, r)
			return
		}
		h.ServeHTTP(rw, r)
	})
}

// TestClientSecret: a server without a path in its name, which gives programs a secret, gets it with each request for
// tokens.
func TestClientSecret(t *testing.T) {
	w := newWorld(t)
	w.Issuer = w.URL
	w.Config.Handler = also(w.Config.Handler, "/.well-known/openid-configuration",
		func(rw http.ResponseWriter, _ *http.Request) {
			w.JSON(rw, object{"issuer": w.URL, "authorization_endpoint": w.URL + "/authorize?tenant=a",
				"token_endpoint":                   w.URL + "/token",
				"registration_endpoint":            w.URL + "/register",
				"code_challenge_methods_supported": []any{"plain", "S256"}}, nil)
		})
	w.Register = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusCreated)
		io.WriteString(rw, `{"client_id": "a b", "client_secret": "s:s"}`)
	}
	w.Token = func(rw http.ResponseWriter, r *http.Request) {
		if id, secret, ok := r.BasicAuth(); !ok || id != "a+b" || secret != "s%3As" {
			t.Errorf("%q, %q, %v", id, secret, ok)
		}
		w.Tokens(rw, r)
	}
	g, err := w.login()
	if err != nil || g.ClientSecret != "s:s" {
		t.Fatalf("%+v, %v", g, err)
	}
	s, now := w.kept(g)
	*now = noon.Add(time.Hour)
	if v, err := s.Get(t.Context(), "web"); v != "access-token-1" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
}

// TestReplaced: a secret that is set again while its renewal waits is what it is then.
func TestReplaced(t *testing.T) {
	w := newWorld(t)
	g, err := w.login()
	if err != nil {
		t.Fatal(err)
	}
	s, now := w.kept(g)
	*now = noon.Add(time.Hour)
	held, err := osfile.OpenLocked(t.Context(), filepath.Join(s.Dir, "oauth.lock"), osfile.Exclusive, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		v, err := s.Get(t.Context(), "web")
		if err != nil {
			t.Error(err)
		}
		got <- v
	}()
	if _, err := s.Set(t.Context(), secret.Secret{Name: "web", From: "stdin"}, "set again", true); err != nil {
		t.Fatal(err)
	}
	held.Close()
	if v := <-got; v != "set again" || w.Renewed != 0 {
		t.Errorf("%q, %d", v, w.Renewed)
	}
}

// endless answers without end, as far as that is read.
func endless(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Type", "application/json")
	io.WriteString(rw, `{"access_token": "`)
	for r.Context().Err() == nil {
		if _, err := io.WriteString(rw, strings.Repeat("a", 1<<16)); err != nil {
			return
		}
	}
}

// TestMisbehaving: whatever the servers do, there is an error that says what, and no token.
func TestMisbehaving(t *testing.T) {
	set := func(name string, value any) func(object) { return func(o object) { o[name] = value } }
	for _, c := range []struct {
		name string
		do   func(*world)
		want string
	}{
		{"another resource", func(w *world) {
			w.Resource = set("resource", "https://bank.example/mcp")
		}, "doesn't say where to sign in"},
		{"no issuer", func(w *world) {
			w.Resource = set("authorization_servers", []any{})
		}, "names no server to sign in at"},
		{"an issuer without TLS", func(w *world) {
			w.Resource = set("authorization_servers", []any{"http://as.example"})
		}, "doesn't say where to sign in"},
		{"a script for an issuer", func(w *world) {
			w.Resource = set("authorization_servers", []any{"javascript:alert(1)"})
		}, "doesn't say where to sign in"},
		{"an issuer that isn't there", func(w *world) {
			w.Resource = set("authorization_servers", []any{w.URL + "/none"})
		}, "doesn't say how to sign in"},
		{"a challenge that can't be read", func(w *world) { w.Challenge = `"Bearer` }, "in a way that can't be read"},
		{"no challenge and no metadata", func(w *world) { w.Challenge = "Basic" }, "doesn't say where to sign in"},
		{"another issuer", func(w *world) {
			w.Metadata = set("issuer", "https://evil.example")
		}, "can't sign anyone in"},
		{"no PKCE", func(w *world) {
			w.Metadata = set("code_challenge_methods_supported", []any{})
		}, "can't sign anyone in"},
		{"PKCE as it is", func(w *world) {
			w.Metadata = set("code_challenge_methods_supported", []any{"plain"})
		}, "no PKCE with S256"},
		{"no token endpoint", func(w *world) {
			w.Metadata = set("token_endpoint", "")
		}, "names no address to sign in at"},
		{"a token endpoint without TLS", func(w *world) {
			w.Metadata = set("token_endpoint", "http://evil.example/token")
		}, "can't sign anyone in"},
		{"metadata without end", func(w *world) {
			w.Metadata = set("padding", strings.Repeat("a", 2<<20))
		}, "can't sign anyone in"},
		{"no registration", func(w *world) {
			w.Metadata = set("registration_endpoint", "")
		}, "doesn't register programs by itself"},
		{"a registration that is refused", func(w *world) {
			w.Register = func(rw http.ResponseWriter, _ *http.Request) {
				rw.WriteHeader(http.StatusBadRequest)
				io.WriteString(rw, `{"error": "invalid_redirect_uri"}`)
			}
		}, "doesn't register rye"},
		{"a registration without an id", func(w *world) {
			w.Register = func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				rw.WriteHeader(http.StatusCreated)
				io.WriteString(rw, `{"client_id": ""}`)
			}
		}, "rye"},
		{"a registration elsewhere", func(w *world) {
			w.Register = func(rw http.ResponseWriter, r *http.Request) {
				http.Redirect(rw, r, "/elsewhere", http.StatusTemporaryRedirect)
			}
		}, "doesn't register rye"},
		{"another issuer answers", func(w *world) {
			w.Callback = func(q url.Values) { q.Set("iss", "https://evil.example") }
		}, `the answer is from "https://evil.example"`},
		{"no issuer answers, which was promised", func(w *world) {
			w.Callback = func(q url.Values) { q.Del("iss") }
		}, `the answer is from ""`},
		{"another sign-in", func(w *world) {
			w.Callback = func(q url.Values) { q.Set("state", "x") }
		}, "was not finished within"},
		{"no", func(w *world) {
			w.Callback = func(q url.Values) { q.Set("error", "access_denied"); q.Del("code") }
		}, "refuses: access_denied"},
		{"nothing", func(w *world) { w.Callback = func(q url.Values) { q.Del("code") } }, "answers without a code"},
		{"another code", func(w *world) {
			w.Callback = func(q url.Values) { q.Set("code", "mine") }
		}, "refuses: invalid_grant says the server"},
		{"a token without end", func(w *world) { w.Token = endless }, "answers with more than"},
		{"a page", func(w *world) {
			w.Token = func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, "<html>") }
		}, "nothing that is readable"},
		{"another kind of token", func(w *world) {
			w.Token = func(rw http.ResponseWriter, _ *http.Request) {
				w.JSON(rw, object{"access_token": "x", "token_type": "mac"}, nil)
			}
		}, "gives no bearer token"},
		{"a token of two lines", func(w *world) {
			w.Token = func(rw http.ResponseWriter, _ *http.Request) {
				w.JSON(rw, object{"access_token": "x\r\ny", "token_type": "Bearer"}, nil)
			}
		}, "gives a token with a control character"},
		{"a refresh token of two lines", func(w *world) {
			w.Token = func(rw http.ResponseWriter, _ *http.Request) {
				w.JSON(rw, object{"access_token": "x", "refresh_token": "x\x7f", "token_type": "Bearer"}, nil)
			}
		}, "gives a token with a control character"},
		{"a status", func(w *world) {
			w.Token = func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				rw.WriteHeader(http.StatusInternalServerError)
				io.WriteString(rw, "{}")
			}
		}, "answers with status 500"},
		{"a token elsewhere", func(w *world) {
			w.Token = func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				http.Redirect(rw, r, "/elsewhere", http.StatusTemporaryRedirect)
			}
		}, "nothing that is readable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.do(w)
			g, err := w.login(func(l *oauth.Login) {
				if c.name == "another sign-in" {
					l.Wait = 300 * time.Millisecond // it never comes
				}
			})
			if g != nil || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v; want %q", g, err, c.want)
			}
			for _, path := range w.Asked {
				if strings.HasSuffix(path, "/elsewhere") {
					t.Errorf("asked %s", path)
				}
			}
		})
	}
}

// TestAddresses: what is no address of a server that may be signed in to, and what can't be reached.
func TestAddresses(t *testing.T) {
	for _, server := range []string{"", "mcp.example.com", "http://mcp.example.com/mcp", "ftp://a/b",
		"https://u:p@a.example/", "https://a.example/#x", "://"} {
		if _, err := (&oauth.Login{Server: server,
			Now: time.Now}).Run(t.Context()); fault.CodeOf(err) != fault.Validation {
			t.Errorf("%q: %v", server, err)
		}
	}
	w := newWorld(t)
	w.Close()
	if _, err := w.login(); fault.CodeOf(err) != fault.Unavailable {
		t.Error(err)
	}
	w = newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	l := &oauth.Login{Server: w.URL + "/mcp", Now: time.Now, Show: func(string) { cancel() }}
	if _, err := l.Run(ctx); err != context.Canceled {
		t.Error(err)
	}
}

// kept is a store with the grant of a sign-in, and the clock that it goes by.
func (w *world) kept(g *oauth.Grant) (*oauth.Secrets, *time.Time) {
	w.Helper()
	now := noon
	s := &oauth.Secrets{Store: &secret.Store{Dir: w.TempDir() + "/auth", Now: func() time.Time {
		return now
	}, Wait: time.Minute}}
	if _, err := s.Set(w.Context(), g.Secret("web"), g.Text(), true); err != nil {
		w.Fatal(err)
	}
	return s, &now
}

// TestRenewed: a token is used until shortly before its end, and renewed once, by the first that comes.
func TestRenewed(t *testing.T) {
	w := newWorld(t)
	g, err := w.login()
	if err != nil {
		t.Fatal(err)
	}
	s, now := w.kept(g)
	get := func() (string, error) { return s.Get(t.Context(), "web") }
	if v, err := get(); v != "access-token-0" || err != nil || w.Renewed != 0 {
		t.Errorf("%q, %v, %d", v, err, w.Renewed)
	}
	*now = noon.Add(59*time.Minute + 30*time.Second)
	s.Offline = true
	if _, err := get(); fault.CodeOf(err) != fault.Offline {
		t.Error(err)
	}
	s.Offline = false
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if v, err := get(); v != "access-token-1" || err != nil {
				t.Errorf("%q, %v", v, err)
			}
		})
	}
	wait.Wait()
	if w.Renewed != 1 {
		t.Errorf("renewed %d times", w.Renewed)
	}
	// What is kept now is what the next one needs.
	*now = now.Add(2 * time.Hour)
	if v, err := get(); v != "access-token-2" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	// A server that takes the token back, one that is ill, and one that isn't there.
	*now = now.Add(2 * time.Hour)
	w.Token = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadGateway) }
	if _, err := get(); fault.CodeOf(err) != fault.AuthFailed {
		t.Error(err)
	}
	w.Token, w.Refresh = w.Tokens, "another"
	_, err = get()
	if f, _ := fault.Find(err); fault.CodeOf(err) != fault.SessionExpired || len(f.Hint) == 0 ||
		f.Hint[0] != "rye auth login web "+w.URL+"/mcp" {
		t.Errorf("%v", err)
	}
	w.Close()
	if _, err := get(); fault.CodeOf(err) != fault.Unavailable {
		t.Error(err)
	}
}

// TestOthers: secrets that are no grants are what they are, and a grant that can't be renewed ends.
func TestOthers(t *testing.T) {
	w := newWorld(t)
	g, err := w.login()
	if err != nil {
		t.Fatal(err)
	}
	g.Refresh = ""
	s, now := w.kept(g)
	if all, err := s.List(); err != nil || !all[0].Expires.Equal(g.Expires) || all[0].From != "oauth" {
		t.Errorf("%+v, %v", all, err)
	}
	*now = noon.Add(time.Hour - time.Second)
	if _, err := s.Get(t.Context(), "web"); fault.CodeOf(err) != fault.SessionExpired {
		t.Error(err)
	}
	for _, value := range []string{"long enough a password", `{"oauth":1,"x":2}`, `{"oauth":1, "server":""}`} {
		if _, err := s.Set(t.Context(), secret.Secret{Name: "web", From: "stdin"}, value, true); err != nil {
			t.Fatal(err)
		}
		if v, err := s.Get(t.Context(), "web"); v != value || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	}
	if _, err := s.Get(t.Context(), "none"); fault.CodeOf(err) != fault.AuthRequired {
		t.Error(err)
	}
}

// FuzzParse: a grant is what Text writes, byte for byte.
func FuzzParse(f *testing.F) {
	f.Add((&oauth.Grant{Format: 1, Server: "https://a.example/mcp", Access: "x", Expires: noon}).Text())
	f.Add(`{"oauth":1,`)
	f.Fuzz(func(t *testing.T, value string) {
		if g := oauth.Parse(value); g != nil && g.Text() != value {
			t.Errorf("%s\nis %s", value, g.Text())
		}
	})
}

// TestOtherWays: servers that ask for a sign-in in other ways than most.
func TestOtherWays(t *testing.T) {
	// One that has nothing to get, and one that is open until it is asked for its tools.
	for _, open := range []func(*http.Request) bool{
		func(r *http.Request) bool { return r.Method == http.MethodGet },
		func(r *http.Request) bool {
			b, _ := io.ReadAll(r.Body)
			return !strings.Contains(string(b), "tools/list")
		},
	} {
		w := newWorld(t)
		w.Open = open
		if g, err := w.login(); err != nil || g.Access != "access-token-0" || g.Resource != "" {
			t.Errorf("%+v, %v", g, err)
		}
	}
	// One that calls itself by its host.
	w := newWorld(t)
	w.Named, w.Challenge = w.URL, "Bearer"
	g, err := w.login(func(l *oauth.Login) { l.Scopes = []string{"a"} })
	if err != nil || g.Resource != w.URL || g.Server != w.URL+"/mcp" {
		t.Errorf("%+v, %v", g, err)
	}
	if again := oauth.Parse(g.Text()); again == nil || *again != *g {
		t.Errorf("%+v", again)
	}
	// One that wants the secret of the client in the form, and one in a header.
	for _, form := range []bool{true, false} {
		w := newWorld(t)
		if form {
			w.Metadata = func(m object) { m["token_endpoint_auth_methods_supported"] = []any{"client_secret_post"} }
		}
		w.Token = func(rw http.ResponseWriter, r *http.Request) {
			if err := r.ParseForm(); err != nil {
				t.Error(err)
			}
			_, secret, header := r.BasicAuth()
			if header == form || r.Form.Has("client_secret") != form || secret+r.Form.Get("client_secret") != "s3" {
				t.Errorf("form %v: %v %q, %v", form, header, secret, r.Form)
			}
			w.Tokens(rw, r)
		}
		if g, err := w.login(func(l *oauth.Login) {
			l.ClientID, l.ClientSecret = "mine", "s3"
		}); err != nil || g.ClientSecret != "s3" || (g.SecretIn == "form") != form {
			t.Errorf("%+v, %v", g, err)
		}
	}
}
