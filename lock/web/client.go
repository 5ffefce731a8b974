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

// Options configures a client. Nil fields mean Go's defaults.
type Options struct {
	Proxy func(*url.URL) (*url.URL, error) // the proxy for an address; nil: from the variables that net/http reads
	Roots *x509.CertPool                   // certificate authorities; nil: those of the system
	// Stranger means that the user did not write the addresses: none may lead inside, except to hosts in Inside, such
	// as "acme.example" and "10.0.0.5:8443".
	Stranger bool
	Inside   []string
	// PlainHTTP lets addresses begin with http:// on every host, not only on this machine.
	PlainHTTP bool
	// Token returns the token to send with a GET of an address, or "". It is never sent where a redirect leads.
	Token func(ctx context.Context, address string) (string, error)
	// Again is called before a retry, with the error and the pause.
	Again func(err error, in time.Duration)
}

// A Client fetches files. It is safe for concurrent use.
type Client struct {
	limits  limits
	depths  Depths
	options Options
	proxy   func(*url.URL) (*url.URL, error) // never nil
	direct  [DepthLocal + 1]*http.Transport  // each dials no address deeper inside than its index
	proxied *http.Transport
}

// limits are the limits of the package comment. Tests replace them.
type limits struct {
	connect, answer, stall, all time.Duration
	pauses                      []time.Duration // before each retry

	resolver *net.Resolver          // nil: the system's
	depth    func(netip.Addr) Depth // nil: by the ranges
}

// New returns a client.
func New(o Options) *Client {
	return newClient(o, limits{connect: 15 * time.Second, answer: 30 * time.Second, stall: 30 * time.Second,
		all:    time.Hour,
		pauses: []time.Duration{250 * time.Millisecond, time.Second}})
}

func newClient(options Options, l limits) *Client {
	client := &Client{limits: l, depths: NewDepths(), options: options, proxy: options.Proxy}
	if client.limits.depth == nil {
		client.limits.depth = client.depths.Of
	}
	if client.proxy == nil {
		client.proxy = func(u *url.URL) (*url.URL, error) { return http.ProxyFromEnvironment(&http.Request{URL: u}) }
	}
	for most := range client.direct {
		client.direct[most] = client.transport(options.Roots, func(_, address string, _ syscall.RawConn) error {
			return client.mayDial(address, Depth(most))
		})
	}
	client.proxied = client.transport(options.Roots, nil)
	client.proxied.Proxy = func(r *http.Request) (*url.URL, error) { return client.proxy(r.URL) }
	return client
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

// mayDial refuses an address that is about to be dialled, if it is deeper inside than most.
func (c *Client) mayDial(address string, most Depth) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return &RefusedError{Reason: NotAnAddress}
	}
	return within(c.limits.depth(to.Addr()), most, to.Addr())
}

// within returns an error if an address is deeper inside than most.
func within(found, most Depth, ip netip.Addr) error {
	switch {
	case found == DepthNowhere:
		return &RefusedError{Reason: Nowhere, Addr: ip}
	case found > most:
		return &RefusedError{Reason: Inside, Addr: ip}
	}
	return nil
}

// A way is the path of one fetch through redirects, and how deep inside it may lead from there.
type way struct {
	from  *url.URL // nil at the first address
	at    *url.URL
	home  string // the host and port of the first address, if that is itself local
	most  Depth  // of the next address
	steps int
	asks  *condition // nil: the file is wanted in any case
}

// Get returns the content of an address, and the announced size, or -1. More than limit bytes are an error, either at
// once or while reading. The context counts until the caller closes the reader. All errors are *Error, those of
// reading included, except for io.EOF.
func (c *Client) Get(ctx context.Context, address string, limit int64) (io.ReadCloser, int64, error) {
	u, err := parse(address, c.options.PlainHTTP)
	if err != nil {
		return nil, 0, &Error{URL: Shown(address), Err: err}
	}
	f := c.fetch(ctx, u, limit)
	if err := f.open(); err != nil {
		f.stop()
		return nil, 0, err
	}
	return f, f.body.declared, nil
}

func (c *Client) fetch(ctx context.Context, u *url.URL, limit int64) *fetch {
	// The causes differ: the deadline's is a SlowError, and a cancel's is the error that the body found.
	ctx, stop := context.WithTimeoutCause(ctx, c.limits.all, &SlowError{Everything, c.limits.all})
	return &fetch{Client: c, ctx: ctx, at: u, limit: limit, sum: sha256.New(), stop: stop}
}

