package web

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rye-build/rye/lock/web/webtest"
)

// TestTransport: a protocol's own requests lead where Get's would, each redirect no further inside than the step
// before.
func TestTransport(t *testing.T) {
	w := newWorld(t, limits{}, func(rw http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(rw, r, to, http.StatusTemporaryRedirect)
			return
		}
		body, _ := io.ReadAll(r.Body)
		send("%s %s", r.Method, body)(rw, r)
	})
	w.names.Lead("inside.example", "127.0.0.2")
	client := &http.Client{Transport: w.Transport()}
	for _, c := range []struct{ address, want string }{
		{w.url("public.example", "/"), "POST body"},
		{w.url("public.example", "/?to="+w.url("public.example", "/x")), "POST body"},
		{w.url("public.example", "/?to="+w.url("inside.example", "/x")), "a local or private address"},
		{w.url("public.example", "/?to="+w.url("127.0.0.1", "/x")), "a local or private address"},
	} {
		resp, err := client.Post(c.address, "text/plain", strings.NewReader("body"))
		got := ""
		if err == nil {
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			got = string(b)
		} else {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.address, got, c.want)
		}
	}
}

// TestStranger: a server that can't show who it is.
func TestStranger(t *testing.T) {
	w := newWorld(t, limits{}, send("never"))
	w.names.Lead("other.test", "127.0.0.1")
	_, stranger := webtest.Certificate(t)
	other := newClient(Options{Roots: stranger, Proxy: noProxy}, w.limits)
	_, _, byRoot := other.Get(t.Context(), w.url("public.example", "/"), 9)
	_, _, byName := w.Get(t.Context(), w.url("other.test", "/"), 9)
	for _, err := range []error{byRoot, byName} {
		if connect := (*ConnectError)(nil); !errors.As(err, &connect) ||
			!strings.Contains(err.Error(), "certificate") {
			t.Errorf("%v", err)
		}
	}
	if n := len(w.requests()); n > 0 {
		t.Errorf("%d requests", n)
	}
}
