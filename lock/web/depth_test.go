package web

import (
	"net/http"
	"net/netip"
	"testing"
	"time"
)

// TestDepth: others are told what Get goes by.
func TestDepth(t *testing.T) {
	of := Depths()
	for address, want := range map[string]Depth{
		"8.8.8.8": DepthPublic, "2606:4700::1": DepthPublic, "10.0.0.1": DepthPrivate, "fd00::1": DepthPrivate, "127.0.0.1": DepthLocal,
		"::ffff:169.254.169.254": DepthLocal, "64:ff9b::a9fe:a9fe": DepthLocal, "::1": DepthLocal, "0.0.0.0": DepthNowhere, "ff02::1": DepthNowhere,
	} {
		if got := of(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %d, want %d", address, got, want)
		}
	}
	if after := RetryAfter(http.Header{"Retry-After": {"7"}}); after != 7*time.Second {
		t.Errorf("%s", after)
	}
}
