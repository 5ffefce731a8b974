package serve_test

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/serve"
)

// damage makes tokens unreadable.
func damage(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "tokens.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestListen: an address that other machines reach needs TLS.
func TestListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	certificate := new(tls.Certificate)
	for _, c := range []struct {
		o    serve.Options
		code fault.Code
	}{
		{serve.Options{Listen: "127.0.0.1:0"}, ""},
		{serve.Options{Listen: "127.0.0.2:0"}, ""},
		{serve.Options{Listen: "localhost:0"}, ""},
		{serve.Options{Listen: "127.0.0.1:0", Proxied: true}, ""},
		{serve.Options{Listen: "0.0.0.0:0", Certificate: certificate}, ""},
		{serve.Options{Listen: ":0", Proxied: true, Hosts: []string{"agents.example"}}, ""},
		{serve.Options{Listen: ":0"}, fault.Policy},
		{serve.Options{Listen: "0.0.0.0:0"}, fault.Policy},
		{serve.Options{Listen: "[::]:0"}, fault.Policy},
		{serve.Options{Listen: "10.0.0.1:0"}, fault.Policy},
		{serve.Options{Listen: "localhost.evil.example:0"}, fault.Policy},
		{serve.Options{Listen: ":0", Proxied: true}, fault.Validation},
		{serve.Options{Listen: "127.0.0.1"}, fault.Validation},
		{serve.Options{Listen: ""}, fault.Validation},
		{serve.Options{Listen: "127.0.0.1:99999"}, fault.Unavailable},
		{serve.Options{Listen: taken.Addr().String()}, fault.Unavailable},
	} {
		c.o.Tokens, c.o.Now = &serve.Tokens{}, time.Now
		s, err := serve.Listen(c.o)
		if err == nil {
			s.Close()
		}
		if (c.code == "") != (err == nil) || err != nil && fault.CodeOf(err) != c.code {
			t.Errorf("%+v: %v", c.o, err)
		}
		if err != nil && c.code == fault.Policy &&
			!strings.Contains(strings.Join(fault.Of(err).Hint, " "), "--behind-proxy") {
			t.Error(fault.Of(err).Hint)
		}
	}
	s, err := serve.Listen(serve.Options{Listen: ":0", Proxied: true, Hosts: []string{"agents.example"},
		Tokens: &serve.Tokens{}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if url := s.URL("/mcp"); !strings.HasPrefix(url, "http://agents.example:") {
		t.Error(url)
	}
}
