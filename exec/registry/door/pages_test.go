package door_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/registry/door"
	"github.com/rye-build/rye/exec/registry/passkey/passkeytest"
	"github.com/rye-build/rye/exec/registry/rows"
	"github.com/rye-build/rye/exec/serve"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// pagesOptions are what a test changes about a registry with pages.
type pagesOptions struct {
	signup  registry.Signup
	name    string // localhost
	url     string // of the pages; "" is where the server listens
	proxied bool
}

// newPages serves a registry whose pages browsers reach.
func newPages(t testing.TB, o pagesOptions) *site {
	t.Helper()
	s, dir := &site{TB: t}, t.TempDir()
	if o.name == "" {
		o.name = "localhost"
	}
	server, err := serve.Listen(serve.Options{Listen: "127.0.0.1:0", Tokens: &serve.Tokens{}, Now: time.Now,
		Hosts: []string{o.name}, Proxied: o.proxied, Ready: func() error { return nil },
		Warn: func(err error) { t.Log(err) }})
	if err != nil {
		t.Fatal(err)
	}
	s.url = server.URL("")
	if o.url == "" {
		o.url = strings.Replace(s.url, "127.0.0.1", o.name, 1)
	}
	if s.rows, err = rows.OpenLocal(filepath.Join(dir, "rows"), nil); err != nil {
		t.Fatal(err)
	}
	if s.files, err = blobs.OpenLocal(filepath.Join(dir, "files"), nil); err != nil {
		t.Fatal(err)
	}
	s.now = noon
	if s.Registry, err = registry.Open(t.Context(), registry.Options{Rows: s.rows, Blobs: s.files, Name: o.name,
		URL: o.url, Signup: o.signup, LogKey: keytest.Seeded(1), IndexKey: keytest.Seeded(2),
		Now: func() time.Time { return s.now }, TempDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	(&door.Door{Registry: s.Registry, Blobs: s.files, Proxied: o.proxied, Warn: func(err error) {
		s.warns = append(s.warns, err.Error())
	}}).Register(server)
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Run(running) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, s.rows.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A browser shows one page at a time, and has a passkey's device.
type browser struct {
	*site
	device  *passkeytest.Authenticator
	client  *http.Client
	origin  string // that it says a form comes from
	forward string // X-Forwarded-For, as a proxy adds it
	at      string
	status  int
	header  http.Header
	text    string
}

func (s *site) browser() *browser {
	s.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.Fatal(err)
	}
	at := strings.TrimPrefix(s.url, "http://")
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, at)
	}}
	s.Cleanup(transport.CloseIdleConnections)
	return &browser{site: s, device: &passkeytest.Authenticator{Origin: s.Site(), Counts: true},
		client: &http.Client{Jar: jar, Transport: transport}, origin: s.Site()}
}

func (b *browser) send(r *http.Request, err error) *browser {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	if b.forward != "" {
		r.Header.Set("X-Forwarded-For", b.forward)
	}
	answer, err := b.client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.Fatal(err)
	}
	b.at, b.status, b.header, b.text = answer.Request.URL.Path, answer.StatusCode, answer.Header, string(text)
	return b
}

// open opens a page.
func (b *browser) open(path string) *browser {
	b.Helper()
	return b.send(http.NewRequestWithContext(b.Context(), "GET", b.Site()+path, nil))
}

// post sends a form.
func (b *browser) post(path string, form url.Values) *browser {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), "POST", b.Site()+path, strings.NewReader(form.Encode()))
	if err == nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if b.origin != "" {
			r.Header.Set("Origin", b.origin)
		}
	}
	return b.send(r, err)
}

var (
	formOf  = regexp.MustCompile(`(?s)<form method="post" action="([^"]*)"([^>]*)>(.*?)</form>`)
	inputOf = regexp.MustCompile(`<input[^>]*?name="([^"]*)"[^>]*?>`)
	valueOf = regexp.MustCompile(`value="([^"]*)"`)
	dataOf  = regexp.MustCompile(`data-options="([^"]*)"`)
)

