package httpclient

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/lock/web"
)

// TestRedirects: where they are followed, as what, and with which header lines.
func TestRedirects(t *testing.T) {
	var target string
	var code int
	var last *http.Request
	var content []byte
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/to":
			rw.Header().Set("Location", target)
			rw.WriteHeader(code)
		case "/loop":
			rw.Header().Set("Location", "/loop")
			rw.WriteHeader(code)
		case "/back":
			http.Redirect(rw, r, w0+"/there", http.StatusFound)
		default:
			last = r
			content, _ = io.ReadAll(r.Body)
			io.WriteString(rw, "there")
		}
	})
	w.hosts = append(w.hosts, "other.example:"+w.https)
	here, other := w.url("https", "public.example", ""), w.url("https", "other.example", "")
	w0 = here
	for _, c := range []struct {
		method string
		code   int
		to     string
		want   string // METHOD and content; or why not
	}{
		{"GET", 301, "/there", "GET "},
		{"GET", 302, here + "/there#x", "GET "},
		{"HEAD", 303, "/there", "HEAD "},
		{"POST", 301, "/there", "GET "},
		{"POST", 302, "there", "GET "},
		{"POST", 303, other + "/there", "GET "},
		{"PUT", 303, "/there", "GET "},
		{"PUT", 302, "/there", "PUT {}"},
		{"POST", 307, "/there", "POST {}"},
		{"PATCH", 308, "/there", "PATCH {}"},
		{"DELETE", 302, "/there", "DELETE "},
		{"GET", 308, other + "/there", "GET "},
		{"POST", 307, other + "/there", "the server redirects a POST to another host, \"other.example:"},
		{"DELETE", 302, other + "/there", "the server redirects a DELETE to another host"},
		{"GET", 302, "https://third.example/there",
			`the server redirects elsewhere: the host "third.example:443" was not granted`},
		{"GET", 302, "https://public.example/there",
			`the server redirects elsewhere: the host "public.example:443" was not`},
		{"GET", 302, w.url("http", "public.example", "/there"), "the server redirects from https to http"},
		{"GET", 302, "file:///etc/passwd", "the server redirects to an invalid address"},
		{"GET", 302, "https://me:secret@public.example/",
			"the server redirects to an invalid address: the url contains a user name or password"},
		{"GET", 302, "https://[::1", "the server redirects to an invalid address"},
		{"GET", 302, "//169.254.169.254/latest",
			`the server redirects elsewhere: the host "169.254.169.254:443" was not`},
		{"GET", 302, "/" + strings.Repeat("x", 9000), "the server redirects to an invalid address"},
		{"GET", 302, "/loop", "the server redirects more than 5 times"},
	} {
		target, code, last = c.to, c.code, nil
		r := w.get(t, "/to", "method", c.method, "body", map[string]any{})
		method, _, _ := strings.Cut(c.want, " ")
		if !slices.Contains(methods, method) {
			if !r.Failed || !strings.HasPrefix(r.Failure, c.want) || last != nil || status(r) != int64(c.code) ||
				strings.Contains(r.Failure, "secret") {
				t.Errorf("%s %d to %.60s: %+v", c.method, c.code, c.to, r)
			}
			continue
		}
		if r.Failed || last == nil || last.Method+" "+string(content) != c.want ||
			(last.Header.Get("Content-Type") != "") != (len(content) > 0) {
			t.Errorf("%s %d to %s: %+v, %v %q", c.method, c.code, c.to, r, last, content)
		}
	}
	if n := len(slices.DeleteFunc(w.requests(), func(r string) bool {
		return r != "GET public.example /loop"
	})); n != maxSteps {
		t.Errorf("%d steps of the loop", n)
	}

	// What may be a credential stays with the host it is for, also when it is sent back there.
	code = http.StatusFound
	headers := config("Cookie", "a=b", "X-Secret", "x", "Accept-Language", "de", "Accept", "text/plain")
	for to, kept := range map[string]bool{"/there": true, other + "/there": false, other + "/back": false,
		"https://public.example:" + w.https + "/there": true} {
		target = to
		r := w.get(t, "/to", "headers", headers, "auth", config("type", "bearer", "token", "t"))
		names := slices.Sorted(maps.Keys(last.Header))
		want := []string{"Accept", "Accept-Encoding", "Accept-Language", "Connection", "User-Agent"}
		if kept {
			want = []string{"Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Connection", "Cookie",
				"User-Agent", "X-Secret"}
		}
		if r.Failed || !slices.Equal(names, want) || last.Header.Get("Accept") != "text/plain" {
			t.Errorf("to %s: %q", to, names)
		}
	}
	// From http to https on the same name it is another host, too.
	target = here + "/there"
	if r := w.run(t, w.url("http", "public.example", "/to"), "headers", headers); r.Failed ||
		last.Header.Get("Cookie") != "" {
		t.Errorf("%+v, %q", r, last.Header)
	}
}

