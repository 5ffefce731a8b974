// Package guard is an http.RoundTripper that keeps requests to registries from doing harm. Wherever a server
// redirects a request to, credentials stay with the host that they are for, plain HTTP stays on this machine, and a
// request to a server that stalls ends.
//
// # How a request goes through here
//
// Guard.RoundTrip refuses plain HTTP to other machines, drops credentials if redirects have led to another origin
// (left), and passes the request on. It returns an answer that says to come again as a *StatusError, and wraps both
// bodies in a flow, which cancels the request when fewer than 16 KiB move in 30 seconds. Follow bounds redirects. The
// caller then asks Passing whether to retry, and Explain for an error without addresses.
package guard

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

const (
	stallTime   = 30 * time.Second
	minProgress = 16 << 10
)

// A Guard checks every request, those of redirects included: it sends no credentials elsewhere, ends requests that
// stall, and turns an answer that says to come again into an error.
type Guard struct {
	Next  http.RoundTripper
	Plain bool          // http on every host
	Stall time.Duration // in which 16 KiB have to move; 0: 30 s
}

// RoundTrip implements http.RoundTripper.
func (g *Guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && (req.URL.Scheme != "http" || !g.Plain && !Loopback(req.URL.Host)) {
		closeBody(req)
		return nil, fault.New(fault.Policy, "not an https address").On("reason", "not-https").
			Because("http addresses lead to this machine only, unless --plain-http allows every host").
			Try("--plain-http")
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	out := req.Clone(ctx)
	if left(req) {
		out.Header.Del("Authorization")
		out.Header.Del("Cookie")
	}
	stall := cmp.Or(g.Stall, stallTime)
	if out.Body != nil && out.ContentLength != 0 {
		out.Body = newFlow(req.Body, ctx, cancel, stall, false)
	}
	resp, err := g.Next.RoundTrip(out)
	if err != nil {
		if slow, ok := errors.AsType[*SlowError](context.Cause(ctx)); ok {
			err = slow
		}
		cancel(nil)
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		resp.Body.Close()
		cancel(nil)
		return nil, &StatusError{resp.StatusCode, retryAfter(resp.Header)}
	}
	resp.Body = newFlow(resp.Body, ctx, cancel, stall, true)
	return resp, nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

// left reports whether redirects have led a request away from where it was first sent.
func left(req *http.Request) bool {
	here := Origin(req.URL)
	for r := req.Response; r != nil && r.Request != nil; r = r.Request.Response {
		if Origin(r.Request.URL) != here {
			return true
		}
	}
	return false
}

// maxAfter is the longest wait that an error shows: absurd ones are this long.
const maxAfter = 24 * time.Hour

// retryAfter reads how long a server asks to wait. A date counts from the server's own.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
		return min(time.Duration(n)*time.Second, maxAfter)
	}
	then, err := http.ParseTime(text)
	now, err2 := http.ParseTime(h.Get("Date"))
	if err != nil || err2 != nil {
		return 0
	}
	return min(max(then.Sub(now), 0), maxAfter)
}

// A flow is a body whose bytes must keep moving. For an answer the time inside Read counts, for a request the time
// until the server takes more.
type flow struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	stall  time.Duration
	moved  int
	answer bool
}

func newFlow(rc io.ReadCloser, ctx context.Context, cancel context.CancelCauseFunc, stall time.Duration,
	answer bool) *flow {
	f := &flow{ReadCloser: rc, ctx: ctx, cancel: cancel, stall: stall, answer: answer}
	f.timer = time.AfterFunc(stall, func() { cancel(&SlowError{stall}) })
	if answer {
		f.timer.Stop()
	}
	return f
}

// Read implements io.Reader.
func (f *flow) Read(p []byte) (int, error) {
	if f.answer && f.moved == 0 {
		f.timer.Reset(f.stall)
	}
	n, err := f.ReadCloser.Read(p)
	if f.moved += n; f.moved >= minProgress {
		f.moved = 0
		if f.timer.Stop(); !f.answer {
			f.timer.Reset(f.stall)
		}
	}
	if err != nil {
		f.timer.Stop()
		if slow, ok := errors.AsType[*SlowError](context.Cause(f.ctx)); ok && err != io.EOF {
			err = slow
		}
	}
	return n, err
}

// Close implements io.Closer.
func (f *flow) Close() error {
	f.timer.Stop()
	err := f.ReadCloser.Close()
	if f.answer {
		f.cancel(nil)
	}
	return err
}

// maxSteps is how many redirects a request may take.
const maxSteps = 5

// Follow allows a few redirects, and none that leaves TLS.
func Follow(req *http.Request, via []*http.Request) error {
	if len(via) > maxSteps {
		return fault.New(fault.Registry, "more than %d redirects", maxSteps)
	}
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fault.New(fault.Policy, "the server redirects from https to %s", fault.Clip(req.URL.Scheme, 20)).
			On("reason", "not-https")
	}
	return nil
}

// Loopback reports whether the name of a host, with or without port, says that it is this machine.
func Loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback() || host == "localhost"
}

// Origin is where credentials may be sent.
func Origin(u *url.URL) string {
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + Port(u)
}

// Port is that of an address, or of its scheme.
func Port(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"https": "443", "http": "80"}[u.Scheme])
}
