package web

import (
	"net/netip"
	"strings"
)

// A Depth is how deep inside the network an address is. A redirect only leads outwards.
type Depth int

// The depths, from the outside in.
const (
	DepthPublic  Depth = iota
	DepthPrivate       // a private network
	DepthLocal         // this machine and its link
	DepthNowhere       // unusable addresses
)

// A block is a special range of addresses.
type block struct {
	prefix netip.Prefix
	depth  Depth
}

func blocks(d Depth, prefixes ...string) (out []block) {
	for _, p := range prefixes {
		out = append(out, block{netip.MustParsePrefix(p), d})
	}
	return out
}

// Depths are the ranges of the special-purpose registries.
type Depths struct{ v4, v6 []block }

// NewDepths returns the ranges by which Get determines depths.
func NewDepths() Depths {
	var depths Depths
	depths.v4 = append(depths.v4, blocks(DepthLocal, "127.0.0.0/8", "169.254.0.0/16")...)
	depths.v4 = append(depths.v4, blocks(DepthPrivate, "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",
		"100.64.0.0/10",
		"198.18.0.0/15")...)
	depths.v4 = append(depths.v4, blocks(DepthNowhere, "0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
		"198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4")...)
	depths.v6 = append(depths.v6, blocks(DepthLocal, "::1/128", "fe80::/10")...)
	depths.v6 = append(depths.v6, blocks(DepthPrivate, "fc00::/7", "fec0::/10", "64:ff9b:1::/48")...)
	depths.v6 = append(depths.v6, blocks(DepthNowhere, "2001::/23", "2001:db8::/32", "3fff::/20")...)
	depths.v6 = append(depths.v6, blocks(DepthPublic, "2000::/3")...)
	return depths
}

// Of returns the depth of an address.
func (d Depths) Of(ip netip.Addr) Depth {
	ip = unwrapped(ip.WithZone("").Unmap())
	if ip.Is4() {
		return find(d.v4, ip, DepthPublic)
	}
	// Unassigned ranges count as private.
	return find(d.v6, ip, DepthNowhere)
}

func find(blocks []block, ip netip.Addr, other Depth) Depth {
	for _, b := range blocks {
		if b.prefix.Contains(ip) {
			return b.depth
		}
	}
	return other
}

// unwrapped returns the IPv4 address that some IPv6 addresses contain, and any other address unchanged. When such an
// address is dialled, a router on the way extracts it.
func unwrapped(ip netip.Addr) netip.Addr {
	if !ip.Is6() {
		return ip
	}
	b := ip.As16()
	last := netip.AddrFrom4([4]byte(b[12:]))
	is := func(prefix string) bool { return string(b[:len(prefix)]) == prefix }
	switch {
	case is("\x20\x02"): // 2002::/16, 6to4
		return netip.AddrFrom4([4]byte(b[2:6]))
	case is("\x00\x64\xff\x9b\x00\x00\x00\x00\x00\x00\x00\x00"), // 64:ff9b::/96, NAT64
		is("\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00"): // ::ffff:0:0/96 shifted by 16 bits, SIIT
		return last
	case is("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00") && b[12] != 0: // ::/96, "compatible"
		return last
	}
	return ip
}

// named returns the depth that a host's text shows: an IP address, or localhost. The depth of any other name is known
// only when it is dialled.
func (d Depths) named(host string) (Depth, netip.Addr, bool) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return d.Of(ip), ip, true
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return DepthLocal, netip.Addr{}, true
	}
	return 0, netip.Addr{}, false
}
