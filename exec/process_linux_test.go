package exec_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/subprocess"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// runs puts a tool acme/x into the project that starts this binary, by a key. The first of args says as what.
func (w *world) runs(by key.Private, args string, more ...string) *world {
	w.Helper()
	return w.starts(by, fmt.Sprintf("args: [%s, %s]", childWord, args), more...)
}

// starts is runs with all of the configuration.
func (w *world) starts(by key.Private, config string, more ...string) *world {
	w.Helper()
	w.put(map[string]string{".ai/tools/acme/x.yaml": tool("acme/x", process,
		append(more, fmt.Sprintf("config: {command: %q, %s}", sandboxtest.Self(w), config))...)})
	w.signed(x, by)
	// otherwise a stranger's tool may not start it
	w.kernel.Host.Vars["PATH"] += ":" + filepath.Dir(sandboxtest.Self(w))
	return w
}

// TestProcess: a caller's text goes through a real process as it is.
func TestProcess(t *testing.T) {
	given := map[string]any{}
	args, want := []string{"args"}, []any{}
	for i, text := range payloads {
		name := fmt.Sprint("p", i)
		given[name] = text
		args = append(args, fmt.Sprintf("'{%s}', 'x={%s};'", name, name))
		want = append(want, text, "x="+text+";")
	}
	schema := "input_schema: {type: object, properties: {p0: {type: string}"
	for i := range payloads[1:] {
		schema += fmt.Sprintf(", p%d: {type: string}", i+1)
	}
	schema += "}}"
	w := newWorld(t).runs(alice, strings.Join(args, ", "), schema)
	got := w.ok(call(x, given)).Value
	if list, ok := got.([]any); !ok || len(list) != len(want) {
		t.Errorf("%d arguments arrive as %.200v", len(want), got)
	} else {
		for i := range want {
			if list[i] != want[i] {
				t.Errorf("%.100q arrives as %.200q", want[i], list[i])
			}
		}
	}
	for _, text := range []string{"a\x00b", strings.Repeat("A", 2<<20)} {
		given["p0"] = text
		r, err := w.run(call(x, given))
		if err == nil || r.Status != record.Refused || r.Code != "VALIDATION_FAILED" {
			t.Errorf("%.10q: %+v, %v", text, r, err)
		}
	}

	// Through standard input go these, too.
	w = newWorld(t).starts(alice, fmt.Sprintf("args: [%s, stdin], input_data: '{params_json}'", childWord), schema)
	given["p0"], given["p1"] = "a\x00b", strings.Repeat("A", 2<<20)
	if got := w.ok(call(x, given)).Value; !reflect.DeepEqual(got, given) {
		t.Errorf("%.100v arrives as %.100v", given, got)
	}
}

// TestProcessEnvironment: what a process gets is what the chain made.
func TestProcessEnvironment(t *testing.T) {
	t.Setenv("RYE_KEY", "secret")
	t.Setenv("CANARY", "sings")
	w := newWorld(t).runs(alice, "env", "env_config: {env: {WORD: text}}")
	r := w.ok(call(x, nil))
	var names []string
	for _, v := range r.Value.([]any) {
		name, _, _ := strings.Cut(v.(string), "=")
		names = append(names, name)
	}
	if want := []string{"HOME", "PATH", "TMPDIR", "WORD"}; !slices.Equal(names, want) {
		t.Errorf("it gets %q; want %q", names, want)
	}
}

