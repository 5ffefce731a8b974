package mcp

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/httpclient"
	"github.com/rye-build/rye/exec/primitive/mcp/mcptest"
	"github.com/rye-build/rye/exec/sandbox"
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
	stageWord:  sandbox.Stage,
	serverWord: func(args []string) int { return mcptest.Main(args, os.Environ(), os.Stdin, os.Stdout, os.Stderr) },
}

// program adds a program.
func program(word string, run func(args []string) int) bool {
	programs[word] = run
	return true
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if run := programs[os.Args[1]]; run != nil {
			syscall.Exit(run(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

func self(t testing.TB) string {
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// client returns a new client, which is closed with the test.
func client(t testing.TB) *Client {
	c := &Client{Machine: sandbox.New(sandbox.Options{Self: []string{self(t), stageWord}}), HTTP: &httpclient.Client{}, Version: "test", settle: 100 * time.Millisecond}
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
	dir := realDir(t)
	return &primitive.Action{
		Config: map[string]any{"transport": "stdio", "command": "server", "args": all, "timeout": int64(300)},
		Env:    []string{mark(t)}, Dir: dir, Scratch: dir, Links: []string{"tool:mcp/t/x", "tool:mcp/servers/t", "tool:r", "tool:p"},
		Programs: map[string]primitive.Program{"server": {Path: self(t)}}, Sandbox: sandbox.Spec{Level: floor.Limits},
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
func alive(t testing.TB) (list []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range paths {
		if env, _ := os.ReadFile(p); bytes.Contains(env, []byte(mark(t))) {
			list = append(list, p)
		}
	}
	return list
}

// realDir returns a new directory without links in its path.
func realDir(t testing.TB) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// listener accepts connections, and reports whether there was one.
func listener(t testing.TB) (address string, reached func() bool) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var came atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			c.Close()
		}
	}()
	own := int64(0)
	return l.Addr().String(), func() bool {
		// Earlier connections are accepted first, and this one when its end is seen.
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		own++
		c.Read(make([]byte, 1))
		return came.Load() > own
	}
}

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
