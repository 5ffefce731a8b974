//go:build peers

package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/exec/npmtest"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/httpclient"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/manifest/jcs"
)

// clientWord starts this binary as the client that the conformance suite looks at.
const clientWord = "__client"

var _ = program(clientWord, conform)

// conform does with the primitive what a scenario wants of a client. The last argument is where the server is.
func conform(args []string) int {
	if err := scenario(args[len(args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func scenario(at string) error {
	u, err := url.Parse(at)
	if err != nil {
		return err
	}
	c := &Client{HTTP: &httpclient.Client{}, Version: "test"}
	defer c.Close()
	if name, ok := strings.CutPrefix(os.Getenv("MCP_CONFORMANCE_SCENARIO"), "sep-2640-client-"); ok {
		return skills(c, at, sandbox.Network{Hosts: []string{u.Host}}, name != "no-prefetch")
	}
	do := func(config map[string]any) (*primitive.Result, error) {
		config["transport"], config["url"], config["timeout"] = "http", at, int64(20)
		return c.Run(context.Background(), &primitive.Action{
			Config: config, Tool: "tool:mcp/servers/suite",
			Sandbox: sandbox.Spec{Network: sandbox.Network{Hosts: []string{u.Host}}},
		}, nil)
	}
	r, err := do(map[string]any{})
	if err != nil {
		return err
	}
	if r.Failed {
		return fmt.Errorf("%s", r.Failure)
	}
	call := func(tool map[string]any, arguments map[string]any) error {
		text, err := jcs.Append(nil, arguments)
		if err != nil {
			return err
		}
		r, err := do(map[string]any{"tool_name": tool["name"], "definition": tool["definition"],
			"arguments": string(text)})
		if err == nil && r.Failed {
			fmt.Fprintf(os.Stderr, "%v: %s\n", tool["name"], r.Failure)
		}
		return err
	}
	tools := map[string]map[string]any{}
	for _, v := range list(r.Value, "tools") {
		tool := v.(map[string]any)
		tools[tool["name"].(string)] = tool
	}
	var given struct {
		ToolCalls []struct {
			Name      string         `json:"name"`
			Arguments map[string]any `json:"arguments"`
		} `json:"toolCalls"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return err
		}
	}
	switch os.Getenv("MCP_CONFORMANCE_SCENARIO") {
	case "tools_call":
		return call(tools["add_numbers"], map[string]any{"a": 5.0, "b": 3.0})
	case "sse-retry":
		return call(tools["test_reconnection"], nil)
	case "json-schema-2020-12-preservation":
		return call(tools["json_schema_echo"],
			map[string]any{"schema": tools["json_schema_2020_12_tool"]["inputSchema"]})
	case "http-custom-headers":
		for _, q := range given.ToolCalls {
			if err := call(tools[q.Name], q.Arguments); err != nil {
				return err
			}
		}
	case "http-invalid-tool-headers", "http-standard-headers":
		for _, tool := range tools {
			if err := call(tool, map[string]any{"region": "us-west1"}); err != nil {
				return err
			}
		}
	}
	return nil
}

// skills lists a server's skills, and adds all of them if wanted.
func skills(c *Client, at string, network sandbox.Network, add bool) error {
	s, err := c.OpenSkills(context.Background(), at, network)
	if err != nil {
		return err
	}
	defer s.Close()
	all, err := s.List(context.Background())
	if err != nil || !add {
		return err
	}
	for _, o := range all {
		if _, err := s.Read(context.Background(), o); err != nil {
			return err
		}
	}
	return nil
}

// TestSkillsConformance runs the scenarios of the official suite for clients of the skills extension. It wants a
// client that lists skills without reading a file, and reads nothing after a SKILL.md that isn't what was listed.
func TestSkillsConformance(t *testing.T) {
	suite := filepath.Join(npmtest.Install(t, "@modelcontextprotocol/conformance@0.2.0-alpha.12"), "dist", "index.js")
	for _, name := range []string{"no-prefetch", "verify-digest", "verify-size", "verify-frontmatter"} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), filepath.Join(npmtest.Bin(t), "node"), suite, "client",
				"--command", sandboxtest.Self(t)+" "+clientWord, "--scenario", "sep-2640-client-"+name, "--verbose",
				"-o", t.TempDir())
			out, err := cmd.CombinedOutput()
			if err != nil || strings.Count(string(out), `"status": "SUCCESS"`) != 1 ||
				strings.Count(string(out), `"status": "`) != 1 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestConformance runs the official suite for clients.
func TestConformance(t *testing.T) {
	suite := filepath.Join(npmtest.Install(t, "@modelcontextprotocol/conformance@0.2.0-alpha.12"), "dist", "index.js")
	node := filepath.Join(npmtest.Bin(t), "node")
	for _, c := range []struct{ revision, scenarios string }{
		{"2025-11-25", "initialize tools_call sse-retry json-schema-2020-12-preservation"},
		{"2026-07-28",
			"tools_call request-metadata http-standard-headers http-custom-headers http-invalid-tool-headers json-schema-ref-no-deref json-schema-2020-12-preservation"},
	} {
		for name := range strings.FieldsSeq(c.scenarios) {
			t.Run(c.revision+"/"+name, func(t *testing.T) {
				cmd := exec.CommandContext(t.Context(), node, suite, "client", "--command",
					sandboxtest.Self(t)+" "+clientWord, "--scenario", name, "--spec-version", c.revision, "-o",
					t.TempDir())
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%v\n%s", err, failures(out))
				}
				t.Logf("%s", out)
			})
		}
	}
}

// failures are the lines of the suite's output that matter.
func failures(out []byte) []byte {
	var kept [][]byte
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		kept = append(kept, slices.Clone(lines.Bytes()))
	}
	return bytes.Join(kept[max(0, len(kept)-60):], []byte("\n"))
}