// TestRedirectedTries: what a redirect led to is never taken for nothing done, for the server that sent it has done
// something.
func TestRedirectedTries(t *testing.T) {
	var target string
	var code int
	var answer http.HandlerFunc
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" {
			answer(rw, r)
			return
		}
		rw.Header().Set("Location", target)
		rw.WriteHeader(code)
	})
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	closedPort := "public.example:" + port
	free.Close()
	w.names.Lead("other.test", "127.0.0.1")
	w.hosts = append(w.hosts, closedPort, "none.example", "other.test:"+w.https)
	limited := func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusTooManyRequests) }
	busy := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "1")
		rw.WriteHeader(http.StatusServiceUnavailable)
	}
	reset := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		method  string
		code    int
		target  string
		answer  http.HandlerFunc
		tries   int
		each    int // requests of a try
		failure string
	}{
		"refused":                 {"POST", 303, "https://" + closedPort + "/there", nil, 1, 1, "no connection to"},
		"no such name":            {"POST", 303, "https://none.example/there", nil, 1, 1, "no connection to"},
		"not who it says":         {"POST", 303, "https://other.test:" + w.https + "/there", nil, 1, 1, "certificate"},
		"too many":                {"POST", 303, "/there", limited, 1, 2, "HTTP 429"},
		"too many, moved":         {"POST", 302, "/there", limited, 1, 2, "HTTP 429"},
		"too many, with the body": {"POST", 307, "/there", limited, 1, 2, "HTTP 429"},
		"too many for PATCH":      {"PATCH", 308, "/there", limited, 1, 2, "HTTP 429"},
		"busy":                    {"POST", 303, "/there", busy, 1, 2, "HTTP 503"},
		"reset":                   {"POST", 303, "/there", reset, 1, 2, "no usable answer from"},
		"GET, refused":            {"GET", 302, "https://" + closedPort + "/there", nil, 3, 1, "no connection to"},
		"GET, too many":           {"GET", 302, "/there", limited, 3, 2, "HTTP 429"},
		"PUT, too many":           {"PUT", 303, "/there", limited, 3, 2, "HTTP 429"},
	} {
		target, code, answer, w.waited = c.target, c.code, c.answer, nil
		before := len(w.requests())
		r := w.get(t, "/", "method", c.method, "body", map[string]any{}, "timeout", int64(60), "retry",
			config("max_attempts", int64(3)))
		if !r.Failed || !strings.Contains(r.Failure, c.failure) || r.Trouble == nil || r.Trouble.Undone ||
			r.Trouble.Repeatable != (c.tries > 1) {
			t.Errorf("%s: %+v, %+v", name, r, r.Trouble)
		}
		asked := w.requests()[before:]
		sent := len(slices.DeleteFunc(slices.Clone(asked), func(r string) bool {
			return r != c.method+" public.example /"
		}))
		if sent != c.tries || len(asked) != c.tries*c.each || len(w.waited) != c.tries-1 {
			t.Errorf("%s: waited %v, asked %q", name, w.waited, asked)
		}
	}
}

// w0 is where /back of TestRedirects leads.
var w0 string

