package oauth

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestInside: what a server names may lie no further inside than the server itself.
func TestInside(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	c := newClient()
	for _, by := range []*http.Client{c.plain, c.guided} {
		answer, err := by.Get(s.URL)
		if err == nil {
			answer.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "127.0.0.1 is not on the internet") {
			t.Errorf("from the internet: %v", err)
		}
	}
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	c.within(t.Context(), at)
	answer, err := c.plain.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	c.within(t.Context(), &url.URL{Host: "no-such-host.invalid"})
}
