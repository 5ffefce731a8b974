package door

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
)

// The pages are made here and nowhere else: no script of theirs comes from elsewhere, and what stands in them is
// escaped by html/template.

//go:embed pages.html
var pagesText string

//go:embed page.js
var script string

//go:embed page.css
var style string

// policy is what browsers let a page do: its own script and style, whose digests stand here, and forms to this site.
var policy = "default-src 'none'; script-src '" + hashOf(script) + "'; style-src '" + hashOf(style) + "'; " +
	"connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func hashOf(text string) string {
	digest := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(digest[:])
}

// means says what a token with a scope may do.
var means = map[registry.Scope]string{
	registry.ScopeRead:    "read private namespaces",
	registry.ScopePublish: "publish and withdraw versions",
	registry.ScopeStage:   "publish for approval",
	registry.ScopeOwner:   "claim namespaces, change their owners, and make tokens",
}

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"script": func() template.HTML { return template.HTML("<script>" + script + "</script>") },
	"style":  func() template.HTML { return template.HTML("<style>" + style + "</style>") },
	"date":   func(t time.Time) string { return t.UTC().Format(time.DateOnly) },
	"time":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") },
	"means":  func(s registry.Scope) string { return means[s] },
}).Parse(pagesText))

// A frame is what every page shows around its own part.
type frame struct {
	Title, Registry string
	Person          *registry.Person
	Body            template.HTML
	Wrong           string
	Why             []string
}

// A view is what a page shows: a template of pages.html and its data.
type view struct {
	name, title string
	data        map[string]any
	goes        string       // to another page instead
	cookie      *http.Cookie // to set
}

// A visit is a request for a page.
type visit struct {
	*http.Request
	ctx    context.Context
	person *registry.Person // nil: not signed in
}

// answer returns what a passkey has answered in a form.
func (v *visit) answer() []byte { return []byte(v.PostForm.Get("answer")) }

// A page answers a visit.
type page struct {
	handle func(*visit) (*view, error)
	signed bool // for people who are signed in
}

// registerPages adds the pages to a server.
func (d *Door) registerPages(s Server) {
	for pattern, p := range map[string]page{
		"GET /{$}":                     {d.home, false},
		"GET /bundles/{id...}":         {d.bundlePage, false},
		"GET /enrol":                   {d.enrolPage, false},
		"POST /enrol":                  {d.openLink, false},
		"POST /enrol/passkey":          {d.enrol, false},
		"GET /signin":                  {d.signInPage, false},
		"POST /signin":                 {d.signIn, false},
		"GET /signup":                  {d.signUpPage, false},
		"POST /signup":                 {d.askSignUp, false},
		"POST /signup/passkey":         {d.signUp, false},
		"POST /signout":                {d.signOut, true},
		"GET /account":                 {d.accountPage, true},
		"POST /account/passkey":        {d.newPasskey, true},
		"POST /account/passkey/add":    {d.addPasskey, true},
		"POST /account/passkey/remove": {d.removePasskey, true},
		"POST /account/token/remove":   {d.removeTokenPage, true},
		"POST /account/invite":         {d.invite, true},
		"GET /device":                  {d.devicePage, true},
		"POST /device":                 {d.findDevice, true},
		"POST /device/allow":           {d.allowDevice, true},
		"POST /device/deny":            {d.denyDevice, true},
	} {
		s.Open(pattern, d.counted(pattern, d.page(p)))
	}
}

// cookieName returns the name of the session's cookie. Browsers take one with __Host- over TLS alone, from this host
// alone, and for all its paths.
func (d *Door) cookieName() string {
	if d.secure() {
		return "__Host-rye"
	}
	return "rye"
}

func (d *Door) secure() bool { return strings.HasPrefix(d.Registry.Site(), "https://") }

// cookie returns the cookie of a session; without a secret it ends the one that the browser has.
func (d *Door) cookie(secret string) *http.Cookie {
	c := &http.Cookie{Name: d.cookieName(), Value: secret, Path: "/", HttpOnly: true, Secure: d.secure(),
		SameSite: http.SameSiteStrictMode, MaxAge: int((12 * time.Hour).Seconds())}
	if secret == "" {
		c.MaxAge = -1
	}
	return c
}

// page returns the handler of a page. A change comes from a form of this site, and carries the token of its session.
func (d *Door) page(p page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{Request: r, ctx: r.Context()}
		answer, err := d.visit(w, v, p)
		if err == nil {
			err = d.show(w, v, answer, nil)
		}
		if err != nil {
			d.wrong(w, v, err)
		}
	})
}

