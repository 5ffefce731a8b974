package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// A proxy lets a program reach the hosts that it was granted, and nothing else: it listens in the program's network, where
// nothing else is, and dials in ours. It knows CONNECT, for TLS and whatever else speaks through it, and plain HTTP.
// What a tunnel carries it doesn't see: what a granted host passes on, a program reaches.
//
// A name is looked up by us, once for each connection. A name that leads to this machine or its link (loopback, 169.254/16, fe80::/10,
// multicast, unspecified) is always refused; an address that was granted itself is not.
type proxy struct {
	hosts  []string
	dialer net.Dialer
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

	ctx      context.Context
	cancel   context.CancelFunc
	listener net.Listener
	all      sync.WaitGroup
	open     chan struct{} // one for each connection there may be

	mu      sync.Mutex
	refused []string // hosts
}

const (
	maxConnections = 64
	maxHead        = 64 << 10
	headTime       = 30 * time.Second
	maxRefused     = 100
)

func newProxy(hosts []string) *proxy {
	p := &proxy{hosts: hosts, lookup: net.DefaultResolver.LookupNetIP, open: make(chan struct{}, maxConnections)}
	p.dialer.Timeout = headTime
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// serve takes over a listening socket.
func (p *proxy) serve(f *os.File) error {
	defer f.Close()
	l, err := net.FileListener(f)
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
			p.open <- struct{}{}
			p.all.Go(func() {
				defer func() { <-p.open }()
				p.handle(c)
			})
		}
	})
	return nil
}

// close ends all connections.
func (p *proxy) close() {
	p.cancel()
	p.mu.Lock()
	if p.listener != nil {
		p.listener.Close()
	}
	p.mu.Unlock()
	p.all.Wait()
}

// denied lists the hosts that were asked for and not granted.
func (p *proxy) denied() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// handle serves one connection: one request, since the next on it could be for another host.
func (p *proxy) handle(c net.Conn) {
	defer c.Close()
	defer context.AfterFunc(p.ctx, func() { c.Close() })()
	_ = c.SetReadDeadline(time.Now().Add(headTime))
	limited := &io.LimitedReader{R: c, N: maxHead}
	r := bufio.NewReader(limited)
	ask, err := readRequest(textproto.NewReader(r))
	if err != nil {
		answer(c, "400 Bad Request", err)
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	limited.N = 1 << 62
	to, err := p.reach(ask.host, ask.port)
	if err != nil {
		answer(c, "403 Forbidden", err)
		return
	}
	defer to.Close()
	defer context.AfterFunc(p.ctx, func() { to.Close() })()
	if ask.connect {
		_, err = io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	} else {
		_, err = io.WriteString(to, ask.head)
	}
	if err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pass(to, r) })
	pass(c, to)
	both.Wait()
}

// pass copies one way, and tells the other side when it is over.
func pass(to net.Conn, from io.Reader) {
	_, err := io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
}

func answer(c net.Conn, status string, err error) {
	text := err.Error() + "\n"
	_, _ = fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(text), text)
}

// A request is what a program asks of a proxy.
type request struct {
	connect    bool
	host, port string
	head       string // what the host gets, if it isn't a tunnel
}

func readRequest(r *textproto.Reader) (q request, err error) {
	line, err := r.ReadLine()
	if err != nil {
		return q, err
	}
	method, rest, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(rest, " ")
	if version != "HTTP/1.1" && version != "HTTP/1.0" {
		return q, errors.New("not HTTP/1")
	}
	header, err := r.ReadMIMEHeader()
	if err != nil {
		return q, err
	}
	if method == "CONNECT" {
		q.connect = true
		q.host, q.port, err = net.SplitHostPort(target)
		return q, errors.Join(err, checkHost(&q))
	}
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" || u.Host == "" || u.User != nil {
		return q, errors.New("a proxy is asked for http://HOST/PATH or CONNECT")
	}
	q.host, q.port = u.Hostname(), u.Port()
	if q.port == "" {
		q.port = "80"
	}
	if err := checkHost(&q); err != nil {
		return q, err
	}
	// The host gets the granted name, and no header that is between the program and this proxy.
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\r\nHost: %s\r\nConnection: close\r\n", method, u.RequestURI(), version, u.Host)
	for name, values := range header {
		switch name {
		case "Host", "Connection", "Proxy-Connection", "Proxy-Authorization", "Keep-Alive", "Upgrade":
			continue
		}
		for _, v := range values {
			fmt.Fprintf(&b, "%s: %s\r\n", name, v)
		}
	}
	q.head = b.String() + "\r\n"
	return q, nil
}

func checkHost(q *request) error {
	q.host = strings.TrimSuffix(strings.ToLower(q.host), ".")
	if q.host == "" || strings.ContainsFunc(q.host, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("%/\\@", r) }) || strings.Trim(q.port, "0123456789") != "" || q.port == "" {
		return errors.New("no host and port")
	}
	return nil
}

// reach connects to a host that is granted.
func (p *proxy) reach(host, port string) (net.Conn, error) {
	if !(Network{Hosts: p.hosts}).Grants(host, port) {
		p.mu.Lock()
		if len(p.refused) < maxRefused {
			p.refused = append(p.refused, net.JoinHostPort(host, port))
		}
		p.mu.Unlock()
		return nil, fmt.Errorf("%s is not among the hosts that were granted", net.JoinHostPort(host, port))
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
			err = fmt.Errorf("%s leads to %s, which is this machine or its link", host, a)
			continue
		}
		var c net.Conn
		if c, err = p.dialer.DialContext(p.ctx, "tcp", net.JoinHostPort(a.String(), port)); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// isNear reports whether an address is of this machine or its link, where the services are that trust their callers.
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
