package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/exec/mcp"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/approve"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/registry"
	"github.com/rye-build/rye/lock/relock"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
)

func TestMain(m *testing.M) {
	if status, inside := session.Inside(os.Args[1:]); inside {
		syscall.Exit(status)
	}
	os.Exit(m.Run())
}

// A tool that greets, waits for a file, or fails.
const greet = `# ---
# version: "VERSION"
# tool_type: starlark
# executor_id: rye/core/runtimes/starlark_runtime
# category: acme
# description: Greets
# risk: read
# input_schema: {type: object, required: [name], properties: {name: {type: string}}}
# ---
def main(params):
    print("greeting")
    if params["name"] == "fail":
        fail("it was told to")
    if params["name"] == "spin":
        for i in range(1000000000):
            pass
    return {"greeting": "hello, " + params["name"]}
`

// A directive that a model follows, with an input.
const asking = "# asking\n\n```xml\n" + `<directive name="asking" version="1.0.0">
  <metadata>
    <description>Asks</description>
    <category>acme</category>
    <model provider="acme/providers/local" id="test-model"/>
    <limits turns="3" tokens="100000" spend="0.5"/>
  </metadata>
  <inputs><input name="topic" type="string" required="true">What about</input></inputs>
</directive>` + "\n```\nAsk about {input:topic}.\n"

var greetRef = model.Ref{Kind: "tool", ID: "acme/greet"}

// A served project has a client. What the server warns of is in warned.
type served struct {
	t       *testing.T
	p       *projecttest.Project
	models  *modeltest.Server
	client  *sdk.ClientSession
	ended   chan error
	changed chan string // lists

	mu       sync.Mutex
	warned   []string
	progress []string
}

// serve makes a project with a lock and serves it, with tools under names of their own.
func serve(t *testing.T, globs ...string) *served {
	t.Helper()
	tools, err := approve.Globs("--tools", globs)
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, p: projecttest.Signed(t), models: modeltest.New(t), ended: make(chan error, 1), changed: make(chan string, 100)}
	t.Cleanup(func() { writable(s.p.Home) })
	s.p.Write(".git/HEAD", "")
	s.must(key.OpenDir(filepath.Join(s.p.Home, ".ai", "keys")).Add("alice", keytest.Alice, ""))
	s.edit("1.0.0")
	for i := range 12 {
		id := fmt.Sprintf("note%02d", i)
		s.p.Write(".ai/knowledge/acme/"+id+".md", "---\nid: "+id+"\ntitle: "+strings.Repeat("A long title ", 20)+
			"\nentry_type: reference\nversion: 1.0.0\ncategory: acme\n---\n# Note\n")
		s.p.Sign(model.Ref{Kind: "knowledge", ID: "acme/" + id}, keytest.Alice)
	}
	s.p.Write(".ai/directives/acme/asking.md", asking)
	s.p.Sign(model.Ref{Kind: "directive", ID: "acme/asking"}, keytest.Alice)
	s.p.Write(".ai/tools/acme/providers/local.yaml", strings.Replace(s.models.Item("local"), "category: rye/agent/providers", "category: acme/providers", 1))
	s.p.Sign(model.Ref{Kind: "tool", ID: "acme/providers/local"}, keytest.Alice)
	s.lock()
	server := mcp.New(mcp.Options{Open: s.open, Project: s.p.Dir, State: filepath.Join(s.p.Home, "state"), Version: "test", Now: time.Now, Warn: s.warn, Tools: tools})
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		s.ended <- server.Run(ctx, mcp.Lines(fromClient, toClient))
		toClient.Close()
	}()
	t.Cleanup(func() {
		s.client.Close()
		cancel()
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
	})
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, q *sdk.ProgressNotificationClientRequest) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.progress = append(s.progress, q.Params.Message)
		},
		ToolListChangedHandler:     func(context.Context, *sdk.ToolListChangedRequest) { s.changed <- "tools" },
		PromptListChangedHandler:   func(context.Context, *sdk.PromptListChangedRequest) { s.changed <- "prompts" },
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { s.changed <- "resources" },
	})
	s.client, err = client.Connect(ctx, &sdk.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	s.must(err)
	return s
}

