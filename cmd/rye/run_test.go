package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/provider/wire"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// TestModelScripts runs the scripts that need a model. It calls acme/echo with what stands behind "echo" in the
// directive, and returns what that gave, and makes what stands behind "make"; "refuse" makes the service refuse,
// "fails-once" fail the first time, and "talk" the model answer with text alone.
func TestModelScripts(t *testing.T) {
	server, gates, once := modeltest.New(t), new(holds), new(sync.Once)
	isFirst := func() (is bool) {
		once.Do(func() { is = true })
		return is
	}
	server.Handle(func(q *modeltest.Request) modeltest.Turn {
		all := q.Body["messages"].([]any)
		first, last := fmt.Sprint(all[0]), all[len(all)-1].(map[string]any)
		if t, ok := gates.answer(q, first); ok {
			return t
		}
		switch {
		case strings.Contains(first, "Write that summary"):
			return modeltest.Turn{Text: "We were at three.", Usage: wire.Usage{Input: 7, Output: 3}}
		case strings.Contains(first, "We were at three."):
			return modeltest.Turn{Text: fmt.Sprintf("went on with %d turns", len(all)/2-1),
				Usage: wire.Usage{Input: 7, Output: 3}}
		}
		if t, ok := directed(q); ok {
			if strings.Contains(first, "The tokens are counted") {
				t.Usage.Input = int64(len(q.Raw)) / 4
			}
			return t
		}
		_, word, _ := strings.Cut(first, "echo ")
		word, _, _ = strings.Cut(word, ".")
		use := wire.Usage{Input: 50, Output: 10}
		switch {
		case strings.Contains(first, "refuse"):
			return modeltest.Turn{Status: 401}
		case word == "fails-once" && isFirst():
			return modeltest.Turn{Status: 500, Message: "out of order"}
		case strings.Contains(first, "Please make "):
			return modeltest.Turn{Calls: []wire.ToolCall{{ID: "a", Name: "directive_return", Input: makes(first)}},
				Usage: use}
		case strings.Contains(first, "name=\"hello\""):
			_, topic, _ := strings.Cut(first, "about ")
			topic, _, _ = strings.Cut(topic, ".")
			return modeltest.Turn{Calls: []wire.ToolCall{{ID: "a", Name: "directive_return",
				Input: map[string]any{"summary": "About " + topic + "."}}}, Usage: use}
		case strings.Contains(first, "talk"):
			return modeltest.Turn{Text: "Just words.", Usage: use}
		case last["role"] == "tool":
			return modeltest.Turn{Calls: []wire.ToolCall{{ID: "b", Name: "directive_return",
				Input: map[string]any{"answer": last["content"]}}}, Usage: use}
		}
		return modeltest.Turn{Text: "I'll ask.", Usage: use, Calls: []wire.ToolCall{{ID: "a", Name: "rye_execute",
			Input: map[string]any{"item_type": "tool", "item_id": "acme/echo",
				"parameters": map[string]any{"text": word}}}}}
	})
	p := scriptParams()
	p.Dir += "/model"
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		env.Setenv("MODEL_HOST", server.Host)
		at := filepath.Join(env.WorkDir, "p", ".ai", "tools", "acme", "providers")
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		item := strings.ReplaceAll(server.Item("local"), "category: rye/agent/providers", "category: acme/providers")
		if err := os.WriteFile(filepath.Join(at, "local.yaml"), []byte(item), 0o644); err != nil {
			return err
		}
		return setup(env)
	}
	p.Cmds["held"], p.Cmds["release"] = gates.held, gates.release
	p.Cmds["parts"], p.Cmds["job"] = parts, job
	p.Cmds["threadid"], p.Cmds["firstthread"], p.Cmds["lastthread"] = threadID, firstThreadOf, lastThreadOf
	testscript.Run(t, p)
}

// makes returns the outputs with a tool of the name behind "make"; "bad" is none.
func makes(first string) map[string]any {
	_, name, _ := strings.Cut(first, "Please make ")
	name, _, _ = strings.Cut(name, ".")
	text :=
		"# ---\n# version: \"1.0.0\"\n# category: acme\n# description: Made\n# tool_type: starlark\n# executor_id: rye/core/runtimes/starlark_runtime\n" +
			"# risk: read\n# ---\ndef main(params):\n    return {\"" + name + "\": True}\n"
	if name == "bad" {
		text = "def main(params):\n    pass\n"
	}
	return map[string]any{"ref": "tool:acme/" + name, "extension": ".star", "content": text}
}

