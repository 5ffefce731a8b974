package web

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"testing"
)

// TestReach wants the numbers that Get would dial, and its refusals.
func TestReach(t *testing.T) {
	w := newWorld(t, limits{depth: NewDepths().Of}, send("never"))
	w.names.Lead("company.example", "10.0.0.5")
	w.names.Lead("evil.example", "169.254.169.254")
	w.names.Lead("world.example", "8.8.8.8")
	for _, c := range []struct {
		address  string
		stranger bool
		inside   []string
		want     string
		reason   Reason
	}{
		{"https://world.example/r.git", true, nil, "8.8.8.8", ""},
		{"https://company.example/r.git", true, nil, "", Inside},
		{"https://company.example/r.git", false, nil, "10.0.0.5", ""},
		{"https://company.example/r.git", true, []string{"company.example"}, "10.0.0.5", ""},
		{"https://company.example:8443/r.git", true, []string{"company.example:8443"}, "10.0.0.5", ""},
		{"https://company.example:8443/r.git", true, []string{"company.example:443"}, "", Inside},
		{"https://evil.example/r.git", false, nil, "", Inside},
		{"https://169.254.169.254/r.git", true, nil, "", Inside},
		{"https://127.0.0.1/r.git", true, nil, "", Inside},
		{"https://127.0.0.1/r.git", true, []string{"127.0.0.1"}, "127.0.0.1", ""},
		{"https://127.0.0.1/r.git", false, nil, "127.0.0.1", ""},
		{"https://0.0.0.1/r.git", false, nil, "", Nowhere},
		{"http://world.example/r.git", false, nil, "", NotHTTPS},
	} {
		w.options.Stranger, w.options.Inside = c.stranger, c.inside
		found, err := w.Reach(t.Context(), c.address)
		text := ""
		for _, a := range found {
			if text != "" {
				text += " "
			}
			text += a.String()
		}
		refused, _ := errors.AsType[*RefusedError](err)
		if text != c.want || (err == nil) != (c.reason == "") || err != nil &&
			(refused == nil || refused.Reason != c.reason) {
			t.Errorf("%+v: %q, %v", c, text, err)
		}
		if c.reason == Inside && c.stranger && refused.Unnamed == "" {
			t.Errorf("%+v: nothing says what would allow it", c)
		}
	}
	w.options.Stranger, w.options.Inside = true, nil
	if _, err := w.Reach(t.Context(), "https://none.example/"); err == nil {
		t.Error("a name that leads nowhere")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Reach(ctx, "https://world.example/"); !errors.Is(err, context.Canceled) {
		t.Errorf("broken off: %v", err)
	}
	if len(w.requests()) > 0 {
		t.Errorf("asked for %q", w.requests())
	}

	// A proxy looks the name up itself. A number that is inside isn't even asked of it.
	w.proxy = func(*url.URL) (*url.URL, error) { return url.Parse("http://proxy.example:3128") }
	if found, err := w.Reach(t.Context(), "https://company.example/"); err != nil ||
		!slices.Equal(found, []netip.Addr(nil)) {
		t.Errorf("through a proxy: %v, %v", found, err)
	}
	if _, err := w.Reach(t.Context(), "https://10.0.0.5/"); err == nil {
		t.Error("a number of the inside through a proxy")
	}
	w.proxy = func(*url.URL) (*url.URL, error) { return nil, errProxy }
	if _, err := w.Reach(t.Context(), "https://world.example/"); !errors.Is(err, errProxy) {
		t.Errorf("a proxy that is none: %v", err)
	}
}
