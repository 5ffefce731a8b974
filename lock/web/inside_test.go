package web

import (
	"net/netip"
	"testing"
)

func TestDepths(t *testing.T) {
	d := NewDepths()
	for text, want := range map[string]Depth{
		"8.8.8.8": DepthPublic, "1.1.1.1": DepthPublic, "172.15.255.255": DepthPublic, "172.32.0.0": DepthPublic,
		"100.63.0.1": DepthPublic, "100.128.0.1": DepthPublic,
		"192.167.1.1": DepthPublic, "169.253.1.1": DepthPublic, "223.255.255.255": DepthPublic,
		"2606:4700::1111": DepthPublic, "2a00::1": DepthPublic,
		"10.0.0.0": DepthPrivate, "10.255.255.255": DepthPrivate, "172.16.0.1": DepthPrivate,
		"172.31.255.255": DepthPrivate, "192.168.0.1": DepthPrivate,
		"100.64.0.1": DepthPrivate, "198.18.0.1": DepthPrivate, "fc00::1": DepthPrivate, "fd00:ec2::254": DepthPrivate,
		"fec0::1": DepthPrivate, "64:ff9b:1::1": DepthPrivate,
		"127.0.0.1": DepthLocal, "127.255.255.255": DepthLocal, "169.254.169.254": DepthLocal, "::1": DepthLocal,
		"fe80::1": DepthLocal, "fe80::1%eth0": DepthLocal, "febf::1": DepthLocal,
		"0.0.0.0": DepthNowhere, "0.1.2.3": DepthNowhere, "224.0.0.1": DepthNowhere, "239.255.255.255": DepthNowhere,
		"240.0.0.1": DepthNowhere, "255.255.255.255": DepthNowhere,
		"192.0.2.1": DepthNowhere, "::": DepthNowhere, "ff02::1": DepthNowhere, "2001:db8::1": DepthNowhere,
		"2001::1": DepthNowhere, "100::1": DepthNowhere, "5f00::1": DepthNowhere, "4000::": DepthNowhere,
		"::ffff:127.0.0.1": DepthLocal, "::ffff:10.0.0.1": DepthPrivate, "::ffff:8.8.8.8": DepthPublic,
		"::ffff:0.0.0.0":     DepthNowhere,
		"64:ff9b::127.0.0.1": DepthLocal, "64:ff9b::a9fe:a9fe": DepthLocal, "64:ff9b::8.8.8.8": DepthPublic,
		"64:ff9b::0.0.0.0": DepthNowhere,
		"2002:7f00:1::":    DepthLocal, "2002:a9fe:a9fe::1": DepthLocal, "2002:c0a8:1::1": DepthPrivate,
		"2002:808:808::1": DepthPublic,
		"::127.0.0.1":     DepthLocal, "::10.0.0.1": DepthPrivate, "::ffff:0:127.0.0.1": DepthLocal,
		"::2": DepthNowhere,
	} {
		if got := d.Of(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
	if got := d.Of(netip.Addr{}); got != DepthNowhere {
		t.Errorf("no address: %d", got)
	}
}

// FuzzDepths: what stands for an IPv4 address is as far inside as that.
func FuzzDepths(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add([]byte{8, 8, 8, 8})
	d := NewDepths()
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != 4 {
			return
		}
		ip := netip.AddrFrom4([4]byte(b))
		var mapped, nat, sixToFour [16]byte
		copy(mapped[10:], append([]byte{0xff, 0xff}, b...))
		copy(nat[:], "\x00\x64\xff\x9b")
		copy(nat[12:], b)
		copy(sixToFour[:], append([]byte{0x20, 0x02}, b...))
		for _, as := range [][16]byte{mapped, nat, sixToFour} {
			if got := d.Of(netip.AddrFrom16(as)); got != d.Of(ip) {
				t.Errorf("%s: %d, and %d as %s", ip, d.Of(ip), got, netip.AddrFrom16(as))
			}
		}
		if found, _, ok := d.named(ip.String()); !ok || found != d.Of(ip) {
			t.Errorf("%s says %d, %v", ip, found, ok)
		}
	})
}
