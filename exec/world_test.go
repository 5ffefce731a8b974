package exec_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/itemtest"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/materialise"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/subprocess"
	"github.com/rye-build/rye/exec/primitive/wasm"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/manifest/admission"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/key/keytest"
	"github.com/rye-build/rye/manifest/policy"
)

// childWord starts this binary as the program, and moduleWord as the child that runs modules.
const (
	childWord  = "__child"
	moduleWord = "__module"
)

func TestMain(m *testing.M) {
	sandboxtest.Programs(map[string]func([]string) int{
		childWord: child, moduleWord: func([]string) int { return wasm.Guest(os.Stdin, os.Stdout) },
	})
	os.Exit(m.Run())
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Alice is the user. Bob is another person, and trusted. Eve isn't trusted.
var alice, bob, eve, machine = keytest.Alice(), keytest.Bob(), keytest.Eve(), keytest.Seeded(4)

// The primitives of the library here, and a tool of it.
const (
	process = "rye/core/primitives/subprocess"
	probing = "rye/core/primitives/probe"
	hello   = "tool:rye/core/hello"
)

var tool = itemtest.Tool

// A probe is a primitive that says what it was to do, and does what a test wants.
type probe struct {
	do     func(ctx context.Context, a *primitive.Action, to primitive.Sink) (*primitive.Result, error)
	starts func(config map[string]any) []string
	closed int

	mu    sync.Mutex
	calls int
}

func (p *probe) Run(ctx context.Context, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	p.mu.Lock()
	p.calls++
	p.mu.Unlock()
	if p.do != nil {
		return p.do(ctx, a, to)
	}
	return gives(a.Config), nil
}

// gives is a result that is a success.
func gives(v any) *primitive.Result { return &primitive.Result{Value: v, Level: 4} }

func (p *probe) Starts(config map[string]any) []string {
	if p.starts == nil {
		return nil
	}
	return p.starts(config)
}

func (p *probe) Close() error {
	p.closed++
	return nil
}

// A world is a project, a user who runs what is in it, and a library.
type world struct {
	testing.TB
	dir, project string
	probe        *probe
	policy       string // more of the root's
	mine         string // the project's; "" for none
	kernel       *exec.Kernel
	library      fstest.MapFS
	user         *ai.Space
	bundles      []*ai.Space
	plugins      chain.Plugins
}

func newWorld(t testing.TB) *world {
	t.Helper()
	dir := sandboxtest.Dir(t)
	w := &world{TB: t, dir: dir, project: filepath.Join(dir, "project"), probe: &probe{}}
	if err := os.MkdirAll(filepath.Join(w.project, ".ai"), 0o777); err != nil {
		t.Fatal(err)
	}
	described, err := fs.ReadFile(std.FS(), "tools/"+process+".yaml")
	if err != nil {
		t.Fatal(err)
	}
	w.library = fstest.MapFS{
		"tools/" + process + ".yaml": {Data: described},
		"tools/" + probing + ".yaml": {Data: []byte(tool(probing, "null",
			"config_schema: {type: object, properties: {count: {type: integer}}}"))},
		"tools/rye/core/hello.yaml": {Data: []byte(tool("rye/core/hello", probing, "config: {greeting: hello}",
			"network: [api.example.com]"))},
		"tools/rye/core/odd.yaml": {Data: []byte(tool("rye/core/odd", "rye/core/primitives/odd"))},
		"tools/rye/core/runtimes/r.yaml": {Data: []byte(tool("rye/core/runtimes/r", probing,
			"config: {file: '{tool_path}', dir: '{tool_dir}', parent: '{tool_parent}', anchor: '{anchor_path}', lib: '{runtime_lib}', project: '{project_path}'}",
			"anchor: {enabled: true, mode: auto, markers_any: [parts], root: tool_dir, lib: lib, env_paths: {RYE_MODULE_PATH: {prepend: ['{anchor_path}']}}}"))},
		"tools/rye/core/runtimes/lib/_launch.txt": {Data: []byte("launch")},
		"tools/rye/core/primitives/odd.yaml":      {Data: []byte(tool("rye/core/primitives/odd", "null"))},
	}
	sandboxtest.Removable(t, filepath.Join(dir, "cache"))
	copies, err := materialise.Open(filepath.Join(dir, "cache"))
	if err != nil {
		t.Fatal(err)
	}
	w.kernel = &exec.Kernel{
		Copies: copies,
		Primitives: map[string]primitive.Primitive{probing: w.probe,
			process: &subprocess.Subprocess{Machine: sandboxtest.Machine(t)}},
		Host: env.Host{Vars: map[string]string{"PATH": systemPath(), "SystemRoot": os.Getenv("SystemRoot"),
			"SECRET": "x", "LD_PRELOAD": "/evil.so"}, Files: env.Disk{}},
		Now:     time.Now,
		Own:     func(f key.Fingerprint) bool { return f == alice.Public().Fingerprint() },
		Project: w.project, User: filepath.Join(dir, "home"),
		Data:   filepath.Join(dir, "state", "plugins"),
		Secret: []string{filepath.Join(dir, "secret")}, Forbidden: []string{w.project, filepath.Join(dir, "cache")},
		Machine: machine,
	}
	w.openLog(audit.Options{})
	return w
}

func systemPath() string {
	if runtime.GOOS == "windows" {
		return `C:\Windows\System32`
	}
	return "/usr/bin:/bin"
}

func (w *world) logs() string { return filepath.Join(w.dir, "state", "audit") }

func (w *world) openLog(o audit.Options) {
	w.Helper()
	if o.Dir == "" {
		o.Dir = w.logs()
	}
	o.Key, o.Now, o.Program = machine, time.Now, "rye test"
	log, err := audit.Open(o)
	if err != nil {
		w.Fatal(err)
	}
	w.kernel.Log = log
	w.Cleanup(func() { log.Close(context.Background()) })
}

// trust reads the policies.
func (w *world) trust() *admission.Trust {
	w.Helper()
	text := fmt.Sprintf(
		"rye: policy/2\n\nkeys:\n  alice: {key: %q}\n  bob: {key: %q}\n\nnames:\n  \"**\": {keys: [alice, bob]}\n  \"two/**\": {keys: [alice, bob], threshold: 2}\n",
		alice.Public(), bob.Public())
	t := &admission.Trust{Root: policy.Side{Policy: w.parse(text + w.policy)}, Now: noon}
	if w.mine != "" {
		t.Project = &policy.Side{Policy: w.parse(text + w.mine)}
	}
	return t
}

func (w *world) parse(text string) *policy.Policy {
	w.Helper()
	p, err := policy.Parse([]byte(text))
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// view opens the spaces as they stand.
func (w *world) view() *ai.View {
	w.Helper()
	project, err := ai.OpenDir(filepath.Join(w.project, ".ai"), "project", ai.Project)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { project.Close() })
	spaces := []*ai.Space{project}
	if w.user != nil {
		spaces = append(spaces, w.user)
	}
	spaces = append(append(spaces, w.bundles...), &ai.Space{Label: "system:rye/std", FS: w.library, Builtin: true})
	trust := w.trust()
	v, err := ai.NewView(w.Context(), ai.Options{Spaces: spaces, Trust: trust,
		MayOverride: trust.Root.Policy.MayOverride})
	if err != nil {
		w.Fatal(err)
	}
	return v
}

// base is what the spaces have.
func (w *world) base() *exec.Base {
	w.Helper()
	v, t := w.view(), w.trust()
	b := &exec.Base{Policies: chain.Policies{Root: t.Root.Policy}, Resolver: v, Admit: ai.NewAdmitter(v, t),
		Plugins: w.plugins}
	if t.Project != nil {
		b.Project = t.Project.Policy
	}
	return b
}

// put writes files of the project.
func (w *world) put(files map[string]string) {
	w.Helper()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(w.project, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			w.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[name]), 0o666); err != nil {
			w.Fatal(err)
		}
	}
}

