package main

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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

// What a person types at a question.
const yes, no, endOfInput, interrupt = "y\n", "n\n", "\x04", "\x03"

// answer types at each question of a command in a project, and returns what is shown.
func (h trustHome) answer(project string, typed []string, args ...string) (shown string, status int) {
	h.t.Helper()
	s := onTerminal(h.t, project, append(h.command().Env, "TERM=dumb"), args...)
	for _, keys := range typed {
		s.until("[y/N] ")
		s.types(keys)
	}
	shown, status = s.end()
	if strings.Count(shown, "[y/N] ") != len(typed) {
		h.t.Errorf("%q: not so many questions: %s", typed, shown)
	}
	return shown, status
}

// policy is the text of the user's policy.
func (h trustHome) policy() string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, ".ai", "policy.yaml"))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

// TestAddPluginOnTerminal: a person is asked whether to admit an unsigned plugin, to start its server, to sign what
// becomes of it, and to grant what it asks for. A no and the end of the input mean the same. Unless the plugin is
// admitted and signed, nothing of it is in the project or the policy.
func TestAddPluginOnTerminal(t *testing.T) {
	cases := []struct {
		typed          []string
		status         int
		asked, granted bool
	}{
		{[]string{no}, fault.ExitRefused, false, false},
		{[]string{yes, yes, yes, yes}, fault.ExitDone, true, true},
		{[]string{"\n"}, fault.ExitRefused, false, false},
		{[]string{endOfInput}, fault.ExitRefused, false, false},
		{[]string{interrupt}, fault.ExitInterrupted, false, false},
		{[]string{yes, no, no}, fault.ExitRefused, false, false},
		{[]string{yes, endOfInput, endOfInput}, fault.ExitRefused, false, false},
		{[]string{yes, interrupt}, fault.ExitInterrupted, false, false},
		{[]string{yes, yes, no}, fault.ExitRefused, true, false},
		{[]string{yes, yes, endOfInput}, fault.ExitRefused, true, false},
		{[]string{yes, yes, interrupt}, fault.ExitInterrupted, true, false},
		{[]string{yes, no, yes, no}, fault.ExitDone, false, false},
		{[]string{yes, yes, yes, endOfInput}, fault.ExitDone, true, false},
		{[]string{yes, yes, yes, interrupt}, fault.ExitInterrupted, true, false},
	}
	if testing.Short() {
		cases = cases[:2]
	}
	for _, c := range cases {
		h, project := newUnsignedHome(t)
		files, text := filesBelow(t, project), h.policy()
		shown, status := h.answer(project, c.typed, "add", "../demo")
		if status != c.status || strings.Contains(shown, "announces 1 tool") != c.asked {
			t.Errorf("%q: %d\n%s", c.typed, status, shown)
		}
		if c.status != fault.ExitDone {
			if !maps.Equal(filesBelow(t, project), files) || h.policy() != text {
				t.Errorf("%q: half of it was added\n%s", c.typed, shown)
			}
			continue
		}
		if !strings.Contains(h.policy(), `as: "bundle:plugins/demo@1.0.0+`) ||
			strings.Contains(h.policy(), `"directive:plugins/demo/**"`) != c.granted {
			t.Errorf("%q: %s", c.typed, h.policy())
		}
		_, pinned := filesBelow(t, project)[".ai/tools/plugins/demo/servers/db/echo.yaml"]
		if pinned != c.asked || !pinned && !strings.Contains(shown, "next: rye mcp refresh plugins/demo/db") {
			t.Errorf("%q: the tool is pinned: %v\n%s", c.typed, pinned, shown)
		}
		h.must("lock", "--check", "-C", project)
		h.must("verify", "**", "-C", project)
		h.must("exec", "plugins/demo/skills/one/skill", "-C", project)
		if !pinned { // as the hint says
			h.must("mcp", "refresh", "plugins/demo/db", "-C", project)
			h.must("mcp", "accept", "plugins/demo/db", "-C", project)
			h.must("lock", "-C", project)
		}
		h.must("exec", "plugins/demo/servers/db/echo", "-C", project)
		h.must("add", filepath.Join(h.dir, "demo"), "-C", project) // again changes nothing
		h.must("lock", "--check", "-C", project)
		h.must("exec", "plugins/demo/servers/db/echo", "-C", project)
	}
}

