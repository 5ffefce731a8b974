package sandbox

import (
	"net"
	"testing"
)

func TestGrants(t *testing.T) {
	n := Network{Hosts: []string{"a.example", "*.b.example", "c.example:8443", "192.0.2.7:80", "*.0.2.8"}}
	for _, at := range []string{"a.example:80", "a.example:443", "x.b.example:443", "x.y.b.example:80",
		"c.example:8443", "192.0.2.7:80"} {
		host, port, _ := net.SplitHostPort(at)
		if !n.Grants(host, port) {
			t.Errorf("%s is refused", at)
		}
	}
	for _, at := range []string{
		"a.example:22", "x.a.example:443", "b.example:443", ".b.example:443", "xb.example:443", "c.example:443",
		"192.0.2.8:80", "192.0.2.7:443", ":443",
	} {
		host, port, _ := net.SplitHostPort(at)
		if n.Grants(host, port) {
			t.Errorf("%s is granted", at)
		}
	}
	if (Network{}).Grants("a.example", "443") || !(Network{All: true}).Grants("a.example", "1") {
		t.Error("the zero Network is nothing, and all is all")
	}
}
