package exec_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// TestWay: everything that is decided about a call, done, and written down.
func TestWay(t *testing.T) {
	w := newWorld(t)
	w.put(map[string]string{
		".ai/tools/acme/multi/multi.yaml": tool("acme/multi/multi", "rye/core/runtimes/r",
			"config: {level: '{level}', said: '${WORD:-none}'}",
			"input_schema: {type: object, properties: {level: {type: integer, default: 3}}}", "risk: write",
			"limits: {duration_seconds: 1.5}",
			"env_config: {env: {WORD: '{tool_dir}'}}"),
		".ai/tools/acme/multi/parts": "marks the directory",
		".ai/tools/acme/multi/a/b":   "deep",
	})
	text := w.signed("tool:acme/multi/multi", alice)
	during := 0
	w.probe.do = func(_ context.Context, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
		for _, r := range w.records() {
			if r.Outcome == nil {
				during++
			}
		}
		dir := a.Config["dir"].(string)
		for name, want := range map[string]string{"multi.yaml": string(text), "parts": "marks the directory",
			"a/b": "deep"} {
			if b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))); err != nil || string(b) != want {
				t.Errorf("%s is %q (%v) while it runs", name, b, err)
			}
		}
		if b, err := os.ReadFile(filepath.Join(a.Config["lib"].(string), "_launch.txt")); err != nil ||
			string(b) != "launch" {
			t.Errorf("the runtime's lib has %q (%v)", b, err)
		}
		return gives(a.Config), nil
	}
	p := w.prepare(call("tool:acme/multi/multi", nil))
	if w.probe.calls > 0 || len(w.records()) > 0 {
		t.Error("something was done before it ran")
	}
	r, err := p.Run(t.Context(), nil)
	if err != nil || r.Status != record.OK || r.Code != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	config := r.Value.(map[string]any)
	dir := config["dir"].(string)
	for name, want := range map[string]any{
		"file": filepath.Join(dir, "multi.yaml"), "parent": filepath.Dir(dir), "anchor": dir, "project": w.project,
		"level": 3.0, "said": dir,
	} {
		if !reflect.DeepEqual(config[name], want) {
			t.Errorf("%s is %v; want %v", name, config[name], want)
		}
	}
	if !strings.HasPrefix(dir, filepath.Join(w.dir, "cache")) {
		t.Errorf("it runs from %s", dir)
	}

	// The environment is what the chain made, and nothing of the machine's.
	env := map[string]string{}
	for _, v := range p.Env {
		name, v, _ := strings.Cut(v, "=")
		env[name] = v
	}
	if env["WORD"] != dir || env["RYE_MODULE_PATH"] != dir || env["SECRET"] != "" || env["LD_PRELOAD"] != "" ||
		env["HOME"] == os.Getenv("HOME") {
		t.Errorf("the environment is %v", env)
	}
	if !slices.Equal(p.Keys, []string{"RYE_MODULE_PATH", "WORD"}) {
		t.Errorf("the chain has set %q", p.Keys)
	}

	// What is written down.
	if during != 1 {
		t.Errorf("%d calls were in the log while this one ran", during)
	}
	all := w.records()
	if len(all) != 1 || all[0].Outcome == nil || all[0].Call.ID != p.ID() || all[0].Outcome.Receipt != r.Digest {
		t.Fatalf("the log has %+v", all)
	}
	got := w.proved(r).Call
	if got.ID != p.ID() || got.Ref != "tool:acme/multi/multi" || got.Digest != cas.Sum(text) || got.Tree.IsZero() ||
		got.Risk != "write" || got.Principal != "ann" ||
		got.Limits["wall_ms"] != 1500 || got.Deadline.IsZero() || got.Grants.IsZero() || got.Parent != "" ||
		!slices.Equal(got.Signers, []string{alice.Public().Fingerprint().String()}) ||
		!slices.Equal(got.Policy, []cas.Digest{w.base().Root.ID()}) {
		t.Errorf("the receipt is of %+v", got)
	}
	var chain []string
	for _, l := range got.Chain {
		chain = append(chain, l.Ref+" "+strings.Join(l.Signers, ","))
	}
	if want := []string{"tool:rye/core/runtimes/r builtin", "tool:" + probing + " builtin"}; !slices.Equal(chain,
		want) || got.Chain[0].Tree.IsZero() {
		t.Errorf("the chain is %q", chain)
	}
	checkLog(w)
}

