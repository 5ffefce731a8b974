package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestGet(t *testing.T) {
	var got http.Header
	w := newWorld(t, limits{}, func(rw http.ResponseWriter, r *http.Request) {
		got = r.Header
		send("hello %s", r.URL.RawQuery)(rw, r)
	})
	text, size, err := w.read(t.Context(), w.url("public.example", "/a?b=c"), 9)
	if text != "hello b=c" || size != 9 || err != nil {
		t.Errorf("%q, %d, %v", text, size, err)
	}
	want := http.Header{"User-Agent": {"rye"}, "Accept": {"*/*"}, "Accept-Encoding": {"identity"},
		"Connection": {"close"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("sent %v, want %v", got, want)
	}
	for _, host := range []string{"127.0.0.1", "localhost"} {
		if _, _, err := w.read(t.Context(), w.url(host, "/"), 9); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// TestRefusedAddresses: nothing is asked, whatever stands there.
func TestRefusedAddresses(t *testing.T) {
	w := newWorld(t, limits{}, send("never"))
	for address, want := range map[string]string{
		"http://public.example/a":                        `"http://public.example/a": not an https address`,
		"file:///etc/passwd":                             `"file:///etc/passwd": not an https address`,
		"ftp://public.example/?t=secret&secret":          `"ftp://public.example/?t=…&…": not an https address`,
		"public.example/a":                               `"://public.example/a": not an https address`,
		"https:public.example":                           `"https:…": invalid address`,
		"https://":                                       `"https://": invalid address`,
		"https:///a":                                     `"https:///a": invalid address`,
		"https://:443/a":                                 `"https://:443/a": invalid address`,
		"https://me:secret@public.example/a":             `"https://…@public.example/a": an address must not contain a user name or password`,
		"https://me@public.example/a":                    `"https://…@public.example/a": an address must not contain a user name or password`,
		"https://public.example/a#b":                     `"https://public.example/a": an address must not contain a fragment (#)`,
		"https://public.example/a#":                      `"https://public.example/a": an address must not contain a fragment (#)`,
		"https://public.example:0/a":                     `"https://public.example:0/a": invalid address`,
		"https://public.example:65536/a":                 `"https://public.example:65536/a": invalid address`,
		"https://public.example:/a":                      `"https://public.example:/a": invalid address`,
		"https://me:sec/ret@public.example/a":            `"https://…": invalid address`,
		"https://pub lic.example/a":                      `"https://…": invalid address`,
		"https://püblic.example/a":                       `"https://püblic.example/a": invalid address`,
		"https://a..example/":                            `"https://a..example/": invalid address`,
		"https://[fe80::1%25eth0]/":                      `"https://[fe80::1%eth0]/": invalid address`,
		"https://x.example/" + strings.Repeat("a", 4096): `"https://…": invalid address`,
		"":                   `"://": not an https address`,
		"%zz":                `"…": invalid address`,
		"https://0.0.0.0/":   `"https://0.0.0.0/": it leads to 0.0.0.0, a reserved address`,
		"https://[::]/":      `"https://[::]/": it leads to ::, a reserved address`,
		"https://224.0.0.1/": `"https://224.0.0.1/": it leads to 224.0.0.1, a reserved address`,
		"https://[ff02::1]/": `"https://[ff02::1]/": it leads to ff02::1, a reserved address`,
		"https://" + strings.Repeat("a", 254) + ".example": `"https://` + strings.Repeat("a",
			254) + `.example": invalid address`,
	} {
		_, _, err := w.Get(t.Context(), address, 9)
		if err == nil || err.Error() != want {
			t.Errorf("%q:\ngot  %v\nwant %s", address, err, want)
		}
		if e := (*RefusedError)(nil); !errors.As(err, &e) {
			t.Errorf("%q: %T", address, err)
		}
	}
	if n := len(w.requests()); n > 0 {
		t.Errorf("%d requests", n)
	}
}

// TestNames: a name that leads inside isn't dialled, whatever form the address has.
func TestNames(t *testing.T) {
	w := newWorld(t, limits{depth: NewDepths().Of}, send("never"))
	for _, leads := range []string{"127.0.0.1", "::1", "169.254.169.254", "fe80::1", "::ffff:127.0.0.1",
		"64:ff9b::7f00:1", "2002:7f00:1::1", "::127.0.0.1", "0.0.0.0", "::"} {
		w.names.Lead("evil.example", leads)
		_, _, err := w.Get(t.Context(), w.url("evil.example", "/a"), 9)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Reason != Inside && refused.Reason != Nowhere ||
			!refused.Addr.IsValid() {
			t.Errorf("%s: %v", leads, err)
		}
	}
	for _, host := range []string{"2130706433", "127.1", "0x7f.1", "017700000001"} {
		w.names.Lead(host, "127.0.0.1") // as some systems read it
		if _, _, err := w.Get(t.Context(), w.url(host, "/a"), 9); err == nil {
			t.Errorf("%s is asked", host)
		}
	}
	if n := len(w.requests()); n > 0 {
		t.Errorf("%d requests", n)
	}
	_, _, err := w.Get(t.Context(), w.url("missing.example", "/a"), 9)
	var dns *net.DNSError
	var connect *ConnectError
	if !errors.As(err, &connect) || !errors.As(err, &dns) || !dns.IsNotFound ||
		!strings.Contains(err.Error(), `/a": cannot connect: dial tcp: lookup missing.example`) {
		t.Errorf("%v", err)
	}
}

// TestRebinding: the name is asked for again before each dial, and what it says then counts.
func TestRebinding(t *testing.T) {
	for _, then := range []string{"127.0.0.2", "10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "fd00:ec2::254"} {
		w := newWorld(t, limits{}, func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "/again", http.StatusFound)
		})
		w.names.Lead("rebound.example", "127.0.0.1", then)
		_, _, err := w.Get(t.Context(), w.url("rebound.example", "/a"), 9)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Reason != Inside {
			t.Errorf("%s: %v", then, err)
		}
		if want := []string{"GET rebound.example /a"}; !slices.Equal(w.requests(), want) {
			t.Errorf("%s: %q", then, w.requests())
		}
	}
}

func TestRedirects(t *testing.T) {
	target := ""
	w := newWorld(t, limits{}, func(rw http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.URL.Query().Get("code"))
		switch n, _ := strconv.Atoi(r.URL.Query().Get("n")); {
		case r.URL.Path == "/to":
			rw.Header().Set("Location", target)
			rw.WriteHeader(code)
		case n > 0:
			http.Redirect(rw, r, fmt.Sprintf("/loop?n=%d", n-1), http.StatusMovedPermanently)
		default:
			send("there")(rw, r)
		}
	})
	w.names.Lead("other.example", "127.0.0.1")
	w.names.Lead("inside.example", "127.0.0.2")
	w.names.Lead("company.example", "10.0.0.1")
	for code, followed := range map[int]bool{301: true, 302: true, 303: true, 307: true, 308: true, 300: false,
		304: false, 305: false} {
		target = w.url("other.example", "/x")
		text, _, err := w.read(t.Context(), w.url("public.example", fmt.Sprint("/to?code=", code)), 9)
		if status := (*StatusError)(nil); followed != (text == "there") || !followed && !errors.As(err, &status) {
			t.Errorf("%d: %q, %v", code, text, err)
		}
	}
	if text, _, err := w.read(t.Context(), w.url("public.example", "/loop?n=5"), 9); text != "there" {
		t.Errorf("5 redirects: %v", err)
	}
	if _, _, err := w.read(t.Context(), w.url("public.example", "/loop?n=6"), 9); err == nil ||
		!strings.Contains(err.Error(), "more than 5 redirects") {
		t.Errorf("6 redirects: %v", err)
	}
	before := len(w.requests())
	for location, want := range map[string]string{
		"":                                     "invalid response: a redirect without a location",
		"http://public.example/x":              "not an https address",
		"file:///etc/passwd":                   "not an https address",
		"gopher://x/":                          "not an https address",
		"//me:secret@public.example/x":         "an address must not contain a user name or password",
		"/x#y":                                 "an address must not contain a fragment (#)",
		"https://public.example:99999/":        "invalid address",
		"%zz":                                  "invalid address",
		"/" + strings.Repeat("x", 4096):        "invalid address",
		"https://169.254.169.254/latest":       "it leads to 169.254.169.254, a local or private address",
		"https://[::ffff:169.254.169.254]/":    "it leads to ::ffff:169.254.169.254, a local or private address",
		"https://[::ffff:a9fe:a9fe]/":          "it leads to ::ffff:169.254.169.254, a local or private address",
		"https://[64:ff9b::a9fe:a9fe]/":        "it leads to 64:ff9b::a9fe:a9fe, a local or private address",
		"https://[2002:a9fe:a9fe::]/":          "it leads to 2002:a9fe:a9fe::, a local or private address",
		"https://10.1.2.3/":                    "it leads to 10.1.2.3, a local or private address",
		"https://[fd00:ec2::254]/":             "it leads to fd00:ec2::254, a local or private address",
		"https://[::1]/":                       "it leads to ::1, a local or private address",
		"https://0.0.0.0/":                     "it leads to 0.0.0.0, a reserved address",
		"https://localhost:" + w.port + "/":    "it leads to this machine",
		"https://a.localhost.:" + w.port + "/": "it leads to this machine",
		w.url("127.0.0.1", "/"):                "it leads to 127.0.0.1, a local or private address",
		w.url("inside.example", "/"):           "it leads to 127.0.0.2, a local or private address",
		w.url("company.example", "/"):          "it leads to 10.0.0.1, a local or private address",
	} {
		target = location
		_, _, err := w.Get(t.Context(), w.url("public.example", "/to?code=302&token=secret"), 9)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q:\ngot  %v\nwant %s", location, err, want)
		}
		if e := (*Error)(nil); want[:2] == "it" && location != "%zz" && len(location) < 100 &&
			(!errors.As(err, &e) || e.From != w.url("public.example", "/to?code=…&token=…")) {
			t.Errorf("%q: %+v", location, e)
		}
		before++
	}
	if n := len(w.requests()); n != before {
		t.Errorf("%d requests, want %d: one of them was followed", n, before)
	}
}

