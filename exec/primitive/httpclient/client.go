package httpclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/manifest/policy/floor"
)

const (
	// MaxBody bounds a body that isn't streamed.
	MaxBody = 16 << 20
	// MaxEvent bounds an event.
	MaxEvent = 1 << 20
	// MaxEvents and MaxKept bound the events in the value, by number and bytes.
	MaxEvents = 10_000
	MaxKept   = 4 << 20

	maxSteps  = 5
	maxHeader = 64 << 10
	maxReason = 2000
	connect   = 15 * time.Second
)

// A Client is the primitive.
type Client struct {
	Roots *x509.CertPool // certificate authorities; nil: those of the system
	Agent string         // the default User-Agent; "" means "rye"

	// For tests.
	resolver *net.Resolver
	depth    func(netip.Addr) web.Depth
}

var errTime = errors.New("the time is over")

// Asks implements primitive.Asker: the host of the url, with its port.
func (c *Client) Asks(config map[string]any) string {
	raw, _ := config["url"].(string)
	u, err := address(raw)
	if err != nil {
		return ""
	}
	return u.Host
}

// Run implements primitive.Primitive.
func (c *Client) Run(ctx context.Context, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	request, err := newRequest(a, c.Agent)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	inner, stop := context.WithTimeoutCause(ctx, request.time, errTime)
	defer stop()
	exchange := &exchange{client: c, request: request, to: to, left: request.most, depth: c.depth}
	if exchange.depth == nil {
		exchange.depth = web.NewDepths().Of
	}
	err = exchange.attempt(inner)
	if err != nil && exchange.requests == 0 {
		// Resolving the name failed the check, and no request was sent.
		if inside, ok := errors.AsType[*InsideError](err); ok {
			return nil, inside
		}
	}
	if err == nil && exchange.good() && len(exchange.raw) > 0 && to != nil {
		if no := to.Emit(primitive.Stdout, exchange.raw); no != nil {
			err = &sinkError{no}
		}
	}
	r := &primitive.Result{
		Value: exchange.value(), Level: floor.Namespace, Enforced: []string{"in-process", "network:hosts"},
		Usage: map[string]int64{"wall_ms": time.Since(began).Milliseconds(), "requests": exchange.requests,
			"received": exchange.received},
	}
	if request.network.All {
		r.Enforced[1] = "network:public"
	}
	exchange.judge(ctx, inner, r, err)
	return r, nil
}

// judge sets whether the action succeeded, and what ended it.
func (x *exchange) judge(ctx, inner context.Context, result *primitive.Result, err error) {
	size, sink := (*sizeError)(nil), (*sinkError)(nil)
	switch {
	case err == nil:
		if x.good() {
			return
		}
		result.Failure = x.reason()
	case errors.As(err, &sink):
		result.Ended, result.Failure = "cancelled", sink.Error()
	case errors.As(err, &size):
		result.Ended, result.Failure = "output", size.Error()
	case ctx.Err() != nil:
		result.Ended, result.Failure = "cancelled", "cancelled"
	case inner.Err() != nil:
		result.Ended, result.Failure = "timeout", fmt.Sprintf("no complete response within %s", x.time)
	default:
		result.Failure = err.Error()
	}
	result.Failed, result.Trouble = true, x.trouble(err)
}

// trouble describes the failure for a caller that may retry.
func (x *exchange) trouble(err error) *primitive.Trouble {
	trouble := &primitive.Trouble{Repeatable: x.repeatable()}
	if err == nil {
		trouble.Status, trouble.After = x.status, web.RetryAfter(x.header)
		// These answers mean that the server did nothing. After a redirect that doesn't hold for the first server.
		trouble.Undone = x.requests == 1 && (x.status == http.StatusTooManyRequests ||
			x.status == http.StatusServiceUnavailable && x.header.Get("Retry-After") != "")
		return trouble
	}
	trouble.Type = "AnswerError" // invalid or too large
	if f, ok := errors.AsType[*failure](err); ok {
		trouble.Type, trouble.Undone = "ConnectionError", !f.sent && x.requests == 0
		if f.final {
			trouble.Type = "CertificateError"
		}
	}
	return trouble
}

// An exchange is the state of one action, and its answer.
type exchange struct {
	*request
	client *Client
	to     primitive.Sink // may be nil
	depth  func(netip.Addr) web.Depth

	requests, received int64 // requests that may have arrived, and bytes of bodies
	left               int64 // remaining bytes for the sink

	status int // 0: no answer
	header http.Header
	raw    []byte // the body, if it isn't a stream
	body   any    // the decoded body
	from   string // the address that answered
	short  bool   // it was cut
	events int
	kept   []any // the first events; nil unless the answer is a stream
	size   int   // bytes of kept
}

