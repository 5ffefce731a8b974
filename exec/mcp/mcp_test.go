package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/exec/mcp"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/roster"
)

func TestTools(t *testing.T) {
	s := serving(t)
	all, err := s.client.ListTools(t.Context(), nil)
	s.must(err)
	var names []string
	for _, tool := range all.Tools {
		names = append(names, tool.Name)
		if tool.Description == "" || !strings.Contains(tool.Description, "Example: {") || tool.OutputSchema == nil ||
			tool.Annotations == nil {
			t.Errorf("%+v", tool)
		}
	}
	if fmt.Sprint(names) != "[execute load search sign]" {
		t.Error(names)
	}
	if b, err := json.Marshal(all); err != nil || len(b) > 6<<10 {
		t.Error(len(b), err)
	}
	answer, failed := s.call("execute", item("tool", "acme/greet", "parameters", object{"name": "Ann"}))
	if data, _ := answer["data"].(object); failed || answer["success"] != true || data["greeting"] != "hello, Ann" {
		t.Error(answer)
	}
	answer, failed = s.call("execute", item("tool", "acme/greet", "parameters", object{"name": "Ann"}, "dry_run",
		true))
	if failed || answer["dry_run"] != true || answer["data"] != nil {
		t.Error(answer)
	}
	answer, failed = s.call("execute", item("directive", "acme/asking", "parameters", object{"topic": "trees"}))
	if text, _ := answer["text"].(string); failed || !strings.Contains(text, "Ask about trees.") {
		t.Error(answer)
	}
	answer, failed = s.call("execute", item("knowledge", "acme/note"))
	if text, _ := answer["text"].(string); failed || !strings.Contains(text, "# Note") ||
		strings.Contains(text, "rye:signed") {
		t.Error(answer)
	}
	answer, failed = s.call("load", item("tool", "acme/greet", "project_path", s.p.At(".ai")))
	if text, _ := answer["text"].(string); failed || !strings.Contains(text, "rye:signed") ||
		!strings.HasPrefix(fmt.Sprint(answer["digest"]), "blake3:") {
		t.Error(answer)
	}
	answer, failed = s.call("search", object{"query": "greets"})
	if hits, _ := answer["results"].([]any); failed || len(hits) == 0 ||
		hits[0].(object)["ref"] != "tool:acme/greet" || hits[0].(object)["about"] != "Greets" {
		t.Error(answer)
	}
	answer, failed = s.call("search", object{"query": ""})
	if b, err := json.Marshal(answer); failed || err != nil || len(answer["results"].([]any)) != 10 || len(b) > 2<<10 {
		t.Error(len(b), answer)
	}
}

func TestRefusals(t *testing.T) {
	s := serving(t)
	for _, c := range []struct {
		tool  string
		given object
		code  string
	}{
		{"execute", item("tool", "acme/none"), "TOOL_NOT_FOUND"},
		{"execute", item("tool", "Bad Name"), "VALIDATION_FAILED"},
		{"execute", item("tool", "acme/greet"), "VALIDATION_FAILED"},
		{"execute", item("tool", "acme/greet", "parameters", object{"name": 1}), "VALIDATION_FAILED"},
		{"execute", item("tool", "acme/greet", "parameters", object{"name": "fail"}), "EXECUTION_FAILED"},
		{"execute", item("thing", "acme/greet"), "VALIDATION_FAILED"},
		{"execute", item("directive", "acme/asking"), "VALIDATION_FAILED"},
		{"execute", item("directive", "acme/none"), "ITEM_NOT_FOUND"},
		{"execute", item("tool", "rye/agent/threads/directive_return"), "VALIDATION_FAILED"},
		{"execute", item("tool", "rye/agent/threads/thread_directive", "parameters",
			object{"directive_name": "acme/asking"}, "dry_run", true), "VALIDATION_FAILED"},
		{"execute", item("tool", "rye/agent/threads/thread_directive"), "VALIDATION_FAILED"},
		{"execute", item("tool", "rye/agent/threads/thread_directive", "parameters",
			object{"directive_name": "acme/none"}), "ITEM_NOT_FOUND"},
		{"load", item("tool", "acme/none"), "TOOL_NOT_FOUND"},
		{"load", item("tool", "/"), "VALIDATION_FAILED"},
		{"load", item("bundle", "acme/base"), "PERMISSION_DENIED"}, // rye.yaml says nothing of registries
		{"load", item("bundle", "../base"), "VALIDATION_FAILED"},
		{"execute", item("bundle", "acme/base"), "VALIDATION_FAILED"},
		{"load", object{}, "VALIDATION_FAILED"},
		{"load", item("tool", "acme/greet", "extra", 1), "VALIDATION_FAILED"},
		{"load", item("tool", "acme/greet", "project_path", "/"), "VALIDATION_FAILED"},
		{"load", item("tool", "acme/greet", "project_path", s.p.Dir+"-other"), "VALIDATION_FAILED"},
		{"load", item("tool", "acme/greet", "project_path", "relative"), "VALIDATION_FAILED"},
		{"search", object{"query": "*"}, "VALIDATION_FAILED"},
		{"search", object{"query": "x", "scope": "acme/x"}, "VALIDATION_FAILED"},
		{"search", object{"query": "x", "limit": 1000}, "VALIDATION_FAILED"},
		{"sign", item("tool", "acme/greet"), "PERMISSION_DENIED"},
		{"sign", item("tool", ""), "VALIDATION_FAILED"},
	} {
		if got := s.code(c.tool, c.given); got != c.code {
			t.Errorf("%s %v: %s, want %s", c.tool, c.given, got, c.code)
		}
	}
	if _, err := s.client.CallTool(t.Context(), &sdk.CallToolParams{Name: "trust"}); err == nil {
		t.Error("a tool that isn't there is called")
	}
	s.policy("ask:\n  all: {names: [\"tool:acme/**\"]}\n")
	if got := s.code("execute", item("tool", "acme/greet", "parameters",
		object{"name": "Ann"})); got != "APPROVAL_REQUIRED" {
		t.Error(got)
	}
}

