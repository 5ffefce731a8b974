package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	maxSteps    = 5
	maxHeader   = 64 << 10
	maxWait     = 24 * time.Hour
	minProgress = 16 << 10
	maxPause    = 10 * time.Second
)

// Options are what a client takes from the machine. Nil is what Go takes.
type Options struct {
	Proxy func(*url.URL) (*url.URL, error) // the proxy for an address; nil: by the variables that net/http reads
	Roots *x509.CertPool                   // certificate authorities; nil: those of the system
	// Stranger says that the user did not write the addresses: none may lead inside except to the hosts in Inside, as
	// in "acme.example" and "10.0.0.5:8443".
	Stranger bool
	Inside   []string
	// PlainHTTP lets addresses begin with http:// on every host, not only on this machine.
	PlainHTTP bool
	// Again is called before a retry, with the error and the pause.
	Again func(err error, in time.Duration)
}

// A Client fetches. It may be used by several goroutines.
type Client struct {
	limits  limits
	depths  Depths
	options Options
	proxy   func(*url.URL) (*url.URL, error) // never nil
	direct  [DepthLocal + 1]*http.Transport  // each dials no address further inside than its index
	proxied *http.Transport
}

// limits are what New takes from the package comment.
type limits struct {
	connect, answer, stall, all time.Duration
	pauses                      []time.Duration // before what may pass is tried again

	resolver *net.Resolver          // nil: the system's
	depth    func(netip.Addr) Depth // nil: by the ranges
}

// New returns a client.
func New(o Options) *Client {
	return newClient(o, limits{connect: 15 * time.Second, answer: 30 * time.Second, stall: 30 * time.Second,
		all:    time.Hour,
		pauses: []time.Duration{250 * time.Millisecond, time.Second}})
}

func newClient(o Options, l limits) *Client {
	c := &Client{limits: l, depths: NewDepths(), options: o, proxy: o.Proxy}
	if c.limits.depth == nil {
		c.limits.depth = c.depths.Of
	}
	if c.proxy == nil {
		c.proxy = func(u *url.URL) (*url.URL, error) { return http.ProxyFromEnvironment(&http.Request{URL: u}) }
	}
	for most := range c.direct {
		c.direct[most] = c.transport(o.Roots, func(_, address string, _ syscall.RawConn) error {
			return c.mayDial(address, Depth(most))
		})
	}
	c.proxied = c.transport(o.Roots, nil)
	c.proxied.Proxy = func(r *http.Request) (*url.URL, error) { return c.proxy(r.URL) }
	return c
}

func (c *Client) transport(roots *x509.CertPool, control func(string, string, syscall.RawConn) error) *http.Transport {
	t := NewTransport(net.Dialer{Timeout: c.limits.connect, Resolver: c.limits.resolver, Control: control}, roots,
		maxHeader)
	t.ResponseHeaderTimeout = c.limits.answer
	return t
}

// NewTransport returns a transport that makes a connection for each request, and speaks only HTTP 1.1 and TLS from 1.2
// on.
func NewTransport(dialer net.Dialer, roots *x509.CertPool, header int64) *http.Transport {
	one := new(http.Protocols)
	one.SetHTTP1(true)
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    dialer.Timeout,
		MaxResponseHeaderBytes: header,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		Protocols:              one,
	}
}

// mayDial refuses an address that is about to be dialled and is further inside than it may be.
func (c *Client) mayDial(address string, most Depth) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return &RefusedError{Reason: NotAnAddress}
	}
	return within(c.limits.depth(to.Addr()), most, to.Addr())
}

// within returns an error if an address is further inside than it may be.
func within(found, most Depth, ip netip.Addr) error {
	switch {
	case found == DepthNowhere:
		return &RefusedError{Reason: Nowhere, Addr: ip}
	case found > most:
		return &RefusedError{Reason: Inside, Addr: ip}
	}
	return nil
}

// A way is one fetch: where it is, and how far inside it may go from there.
type way struct {
	from  *url.URL // nil: at the address given
	at    *url.URL
	home  string // the host and port of the address given, if it says itself that it is local
	most  Depth  // of the next address
	steps int
}