// TestFromInside: the address given may be inside; a redirect leads there again only where it was.
func TestFromInside(t *testing.T) {
	target := ""
	table := NewDepths()
	w := newWorld(t, limits{depth: table.Of}, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/to" {
			http.Redirect(rw, r, target, http.StatusFound)
			return
		}
		send("there")(rw, r)
	})
	w.names.Lead("evil.example", "127.0.0.1")
	for _, c := range []struct{ from, to, want string }{
		{"127.0.0.1", "/x", ""},
		{"localhost", "/x", ""},
		{"LOCALHOST", w.url("localhost", "/x"), ""},
		{"127.0.0.1", w.url("localhost", "/x"), "it leads to this machine"},
		{"localhost", w.url("127.0.0.1", "/x"), "it leads to 127.0.0.1"},
		{"localhost", "https://localhost/x", "it leads to this machine"},
		{"127.0.0.1", "https://169.254.169.254/x", "it leads to 169.254.169.254"},
		{"127.0.0.1", w.url("evil.example", "/x"), "it leads to 127.0.0.1"},
		{"127.0.0.1", "http://127.0.0.1/x", "not an https address"},
	} {
		target = c.to
		text, _, err := w.read(t.Context(), w.url(c.from, "/to"), 9)
		if c.want == "" && text != "there" || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s to %s: %q, %v, want %s", c.from, c.to, text, err, c.want)
		}
	}

	// A private network, which this machine plays.
	w.limits.depth = func(netip.Addr) Depth { return DepthPrivate }
	w.names.Lead("company.example", "127.0.0.1")
	w.names.Lead("store.example", "127.0.0.1")
	target = w.url("store.example", "/x")
	if text, _, err := w.read(t.Context(), w.url("company.example", "/to"), 9); text != "there" {
		t.Errorf("within a network: %v", err)
	}
	target = w.url("127.0.0.1", "/x")
	if _, _, err := w.read(t.Context(), w.url("company.example", "/to"), 9); err == nil {
		t.Error("from a network to this machine")
	}
}