// TestSwap: a lock that is replaced counts from the next call, one that is damaged doesn't.
func TestSwap(t *testing.T) {
	s := serving(t)
	given := item("tool", "acme/greet")
	version := func() string {
		answer, failed := s.call("load", given)
		text, _ := answer["text"].(string)
		for line := range strings.SplitSeq(text, "\n") {
			if v, ok := strings.CutPrefix(line, `# version: "`); ok {
				return strings.TrimSuffix(v, `"`)
			}
		}
		if failed {
			return fmt.Sprint(answer["error"].(object)["code"])
		}
		return text
	}
	if got := version(); got != "1.0.0" {
		t.Error(got)
	}
	s.edit("1.1.0")
	if got := version(); got != "LOCK_MISMATCH" {
		t.Error(got)
	}
	s.lock()
	if got := version(); got != "1.1.0" {
		t.Error(got)
	}
	good := s.p.Read("rye.lock")
	s.p.Write("rye.lock", good[:len(good)/2])
	for range 2 {
		if got := version(); got != "1.1.0" {
			t.Error(got)
		}
	}
	if s.mu.Lock(); len(s.warned) != 1 || !strings.Contains(s.warned[0], "the set stays as it was") {
		t.Error(s.warned)
	}
	s.mu.Unlock()
	s.p.Write("rye.lock", good)
	s.edit("1.2.0")
	s.lock()
	if got := version(); got != "1.2.0" {
		t.Error(got)
	}
}

