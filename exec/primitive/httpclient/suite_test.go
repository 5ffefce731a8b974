package httpclient

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/primitivetest"
	"github.com/rye-build/rye/exec/sandbox"
)

// events returns a stream of at least n bytes, and the output for it.
func events(n int) (stream, told []byte) {
	for i := 0; len(told) < n; i++ {
		stream = fmt.Appendf(stream, "data: {\"n\": %d,\ndata: \"text\": \"%0900d\"}\n\n", i, i)
		told = fmt.Appendf(told, "{\"data\":{\"n\":%d,\"text\":\"%0900d\"}}\n", i, i)
	}
	return stream, told
}

// play is the server that the suite asks.
func play(rw http.ResponseWriter, r *http.Request) {
	what, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch what {
	case "echo":
		// The body is a list of what is wanted back, which may be null.
		b, _ := io.ReadAll(r.Body)
		rw.Write(b[1 : len(b)-1])
	case "no":
		rw.WriteHeader(http.StatusConflict)
		io.Copy(rw, r.Body)
	case "events":
		n, _ := strconv.Atoi(rest)
		stream, _ := events(n)
		rw.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		rw.Write(stream)
	case "forever":
		rw.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(rw, "data: x\n\n")
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	case "to":
		http.Redirect(rw, r, "http://"+rest, http.StatusFound)
	}
}

func TestPrimitive(t *testing.T) { holds(t, false) }

// TestResilient: what is put around it promises the same.
func TestResilient(t *testing.T) { holds(t, true) }

func holds(t *testing.T, with bool) {
	w := newWorld(t, play)
	w.Client.depth = nil // the server is on this machine, and granted as that
	host := "127.0.0.1:" + w.http
	action := func(path string, list ...any) *primitive.Action {
		c := config(list...)
		c["url"], c["timeout"] = "http://"+host+path, int64(300)
		if with {
			c["resilience"] = config("retry", config("max_attempts", int64(3)), "breaker",
				config("failures", int64(1000)), "rate", config("per_second", 1e6, "burst", int64(1000)))
		}
		a := w.action(c)
		a.Sandbox.Network.Hosts = []string{host}
		return a
	}
	primitivetest.Test(t, primitivetest.Subject{
		Primitive: map[bool]primitive.Primitive{false: w.Client, true: w.again}[with],
		Value: func(_ testing.TB, v any) *primitive.Action {
			return action("/echo", "method", "POST", "body", []any{v})
		},
		Extract: func(v any) any { return v.(map[string]any)["body"] },
		Fails: func(_ testing.TB, reason string) *primitive.Action {
			return action("/no", "method", "PUT", "body", map[string]any{"error": reason})
		},
		Stream: func(_ testing.TB, n int) (*primitive.Action, []byte) {
			_, told := events(n)
			return action(fmt.Sprint("/events/", n), "mode", "stream"), told
		},
		Forever: func(testing.TB) primitivetest.Endless {
			before := len(w.requests())
			return primitivetest.Endless{
				Action: action("/forever", "mode", "stream"),
				Begun:  func() bool { return len(w.requests()) > before },
				Left:   w.left,
			}
		},
		Wrong: impossible(action),
		Tries: tries(w, host),
	})
}

