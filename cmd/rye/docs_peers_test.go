//go:build peers && linux

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/cmd/rye/initcmd"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/provider/wire"
)

// TestDocs follows every page of the documentation from its start to its end: it runs the commands of the console
// blocks in one shell, in a new project of a new user, and compares what they print with what the page shows.
func TestDocs(t *testing.T) {
	topics, err := initcmd.DocTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir, pages := t.TempDir(), map[string][]docCommand{}
	for _, it := range topics {
		name := strings.TrimPrefix(it.ID, "rye/")
		blocks, _ := docBlocks(it.Model.Body)
		for _, block := range blocks {
			if block.mark == "console" {
				pages[name] = append(pages[name], block.commands...)
			}
		}
		script := "exec rye init shop\ncd shop\nfollow " + name + "\n"
		if err := os.WriteFile(filepath.Join(dir, name+".txtar"), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	serveModel(t)
	p := scriptParams()
	p.Dir, p.UpdateScripts = dir, false
	p.Cmds["follow"] = func(ts *testscript.TestScript, _ bool, args []string) { follow(ts, pages[args[0]]) }
	testscript.Run(t, p)
}

// serveModel answers at the address where a user's own model server listens. The model does nothing but return what
// the directive declares as its outputs.
func serveModel(t *testing.T) {
	const address = "127.0.0.1:11434" // of the provider "local"
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the documentation's model must listen on %s: stop what does: %v", address, err)
	}
	model := modeltest.New(t)
	model.Handle(func(q *modeltest.Request) modeltest.Turn {
		usage := wire.Usage{Input: 50, Output: 10}
		tools, _ := q.Body["tools"].([]any)
		for _, one := range tools {
			function, _ := one.(map[string]any)["function"].(map[string]any)
			if function["name"] != "directive_return" {
				continue
			}
			outputs := map[string]any{}
			properties, _ := function["parameters"].(map[string]any)["properties"].(map[string]any)
			for name, schema := range properties {
				outputs[name] = map[string]any{"string": "done", "boolean": true, "integer": 1, "number": 1,
					"array": []any{}, "object": map[string]any{}}[schema.(map[string]any)["type"].(string)]
			}
			return modeltest.Turn{Usage: usage,
				Calls: []wire.ToolCall{{ID: "a", Name: "directive_return", Input: outputs}}}
		}
		return modeltest.Turn{Text: "Done.", Usage: usage}
	})
	server := &http.Server{Handler: model}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); <-done })
}

// reader is the shell of someone who follows a page, and says yes to what rye asks before it changes something.
const reader = `exec 2>&1
rye() {
	case "$1 $2" in
	exec*|run*|'thread resume'*|'thread handoff'*) command rye "$@" ;;
	*) command rye --yes "$@" ;;
	esac
}
`

// follow runs the commands of a page in one shell, which writes the byte 30 before and after the output of each.
func follow(ts *testscript.TestScript, commands []docCommand) {
	var script strings.Builder
	script.WriteString(reader)
	for _, command := range commands {
		fmt.Fprintf(&script, "printf '\\036'\n%s\nprintf '\\036%%d\\n' $?\n", command.text)
	}
	ts.Check(os.WriteFile(ts.MkAbs("../page.sh"), []byte(script.String()), 0o600))
	_ = ts.Exec("sh", "../page.sh")
	parts := strings.Split(ts.ReadFile("stdout"), "\036")
	var wrong strings.Builder
	for i, command := range commands {
		if 2*i+2 >= len(parts) {
			fmt.Fprintf(&wrong, "line %d: $ %s\nwas not run\n", command.line, command.text)
			break
		}
		printed := parts[2*i+1]
		status, _ := strconv.Atoi(strings.TrimSpace(parts[2*i+2]))
		switch {
		case (status != 0) != command.fails():
			fmt.Fprintf(&wrong, "line %d: $ %s\n%s[exit status %d]\n", command.line, command.text, printed, status)
		case !command.prints(printed):
			fmt.Fprintf(&wrong, "line %d: $ %s\n%s[want]\n%s\n", command.line, command.text, printed,
				strings.Join(command.want, "\n"))
		}
	}
	if wrong.Len() > 0 {
		ts.Fatalf("%s", wrong.String())
	}
}

// prints reports whether the output is what the page shows.
func (c docCommand) prints(output string) bool {
	if len(c.want) == 0 {
		return true
	}
	pattern := "^"
	for _, line := range c.want {
		if line == "…" {
			pattern += `(?:.*\n)*`
			continue
		}
		pattern += strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(line, " ")), "…", ".*") + " *\n"
	}
	if output != "" && !strings.HasSuffix(output, "\n") {
		output += "\n"
	}
	return regexp.MustCompile(pattern + "$").MatchString(output)
}
