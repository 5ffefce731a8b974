package paths

import (
	"testing"

	"github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// TestRegistryVariable: the variable with the credentials of a registry has those of no other.
func TestRegistryVariable(t *testing.T) {
	dir := t.TempDir()
	ask := registryCredential(&cli.App{Host: cli.Host{Environ: []string{"HOME=" + dir, "XDG_STATE_HOME=" + dir,
		"DOCKER_CONFIG=" + dir,
		"OCI_REGISTRY_EXAMPLE_COM=alice:canary-1", "OCI_MY__REGISTRY_EXAMPLE_COM_5000=alice:canary-2"}}})
	for host, want := range map[string]oci.Credential{
		"registry.example.com":         {User: "alice", Password: "canary-1"},
		"registry-example.com":         {},
		"registry.example-com":         {},
		"my-registry.example.com:5000": {User: "alice", Password: "canary-2"},
		"my.registry.example.com:5000": {},
	} {
		if got, err := ask(t.Context(), host); err != nil || got != want {
			t.Errorf("%s: %+v, %v", host, got, err)
		}
	}
}