// once requests an address once, following redirects.
func (c *Client) once(ctx context.Context, u *url.URL, limit int64, asks *condition) (*body, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	way := c.start(u)
	way.asks = asks
	var resp *http.Response
	var err error
	for resp == nil && err == nil {
		resp, err = c.step(ctx, way)
	}
	if err == nil {
		var b *body
		if b, err = c.open(ctx, cancel, resp, limit, asks); err == nil {
			b.way = way
			return b, nil
		}
	}
	cancel(nil)
	return nil, way.error(c.unnamed(way, err))
}

// start returns a way that begins at an address.
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

// own reports whether an address counts as the user's own.
func (c *Client) own(u *url.URL) bool {
	return !c.options.Stranger || slices.Contains(c.options.Inside, hostPort(u)) ||
		slices.Contains(c.options.Inside, bareHost(u))
}

// unnamed adds to an error the host that the user would have to name in order to allow the address.
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

// step makes one request. It returns the answer, or nil for a redirect, which w has then followed.
func (c *Client) step(ctx context.Context, w *way) (*http.Response, error) {
	header := http.Header{
		"User-Agent":      {"rye"},
		"Accept":          {"*/*"},
		"Accept-Encoding": {"identity"},
	}
	if c.options.Token != nil && w.from == nil {
		token, err := c.options.Token(ctx, w.at.String())
		if err != nil {
			return nil, err
		}
		if token != "" {
			header.Set("Authorization", "Bearer "+token)
		}
	}
	if w.asks != nil && w.asks.tag != "" {
		header.Set("If-None-Match", w.asks.tag)
	}
	resp, err := c.request((&http.Request{Method: http.MethodGet, URL: w.at, Header: header}).WithContext(ctx), w)
	if err != nil || !IsRedirect(resp.StatusCode) {
		return resp, err
	}
	resp.Body.Close()
	return nil, w.follow(resp.Header.Get("Location"), c.options.PlainHTTP)
}

// request makes a request at the end of way, and records how deep inside it was.
func (c *Client) request(req *http.Request, way *way) (*http.Response, error) {
	said, ip, saidSo := c.depths.named(way.at.Hostname())
	most := way.most
	if said == DepthLocal && way.from != nil && hostPort(way.at) != way.home {
		most = min(most, DepthPrivate)
	}
	if saidSo {
		if err := within(said, most, ip); err != nil {
			return nil, err
		}
	}
	proxy, err := c.proxy(way.at)
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
	// From here on, no deeper inside than here.
	way.most = min(way.most, reached)
	return resp, nil
}

var errProxy = errors.New("the proxy setting of the environment is not a valid address")

// follow moves w to the target of a redirect.
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
		return &RefusedError{Reason: NotHTTPS} // never back to unencrypted connections
	}
	return nil
}

// IsRedirect reports whether a status is a redirect.
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

// unanswered returns the reason for a missing answer.
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

// over returns why the context has ended: rye's reason, or the caller's.
func over(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	if slow := (*SlowError)(nil); errors.As(context.Cause(ctx), &slow) {
		return slow
	}
	return ctx.Err()
}

// open checks an answer's header and returns a body that enforces the limits.
func (c *Client) open(ctx context.Context, cancel context.CancelCauseFunc, resp *http.Response, limit int64,
	asks *condition) (*body, error) {
	tag, err := asks.answer(resp)
	switch coding := resp.Header.Values("Content-Encoding"); {
	case err != nil:
	case asks.unchanged(resp):
		return &body{rc: resp.Body, ctx: ctx, cancel: cancel, tag: tag, unchanged: true}, nil
	case resp.StatusCode != http.StatusOK:
		asked := strings.ToLower(resp.Header.Get("WWW-Authenticate"))
		err = &StatusError{resp.StatusCode, RetryAfter(resp.Header), strings.HasPrefix(asked, "bearer"),
			resp.Request != nil && resp.Request.Header.Get("Authorization") != ""}
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
	b := &body{rc: resp.Body, ctx: ctx, cancel: cancel, limit: limit, declared: resp.ContentLength, tag: tag,
		stall: c.limits.stall}
	b.begin()
	return b, nil
}

// RetryAfter returns how long a server asks to wait. A date is compared with the server's own clock, so that the
// local clock doesn't matter.
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
