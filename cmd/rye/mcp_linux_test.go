package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/initcmd"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
)

// TestMCPServe: an agent starts rye, runs a tool and a thread, and what it may not do is refused.
func TestMCPServe(t *testing.T) {
	server := modeltest.New(t)
	server.Handle(func(*modeltest.Request) modeltest.Turn { return modeltest.Turn{Text: "Nothing to wipe."} })
	dir, env := modelProject(t, server, "Wipe.", "Sign.")
	cmd := exec.CommandContext(t.Context(), "rye", "mcp", "serve", "--unlocked", "-C", dir)
	cmd.Env = env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err, stderr.String())
	}
	if info := client.InitializeResult().ServerInfo; info.Name != "rye" || info.Version != cli.ThisVersion().Version {
		t.Errorf("%+v", info)
	}
	for _, c := range []struct {
		tool   string
		given  map[string]any
		failed bool
		says   string
	}{
		{"search", map[string]any{"query": "wipes"}, false, `"ref":"tool:acme/wipe"`},
		{"load", map[string]any{"item_type": "directive", "item_id": "acme/wipe"}, false, `Wipe.`},
		{"execute", map[string]any{"item_type": "tool", "item_id": "acme/wipe",
			"parameters": map[string]any{"path": "x"}}, true, `"APPROVAL_REQUIRED"`},
		{"execute", map[string]any{"item_type": "tool", "item_id": "acme/print"}, false, `"success":true`},
		{"execute", map[string]any{"item_type": "tool", "item_id": "rye/agent/threads/thread_directive",
			"parameters": map[string]any{"directive_name": "acme/wipe"}},
			false, `"result":"Nothing to wipe."`},
		{"sign", map[string]any{"item_type": "tool", "item_id": "acme/wipe"}, true, `"PERMISSION_DENIED"`},
		{"execute", map[string]any{"item_type": "tool", "item_id": "rye/mcp/manager",
			"parameters": map[string]any{"action": "add", "name": "x", "command": "x"}},
			true, "a person does that"},
		{"execute", map[string]any{"item_type": "tool", "item_id": "rye/mcp/manager",
			"parameters": map[string]any{"action": "accept", "name": "x"}},
			true, "a person does that"},
		{"execute", map[string]any{"item_type": "tool", "item_id": "rye/mcp/manager",
			"parameters": map[string]any{"action": "list"}}, false, `"count":0`},
	} {
		r, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.given})
		if err != nil {
			t.Fatal(err, stderr.String())
		}
		if text := r.Content[0].(*mcp.TextContent).Text; r.IsError != c.failed || !strings.Contains(text, c.says) {
			t.Errorf("%s %v: %s", c.tool, c.given, text)
		}
	}
	if err := client.Close(); err != nil || cmd.ProcessState.ExitCode() != 0 || stderr.Len() > 0 {
		t.Error(err, cmd.ProcessState, stderr.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, args := range [][]string{{"-C", t.TempDir()}, {"--json", "-C", t.TempDir()}, {"--locked", "-C", dir},
		{"--tools", "[", "-C", dir}} {
		cmd := exec.CommandContext(ctx, "rye", append([]string{"mcp", "serve"}, args...)...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "rror") {
			t.Errorf("%s: %v, %s", args, err, out)
		}
	}
}

// TestMCPSign: with --allow-sign an agent has an item signed with the user's key, and one that isn't valid isn't.
func TestMCPSign(t *testing.T) {
	dir, env := modelProject(t, modeltest.New(t), "Wipe.", "Sign.")
	tool := filepath.Join(dir, ".ai", "tools", "acme", "print.yaml")
	before, err := os.ReadFile(tool)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(tool, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "rye", "mcp", "serve", "--unlocked", "--allow-sign", "-C", dir)
	cmd.Env = env
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	call := func(tool, says string) {
		t.Helper()
		r, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: tool,
			Arguments: map[string]any{"item_type": "tool", "item_id": "acme/print"}})
		if err != nil {
			t.Fatal(err)
		}
		if text := r.Content[0].(*mcp.TextContent).Text; !strings.Contains(text, says) {
			t.Errorf("%s: %s", tool, text)
		}
	}
	write(string(before) + "# more\n")
	call("execute", `"INTEGRITY_FAILED"`)
	call("sign", `"changed":true`)
	call("execute", `"success":true`)
	write("# nothing\n")
	call("sign", `"error"`)
}

// withToken sends a token with each request.
type withToken string

func (b withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// TestServe: rye serves agents that have a token over HTTP, and ends with SIGTERM.
func TestServe(t *testing.T) {
	server := modeltest.New(t)
	server.Handle(func(*modeltest.Request) modeltest.Turn { return modeltest.Turn{Text: "Nothing to wipe."} })
	dir, env := modelProject(t, server, "Wipe.", "Sign.")
	rye := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "rye", args...)
		cmd.Env = env
		return cmd
	}
	if out, err := rye("serve", "--unlocked", "-C", dir).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "rye -C "+dir+" serve token add default") {
		t.Errorf("%v, %s", err, out)
	}
	secret, err := rye("serve", "token", "add", "laptop", "-q").Output()
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(secret))
	for _, args := range [][]string{{"--listen", "0.0.0.0:0"}, {"--listen", ":0", "--behind-proxy"}, {"--listen", "x"},
		{"--tls-cert", "x"}, {"--tls-cert", "x", "--tls-key", "y"},
		{"--rate", "0"}, {"--locked"}} {
		if out, err := rye(append([]string{"serve", "-C", dir}, args...)...).CombinedOutput(); err == nil ||
			!strings.Contains(string(out), "rror") {
			t.Errorf("%s: %v, %s", args, err, out)
		}
	}
	cmd := rye("serve", "--unlocked", "-C", dir, "--listen", "127.0.0.1:0", "--json")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	line, err := out.ReadString('\n')
	var at struct {
		Success bool
		Data    map[string]any
	}
	if err != nil || json.Unmarshal([]byte(line), &at) != nil || !at.Success ||
		conforms(schemaOf("serve"), at.Data) != "" {
		t.Fatal(line, err, stderr.String())
	}
	ready, err := http.Get(at.Data["ready"].(string))
	if err != nil || ready.StatusCode != http.StatusOK {
		t.Error(ready, err)
	}
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: at.Data["url"].(string),
			HTTPClient: &http.Client{Transport: withToken(token)}}, nil)
	if err != nil {
		t.Fatal(err, stderr.String())
	}
	r, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute",
		Arguments: map[string]any{"item_type": "tool", "item_id": "acme/print"}})
	if err != nil || r.IsError {
		t.Error(r, err)
	}
	shown, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "cmdline"))
	if err != nil || strings.Contains(string(shown), token) {
		t.Errorf("%s, %v", shown, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(out)
	if err := cmd.Wait(); err != nil || len(rest) > 0 || stderr.Len() > 0 {
		t.Errorf("%v, %s, %s", err, rest, stderr.String())
	}
	client.Close()
	if out, err := rye("audit", "list", "--json").Output(); err != nil ||
		!strings.Contains(string(out), "token:laptop") || strings.Contains(string(out), token) {
		t.Errorf("%v, %s", err, out)
	}
}

// schemaOf is the schema of a command's output.
func schemaOf(path string) map[string]any {
	for _, c := range commands() {
		if c.Path == path {
			return initcmd.SchemaDocument(c.Schema, reflect.TypeOf(c.Output))
		}
	}
	return nil
}
