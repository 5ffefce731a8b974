package web

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

const maxAddress = 4096

// parse reads an address and refuses invalid ones. With plain, http is allowed for every host.
func parse(raw string, plain bool) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || len(raw) > maxAddress {
		// An error of url.Parse would quote parts of the address, which may be a password.
		return nil, &RefusedError{Reason: NotAnAddress}
	}
	return u, check(u, raw, plain)
}

func check(u *url.URL, raw string, plain bool) error {
	switch port := u.Port(); {
	case u.Scheme == "http" && !plain && !loopback(u.Hostname()):
		return &RefusedError{Reason: NotHTTPS, Plain: true}
	case u.Scheme != "https" && u.Scheme != "http":
		return &RefusedError{Reason: NotHTTPS}
	case u.User != nil:
		return &RefusedError{Reason: WithUser}
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return &RefusedError{Reason: WithFragment}
	case u.Opaque != "" || !IsHost(u.Hostname()) || port == "" && strings.HasSuffix(u.Host, ":"):
		return &RefusedError{Reason: NotAnAddress}
	case port != "":
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return &RefusedError{Reason: NotAnAddress}
		}
	}
	return nil
}

// loopback reports whether a host is localhost or an address of this machine: http is allowed there.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || host == "localhost"
}

// IsHost reports whether a host is an IP address without a zone, or a name in ASCII.
func IsHost(host string) bool {
	if strings.Contains(host, ":") {
		ip, err := netip.ParseAddr(host)
		return err == nil && ip.Zone() == ""
	}
	return portable.Spelled(host, portable.Letters+portable.Digits+"-_", ".", 253) && !strings.Contains(host, "..")
}

// shown returns an address for an error, without secrets: it omits the part after "=" in a query, a query without
// "=", the user and password, and the fragment.
func shown(address *url.URL) string {
	text := address.Scheme + "://"
	if address.User != nil {
		text += "…@"
	}
	if address.Opaque != "" {
		text = address.Scheme + ":…"
	}
	text += address.Host + address.EscapedPath()
	if address.RawQuery != "" {
		text += "?"
		for i, pair := range strings.Split(address.RawQuery, "&") {
			if i > 0 {
				text += "&"
			}
			if name, _, ok := strings.Cut(pair, "="); ok {
				text += name + "="
			}
			text += "…"
		}
	}
	return fault.Clip(text, 300)
}

// Shown returns an address for an error or a file, without secrets. raw may be invalid.
func Shown(raw string) string {
	if u, err := url.Parse(raw); err == nil && len(raw) <= maxAddress {
		return shown(u)
	}
	scheme, _, ok := strings.Cut(raw, "://")
	if !ok || len(scheme) > 10 {
		return "…"
	}
	return scheme + "://…"
}

// Parse reads an address under the rules of this package: https, or http to this machine.
func Parse(raw string) (*url.URL, error) { return parse(raw, false) }