// fill returns the last form of the page with an action as it would be sent, a passkey's answer included.
func (b *browser) fill(action string, typed ...string) url.Values {
	b.Helper()
	values := url.Values{}
	var form []string
	for _, f := range formOf.FindAllStringSubmatch(b.text, -1) {
		if f[1] == action {
			form = f
		}
	}
	if form == nil {
		b.Fatalf("no form %s on %s:\n%s", action, b.at, b.text)
	}
	for _, input := range inputOf.FindAllStringSubmatch(form[3], -1) {
		value := ""
		if v := valueOf.FindStringSubmatch(input[0]); v != nil {
			value = html.UnescapeString(v[1])
		}
		values.Set(input[1], value)
	}
	if options := dataOf.FindStringSubmatch(form[2]); options != nil {
		ask := b.device.Get
		if strings.Contains(form[2], "data-create") {
			ask = b.device.Create
		}
		answer, err := ask([]byte(html.UnescapeString(options[1])))
		if err != nil {
			b.Fatalf("%s: %v", action, err)
		}
		values.Set("answer", string(answer))
	}
	for i := 0; i < len(typed); i += 2 {
		values.Set(typed[i], typed[i+1])
	}
	return values
}

// submit sends a form of the page.
func (b *browser) submit(action string, typed ...string) *browser {
	b.Helper()
	return b.post(action, b.fill(action, typed...))
}

// shows fails the test if the page isn't the one at a path, with these words.
func (b *browser) shows(path string, status int, words ...string) *browser {
	b.Helper()
	if b.at != path || b.status != status {
		b.Fatalf("%s (%d), want %s (%d):\n%s", b.at, b.status, path, status, b.text)
	}
	for _, word := range words {
		if !strings.Contains(b.text, word) {
			b.Errorf("%s doesn't show %q:\n%s", path, word, b.text)
		}
	}
	return b
}

// enrol makes an account with a passkey, by a link.
func (s *site) enrol(account string) *browser {
	s.Helper()
	if _, err := s.AddAccount(s.Context(), account); err != nil {
		s.Fatal(err)
	}
	link, err := s.Invite(s.Context(), account)
	if err != nil {
		s.Fatal(err)
	}
	b := s.browser()
	_, secret, _ := strings.Cut(link.URL, "#")
	b.open("/enrol").shows("/enrol", 200)
	b.submit("/enrol", "link", secret).shows("/enrol", 200, "passkey for the account\n"+account)
	return b.submit("/enrol/passkey", "label", "laptop").shows("/account", 200, "laptop", "Sign out")
}

// TestAccountPage: passkeys and tokens are shown and removed, another passkey is added, and the session ends.
func TestAccountPage(t *testing.T) {
	s := newPages(t, pagesOptions{})
	b := s.enrol("ada")
	token, made, err := s.AddToken(t.Context(), registry.Token{Account: "ada", Label: "<ci>", Scopes: registry.Scopes,
		Names: []string{"acme/**"}})
	if err != nil {
		t.Fatal(err)
	}
	b.open("/account").shows("/account", 200, "&lt;ci&gt;", made.ID, "acme/**")
	b.submit("/account/token/remove").shows("/account", 200, "none")
	if _, err := s.Caller(t.Context(), token); fault.CodeOf(err) != fault.AuthFailed {
		t.Error(err)
	}
	laptop := b.device
	b.submit("/account/passkey").shows("/account/passkey", 200, "stays there")
	phone := &passkeytest.Authenticator{Origin: s.Site()}
	b.device, s.now = phone, noon.Add(time.Second)
	b.submit("/account/passkey/add", "label", "phone").shows("/account", 200, "phone", "laptop")
	b.submit("/account/passkey/remove").shows("/account", 200, "laptop") // the last form: the phone's own
	if strings.Contains(b.text, "phone") {
		t.Error("the passkey is still there")
	}
	b.device = laptop
	b.submit("/account/passkey/remove").shows("/account/passkey/remove", 409, "last passkey")
	b.open("/account").submit("/signout").shows("/", 200, "Sign in")
	b.open("/account").shows("/signin", 200)
	b.submit("/signin").shows("/account", 200)
	b.open("/device").shows("/device", 200)
	b.open("/").shows("/", 200, "Your account")
	b.open("/signup").shows("/signup", 404, "host makes its accounts")
	b.open("/nothing").shows("/nothing", 404)
	if len(s.warns) > 0 {
		t.Error(s.warns)
	}
}

