package web

import (
	"net/netip"
	"strings"
)

// A depth says how far inside an address is. A redirect only leads outwards.
type depth int

const (
	public  depth = iota
	private       // a network that isn't everybody's
	local         // this machine and its link
	nowhere       // nothing answers there
)

// A block is a range of addresses that is not everybody's.
type block struct {
	prefix netip.Prefix
	depth  depth
}

func blocks(d depth, prefixes ...string) (out []block) {
	for _, p := range prefixes {
		out = append(out, block{netip.MustParsePrefix(p), d})
	}
	return out
}

// depths are the ranges of the special-purpose registries, IPv4 and IPv6.
type depths struct{ v4, v6 []block }

func newDepths() depths {
	var d depths
	d.v4 = append(d.v4, blocks(local, "127.0.0.0/8", "169.254.0.0/16")...)
	d.v4 = append(d.v4, blocks(private, "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15")...)
	d.v4 = append(d.v4, blocks(nowhere, "0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4")...)
	d.v6 = append(d.v6, blocks(local, "::1/128", "fe80::/10")...)
	d.v6 = append(d.v6, blocks(private, "fc00::/7", "fec0::/10", "64:ff9b:1::/48")...)
	d.v6 = append(d.v6, blocks(nowhere, "2001::/23", "2001:db8::/32", "3fff::/20")...)
	d.v6 = append(d.v6, blocks(public, "2000::/3")...)
	return d
}

// of returns how far inside an address is.
func (d depths) of(ip netip.Addr) depth {
	ip = unwrapped(ip.WithZone("").Unmap())
	if ip.Is4() {
		return find(d.v4, ip, public)
	}
	// Unassigned ranges count as private.
	return find(d.v6, ip, nowhere)
}

func find(blocks []block, ip netip.Addr, other depth) depth {
	for _, b := range blocks {
		if b.prefix.Contains(ip) {
			return b.depth
		}
	}
	return other
}

// unwrapped returns the IPv4 address that some IPv6 addresses stand for, and any other as it is. Where such an
// address is dialled a router on the way takes it out again.
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

// named returns how far inside a host says itself that it is: a number, or localhost. Of any other name only
// dialling tells.
func (d depths) named(host string) (depth, netip.Addr, bool) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return d.of(ip), ip, true
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return local, netip.Addr{}, true
	}
	return 0, netip.Addr{}, false
}
