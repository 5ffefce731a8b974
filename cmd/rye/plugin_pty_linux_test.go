package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
)

// newUnsignedHome returns a home with an unsigned plugin of two skills and a server in the directory demo, and an
// empty project in p.
func newUnsignedHome(t *testing.T) (h trustHome, project string) {
	h = newTrustHome(t)
	sandboxtest.Removable(t, h.dir)
	for name, text := range map[string]string{
		"plugin.json": `{"$schema": "` + plugin.ManifestSchema + `", "name": "demo", "version": "1.0.0"}`,
		"mcp.json": `{"$schema": "` + plugin.ServersSchema + `", "mcpServers": {"db": {"type": "stdio", "command": ` +
			`"announce", "args": ["${PLUGIN_ROOT}/tools.json"]}}}`,
		"tools.json": `[{"name": "echo", "description": "Says it again", "annotations": {"readOnlyHint": true}, ` +
			`"inputSchema": {"type": "object"}}]`,
		"skills/one/SKILL.md":          "---\nname: one\ndescription: Does one thing\n---\nDo it.\n",
		"skills/two/SKILL.md":          "---\nname: two\ndescription: Does two things\n---\nDo both.\n",
		"skills/two/references/how.md": strings.Repeat("This way.\n", 1000),
	} {
		file := filepath.Join(h.dir, "demo", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	project = filepath.Join(h.dir, "p")
	h.must("init", project)
	return h, project
}

// TestAddPluginOnTerminal: a person is asked whether to admit an unsigned plugin, to start its server, to sign what
// becomes of it, and to grant what it asks for. A no and the end of the input mean the same. Unless the plugin is
// admitted and signed, nothing of it is in the project or the policy.
func TestAddPluginOnTerminal(t *testing.T) {
	const yes, no, end = "y\n", "n\n", "\x04"
	cases := []struct {
		typed                 []string
		added, asked, granted bool
	}{
		{[]string{no}, false, false, false},
		{[]string{yes, yes, yes, yes}, true, true, true},
		{[]string{"\n"}, false, false, false},
		{[]string{end}, false, false, false},
		{[]string{yes, no, no}, false, false, false},
		{[]string{yes, end, end}, false, false, false},
		{[]string{yes, yes, no}, false, true, false},
		{[]string{yes, yes, end}, false, true, false},
		{[]string{yes, no, yes, no}, true, false, false},
		{[]string{yes, yes, yes, end}, true, true, false},
	}
	if testing.Short() {
		cases = cases[:2]
	}
	for _, c := range cases {
		h, project := newUnsignedHome(t)
		policy := func() string {
			text, err := os.ReadFile(filepath.Join(h.dir, ".ai", "policy.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		files, text := filesBelow(t, project), policy()
		s := onTerminal(t, project, append(h.command().Env, "TERM=dumb"), "add", "../demo")
		for _, keys := range c.typed {
			s.until("[y/N] ")
			s.types(keys)
		}
		shown, status := s.end()
		want := fault.ExitRefused
		if c.added {
			want = fault.ExitDone
		}
		if status != want || strings.Count(shown, "[y/N] ") != len(c.typed) ||
			strings.Contains(shown, "announces 1 tool") != c.asked {
			t.Errorf("%q: %d\n%s", c.typed, status, shown)
		}
		if !c.added {
			if !maps.Equal(filesBelow(t, project), files) || policy() != text {
				t.Errorf("%q: half of it was added\n%s", c.typed, shown)
			}
			continue
		}
		if !strings.Contains(policy(), `as: "bundle:plugins/demo@1.0.0+`) ||
			strings.Contains(policy(), `"directive:plugins/demo/**"`) != c.granted {
			t.Errorf("%q: %s", c.typed, policy())
		}
		_, pinned := filesBelow(t, project)[".ai/tools/plugins/demo/servers/db/echo.yaml"]
		if pinned != c.asked || !pinned && !strings.Contains(shown, "next: rye mcp refresh plugins/demo/db") {
			t.Errorf("%q: the tool is pinned: %v\n%s", c.typed, pinned, shown)
		}
		h.must("lock", "--check", "-C", project)
		h.must("verify", "**", "-C", project)
		h.must("exec", "plugins/demo/skills/one/skill", "-C", project)
	}
}