// checkLog has the log verified after it is closed.
func checkLog(w *world) {
	w.Helper()
	if err := w.kernel.Log.Close(w.Context()); err != nil {
		w.Fatal(err)
	}
	report, err := audit.Verify(w.Context(), w.logs(), []key.Public{machine.Public()})
	if err != nil || len(report.Problems) > 0 || report.Unfinished > 0 || report.Checkpoints == 0 {
		w.Errorf("%+v, %v", report, err)
	}
}

// TestChain: a chain that doesn't fit together is said before anything else is looked at.
func TestChain(t *testing.T) {
	w := newWorld(t)
	w.put(map[string]string{
		".ai/tools/acme/circle.yaml": tool("acme/circle", "acme/circle"),
		".ai/tools/acme/none.yaml":   tool("acme/none", "acme/nowhere"),
	})
	for ref, code := range map[string]fault.Code{"tool:acme/circle": fault.Circular,
		"tool:acme/none": fault.ExecutorNotFound, "tool:acme/gone": fault.ToolNotFound,
		"directive:acme/x": fault.Validation} {
		if e, ok := errors.AsType[*ai.ChainError](w.refused(call(ref, nil))); !ok || e.Code != code {
			t.Errorf("%s: %v", ref, e)
		}
	}
	if err := w.refused(call("tool:"+probing, nil)); fault.CodeOf(err) != fault.Validation ||
		!strings.Contains(err.Error(), `is a primitive and can't be run directly`) {
		t.Error(err)
	}
	e := fault.Of(w.refused(call("tool:rye/core/odd", nil)))
	if e.Code != fault.ExecutorNotFound || e.Details["primitive"] != "rye/core/primitives/odd" ||
		e.Text != `"tool:rye/core/odd" needs the primitive "rye/core/primitives/odd", which this rye doesn't have` {
		t.Error(e)
	}
}

// TestParameters: what is given is completed and checked by the tool's schema before anything is made of it.
func TestParameters(t *testing.T) {
	w := newWorld(t).
		with(
			"input_schema: {type: object, required: [name], additionalProperties: false, properties: {name: {type: string}, n: {type: integer, default: 7}}}",
			"config: {args: ['{name}', 'n={n}'], count: '{n}'}")
	if got := w.ok(call(x, map[string]any{"name": "ann"})).Value; !reflect.DeepEqual(got,
		map[string]any{"args": []any{"ann", "n=7"}, "count": 7.0}) {
		t.Errorf("%#v", got)
	}
	w = newWorld(t).
		with(
			"input_schema: {type: object, required: [name], additionalProperties: false, properties: {name: {type: string}}}")
	for name, given := range map[string]map[string]any{"missing": nil, "type": {"name": int64(1)},
		"undeclared": {"name": "x", "tool_path": "/evil"}} {
		e := w.refused(call(x, given))
		if fault.CodeOf(e) != fault.Validation ||
			!strings.Contains(e.Error(), `invalid parameters for "tool:acme/x": `) {
			t.Errorf("%s: %v", name, e)
		}
		if _, ok := errors.AsType[*params.InvalidError](e); !ok {
			t.Errorf("%s: %v", name, e)
		}
	}
	c := call(x, nil)
	no := errors.New("standard input is closed")
	c.Params = func(*params.Schema) (map[string]any, error) { return nil, no }
	if err := w.refused(c); !errors.Is(err, no) {
		t.Error(err)
	}
	// None at all are an empty object.
	w = newWorld(t).with("config: {all: '{params_json}'}")
	if r := w.ok(&exec.Call{Ref: parseRef(x)}); !reflect.DeepEqual(r.Value, map[string]any{"all": "{}"}) {
		t.Errorf("%v", r.Value)
	}
}

