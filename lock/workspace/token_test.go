package workspace

import (
	"context"
	"fmt"
	"testing"

	ryeyaml "github.com/rye-build/rye/lock/project"
)

// TestToken: a token is asked for what rye.yaml has from the registry of a private namespace, and for nothing else.
func TestToken(t *testing.T) {
	w := Unread(Paths{}, Options{Token: func(_ context.Context, registry string, typed bool) (string, error) {
		return fmt.Sprint(registry, " ", typed), nil
	}})
	l := w.LockIn(t.TempDir(), "")
	l.Yaml = &ryeyaml.Project{Registries: []ryeyaml.Registry{{URL: "https://a.example/private/acme"},
		{URL: "https://a.example"}, {URL: "https://b.example:8443/x/private/acme"}}}
	l.Typed = []string{"b.example:8443"}
	for address, want := range map[string]string{
		"https://a.example/private/acme/registry.yaml":              "https://a.example/private/acme false",
		"https://a.example/private/acme/index/acme/base.yaml":       "https://a.example/private/acme false",
		"https://b.example:8443/x/private/acme/log/checkpoint":      "https://b.example:8443/x/private/acme true",
		"https://a.example/registry.yaml":                           "",
		"https://a.example/private/other/registry.yaml":             "",
		"https://a.example/private/acmes/registry.yaml":             "",
		"https://a.example:8443/private/acme/registry.yaml":         "",
		"http://a.example/private/acme/registry.yaml":               "",
		"https://evil.example/private/acme/registry.yaml":           "",
		"https://evil.example/https://a.example/private/acme/index": "",
		"https://a.example.evil.example/private/acme/registry.yaml": "",
	} {
		if token, err := l.token(t.Context(), address); token != want || err != nil {
			t.Errorf("%s: %q, %v", address, token, err)
		}
	}
	none := Unread(Paths{}, Options{}).LockIn(t.TempDir(), "")
	none.Yaml = l.Yaml
	if token, err := none.token(t.Context(), "https://a.example/private/acme/x"); token != "" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
}
