package sandbox_test

import (
	"testing"

	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// A call in the way of x32, which has other numbers, kills.
func TestForeignCalls(t *testing.T) {
	m := machine(t)
	for l, signal := range map[floor.Level]string{floor.None: "", floor.Landlock: "SIGSYS",
		floor.Namespace: "SIGSYS"} {
		if o, said := attempt(t, m, sandbox.Spec{Level: l}, "x32"); o.Exit.Signal != signal {
			t.Errorf("%s: %+v, %s", l, o, said)
		}
	}
}
