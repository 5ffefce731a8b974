// Package proxy is an HTTP proxy through which a confined program reaches the hosts that it was granted, and nothing
// else.
//
// A proxy listens in the program's network, which has no other way out, and dials in ours. It handles CONNECT, for
// TLS and any other protocol, and plain HTTP. It doesn't inspect tunnels: a program reaches everything that a granted
// host relays.
//
// The proxy resolves a name once for each connection. A name that resolves to this machine or its link (loopback,
// 169.254/16, fe80::/10, multicast, unspecified) is always refused; an address that was granted itself is not.
package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Proxy serves one program. The zero Proxy is not valid.
type Proxy struct {
	grants func(host, port string) bool
	dialer net.Dialer
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

	ctx    context.Context
	cancel context.CancelFunc
	all    sync.WaitGroup
	slots  chan struct{} // one for each open connection

	mu       sync.Mutex
	listener net.Listener
	denied   []string // hosts
}

const (
	maxConnections = 64
	maxHead        = 64 << 10
	headTime       = 30 * time.Second
	maxDenied      = 100
)

// New returns a proxy to the hosts that grants allows. It passes hosts in lower case, without a dot at the end.
func New(grants func(host, port string) bool) *Proxy {
	p := &Proxy{grants: grants, lookup: net.DefaultResolver.LookupNetIP, slots: make(chan struct{}, maxConnections)}
	p.dialer.Timeout = headTime
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Serve accepts connections on a listening socket, which it closes, until Close.
func (p *Proxy) Serve(socket *os.File) error {
	defer socket.Close()
	l, err := net.FileListener(socket)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
	p.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.slots <- struct{}{}
			p.all.Go(func() {
				defer func() { <-p.slots }()
				p.handle(c)
			})
		}
	})
	return nil
}

// Close ends all connections and returns the hosts that the proxy denied, such as "example.com:443", and the address
// of a granted one.
func (p *Proxy) Close() (denied []string) {
	p.cancel()
	p.mu.Lock()
	if p.listener != nil {
		p.listener.Close()
	}
	p.mu.Unlock()
	p.all.Wait()
	return p.denied
}

// handle serves one request per connection, because the next request could name another host.
func (p *Proxy) handle(conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(p.ctx, func() { conn.Close() })()
	_ = conn.SetReadDeadline(time.Now().Add(headTime))
	limited := &io.LimitedReader{R: conn, N: maxHead}
	reader := bufio.NewReader(limited)
	request, host, port, err := readRequest(reader)
	if err != nil {
		refuse(conn, "400 Bad Request", err)
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	limited.N = 1 << 62
	server, err := p.dial(host, port)
	if err != nil {
		refuse(conn, "403 Forbidden", err)
		return
	}
	defer server.Close()
	defer context.AfterFunc(p.ctx, func() { server.Close() })()
	var both sync.WaitGroup
	if request.Method == http.MethodConnect {
		if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
			return
		}
		both.Go(func() { relay(server, reader) })
	} else {
		both.Go(func() { _ = request.Write(server) })
	}
	relay(conn, server)
	both.Wait()
}

// relay copies in one direction and passes on the end of the stream.
func relay(to net.Conn, from io.Reader) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
}

func refuse(c net.Conn, status string, err error) {
	text := err.Error() + "\n"
	_, _ = fmt.Fprintf(c,
		"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status,
		len(text), text)
}

// readRequest reads a request and returns its server. Except for CONNECT, the request is ready to be written to the
// server.
func readRequest(r *bufio.Reader) (request *http.Request, host, port string, err error) {
	if request, err = http.ReadRequest(r); err != nil {
		return nil, "", "", err
	}
	if request.Method == http.MethodConnect {
		host, port, err = net.SplitHostPort(request.RequestURI)
	} else {
		if request.URL.Scheme != "http" || request.URL.Host == "" || request.URL.User != nil {
			return nil, "", "", errors.New("expected a request for http://HOST/PATH or CONNECT")
		}
		host, port = request.URL.Hostname(), request.URL.Port()
		if port == "" {
			port = "80"
		}
		// The server gets the granted name, and no header that concerns only the program and this proxy.
		request.Host, request.Close = request.URL.Host, true
		for _, name := range []string{"Connection", "Proxy-Connection", "Proxy-Authorization", "Keep-Alive",
			"Upgrade"} {
			request.Header.Del(name)
		}
		if request.Header.Get("User-Agent") == "" {
			request.Header.Set("User-Agent", "") // else Write adds Go's
		}
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	// Go would send the server another name in place of one with other characters.
	bad := func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-_:", r) }
	if err == nil && (host == "" || strings.ContainsFunc(host, bad) || strings.Trim(port, "0123456789") != "" ||
		port == "") {
		err = errors.New("no host and port")
	}
	return request, host, port, err
}

// dial connects to a granted host.
func (p *Proxy) dial(host, port string) (net.Conn, error) {
	at := net.JoinHostPort(host, port)
	if !p.grants(host, port) {
		p.deny(at)
		return nil, fmt.Errorf("%s is not among the hosts that were granted", at)
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return p.dialer.DialContext(p.ctx, "tcp", net.JoinHostPort(address.String(), port))
	}
	addresses, err := p.lookup(p.ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("%s has no address", host)
	for _, a := range addresses {
		if a = a.Unmap(); isNear(a) {
			p.deny(fmt.Sprintf(
				"%s, which resolves to %s on this machine or its link: only \"network:%s\" reaches that", at, a,
				net.JoinHostPort(a.String(), port)))
			err = fmt.Errorf("%s resolves to %s, which is this machine or its link", host, a)
			continue
		}
		var c net.Conn
		if c, err = p.dialer.DialContext(p.ctx, "tcp", net.JoinHostPort(a.String(), port)); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// deny notes what was refused, once.
func (p *Proxy) deny(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.denied) < maxDenied && !slices.Contains(p.denied, what) {
		p.denied = append(p.denied, what)
	}
}

// isNear reports whether an address belongs to this machine or its link, where services trust their callers.
func isNear(a netip.Addr) bool {
	if !a.IsValid() || a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() {
		return true
	}
	ours, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	return slices.ContainsFunc(ours, func(o net.Addr) bool {
		prefix, err := netip.ParsePrefix(o.String())
		return err == nil && prefix.Addr().Unmap() == a
	})
}
