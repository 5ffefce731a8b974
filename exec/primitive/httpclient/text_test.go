package httpclient

import (
	"net/http"
	"strings"
	"testing"
)

// TestText: a body as text, with its facts; a body that is cut doesn't exceed the limit.
func TestText(t *testing.T) {
	var agent string
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		agent = r.UserAgent()
		switch r.URL.Path {
		case "/json":
			rw.Write([]byte(` {"a": 1}`))
		case "/much":
			rw.Write([]byte("x" + strings.Repeat("ä", 600)))
		case "/odd":
			rw.Write([]byte(strings.Repeat("\x80", 600)))
		case "/to":
			rw.Header().Set("Location", "json?q=1")
			rw.WriteHeader(http.StatusFound)
		case "/none":
			rw.WriteHeader(http.StatusNotFound)
		case "/short":
			raw(t, rw, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", true)
		}
	})
	for path, c := range map[string]struct {
		cut    any
		body   string
		bytes  int64
		url    string
		short  bool
		failed bool
	}{
		"/json":  {nil, ` {"a": 1}`, 9, "/json", false, false},
		"/to":    {5.0, ` {"a"`, 5, "/json?q=1", true, false},
		"/much":  {10.0, "xääää", 9, "/much", true, false},
		"/odd":   {10.0, strings.Repeat("\ufffd", 1), 6, "/odd", true, false},
		"/none":  {10.0, "", 0, "/none", false, true},
		"/short": {100.0, "", 0, "/short", false, true},
	} {
		list := []any{"output", "text"}
		if c.cut != nil {
			list = append(list, "cut_after", c.cut)
		}
		r := w.get(t, path, list...)
		v := r.Value.(map[string]any)
		said, _ := v["body"].(string)
		if r.Failed != c.failed || said != c.body || v["bytes"] != c.bytes || v["truncated"] != c.short ||
			!strings.HasSuffix(v["url"].(string), c.url) {
			t.Errorf("%s: %+v", path, r)
		}
	}
	if r := w.get(t, "/much", "output", "text", "cut_after", 1201.0); r.Value.(map[string]any)["truncated"] != false {
		t.Errorf("%+v", r)
	}
	// What is cut beyond what may come out isn't cut but too much.
	a := w.action(config("url", w.url("https", "public.example", "/much"), "output", "text", "cut_after", 1000.0))
	a.Sandbox.Limits.Output = 500
	if r, err := w.Run(t.Context(), a, nil); err != nil || r.Ended != "output" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := w.Run(t.Context(), w.action(config("url", w.url("https", "public.example", "/"), "output", "xml")),
		nil); err == nil ||
		err.Error() != `invalid output "xml": expected json or text` {
		t.Error(err)
	}
	if w.get(t, "/json"); agent != "rye" {
		t.Errorf("it calls itself %q", agent)
	}
	w.Agent = "rye/1.2.3"
	if w.get(t, "/json"); agent != "rye/1.2.3" {
		t.Errorf("it calls itself %q", agent)
	}
}
