package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// TestAddServerOnTerminal: a person is shown what would run before it runs, and the tools before they are signed.
// After a no nothing was started, or nothing is written.
func TestAddServerOnTerminal(t *testing.T) {
	cases := []struct {
		answers       []string
		status        int
		asked, pinned bool
	}{
		{[]string{"n"}, fault.ExitRefused, false, false},
		{[]string{"y", "y"}, fault.ExitDone, true, true},
		{[]string{""}, fault.ExitRefused, false, false},
		{[]string{"y", "n"}, fault.ExitRefused, true, false},
	}
	if testing.Short() {
		cases = cases[:2]
	}
	for _, c := range cases {
		dir, env := wipeProject(t)
		tools :=
			`[{"name": "echo", "description": "Says \u001b[2Jit\u202e again", "inputSchema": {"type": "object"}}, {"name": "plain", "inputSchema": {"type": "object"}}]`
		shown, status := onPTY(t, dir, env, "[y/N] ", c.answers, "mcp", "add", "s", "--env", "LEVEL=\x1b[31m", "--",
			"announce", tools)
		if status != c.status || !strings.Contains(shown, "tool:mcp/servers/s would start this program now") ||
			strings.Contains(shown, "\x1b") ||
			!strings.Contains(shown, `LEVEL  \x1b[31m`) || strings.Contains(shown, "announces 2 tools") != c.asked {
			t.Errorf("%q: %d\n%s", c.answers, status, shown)
		}
		h, stdout, _ := testHost(env...)
		h.Now = time.Now
		cli.Run(h, commands(), []string{"-C", dir, "audit", "list"})
		if strings.Contains(stdout.String(), "tool:mcp/servers/s") != c.asked {
			t.Errorf("%q: %s", c.answers, stdout)
		}
		for name, want := range map[string]bool{"servers/s": c.pinned, "s/plain": c.pinned, "s/echo": false} {
			if _, err := os.Stat(filepath.Join(dir, ".ai", "tools", "mcp",
				filepath.FromSlash(name)+".yaml")); (err == nil) != want {
				t.Errorf("%q: %s: %v", c.answers, name, err)
			}
		}
	}
}

// TestAddUnsignedOnTerminal: a person who admits an unsigned plugin may also grant its skills their own files.
func TestAddUnsignedOnTerminal(t *testing.T) {
	for _, answers := range [][]string{{"y", "y", "y"}, {"y", "y", "n"}} {
		dir, env := wipeProject(t)
		for name, text := range map[string]string{
			"plugin.json":          `{"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "name": "demo"}`,
			"skills/talk/SKILL.md": "---\nname: talk\ndescription: Talks\n---\nTalk.\n",
		} {
			name = filepath.Join(dir, "demo", name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
				os.WriteFile(name, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		shown, status := onPTY(t, dir, env, "[y/N] ", answers, "add", "./demo")
		policy, err := os.ReadFile(filepath.Join(dir, "home", ".ai", "policy.yaml"))
		if err != nil || status != fault.ExitDone || !strings.Contains(shown, "admit plugins/demo by this digest?") ||
			strings.Contains(string(policy), `"directive:plugins/demo/**"`) != (answers[2] == "y") {
			t.Errorf("%q: %d, %v\n%s\n%s", answers, status, err, shown, policy)
		}
	}
}