// TestUpdatePluginOnTerminal: an update of an unsigned plugin shows what has changed and asks again. Until the person
// agrees, the project and the policy stay as they are.
func TestUpdatePluginOnTerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	h, project := newUnsignedHome(t)
	if shown, status := h.answer(project, []string{yes, yes, yes, yes}, "add", "../demo"); status != fault.ExitDone {
		t.Fatalf("%d: %s", status, shown)
	}
	change := func(name, old, now string) {
		t.Helper()
		name = filepath.Join(h.dir, "demo", filepath.FromSlash(name))
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(name, []byte(strings.Replace(string(text), old, now, 1)), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change("skills/one/SKILL.md", "Do it.", "Do it again.")
	change("tools.json", "Says it again", "Says it twice")
	files, text := filesBelow(t, project), h.policy()
	for _, c := range []struct {
		typed  []string
		status int
	}{
		{[]string{no}, fault.ExitRefused}, {[]string{endOfInput}, fault.ExitRefused},
		{[]string{interrupt}, fault.ExitInterrupted}, {[]string{yes, no}, fault.ExitRefused},
		{[]string{yes, endOfInput}, fault.ExitRefused}, {[]string{yes, interrupt}, fault.ExitInterrupted},
	} {
		shown, status := h.answer(project, c.typed, "update")
		if status != c.status || !strings.Contains(shown, "changes    changed skills/one/SKILL.md") {
			t.Errorf("%q: %d: %s", c.typed, status, shown)
		}
		if !maps.Equal(filesBelow(t, project), files) || h.policy() != text {
			t.Fatalf("%q: half of it was updated: %s", c.typed, shown)
		}
	}
	// The server is asked by rye mcp refresh alone.
	if shown, status := h.answer(project, []string{yes, yes}, "update"); status != fault.ExitDone ||
		strings.Contains(shown, "Says it twice") {
		t.Fatalf("%d: %s", status, shown)
	}
	h.must("lock", "--check", "-C", project)
	if out := h.must("exec", "plugins/demo/skills/one/skill", "-C", project); !strings.Contains(out, "Do it again.") {
		t.Error(out)
	}
}

// TestAddPackedPluginOnTerminal: a person who is shown the signer of a plugin in an archive, and trusts it, adds those
// very bytes. The archive is requested once, whatever the server has by then.
func TestAddPackedPluginOnTerminal(t *testing.T) {
	publisher, _ := newUnsignedHome(t)
	dir, policy := filepath.Join(publisher.dir, "demo"), filepath.Join(publisher.dir, ".ai", "policy.yaml")
	text := strings.ReplaceAll(publisher.policy(), "owner: Me", "owner: Publisher")
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	publisher.must("-C", dir, "--yes", "bundle", "create")
	signed, err := packZip(dir)
	if err == nil {
		err = os.Remove(filepath.Join(dir, "io.github.rye-build", "manifest.yaml"))
	}
	if err != nil {
		t.Fatal(err)
	}
	other, err := packZip(dir)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.Write(signed)
		} else {
			w.Write(other)
		}
	}))
	defer server.Close()
	h, project := newUnsignedHome(t)
	shown, status := h.answer(project, []string{yes}, "add", server.URL+"/demo.zip", "--plain-http")
	if status != fault.ExitDone || !strings.Contains(shown, "trust this key for plugins/demo plugins/demo/**?") {
		t.Errorf("%d: %s", status, shown)
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("the archive was requested %d times", n)
	}
	lock, err := os.ReadFile(filepath.Join(project, "rye.lock"))
	if err != nil || !strings.Contains(string(lock), `"tool:plugins/demo/servers/db/echo"`) {
		t.Errorf("%v, %s", err, lock)
	}
}
