package httpclient

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/rye-build/rye/lock/web"
)

// A GrantError says that a host isn't one of those that were granted.
type GrantError struct {
	Host string // with the port
	None bool   // no network was granted at all
}

func (e *GrantError) Error() string {
	if e.None {
		return fmt.Sprintf("%q needs the network, and none was granted", e.Host)
	}
	return fmt.Sprintf("%q is not among the hosts that were granted", e.Host)
}

// An InsideError says that a host leads where it may not.
type InsideError struct {
	Host  string // with the port
	Addr  netip.Addr
	Depth web.Depth
	// Redirect says that whoever sent there was further outside.
	Redirect bool
}

func (e *InsideError) Error() string {
	var where string
	switch e.Depth {
	case web.DepthNowhere:
		return fmt.Sprintf("%q leads to %s, which no server has", e.Host, e.Addr)
	case web.DepthLocal:
		where = "this machine or its link"
	default:
		where = "a private network"
	}
	if e.Redirect {
		return fmt.Sprintf("%q leads to %s, in %s, and was sent to from further outside", e.Host, e.Addr, where)
	}
	return fmt.Sprintf("%q leads to %s, in %s, which was not granted", e.Host, e.Addr, where)
}

// A RequestError is a configuration of which no request can be made. It says nothing of what may be secret.
type RequestError struct{ Reason string }

func (e *RequestError) Error() string { return e.Reason }

// A redirectError is a redirect that isn't followed.
type redirectError string

func (e redirectError) Error() string { return "the server redirects " + string(e) }

// A failure is a try without a whole answer.
type failure struct {
	host  string
	sent  bool // the server may have got the request
	final bool // another try would be no better
	err   error
}

func (e *failure) Error() string {
	if !e.sent {
		return fmt.Sprintf("no connection to %q: %s", e.host, clip(e.err.Error()))
	}
	return fmt.Sprintf("no usable answer from %q: %s", e.host, clip(e.err.Error()))
}

func (e *failure) Unwrap() error { return e.err }

// A sizeError is an answer with more bytes than it may have.
type sizeError struct {
	what string
	most int64
}

func (e *sizeError) Error() string { return fmt.Sprintf("%s has more than %d bytes", e.what, e.most) }

// A sinkError is what the sink said.
type sinkError struct{ err error }

func (e *sinkError) Error() string { return "what comes can't be passed on: " + e.err.Error() }

// clip bounds what a server can have said in an error.
func clip(s string) string {
	if s = valid(s); len(s) <= maxReason {
		return s
	}
	return strings.ToValidUTF8(s[:maxReason], "") + "…"
}