// signed signs an item of the project where it stands, and returns its bytes.
func (w *world) signed(ref string, keys ...key.Private) []byte {
	w.Helper()
	v := w.view()
	it, err := v.Find(w.Context(), parseRef(ref))
	if err != nil {
		w.Fatal(err)
	}
	text := itemtest.Signed(w, ai.NewAdmitter(v, nil), it, noon, keys...)
	if files, ok := it.Space.FS.(fstest.MapFS); ok {
		files[it.Path].Data = text
		return text
	}
	if err := os.WriteFile(filepath.Join(w.project, ".ai", filepath.FromSlash(it.Path)), text, 0o666); err != nil {
		w.Fatal(err)
	}
	return text
}

func parseRef(text string) model.Ref {
	kind, id, _ := strings.Cut(text, ":")
	return model.Ref{Kind: kind, ID: id}
}

// with puts a tool acme/x of Alice's into the project, with more lines.
func (w *world) with(more ...string) *world {
	w.Helper()
	w.put(map[string]string{".ai/tools/acme/x.yaml": tool("acme/x", probing, more...)})
	w.signed(x, alice)
	return w
}

const x = "tool:acme/x"

// call asks for a tool with parameters.
func call(ref string, given map[string]any) *exec.Call {
	return &exec.Call{Ref: parseRef(ref), Principal: "ann", Params: func(*params.Schema) (map[string]any, error) {
		return given, nil
	}}
}

