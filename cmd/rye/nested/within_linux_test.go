package nested_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestBelow: a tool that takes the variable away from what it starts doesn't get out.
func TestBelow(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]bool{"RYE_THREAD=acme/plan-1-a": true, "RYE_THREAD=": false} {
		cmd := exec.Command(self, "below", "sign")
		cmd.Env = []string{env}
		out, err := cmd.Output()
		if err != nil || strings.Contains(string(out), "can't run rye sign") != want {
			t.Errorf("%s: %q, %v", env, out, err)
		}
	}
}
