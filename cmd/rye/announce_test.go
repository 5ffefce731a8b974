package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// pose is "pose NAME": bin/NAME is this program, which does what posing says.
func pose(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: pose NAME")
	}
	self, err := os.Executable()
	ts.Check(err)
	ts.Check(os.MkdirAll(ts.MkAbs("bin"), 0o777))
	at := ts.MkAbs(filepath.Join("bin", args[0]))
	if os.Link(self, at) == nil {
		return
	}
	b, err := os.ReadFile(self)
	ts.Check(err)
	ts.Check(os.WriteFile(at, b, 0o777))
}

// posing returns what this program does under the name of another: as node it is a server that announces what the file
// that it is given says, as npm it lists one package, and as npx or uvx it leaves a file that no test wants.
func posing() func() {
	switch strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") {
	case "node":
		return announceMain
	case "npx", "uvx": // decoys, which leave a file where they are started and where a server may write
		return func() {
			_ = errors.Join(os.WriteFile("ran", nil, 0o666), os.WriteFile("out/ran", nil, 0o666))
			syscall.Exit(1)
		}
	case "npm":
		return func() {
			const list = `{"lockfileVersion": 3, "packages": {"": {}, "node_modules/server": {"version": "1.0.0", "integrity": "sha512-%s==", "bin": "main.js"}}}`
			if err := os.WriteFile("package-lock.json", fmt.Appendf(nil, list, strings.Repeat("A", 86)),
				0o666); err != nil || os.Args[len(os.Args)-1] != "server@1.0.0" {
				fmt.Fprintln(os.Stderr, "out of cheese", err)
				syscall.Exit(1)
			}
			syscall.Exit(0)
		}
	}
	return nil
}

// announceMain is an MCP server on standard input and output: "announce FILE" announces the tools of a JSON file, or
// of the argument itself if that is a list. If the file has an object, it has the tools, instructions, prompts and
// resources. A call answers with the arguments. "announce FILE OTHER MARK" announces OTHER if there is the file MARK,
// and makes that. Everything is what the file says, whether a client can stand it or
// not.
func announceMain() {
	if err := announceFile(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "announce:", err)
		syscall.Exit(1)
	}
	syscall.Exit(0)
}

func announceFile(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("no file")
	}
	if len(args) == 3 {
		if _, err := os.Stat(args[2]); err == nil {
			args = args[1:]
		} else if err := os.WriteFile(args[2], nil, 0o600); err != nil {
			return err
		}
	}
	b := []byte(args[0])
	if b[0] != '[' {
		var err error
		if b, err = os.ReadFile(args[0]); err != nil {
			return err
		}
	}
	var says struct {
		Tools        json.RawMessage
		Prompts      json.RawMessage
		Resources    json.RawMessage
		Instructions string
	}
	if json.Unmarshal(b, &says) != nil {
		says.Tools = b
	}
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var q struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Arguments json.RawMessage
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil || q.ID == nil {
			continue
		}
		answer := map[string]any{"jsonrpc": "2.0", "id": q.ID}
		list := func(name string, all json.RawMessage) {
			if all == nil {
				all = json.RawMessage("[]")
			}
			answer["result"] = map[string]any{name: all}
		}
		switch q.Method {
		case "initialize":
			capabilities := map[string]any{"tools": map[string]any{}}
			if says.Prompts != nil {
				capabilities["prompts"] = map[string]any{}
			}
			if says.Resources != nil {
				capabilities["resources"] = map[string]any{}
			}
			answer["result"] = map[string]any{"protocolVersion": "2025-06-18", "capabilities": capabilities,
				"instructions": says.Instructions,
				"serverInfo":   map[string]any{"name": "announce", "version": "1"}}
		case "tools/list":
			list("tools", says.Tools)
		case "prompts/list":
			list("prompts", says.Prompts)
		case "resources/list":
			list("resources", says.Resources)
		case "resources/templates/list":
			list("resourceTemplates", nil)
		case "tools/call":
			answer["result"] = map[string]any{"content": []any{map[string]any{"type": "text",
				"text": string(q.Params.Arguments)}}}
		default:
			answer["error"] = map[string]any{"code": -32601, "message": "method not found"}
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}
