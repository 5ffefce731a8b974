package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/mcp/mcptest"
	"github.com/rye-build/rye/exec/primitive/primitivetest"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// A web is a server over HTTP.
type webServer struct {
	*httptest.Server
	open     atomic.Int64 // requests that are being answered, without streams for notices
	requests atomic.Int64
}

func serve(t testing.TB, h http.Handler) *webServer {
	w := new(webServer)
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.requests.Add(1)
		if r.Method == http.MethodPost {
			b, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(b)))
			if strings.Contains(string(b), `"tools/call"`) {
				w.open.Add(1)
				defer w.open.Add(-1)
			}
		}
		h.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.Close)
	return w
}

// action is one that asks the server what it has.
func (w *webServer) action() *primitive.Action {
	return &primitive.Action{
		Config: map[string]any{"transport": "http", "url": w.URL + "/mcp", "timeout": int64(300)},
		Links:  []string{"tool:mcp/t/x", "tool:mcp/servers/t", "tool:r", "tool:p"},
		Sandbox: sandbox.Spec{Level: floor.Limits,
			Network: sandbox.Network{Hosts: []string{strings.TrimPrefix(w.URL, "http://")}}},
	}
}

func (w *webServer) calling(t testing.TB, definition, tool string, args map[string]any) *primitive.Action {
	a := w.action()
	text, err := jcs.Append(nil, args)
	if err != nil {
		t.Fatal(err)
	}
	a.Config["tool_name"], a.Config["definition"], a.Config["arguments"] = tool, definition, string(text)
	return a
}

func TestHTTP(t *testing.T) {
	w := serve(t, mcptest.Handler(mcptest.Options{}))
	definitions := definitionsOf(t, w.action())
	call := func(t testing.TB, tool string, args map[string]any) *primitive.Action {
		return w.calling(t, definitions[tool], tool, args)
	}
	with := func(name string, v any) func(testing.TB) *primitive.Action {
		return func(t testing.TB) *primitive.Action {
			a := call(t, "echo", nil)
			a.Config[name] = v
			return a
		}
	}
	primitivetest.Test(t, primitivetest.Subject{
		Primitive: client(t),
		Value: func(t testing.TB, v any) *primitive.Action {
			return call(t, "give", map[string]any{"value": v})
		},
		Extract: func(v any) any { return v.(map[string]any)["value"] },
		Fails: func(t testing.TB, reason string) *primitive.Action {
			return call(t, "fail", map[string]any{"text": reason})
		},
		Stream: func(t testing.TB, n int) (*primitive.Action, []byte) {
			return call(t, "print", map[string]any{"bytes": n}),
				[]byte(strings.TrimSuffix(mcptest.Text(n), "\n") + "\n")
		},
		Forever: func(t testing.TB) primitivetest.Endless {
			path := filepath.Join(sandboxtest.Dir(t), "begun")
			return primitivetest.Endless{
				Action: call(t, "wait", map[string]any{"path": path, "polite": true}),
				Begun:  func() bool { return there(path) },
				Left:   func() []string { return slices.Repeat([]string{"a request"}, int(w.open.Load())) },
			}
		},
		Wrong: map[string]func(testing.TB) *primitive.Action{
			"no url":                         with("url", ""),
			"another scheme":                 with("url", "ftp://127.0.0.1/"),
			"a password":                     with("url", "http://me:pass@127.0.0.1/"),
			"a header of transfers":          with("headers", map[string]any{"Content-Length": "1"}),
			"a header of the protocol":       with("headers", map[string]any{"mcp-session-id": "1"}),
			"a header that is no text":       with("headers", map[string]any{"X": int64(1)}),
			"a header with a line":           with("headers", map[string]any{"X": "a\r\nB: c"}),
			"a host that isn't granted":      with("url", "http://127.0.0.1:1/"),
			"a tool with another definition": with("definition", definitions["give"]),
		},
		Tries: map[string]primitivetest.Try{
			"reach a server": func(t testing.TB, granted bool) (*primitive.Action, func() bool) {
				a := call(t, "echo", nil)
				before := w.requests.Load()
				if !granted {
					a.Sandbox.Network = sandbox.Network{All: true} // this machine isn't part of that
				}
				return a, func() bool { return w.requests.Load() > before }
			},
		},
	})
}