// Get returns the bytes that stand at an address, and how many the server says they are, -1 if it doesn't. More than
// limit are an error, of the size announced or of reading. The context counts until the reader is closed, which
// the caller does. All errors are *Error, those of reading but for io.EOF included.
func (c *Client) Get(ctx context.Context, address string, limit int64) (io.ReadCloser, int64, error) {
	u, err := parse(address, c.options.PlainHTTP)
	if err != nil {
		return nil, 0, &Error{URL: Shown(address), Err: err}
	}
	// The deadline's cause tells it from the caller's; the cause of a cancel says what the body found.
	ctx, stop := context.WithTimeoutCause(ctx, c.limits.all, &SlowError{Everything, c.limits.all})
	f := &fetch{Client: c, ctx: ctx, at: u, limit: limit, sum: sha256.New(), stop: stop}
	if err := f.open(); err != nil {
		stop()
		return nil, 0, err
	}
	return f, f.body.declared, nil
}

// once asks for an address, wherever it redirects to.
func (c *Client) once(ctx context.Context, u *url.URL, limit int64) (*body, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := c.start(u)
	var resp *http.Response
	var err error
	for resp == nil && err == nil {
		resp, err = c.step(ctx, w)
	}
	if err == nil {
		var b *body
		if b, err = c.open(ctx, cancel, resp, limit); err == nil {
			b.way = w
			return b, nil
		}
	}
	cancel(nil)
	return nil, w.error(c.unnamed(w, err))
}

// start begins a way at an address.
func (c *Client) start(u *url.URL) *way {
	w := &way{at: u}
	if c.own(u) {
		w.most = DepthPrivate
		if d, _, ok := c.depths.named(u.Hostname()); ok && d == DepthLocal {
			w.home, w.most = hostPort(u), DepthLocal
		}
	}
	return w
}

// own reports whether an address counts as the user's.
func (c *Client) own(u *url.URL) bool {
	return !c.options.Stranger || slices.Contains(c.options.Inside, hostPort(u)) ||
		slices.Contains(c.options.Inside, bareHost(u))
}

// unnamed says in an error when the address would be fetched from if the user had named its host.
func (c *Client) unnamed(w *way, err error) error {
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || refused.Reason != Inside || w.from != nil || c.own(w.at) {
		return err
	}
	if _, _, said := c.depths.named(w.at.Hostname()); said || c.limits.depth(refused.Addr) == DepthPrivate {
		refused.Unnamed = bareHost(w.at)
	}
	return err
}

func (w *way) error(err error) error {
	e := &Error{URL: shown(w.at), Err: err}
	if w.from != nil {
		e.From = shown(w.from)
	}
	return e
}

// step asks once. It returns the answer, or nil if that was a redirect, which w has then followed.
func (c *Client) step(ctx context.Context, w *way) (*http.Response, error) {
	resp, err := c.request((&http.Request{Method: http.MethodGet, URL: w.at, Header: http.Header{
		"User-Agent":      {"rye"},
		"Accept":          {"*/*"},
		"Accept-Encoding": {"identity"},
	}}).WithContext(ctx), w)
	if err != nil || !IsRedirect(resp.StatusCode) {
		return resp, err
	}
	resp.Body.Close()
	return nil, w.follow(resp.Header.Get("Location"), c.options.PlainHTTP)
}

// request makes a request where w is, and remembers how far inside that was.
func (c *Client) request(req *http.Request, w *way) (*http.Response, error) {
	said, ip, saidSo := c.depths.named(w.at.Hostname())
	most := w.most
	if said == DepthLocal && w.from != nil && hostPort(w.at) != w.home {
		most = min(most, DepthPrivate)
	}
	if saidSo {
		if err := within(said, most, ip); err != nil {
			return nil, err
		}
	}
	proxy, err := c.proxy(w.at)
	if err != nil {
		return nil, &ConnectError{Err: errProxy}
	}
	transport, reached := c.proxied, said
	if proxy == nil {
		if !saidSo || said != DepthLocal {
			most = min(most, DepthPrivate)
		}
		transport = c.direct[most]
	}
	connected := false
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		connected = true
		if to, err := netip.ParseAddrPort(info.Conn.RemoteAddr().String()); err == nil && proxy == nil {
			reached = c.limits.depth(to.Addr())
		}
	}}
	ctx := req.Context()
	resp, err := transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if err != nil {
		return nil, c.unanswered(ctx, connected, proxy, err)
	}
	// Never further inside again than here.
	w.most = min(w.most, reached)
	return resp, nil
}