func (d *Door) visit(w http.ResponseWriter, v *visit, p page) (*view, error) {
	if r := v.Request; r.Method == http.MethodPost {
		if !slices.Equal(r.Header.Values("Origin"), []string{d.Registry.Site()}) {
			return nil, fault.New(fault.Denied, "the form is not from a page of this registry").
				Because("its pages are at " + d.Registry.Site())
		}
		r.Body = &patient{http.MaxBytesReader(w, r.Body, maxBody), http.NewResponseController(w)}
		if err := r.ParseForm(); err != nil {
			return nil, fault.New(fault.Validation, "the form has not arrived, or has more than %d bytes", maxBody)
		}
	}
	if cookie, err := v.Cookie(d.cookieName()); err == nil {
		person, err := d.Registry.Person(v.ctx, cookie.Value)
		if err != nil && fault.CodeOf(err) != fault.SessionExpired {
			return nil, err
		}
		v.person = person
	}
	if p.signed {
		if v.person == nil {
			return &view{goes: "/signin?next=" + strings.Split(v.URL.Path, "/")[1]}, nil
		}
		if v.Method == http.MethodPost && !v.person.Sent(v.PostForm.Get("form")) {
			return nil, fault.New(fault.Denied, "the form is not from a page of this session").
				Because("open the page again")
		}
	}
	return p.handle(v)
}

// show writes a page, or leads to another one.
func (d *Door) show(w http.ResponseWriter, v *visit, answer *view, wrong *fault.Error) error {
	if answer.cookie != nil {
		http.SetCookie(w, answer.cookie)
	}
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	if answer.goes != "" {
		header.Set("Location", answer.goes)
		w.WriteHeader(http.StatusSeeOther)
		return nil
	}
	data := map[string]any{"Site": d.Registry.Site(), "Person": v.person, "SignUp": d.Registry.CanSignUp()}
	for name, value := range answer.data {
		data[name] = value
	}
	var body, whole bytes.Buffer
	if err := pages.ExecuteTemplate(&body, answer.name, data); err != nil {
		return err
	}
	f := frame{Title: answer.title, Registry: d.Registry.Name(), Person: v.person, Body: template.HTML(body.String())}
	status := http.StatusOK
	if wrong != nil {
		status = statuses[wrong.Code]
		f.Wrong, f.Why = wrong.Error(), wrong.Why
	}
	if err := pages.ExecuteTemplate(&whole, "page", f); err != nil {
		return err
	}
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Referrer-Policy", "same-origin") // without a referrer, browsers would hide the origin of forms
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(whole.Bytes())
	return nil
}

// wrong shows a refusal. What went wrong inside the server stands in its own log.
func (d *Door) wrong(w http.ResponseWriter, v *visit, err error) {
	f := fault.Of(err)
	if _, known := statuses[f.Code]; !known {
		d.Warn(err)
		f = fault.New(fault.Unavailable, "the registry failed")
	}
	if err := d.show(w, v, &view{name: "error", title: "That did not work"}, f); err != nil {
		d.Warn(err)
		http.Error(w, "the registry failed", http.StatusInternalServerError)
	}
}

// address returns where a request comes from. Behind a proxy it is what that has added to X-Forwarded-For: all before
// is the client's own word.
func (d *Door) address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if values := r.Header.Values("X-Forwarded-For"); d.Proxied && len(values) > 0 {
		all := strings.Split(values[len(values)-1], ",")
		if ip, err := netip.ParseAddr(strings.TrimSpace(all[len(all)-1])); err == nil {
			return ip.Unmap().String()
		}
	}
	return host
}

func (d *Door) home(*visit) (*view, error) {
	return &view{name: "home", title: d.Registry.Name()}, nil
}

// bundlePage shows what is published under a name.
func (d *Door) bundlePage(v *visit) (*view, error) {
	id := v.PathValue("id")
	by := v.person.Caller()
	versions, err := d.Registry.Versions(v.ctx, by, id)
	if err != nil {
		return nil, err
	}
	space, err := d.Registry.Space(v.ctx, by, registry.SpaceOf(id))
	if err != nil {
		return nil, err
	}
	versions = slices.Clone(versions)
	slices.Reverse(versions)
	return &view{name: "bundle", title: id, data: map[string]any{"Bundle": id, "Owners": space.Owners,
		"Versions": versions, "About": versions[0].About, "License": versions[0].License}}, nil
}
