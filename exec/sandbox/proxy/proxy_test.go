package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// TestRebinding: a granted name that resolves to this machine or its link is refused.
func TestRebinding(t *testing.T) {
	p := New(func(host, port string) bool { return host == "a.example" && port == "443" })
	defer p.Close()
	list := []string{"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1", "0.0.0.0",
		"::", "224.0.0.1"}
	ours, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range ours {
		list = append(list, netip.MustParsePrefix(o.String()).Addr().String())
	}
	for _, a := range list {
		p.lookup = func(context.Context, string, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr(a)}, nil
		}
		if _, err := p.dial("a.example", "443"); err == nil ||
			!strings.Contains(err.Error(), "this machine or its link") {
			t.Errorf("%s: %v", a, err)
		}
	}
	if isNear(netip.MustParseAddr("198.51.100.1")) {
		t.Error("far is near")
	}
	gone := errors.New("gone")
	p.lookup = func(context.Context, string, string) ([]netip.Addr, error) { return nil, gone }
	if _, err := p.dial("a.example", "443"); !errors.Is(err, gone) {
		t.Error(err)
	}
}

// FuzzReadRequest: every request that is accepted names one host, and what its server gets has that host and one head.
func FuzzReadRequest(f *testing.F) {
	for _, s := range []string{
		"CONNECT a.example:443 HTTP/1.1\r\n\r\n", "GET http://a.example/ HTTP/1.1\r\nHost: b\r\nX: y\r\n z\r\n\r\n",
		"GET / HTTP/1.1\r\n\r\n",
		"GET http://a@b/ HTTP/1.1\r\n\r\n", "GET http://a.example:81/%0d%0a?x HTTP/1.0\r\n\r\n",
		"CONNECT A.:1 HTTP/1.1\n\n", "CONNECT a\x161\rexample:443 HTTP/1.1\r\n\r\n", "x",
		"G\tT http://a/ HTTP/1.1\r\n\r\n",
		"GET http://a.exa\x80ple/ HTTP/1.1\r\nHost: b\r\n\r\n", "POST http://a< HTTP/1.1\r\n\r\n",
		"GET http://[::1]:81/ HTTP/1.1\r\n\r\n",
		"POST http://a/ HTTP/1.1\r\nContent-Length: 3\r\nProxy-Authorization: x\r\n\r\nabc",
		"POST http://a/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, host, port, err := readRequest(bufio.NewReader(strings.NewReader(s)))
		if err != nil {
			return
		}
		if host == "" || host != strings.ToLower(host) || strings.ContainsAny(host, "\r\n /@") || port == "" {
			t.Errorf("host %q, port %q", host, port)
		}
		if q.Method == http.MethodConnect {
			return
		}
		var sent bytes.Buffer
		if q.Write(&sent) != nil {
			return // a body that is cut short
		}
		again, err := http.ReadRequest(bufio.NewReader(&sent))
		if err != nil || again.Host != q.URL.Host || again.URL.Host != "" ||
			again.Header.Get("Proxy-Authorization") != "" {
			t.Errorf("%q: %+v, %v", s, again, err)
		}
	})
}

// TestNoRequest: anything but a request is an error.
func TestNoRequest(t *testing.T) {
	for _, ask := range []string{"", "GET / HTTP/2\r\n\r\n", "GET http://a/ HTTP/1.1\r\nno header\r\n\r\n",
		"GET http://[fe80::1%25lo]/ HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\n\r\n"} {
		if q, _, _, err := readRequest(bufio.NewReader(strings.NewReader(ask))); err == nil {
			t.Errorf("%q: %+v", ask, q)
		}
	}
}