func (s *served) must(errs ...error) {
	s.t.Helper()
	if err := errors.Join(errs...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *served) warn(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warned = append(s.warned, err.Error())
}

// writable lets a directory be removed: copies that tools run from are read-only.
func writable(dir string) {
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
}

// edit gives the tool another version.
func (s *served) edit(version string) {
	s.t.Helper()
	s.p.Write(".ai/tools/acme/greet.star", strings.Replace(greet, "VERSION", version, 1))
	s.p.Sign(greetRef, keytest.Alice)
}

// policy adds lines to the user's policy.
func (s *served) policy(more string) {
	s.t.Helper()
	path := filepath.Join(s.p.Home, ".ai", "policy.yaml")
	text := fmt.Sprintf("rye: policy/2\n\nkeys:\n  alice: {key: %q}\n\nnames:\n  \"**\": {keys: [alice]}\n%s", keytest.Alice.Public(), more)
	s.must(os.WriteFile(path, []byte(text), 0o600))
}

// lock pins what the project has.
func (s *served) lock() {
	s.t.Helper()
	ctx, l := s.t.Context(), s.p.Lock()
	batch, err := l.DiskStore().Batch(ctx)
	s.must(err)
	defer batch.Close()
	made, err := relock.Make(ctx, relock.Request{Project: l.Yaml, Old: l.Old, Env: relock.Env{Library: find.LibrarySpace(), View: l.View,
		Files: l.DiskStore(), Store: batch, Sources: workspace.Bringing{Sources: l.Sources, Listed: &l.Listed}, Packages: l.Registry}})
	s.must(err)
	s.must(batch.Commit(ctx), l.Write(made.Bytes))
}

func (s *served) open(ctx context.Context) (*session.Session, func() error, error) {
	below := func(name string) workspace.Place { return workspace.Place{Path: filepath.Join(s.p.Home, name)} }
	w, err := workspace.Open(ctx, workspace.Paths{Dir: s.p.Dir, Version: "devel", User: below(""), Store: below("store"), State: below("state"),
		Cache: below("cache")}, workspace.Options{Offline: true})
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	s.must(err)
	opened, err := session.Open(ctx, w, session.Options{Self: self})
	if err != nil {
		w.Close()
		return nil, nil, err
	}
	return opened, func() error {
		defer w.Close()
		return opened.Close()
	}, nil
}

// call makes a call, and returns what came of it and whether that is an error.
func (s *served) call(tool string, given map[string]any) (answer map[string]any, failed bool) {
	s.t.Helper()
	r, err := s.client.CallTool(s.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: given, Meta: sdk.Meta{"progressToken": "p"}})
	s.must(err)
	answer, _ = r.StructuredContent.(map[string]any)
	if text, ok := r.Content[0].(*sdk.TextContent); !ok || len(r.Content) != 1 || !sameJSON(text.Text, answer) {
		s.t.Errorf("%s: the text is not the structured content: %v", tool, r.Content)
	}
	return answer, r.IsError
}

func sameJSON(text string, v any) bool {
	var other any
	a, err := json.Marshal(v)
	return errors.Join(err, json.Unmarshal([]byte(text), &other)) == nil && fmt.Sprint(other) == fmt.Sprint(v) && len(a) > 0
}

// code makes a call that must fail, and returns the code of its error.
func (s *served) code(tool string, given map[string]any) string {
	s.t.Helper()
	answer, failed := s.call(tool, given)
	object, _ := answer["error"].(map[string]any)
	if !failed || object["message"] == "" || object["suggestion"] == nil || object["retryable"] == nil {
		s.t.Errorf("%s %v: %v", tool, given, answer)
	}
	code, _ := object["code"].(string)
	return code
}

type object = map[string]any

func item(kind, id string, more ...any) object {
	o := object{"item_type": kind, "item_id": id}
	for i := 0; i < len(more); i += 2 {
		o[more[i].(string)] = more[i+1]
	}
	return o
}