// TestStranger: a stranger's tool reads its own files and what it was granted, and writes its own directories.
func TestStranger(t *testing.T) {
	w := newWorld(t)
	at := func(name string) string { return filepath.Join(w.project, filepath.FromSlash(name)) }
	w.put(map[string]string{"docs/x": "granted", "private/x": "not granted", "out/x": "before", "rye.lock": "",
		".git/config": "git", ".ai/outputs/x": ""})
	secret := filepath.Join(w.dir, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.policy =
		"\ngrants:\n  \"tool:acme/**\": [\"files:read:docs\", \"files:write:out\", \"files:write:.ai/outputs\"]\n"
	const files = "files: {read: [docs, private], write: [out, .ai/outputs]}"
	list := func(paths ...string) string { return "'" + strings.Join(paths, "', '") + "'" }

	w.runs(bob, "read, '{tool_path}', "+list(at("docs/x"), at("private/x"), at("out/x"), at(".ai/tools/acme/x.yaml"),
		at(".git/config"), secret, filepath.Join(w.logs(), "head.jsonl")), files)
	r, err := w.run(call(x, nil))
	if (&subprocess.Subprocess{Machine: sandboxtest.Machine(t)}).Machine.Offers().Best < floor.Landlock {
		if _, ok := errors.AsType[*sandbox.UnavailableError](err); !ok || r.Status != record.Refused {
			t.Errorf("without a sandbox: %+v, %v", r, err)
		}
		return
	}
	if err != nil || r.Status != record.OK || r.Level < floor.Landlock {
		t.Fatalf("%+v, %v", r, err)
	}
	said := r.Value.(map[string]any)
	own := 0
	for path, text := range said {
		switch {
		case path == at("docs/x"):
			if text != "granted" {
				t.Errorf("%s: %q", path, text)
			}
		case path == at("out/x"):
			if text != "before" {
				t.Errorf("%s: %q", path, text)
			}
		case strings.HasPrefix(path, filepath.Join(w.dir, "cache")):
			if own++; text == "refused" {
				t.Errorf("%s: %q", path, text)
			}
		case text != "refused":
			t.Errorf("it reads %s: %q", path, text)
		}
	}
	if own != 1 || len(said) != 8 {
		t.Errorf("it was to read %d files, %d of its own", len(said), own)
	}

	w.runs(bob, "write, "+list(at("out/x"), at("out/new"), at(".ai/outputs/new"), at("docs/x"), at("new"),
		at(".ai/tools/acme/new.yaml"), at(".ai/policy.yaml"), at("rye.lock"), at(".git/config"),
		secret, filepath.Join(w.dir, "new"))+", '{tool_path}'", files)
	r = w.ok(call(x, nil))
	for path, did := range r.Value.(map[string]any) {
		if may := slices.Contains([]string{at("out/x"), at("out/new"), at(".ai/outputs/new")}, path); did != may {
			t.Errorf("it writes %s: %v; want %v", path, did, may)
		}
	}
	if got := w.proved(r); got.Outcome.Sandbox == "" || !strings.Contains(got.Outcome.Sandbox, "landlock") {
		t.Errorf("the receipt says it ran in %q", got.Outcome.Sandbox)
	}
	checkLog(w)
}

// TestNoSandbox: what can't run as safely as it has to doesn't, and the log says that it was refused.
func TestNoSandbox(t *testing.T) {
	w := newWorld(t).runs(bob, "args")
	w.kernel.Primitives[process] = &subprocess.Subprocess{Machine: sandbox.New(sandbox.Options{})}
	r, err := w.run(call(x, nil))
	if _, ok := errors.AsType[*sandbox.UnavailableError](err); !ok || r.Status != record.Refused ||
		r.Code != "SANDBOX_UNAVAILABLE" {
		t.Errorf("%+v, %v", r, err)
	}
	if all := w.records(); len(all) != 1 || all[0].Outcome.Status != record.Refused {
		t.Errorf("%+v", all)
	}
}

// TestProcessEnds: a process that doesn't end is stopped by its time limit, by its caller or by a sink that fails.
func TestProcessEnds(t *testing.T) {
	w := newWorld(t).runs(alice, "sleep", "limits: {duration_seconds: 0.5}")
	r, err := w.run(call(x, nil))
	if err != nil || r.Status != record.Timeout || r.Code != "TIMEOUT" || w.proved(r).Outcome.Code != "TIMEOUT" {
		t.Errorf("%+v, %v", r, err)
	}
	w = newWorld(t).runs(alice, "sleep")
	c := call(x, nil)
	c.Timeout = 300 * time.Millisecond
	if r, err := w.run(c); err != nil || r.Status != record.Timeout {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err = w.prepare(call(x, nil)).Run(ctx, sink(func() error {
		cancel()
		return nil
	}))
	if err != nil || r.Status != record.Cancelled || r.Code != "CANCELLED" {
		t.Errorf("%+v, %v", r, err)
	}
	no := errors.New("the pipe is closed")
	r, err = w.prepare(call(x, nil)).Run(t.Context(), sink(func() error { return no }))
	if err != nil || r.Status != record.Cancelled || !strings.Contains(r.Failure, no.Error()) {
		t.Errorf("%+v, %v", r, err)
	}
	checkLog(w)
}

// A sink is a function that is called for each piece of output.
type sink func() error

func (s sink) Emit(primitive.Stream, []byte) error { return s() }

// TestEnforced: under toolchain: enforce the program that was hashed is what runs, whatever stands there by then.
func TestEnforced(t *testing.T) {
	w := newWorld(t)
	b, err := os.ReadFile(sandboxtest.Self(t))
	if err != nil {
		t.Fatal(err)
	}
	path := w.program("bin/program", string(b))
	w.policy = enforce
	w.put(map[string]string{".ai/tools/acme/x.yaml": tool("acme/x", process,
		fmt.Sprintf("config: {command: %q, args: [%s, args, hello]}", path, childWord))})
	w.signed(x, alice)
	if fault.CodeOf(w.refused(call(x, nil))) != fault.NotLocked {
		t.Error("a program that isn't pinned runs")
	}
	base := w.base()
	base.Program = pins(file.Program{Name: "program", Digest: cas.Sum(b)})
	p, err := w.kernel.Prepare(t.Context(), base, call(x, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte("#!/bin/sh\necho evil\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(t.Context(), nil)
	if err != nil || !reflect.DeepEqual(r.Value, []any{"hello"}) {
		t.Errorf("%+v, %v", r, err)
	}
}
