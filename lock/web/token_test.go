package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
)

// TestToken: a token goes with the addresses that it is for, also when the server is asked again, and never where a
// redirect leads, were it the same host.
func TestToken(t *testing.T) {
	sent := map[string]string{}
	busy := true
	w := newWorld(t, limits{pauses: shortly()}, func(rw http.ResponseWriter, r *http.Request) {
		sent[r.Host[:strings.IndexByte(r.Host, ':')]+r.URL.Path] = r.Header.Get("Authorization")
		switch {
		case r.URL.Path == "/private/away":
			port := r.Host[strings.IndexByte(r.Host, ':'):]
			http.Redirect(rw, r, "https://other.example"+port+"/private/a", http.StatusFound)
		case r.URL.Path == "/private/back":
			http.Redirect(rw, r, "/private/a", http.StatusFound)
		case r.URL.Path == "/private/busy" && busy:
			busy = false
			rw.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/private/refused":
			rw.WriteHeader(http.StatusUnauthorized)
		default:
			send("hello")(rw, r)
		}
	})
	w.names.Lead("other.example", "127.0.0.1")
	failed := fault.New(fault.SessionExpired, "it has expired").Try("rye login")
	w.options.Token = func(_ context.Context, address string) (string, error) {
		switch {
		case strings.HasSuffix(address, "/expired"):
			return "", failed
		case strings.Contains(address, "public.example") && strings.Contains(address, "/private/"):
			return "secret", nil
		}
		return "", nil
	}
	for path, want := range map[string]map[string]string{
		"/a":            {"public.example/a": ""},
		"/private/a":    {"public.example/private/a": "Bearer secret"},
		"/private/busy": {"public.example/private/busy": "Bearer secret"},
		"/private/back": {"public.example/private/back": "Bearer secret", "public.example/private/a": ""},
		"/private/away": {"public.example/private/away": "Bearer secret", "other.example/private/a": ""},
	} {
		clear(sent)
		if text, _, err := w.read(t.Context(), w.url("public.example", path), 9); err != nil || text != "hello" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
		if fmt.Sprint(sent) != fmt.Sprint(want) {
			t.Errorf("%s: sent %v", path, sent)
		}
	}
	_, _, err := w.read(t.Context(), w.url("public.example", "/private/refused"), 9)
	if f := fault.Of(err); f.Code != fault.AuthFailed || len(f.Hint) != 1 ||
		!strings.HasPrefix(f.Hint[0], "rye login https://public.example") {
		t.Errorf("%v, %q", err, fault.Of(err).Hint)
	}
	_, _, err = w.read(t.Context(), w.url("public.example", "/private/expired"), 9)
	if !errors.Is(err, failed) || fault.CodeOf(err) != fault.SessionExpired {
		t.Errorf("%v", err)
	}
}
