package httpclient

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/lock/web/webtest"
)

// TestNoConnection: names and ports that lead nowhere, and servers that can't show who they are.
func TestNoConnection(t *testing.T) {
	w := newWorld(t, func(http.ResponseWriter, *http.Request) {})
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	free.Close()
	w.names.Lead("other.test", "127.0.0.1")
	w.hosts = append(w.hosts, "none.example", "public.example:"+port, "other.test:"+w.https)
	retry := config("max_attempts", int64(3))
	for url, c := range map[string]struct {
		why   string
		tries int
	}{
		"https://none.example":                 {`no connection to "none.example:443": `, 3},
		"https://public.example:" + port:       {"refused", 3},
		w.url("https", "other.test", "/"):      {"certificate is valid for *.example", 1},
		"https://public.example:" + w.http:     {"no connection to", 3},
		"http://public.example:" + w.https:     {"HTTP 400", 1},
		w.url("https", "public.example", "/x"): {"", 1},
	} {
		w.waited = nil
		r := w.run(t, url, "method", "POST", "retry", retry)
		if r.Failed != (c.why != "") || !strings.Contains(r.Failure, c.why) || len(w.waited) != c.tries-1 {
			t.Errorf("%s: %+v after %v", url, r, w.waited)
		}
		if strings.Contains(r.Failure, "no connection") &&
			(status(r) != 0 || len(r.Value.(map[string]any)["headers"].(map[string]any)) != 0 ||
				r.Usage["requests"] != 0) {
			t.Errorf("%s: %+v", url, r)
		}
	}
	_, w.Roots = webtest.Certificate(t)
	if r := w.get(t, "/", "retry", retry); !strings.Contains(r.Failure, "certificate") || len(w.requests()) != 1 {
		t.Errorf("%+v, %q", r, w.requests())
	}
}

// TestGrantError says what would have to be granted.
func TestGrantError(t *testing.T) {
	w := newWorld(t, func(http.ResponseWriter, *http.Request) {})
	for url, want := range map[string]string{
		"https://Third.example/a?secret": `the host "third.example:443" was not granted`,
		"http://[2606:4700::1]":          `the host "[2606:4700::1]:80" was not granted`,
	} {
		_, err := w.Run(t.Context(), w.action(config("url", url)), nil)
		if fault.CodeOf(err) != fault.Denied || err.Error() != want {
			t.Errorf("%v", err)
		}
	}
	w.hosts = nil
	_, err := w.Run(t.Context(), w.action(config("url", "https://a.example")), nil)
	if fault.CodeOf(err) != fault.Denied || err.Error() != `"a.example:443" needs the network, which was not granted` {
		t.Errorf("%v", err)
	}
}

// TestTime: less of what the configuration and the action allow, waits included; a cancelled wait is one.
func TestTime(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		<-r.Context().Done()
	})
	for _, c := range []struct {
		config any
		wall   time.Duration
		want   string
	}{
		{0.05, 0, "50ms"}, {0.05, time.Hour, "50ms"}, {int64(3600), 50 * time.Millisecond, "50ms"},
		{1e300, 50 * time.Millisecond, "50ms"}, {1e-9, 0, "1ms"},
	} {
		a := w.action(config("url", w.url("http", "public.example", "/"), "timeout", c.config))
		a.Sandbox.Limits.Wall = c.wall
		r, err := w.Run(t.Context(), a, nil)
		if err != nil || r.Ended != "timeout" || r.Failure != "no complete response within "+c.want {
			t.Errorf("%v: %+v, %v", c, r, err)
		}
	}
	q, err := newRequest(w.action(config("url", w.url("http", "public.example", "/"))), "")
	if err != nil || q.time != 30*time.Second || q.most != sandbox.DefaultLimits().Output {
		t.Errorf("%+v, %v", q, err)
	}
	w.again.Sleep = nil
	ctx, cancel := context.WithCancel(t.Context())
	a := w.action(config("url", w.url("http", "public.example", "/busy"), "timeout", int64(60), "retry",
		config("max_attempts", int64(2))))
	go func() {
		// The requests from above may still be coming in.
		for !slices.ContainsFunc(w.requests(), func(r string) bool { return strings.Contains(r, "/busy") }) {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if r, err := w.Run(ctx, a, nil); err != nil || r.Ended != "cancelled" ||
		!strings.HasSuffix(r.Failure, "cancelled") {
		t.Errorf("%+v, %v", r, err)
	}
	a = w.action(config("url", w.url("http", "public.example", "/busy"), "timeout", int64(60), "retry",
		config("max_attempts", int64(2))))
	if r, err := w.Run(t.Context(), a, nil); err != nil || !strings.HasPrefix(r.Failure, "after 2 tries: HTTP 503") ||
		r.Usage["wall_ms"] < 1000 {
		t.Errorf("%+v, %v", r, err)
	}
}
