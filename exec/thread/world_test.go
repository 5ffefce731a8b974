package thread_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/primitive/function"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/lock/update"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
	"github.com/rye-build/rye/manifest/key"
)

func TestMain(m *testing.M) {
	if status, inside := session.Inside(os.Args[1:]); inside {
		syscall.Exit(status)
	}
	if text := os.Getenv("RYE_TEST_THREAD"); text != "" {
		var d doomed
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			panic(err)
		}
		os.Exit(d.run())
	}
	debug.SetGCPercent(800) // worlds are small, and there are many: a fifth of the time went into collecting garbage
	status := m.Run()
	if own.host != nil {
		own.host.Close()
	}
	os.Exit(status)
}

// own runs the loops of all worlds that have those of the library: its child is kept for the next thread, as in one
// program.
var own struct {
	once sync.Once
	host *loop.Host
}

// machine is the key that signs transcripts here.
func (w *world) machine() []key.Public {
	w.t.Helper()
	k, err := w.engine.Session.Kernel()
	must(w.t, err)
	return []key.Public{k.Machine.Public()}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A world is a project of Alice, with a model server and an engine.
type world struct {
	*projecttest.Project
	t      testing.TB
	server *modeltest.Server
	engine *thread.Engine
}

type object = map[string]any

// echo is a tool of risk read that gives back what it is given.
const echo = `# ---
# version: "1.0.0"
# category: acme
# description: Gives back what it is given
# tool_type: starlark
# executor_id: rye/core/runtimes/starlark_runtime
# risk: read
# input_schema: {type: object, required: [text], properties: {text: {type: string}, token: {type: string}, times: {type: integer, default: 1}}}
# ---
def main(params):
    if params["text"] == "fail":
        fail("it was told to")
    return {"said": params["text"] * params["times"]}
`

// here is echo as a function of the test's process, for tests of many calls that aren't about what runs them.
const here = `version: "1.0.0"
category: acme
description: Gives back what it is given
tool_type: function
executor_id: rye/core/primitives/rye
risk: read
config: {function: echo, params: "{params_json}"}
input_schema: {type: object, required: [text], properties: {text: {type: string}}}
`

// functions are what tools may have the test's process do: echo, whose calls are counted whatever is recorded of them.
func functions(s *session.Session) function.Functions {
	type said struct {
		Text string `json:"text"`
	}
	return function.Functions{"echo": function.Of(nil,
		func(_ context.Context, _ *function.Call, said said) (any, error) {
			f, err := os.OpenFile(filepath.Join(s.State().Path, "echoed"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			_, err = fmt.Fprintln(f, said.Text)
			return object{"said": said.Text}, err
		})}
}

// echoed is how often the function was called with a text, by processes that were killed too.
func (w *world) echoed(text string) int {
	b, _ := os.ReadFile(filepath.Join(w.Paths().State.Path, "echoed"))
	return strings.Count(string(b), text+"\n")
}

// asking is a directive with permissions, inputs and outputs.
const asking = `# asking

` + "```xml" + `
<directive name="asking" version="1.0.0">
  <metadata>
    <description>Asks</description>
    <model provider="local" id="test-model"/>
    <limits turns="6" tokens="100000" spend="0.5"/>
    <permissions>
      <execute><tool>acme/echo</tool></execute>
      <load><knowledge>acme/*</knowledge></load>
      <search><tool>acme/*</tool></search>
    </permissions>
  </metadata>
  <inputs>
    <input name="topic" type="string" required="true">What about</input>
    <input name="depth" type="integer" default="2">How deep</input>
  </inputs>
  OUTPUTS
</directive>
` + "```" + `
Ask about {input:topic}, {input:depth} deep{input:more?}{input:other: and no more}.
`

// acmeKey is the key that the providers of acme get.
const acmeKey = "sk-a-key-for-tests-8d02e4f7"

const outputs = `<outputs><output name="answer" type="string">The answer</output></outputs>`

// newWorld makes a project with items, by their paths below .ai, which Alice signs.
func newWorld(t testing.TB, items map[string]string, turns ...modeltest.Turn) *world {
	t.Helper()
	w := &world{t: t, server: modeltest.New(t, turns...)}
	all := map[string]string{"tools/rye/agent/providers/local.yaml": w.server.Item("local"),
		"tools/acme/echo.star": echo}
	maps.Copy(all, items)
	if all["tools/acme/echo.yaml"] != "" {
		delete(all, "tools/acme/echo.star")
	}
	w.Project = projecttest.With(t,
		"\noverride:\n  - \"tool:rye/agent/**\"\n\nexec:\n  secrets: {ACME_KEY: [\"tool:acme/**\"]}\n", all)
	sandboxtest.Removable(t, filepath.Dir(w.Dir))
	w.open(session.Mode{Unlocked: true})
	if !slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(name string) bool {
		return path.Dir(name) == "tools/rye/agent"
	}) {
		own.once.Do(func() { own.host = w.engine.Session.Loops() })
		w.engine.Loops = own.host
	}
	return w
}

// open opens a session of the project, and an engine for it.
func (w *world) open(mode session.Mode) {
	w.t.Helper()
	self, err := os.Executable()
	must(w.t, err)
	s, err := session.Open(w.t.Context(), w.Workspace(workspace.Options{}),
		session.Options{Mode: mode, Self: self, Functions: functions,
			Host: env.Host{Vars: map[string]string{"ACME_KEY": acmeKey}}})
	must(w.t, err)
	w.t.Cleanup(func() { s.Close() })
	w.engine, err = thread.Open(s, thread.Options{Program: "rye test", Now: time.Now})
	must(w.t, err)
	engine := w.engine
	w.t.Cleanup(func() { engine.Close() })
}

// lock locks the project. From now on its threads run what is pinned, and their directories keep the lock.
func (w *world) lock() {
	w.t.Helper()
	_, err := update.Make(w.t.Context(), w.Project.Lock(), update.Options{})
	must(w.t, err)
	loops := w.engine.Loops
	w.open(session.Mode{})
	w.engine.Loops = loops
}

// run runs a directive.
func (w *world) run(ctx context.Context, s thread.Start) (*thread.Result, error) {
	if s.Directive.ID == "" {
		s.Directive = model.Ref{Kind: "directive", ID: "acme/asking"}
	}
	if s.Inputs == nil {
		s.Inputs = params.Values(object{"topic": "rye"})
	}
	return w.engine.Run(ctx, &s)
}

// events reads the transcript of a thread, which must be sound.
func (w *world) events(r *thread.Result) (all []*transcript.Event) {
	w.t.Helper()
	for e, err := range transcript.Read(filepath.Join(w.engine.Dir, filepath.FromSlash(r.Thread))) {
		must(w.t, err)
		all = append(all, e)
	}
	return all
}

func types(events []*transcript.Event) string {
	var all []string
	for _, e := range events {
		all = append(all, string(e.Type))
	}
	return strings.Join(all, " ")
}

func call(id, name string, input object) provider.ToolCall {
	return provider.ToolCall{ID: id, Name: name, Input: input}
}

func executes(id, item string, given object) provider.ToolCall {
	return call(id, "rye_execute", object{"item_type": "tool", "item_id": item, "parameters": given})
}

func withOutputs(directive string) map[string]string {
	return map[string]string{"directives/acme/asking.md": strings.ReplaceAll(directive, "OUTPUTS", outputs)}
}

func plain(directive string) map[string]string {
	return map[string]string{"directives/acme/asking.md": strings.ReplaceAll(directive, "OUTPUTS", "")}
}
