package web

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestTransport: a protocol's own requests lead where Get's would, each redirect no further inside than the step before.
func TestTransport(t *testing.T) {
	w := newWorld(t, limits{}, func(rw http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(rw, r, to, http.StatusTemporaryRedirect)
			return
		}
		body, _ := io.ReadAll(r.Body)
		send("%s %s", r.Method, body)(rw, r)
	})
	w.names["inside.example"] = []string{"127.0.0.2"}
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
