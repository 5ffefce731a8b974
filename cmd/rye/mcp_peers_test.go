//go:build peers

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/npmtest"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
)

const inspector = "@modelcontextprotocol/inspector@2.12.0"

// TestInspector: the MCP Inspector's command line gets on with rye mcp serve and rye serve, and finds nothing in the
// schemas.
func TestInspector(t *testing.T) {
	dir, env := modelProject(t, modeltest.New(t), "Wipe.", "Sign.")
	node, program := filepath.Join(npmtest.Bin(t), "node"),
		filepath.Join(npmtest.Install(t, inspector), "..", "..", ".bin", "mcp-inspector")
	rye := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "rye", args...)
		cmd.Env = env
		return cmd
	}
	secret, err := rye("serve", "token", "add", "inspector", "-q").Output()
	if err != nil {
		t.Fatal(err)
	}
	server := rye("serve", "--unlocked", "-C", dir, "--listen", "127.0.0.1:0", "--json")
	stdout, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer server.Wait()
	defer server.Process.Signal(os.Interrupt)
	var at struct{ Data struct{ URL string } }
	if line, err := bufio.NewReader(stdout).ReadBytes('\n'); err != nil || json.Unmarshal(line, &at) != nil {
		t.Fatal(string(line), err)
	}
	for transport, target := range map[string][]string{
		"stdio": {"rye", "mcp", "serve", "--unlocked", "-C", dir},
		"http": {at.Data.URL, "--transport", "http", "--header",
			"Authorization: Bearer " + strings.TrimSpace(string(secret))},
	} {
		for _, c := range []struct {
			method []string
			says   string
			failed bool
		}{
			{[]string{"tools/list", "--strict"}, `"name":"execute"`, false},
			{[]string{"tools/call", "--tool-name", "search", "--tool-arg", "query=wipes", "limit=2"},
				`"ref":"tool:acme/wipe"`, false},
			{[]string{"tools/call", "--tool-name", "execute", "--tool-arg", "item_type=tool", "item_id=acme/print"},
				`"success":true`, false},
			{[]string{"tools/call", "--tool-name", "sign", "--tool-arg", "item_type=tool", "item_id=acme/print"},
				`"PERMISSION_DENIED"`, true},
			{[]string{"prompts/get", "--prompt-name", "acme/wipe"}, "Wipe.", false},
			{[]string{"resources/read", "--uri", "rye://knowledge/rye/mcp"}, "Model Context Protocol", false},
		} {
			cmd := exec.CommandContext(t.Context(), node,
				append(append([]string{program, "--cli"}, target...), append([]string{"--method"}, c.method...)...)...)
			cmd.Env = append(env, "PATH="+npmtest.Bin(t)+string(filepath.ListSeparator)+os.Getenv("PATH"))
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			var answer bytes.Buffer
			if json.Compact(&answer, out) != nil || (err != nil) != c.failed ||
				!strings.Contains(answer.String(), c.says) || strings.Contains(stderr.String(), "Warning") {
				t.Errorf("%s, %s: %v, %s, %s", transport, c.method, err, out, stderr.String())
			}
		}
	}
}
