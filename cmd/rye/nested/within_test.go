package nested_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/nested"
)

// TestMain lets this program be what a tool starts: it prints what it may run, and so may the one below it, without
// the variable.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "below":
		cmd := exec.Command(os.Args[0], os.Args[2])
		cmd.Env, cmd.Stdout = []string{"PATH=/bin"}, os.Stdout
		if err := cmd.Run(); err != nil {
			os.Exit(1)
		}
	case len(os.Args) == 2 && !strings.HasPrefix(os.Args[1], "-"):
		if err := nested.Check(nil, os.Args[1], nil, os.Getenv); err != nil {
			os.Stdout.WriteString(err.Error())
		}
	default:
		os.Exit(m.Run())
	}
	os.Exit(0)
}

// TestCheck: in a thread nothing is run, signed or changed.
func TestCheck(t *testing.T) {
	in := func(string) string { return "acme/plan-1-a\x1b" }
	out := func(string) string { return "" }
	for command, args := range map[string][]string{"verify": nil, "thread show": nil, "licences": nil,
		"lock": {"lock", "--check"}, "run": {"run", "--detached"}, "docs": nil} {
		if err := nested.Check(nil, command, args, in); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
	for _, command := range []string{"run", "exec", "sign", "lock", "key new", "trust add", "thread resume", "approve",
		"mcp serve", "new", "load", "store put"} {
		err := nested.Check(nil, command, nil, in)
		if fault.CodeOf(err) != fault.Denied || !strings.Contains(err.Error(),
			"the thread acme/plan-1-a? can't run rye "+command) {
			t.Errorf("%s: %v", command, err)
		}
		if err := nested.Check(nil, command, nil, out); err != nil {
			t.Errorf("%s outside: %v", command, err)
		}
	}
	bad := errors.New("bad")
	if err := nested.Check(bad, "verify", nil, out); err != bad {
		t.Errorf("%v", err)
	}
}