// TestLists: directives are prompts, knowledge is resources, and chosen tools have names of their own; a lock that is
// replaced changes them.
func TestLists(t *testing.T) {
	s := serving(t, "tool:acme/greet*")
	prompts, err := s.client.ListPrompts(t.Context(), nil)
	s.must(err)
	if len(prompts.Prompts) != 1 || prompts.Prompts[0].Name != "acme/asking" ||
		len(prompts.Prompts[0].Arguments) != 1 ||
		prompts.Prompts[0].Arguments[0].Name != "topic" || !prompts.Prompts[0].Arguments[0].Required {
		t.Errorf("%+v", prompts.Prompts)
	}
	p, err := s.client.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "acme/asking",
		Arguments: map[string]string{"topic": "trees"}})
	s.must(err)
	if text := p.Messages[0].Content.(*sdk.TextContent).Text; !strings.Contains(text, "Ask about trees.") {
		t.Error(text)
	}
	for name, given := range map[string]map[string]string{"acme/asking": {}, "acme/none": nil} {
		if _, err := s.client.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: name, Arguments: given}); err == nil {
			t.Error(name)
		}
	}
	if _, err := s.client.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "acme/asking",
		Arguments: map[string]string{"more": "x"}}); err == nil {
		t.Error("an argument that isn't declared is taken")
	}
	r, err := s.client.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "rye://knowledge/acme/note"})
	s.must(err)
	if len(r.Contents) != 1 || !strings.Contains(r.Contents[0].Text, "# Note") ||
		r.Contents[0].MIMEType != "text/markdown" {
		t.Errorf("%+v", r.Contents)
	}
	if _, err := s.client.ReadResource(t.Context(),
		&sdk.ReadResourceParams{URI: "rye://knowledge/acme/none"}); err == nil {
		t.Error("a resource that isn't there is read")
	}
	answer, failed := s.call("acme_greet", object{"name": "Ann"})
	if data, _ := answer["data"].(object); failed || data["greeting"] != "hello, Ann" {
		t.Error(answer)
	}
	if got := s.code("acme_greet", object{"name": 1}); got != "VALIDATION_FAILED" {
		t.Error(got)
	}
	s.p.Put("tools/acme/greeter.star", strings.Replace(greet, "VERSION", "1.0.0", 1))
	s.p.Remove(".ai/tools/acme/greet.star")
	s.p.Remove(".ai/directives")
	s.p.Remove(".ai/knowledge/acme/note00.md")
	s.lock()
	s.call("search", object{"query": ""})
	for seen := map[string]bool{}; len(seen) < 3; {
		seen[<-s.changed] = true
	}
	tools, err := s.client.ListTools(t.Context(), nil)
	s.must(err)
	var names []string
	for _, tool := range tools.Tools {
		names = append(names, tool.Name)
	}
	if fmt.Sprint(names) != "[acme_greeter execute load search sign]" {
		t.Error(names)
	}
	if prompts, err = s.client.ListPrompts(t.Context(), nil); err != nil || len(prompts.Prompts) != 0 {
		t.Error(prompts, err)
	}
	resources, err := s.client.ListResources(t.Context(), nil)
	s.must(err)
	for _, r := range resources.Resources {
		if r.URI == "rye://knowledge/acme/note00" || r.Title == "" {
			t.Errorf("%+v", r)
		}
	}
}

// TestCapabilities: a server of a set without prompts and resources says that it may have some later.
func TestCapabilities(t *testing.T) {
	s := serving(t)
	s.p.Remove(".ai/knowledge")
	s.p.Remove(".ai/directives")
	s.lock()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	defer toServer.Close()
	go mcp.New(mcp.Options{Open: s.open, Project: s.p.Dir, Warn: s.warn}).Run(t.Context(),
		mcp.Lines(fromClient, toClient))
	go io.WriteString(toServer,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+
			"\n")
	line, err := bufio.NewReader(fromServer).ReadString('\n')
	s.must(err)
	for _, kind := range []string{"tools", "prompts", "resources"} {
		if !strings.Contains(line, `"`+kind+`":{"listChanged":true}`) {
			t.Error(kind, line)
		}
	}
}

// TestChanged: what differs from the lock, or isn't admitted any more, is neither given nor run.
func TestChanged(t *testing.T) {
	s := serving(t, "tool:acme/greet")
	s.p.WriteNote("more\n")
	s.p.Write(".ai/directives/acme/asking.md", asking+"More.\n")
	for range 2 {
		if _, err := s.client.ReadResource(t.Context(),
			&sdk.ReadResourceParams{URI: "rye://knowledge/acme/note"}); err == nil ||
			!strings.Contains(err.Error(), "differs from the lock") {
			t.Error(err)
		}
		if _, err := s.client.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "acme/asking",
			Arguments: map[string]string{"topic": "trees"}}); err == nil ||
			!strings.Contains(err.Error(), "differs from the lock") {
			t.Error(err)
		}
	}
	s.must(os.WriteFile(filepath.Join(s.p.Home, ".ai", "policy.yaml"), []byte("rye: policy/2\n"), 0o600))
	if got := s.code("acme_greet", object{"name": "Ann"}); got != "UNTRUSTED_KEY" {
		t.Error(got)
	}
	s.must(os.Remove(filepath.Join(s.p.Home, ".ai", "policy.yaml")))
	if got := s.code("search", object{"query": "x"}); got != "POLICY_DENIED" {
		t.Error(got)
	}
}

// TestArguments: arguments that are no object, or mean two things, are refused, and the server counts its calls.
func TestArguments(t *testing.T) {
	s := serving(t)
	for _, text := range []string{`[1]`, `"x"`, `{"query":"a","query":"b"}`, `{"query":1e400}`} {
		r, err := s.client.CallTool(t.Context(), &sdk.CallToolParams{Name: "search", Arguments: json.RawMessage(text)})
		if err == nil && (!r.IsError || !strings.Contains(r.Content[0].(*sdk.TextContent).Text, "VALIDATION_FAILED")) {
			t.Errorf("%s: %+v", text, r)
		}
	}
	if s.server.Calls() < 2 {
		t.Error(s.server.Calls())
	}
}

