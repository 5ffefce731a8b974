package main

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/cmd/rye/cli"
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
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
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
		{"execute", map[string]any{"item_type": "tool", "item_id": "acme/wipe", "parameters": map[string]any{"path": "x"}}, true, `"APPROVAL_REQUIRED"`},
		{"execute", map[string]any{"item_type": "tool", "item_id": "acme/print"}, false, `"success":true`},
		{"execute", map[string]any{"item_type": "tool", "item_id": "rye/agent/threads/thread_directive", "parameters": map[string]any{"directive_name": "acme/wipe"}},
			false, `"result":"Nothing to wipe."`},
		{"sign", map[string]any{"item_type": "tool", "item_id": "acme/wipe"}, true, `"PERMISSION_DENIED"`},
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
	for _, args := range [][]string{{"-C", t.TempDir()}, {"--json", "-C", t.TempDir()}, {"--locked", "-C", dir}, {"--tools", "[", "-C", dir}} {
		cmd := exec.CommandContext(ctx, "rye", append([]string{"mcp", "serve"}, args...)...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "rror") {
			t.Errorf("%s: %v, %s", args, err, out)
		}
	}
}