// A session that the server has forgotten is begun again. A server that has changed isn't called.
func TestSession(t *testing.T) {
	var current atomic.Pointer[http.Handler]
	set := func(o mcptest.Options) {
		h := old(mcptest.Handler(o))
		current.Store(&h)
	}
	set(mcptest.Options{})
	w := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		(*current.Load()).ServeHTTP(rw, r)
	}))
	definitions := definitionsOf(t, w.action())
	c := client(t)
	echo := func() (*primitive.Result, error) {
		return c.Run(t.Context(), w.calling(t, definitions["echo"], "echo", map[string]any{"text": "a"}), nil)
	}
	for range 2 {
		if r, err := echo(); err != nil || r.Value != "a" {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	set(mcptest.Options{})
	if r, err := echo(); err != nil || r.Value != "a" {
		t.Fatalf("%+v, %v", r, err)
	}
	set(mcptest.Options{Description: "another"})
	if r, err := echo(); fault.CodeOf(err) != fault.LockMismatch {
		t.Fatalf("%+v, %v", r, err)
	}
}

// old is a server without the newest revision of the protocol, which has no sessions.
func old(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if strings.Contains(string(b), `"server/discover"`) {
			var q struct{ ID json.RawMessage }
			_ = json.Unmarshal(b, &q)
			rw.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}`, q.ID)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(b)))
		h.ServeHTTP(rw, r)
	})
}

// A secret of one server reaches no other.
func TestToken(t *testing.T) {
	var seen sync.Map
	other := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Get("Authorization"), true)
	}))
	inner := mcptest.Handler(mcptest.Options{})
	var redirect atomic.Bool
	w := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer canary":
			rw.WriteHeader(http.StatusUnauthorized)
		case redirect.Load() && r.URL.Path == "/mcp":
			http.Redirect(rw, r, other.URL+"/", http.StatusTemporaryRedirect)
		case r.URL.Path == "/mcp":
			http.Redirect(rw, r, "/elsewhere", http.StatusTemporaryRedirect)
		default:
			inner.ServeHTTP(rw, r)
		}
	}))
	c := client(t)
	a := w.action()
	r := run(t, c, a, nil)
	if !r.Failed || r.Trouble == nil || r.Trouble.Status != http.StatusUnauthorized ||
		!strings.Contains(r.Failure, "Unauthorized") {
		t.Errorf("%+v", r)
	}
	a.Config["headers"] = map[string]any{"Authorization": "Bearer canary"}
	if r = run(t, c, a, nil); r.Failed {
		t.Errorf("%+v", r)
	}
	redirect.Store(true)
	a.Sandbox.Network.Hosts = append(a.Sandbox.Network.Hosts, strings.TrimPrefix(other.URL, "http://"))
	if r = run(t, c, a, nil); !r.Failed || !strings.Contains(r.Failure, "redirects to another server") ||
		strings.Contains(r.Failure, "/mcp") {
		t.Errorf("%+v", r)
	}
	seen.Range(func(k, _ any) bool {
		t.Errorf("the other server got a request with %q", k)
		return true
	})
}

// The headers of a server go to its origin and to no other, wherever it redirects requests to.
func TestHeaders(t *testing.T) {
	var others atomic.Int64
	other := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { others.Add(1) }))
	inner := mcptest.Handler(mcptest.Options{})
	var to atomic.Pointer[string]
	var status, own atomic.Int64
	var w *webServer
	w = serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case "http://"+r.Host != w.URL || r.URL.Path == "/taken":
			others.Add(1)
		case r.Header.Get("X-Tenant") != "acme" || r.Header.Get("Authorization") != "Bearer canary":
			t.Errorf("%s %s without its headers: %v", r.Method, r.URL, r.Header)
		case r.URL.Path == "/mcp":
			rw.Header().Set("Location", *to.Load())
			rw.WriteHeader(int(status.Load()))
			return
		default:
			own.Add(1)
		}
		inner.ServeHTTP(rw, r)
	}))
	_, port, _ := strings.Cut(strings.TrimPrefix(w.URL, "http://"), ":")
	a := w.action()
	a.Config["headers"] = map[string]any{"x-tenant": "acme", "Authorization": "Bearer canary"}
	a.Sandbox.Network.Hosts = append(a.Sandbox.Network.Hosts, strings.TrimPrefix(other.URL, "http://"),
		"localhost:"+port)
	c := client(t)
	for _, target := range []string{"/elsewhere", w.URL + "/elsewhere", "//127.0.0.1:" + port + "/elsewhere"} {
		own.Store(0)
		to.Store(&target)
		status.Store(http.StatusPermanentRedirect)
		if r := run(t, c, a, nil); r.Failed || own.Load() == 0 {
			t.Errorf("%s: %+v", target, r)
		}
	}
	for _, code := range []int64{301, 302, 303, 307, 308} {
		for _, target := range []string{other.URL + "/", "//" + strings.TrimPrefix(other.URL, "http://") + "/mcp",
			"http://localhost:" + port + "/taken", "https://127.0.0.1:" + port + "/taken", "http://127.0.0.1/taken",
			strings.Replace(other.URL, "//", "//127.0.0.1:"+port+"@", 1)} {
			to.Store(&target)
			status.Store(code)
			if r := run(t, c, a, nil); !r.Failed || !strings.Contains(r.Failure, "redirect") {
				t.Errorf("%d to %s: %+v", code, target, r)
			}
		}
	}
	if n := others.Load(); n > 0 {
		t.Errorf("other origins got %d requests", n)
	}
}

// A token that lacks a scope is an error that says how to get one that has it.
func TestScope(t *testing.T) {
	w := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="a b"`)
		rw.WriteHeader(http.StatusForbidden)
	}))
	r := run(t, client(t), w.action(), nil)
	if !r.Failed || !strings.HasSuffix(r.Failure,
		`Forbidden: the token lacks a scope: rye auth login --scope "a b"`) ||
		r.Trouble.Status != http.StatusForbidden {
		t.Errorf("%+v", r)
	}
}

