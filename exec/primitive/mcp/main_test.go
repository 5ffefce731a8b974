package mcp

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/httpclient"
	"github.com/rye-build/rye/exec/primitive/mcp/mcptest"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// The words by which this binary is started again: as the second stage of a sandbox, and as a server in it.
const (
	stageWord  = "__stage"
	serverWord = "__server"
)

// programs are what this binary is if it is started with one of these words.
var programs = map[string]func(args []string) (status int){
	serverWord: func(args []string) int { return mcptest.Main(args, os.Environ(), os.Stdin, os.Stdout, os.Stderr) },
}

// program adds a program.
func program(word string, run func(args []string) int) bool {
	programs[word] = run
	return true
}

func TestMain(m *testing.M) {
	sandboxtest.Programs(programs)
	os.Exit(m.Run())
}

// client returns a new client, which is closed with the test.
func client(t testing.TB) *Client {
	c := &Client{Machine: sandboxtest.Machine(t), HTTP: &httpclient.Client{}, Version: "test",
		settle: 100 * time.Millisecond}
	t.Cleanup(func() { c.Close() })
	return c
}

func list(v any, name string) []any {
	m, _ := v.(map[string]any)
	l, _ := m[name].([]any)
	return l
}

// server is an action that asks a server what it has.
func server(t testing.TB, args ...string) *primitive.Action {
	all := []any{serverWord}
	for _, a := range args {
		all = append(all, a)
	}
	dir := sandboxtest.Dir(t)
	return &primitive.Action{
		Config: map[string]any{"transport": "stdio", "command": "server", "args": all, "timeout": int64(300)},
		Env:    []string{mark(t)}, Dir: dir, Scratch: dir,
		Links:    []string{"tool:mcp/t/x", "tool:mcp/servers/t", "tool:r", "tool:p"},
		Programs: map[string]primitive.Program{"server": {Path: sandboxtest.Self(t)}},
		Sandbox:  sandbox.Spec{Level: floor.Limits},
	}
}

// calling is an action that calls a tool of a server.
func calling(t testing.TB, definition, tool string, args map[string]any, options ...string) *primitive.Action {
	a := server(t, options...)
	text, err := jcs.Append(nil, args)
	if err != nil {
		t.Fatal(err)
	}
	a.Config["tool_name"], a.Config["definition"], a.Config["arguments"] = tool, definition, string(text)
	return a
}

// mark marks the processes of a test.
func mark(t testing.TB) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return "RYE_TEST=" + strconv.Itoa(os.Getpid()) + name
}

// alive lists the processes that a test has left, where a system lists them.
func alive(t testing.TB) []string { return sandboxtest.Alive("environ", mark(t)) }

func withCancel(t testing.TB) (context.Context, func()) { return context.WithCancel(t.Context()) }

// run runs an action that can be done.
func run(t testing.TB, c *Client, a *primitive.Action, to primitive.Sink) *primitive.Result {
	t.Helper()
	r, err := c.Run(t.Context(), a, to)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
