package exec

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sandbox"
)

// offline keeps a call on this machine: one that asks another machine is refused, and what runs reaches no other.
func (p *Plan) offline(n *sandbox.Network) error {
	if !p.kernel.Offline {
		return nil
	}
	if asker, ok := p.primitive.(primitive.Asker); ok {
		if to := asker.Asks(p.Config); to != "" && !isHere(to) {
			return fault.New(fault.Offline, "%q asks %q, which needs the network", p.call.Ref, to).On("host",
				to).On("ref", p.call.Ref.String()).
				Because("--offline, --frozen or RYE_OFFLINE forbids it")
		}
	}
	n.All = false
	n.Hosts = slices.DeleteFunc(slices.Clone(n.Hosts), func(host string) bool { return !isHere(host) })
	return nil
}

// isHere reports whether a host, perhaps with a port, is this machine.
func isHere(host string) bool {
	if at := strings.LastIndexByte(host, ':'); at >= 0 &&
		(strings.HasPrefix(host, "[") || strings.Count(host, ":") == 1) {
		host = host[:at]
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
