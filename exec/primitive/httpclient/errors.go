package httpclient

import (
	"fmt"
	"net/netip"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock/web"
)

// notGranted returns the error for a host, with its port, that wasn't granted. none means that no host was granted.
func notGranted(host string, none bool) error {
	e := fault.New(fault.Denied, "the host %q was not granted", host)
	if none {
		e.Text = fmt.Sprintf("%q needs the network, which was not granted", host)
	}
	return e.On("host", host).Because("a tool lists the hosts that it needs under network:").Try("rye docs sandbox")
}

// An InsideError means that a host resolves to an address that the action may not reach.
type InsideError struct {
	Host  string // with the port
	Addr  netip.Addr
	Depth web.Depth
	// Redirect reports whether a server further outside redirected there.
	Redirect bool
}

func (e *InsideError) Error() string {
	var where string
	switch e.Depth {
	case web.DepthNowhere:
		return fmt.Sprintf("%q resolves to %s, which is not a server's address", e.Host, e.Addr)
	case web.DepthLocal:
		where = "this machine or its link"
	default:
		where = "a private network"
	}
	if e.Redirect {
		return fmt.Sprintf("%q resolves to %s, in %s, and a server outside redirected there", e.Host, e.Addr, where)
	}
	return fmt.Sprintf("%q resolves to %s, in %s, which was not granted", e.Host, e.Addr, where)
}

// Fault implements the interface that package fault looks for.
func (e *InsideError) Fault() *fault.Error {
	return fault.New(fault.Denied, "%s", e.Error()).On("host", e.Host).On("address", e.Addr.String()).
		Because("a tool lists the hosts that it needs under network:, those inside by address").
		Try("rye docs sandbox").From(e)
}

// A redirectError is the reason for not following a redirect.
type redirectError string

func (e redirectError) Error() string { return "the server redirects " + string(e) }

// A failure is a request without a complete answer.
type failure struct {
	host  string
	sent  bool // the server may have got the request
	final bool // a retry would fail again
	err   error
}

func (e *failure) Error() string {
	if !e.sent {
		return fmt.Sprintf("no connection to %q: %s", e.host, clip(e.err.Error()))
	}
	return fmt.Sprintf("no usable answer from %q: %s", e.host, clip(e.err.Error()))
}

func (e *failure) Unwrap() error { return e.err }

// A sizeError reports an answer above a limit.
type sizeError struct {
	what string
	most int64
}

func (e *sizeError) Error() string { return fmt.Sprintf("%s has more than %d bytes", e.what, e.most) }

// A sinkError is an error of the sink.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return "the output can't be passed on: " + e.err.Error() }

// clip shortens text that a server may have chosen.
func clip(s string) string {
	return fault.Clip(valid(s), maxReason)
}