// TestSignupPages: where the configuration says so, a stranger makes an account, and invites another one.
func TestSignupPages(t *testing.T) {
	s := newPages(t, pagesOptions{signup: registry.SignupOpen})
	b := s.browser()
	b.open("/signup").submit("/signup", "account", "a b").shows("/signup", 400, "not a name")
	b.open("/signup").submit("/signup", "account", "ada").shows("/signup", 200)
	b.submit("/signup/passkey").shows("/account", 200, "Invite a person")
	b.submit("/account/invite", "account", "eve").shows("/account/invite", 200, "/enrol#")
	secret := regexp.MustCompile(`/enrol#([\w-]+)`).FindStringSubmatch(b.text)[1]
	eve := s.browser()
	eve.open("/enrol").submit("/enrol", "link", secret).shows("/enrol", 200, "ada invites you to the account eve")
	eve.submit("/enrol/passkey").shows("/account", 200, "eve")
	eve.open("/enrol").submit("/enrol", "link", secret).shows("/enrol", 401, "the link is unknown")
	b.open("/account").submit("/account/invite", "account", "eve").shows("/account/invite", 409, "taken")
}

// loginCode begins a login as rye does.
func (s *site) loginCode(label string) (*client.Session, *client.Code) {
	s.Helper()
	session := &client.Session{URL: s.url, Client: web.New(web.Options{})}
	code, err := session.RequestLogin(s.Context(), client.Login{Label: label, Scopes: []string{"publish", "owner"},
		Names: []string{"acme/**"}, Life: time.Hour})
	if err != nil {
		s.Fatal(err)
	}
	if code.Page != s.Site()+"/device" {
		s.Error(code.Page)
	}
	return session, code
}

// TestDeviceLogin: rye login and a browser, from the code to a token that makes others.
func TestDeviceLogin(t *testing.T) {
	s := newPages(t, pagesOptions{})
	ctx := t.Context()
	session, code := s.loginCode(`<script>alert(1)</script>`)
	b := s.enrol("ada")
	pauses := 0
	pause := func(_ context.Context, d time.Duration) error {
		s.now = s.now.Add(d)
		if pauses++; pauses == 2 {
			b.open(strings.TrimPrefix(code.Page, s.Site())).shows("/device", 200, "Never type one that someone")
			b.submit("/device", "code", strings.ToLower(code.User)).shows("/device", 200, "127.0.0.1",
				"&lt;script&gt;alert(1)", "publish: publish and withdraw", "acme/**", "Until", "act as <strong>ada")
			b.submit("/device/allow").shows("/device/allow", 200, "gets its token")
		}
		return nil
	}
	token, err := session.AwaitLogin(ctx, code, pause)
	if err != nil || pauses != 2 {
		t.Fatalf("%d pauses, %v", pauses, err)
	}
	session.Token = token
	known, err := session.WhoAmI(ctx)
	if err != nil || known.Account != "ada" || len(known.Scopes) != 2 {
		t.Fatalf("%+v, %v", known, err)
	}
	secret, made, err := session.AddToken(ctx, client.NewToken{Label: "ci", Scopes: []string{"publish"},
		Names: []string{"acme/base"}})
	if err != nil || made.Names[0] != "acme/base" {
		t.Fatalf("%+v, %v", made, err)
	}
	ci := &client.Session{URL: s.url, Client: session.Client, Token: secret}
	_, _, err = ci.AddToken(ctx, client.NewToken{Label: "more", Scopes: []string{"publish"}})
	wants(t, err, fault.Denied, "makes no others")
	_, _, err = session.AddToken(ctx, client.NewToken{Label: "more", Scopes: []string{"read"}})
	wants(t, err, fault.Denied, "no scope read")
	_, err = session.AwaitLogin(ctx, code, pause)
	wants(t, err, fault.SessionExpired, "expired before")

	session, code = s.loginCode("another")
	b.open("/device").submit("/device", "code", code.User).submit("/device/deny")
	b.shows("/device/deny", 200, "no token")
	_, err = session.AwaitLogin(ctx, code, pause)
	wants(t, err, fault.Denied, "the login was denied")
	_, err = session.RequestLogin(ctx, client.Login{Label: "x", Scopes: []string{"all"}})
	wants(t, err, fault.AuthFailed, `invalid_request unknown scope "all"`)
	if len(s.warns) > 0 {
		t.Error(s.warns)
	}
}

// TestWrongCodes: the fifth wrong code ends the session.
func TestWrongCodes(t *testing.T) {
	s := newPages(t, pagesOptions{})
	b := s.enrol("ada")
	for range 5 {
		b.open("/device").submit("/device", "code", "BCDF-GHJK").shows("/device", 401, "no login waits")
	}
	b.open("/device").shows("/signin", 200).submit("/signin").shows("/device", 200)
	b.submit("/device", "code", "BCDF-GHJK").shows("/device", 429, "too many wrong codes")
}