// threadID is "threadid FILE VAR": the variable is the id of the thread that an answer in JSON names.
func threadID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: threadid FILE VAR")
	}
	var answer struct {
		Data struct {
			Thread string `json:"thread"`
		} `json:"data"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &answer))
	ts.Setenv(args[1], answer.Data.Thread)
}

// parts is "parts FILE DIRECTIVE N MOST": a list in JSON has N threads of a directive, whose budgets are MOST dollars
// together at most, and which may do no more than call acme/echo.
func parts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: parts FILE DIRECTIVE N MOST")
	}
	var list struct {
		Data struct {
			Threads []struct {
				Thread, Directive string
				Budget            *float64
			}
		}
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &list))
	n, sum := 0, 0.0
	for _, t := range list.Data.Threads {
		if t.Directive != "directive:"+args[1] && t.Directive != args[1] {
			continue
		}
		if n++; t.Budget == nil {
			ts.Fatalf("%s has no budget", t.Thread)
		}
		sum += *t.Budget
		lines := ts.ReadFile(filepath.Join(".ai", "threads", filepath.FromSlash(t.Thread), transcript.LinesFile))
		first, _, _ := strings.Cut(lines, "\n")
		if !strings.Contains(first, `"grants":["execute:tool:acme/echo"]`) {
			ts.Fatalf("%s", first)
		}
	}
	if most, err := strconv.ParseFloat(args[3], 64); err != nil || fmt.Sprint(n) != args[2] || sum > most {
		ts.Fatalf("%d threads of %s have %g dollars", n, args[1], sum)
	}
}

// firstThreadOf is "firstthread FILE VAR [DIRECTIVE]": the variable is the id of the first thread of a list in JSON,
// or of a directive in it, or of a list as a person sees it.
func firstThreadOf(ts *testscript.TestScript, neg bool, args []string) {
	listedThreadOf(ts, neg, args, false)
}

// lastThreadOf is firstThreadOf for the last one.
func lastThreadOf(ts *testscript.TestScript, neg bool, args []string) {
	listedThreadOf(ts, neg, args, true)
}

func listedThreadOf(ts *testscript.TestScript, neg bool, args []string, last bool) {
	if neg || len(args) != 2 && len(args) != 3 {
		ts.Fatalf("usage: firstthread|lastthread FILE VAR [DIRECTIVE]")
	}
	text := ts.ReadFile(args[0])
	if words := strings.Fields(text); len(args) == 2 && !last && len(words) > 0 && !strings.HasPrefix(text, "{") {
		ts.Setenv(args[1], words[0])
		return
	}
	type listed struct{ Thread, Directive string }
	var answer struct{ Data struct{ Threads []listed } }
	ts.Check(json.Unmarshal([]byte(text), &answer))
	threads := slices.DeleteFunc(answer.Data.Threads, func(l listed) bool {
		return len(args) == 3 && l.Directive != "directive:"+args[2]
	})
	if len(threads) == 0 {
		ts.Fatalf("no such threads in %s", args[0])
	}
	at := 0
	if last {
		at = len(threads) - 1
	}
	ts.Setenv(args[1], threads[at].Thread)
}

// runWords are those of rye run: a project with a directive, signed by the home's key, whose model says one thing.
func runWords(t *testing.T, home string) []string {
	t.Helper()
	dir := t.TempDir()
	items := map[string]string{
		"tools/acme/providers/local.yaml": strings.ReplaceAll(modeltest.New(t, modeltest.Turn{Text: "done"},
			modeltest.Turn{Text: "done"}, modeltest.Turn{Text: "done"}).Item("local"), "category: rye/agent/providers",
			"category: acme/providers"),
		"directives/acme/say.md": `<directive name="say" version="1.0.0"><metadata><description>d</description><category>acme</category>` +
			`<model provider="acme/providers/local" id="m"/></metadata><process>Say it.</process></directive>` + "\n",
	}
	for name, text := range items {
		path := filepath.Join(dir, ".ai", filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	h, _, stderr := testHost("HOME="+home, "USERPROFILE="+home, "LOCALAPPDATA="+home)
	h.Now = time.Now
	if got := cli.Run(h, commands(), []string{"-C", dir, "sign", "**", "--yes"}); got != fault.ExitDone {
		t.Fatalf("%d, %s", got, stderr)
	}
	return []string{"-C", dir, "acme/say"}
}

// resumeWords are those of rye thread resume: a thread that a limit has interrupted.
func resumeWords(t *testing.T, home string) []string {
	t.Helper()
	words := runWords(t, home)
	h, stdout, _ := testHost("HOME="+home, "USERPROFILE="+home, "LOCALAPPDATA="+home)
	cli.Run(h, commands(), append([]string{"run", "--json", "--limit", "turns=0"}, words...))
	var answer struct {
		Error struct {
			Details struct {
				Thread string `json:"thread"`
			} `json:"details"`
		} `json:"error"`
	}
	if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil || answer.Error.Details.Thread == "" {
		t.Fatalf("%s, %v", stdout, err)
	}
	return []string{words[0], words[1], answer.Error.Details.Thread, "--limit", "turns=3"}
}

// TestSetHolds: a thread runs what the lock pinned when it began, whatever the lock says by now; a tool that has
// changed in the working tree is LOCK_MISMATCH, unless only what is pinned counts.
func TestSetHolds(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	sandboxtest.Removable(t, home)
	server := modeltest.New(t)
	items := map[string]string{
		".ai/tools/acme/providers/local.yaml": strings.ReplaceAll(server.Item("local"),
			"category: rye/agent/providers", "category: acme/providers"),
		".ai/tools/acme/echo.star": "# ---\n# version: \"1.0.0\"\n# category: acme\n# description: Says it\n# tool_type: starlark\n" +
			"# executor_id: rye/core/runtimes/starlark_runtime\n# risk: read\n# ---\ndef main(params):\n    return {\"said\": \"one\"}\n",
		".ai/directives/acme/say.md": `<directive name="say" version="1.0.0"><metadata><description>d</description><category>acme</category>` +
			`<model provider="acme/providers/local" id="m"/><permissions><execute><tool>acme/*</tool></execute></permissions></metadata><process>Say it.</process></directive>` +
			"\n",
	}
	write := func(name, text string) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	rye := func(args ...string) string {
		h, stdout, stderr := testHost("HOME="+home, "USERPROFILE="+home, "LOCALAPPDATA="+home)
		h.Now = time.Now
		if got := cli.Run(h, commands(), append([]string{"-C", dir, "--yes"}, args...)); got != fault.ExitDone {
			t.Errorf("%s: %d, %s", args, got, stderr)
		}
		return stdout.String()
	}
	for flag, want := range map[string]string{"--json": "LOCK_MISMATCH", "--pinned": `"said":"one"`} {
		for name, text := range items {
			write(name, text)
		}
		rye("init")
		rye("sign", "**")
		rye("lock")
		server.Handle(func(q *modeltest.Request) modeltest.Turn {
			all := q.Body["messages"].([]any)
			call := modeltest.Turn{Calls: []wire.ToolCall{{ID: fmt.Sprint("c", len(all)), Name: "rye_execute",
				Input: map[string]any{"item_type": "tool", "item_id": "acme/echo"}}}}
			switch len(all) {
			case 1:
				return call
			case 3:
				write(".ai/tools/acme/echo.star", strings.Replace(items[".ai/tools/acme/echo.star"], "one", "two", 1))
				rye("sign", "tool:acme/echo")
				rye("lock")
				return call
			}
			return modeltest.Turn{Text: fmt.Sprintf("first %v, then %v", all[2].(map[string]any)["content"],
				all[4].(map[string]any)["content"])}
		})
		got := rye("run", "acme/say", flag)
		first, then, _ := strings.Cut(strings.ReplaceAll(got, `\`, ""), ", then ")
		if !strings.Contains(first, `"said":"one"`) || !strings.Contains(then, want) || strings.Contains(got, "two") {
			t.Errorf("%s: %s", flag, got)
		}
		if again := rye("run", "acme/say", "--pinned"); !strings.Contains(again, "two") {
			t.Errorf("with the new lock: %s", again)
		}
	}
}