// Servers over HTTP that don't behave.
func TestHostileHTTP(t *testing.T) {
	deed := func(method string, deed http.HandlerFunc) http.Handler {
		inner := mcptest.Handler(mcptest.Options{})
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(b)))
			if strings.Contains(string(b), `"`+method+`"`) {
				deed(rw, r)
				return
			}
			inner.ServeHTTP(rw, r)
		})
	}
	stream := func(rw http.ResponseWriter) { rw.Header().Set("Content-Type", "text/event-stream") }
	endless := func(rw http.ResponseWriter, block string) {
		for {
			if _, err := io.WriteString(rw, block); err != nil {
				return
			}
		}
	}
	echo := definitions(t)["echo"]
	for name, c := range map[string]struct {
		deed       http.HandlerFunc
		why, ended string
		status     int
	}{
		"status": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(500)
		}, "Internal Server Error", "", 500},
		"busy": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Retry-After", "7")
			rw.WriteHeader(429)
		}, "Too Many Requests", "", 429},
		"file": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Location", "file:///etc/passwd")
			rw.WriteHeader(307)
		}, `the server redirects to an address of the scheme "file"`, "", 0},
		"html": {func(rw http.ResponseWriter, _ *http.Request) {
			io.WriteString(rw, "<html>")
		}, "unsupported content type", "", 0},
		"no JSON": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			io.WriteString(rw, "{")
		}, "failed to decode response", "", 0},
		"long": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			endless(rw, strings.Repeat(" ", 1<<16))
		}, "a message of more than 4194304 bytes", "message", 0},
		"long event": {func(rw http.ResponseWriter, _ *http.Request) {
			stream(rw)
			io.WriteString(rw, "data: ")
			endless(rw, strings.Repeat("x", 1<<16))
		}, "4194304 bytes", "message", 0},
		"comments": {func(rw http.ResponseWriter, _ *http.Request) {
			stream(rw)
			endless(rw, ": x\n\n")
		}, "did not answer within 300ms", "timeout", 0},
		"notices": {func(rw http.ResponseWriter, _ *http.Request) {
			stream(rw)
			endless(rw, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
		}, "did not answer within 300ms", "timeout", 0},
		"silent": {func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, "did not answer within 300ms", "timeout", 0},
		"no answer": {func(rw http.ResponseWriter, _ *http.Request) {
			stream(rw)
			io.WriteString(rw, ": x\n\n")
		}, "request terminated without response", "", 0},
		"reset": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "no connection: ", "", 0},
		"deep": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			io.WriteString(rw, strings.Repeat("[", 1<<20))
		}, "depth", "", 0},
	} {
		for _, method := range []string{"tools/call", "tools/list"} {
			t.Run(strings.ReplaceAll(name, " ", "_")+"/"+strings.TrimPrefix(method, "tools/"), func(t *testing.T) {
				w := serve(t, deed(method, c.deed))
				w.Config.ErrorLog = nil
				client := client(t)
				a := w.calling(t, echo, "echo", map[string]any{"text": "a"})
				if c.ended == "timeout" {
					a.Sandbox.Limits.Wall = 300 * time.Millisecond
				}
				r, err := client.Run(t.Context(), a, nil)
				if err != nil || !r.Failed || r.Ended != c.ended || !strings.Contains(r.Failure, c.why) {
					t.Fatalf("%+v, %v; want %q, %q", r, err, c.why, c.ended)
				}
				if c.status != 0 && (r.Trouble == nil || r.Trouble.Status != c.status) {
					t.Errorf("%+v", r.Trouble)
				}
			})
		}
	}
	r := run(t, client(t), &primitive.Action{
		Config:  map[string]any{"transport": "http", "url": "http://127.0.0.1:1/?key=canary"},
		Sandbox: sandbox.Spec{Network: sandbox.Network{Hosts: []string{"127.0.0.1:1"}}},
	}, nil)
	if !r.Failed || !strings.Contains(r.Failure, "no connection: ") || strings.Contains(r.Failure, "canary") ||
		!r.Trouble.Undone {
		t.Errorf("%+v", r)
	}
}