// TestForgedForms: a form counts from a page of this registry and of its session alone.
func TestForgedForms(t *testing.T) {
	s := newPages(t, pagesOptions{})
	ada, eve := s.enrol("ada"), s.enrol("eve")
	good := ada.open("/account").fill("/signout")
	for _, origin := range []string{"", "null", s.url, "https://evil.example", s.Site() + "/", s.Site() + ".evil"} {
		b := s.browser()
		b.client.Jar = ada.client.Jar
		b.origin = origin
		if b.post("/signout", good).status != 403 {
			t.Errorf("from %q: %d", origin, b.status)
		}
	}
	for _, token := range []string{"", "x", eve.open("/account").fill("/signout").Get("form")} {
		ada.post("/signout", url.Values{"form": {token}}).shows("/signout", 403, "not from a page of this session")
	}
	// Without a session a form leads to signing in; another account's answer counts nowhere.
	s.browser().post("/account/passkey", url.Values{}).shows("/signin", 200)
	swapped := eve.open("/account").fill("/account/passkey")
	swapped.Set("form", good.Get("form"))
	ada.post("/account/passkey", swapped).shows("/account/passkey", 403, "too old")
	ada.post("/account/passkey", url.Values{"form": {strings.Repeat("x", 70<<10)}}).shows("/account/passkey", 400,
		"more than")
	once := ada.open("/account").fill("/account/passkey")
	ada.post("/account/passkey", once).shows("/account/passkey", 200)
	ada.post("/account/passkey", once).shows("/account/passkey", 403, "used already")
	// Where a person goes after signing in is a page of this site.
	b := s.browser()
	b.device = eve.device
	if next := b.open("/signin?next=//evil.example").fill("/signin").Get("next"); next != "account" {
		t.Error(next)
	}
	b.submit("/signin", "next", "//evil.example").shows("/account", 200)
}