func TestStatus(t *testing.T) {
	var code int
	var header http.Header
	w := newWorld(t, limits{}, func(rw http.ResponseWriter, _ *http.Request) {
		for k, v := range header {
			rw.Header()[k] = v
		}
		rw.WriteHeader(code)
	})
	at := func(s ...string) http.Header { return http.Header{"Retry-After": s} }
	dated := at("Sun, 22 Nov 2026 10:00:30 GMT")
	dated.Set("Date", "Sun, 22 Nov 2026 10:00:00 GMT")
	earlier := at("Sun, 22 Nov 2026 09:00:00 GMT")
	earlier.Set("Date", "Sun, 22 Nov 2026 10:00:00 GMT")
	for _, c := range []struct {
		code   int
		header http.Header
		want   string
		after  time.Duration
	}{
		{404, nil, "the server answered 404 Not Found", 0},
		{410, nil, "the server answered 410 Gone", 0},
		{401, nil, "the server answered 401 Unauthorized", 0},
		{401, http.Header{"Www-Authenticate": {`Bearer realm="rye"`}}, "the server answered 401 Unauthorized", 0},
		{204, nil, "the server answered 204 No Content", 0},
		{599, nil, "the server answered 599", 0},
		{429, at("120"), "the server answered 429 Too Many Requests, retry after 2m0s", 2 * time.Minute},
		{503, at("2000000000"), "the server answered 503 Service Unavailable, retry after 24h0m0s", 24 * time.Hour},
		{503, at("-1"), "the server answered 503 Service Unavailable", 0},
		{503, at("soon"), "the server answered 503 Service Unavailable", 0},
		{503, dated, "the server answered 503 Service Unavailable, retry after 30s", 30 * time.Second},
		{503, earlier, "the server answered 503 Service Unavailable", 0},
	} {
		code, header = c.code, c.header
		_, _, err := w.Get(t.Context(), w.url("public.example", "/a"), 9)
		var status *StatusError
		if !errors.As(err, &status) || status.Error() != c.want || status.RetryAfter != c.after ||
			status.Status != c.code || status.Bearer != (c.header.Get("WWW-Authenticate") != "") {
			t.Errorf("%d: %v, want %s", c.code, err, c.want)
		}
		if errors.Is(err, fs.ErrNotExist) != (c.code == 404 || c.code == 410) {
			t.Errorf("%d: not exist: %v", c.code, errors.Is(err, fs.ErrNotExist))
		}
	}
}

