package web

import (
	"net/netip"
	"testing"
)

func TestDepths(t *testing.T) {
	d := newDepths()
	for text, want := range map[string]depth{
		"8.8.8.8": public, "1.1.1.1": public, "172.15.255.255": public, "172.32.0.0": public, "100.63.0.1": public, "100.128.0.1": public,
		"192.167.1.1": public, "169.253.1.1": public, "223.255.255.255": public, "2606:4700::1111": public, "2a00::1": public,
		"10.0.0.0": private, "10.255.255.255": private, "172.16.0.1": private, "172.31.255.255": private, "192.168.0.1": private,
		"100.64.0.1": private, "198.18.0.1": private, "fc00::1": private, "fd00:ec2::254": private, "fec0::1": private, "64:ff9b:1::1": private,
		"127.0.0.1": local, "127.255.255.255": local, "169.254.169.254": local, "::1": local, "fe80::1": local, "fe80::1%eth0": local, "febf::1": local,
		"0.0.0.0": nowhere, "0.1.2.3": nowhere, "224.0.0.1": nowhere, "239.255.255.255": nowhere, "240.0.0.1": nowhere, "255.255.255.255": nowhere,
		"192.0.2.1": nowhere, "::": nowhere, "ff02::1": nowhere, "2001:db8::1": nowhere, "2001::1": nowhere, "100::1": nowhere, "5f00::1": nowhere, "4000::": nowhere,
		"::ffff:127.0.0.1": local, "::ffff:10.0.0.1": private, "::ffff:8.8.8.8": public, "::ffff:0.0.0.0": nowhere,
		"64:ff9b::127.0.0.1": local, "64:ff9b::a9fe:a9fe": local, "64:ff9b::8.8.8.8": public, "64:ff9b::0.0.0.0": nowhere,
		"2002:7f00:1::": local, "2002:a9fe:a9fe::1": local, "2002:c0a8:1::1": private, "2002:808:808::1": public,
		"::127.0.0.1": local, "::10.0.0.1": private, "::ffff:0:127.0.0.1": local, "::2": nowhere,
	} {
		if got := d.of(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
	if got := d.of(netip.Addr{}); got != nowhere {
		t.Errorf("no address: %d", got)
	}
}

// FuzzDepths: what stands for an IPv4 address is as far inside as that.
func FuzzDepths(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add([]byte{8, 8, 8, 8})
	d := newDepths()
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
			if got := d.of(netip.AddrFrom16(as)); got != d.of(ip) {
				t.Errorf("%s: %d, and %d as %s", ip, d.of(ip), got, netip.AddrFrom16(as))
			}
		}
		if found, _, ok := d.named(ip.String()); !ok || found != d.of(ip) {
			t.Errorf("%s says %d, %v", ip, found, ok)
		}
	})
}
