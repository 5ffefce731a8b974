package serve

import (
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
)

// address checks where to listen, and returns the address for the system.
func (o *Options) address() (string, error) {
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return "", fault.New(fault.Validation, "invalid address %q: expected HOST:PORT, such as 127.0.0.1:7337",
			o.Listen).On("listen", o.Listen)
	}
	if host == "localhost" {
		host = "127.0.0.1" // the system's list of names could say something else
	}
	switch {
	case isLoopback(host), o.Certificate != nil:
	case !o.Proxied:
		return "", fault.New(fault.Policy,
			"%q can be reached from other machines, and what they send would not be encrypted", o.Listen).On("listen",
			o.Listen).
			Because("listen on 127.0.0.1, or give a certificate, or say that a proxy in front of this server has one").
			Try(fault.Command("rye serve --listen", net.JoinHostPort("127.0.0.1", port)),
				fault.Command("rye serve --listen", o.Listen)+" --tls-cert cert.pem --tls-key key.pem",
				fault.Command("rye serve --listen", o.Listen)+" --behind-proxy --host NAME")
	case len(o.Hosts) == 0:
		return "", fault.New(fault.Validation, "behind a proxy, the server needs the name that clients use").
			Try(fault.Command("rye serve --listen", o.Listen) + " --behind-proxy --host NAME")
	}
	return net.JoinHostPort(host, port), nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// hosts are the names by which a server is called.
type hosts struct {
	own  net.IP // that it listens on; nil if that is every one
	more []string
	leaf *x509.Certificate
}

// names reports whether the header Host names this server. The port doesn't count: it may be forwarded.
func (h *hosts) names(header string) bool {
	host := header
	if name, _, err := net.SplitHostPort(header); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	ip := net.ParseIP(host)
	switch {
	case host == "":
		return false
	case h.own.IsLoopback() && (host == "localhost" || ip.IsLoopback()), ip != nil && ip.Equal(h.own):
		return true
	}
	return slices.Contains(h.more, host) || h.leaf != nil && h.leaf.VerifyHostname(host) == nil
}

// check refuses a request that names another server or comes from another site.
func (h *hosts) check(r *http.Request) error {
	if !h.names(r.Host) {
		return fault.New(fault.Denied, "the header Host is %q, which is not this server",
			fault.Clip(r.Host, 200)).Try("rye serve --host NAME")
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || !strings.EqualFold(u.Host, r.Host) {
			return fault.New(fault.Denied, "the request comes from a page of another site")
		}
	}
	return nil
}