// good reports whether the answer has a success status.
func (x *exchange) good() bool { return x.status >= 200 && x.status < 400 }

// attempt sends the request, follows redirects, and reads the answer.
func (x *exchange) attempt(ctx context.Context) error {
	// A redirect must not lead further inside than any server before it.
	most := web.DepthLocal
	for way := x.way; ; {
		resp, reached, err := x.step(ctx, &way, most)
		if err != nil {
			return err
		}
		x.status, x.header, x.from = resp.StatusCode, resp.Header, shownAddress(way.url)
		most = min(most, reached)
		next, err := way.follow(resp)
		if err == nil && next != nil {
			if err = check(x.network, next.url); err != nil {
				err = fmt.Errorf("the server redirects elsewhere: %w", err)
			}
		}
		if err != nil || next != nil {
			resp.Body.Close()
		}
		if err != nil {
			return err
		}
		if next == nil {
			defer resp.Body.Close()
			return x.read(ctx, &way, resp)
		}
		way = *next
	}
}

// step sends one request, and returns how far inside the server is.
func (x *exchange) step(ctx context.Context, way *way, most web.Depth) (*http.Response, web.Depth, error) {
	sent, reached := false, web.DepthLocal
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		sent = true
		x.requests++
		if to, err := netip.ParseAddrPort(info.Conn.RemoteAddr().String()); err == nil {
			reached = x.depth(to.Addr())
		}
	}}
	req := (&http.Request{Method: way.method, URL: way.url, Host: shownHost(way.url),
		Header: way.header}).WithContext(httptrace.WithClientTrace(ctx, trace))
	if way.body != nil {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(way.body)), int64(len(way.body))
	}
	resp, err := x.transport(way, most).RoundTrip(req)
	if err == nil {
		return resp, reached, nil
	}
	if inside, ok := errors.AsType[*InsideError](err); ok {
		return nil, 0, inside
	}
	f := &failure{host: way.url.Host, sent: sent, err: err}
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		f.err, f.final = untrusted, true
	}
	return nil, 0, f
}

// transport returns a transport for one step.
func (x *exchange) transport(w *way, most web.Depth) *http.Transport {
	dialer := net.Dialer{Timeout: connect, Resolver: x.client.resolver,
		Control: func(_, to string, _ syscall.RawConn) error {
			return x.mayDial(w, to, most)
		}}
	return web.NewTransport(dialer, x.client.Roots, maxHeader)
}

// mayDial refuses to dial an address that is out of bounds.
func (x *exchange) mayDial(w *way, address string, most web.Depth) error {
	return mayDial(x.network, w.url, x.depth, address, most)
}

// follow returns the target of a redirect, or nil for another answer.
func (w *way) follow(resp *http.Response) (*way, error) {
	location := resp.Header.Get("Location")
	if location == "" || !web.IsRedirect(resp.StatusCode) {
		return nil, nil
	}
	next := *w
	if next.steps++; next.steps > maxSteps {
		return nil, redirectError(fmt.Sprintf("more than %d times", maxSteps))
	}
	u, err := w.url.Parse(escaped(location))
	if err == nil {
		next.url, err = address(u.String())
	}
	if err != nil {
		return nil, redirectError("to an invalid address: " + err.Error())
	}
	if w.url.Scheme == "https" && next.url.Scheme == "http" {
		return nil, redirectError(fmt.Sprintf("from https to http, to %q", next.url.Host))
	}
	code := resp.StatusCode
	if code == http.StatusSeeOther && w.method != http.MethodHead || code < http.StatusSeeOther &&
		w.method == http.MethodPost {
		next.method, next.body = http.MethodGet, nil
		next.header = next.header.Clone()
		next.header.Del("Content-Type")
	}
	if next.url.Scheme == w.url.Scheme && next.url.Host == w.url.Host {
		return &next, nil
	}
	if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, next.method) {
		return nil, redirectError(fmt.Sprintf("a %s to another host, %q", next.method, next.url.Host))
	}
	// Any other header may be a credential.
	public := http.Header{}
	for _, name := range []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent"} {
		if v, ok := next.header[name]; ok {
			public[name] = v
		}
	}
	next.header = public
	return &next, nil
}

// shownHost returns the value of the Host header: without the default port.
func shownHost(u *url.URL) string {
	if u.Scheme == "https" {
		return strings.TrimSuffix(u.Host, ":443")
	}
	return strings.TrimSuffix(u.Host, ":80")
}

// shownAddress returns an address without the default port.
func shownAddress(u *url.URL) string {
	shown := *u
	shown.Host = shownHost(u)
	return shown.String()
}