func impossible(action func(string, ...any) *primitive.Action) map[string]func(testing.TB) *primitive.Action {
	with := func(list ...any) func(testing.TB) *primitive.Action {
		return func(testing.TB) *primitive.Action { return action("/wrong", list...) }
	}
	at := func(url any) func(testing.TB) *primitive.Action {
		return func(testing.TB) *primitive.Action {
			a := action("")
			a.Sandbox.Network.All = true
			a.Config["url"] = url
			return a
		}
	}
	line := func(name string, value any) func(testing.TB) *primitive.Action {
		return with("headers", map[string]any{name: value})
	}
	auth := func(list ...any) func(testing.TB) *primitive.Action { return with("auth", config(list...)) }
	all := map[string]func(testing.TB) *primitive.Action{
		"no url":                    at(nil),
		"a url that is a number":    at(int64(1)),
		"a name and password":       at("https://me:secret@public.example/"),
		"an open bracket":           at("http://[::1/"),
		"a zone":                    at("http://[fe80::1%25eth0]/"),
		"no port":                   at("http://public.example:/"),
		"port 0":                    at("http://public.example:0/"),
		"port 65536":                at("http://public.example:65536/"),
		"a port with a 0 before it": at("http://public.example:0443/"),
		"another script":            at("http://exämple.example/"),
		"an empty label":            at("http://a..example/"),
		"an opaque url":             at("http:public.example"),
		"a long url":                at("http://public.example/" + strings.Repeat("x", 9000)),
		"another method":            with("method", "CONNECT"),
		"another mode":              with("mode", "fast"),
		"no credential":             auth("type", "bearer"),
		"a credential of two lines": auth("type", "bearer", "token", "a\r\nHost: evil"),
		"auth of another type":      auth("type", "basic"),
		"an empty key":              auth("type", "api_key", "key", ""),
		"a key in no line":          auth("type", "api_key", "key", "x", "header", "a b"),
		"a key as Host":             auth("type", "api_key", "key", "x", "header", "host"),
		"a token twice": with("auth", config("type", "bearer", "token", "x"), "headers",
			config("authorization", "y")),
		"a line twice":            with("headers", config("X-A", "1", "x-a", "2")),
		"a line that is a number": line("X-A", int64(1)),
		"a line without a name":   line("", "x"),
		"a line with a colon":     line("X:", "x"),
		"a line with a long name": line(strings.Repeat("x", 101), "x"),
		"a value of two lines":    line("X-A", "1\nX-B: 2"),
		"a value with a NUL":      line("X-A", "\x00"),
		"no network": func(testing.TB) *primitive.Action {
			a := action("/wrong")
			a.Sandbox.Network = sandbox.Network{}
			return a
		},
		"another port": func(testing.TB) *primitive.Action {
			a := action("/wrong")
			a.Sandbox.Network.Hosts = []string{"127.0.0.1", "localhost"}
			return a
		},
	}
	for _, scheme := range []string{"file", "ftp", "unix", "ws", "javascript", ""} {
		all["the scheme "+scheme] = at(scheme + "://public.example/")
	}
	for _, name := range slices.Concat(carried, []string{"proxy-authorization", "HOST"}) {
		all["the line "+name] = line(name, "x")
	}
	// With all of the network granted, the inside is not: however the number is written.
	for _, host := range []string{
		"127.0.0.1", "127.1.2.3", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "[fe80::1]", "10.0.0.1",
		"192.168.1.1", "[fd00::1]", "[64:ff9b::a9fe:a9fe]",
		"[2002:7f00:1::]", "0.0.0.0", "[::]", "224.0.0.1", "255.255.255.255",
	} {
		all["the inside: "+host] = func(testing.TB) *primitive.Action {
			a := action("")
			a.Sandbox.Network = sandbox.Network{All: true}
			a.Config["url"] = "http://" + host + strings.TrimPrefix(action("").Config["url"].(string),
				"http://127.0.0.1")
			return a
		}
	}
	return all
}

// tries are requests that the server records.
func tries(w *world, host string) map[string]primitivetest.Try {
	n := 0
	// try requests an address with its own path, which replaces {}.
	try := func(format string, without, with sandbox.Network) primitivetest.Try {
		return func(_ testing.TB, granted bool) (*primitive.Action, func() bool) {
			n++
			path := fmt.Sprint("/done/", n)
			a := w.action(config("url", strings.ReplaceAll(format, "{}", path)))
			a.Sandbox.Network = without
			if granted {
				a.Sandbox.Network = with
			}
			return a, func() bool {
				return slices.ContainsFunc(w.requests(), func(r string) bool { return strings.HasSuffix(r, " "+path) })
			}
		}
	}
	hosts := func(list ...string) sandbox.Network { return sandbox.Network{Hosts: list} }
	plain := "http://" + host
	local := "localhost:" + w.http
	return map[string]primitivetest.Try{
		"reach a host":                   try(plain+"{}", sandbox.Network{}, hosts(host)),
		"reach this machine":             try(plain+"{}", sandbox.Network{All: true}, hosts(host)),
		"reach this machine by its name": try("http://"+local+"{}", sandbox.Network{All: true}, hosts(local)),
		"reach another port": try(plain+"{}", hosts("127.0.0.1", "127.0.0.1:1"),
			hosts("127.0.0.1:"+w.http)),
		"be sent to another host": try(plain+"/to/"+local+"{}", hosts(host), hosts(host, local)),
		"lead a name here": try("http://public.example:"+w.http+"{}", hosts("public.example:"+w.http),
			hosts("public.example:"+w.http, host)),
		"lead a name here by https": try("https://public.example:"+w.https+"{}", hosts("public.example:"+w.https),
			hosts("public.example:"+w.https, "127.0.0.1:"+w.https)),
	}
}
