package sandbox_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/sandbox/stage"
)

// TestEarly: a stage is entered when few packages of its program are initialised. This test's own program has more
// than a hundred; without a socket, the stage ends with status 2.
func TestEarly(t *testing.T) {
	c := exec.Command(self(t), stage.Word)
	c.Env = []string{"GODEBUG=inittrace=1"}
	out, err := c.CombinedOutput()
	if c.ProcessState == nil || c.ProcessState.ExitCode() != 2 {
		t.Errorf("%v: %s", err, out)
	}
	if n := strings.Count(string(out), "init "); n == 0 || n > 30 {
		t.Errorf("%d packages were initialised before:\n%s", n, out)
	}
}