func TestSizes(t *testing.T) {
	endless := func(rw http.ResponseWriter, _ *http.Request) {
		block := bytes.Repeat([]byte("x"), 32<<10)
		for {
			if _, err := rw.Write(block); err != nil {
				return
			}
		}
	}
	w := newWorld(t, limits{}, func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			endless(rw, r)
		case "/exact":
			rw.(http.Flusher).Flush()
			send("123456789")(rw, r)
		case "/empty":
		case "/announced":
			rw.Header().Set("Content-Length", "1000000000000")
			endless(rw, r)
		case "/short":
			rw.Header().Set("Content-Length", "9")
			send("1234")(rw, r)
		case "/two":
			raw(t, rw, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n1234")
		case "/negative":
			raw(t, rw, "HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n1234")
		case "/more":
			raw(t, rw, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n1234567")
		case "/chunk":
			raw(t, rw, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
		case "/half":
			rw.(http.Flusher).Flush()
			send("1234")(rw, r)
			rw.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/gzip":
			rw.Header().Set("Content-Encoding", "gzip")
		case "/gzip-too":
			rw.Header()["Content-Encoding"] = []string{"identity", "gzip"}
		case "/identity":
			rw.Header().Set("Content-Encoding", "Identity")
			send("1234")(rw, r)
		case "/headers":
			rw.Header().Set("X", strings.Repeat("x", 128<<10))
		case "/garbage":
			raw(t, rw, strings.Repeat("\x00garbage", 1000)+"\r\n\r\n")
		case "/hints":
			raw(t, rw, strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100_000))
		case "/cut":
			raw(t, rw, "HTTP/1.1 200 OK\r\n\r\n1234")
		case "/transfer":
			raw(t, rw, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n")
		}
	})
	for _, c := range []struct {
		path string
		text string
		size int64
		want string
	}{
		{"/exact", "123456789", -1, ""},
		{"/empty", "", 0, ""},
		{"/identity", "1234", 4, ""},
		{"/more", "123", 3, ""},
		{"/endless", "xxxxxxxxx", -1, "larger than the limit of 9 bytes"},
		{"/announced", "", 0, "1000000000000 bytes, more than the limit of 9"},
		{"/short", "1234", 9, "the connection closed after 4 of 9 bytes"},
		{"/two", "", 0, "invalid response: "},
		{"/negative", "", 0, "invalid response: "},
		{"/chunk", "", -1, "invalid response: "},
		{"/half", "1234", -1, "the connection closed after 4 bytes"},
		{"/gzip", "", 0, "invalid response: it is compressed, which rye did not ask for"},
		{"/gzip-too", "", 0, "invalid response: it is compressed, which rye did not ask for"},
		{"/headers", "", 0, "invalid response: "},
		{"/garbage", "", 0, "invalid response: "},
		{"/hints", "", 0, "invalid response: "},
		{"/cut", "", 0, "invalid response: it has neither a length nor chunks"},
		{"/transfer", "", 0, "invalid response: "},
	} {
		text, size, err := w.read(t.Context(), w.url("public.example", c.path), 9)
		if text != c.text || size != c.size || (err != nil) != (c.want != "") || err != nil &&
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %d, %v; want %q, %d, %s", c.path, text, size, err, c.text, c.size, c.want)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("%s: the error has %d bytes", c.path, len(err.Error()))
		}
		if e := (*Error)(nil); err != nil && !errors.As(err, &e) {
			t.Errorf("%s: %T", c.path, err)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) != strings.HasPrefix(c.want, "the connection closed") {
			t.Errorf("%s: unexpected end: %v", c.path, err)
		}
	}
}

