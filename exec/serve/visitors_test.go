package serve_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/serve"
)

// TestVisitors: a path without a token answers visitors, but none whose browser was led here from another site, and no
// address more often than the rate. A stranger could otherwise keep the server from those who have tokens.
func TestVisitors(t *testing.T) {
	w := start(t, ok, func(o *serve.Options) { o.Rate = 2 })
	visit := func(edit func(*http.Request)) (int, string, string) {
		r, body := w.do("GET", "/open", func(r *http.Request) {
			r.Header.Del("Authorization")
			r.Close = true // a connection for each
			if edit != nil {
				edit(r)
			}
		})
		return r.StatusCode, r.Header.Get("Retry-After"), body
	}
	for name, edit := range map[string]func(*http.Request){
		"another host": func(r *http.Request) { r.Host = "evil.example" },
		"another site": func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
	} {
		if status, _, body := visit(edit); status != 403 || code(body) != "PERMISSION_DENIED" {
			t.Error(name, status, body)
		}
	}
	for range 2 {
		if status, _, body := visit(nil); status != 200 || body != "open" {
			t.Error(status, body)
		}
	}
	if status, after, body := visit(nil); status != 429 || after != "30" || code(body) != "RATE_LIMITED" {
		t.Error(status, after, body)
	}
	if r, body := w.do("GET", "/do", nil); r.StatusCode != 200 {
		t.Error("visitors count for a token: ", r.Status, body)
	}
	w.mu.Lock()
	w.now = w.now.Add(30 * time.Second)
	w.mu.Unlock()
	if status, _, body := visit(nil); status != 200 {
		t.Error(status, body)
	}
}

// TestVisitorsOfProxy: behind a proxy all visitors have its address, so that one can't use up the rate of the others.
func TestVisitorsOfProxy(t *testing.T) {
	w := start(t, ok, func(o *serve.Options) { o.Rate, o.Proxied, o.Hosts = 1, true, []string{"rye.example"} })
	for range 3 {
		if r, body := w.do("GET", "/open", nil); r.StatusCode != 200 {
			t.Error(r.Status, body)
		}
	}
}
