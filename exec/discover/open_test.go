package discover_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/discover"
	"github.com/rye-build/rye/exec/primitive/mcp/mcptest"
)

// TestOpen: a server on this machine may be reached by http, if its address is typed as such; nothing else may.
func TestOpen(t *testing.T) {
	server := httptest.NewServer(mcptest.Skills())
	defer server.Close()
	for _, address := range []string{server.URL, strings.Replace(server.URL, "127.0.0.1", "localhost", 1)} {
		s, err := discover.Open(t.Context(), "mcp+"+address+"/good", "test")
		if err != nil {
			t.Fatal(err)
		}
		all, err := s.List(t.Context())
		if err != nil || len(all) != 2 {
			t.Errorf("%s: %v, %v", address, all, err)
		}
		if one, err := discover.Choose(all, "greet"); err != nil || one.URI != "skill://greet/SKILL.md" {
			t.Errorf("%s: %v, %v", address, one, err)
		}
		s.Close()
	}
	for _, address := range []string{"mcp+http://skills.example/mcp", "mcp+https://me:word@skills.example/mcp",
		"mcp+ftp://skills.example", "mcp+https://", "mcp+", "mcp+https://skills.example/?token=x"} {
		if _, err := discover.Open(t.Context(), address, "test"); fault.CodeOf(err) != fault.Validation ||
			strings.Contains(err.Error(), "me:word") || strings.Contains(err.Error(), "=x") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
