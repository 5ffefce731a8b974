package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/exec/host"
	"github.com/rye-build/rye/exec/mcp"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/lock/update"
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

// A tool that this process runs itself.
const echo = `version: "1.0.0"
tool_type: function
executor_id: rye/core/primitives/rye
category: acme
description: Echoes
risk: read
config: {function: echo, params: "{params_json}"}
input_schema: {type: object, properties: {n: {type: integer}}}
`

type echoed struct {
	N int `json:"n"`
}

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

// A served project has a client. What the server warns of is in warned.
type served struct {
	t       *testing.T
	p       *projecttest.Project
	models  *modeltest.Server
	client  *sdk.ClientSession
	server  *mcp.Server
	ended   chan error
	changed chan string // lists
	closed  bool        // by the test

	mu       sync.Mutex
	warned   []string
	progress []string
}

// serving makes a project with a lock and serves it, with tools under names of their own.
func serving(t *testing.T, globs ...string) *served { return serveAsked(t, nil, globs...) }

// serveAsked is serving for a client that has elicitation, unless asked is nil.
func serveAsked(t *testing.T, asked func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error),
	globs ...string) *served {
	t.Helper()
	tools, err := toolcall.Globs("--tools", globs)
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, p: projecttest.Signed(t), models: modeltest.New(t), ended: make(chan error, 1),
		changed: make(chan string, 100)}
	sandboxtest.Removable(t, s.p.Home)
	s.p.Write(".git/HEAD", "")
	s.must(key.OpenDir(filepath.Join(s.p.Home, ".ai", "keys")).Add("alice", keytest.Alice(), ""))
	s.edit("1.0.0")
	s.p.Put("tools/acme/echo.yaml", echo)
	for i := range 12 {
		id := fmt.Sprintf("note%02d", i)
		s.p.Put("knowledge/acme/"+id+".md", "---\nid: "+id+"\ntitle: "+strings.Repeat("A long title ", 20)+
			"\nentry_type: reference\nversion: 1.0.0\ncategory: acme\n---\n# Note\n")
	}
	s.p.Put("directives/acme/asking.md", asking)
	s.p.Put("tools/acme/providers/local.yaml", strings.Replace(s.models.Item("local"), "category: rye/agent/providers",
		"category: acme/providers", 1))
	s.lock()
	s.server = mcp.New(mcp.Options{Open: s.open, Project: s.p.Dir, State: filepath.Join(s.p.Home, "state"),
		Version: "test", Now: time.Now, Warn: s.warn, Tools: tools})
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		s.ended <- s.server.Run(ctx, mcp.Lines(fromClient, toClient))
		toClient.Close()
	}()
	t.Cleanup(func() {
		s.client.Close()
		cancel()
		if err := <-s.ended; err != nil && !s.closed {
			t.Error(err)
		}
	})
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ElicitationHandler: asked,
		ProgressNotificationHandler: func(_ context.Context, q *sdk.ProgressNotificationClientRequest) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.progress = append(s.progress, q.Params.Message)
		},
		ToolListChangedHandler:   func(context.Context, *sdk.ToolListChangedRequest) { s.changed <- "tools" },
		PromptListChangedHandler: func(context.Context, *sdk.PromptListChangedRequest) { s.changed <- "prompts" },
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) {
			s.changed <- "resources"
		},
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

// edit gives the tool another version.
func (s *served) edit(version string) {
	s.t.Helper()
	s.p.Put("tools/acme/greet.star", strings.Replace(greet, "VERSION", version, 1))
}

// policy adds lines to the user's policy.
func (s *served) policy(more string) {
	s.t.Helper()
	path := filepath.Join(s.p.Home, ".ai", "policy.yaml")
	text := fmt.Sprintf("rye: policy/2\n\nkeys:\n  alice: {key: %q}\n\nnames:\n  \"**\": {keys: [alice]}\n%s",
		keytest.Alice().Public(), more)
	s.must(os.WriteFile(path, []byte(text), 0o600))
}

// lock pins what the project has.
func (s *served) lock() {
	s.t.Helper()
	_, err := update.Make(s.t.Context(), s.p.Lock(), update.Options{})
	s.must(err)
}

func (s *served) open(ctx context.Context) (*session.Session, func() error, error) {
	return s.openAt(s.p.Dir)(ctx)
}

// openAt opens another project of the user.
func (s *served) openAt(dir string) host.Open {
	return func(ctx context.Context) (*session.Session, func() error, error) { return s.openDir(ctx, dir) }
}

func (s *served) openDir(ctx context.Context, dir string) (*session.Session, func() error, error) {
	w, err := workspace.Open(ctx, projecttest.Paths(dir, s.p.Home), workspace.Options{Offline: true})
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	s.must(err)
	opened, err := session.Open(ctx, w, session.Options{Self: self,
		Functions: func(*session.Session) function.Functions {
			return function.Functions{"echo": function.Of(nil,
				func(ctx context.Context, _ *function.Call, p echoed) (any, error) { return function.Yes(p) })}
		}})
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
	r, err := s.client.CallTool(s.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: given,
		Meta: sdk.Meta{"progressToken": "p"}})
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
	return errors.Join(err, json.Unmarshal([]byte(text), &other)) == nil && fmt.Sprint(other) == fmt.Sprint(v) &&
		len(a) > 0
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

// running waits until so many calls run.
func (s *served) running(n int64) {
	s.t.Helper()
	for s.server.Host().Running() != n {
		if s.t.Context().Err() != nil {
			s.t.Fatal(s.server.Host().Running(), " calls run")
		}
		time.Sleep(time.Millisecond)
	}
}

type object = map[string]any

func item(kind, id string, more ...any) object {
	o := object{"item_type": kind, "item_id": id}
	for i := 0; i < len(more); i += 2 {
		o[more[i].(string)] = more[i+1]
	}
	return o
}