// TestStrangersAddress: a foreign address never leads inside, whether it says so itself or a name leads there.
func TestStrangersAddress(t *testing.T) {
	w := newWorld(t, limits{depth: NewDepths().Of}, send("never"))
	// ours have another port
	w.options = Options{Stranger: true, Inside: []string{"127.0.0.1:8443", "10.0.0.1", "intranet.example"}}
	w.names.Lead("company.example", "10.0.0.1")
	w.names.Lead("machine.example", "127.0.0.1")
	w.names.Lead("cloud.example", "169.254.169.254")
	for _, host := range []string{"127.0.0.1", "localhost", "10.0.0.1", "[fd00::1]", "[::ffff:10.0.0.1]",
		"169.254.169.254", "company.example", "machine.example", "cloud.example"} {
		_, _, err := w.Get(t.Context(), w.url(host, "/a"), 9)
		refused := (*RefusedError)(nil)
		if !errors.As(err, &refused) || refused.Reason != Inside {
			t.Errorf("%s: %v", host, err)
			continue
		}
		// A name that leads to this machine is refused, whatever names it.
		if want := map[bool]string{true: strings.Trim(host, "[]") + ":" + w.port}[host != "machine.example" &&
			host != "cloud.example"]; refused.Unnamed != want {
			t.Errorf("%s: %q would have to be named, want %q", host, refused.Unnamed, want)
		}
	}
	_, _, err := w.Get(t.Context(), "https://10.0.0.2/", 9)
	if refused := (*RefusedError)(nil); !errors.As(err, &refused) || refused.Unnamed != "10.0.0.2" {
		t.Errorf("%v", err)
	}
	if n := len(w.requests()); n > 0 {
		t.Errorf("%d requests", n)
	}
	w.proxy = func(*url.URL) (*url.URL, error) { return url.Parse("http://127.0.0.1:1") }
	_, _, err = w.Get(t.Context(), w.url("10.0.0.1", "/a"), 9)
	if refused := (*RefusedError)(nil); !errors.As(err, &refused) || refused.Reason != Inside {
		t.Errorf("by a proxy: %v", err)
	}

	w = newWorld(t, limits{}, send("there"))
	w.options.Stranger = true
	if text, _, err := w.read(t.Context(), w.url("public.example", "/a"), 9); text != "there" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestStrangersAddressNamed: the user has named the host, so the address is theirs, and no further inside than theirs
// are.
func TestStrangersAddressNamed(t *testing.T) {
	var target string
	w := newWorld(t, limits{}, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/to" {
			http.Redirect(rw, r, target, http.StatusFound)
			return
		}
		send("there")(rw, r)
	})
	at := DepthPrivate
	w.limits.depth = func(netip.Addr) Depth { return at }
	w.options = Options{Stranger: true, Inside: []string{"company.example:" + w.port, "machine.example:" + w.port,
		"localhost:" + w.port}}
	for _, host := range []string{"company.example", "machine.example", "public.example"} {
		w.names.Lead(host, "127.0.0.1")
	}
	for _, c := range []struct {
		host string
		at   Depth
		good bool
	}{
		{"company.example", DepthPrivate, true}, {"COMPANY.example", DepthPrivate, true},
		{"public.example", DepthPrivate, false}, {"company.example", DepthPublic, true},
		{"machine.example", DepthLocal, false}, {"localhost", DepthLocal, true}, {"127.0.0.1", DepthLocal, false},
	} {
		at = c.at
		if text, _, err := w.read(t.Context(), w.url(c.host, "/a"), 9); (err == nil && text == "there") != c.good {
			t.Errorf("%s at depth %d: %q, %v", c.host, c.at, text, err)
		}
	}
	// A public server's redirect leads to no named host inside.
	at, target = DepthPublic, w.url("127.0.0.1", "/a")
	w.options.Inside = append(w.options.Inside, "127.0.0.1:"+w.port)
	_, _, err := w.Get(t.Context(), w.url("company.example", "/to"), 9)
	if refused := (*RefusedError)(nil); !errors.As(err, &refused) || refused.Reason != Inside ||
		refused.Unnamed != "" {
		t.Errorf("%v", err)
	}
}
