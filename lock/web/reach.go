package web

import (
	"cmp"
	"context"
	"net"
	"net/netip"
)

// Reach returns the IP addresses at which a foreign program may dial the server of an address: those that Get would
// dial. It returns none if a proxy is used, which resolves the name itself. A server without an allowed address is
// refused as in Get.
func (c *Client) Reach(ctx context.Context, address string) ([]netip.Addr, error) {
	target, err := parse(address, c.options.PlainHTTP)
	if err != nil {
		return nil, &Error{URL: Shown(address), Err: err}
	}
	way := c.start(target)
	fail := func(err error) ([]netip.Addr, error) { return nil, way.error(c.unnamed(way, err)) }
	if said, ip, ok := c.depths.named(target.Hostname()); ok {
		if err := within(said, way.most, ip); err != nil {
			return fail(err)
		}
	}
	proxy, err := c.proxy(target)
	if err != nil {
		return fail(&ConnectError{Err: errProxy})
	}
	if proxy != nil {
		return nil, nil
	}
	resolver := cmp.Or(c.limits.resolver, net.DefaultResolver)
	ctx, cancel := context.WithTimeoutCause(ctx, c.limits.connect, &SlowError{Connecting, c.limits.connect})
	defer cancel()
	all, err := resolver.LookupNetIP(ctx, "ip", target.Hostname())
	// The resolver may return before it notices the cancelled context.
	if ctx.Err() != nil {
		return fail(context.Cause(ctx))
	}
	if err != nil {
		return fail(&ConnectError{Err: err})
	}
	var may []netip.Addr
	for _, a := range all {
		a = a.Unmap()
		if no := within(c.limits.depth(a), way.most, a); no == nil {
			may = append(may, a)
		} else if err == nil {
			err = no
		}
	}
	if len(may) == 0 {
		return fail(err)
	}
	return may, nil
}