// TestHeaders: a page carries the policy with the digests of its own script and style, and over TLS its cookie is
// bound to the host.
func TestHeaders(t *testing.T) {
	s := newPages(t, pagesOptions{name: "registry.example", url: "https://registry.example", proxied: true})
	link, err := func() (*registry.Link, error) {
		if _, err := s.AddAccount(t.Context(), "ada"); err != nil {
			return nil, err
		}
		return s.Invite(t.Context(), "ada")
	}()
	if err != nil {
		t.Fatal(err)
	}
	b := s.browser()
	plain := b.client.Transport.(*http.Transport)
	b.client.Transport = overTLS{plain} // what the proxy in front does
	b.open("/enrol")
	policy := b.header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "connect-src 'self'", "img-src 'self'", "form-action 'self'",
		"base-uri 'none'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("no %s in %s", part, policy)
		}
	}
	for _, tag := range []string{"script", "style"} {
		inside := regexp.MustCompile("(?s)<"+tag+">(.*?)</"+tag+">").FindAllStringSubmatch(b.text, -1)
		if len(inside) != 1 {
			t.Fatalf("%d blocks %s", len(inside), tag)
		}
		digest := sha256.Sum256([]byte(inside[0][1]))
		if !strings.Contains(policy, tag+"-src 'sha256-"+base64.StdEncoding.EncodeToString(digest[:])+"'") {
			t.Errorf("the policy doesn't allow the page's own %s: %s", tag, policy)
		}
	}
	if regexp.MustCompile(`(?i) (on\w+|style|src|srcset)=`).MatchString(b.text) {
		t.Errorf("the page has what its policy forbids:\n%s", b.text)
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
		"Referrer-Policy": "same-origin"} {
		if got := b.header.Get(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	_, secret, _ := strings.Cut(link.URL, "#")
	b.submit("/enrol", "link", secret)
	form := b.fill("/enrol/passkey")
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	b.post("/enrol/passkey", form)
	cookie := b.header.Get("Set-Cookie")
	if !regexp.MustCompile(`^__Host-rye=ryer_s_[\w-]{43}; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Strict$`).
		MatchString(cookie) {
		t.Errorf("%d, %s", b.status, cookie)
	}
	// Behind a proxy the asking address is the one that the proxy has seen.
	session, code := s.loginCode("x")
	_ = session
	b.client.CheckRedirect = nil
	b.open("/device").submit("/device", "code", code.User).shows("/device", 200, "127.0.0.1")
	for forwarded, want := range map[string]string{"198.51.100.9": "198.51.100.9",
		"10.0.0.1, 198.51.100.9": "198.51.100.9", "nonsense": "127.0.0.1", "::ffff:198.51.100.9": "198.51.100.9"} {
		other := s.browser()
		other.client.Transport, other.forward = overTLS{plain}, forwarded
		other.post("/v1/device", url.Values{"label": {"m"}, "scope": {"read"}})
		found := regexp.MustCompile(`"user_code":"([A-Z-]+)"`).FindStringSubmatch(other.text)
		if found == nil {
			t.Fatal(other.text)
		}
		b.open("/device").submit("/device", "code", found[1]).shows("/device", 200, "<dd>"+want+"</dd>")
	}
}

// overTLS sends what is for https without TLS, as a proxy does.
type overTLS struct{ to *http.Transport }

// RoundTrip implements http.RoundTripper.
func (o overTLS) RoundTrip(r *http.Request) (*http.Response, error) {
	inner := r.Clone(r.Context())
	inner.URL.Scheme = "http"
	answer, err := o.to.RoundTrip(inner)
	if answer != nil {
		answer.Request = r
	}
	return answer, err
}

// TestBundlePage: a page for each name, and the publishers' text is escaped.
func TestBundlePage(t *testing.T) {
	s := newPages(t, pagesOptions{})
	ada := s.session("ada")
	if _, err := ada.Claim(t.Context(), "acme", client.Claim{}); err != nil {
		t.Fatal(err)
	}
	s.about = `<img src=x onerror="alert(1)"> 'greets'`
	for _, version := range []string{"1.0.0", "1.1.0"} {
		b := s.archive("acme/base", version)
		if _, err := ada.Publish(t.Context(), strings.NewReader(string(b)), int64(len(b))); err != nil {
			t.Fatal(err)
		}
	}
	b := s.browser()
	b.open("/bundles/acme/base").shows("/bundles/acme/base", 200, "&lt;img src=x onerror=&#34;alert(1)&#34;&gt;",
		"ada", "1.0.0", "1.1.0", keytest.Alice().Public().Fingerprint().String(), "not said")
	if strings.Contains(b.text, "<img") {
		t.Error("a publisher's text is part of the page")
	}
	b.open("/bundles/acme/none").shows("/bundles/acme/none", 404, "no bundle")
	b.open("/bundles/%3Cscript%3E").shows("/bundles/<script>", 404, "&lt;script&gt;")
}

// TestOAuth: what a machine sends to the two routes, and what it gets.
func TestOAuth(t *testing.T) {
	s := newPages(t, pagesOptions{})
	b := s.browser()
	b.origin = ""
	for _, c := range []struct {
		path   string
		form   url.Values
		status int
		says   string
	}{
		{"/v1/device", url.Values{"scope": {"read"}}, 400, `"error":"invalid_request"`},
		{"/v1/device", url.Values{"scope": {"read"}, "label": {"x"}, "life": {"-1"}}, 400, "life is a number"},
		{"/v1/device", url.Values{"scope": {"read"}, "label": {"x"}, "life": {"99999999999"}}, 400,
			"life is a number"},
		{"/v1/device", url.Values{"label": {strings.Repeat("x", 70<<10)}}, 400, "has not arrived"},
		{"/v1/token", url.Values{"grant_type": {"password"}}, 400, `"error":"unsupported_grant_type"`},
		{"/v1/token", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {"x"}},
			400, `{"error":"invalid_grant"}`},
		{"/v1/device", url.Values{"scope": {"read publish"}, "label": {"x"}}, 200, `"interval":5`},
	} {
		if b.post(c.path, c.form); b.status != c.status || !strings.Contains(b.text, c.says) {
			t.Errorf("%s %v: %d, %s", c.path, c.form, b.status, b.text)
		}
	}
	for range 9 {
		b.post("/v1/device", url.Values{"scope": {"read"}, "label": {"x"}})
	}
	if b.post("/v1/device", url.Values{"scope": {"read"}, "label": {"x"}}); b.status != 429 ||
		b.header.Get("Retry-After") != "900" {
		t.Errorf("%d, %v, %s", b.status, b.header, b.text)
	}
	// What fails inside stands in the server's log.
	if err := s.rows.Update(t.Context(), func(in rows.Writer) error {
		in.Put("key/ceremonies", []byte(`{"key":7}`))
		in.Put("device/x", []byte(`{"expires":7}`))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	b.open("/signin").shows("/signin", 503, "the registry failed")
	if b.post("/v1/device", url.Values{"scope": {"read"}, "label": {"x"}}); b.status != 500 || len(s.warns) != 2 ||
		strings.Contains(b.text, "device/x") {
		t.Errorf("%d, %s, %v", b.status, b.text, s.warns)
	}
}
