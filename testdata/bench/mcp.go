package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpJobs compares 1,000 calls of rye mcp serve, one after the other, with those of a server that is the SDK and a
// tool that returns a constant:
//
//	execute   runs a tool of the library that rye runs in its own process
//	script    runs the tool in Starlark of calledItems, in a sandboxed process
//	shell     runs the tool in bash of calledItems, beside as many times bash, too
//	door      is refused (sign): what the server does for each call beside running it
//
// For two seconds after a change of the working tree it is compared anew at each call.
func (b *bench) mcpJobs(what string) ([]job, error) {
	n := 1000
	if b.quick {
		n = 10
	}
	at := b.called("mcp-" + what)
	id := map[string]string{"execute": systemTool, "door": "", "script": "acme/script", "shell": "acme/shell"}[what]
	part := func(of string) command {
		return cmd(b.self, "-part", of, "-count", fmt.Sprint(n), "-rye", b.rye, "-tool", id)
	}
	j := at.job(false, at.in(part("mcp-rye")))
	j.once = slices.Insert(j.once, len(j.once)-1, at.rye("add", "tool:"+systemTool, "-q"))
	j.times = n
	jobs := []job{j, {tool: "bare", times: n, run: []command{part("mcp-bare")}}}
	if what == "shell" {
		jobs = append(jobs, at.many("shell", n))
	}
	return jobs, nil
}

// systemTool says what time it is.
const systemTool = "rye/core/system/system"

// serveBare is the server that does nothing.
func serveBare(ctx context.Context) error {
	s := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	for _, name := range []string{"execute", "sign"} {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				const text = `{"data":{"data":{"unix":1795651200,"utc":"2026-11-26T00:00:00Z"},"success":true},"ref":"tool:rye/core/system/system","success":true}`
				return &mcp.CallToolResult{StructuredContent: json.RawMessage(text),
					Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
			})
	}
	return s.Run(ctx, &mcp.StdioTransport{})
}

// callMany starts a server and makes n calls of a tool, each after the answer to the one before; "" is a call that is
// refused.
func callMany(ctx context.Context, id string, n int, server ...string) (err error) {
	tool, parameters := "execute", ""
	switch id {
	case "":
		tool, id = "sign", systemTool
	case systemTool:
		parameters = `,"parameters":{"item":"time"}`
	}
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
		refused := strings.Contains(answer, `"isError":true`) && tool == "execute"
		if err == nil && (refused || !strings.Contains(answer, `"structuredContent"`) &&
			!strings.Contains(answer, `"serverInfo"`)) {
			err = fmt.Errorf("%s: %s", tool, answer)
		}
		return err
	}
	err = ask(
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	if err == nil {
		_, err = io.WriteString(to, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	}
	for i := 1; i <= n && err == nil; i++ {
		err = ask(fmt.Sprintf(
			`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"item_type":"tool","item_id":%q%s}}}`,
			i, tool, id, parameters))
	}
	to.Close()
	if ended := c.Wait(); err == nil {
		err = ended
	}
	return err
}
