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
	// MaxBody is how much of a body that isn't streamed is taken.
	MaxBody = 16 << 20
	// MaxEvent is how long an event may be.
	MaxEvent = 1 << 20
	// MaxEvents and MaxKept are how many events, and how many bytes of them, are kept for the value.
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
	Agent string         // what it calls itself to servers where the configuration says nothing; "rye" if that is ""

	// What tests set.
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
	q, err := newRequest(a, c.Agent)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	inner, stop := context.WithTimeoutCause(ctx, q.time, errTime)
	defer stop()
	x := &exchange{client: c, request: q, to: to, left: q.most, depth: c.depth}
	if x.depth == nil {
		x.depth = web.NewDepths().Of
	}
	err = x.attempt(inner)
	if err != nil && x.requests == 0 {
		// The name was resolved, but no request was sent.
		if inside, ok := errors.AsType[*InsideError](err); ok {
			return nil, inside
		}
	}
	if err == nil && x.good() && len(x.raw) > 0 && to != nil {
		if no := to.Emit(primitive.Stdout, x.raw); no != nil {
			err = &sinkError{no}
		}
	}
	r := &primitive.Result{
		Value: x.value(), Level: floor.Namespace, Enforced: []string{"in-process", "network:hosts"},
		Usage: map[string]int64{"wall_ms": time.Since(began).Milliseconds(), "requests": x.requests,
			"received": x.received},
	}
	if q.network.All {
		r.Enforced[1] = "network:public"
	}
	x.judge(ctx, inner, r, err)
	return r, nil
}

// judge says whether the answer is a success, and what ended the action.
func (x *exchange) judge(ctx, inner context.Context, r *primitive.Result, err error) {
	size, sink := (*sizeError)(nil), (*sinkError)(nil)
	switch {
	case err == nil:
		if x.good() {
			return
		}
		r.Failure = x.reason()
	case errors.As(err, &sink):
		r.Ended, r.Failure = "cancelled", sink.Error()
	case errors.As(err, &size):
		r.Ended, r.Failure = "output", size.Error()
	case ctx.Err() != nil:
		r.Ended, r.Failure = "cancelled", "cancelled"
	case inner.Err() != nil:
		r.Ended, r.Failure = "timeout", fmt.Sprintf("no complete response within %s", x.time)
	default:
		r.Failure = err.Error()
	}
	r.Failed, r.Trouble = true, x.trouble(err)
}

// trouble describes the failure for a caller that may try again.
func (x *exchange) trouble(err error) *primitive.Trouble {
	t := &primitive.Trouble{Repeatable: x.repeatable()}
	if err == nil {
		t.Status, t.After = x.status, web.RetryAfter(x.header)
		// The server says that it did nothing. If it is one that another has sent us to, that one has done something.
		t.Undone = x.requests == 1 && (x.status == http.StatusTooManyRequests ||
			x.status == http.StatusServiceUnavailable && x.header.Get("Retry-After") != "")
		return t
	}
	t.Type = "AnswerError" // it is wrong, or there is too much of it
	if f, ok := errors.AsType[*failure](err); ok {
		t.Type, t.Undone = "ConnectionError", !f.sent && x.requests == 0
		if f.final {
			t.Type = "CertificateError"
		}
	}
	return t
}

// An exchange is one action, and what came of it.
type exchange struct {
	*request
	client *Client
	to     primitive.Sink // may be nil
	depth  func(netip.Addr) web.Depth

	requests, received int64 // that may have arrived, and bytes of bodies
	left               int64 // bytes that the sink may still get

	status int // 0: there is no answer
	header http.Header
	raw    []byte // the body, if it isn't a stream
	body   any    // what that says
	from   string // where it came from
	short  bool   // it was cut
	events int
	kept   []any // the first of them; not nil: the answer is a stream
	size   int   // of those kept
}

// good reports whether the answer is a yes.
func (x *exchange) good() bool { return x.status >= 200 && x.status < 400 }

// attempt sends the request, follows where it is sent to, and reads the answer.
func (x *exchange) attempt(ctx context.Context) error {
	// Where it has been: never further inside than there.
	most := web.DepthLocal
	for w := x.way; ; {
		resp, reached, err := x.step(ctx, &w, most)
		if err != nil {
			return err
		}
		x.status, x.header, x.from = resp.StatusCode, resp.Header, shownAddress(w.url)
		most = min(most, reached)
		next, err := w.follow(resp)
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
			return x.read(ctx, &w, resp)
		}
		w = *next
	}
}

// step asks once, and says how far inside the server was.
func (x *exchange) step(ctx context.Context, w *way, most web.Depth) (*http.Response, web.Depth, error) {
	sent, reached := false, web.DepthLocal
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		sent = true
		x.requests++
		if to, err := netip.ParseAddrPort(info.Conn.RemoteAddr().String()); err == nil {
			reached = x.depth(to.Addr())
		}
	}}
	req := (&http.Request{Method: w.method, URL: w.url, Host: shownHost(w.url),
		Header: w.header}).WithContext(httptrace.WithClientTrace(ctx, trace))
	if w.body != nil {
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(w.body)), int64(len(w.body))
	}
	resp, err := x.transport(w, most).RoundTrip(req)
	if err == nil {
		return resp, reached, nil
	}
	if inside, ok := errors.AsType[*InsideError](err); ok {
		return nil, 0, inside
	}
	f := &failure{host: w.url.Host, sent: sent, err: err}
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		f.err, f.final = untrusted, true
	}
	return nil, 0, f
}

// transport makes one connection for a step.
func (x *exchange) transport(w *way, most web.Depth) *http.Transport {
	dialer := net.Dialer{Timeout: connect, Resolver: x.client.resolver,
		Control: func(_, to string, _ syscall.RawConn) error {
			return x.mayDial(w, to, most)
		}}
	return web.NewTransport(dialer, x.client.Roots, maxHeader)
}

// mayDial refuses an address that is about to be dialled and may not be.
func (x *exchange) mayDial(w *way, address string, most web.Depth) error {
	return mayDial(x.network, w.url, x.depth, address, most)
}

// follow returns where an answer redirects; nil: it doesn't.
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
	// Any other line may be a credential.
	public := http.Header{}
	for _, name := range []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent"} {
		if v, ok := next.header[name]; ok {
			public[name] = v
		}
	}
	next.header = public
	return &next, nil
}

// shownHost is the value of the Host header: without the default port.
func shownHost(u *url.URL) string {
	if u.Scheme == "https" {
		return strings.TrimSuffix(u.Host, ":443")
	}
	return strings.TrimSuffix(u.Host, ":80")
}

// shownAddress is an address as one is written.
func shownAddress(u *url.URL) string {
	shown := *u
	shown.Host = shownHost(u)
	return shown.String()
}