func TestTools(t *testing.T) {
	s := serve(t)
	all, err := s.client.ListTools(t.Context(), nil)
	s.must(err)
	var names []string
	for _, tool := range all.Tools {
		names = append(names, tool.Name)
		if tool.Description == "" || !strings.Contains(tool.Description, "Example: {") || tool.OutputSchema == nil || tool.Annotations == nil {
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
	answer, failed = s.call("execute", item("tool", "acme/greet", "parameters", object{"name": "Ann"}, "dry_run", true))
	if failed || answer["dry_run"] != true || answer["data"] != nil {
		t.Error(answer)
	}
	answer, failed = s.call("execute", item("directive", "acme/asking", "parameters", object{"topic": "trees"}))
	if text, _ := answer["text"].(string); failed || !strings.Contains(text, "Ask about trees.") {
		t.Error(answer)
	}
	answer, failed = s.call("execute", item("knowledge", "acme/note"))
	if text, _ := answer["text"].(string); failed || !strings.Contains(text, "# Note") || strings.Contains(text, "rye:signed") {
		t.Error(answer)
	}
	answer, failed = s.call("load", item("tool", "acme/greet", "project_path", s.p.At(".ai")))
	if text, _ := answer["text"].(string); failed || !strings.Contains(text, "rye:signed") || !strings.HasPrefix(fmt.Sprint(answer["digest"]), "blake3:") {
		t.Error(answer)
	}
	answer, failed = s.call("search", object{"query": "greets"})
	if hits, _ := answer["results"].([]any); failed || len(hits) == 0 || hits[0].(object)["ref"] != "tool:acme/greet" || hits[0].(object)["about"] != "Greets" {
		t.Error(answer)
	}
	answer, failed = s.call("search", object{"query": ""})
	if b, err := json.Marshal(answer); failed || err != nil || len(answer["results"].([]any)) != 10 || len(b) > 2<<10 {
		t.Error(len(b), answer)
	}
}

func TestRefusals(t *testing.T) {
	s := serve(t)
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
		{"execute", item("tool", "rye/agent/threads/thread_directive", "parameters", object{"directive_name": "acme/asking"}, "dry_run", true), "VALIDATION_FAILED"},
		{"execute", item("tool", "rye/agent/threads/thread_directive"), "VALIDATION_FAILED"},
		{"execute", item("tool", "rye/agent/threads/thread_directive", "parameters", object{"directive_name": "acme/none"}), "ITEM_NOT_FOUND"},
		{"load", item("tool", "acme/none"), "TOOL_NOT_FOUND"},
		{"load", item("tool", "/"), "VALIDATION_FAILED"},
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
	if got := s.code("execute", item("tool", "acme/greet", "parameters", object{"name": "Ann"})); got != "APPROVAL_REQUIRED" {
		t.Error(got)
	}
}

// TestSwap: a lock that is replaced counts from the next call, one that is damaged doesn't.
func TestSwap(t *testing.T) {
	s := serve(t)
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

// TestLists: directives are prompts, knowledge is resources, and chosen tools have names of their own; a lock that is replaced
// changes them.
func TestLists(t *testing.T) {
	s := serve(t, "tool:acme/greet*")
	prompts, err := s.client.ListPrompts(t.Context(), nil)
	s.must(err)
	if len(prompts.Prompts) != 1 || prompts.Prompts[0].Name != "acme/asking" || len(prompts.Prompts[0].Arguments) != 1 ||
		prompts.Prompts[0].Arguments[0].Name != "topic" || !prompts.Prompts[0].Arguments[0].Required {
		t.Errorf("%+v", prompts.Prompts)
	}
	p, err := s.client.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "acme/asking", Arguments: map[string]string{"topic": "trees"}})
	s.must(err)
	if text := p.Messages[0].Content.(*sdk.TextContent).Text; !strings.Contains(text, "Ask about trees.") {
		t.Error(text)
	}
	for name, given := range map[string]map[string]string{"acme/asking": {}, "acme/none": nil} {
		if _, err := s.client.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: name, Arguments: given}); err == nil {
			t.Error(name)
		}
	}
	if _, err := s.client.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "acme/asking", Arguments: map[string]string{"more": "x"}}); err == nil {
		t.Error("an argument that isn't declared is taken")
	}
	r, err := s.client.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "rye://knowledge/acme/note"})
	s.must(err)
	if len(r.Contents) != 1 || !strings.Contains(r.Contents[0].Text, "# Note") || r.Contents[0].MIMEType != "text/markdown" {
		t.Errorf("%+v", r.Contents)
	}
	if _, err := s.client.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "rye://knowledge/acme/none"}); err == nil {
		t.Error("a resource that isn't there is read")
	}
	answer, failed := s.call("acme_greet", object{"name": "Ann"})
	if data, _ := answer["data"].(object); failed || data["greeting"] != "hello, Ann" {
		t.Error(answer)
	}
	if got := s.code("acme_greet", object{"name": 1}); got != "VALIDATION_FAILED" {
		t.Error(got)
	}
	s.p.Write(".ai/tools/acme/greeter.star", strings.Replace(greet, "VERSION", "1.0.0", 1))
	s.p.Sign(model.Ref{Kind: "tool", ID: "acme/greeter"}, keytest.Alice)
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

