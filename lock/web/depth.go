package web

import (
	"net/http"
	"net/netip"
	"time"
)

// A Depth says how far inside an address is, for callers that dial addresses from untrusted files.
type Depth int

// The depths, from the outside in.
const (
	DepthPublic  = Depth(public)
	DepthPrivate = Depth(private) // a network that isn't everybody's
	DepthLocal   = Depth(local)   // this machine and its link
	DepthNowhere = Depth(nowhere) // nothing answers there
)

// Depths returns what tells how far inside an address is, as Get does.
func Depths() func(netip.Addr) Depth {
	d := newDepths()
	return func(ip netip.Addr) Depth { return Depth(d.of(ip)) }
}

// RetryAfter returns how long a server asks to wait, at most a day; 0 if it says nothing. A date counts from the server's
// own.
func RetryAfter(h http.Header) time.Duration { return retryAfter(h) }
