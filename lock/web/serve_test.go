package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/lock/web/webtest"
)

// A world is a TLS server on this machine, a name service that says where names lead, and a client that believes both.
// The server's own address counts as public, unless a test says otherwise.
type world struct {
	*Client
	server *httptest.Server
	names  webtest.Names
	port   string

	mu    sync.Mutex
	asked []string // requests, as METHOD HOST PATH
}

func newWorld(t *testing.T, l limits, handle http.HandlerFunc) *world {
	t.Helper()
	w := &world{}
	w.server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.asked = append(w.asked, r.Method+" "+strings.TrimSuffix(r.Host, ":"+w.port)+" "+r.URL.Path)
		w.mu.Unlock()
		handle(rw, r)
	}))
	cert, roots := webtest.Certificate(t, "*.example", "localhost")
	w.server.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}}
	w.server.StartTLS()
	t.Cleanup(w.server.Close)
	_, w.port, _ = net.SplitHostPort(w.server.Listener.Addr().String())
	long := time.Minute
	for _, d := range []*time.Duration{&l.connect, &l.answer, &l.stall, &l.all} {
		if *d == 0 {
			*d = long
		}
	}
	l.resolver = w.names.Resolver()
	if l.depth == nil {
		ranges := NewDepths()
		l.depth = func(ip netip.Addr) Depth {
			if ip.Unmap() == netip.MustParseAddr("127.0.0.1") {
				return DepthPublic
			}
			return ranges.Of(ip)
		}
	}
	w.names.Lead("public.example", "127.0.0.1")
	w.Client = newClient(Options{Roots: roots, Proxy: noProxy}, l)
	return w
}

func noProxy(*url.URL) (*url.URL, error) { return nil, nil }

// url is the address of a path on a host that leads to the server.
func (w *world) url(host, path string) string { return "https://" + host + ":" + w.port + path }

func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// read gets all of an address.
func (w *world) read(ctx context.Context, address string, limit int64) (string, int64, error) {
	rc, size, err := w.Get(ctx, address, limit)
	if err != nil {
		return "", size, err
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	return string(b), size, err
}

// raw answers with bytes of its own on the connection and leaves it open until the client is gone.
func raw(t *testing.T, rw http.ResponseWriter, answer string) {
	conn, _, err := rw.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, answer); err == nil {
		io.Copy(io.Discard, conn)
	}
}

func send(format string, args ...any) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprintf(rw, format, args...) }
}
