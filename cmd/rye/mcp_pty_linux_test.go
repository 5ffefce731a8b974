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

// TestAddSignedPluginOnTerminal: rye add shows a server that its publisher didn't pin before it starts it, and the
// tools before they are signed. After a no the plugin is locked without them.
func TestAddSignedPluginOnTerminal(t *testing.T) {
	cases := []struct {
		answers                 []string
		asked, pinned, stranger bool
	}{{[]string{"n"}, false, false, false}, {[]string{"y", "y"}, true, true, false},
		{[]string{"y", "y", "y"}, true, true, true}, {[]string{""}, false, false, false},
		{[]string{"y", "n"}, true, false, false}, {[]string{"y", "y", "n"}, true, false, true}}
	if testing.Short() {
		cases = cases[:3]
	}
	for _, c := range cases {
		dir, env := wipeProject(t)
		plugin := filepath.Join(dir, "demo")
		for name, text := range map[string]string{
			"plugin.json": `{"$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "name": "demo",
				"version": "1.0.0", "extensions": {"io.github.rye-build": {"servers": {"mail": {"secrets": ["t"]}}}}}`,
			"mcp.json": `{"$schema": "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json", "mcpServers": {
				"mail": {"type": "stdio", "command": "announce",
					"args": ["[{\"name\": \"send\", \"inputSchema\": {\"type\": \"object\"}}]"]}}}`,
		} {
			name = filepath.Join(plugin, name)
			if err := errors.Join(os.MkdirAll(plugin, 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		policy := filepath.Join(dir, "home", ".ai", "policy.yaml")
		text, err := os.ReadFile(policy)
		if err == nil {
			err = os.WriteFile(policy, append(text, "\nexec:\n  secrets: {t: [\"tool:plugins/demo/**\"]}\n"...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		run := func(stdin string, args ...string) string {
			h, stdout, stderr := testHost(env...)
			h.Now, h.Stdin = time.Now, strings.NewReader(stdin)
			if status := cli.Run(h, commands(), args); status != fault.ExitDone {
				t.Fatalf("%q: %d, %s", args, status, stderr)
			}
			return stdout.String()
		}
		run("canary-0123456789", "auth", "set", "t")
		if c.stranger { // the policy lets another key alone sign the plugin's names
			run("", "key", "new", "other")
			public := filepath.Join(dir, "other.pem")
			if err := os.WriteFile(public, []byte(run("", "key", "export", "other")), 0o644); err != nil {
				t.Fatal(err)
			}
			run("", "trust", "add", public, "--owner", "Other", "--names", "plugins/demo,plugins/demo/**", "--yes")
			run("", "-C", plugin, "--yes", "bundle", "create", "--key", "other")
		} else {
			run("", "-C", plugin, "--yes", "bundle", "create")
		}
		const ref = "tool:plugins/demo/servers/mail"
		const rule = `+ names "` + ref + `/**" keys: [default, other]`
		shown, status := onPTY(t, dir, env, "[y/N] ", c.answers, "add", "./demo")
		if status != fault.ExitDone || !strings.Contains(shown, ref+" would start this program") ||
			strings.Contains(shown, "announces 1 tool") != c.asked ||
			strings.Contains(shown, "next: rye mcp refresh plugins/demo/mail") == c.pinned ||
			strings.Contains(shown, rule) != c.stranger {
			t.Errorf("%q: %d\n%s", c.answers, status, shown)
		}
		if calls := run("", "-C", dir, "audit", "list"); strings.Contains(calls, ref) != c.asked {
			t.Errorf("%q: %s", c.answers, calls)
		}
		run("", "-C", dir, "lock", "--check")
		lock, err := os.ReadFile(filepath.Join(dir, "rye.lock"))
		if err != nil || !strings.Contains(string(lock), `"`+ref+`"`) ||
			strings.Contains(string(lock), `"`+ref+`/send"`) != c.pinned {
			t.Errorf("%q: %v, %s", c.answers, err, lock)
		}
	}
}
