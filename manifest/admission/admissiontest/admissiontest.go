// Package admissiontest has the policies that tests examine by.
package admissiontest

import (
	"fmt"
	"testing"
	"time"

	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
)

// Trust returns a policy that knows the keys alice and bob. Its rules, and all that follows them, are the lines of
// names.
func Trust(t testing.TB, now time.Time, names string) *admission.Trust {
	t.Helper()
	p, err := policy.Parse(fmt.Appendf(nil,
		"rye: policy/2\n\nkeys:\n  alice: {key: %q}\n  bob: {key: %q}\n\nnames:\n%s",
		keytest.Alice().Public(), keytest.Bob().Public(), names))
	if err != nil {
		t.Fatal(err)
	}
	return &admission.Trust{Root: policy.Side{Policy: p}, Now: now}
}

// ByAlice is the rule that lets alice sign everything.
const ByAlice = "  \"**\": {keys: [alice]}\n"