// payloads are texts that an attacker sends in the hope that a program interprets them.
var payloads = []string{
	"", "-c", "--help", "-", " ", "a b", "a\nb", "$(id)", "`id`", "; id", "| id", "&& id", "> /x", "${HOME}",
	"${HOME:-x}", "$${HOME}", "{tool_path}", "{{tool_path}}",
	"{params_json}", "{name}", "{project_path}", "%s%n%x", "%PATH%", "'", `"`, `\`, `","x":"`, "\x1b]0;x\x07",
	"../../etc/passwd", "*", "~", "\u202e", "é",
	"'; DROP TABLE x; --", "<script>", "{{7*7}}", "#{x}", "!x", "__proto__", strings.Repeat("A", 100_000),
}

// TestInjection: a caller's text is one text, wherever it stands.
func TestInjection(t *testing.T) {
	w := newWorld(t).with("input_schema: {type: object, properties: {name: {type: string}}}",
		"config: {args: [first, '{name}', 'x={name};', last], all: '{params_json}', named: {key: '{name}'}}")
	b := w.base()
	for _, text := range payloads {
		p, err := w.kernel.Prepare(t.Context(), b, call(x, map[string]any{"name": text}))
		if err != nil {
			t.Errorf("%.50q: %v", text, err)
			continue
		}
		if want := []any{"first", text, "x=" + text + ";", "last"}; !reflect.DeepEqual(p.Config["args"], want) {
			t.Errorf("%.50q makes the arguments %.300q", text, p.Config["args"])
		}
		given, err := jcs.Parse([]byte(p.Config["all"].(string)))
		if err != nil || !reflect.DeepEqual(given, map[string]any{"name": text}) ||
			p.Config["named"].(map[string]any)["key"] != text {
			t.Errorf("%.50q: %.300v (%v)", text, p.Config, err)
		}
		p.Close()
	}
}

// TestConfig: what files say that can't be done is said with their names, and changes nothing.
func TestConfig(t *testing.T) {
	for name, lines := range map[string][]string{
		"an unknown name":        {"config: {a: '{nothing}'}"},
		"an unknown variable":    {"config: {a: '${NOTHING}'}"},
		"what isn't a template":  {"config: {a: '${NOTHING%x}'}"},
		"the primitive's schema": {"config: {count: many}"},
		"the tool's schema":      {"input_schema: {type: object, unheardOf: 1}"},
		"a circle":               {"config: {a: '{b}', b: '{a}'}"},
		"a parameter that's lost": {"config: {a: ['{name}']}",
			"input_schema: {type: object, properties: {name: {type: string}}}"},
	} {
		if err := newWorld(t).with(lines...).refused(call(x, nil)); !strings.Contains(err.Error(),
			`invalid configuration of "tool:acme/x": `) {
			t.Errorf("%s: %v", name, err)
		} else if e := fault.Of(err); e.Code != fault.Validation || e.Unwrap() == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := newWorld(t).with("env_config: {env: {LD_PRELOAD: x.so}}").refused(call(x,
		nil)); !strings.Contains(err.Error(), "LD_PRELOAD") {
		t.Error(err)
	}
}

// TestNames: templates may use the chain's own variables, but a primitive gets only those in its config_schema.
func TestNames(t *testing.T) {
	w := newWorld(t)
	w.library["tools/"+probing+".yaml"].Data = []byte(tool(probing, "null",
		"config_schema: {type: object, additionalProperties: false, properties: {count: {type: integer}, args: {type: array}}}"))
	w.with("config: {server: 'http://x', args: ['{server}/y'], count: '8'}")
	if got := w.ok(call(x, nil)).Value; !reflect.DeepEqual(got,
		map[string]any{"args": []any{"http://x/y"}, "count": 8.0}) {
		t.Errorf("%#v", got)
	}
	// Without a user there is no user_space.
	w = newWorld(t)
	w.kernel.User = ""
	w.with("config: {user: '{user_space}'}")
	w.refused(call(x, nil))
}

// TestLimits: those of the tool, and no more time than the caller gives.
func TestLimits(t *testing.T) {
	w := newWorld(t).
		with(
			"limits: {duration_seconds: 2.5, cpu_seconds: 3, memory_mib: 5, written_mib: 7, output_mib: 11, processes: 13, open_files: 17}")
	for timeout, wall := range map[time.Duration]time.Duration{0: 2500 * time.Millisecond, time.Second: time.Second,
		time.Hour: 2500 * time.Millisecond} {
		c := call(x, nil)
		c.Timeout = timeout
		p := w.prepare(c)
		l := p.Action.Sandbox.Limits
		if l.Wall != wall || l.CPU != 3*time.Second || l.Memory != 5<<20 || l.Written != 7<<20 || l.Output != 11<<20 ||
			l.Processes != 13 || l.Files != 17 {
			t.Errorf("timeout %v: %+v", timeout, l)
		}
		r, err := p.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := w.proved(r).Call.Limits, map[string]int64{"wall_ms": wall.Milliseconds(), "cpu_ms": 3000,
			"memory": 5 << 20, "written": 7 << 20, "output": 11 << 20,
			"processes": 13, "open_files": 17}; !maps.Equal(got, want) {
			t.Errorf("the receipt has %v; want %v", got, want)
		}
	}
	c := call(x, nil)
	c.Timeout = time.Minute
	w = newWorld(t).with()
	if got := w.prepare(c).Action.Sandbox.Limits; got.Wall != time.Minute || got.Memory != 0 {
		t.Errorf("%+v", got)
	}
}

// TestOutcomes: how a call may end, and what that is called.
func TestOutcomes(t *testing.T) {
	no := errors.New("nothing to start")
	for name, c := range map[string]struct {
		result       primitive.Result
		err          error
		status, code string
		failure      string
	}{
		"ok": {primitive.Result{Value: map[string]any{"n": int64(1)},
			Usage: map[string]int64{"cpu_ms": 1, "odd": -1, "much": 1<<63 - 1}}, nil, record.OK, "", ""},
		"failed": {primitive.Result{Value: "x", Failed: true, Failure: "no", Exit: 3}, nil, record.Failed,
			"EXECUTION_FAILED", "no"},
		"signal": {primitive.Result{Failed: true, Exit: -1, Signal: "SIGKILL"}, nil, record.Failed,
			"EXECUTION_FAILED", ""},
		"timeout":   {primitive.Result{Failed: true, Ended: "timeout"}, nil, record.Timeout, "TIMEOUT", ""},
		"cancelled": {primitive.Result{Failed: true, Ended: "cancelled"}, nil, record.Cancelled, "CANCELLED", ""},
		"memory":    {primitive.Result{Failed: true, Ended: "memory"}, nil, record.Failed, "RESOURCE_EXCEEDED", ""},
		"output":    {primitive.Result{Failed: true, Ended: "output"}, nil, record.Failed, "RESOURCE_EXCEEDED", ""},
		"schema": {primitive.Result{Value: map[string]any{"n": "one"}}, nil, record.Failed, "VALIDATION_FAILED",
			"n: "},
		"no JSON": {primitive.Result{Value: map[string]any{"n": int64(1), "f": func() {}}}, nil, record.Failed,
			"EXECUTION_FAILED", "the result is not valid JSON: "},
		"error": {primitive.Result{}, no, record.Refused, "EXECUTION_FAILED", ""},
	} {
		w := newWorld(t).with("output_schema: {type: object, required: [n], properties: {n: {type: integer}}}")
		w.probe.do = func(context.Context, *primitive.Action, primitive.Sink) (*primitive.Result, error) {
			if c.err != nil {
				return nil, c.err
			}
			return &c.result, nil
		}
		r, err := w.run(call(x, nil))
		if !errors.Is(err, c.err) || r.Status != c.status || r.Code != c.code ||
			!strings.Contains(r.Failure, c.failure) {
			t.Errorf("%s: %+v, %v", name, r, err)
			continue
		}
		if failed := c.status != record.OK && c.err == nil; r.Failed != failed ||
			(len(r.Problems) > 0) != (name == "schema") {
			t.Errorf("%s: failed %v, problems %v", name, r.Failed, r.Problems)
		}
		got := w.proved(r).Outcome
		if hasResult := c.err == nil && name != "no JSON"; got.Result.IsZero() == hasResult ||
			got.Signal != c.result.Signal || c.err == nil && got.Exit != c.result.Exit {
			t.Errorf("%s: the receipt has %+v", name, got)
		}
		if name == "ok" && !maps.Equal(got.Usage, map[string]int64{"cpu_ms": 1, "much": 1<<53 - 1}) {
			t.Errorf("%s: used %v", name, got.Usage)
		}
		checkLog(w)
	}
}

// TestLargeResult: a large value is a success if the tool promises nothing about its result.
func TestLargeResult(t *testing.T) {
	w := newWorld(t).with()
	list := make([]any, 1<<20+1)
	w.probe.do = func(context.Context, *primitive.Action, primitive.Sink) (*primitive.Result, error) {
		return gives(list), nil
	}
	w.ok(call(x, nil))
}

// TestCancel: a call whose caller has gone is written down all the same.
func TestCancel(t *testing.T) {
	for _, withResult := range []bool{true, false} {
		w := newWorld(t).with()
		ctx, cancel := context.WithCancel(t.Context())
		w.probe.do = func(ctx context.Context, _ *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
			cancel()
			<-ctx.Done()
			if withResult {
				return &primitive.Result{Failed: true, Ended: "timeout"}, nil
			}
			return nil, context.Cause(ctx)
		}
		r, err := w.prepare(call(x, nil)).Run(ctx, nil)
		if (err == nil) != withResult || r.Status != record.Cancelled || r.Code != "CANCELLED" {
			t.Errorf("%+v, %v", r, err)
		}
		w.proved(r)
		checkLog(w)
	}
	// Before it begins there is nothing to write down.
	w := newWorld(t).with()
	ctx, cancel := context.WithCancel(t.Context())
	p := w.prepare(call(x, nil))
	cancel()
	if r, err := p.Run(ctx, nil); !errors.Is(err, context.Canceled) || r != nil || w.probe.calls > 0 {
		t.Errorf("%+v, %v, %d actions", r, err, w.probe.calls)
	}
	if _, err := w.kernel.Prepare(ctx, w.base(), call(x, nil)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestClose: a plan gives back what it holds, and a kernel closes who wants it.
func TestClose(t *testing.T) {
	w := newWorld(t).with()
	p := w.prepare(call(x, nil))
	home := filepath.Dir(p.Action.Sandbox.Write[0])
	if _, err := os.Stat(home); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", home, err)
	}
	if err := w.kernel.Close(); err != nil || w.probe.closed != 1 {
		t.Errorf("%v, closed %d times", err, w.probe.closed)
	}
	w.kernel.Primitives["rye/core/primitives/broken"] = broken{}
	if err := w.kernel.Close(); !errors.Is(err, errBroken) || w.probe.closed != 2 {
		t.Errorf("%v, closed %d times", err, w.probe.closed)
	}
}

type broken struct{ primitive.Primitive }

var errBroken = errors.New("broken")

func (broken) Close() error { return errBroken }

// TestIDs: calls have ids of their own, which sort by time.
func TestIDs(t *testing.T) {
	w := newWorld(t).with()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w.kernel.Now = func() time.Time {
		at = at.Add(time.Millisecond)
		return at
	}
	var ids []string
	for range 20 {
		ids = append(ids, w.prepare(call(x, nil)).ID())
	}
	if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != 20 || record.CheckID(ids[0]) != nil {
		t.Errorf("%q", ids)
	}
	w.kernel.Now = func() time.Time { return time.Unix(-1e9, 0) }
	if id := w.prepare(call(x, nil)).ID(); record.CheckID(id) != nil {
		t.Error(id)
	}
}

// TestAudit: what can't be written down isn't done.
func TestAudit(t *testing.T) {
	w := newWorld(t).with()
	p := w.prepare(call(x, nil))
	// There is no room for the log: a file stands where its directory should be.
	if err := os.WriteFile(filepath.Join(w.dir, "state"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(t.Context(), nil)
	e := fault.Of(err)
	if e.Code != fault.Files || r != nil || w.probe.calls > 0 || e.Unwrap() == nil ||
		!strings.HasPrefix(e.Text, `"tool:acme/x" was not run because it can't be logged: `) {
		t.Errorf("%+v, %v, %d actions", r, err, w.probe.calls)
	}

	// A call that the log can't hold isn't made either.
	w = newWorld(t).with()
	c := call(x, nil)
	c.Principal = "ann\nbob"
	if r, err := w.run(c); err == nil || r != nil || w.probe.calls > 0 {
		t.Errorf("%+v, %v, %d actions", r, err, w.probe.calls)
	}

	// What can't be written down afterwards has happened: there are a result and an error.
	w = newWorld(t).with()
	w.probe.do = func(ctx context.Context, a *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
		return gives("done"), w.kernel.Log.Close(ctx)
	}
	r, err = w.run(call(x, nil))
	if fault.CodeOf(err) != fault.Files || !strings.HasPrefix(err.Error(), `"tool:acme/x" was run, but `) ||
		!errors.Is(err, audit.ErrClosed) || r == nil || r.Value != "done" || len(r.Receipt) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestDamage: a modified copy is replaced before anything runs from it, and the damage is reported.
