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

// A Guard sends requests to one granted server, for protocols on top of HTTP. It is an http.RoundTripper that refuses
// every other server, including the target of a redirect.
type Guard struct {
	URL *url.URL // with the host in lower case and the port

	transport *http.Transport
}

// Guard returns a Guard for the server of an address. It sends nothing yet.
func (c *Client) Guard(n sandbox.Network, raw string) (*Guard, error) {
	address, err := address(raw)
	if err == nil {
		err = check(n, address)
	}
	if err != nil {
		return nil, err
	}
	depth := c.depth
	if depth == nil {
		depth = web.NewDepths().Of
	}
	dialer := net.Dialer{Timeout: connect, Resolver: c.resolver, Control: func(_, to string, _ syscall.RawConn) error {
		return mayDial(n, address, depth, to, web.DepthLocal)
	}}
	g := &Guard{URL: address, transport: web.NewTransport(dialer, c.Roots, maxHeader)}
	// Connections may be reused: each was checked when it was dialled, and all lead to this server.
	g.transport.DisableKeepAlives = false
	return g, nil
}

// RoundTrip implements http.RoundTripper.
func (g *Guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if s := r.URL.Scheme; s != "http" && s != "https" {
		return nil, redirectError(fmt.Sprintf("to an address of the scheme %q", s))
	}
	// A redirect may spell the same origin in another way, such as without the port.
	to, err := address(r.URL.String())
	if err != nil || to.Scheme != g.URL.Scheme || to.Host != g.URL.Host {
		return nil, redirectError(fmt.Sprintf("to another server, %q", r.URL.Host))
	}
	r = r.Clone(r.Context())
	r.URL.Host = g.URL.Host
	r.Host = shownHost(g.URL)
	r.Header.Set("Accept-Encoding", "identity")
	return g.transport.RoundTrip(r)
}

// Close closes idle connections.
func (g *Guard) Close() { g.transport.CloseIdleConnections() }

// SetHeader sets a header of a configuration. It refuses headers that control how messages are transferred.
func SetHeader(h http.Header, name, value string) error {
	q := &request{way: way{header: h}}
	return q.set(name, value)
}

// mayDial refuses to dial an address that is out of bounds for a URL. most is how far inside the address may be.
func mayDial(n sandbox.Network, target *url.URL, depth func(netip.Addr) web.Depth, address string,
	most web.Depth) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := to.Addr().Unmap()
	deep, host := depth(ip), target.Hostname()
	insideError := &InsideError{Host: target.Host, Addr: ip, Depth: deep}
	named := sandbox.Network{Hosts: n.Hosts} // without All, which grants no name in particular
	switch {
	case deep == web.DepthPublic:
		return nil
	case deep == web.DepthNowhere:
		return insideError
	case deep > most:
		insideError.Redirect = true
		return insideError
	case named.Grants(ip.String(), target.Port()):
		return nil
	case deep == web.DepthLocal && host == "localhost" && named.Grants(host, target.Port()):
		return nil
	case deep == web.DepthPrivate && target.Scheme == "https" && named.Grants(host, target.Port()):
		return nil
	}
	return insideError
}
