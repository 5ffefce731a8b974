package httpclient

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	files "github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/std"
	place "github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/retry"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/lock/web"
	"github.com/rye-build/rye/lock/web/webtest"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// A world is a server on this machine that speaks http on one port and https on another, a name service that says
// where names lead, and a client that believes both. The server's own address counts as public, unless a test says
// otherwise.
type world struct {
	*Client
	again       *retry.Primitive // tries again what fails
	names       webtest.Names
	http, https string // ports
	// hosts are those that are granted beside the names in example; all is all of the network.
	hosts []string
	all   bool
	depth web.Depth // of the server

	mu     sync.Mutex
	asked  []string        // requests, as METHOD HOST PATH
	open   int             // requests that are being answered
	waited []time.Duration // between tries
}

func newWorld(t testing.TB, handle http.HandlerFunc) *world {
	t.Helper()
	w := &world{}
	w.names.Lead("public.example", "127.0.0.1")
	w.names.Lead("other.example", "127.0.0.1")
	serve := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		host, _, _ := strings.Cut(r.Host, ":")
		w.asked = append(w.asked, r.Method+" "+host+" "+r.URL.Path)
		w.open++
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			w.open--
			w.mu.Unlock()
		}()
		handle(rw, r)
	})
	plain, secure := httptest.NewUnstartedServer(serve), httptest.NewUnstartedServer(serve)
	cert, roots := webtest.Certificate(t, "*.example", "localhost")
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}}
	plain.Start()
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	_, w.http, _ = net.SplitHostPort(plain.Listener.Addr().String())
	_, w.https, _ = net.SplitHostPort(secure.Listener.Addr().String())
	ranges := web.NewDepths().Of
	w.Client = &Client{
		Roots:    roots,
		resolver: w.names.Resolver(),
		depth: func(ip netip.Addr) web.Depth {
			if ip.Unmap() == netip.MustParseAddr("127.0.0.1") {
				return w.depth
			}
			return ranges(ip)
		},
	}
	w.again = &retry.Primitive{Inner: w.Client, Rules: library,
		Sleep: func(ctx context.Context, d time.Duration) error {
			w.waited = append(w.waited, d)
			return ctx.Err()
		}}
	for _, port := range []string{w.http, w.https} {
		w.hosts = append(w.hosts, "public.example:"+port)
	}
	return w
}

// Run runs an action as a chain does.
func (w *world) Run(ctx context.Context, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	return w.again.Run(ctx, a, to)
}

// library reads what the library says of failures.
func library(context.Context) (*classification.Rules, error) {
	b, err := fs.ReadFile(std.FS(), "config/"+classification.Name+".yaml")
	if err != nil {
		return nil, err
	}
	v, _ := files.YAML(b, place.Pos{})
	return classification.Read(v)
}

// url is the address of a path at a name that leads to the server.
func (w *world) url(scheme, host, path string) string {
	port := w.https
	if scheme == "http" {
		port = w.http
	}
	return scheme + "://" + host + ":" + port + path
}

func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

// left lists the requests that are still being answered.
func (w *world) left() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Repeat([]string{"a request"}, w.open)
}

// config is a configuration: names and values, one after the other.
func config(list ...any) map[string]any {
	c := map[string]any{}
	for i := 0; i < len(list); i += 2 {
		c[list[i].(string)] = list[i+1]
	}
	return c
}

func (w *world) action(c map[string]any) *primitive.Action {
	return &primitive.Action{Config: c, Sandbox: sandbox.Spec{Level: floor.Namespace,
		Network: sandbox.Network{Hosts: w.hosts, All: w.all}}}
}

// get runs an action at a path of public.example, by https.
func (w *world) get(t testing.TB, path string, list ...any) *primitive.Result {
	t.Helper()
	return w.run(t, w.url("https", "public.example", path), list...)
}

func (w *world) run(t testing.TB, url string, list ...any) *primitive.Result {
	t.Helper()
	c := config(list...)
	c["url"] = url
	r, err := w.Run(t.Context(), w.action(c), nil)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return r
}

// body returns what a result has as the body.
func body(r *primitive.Result) any { return r.Value.(map[string]any)["body"] }

func status(r *primitive.Result) int64 { return r.Value.(map[string]any)["status_code"].(int64) }

// A sink keeps what it gets, and fails from a number of calls on, if that isn't 0.
type sink struct {
	lines  []string
	enough int
}

var errEnough = fmt.Errorf("enough")

func (s *sink) Emit(_ primitive.Stream, b []byte) error {
	s.lines = append(s.lines, string(b))
	if len(s.lines) == s.enough {
		return errEnough
	}
	return nil
}

// raw answers with bytes of its own on the connection, and leaves it then, or only when the client is gone.
func raw(t testing.TB, rw http.ResponseWriter, answer string, leave bool) {
	conn, _, err := rw.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, answer); err == nil && !leave {
		io.Copy(io.Discard, conn)
	}
}
