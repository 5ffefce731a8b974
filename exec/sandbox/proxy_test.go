package sandbox

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/netip"
	"net/textproto"
	"strings"
	"testing"
)

// A granted name that leads to this machine or its link reaches nothing.
func TestRebinding(t *testing.T) {
	p := newProxy([]string{"a.example"})
	defer p.close()
	list := []string{"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1"}
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
		if _, err := p.reach("a.example", "443"); err == nil || !strings.Contains(err.Error(), "this machine or its link") {
			t.Errorf("%s: %v", a, err)
		}
	}
	if isNear(netip.MustParseAddr("198.51.100.1")) {
		t.Error("far is near")
	}
	gone := errors.New("gone")
	p.lookup = func(context.Context, string, string) ([]netip.Addr, error) { return nil, gone }
	if _, err := p.reach("a.example", "443"); !errors.Is(err, gone) {
		t.Error(err)
	}
}

// Whatever a program says to the proxy, what comes of it has one host, and the head for it has that host and no line of its own.
func FuzzReadRequest(f *testing.F) {
	for _, s := range []string{
		"CONNECT a.example:443 HTTP/1.1\r\n\r\n", "GET http://a.example/ HTTP/1.1\r\nHost: b\r\nX: y\r\n z\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
		"GET http://a@b/ HTTP/1.1\r\n\r\n", "GET http://a.example:81/%0d%0a?x HTTP/1.0\r\n\r\n", "CONNECT A.:1 HTTP/1.1\n\n", "CONNECT a\x161\rexample:443 HTTP/1.1\r\n\r\n", "x", "G\tT http://a/ HTTP/1.1\r\n\r\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q, err := readRequest(textproto.NewReader(bufio.NewReader(strings.NewReader(s))))
		if err != nil {
			return
		}
		if q.host == "" || q.host != strings.ToLower(q.host) || strings.ContainsAny(q.host, "\r\n /@") {
			t.Errorf("host %q", q.host)
		}
		if q.connect {
			return
		}
		r := textproto.NewReader(bufio.NewReader(strings.NewReader(q.head)))
		if _, err := r.ReadLine(); err != nil {
			t.Errorf("%q: %v", q.head, err)
		}
		h, err := r.ReadMIMEHeader()
		if err != nil || len(h["Host"]) != 1 || !strings.HasPrefix(strings.ToLower(h.Get("Host")), strings.TrimSuffix(q.host, ".")) && !strings.Contains(h.Get("Host"), ":") {
			t.Errorf("%q: %v", q.head, err)
		}
	})
}
