package httpclient

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"

	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/lock/web"
)

// A Guard sends requests to one server that was granted, for protocols on top of HTTP. It is an http.RoundTripper: it
// refuses every other server, also one that the granted one redirects to.
type Guard struct {
	URL *url.URL // as it is granted: the host in lower case, and with its port

	transport *http.Transport
}

// Guard returns what sends requests to the server of an address. Nothing is sent yet.
func (c *Client) Guard(n sandbox.Network, raw string) (*Guard, error) {
	u, err := address(raw)
	if err == nil {
		err = check(n, u)
	}
	if err != nil {
		return nil, err
	}
	depth := c.depth
	if depth == nil {
		depth = web.NewDepths().Of
	}
	dialer := net.Dialer{Timeout: connect, Resolver: c.resolver, Control: func(_, to string, _ syscall.RawConn) error {
		return mayDial(n, u, depth, to, web.DepthLocal)
	}}
	g := &Guard{URL: u, transport: web.NewTransport(dialer, c.Roots, maxHeader)}
	// All connections are to this server, and each was looked at.
	g.transport.DisableKeepAlives = false
	return g, nil
}

// RoundTrip implements http.RoundTripper.
func (g *Guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if s := r.URL.Scheme; s != "http" && s != "https" {
		return nil, redirectError(fmt.Sprintf("to an address of the scheme %q", s))
	}
	if r.URL.Scheme != g.URL.Scheme || r.URL.Host != g.URL.Host {
		return nil, redirectError(fmt.Sprintf("to another server, %q", r.URL.Host))
	}
	r = r.Clone(r.Context())
	r.Host = shownHost(g.URL)
	r.Header.Set("Accept-Encoding", "identity")
	return g.transport.RoundTrip(r)
}

// Close closes the connections that nothing uses.
func (g *Guard) Close() { g.transport.CloseIdleConnections() }

// SetHeader sets a header line of a configuration. Those that say how messages are transferred are refused.
func SetHeader(h http.Header, name, value string) error {
	q := &request{way: way{header: h}}
	return q.set(name, value)
}

// mayDial refuses an address that is about to be dialled for a URL and may not be. most is how far inside it may be.
func mayDial(n sandbox.Network, u *url.URL, depth func(netip.Addr) web.Depth, address string, most web.Depth) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := to.Addr().Unmap()
	d, host := depth(ip), u.Hostname()
	e := &InsideError{Host: u.Host, Addr: ip, Depth: d}
	named := sandbox.Network{Hosts: n.Hosts} // a grant of all hosts names none
	switch {
	case d == web.DepthPublic:
		return nil
	case d == web.DepthNowhere:
		return e
	case d > most:
		e.Redirect = true
		return e
	case named.Grants(ip.String(), u.Port()):
		return nil
	case d == web.DepthLocal && host == "localhost" && named.Grants(host, u.Port()):
		return nil
	case d == web.DepthPrivate && u.Scheme == "https" && named.Grants(host, u.Port()):
		return nil
	}
	return e
}
