package primitive

import (
	"testing"
	"time"

	"github.com/rye-build/rye/exec/sandbox"
)

// TestLimit: a limit is said as it is declared, or where it is by itself.
func TestLimit(t *testing.T) {
	a := &Action{Config: map[string]any{"steps": int64(7), "timeout": 2.5},
		Sandbox: sandbox.Spec{Limits: sandbox.Limits{
			CPU: 3 * time.Second, Memory: 200 << 20, Written: 5 << 20, Output: 1 << 20, Processes: 9,
			Wall: time.Minute,
		}}}
	for ended, want := range map[string]string{
		"cpu":       "cpu_seconds: 3 (limits: in the tool)",
		"memory":    "memory_mib: 200 (limits: in the tool)",
		"written":   "written_mib: 5 (limits: in the tool)",
		"output":    "output_mib: 1 (limits: in the tool)",
		"processes": "processes: 9 (limits: in the tool)",
		"timeout":   "timeout: 2.5 (config: in the tool or its runtime)",
		"steps":     "steps: 7 (config: in the tool or its runtime)",
		"message":   "4 MiB for a message of a server; output_mib under limits: in the tool sets another",
		"other":     "",
	} {
		if got := a.Limit(ended); got != want {
			t.Errorf("%s: %q, want %q", ended, got, want)
		}
	}
	a.Config["timeout"] = int64(100)
	if got := a.Limit("timeout"); got != "duration_seconds: 60 (limits: in the tool)" {
		t.Error(got)
	}
}

// TestArgs: arguments are texts.
func TestArgs(t *testing.T) {
	a := &Action{Config: map[string]any{"args": []any{"a", "b c"}}}
	if args, err := a.Args(); err != nil || len(args) != 2 || args[1] != "b c" {
		t.Errorf("%q, %v", args, err)
	}
	a.Config["args"] = []any{1}
	if _, err := a.Args(); err == nil {
		t.Error("a number is an argument")
	}
}
