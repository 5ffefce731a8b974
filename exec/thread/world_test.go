package thread_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/sign"
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

// own runs the loops of all worlds that have those of the library: its child is kept for the next thread, as in one program.
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
	t      testing.TB
	paths  workspace.Paths
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
	return function.Functions{"echo": function.Of(nil, func(_ context.Context, _ *function.Call, said said) (any, error) {
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
	b, _ := os.ReadFile(filepath.Join(w.paths.State.Path, "echoed"))
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
	dir := t.TempDir()
	t.Cleanup(func() { // copies that tools run from are read-only
		filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				os.Chmod(path, 0o700)
			}
			return nil
		})
	})
	at := func(name string) workspace.Place { return workspace.Place{Path: filepath.Join(dir, name)} }
	w := &world{t: t, server: modeltest.New(t, turns...), paths: workspace.Paths{Dir: at("project").Path, Version: "devel", User: at("home"),
		Store: at("store"), State: at("state"), Cache: at("cache")}}
	w.write(".git/HEAD", "")
	w.write("rye.yaml", "")
	w.write("../home/.ai/policy.yaml", fmt.Sprintf(`rye: policy/2

keys:
  alice: {key: %q}

override:
  - "tool:rye/agent/**"

exec:
  secrets: {ACME_KEY: ["tool:acme/**"]}

names:
  "**": {keys: [alice]}
`, keytest.Alice().Public()))
	must(t, os.Chmod(filepath.Join(w.paths.User.Path, ".ai"), 0o700), key.OpenDir(filepath.Join(w.paths.User.Path, ".ai", "keys")).Add("alice", keytest.Alice(), ""))
	all := map[string]string{"tools/rye/agent/providers/local.yaml": w.server.Item("local"), "tools/acme/echo.star": echo}
	for name, text := range items {
		all[name] = text
	}
	if all["tools/acme/echo.yaml"] != "" {
		delete(all, "tools/acme/echo.star")
	}
	for name, text := range all {
		w.write(".ai/"+name, text)
	}
	var names []string
	for name := range all {
		if !strings.HasPrefix(path.Base(name), "_") { // what is no item is covered by an item's signature
			names = append(names, name)
		}
	}
	w.signAs(keytest.Alice(), names...)
	self, err := os.Executable()
	must(t, err)
	s, err := session.Open(t.Context(), w.workspace(), session.Options{Mode: session.Mode{Unlocked: true}, Self: self, Functions: functions, Host: env.Host{Vars: map[string]string{"ACME_KEY": acmeKey}}})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	var loops *loop.Host
	if slices.ContainsFunc(names, func(name string) bool { return path.Dir(name) == "tools/rye/agent" }) {
		loops = s.Loops()
		t.Cleanup(func() { loops.Close() })
	} else {
		own.once.Do(func() { own.host = s.Loops() })
		loops = own.host
	}
	rows, money := thread.Local(w.paths.State.Path, time.Now)
	t.Cleanup(func() { rows.Close(); money.Shut() })
	w.engine = &thread.Engine{Session: s, Loops: loops, Dir: s.Threads(), Program: "rye test", Now: time.Now, Registry: rows, Ledger: money}
	return w
}

func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.paths.Dir, filepath.FromSlash(name))
	must(w.t, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600))
}

func (w *world) workspace() *workspace.Workspace {
	w.t.Helper()
	space, err := workspace.Open(w.t.Context(), w.paths, workspace.Options{})
	must(w.t, err)
	w.t.Cleanup(space.Close)
	return space
}

// sign has Alice sign the item in a file.
func (w *world) sign(name string) { w.t.Helper(); w.signAs(keytest.Alice(), name) }

func (w *world) signAs(by key.Private, names ...string) {
	w.t.Helper()
	items, err := w.workspace().Items(w.t.Context())
	must(w.t, err)
	defer items.Close()
	for _, name := range names {
		dir, rest, _ := strings.Cut(name, "/")
		kind := map[string]string{"tools": "tool", "directives": "directive", "knowledge": "knowledge", "config": "config"}[dir]
		it, err := items.Find(w.t.Context(), model.Ref{Kind: kind, ID: strings.TrimSuffix(rest, filepath.Ext(rest))})
		must(w.t, err)
		subject, _, err := items.Admit.Subject(w.t.Context(), it)
		must(w.t, err)
		signed, err := sign.Sign(it.Bytes, subject.Signing(), subject.Claim(), by, time.Now(), nil)
		must(w.t, err)
		w.write(".ai/"+name, string(signed))
	}
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
