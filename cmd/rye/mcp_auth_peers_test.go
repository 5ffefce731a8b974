//go:build peers && linux

package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/npmtest"
)

// authScenarios are those of the official suite that are about signing in. Missing are the two of the revision of
// 2025-03-26, which rye doesn't speak, and basic-cimd, which wants a document of rye's own on the internet.
const authScenarios = `metadata-default metadata-var1 metadata-var2 metadata-var3 scope-from-www-authenticate scope-from-scopes-supported
	scope-omitted-when-undefined scope-step-up scope-retry-limit token-endpoint-auth-basic token-endpoint-auth-post token-endpoint-auth-none
	pre-registration resource-mismatch offline-access-scope offline-access-not-supported authorization-server-migration iss-supported
	iss-not-advertised iss-supported-missing iss-wrong-issuer iss-unexpected iss-normalized metadata-issuer-mismatch`

// TestAuthConformance runs the official suite for clients that sign in: the two of its parts that have these
// scenarios, each in one process. What else they have rye needn't pass.
func TestAuthConformance(t *testing.T) {
	suite := filepath.Join(npmtest.Install(t, "@modelcontextprotocol/conformance@0.2.0-alpha.12"), "dist", "index.js")
	node := filepath.Join(npmtest.Bin(t), "node")
	var said []byte
	for _, part := range []string{"auth", "draft"} {
		cmd := exec.CommandContext(t.Context(), node, suite, "client", "--command", "auth-client", "--suite", part,
			"--timeout", "120000", "-o", t.TempDir())
		out, err := cmd.CombinedOutput()
		if failed, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || failed.ExitCode() != 1) {
			t.Fatalf("%v\n%s", err, out)
		}
		said = append(said, out...)
	}
	for name := range strings.FieldsSeq(authScenarios) {
		if !regexp.MustCompile(`(?m)^✓ auth/` + name + `: [1-9][0-9]* passed, 0 failed$`).Match(said) {
			t.Errorf("%s did not pass", name)
		}
	}
	if t.Failed() {
		t.Logf("%s", said)
	}
}
