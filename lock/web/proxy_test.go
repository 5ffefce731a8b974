package web

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestProxy: it is asked for the name, may be anywhere, and doesn't open the inside to redirects.
func TestProxy(t *testing.T) {
	target := ""
	w := newWorld(t, limits{depth: NewDepths().Of}, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/to" {
			http.Redirect(rw, r, target, http.StatusFound)
			return
		}
		send("there")(rw, r)
	})
	var asked []string
	deny := false
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.Host)
		if deny {
			rw.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		far, err := net.Dial("tcp", w.server.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		near, _, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { io.Copy(far, near); far.Close() }()
		go func() { io.Copy(near, far); near.Close() }()
	}))
	defer proxy.Close()
	to, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	to.User = url.UserPassword("me", "secret")
	w.proxy = func(u *url.URL) (*url.URL, error) {
		if u.Hostname() == "direct.example" {
			return nil, nil
		}
		return to, nil
	}
	target = "https://far.example/x"
	if text, _, err := w.read(t.Context(), "https://only-the-proxy-knows.example/to", 9); text != "there" {
		t.Errorf("%q, %v", text, err)
	}
	if want := []string{"CONNECT only-the-proxy-knows.example:443", "CONNECT far.example:443"}; !slices.Equal(asked,
		want) {
		t.Errorf("%q", asked)
	}
	w.names.Lead("direct.example", "10.0.0.1")
	for _, target = range []string{"https://10.0.0.1/", "https://localhost/", "https://[::ffff:127.0.0.1]/",
		"https://direct.example/"} {
		_, _, err := w.Get(t.Context(), "https://far.example/to", 9)
		if refused := (*RefusedError)(nil); !errors.As(err, &refused) || refused.Reason != Inside {
			t.Errorf("%s: %v", target, err)
		}
	}
	deny = true
	_, _, err = w.Get(t.Context(), "https://far.example/to", 9)
	if connect := (*ConnectError)(nil); !errors.As(err, &connect) ||
		!strings.Contains(err.Error(), "cannot connect through the proxy \""+to.Host) ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	w.proxy = func(*url.URL) (*url.URL, error) { return nil, errors.New("secret") }
	if _, _, err = w.Get(t.Context(), "https://far.example/to", 9); err == nil ||
		!strings.HasSuffix(err.Error(), "the proxy setting of the environment is not a valid address") {
		t.Errorf("%v", err)
	}
}

// TestNew: the defaults are the limits of the package comment, and a proxy is taken as net/http takes it.
func TestNew(t *testing.T) {
	c := New(Options{})
	if l := c.limits; l.connect != 15*time.Second || l.answer != 30*time.Second || l.stall != 30*time.Second ||
		l.all != time.Hour {
		t.Errorf("%+v", l)
	}
	if u, err := c.proxy(&url.URL{Scheme: "https", Host: "localhost"}); u != nil || err != nil {
		t.Errorf("this machine by %v, %v", u, err)
	}
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := refused.Addr().String()
	refused.Close()
	if _, _, err := c.Get(t.Context(), "https://"+at, 9); err == nil ||
		!strings.Contains(err.Error(), "cannot connect: dial tcp "+at) {
		t.Errorf("%v", err)
	}
}

// TestPlain: http is for this machine, and a stranger's address still needs the user's word.
func TestPlain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/to" {
			http.Redirect(w, r, "http://plain.example/", http.StatusFound)
		}
		w.Write([]byte("plain"))
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for name, c := range map[string]struct {
		o    Options
		path string
		want Reason
	}{
		"own": {Options{}, "/", ""}, "named": {Options{Stranger: true, Inside: []string{host}}, "/", ""},
		"a stranger's": {Options{Stranger: true}, "/", Inside}, "elsewhere": {Options{}, "/to", NotHTTPS},
	} {
		r, _, err := New(c.o).Get(t.Context(), server.URL+c.path, 9)
		if err == nil {
			r.Close()
		}
		refused, _ := errors.AsType[*RefusedError](err)
		if (refused != nil) != (c.want != "") || refused != nil && refused.Reason != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