func TestDamage(t *testing.T) {
	w := newWorld(t).with("config: {file: '{tool_path}'}")
	path := w.ok(call(x, nil)).Value.(map[string]any)["file"].(string)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("evil"), 0o600),
		os.Chmod(path, 0o400)); err != nil {
		t.Fatal(err)
	}
	p := w.prepare(call(x, nil))
	b, err := os.ReadFile(p.Config["file"].(string))
	if p.Damage == nil || err != nil || string(b) != string(good) {
		t.Errorf("damage %v; it would run %q (%v)", p.Damage, b, err)
	}
}

// TestLevel: which sandbox a call asks for, by whose it is and what the policies say.
func TestLevel(t *testing.T) {
	for name, c := range map[string]struct {
		by       key.Private
		policy   string
		mine     string
		stranger bool // the caller says so
		want     floor.Level
		is       bool // a stranger's
	}{
		"own":                      {by: alice, want: floor.Unset},
		"own, with a floor":        {by: alice, policy: "exec: {floor: limits}", want: floor.Limits},
		"own, strangers don't say": {by: alice, policy: "exec: {strangers: namespace}", want: floor.Unset},
		"bob's":                    {by: bob, want: floor.Landlock, is: true},
		"bob's, strangers less":    {by: bob, policy: "exec: {strangers: none}", want: floor.None, is: true},
		"bob's, strangers more":    {by: bob, policy: "exec: {strangers: namespace}", want: floor.Namespace, is: true},
		"bob's, the floor is more": {by: bob, policy: "exec: {strangers: none, floor: limits}", want: floor.Limits,
			is: true},
		"bob's, the project's": {by: bob, policy: "exec: {strangers: none}", mine: "exec: {strangers: namespace}",
			want: floor.Namespace, is: true},
		"bob's, the project less": {by: bob, mine: "exec: {strangers: none, floor: none}", want: floor.Landlock,
			is: true},
		"own, no user present": {by: alice, stranger: true, want: floor.Landlock, is: true},
	} {
		w := newWorld(t)
		if w.policy = c.policy; c.policy != "" {
			w.policy = "\n" + c.policy + "\n"
		}
		if w.mine = c.mine; c.mine != "" {
			w.mine = "\n" + c.mine + "\n"
		}
		w.put(map[string]string{".ai/tools/acme/x.yaml": tool("acme/x", probing)})
		w.signed(x, c.by)
		ask := call(x, nil)
		ask.Stranger = c.stranger
		p := w.prepare(ask)
		if p.Action.Sandbox.Level != c.want || p.Stranger != c.is {
			t.Errorf("%s: level %v, a stranger's %v; want %v, %v", name, p.Action.Sandbox.Level, p.Stranger, c.want,
				c.is)
		}
		r, err := p.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.proved(r).Call.Sandbox; got != p.Action.Sandbox.Level.String() {
			t.Errorf("%s: the receipt says %q", name, got)
		}
	}
	// The library's items are the user's own, but a stranger's in a call without a user present.
	w := newWorld(t)
	if p := w.prepare(call(hello, nil)); p.Stranger || !slices.Equal(p.Chain[0].Signers, []string{"builtin"}) ||
		!slices.Equal(p.Grants.Network.Hosts, []string{"api.example.com"}) {
		t.Errorf("%+v", p)
	}
	c := call(hello, nil)
	c.Stranger = true
	if p := w.prepare(c); !p.Stranger || len(p.Grants.Network.Hosts) > 0 || p.Action.Sandbox.Level != floor.Landlock {
		t.Errorf("%+v", p)
	}
	c.Declared = true
	if p := w.prepare(c); !p.Stranger || !slices.Equal(p.Grants.Network.Hosts, []string{"api.example.com"}) ||
		p.Action.Sandbox.Level != floor.Landlock {
		t.Errorf("%+v", p)
	}
	// A stranger's runtime makes the whole chain a stranger's.
	w = newWorld(t)
	w.put(map[string]string{".ai/tools/acme/x.yaml": tool("acme/x", "acme/r"),
		".ai/tools/acme/r.yaml": tool("acme/r", probing)})
	w.signed("tool:acme/r", bob)
	w.signed(x, alice)
	if p := w.prepare(call(x, nil)); !p.Stranger {
		t.Error("Alice's tool on Bob's runtime is hers alone")
	}
}