// TestOutputs: what a directive declares to return is in the answer of its thread.
func TestOutputs(t *testing.T) {
	s := serving(t)
	s.p.Put("directives/acme/asking.md", strings.Replace(asking, "</directive>",
		`<outputs><output name="answer" type="string">A</output></outputs></directive>`, 1))
	s.lock()
	s.models.Handle(func(*modeltest.Request) modeltest.Turn {
		return modeltest.Turn{Calls: []provider.ToolCall{{ID: "c", Name: "directive_return",
			Input: object{"answer": "tall"}}}}
	})
	answer, failed := s.call("execute", item("tool", "rye/agent/threads/thread_directive", "parameters",
		object{"directive_name": "acme/asking", "inputs": object{"topic": "trees"}}))
	data, _ := answer["data"].(object)
	if outputs, _ := data["outputs"].(object); failed || outputs["answer"] != "tall" {
		t.Error(answer)
	}
}

// TestCancelled: a call that the client gives up ends, and the server goes on.
func TestCancelled(t *testing.T) {
	s := serving(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	if _, err := s.client.CallTool(ctx, &sdk.CallToolParams{Name: "execute",
		Arguments: item("tool", "acme/greet", "parameters", object{"name": "spin"})}); !errors.Is(err,
		context.Canceled) {
		t.Error(err)
	}
	if answer, failed := s.call("execute", item("tool", "acme/greet", "parameters", object{"name": "Ann"})); failed {
		t.Error(answer)
	}
}

// TestThread: an agent starts a thread and gets its result; the thread's record is there.
func TestThread(t *testing.T) {
	s := serving(t)
	s.models.Handle(func(*modeltest.Request) modeltest.Turn { return modeltest.Turn{Text: "Trees are tall."} })
	start := item("tool", "rye/agent/threads/thread_directive", "parameters",
		object{"directive_name": "acme/asking", "inputs": object{"topic": "trees"}})
	answer, failed := s.call("execute", start)
	data, _ := answer["data"].(object)
	if failed || data["status"] != "completed" || data["result"] != "Trees are tall." {
		t.Fatal(answer)
	}
	id, _ := data["thread"].(string)
	if _, err := os.Stat(s.p.At(".ai/threads/" + id + "/transcript.jsonl")); err != nil {
		t.Error(err)
	}
	start["parameters"].(object)["limit_overrides"] = object{"turns": 0}
	answer, failed = s.call("execute", start)
	if e, _ := answer["error"].(object); !failed || e["code"] != "LIMIT_EXCEEDED" ||
		!strings.Contains(fmt.Sprint(e["suggestion"]), "rye thread resume acme/asking-") {
		t.Error(answer)
	}
	if s.mu.Lock(); len(s.progress) == 0 {
		t.Error("no progress of the thread")
	}
	s.mu.Unlock()
}

// TestThreadCancelled: a thread whose client gives up is interrupted, and can go on.
func TestThreadCancelled(t *testing.T) {
	s := serving(t)
	asked := make(chan struct{}, 1)
	s.models.Handle(func(*modeltest.Request) modeltest.Turn {
		asked <- struct{}{}
		return modeltest.Turn{Text: "Trees are tall.", Drip: make(chan struct{})}
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := s.client.CallTool(ctx, &sdk.CallToolParams{Name: "execute",
		Arguments: item("tool", "rye/agent/threads/thread_directive",
			"parameters", object{"directive_name": "acme/asking",
				"inputs": object{"topic": "trees"}})}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	rows, money := thread.Local(filepath.Join(s.p.Home, "state"), time.Now)
	defer money.Shut()
	defer rows.Close()
	for {
		all, err := rows.Threads(t.Context(), roster.Filter{})
		s.must(err)
		if len(all) == 1 && all[0].State == roster.Interrupted {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the thread goes on")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestParallel: many calls at once, beside locks that are replaced.
func TestParallel(t *testing.T) {
	s := serving(t)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			name := fmt.Sprint("n", i)
			answer, failed := s.call("execute", item("tool", "acme/greet", "parameters", object{"name": name}))
			if data, _ := answer["data"].(object); failed || data["greeting"] != "hello, "+name {
				t.Error(answer)
			}
		})
	}
	all.Wait()
}

// TestUnopened: a project that can't be served is an error before anything is answered.
func TestUnopened(t *testing.T) {
	want := errors.New("no project")
	server := mcp.New(mcp.Options{Open: func(context.Context) (*session.Session, func() error, error) {
		return nil, nil, want
	}})
	if err := server.Run(t.Context(), mcp.Lines(strings.NewReader(""), io.Discard)); !errors.Is(err, want) {
		t.Error(err)
	}
}
