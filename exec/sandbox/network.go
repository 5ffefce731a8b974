package sandbox

import (
	"net/netip"
	"strings"
)

// Grants reports whether the network allows a host on a port. It compares names only: lower-case, without a dot at
// the end. An IP address matches only its own spelling, never an entry with a star.
func (n Network) Grants(host, port string) bool {
	_, err := netip.ParseAddr(host)
	number := err == nil
	for _, h := range n.Hosts {
		name, only := h, ""
		if at := strings.LastIndexByte(h, ':'); at >= 0 {
			name, only = h[:at], h[at+1:]
		}
		if only == "" && port != "80" && port != "443" || only != "" && only != port {
			continue
		}
		below, star := strings.CutPrefix(name, "*")
		if name == host || star && !number && strings.HasPrefix(below, ".") && len(host) > len(below) &&
			strings.HasSuffix(host, below) {
			return true
		}
	}
	return n.All
}
