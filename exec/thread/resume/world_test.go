package resume

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
)

func TestMain(m *testing.M) {
	if status, inside := session.Inside(os.Args[1:]); inside {
		syscall.Exit(status)
	}
	os.Exit(m.Run())
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

// tool is a tool that gives back what it is given.
func tool(risk string) string {
	return `# ---
# version: "1.0.0"
# category: acme
# description: Gives back what it is given
# tool_type: starlark
# executor_id: rye/core/runtimes/starlark_runtime
# risk: ` + risk + `
# input_schema: {type: object, required: [text], properties: {text: {type: string}}}
# ---
def main(params):
    return {"said": params["text"]}
`
}

// asking is a directive that may use these tools.
func asking(tools ...string) string {
	var may string
	for _, t := range tools {
		may += "<tool>" + t + "</tool>"
	}
	return "# asking\n\n```xml\n" + `<directive name="asking" version="1.0.0">
  <metadata>
    <description>Asks</description>
    <model provider="local" id="test-model"/>
    <limits turns="6" tokens="100000" spend="0.5"/>
    <permissions><execute>` + may + `</execute></permissions>
  </metadata>
</directive>
` + "```\nAsk about it.\n"
}

// summedBy is a config in which a directive summarises the threads that hand their work over.
func summedBy(directive string) string {
	return "schema_version: \"1.0.0\"\ncoordination: {continuation: {summary_directive: " + directive + "}}\n"
}

// newWorld makes a project with items, by their paths below .ai, which Alice signs.
func newWorld(t testing.TB, items map[string]string) *world {
	t.Helper()
	w := &world{t: t, server: modeltest.New(t)}
	all := map[string]string{"tools/rye/agent/providers/local.yaml": w.server.Item("local"),
		"tools/acme/echo.star": tool("read"), "tools/acme/mark.star": tool("write"),
		"directives/acme/asking.md": asking("acme/echo")}
	maps.Copy(all, items)
	w.Project = projecttest.With(t, "\noverride:\n  - \"tool:rye/agent/**\"\n", all)
	sandboxtest.Removable(t, filepath.Dir(w.Dir))
	w.open()
	return w
}

// open has another session run threads from here on, as another program would.
func (w *world) open() {
	w.t.Helper()
	self, err := os.Executable()
	must(w.t, err)
	s, err := session.Open(w.t.Context(), w.Workspace(workspace.Options{}),
		session.Options{Mode: session.Mode{Unlocked: true}, Self: self, Host: env.Host{}})
	must(w.t, err)
	e, err := thread.Open(s, thread.Options{Program: "rye test", Now: time.Now})
	must(w.t, err)
	w.t.Cleanup(func() { e.Close(); s.Close() })
	if w.engine != nil {
		e.Roster, e.Ledger = w.engine.Roster, w.engine.Ledger
	}
	w.engine = e
}

// change writes an item that Alice signs, which counts from here on.
func (w *world) change(name, text string) {
	w.t.Helper()
	w.Put(name, text)
	w.open()
}

func (w *world) run(s thread.Start) *thread.Result {
	w.t.Helper()
	if s.Directive.ID == "" {
		s.Directive = model.Ref{Kind: "directive", ID: "acme/asking"}
	}
	s.Inputs = params.Values(object{})
	r, err := w.engine.Run(w.t.Context(), &s)
	must(w.t, err)
	return r
}

func (w *world) controller() *control.Controller {
	return &control.Controller{Roster: w.engine.Roster, Ledger: w.engine.Ledger, Now: time.Now, Root: w.Dir}
}

func (w *world) carry(o Order) (*Resumed, error) {
	return Go(context.WithoutCancel(w.t.Context()), w.engine, w.controller(), &o)
}

func (w *world) row(id string) *roster.Thread {
	w.t.Helper()
	row, err := roster.Get(w.t.Context(), w.engine.Roster, id)
	must(w.t, err)
	return row
}

// rows are all threads.
func (w *world) rows() []*roster.Thread {
	w.t.Helper()
	rows, err := w.engine.Roster.Threads(w.t.Context(), roster.Filter{})
	must(w.t, err)
	return rows
}

// after are the threads that go on with the work of one.
func (w *world) after(id string) (all []*roster.Thread) {
	w.t.Helper()
	for _, r := range w.rows() {
		if r.Continues == id {
			all = append(all, r)
		}
	}
	return all
}

func executes(id, item string) provider.ToolCall {
	return provider.ToolCall{ID: id, Name: "rye_execute",
		Input: object{"item_type": "tool", "item_id": item, "parameters": object{"text": "note " + id}}}
}
