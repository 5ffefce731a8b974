package door_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry/rows"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/tlog"
)

// TestMetrics: requests are counted by route, and the numbers need a token where a proxy may have passed on a request
// of another machine.
func TestMetrics(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/registry.yaml", "/index/acme/none.yaml", "/index/acme/none2.yaml", "/v1/whoami"} {
		s.get(path, nil)
	}
	resp, text := s.get("/metrics", nil)
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Errorf("%d, %v", resp.StatusCode, resp.Header)
	}
	for _, line := range []string{`ryed_requests_total{route="/registry.yaml",status="200"} 1`,
		`ryed_requests_total{route="/index/",status="404"} 2`,
		`ryed_requests_total{route="GET /v1/whoami",status="401"} 1`,
		`ryed_request_duration_seconds_count{route="/index/"} 2`} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	for name, c := range map[string]struct {
		header, value, token string
		status               int
	}{
		"no token":      {"X-Forwarded-For", "192.0.2.1", "", 401},
		"another one":   {"X-Forwarded-For", "192.0.2.1", "Bearer ryem_other", 401},
		"an empty one":  {"Forwarded", "for=192.0.2.1", "Bearer ", 401},
		"its token":     {"X-Forwarded-For", "192.0.2.1", "Bearer ryem_secret", 200},
		"of no machine": {"X-Forwarded-For", "", "", 200},
	} {
		resp, body := s.get("/metrics", func(r *http.Request) {
			r.Header.Set(c.header, c.value)
			if c.token != "" {
				r.Header.Set("Authorization", c.token)
			}
		})
		if resp.StatusCode != c.status || c.status != 200 && strings.Contains(body, "ryed_") {
			t.Errorf("%s: %d, %s", name, resp.StatusCode, body)
		}
	}
	if err := s.rows.Update(t.Context(), func(in rows.Writer) error {
		in.Put("log/public", []byte(`{"size":"large"}`))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if resp, _ := s.get("/metrics", nil); resp.StatusCode != 500 {
		t.Errorf("rows that can't be read: %d", resp.StatusCode)
	}
}

// TestSeen: a client shows what it has seen of the log; only what the log has signed counts.
func TestSeen(t *testing.T) {
	s := newSite(t)
	ada := s.session("ada")
	if _, err := ada.Claim(t.Context(), "acme", client.Claim{}); err != nil {
		t.Fatal(err)
	}
	_, checkpoint := s.get("/log/checkpoint", nil)
	show := func(text string) (int, string) {
		resp, err := http.Post(s.url+"/v1/seen", "text/plain", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	if status, body := show(checkpoint); status != 200 || !strings.Contains(body,
		`"data":{"seen":1,"entries":1,"signing":true}`) {
		t.Errorf("%d, %s", status, body)
	}
	if status, body := show("nonsense"); status != 422 {
		t.Errorf("%d, %s", status, body)
	}
	if status, body := show(strings.Repeat("x", 1<<20)); status != 413 {
		t.Errorf("%d, %s", status, body)
	}
	other, err := tlog.Sign(s.Registry.Log(), keytest.Seeded(1), 5, tlog.Hash{1})
	if err != nil {
		t.Fatal(err)
	}
	if status, body := show(string(other)); status != 409 || !strings.Contains(body, "ROLLBACK_DETECTED") {
		t.Errorf("%d, %s", status, body)
	}
	_, err = ada.Claim(t.Context(), "another", client.Claim{})
	wants(t, err, fault.Rollback, "lost entries")
	if resp, _ := s.get("/log/checkpoint", nil); resp.StatusCode != 200 {
		t.Error("what was shown before isn't served any more")
	}
}
