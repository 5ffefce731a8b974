package web

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// TestSpeaksPlainHTTP says that a server without TLS is named as such, once, with the flag that allows it.
func TestSpeaksPlainHTTP(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	t.Cleanup(server.Close)
	again := 0
	c := New(Options{Proxy: noProxy, Again: func(error, time.Duration) { again++ }})
	_, _, err := c.Get(t.Context(), "https://"+server.Listener.Addr().String()+"/x", 1)
	f := fault.Of(err)
	if f.Code != fault.Policy || !strings.HasSuffix(f.Text, "the server speaks plain HTTP, without TLS") ||
		!slices.Contains(f.Hint, "--plain-http") || again > 0 || asked > 0 {
		t.Errorf("%v: %v, %v, asked again %d times", f.Code, f, f.Hint, again)
	}
}
