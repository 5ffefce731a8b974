package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpJobs compares 1,000 calls of rye mcp serve, one after the other, with those of a server that is the SDK and a tool that
// returns a constant:
//
//	execute   runs a tool of the library that rye runs in its own process
//	door      is refused (sign): what the server does for each call beside running it
//
// The goal isn't reached: 3.8 × (0.4 ms a call), while the door alone is at 1.3 × (0.16 ms). The difference is what a call of
// rye promises: the policies are read again, the files of the working tree are looked at, the call and its end are written to
// the log, and a receipt is signed. For two seconds after a change of the working tree it is compared anew at each call.
func (b *bench) mcpJobs(what string) ([]job, error) {
	calls := "1000"
	if b.quick {
		calls = "10"
	}
	at := filepath.Join(b.dir, "mcp-"+what)
	home, project := at+"-home", at+"-project"
	in := func(c command) command {
		return c.in(project).with("HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"), "XDG_STATE_HOME="+filepath.Join(home, "state"), "XDG_DATA_HOME="+filepath.Join(home, "data"))
	}
	tool := map[string]string{"execute": "execute", "door": "sign"}[what]
	if tool == "" {
		return nil, fmt.Errorf("nothing is measured as %q", what)
	}
	part := func(of string) command {
		return cmd(b.self, "-part", of, "-count", calls, "-rye", b.rye, "-data", tool)
	}
	ready := []command{cmd("mkdir", home, project), in(cmd(b.rye, "init")), in(cmd(b.rye, "add", "tool:"+calledTool, "-q"))}
	return []job{{tool: "rye", onceFresh: []string{home, project}, once: ready, run: []command{in(part("mcp-rye"))}}, {tool: "bare", run: []command{part("mcp-bare")}}}, nil
}

// calledTool says what time it is.
const calledTool = "rye/core/system/system"

// serveBare is the server that does nothing.
func serveBare(ctx context.Context) error {
	s := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	for _, name := range []string{"execute", "sign"} {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			const text = `{"data":{"data":{"unix":1795651200,"utc":"2026-11-26T00:00:00Z"},"success":true},"ref":"tool:rye/core/system/system","success":true}`
			return &mcp.CallToolResult{StructuredContent: json.RawMessage(text), Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		})
	}
	return s.Run(ctx, &mcp.StdioTransport{})
}

// callMany starts a server and makes n calls of a tool, each after the answer to the one before.
func callMany(ctx context.Context, tool string, n int, server ...string) (err error) {
	c := exec.CommandContext(ctx, server[0], server[1:]...)
	c.Stderr = os.Stderr
	to, err := c.StdinPipe()
	if err != nil {
		return err
	}
	from, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	answers := bufio.NewReaderSize(from, 1<<20)
	ask := func(line string) error {
		if _, err := io.WriteString(to, line+"\n"); err != nil {
			return err
		}
		answer, err := answers.ReadString('\n')
		if err == nil && !strings.Contains(answer, `"structuredContent"`) && !strings.Contains(answer, `"serverInfo"`) {
			err = fmt.Errorf("%s: %s", tool, answer)
		}
		return err
	}
	err = ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	if err == nil {
		_, err = io.WriteString(to, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	}
	more := ""
	if tool == "execute" {
		more = `,"parameters":{"item":"time"}`
	}
	for i := 1; i <= n && err == nil; i++ {
		err = ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"item_type":"tool","item_id":%q%s}}}`, i, tool, calledTool, more))
	}
	to.Close()
	if ended := c.Wait(); err == nil {
		err = ended
	}
	return err
}
