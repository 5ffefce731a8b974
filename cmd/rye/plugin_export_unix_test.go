//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
)

// newPluginHome returns a home with the bundle acme/deploy in the directory deploy, and a plugin in greeter.
func newPluginHome(t *testing.T) trustHome {
	h := newTrustHome(t)
	deploy, greeter := filepath.Join(h.dir, "deploy"), filepath.Join(h.dir, "greeter")
	h.must("init", deploy)
	h.must("-C", deploy, "new", "tool", "acme/deploy/fetch", "--ext", "star")
	h.must("-C", deploy, "new", "directive", "acme/deploy/review")
	files := map[string]string{"deploy/bundle.yaml": "id: acme/deploy\nversion: 1.2.0\n",
		"greeter/plugin.json": `{"$schema": "` + plugin.ManifestSchema + `", "name": "greeter", "version": "1.0.0"}`}
	for i := range 20 {
		name := fmt.Sprint("hello", i)
		files["greeter/skills/"+name+"/SKILL.md"] = "---\nname: " + name + "\ndescription: Says hello\n---\nHello.\n"
	}
	for name, text := range files {
		name = filepath.Join(h.dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h.must("-C", deploy, "bundle", "create")
	h.must("-C", greeter, "bundle", "create")
	return h
}

// TestPluginExportKilled kills rye with SIGKILL at random moments of an export. The directory is complete or missing,
// and the same command then completes it, with nothing left beside it.
func TestPluginExportKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	h := newPluginHome(t)
	random := rand.New(rand.NewPCG(13, 14))
	killed := 0
	for _, bundle := range []string{"./deploy", "./greeter"} {
		whole, places := filepath.Join(h.dir, bundle+".whole"), filepath.Join(h.dir, bundle+".out")
		began := time.Now()
		h.must("export", "plugin", bundle, whole)
		longest := 2 * time.Since(began)
		want := filesBelow(t, whole)
		for round := range 6 {
			if err := os.Mkdir(places, 0o755); err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(places, "p")
			if !h.killed(time.Duration(random.Int64N(int64(longest))), "export", "plugin", bundle, out) {
				killed++
			}
			if _, err := os.Stat(out); err == nil {
				if have := filesBelow(t, out); !maps.Equal(have, want) {
					t.Fatalf("round %d: %s is half a plugin: %d files of %d", round, out, len(have), len(want))
				}
			} else {
				h.must("export", "plugin", bundle, out)
			}
			if have := filesBelow(t, out); !maps.Equal(have, want) {
				t.Fatalf("round %d: %s has other files than it should", round, out)
			}
			h.must("export", "plugin", bundle, filepath.Join(places, "q"))
			if left, err := os.ReadDir(places); err != nil || len(left) != 2 {
				t.Fatalf("round %d: left: %v, %v", round, left, err)
			}
			if err := os.RemoveAll(places); err != nil {
				t.Fatal(err)
			}
		}
	}
	if killed == 0 {
		t.Error("nothing was killed before it had ended")
	}
}

// TestAccountHome: without HOME the home directory is the account's, as far as the system knows it. An empty HOME
// isn't one.
func TestAccountHome(t *testing.T) {
	home := ""
	if account, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
		home = filepath.Join(account.HomeDir, ".ai")
	}
	for want, env := range map[string][]string{home: {}, "": {"HOME="}, "/h/.ai": {"HOME=/h"}} {
		cmd := exec.CommandContext(t.Context(), "rye", "config", "--json")
		cmd.Dir, cmd.Env = t.TempDir(), append(env, "GOCOVERDIR="+coverDir())
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), `{"name":"user","value":`+strconv.Quote(want)+`,`) {
			t.Errorf("%q: %v, no %q in %s", env, err, want, out)
		}
	}
}

// TestPluginServed: a client starts the server of an exported plugin as its mcp.json says, in an empty home, without a
// network, and with no variables but those of §9.1: it needs no other. Without trust the server ends; with the line
// of its README it lists and calls the tool.
func TestPluginServed(t *testing.T) {
	h := newPluginHome(t)
	out := filepath.Join(t.TempDir(), "plugins", "acme.deploy")
	h.must("export", "plugin", "./deploy", out, "--tools", "tool:acme/**")
	if err := os.RemoveAll(filepath.Join(h.dir, "deploy")); err != nil { // nothing else is read
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, plugin.ServersFile))
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ McpServers map[string]plugin.Server }
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	server := config.McpServers["acme.deploy"]
	if server.Command != "rye" {
		t.Fatalf("%s", text)
	}
	for i, arg := range server.Args {
		server.Args[i] = plugin.Expand(arg, out, "")
	}
	home := t.TempDir()
	sandboxtest.Removable(t, home)
	start := func() (*mcp.ClientSession, *strings.Builder, error) {
		cmd := exec.CommandContext(t.Context(), "rye-account", append([]string{home}, server.Args...)...)
		cmd.Dir, cmd.Env = out, []string{"PLUGIN_ROOT=" + out, "PLUGIN_DATA=" + t.TempDir(),
			"HTTPS_PROXY=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1"}
		stderr := new(strings.Builder)
		cmd.Stderr = stderr
		session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
			&mcp.CommandTransport{Command: cmd}, nil)
		return session, stderr, err
	}
	if _, stderr, err := start(); err == nil ||
		!strings.Contains(stderr.String(), " trust add --from .ai/signers.yaml") {
		t.Fatal(err, stderr)
	}

	readme, err := os.ReadFile(filepath.Join(out, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(readme), "\n$ ")
	line, _, _ = strings.Cut(line, "\n")
	trust := exec.CommandContext(t.Context(), "sh", "-c", line+" --yes")
	trust.Dir, trust.Env = out, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	if said, err := trust.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, said)
	}
	client, stderr, err := start()
	if err != nil {
		t.Fatal(err, stderr)
	}
	defer client.Close()
	tools, err := client.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	if got := strings.Join(names, " "); got != "acme_deploy_fetch execute load search sign" {
		t.Errorf("got %s", got)
	}
	r, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "acme_deploy_fetch",
		Arguments: map[string]any{"name": "Ann"}})
	if err != nil || r.IsError || !strings.Contains(r.Content[0].(*mcp.TextContent).Text, "hello, Ann") {
		t.Errorf("got %v, %+v", err, r)
	}
}