// TestCancelled: a call that the client gives up ends, and the server goes on.
func TestCancelled(t *testing.T) {
	s := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	if _, err := s.client.CallTool(ctx, &sdk.CallToolParams{Name: "execute", Arguments: item("tool", "acme/greet", "parameters", object{"name": "spin"})}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if answer, failed := s.call("execute", item("tool", "acme/greet", "parameters", object{"name": "Ann"})); failed {
		t.Error(answer)
	}
}

// TestThread: an agent starts a thread and gets its result; the thread's record is there.
func TestThread(t *testing.T) {
	s := serve(t)
	s.models.Handle(func(*modeltest.Request) modeltest.Turn { return modeltest.Turn{Text: "Trees are tall."} })
	start := item("tool", "rye/agent/threads/thread_directive", "parameters", object{"directive_name": "acme/asking", "inputs": object{"topic": "trees"}})
	answer, failed := s.call("execute", start)
	data, _ := answer["data"].(object)
	if failed || data["status"] != "completed" || data["result"] != "Trees are tall." {
		t.Fatal(answer)
	}
	id, _ := data["thread_id"].(string)
	if _, err := os.Stat(s.p.At(".ai/threads/" + id + "/transcript.jsonl")); err != nil {
		t.Error(err)
	}
	start["parameters"].(object)["limit_overrides"] = object{"turns": 0}
	answer, failed = s.call("execute", start)
	if e, _ := answer["error"].(object); !failed || e["code"] != "LIMIT_EXCEEDED" || !strings.Contains(fmt.Sprint(e["suggestion"]), "rye thread resume acme/asking-") {
		t.Error(answer)
	}
	if s.mu.Lock(); len(s.progress) == 0 {
		t.Error("no progress of the thread")
	}
	s.mu.Unlock()
}

// TestThreadCancelled: a thread whose client gives up is interrupted, and can go on.
func TestThreadCancelled(t *testing.T) {
	s := serve(t)
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
	if _, err := s.client.CallTool(ctx, &sdk.CallToolParams{Name: "execute", Arguments: item("tool", "rye/agent/threads/thread_directive",
		"parameters", object{"directive_name": "acme/asking", "inputs": object{"topic": "trees"}})}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	rows, money := thread.Local(filepath.Join(s.p.Home, "state"), time.Now)
	defer money.Shut()
	defer rows.Close()
	for {
		all, err := rows.Threads(t.Context(), registry.Filter{})
		s.must(err)
		if len(all) == 1 && all[0].State == registry.Interrupted {
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
	s := serve(t)
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
	server := mcp.New(mcp.Options{Open: func(context.Context) (*session.Session, func() error, error) { return nil, nil, want }})
	if err := server.Run(t.Context(), mcp.Lines(strings.NewReader(""), io.Discard)); !errors.Is(err, want) {
		t.Error(err)
	}
}