// prepare has to succeed.
func (w *world) prepare(c *exec.Call) *exec.Plan {
	w.Helper()
	p, err := w.kernel.Prepare(w.Context(), w.base(), c)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { p.Close() })
	return p
}

// refused has to fail, and nothing to be done.
func (w *world) refused(c *exec.Call) error {
	w.Helper()
	p, err := w.kernel.Prepare(w.Context(), w.base(), c)
	if err == nil {
		p.Close()
		w.Fatalf("%s may run", c.Ref)
	}
	if p != nil || w.probe.calls > 0 || len(w.records()) > 0 {
		w.Fatalf("plan %v, %d actions, %d records with the error %v", p, w.probe.calls, len(w.records()), err)
	}
	return err
}

// run prepares and runs.
func (w *world) run(c *exec.Call) (*exec.Result, error) {
	w.Helper()
	p := w.prepare(c)
	defer p.Close()
	return p.Run(w.Context(), nil)
}

// ok is run for what has to succeed.
func (w *world) ok(c *exec.Call) *exec.Result {
	w.Helper()
	r, err := w.run(c)
	if err != nil {
		w.Fatal(err)
	}
	if r.Status != record.OK || r.Failed {
		w.Fatalf("%s: %s %s: %s %v", c.Ref, r.Status, r.Code, r.Failure, r.Problems)
	}
	return r
}

// records is what the log says.
func (w *world) records() (all []*audit.Record) {
	w.Helper()
	for r, err := range audit.List(w.Context(), w.logs(), audit.Filter{}) {
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// proved checks a receipt with the machine's public key alone.
func (w *world) proved(r *exec.Result) *receipt.Receipt {
	w.Helper()
	got, err := receipt.Verify(r.Receipt, []key.Public{machine.Public()})
	if err != nil {
		w.Fatal(err)
	}
	if got.Digest != r.Digest || got.Call.ID != r.ID || got.Outcome.Status != r.Status || got.Outcome.Code != r.Code {
		w.Fatalf("the receipt %s is of %s %s %s; the result is %s of %s %s %s",
			got.Digest, got.Call.ID, got.Outcome.Status, got.Outcome.Code, r.Digest, r.ID, r.Status, r.Code)
	}
	return got
}