var errProxy = errors.New("the proxy setting of the environment is not a valid address")

// follow goes to where a server redirects.
func (w *way) follow(location string, plain bool) error {
	if location == "" {
		return &AnswerError{errNoTarget}
	}
	next, err := w.at.Parse(location)
	if err != nil || len(location) > maxAddress {
		return &RefusedError{Reason: NotAnAddress}
	}
	w.from, w.at = w.at, next
	if w.steps++; w.steps > maxSteps {
		return &RefusedError{Reason: TooManySteps}
	}
	if err := check(next, location, plain); err != nil {
		return err
	}
	if w.from.Scheme == "https" && next.Scheme != "https" {
		return &RefusedError{Reason: NotHTTPS} // never back to what others can read
	}
	return nil
}

// IsRedirect reports whether an answer of a status leads elsewhere.
func IsRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		return true
	}
	return false
}

func hostPort(u *url.URL) string {
	port := "443"
	if u.Scheme == "http" {
		port = "80"
	}
	return strings.ToLower(u.Hostname()) + ":" + cmp.Or(u.Port(), port)
}

// bareHost is hostPort without the port of https.
func bareHost(u *url.URL) string { return strings.TrimSuffix(hostPort(u), ":443") }

// unanswered says why there is no answer.
func (c *Client) unanswered(ctx context.Context, connected bool, proxy *url.URL, err error) error {
	if ended := over(ctx); ended != nil {
		return ended
	}
	var refused *RefusedError
	var timeout net.Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &timeout) && timeout.Timeout():
		if connected {
			return &SlowError{Answering, c.limits.answer}
		}
		return &SlowError{Connecting, c.limits.connect}
	case connected:
		return &AnswerError{err}
	}
	e := &ConnectError{Err: err}
	if proxy != nil {
		e.Proxy = proxy.Host
	}
	return e
}

// over returns why the context has ended: our reason, or the caller's.
func over(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if slow := (*SlowError)(nil); errors.As(context.Cause(ctx), &slow) {
		return slow
	}
	return ctx.Err()
}

// open looks at an answer and makes its body one that keeps to the limits.
func (c *Client) open(ctx context.Context, cancel context.CancelCauseFunc, resp *http.Response, limit int64) (*body,
	error) {
	var err error
	switch coding := resp.Header.Values("Content-Encoding"); {
	case resp.StatusCode != http.StatusOK:
		err = &StatusError{resp.StatusCode, RetryAfter(resp.Header)}
	case len(coding) > 1 || len(coding) == 1 && !strings.EqualFold(coding[0], "identity"):
		err = &AnswerError{errEncoded}
	case resp.ContentLength < 0 && len(resp.TransferEncoding) == 0:
		err = &AnswerError{errNoEnd}
	case resp.ContentLength > limit:
		err = &LimitError{limit, resp.ContentLength}
	}
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	b := &body{rc: resp.Body, ctx: ctx, cancel: cancel, limit: limit, declared: resp.ContentLength,
		stall: c.limits.stall}
	b.begin()
	return b, nil
}

// RetryAfter reads how long a server asks to wait. A date counts from the server's own, so that no clock of ours
// has to be right.
func RetryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return min(time.Duration(n)*time.Second, maxWait)
	}
	then, err := http.ParseTime(text)
	now, err2 := http.ParseTime(h.Get("Date"))
	if err != nil || err2 != nil {
		return 0
	}
	return min(max(then.Sub(now), 0), maxWait)
}