// TestInside: where a granted name may lead.
func TestInside(t *testing.T) {
	target := ""
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/to" {
			http.Redirect(rw, r, target, http.StatusFound)
		}
	})
	number := []string{"127.0.0.1:" + w.http, "127.0.0.1:" + w.https}
	for _, c := range []struct {
		depth  web.Depth
		scheme string
		more   []string
		all    bool
		good   bool
	}{
		{web.DepthPublic, "http", nil, false, true},
		{web.DepthPublic, "https", nil, true, true},
		{web.DepthPrivate, "https", nil, false, true},
		{web.DepthPrivate, "https", nil, true, false},
		{web.DepthPrivate, "http", nil, false, false},
		{web.DepthPrivate, "http", number, false, true},
		{web.DepthLocal, "https", nil, false, false},
		{web.DepthLocal, "http", nil, false, false},
		{web.DepthLocal, "https", number, false, true},
		{web.DepthNowhere, "https", number, false, false},
	} {
		w.depth = c.depth
		a := w.action(config("url", w.url(c.scheme, "public.example", "/")))
		a.Sandbox.Network = sandbox.Network{All: c.all}
		if !c.all {
			a.Sandbox.Network.Hosts = slices.Concat(w.hosts, c.more)
		}
		before := len(w.requests())
		r, err := w.Run(t.Context(), a, nil)
		inside := (*InsideError)(nil)
		if c.good && (err != nil || r.Failed) || !c.good &&
			(!errors.As(err, &inside) || inside.Depth != c.depth || len(w.requests()) > before) {
			t.Errorf("%+v: %+v, %v", c, r, err)
		}
	}

	// A name that leads elsewhere the second time: before anything was sent, and after.
	w.depth = web.DepthPublic
	for _, lead := range []string{"169.254.169.254", "::1", "10.0.0.1", "::ffff:169.254.169.254"} {
		w.names.Lead("public.example", lead)
		_, err := w.Run(t.Context(), w.action(config("url", w.url("http", "public.example", "/"))), nil)
		if inside := (*InsideError)(nil); !errors.As(err, &inside) || inside.Redirect {
			t.Errorf("to %s: %v", lead, err)
		}
	}
	w.names.Lead("public.example", "127.0.0.1")
	w.names.Lead("turns.example", "127.0.0.1", "127.0.0.1", "169.254.169.254")
	w.hosts = append(w.hosts, "turns.example:"+w.http)
	target = "/to"
	if r := w.run(t, w.url("http", "turns.example", "/to")); !strings.Contains(r.Failure,
		"resolves to 169.254.169.254, in this machine or its link, and a server outside redirected there") {
		t.Errorf("%+v", r)
	}

	// A redirect never leads further inside, not even to what was granted; outwards it does.
	ranges := web.NewDepths().Of
	w.names.Lead("machine.example", "127.0.0.1")
	w.hosts = append(w.hosts, "10.0.0.1")
	target = "http://10.0.0.1/"
	if r := w.run(t, w.url("http", "public.example", "/to")); !strings.Contains(r.Failure,
		`"10.0.0.1:80" resolves to 10.0.0.1, in a private network, and a server outside redirected there`) {
		t.Errorf("%+v", r)
	}
	w.Client.depth = ranges
	w.hosts = append(w.hosts, number...)
	target = "/there"
	if r := w.run(t, w.url("http", "127.0.0.1", "/to")); r.Failed {
		t.Errorf("%+v", r)
	}
	for _, e := range []*InsideError{{Host: "a:1", Depth: web.DepthNowhere}} {
		if !strings.Contains(e.Error(), "which is not a server's address") {
			t.Error(e)
		}
	}
}

// TestGuardOrigin: a guard sends requests to its origin, however a redirect spells it, and to no other.
func TestGuardOrigin(t *testing.T) {
	var asked []string
	w := newWorld(t, func(_ http.ResponseWriter, r *http.Request) { asked = append(asked, r.Host) })
	guard, err := w.Client.Guard(sandbox.Network{Hosts: []string{"public.example"}}, "http://public.example/mcp")
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close()
	guard.transport.DialContext = func(ctx context.Context, network, at string) (net.Conn, error) {
		if at != "public.example:80" {
			t.Errorf("dials %s", at)
		}
		return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(w.url("http", "127.0.0.1", ""), "http://"))
	}
	for address, own := range map[string]bool{
		"http://public.example/": true, "http://public.example:80/": true, "http://PUBLIC.example/x": true,
		"https://public.example/": false, "http://public.example:81/": false, "http://other.example/": false,
		"http://user@public.example/": false, "ftp://public.example/": false, "http://public.example.other.example/": false,
	} {
		asked = nil
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := guard.RoundTrip(q)
		if err == nil {
			answer.Body.Close()
		}
		if own && (err != nil || !slices.Equal(asked, []string{"public.example"})) ||
			!own && (err == nil || len(asked) > 0) {
			t.Errorf("%s: %v, asked %q", address, err, asked)
		}
	}
}
