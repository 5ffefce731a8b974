package wasm

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/primitivetest"
	"github.com/rye-build/rye/exec/primitive/worker"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

func TestPrimitive(t *testing.T) {
	primitivetest.Test(t, primitivetest.Subject{
		Primitive: subject(t),
		Value: func(t testing.TB, v any) *primitive.Action {
			text, err := jcs.Append(nil, v)
			if err != nil {
				t.Fatal(err)
			}
			return echoes(t, string(text))
		},
		Fails: func(t testing.TB, reason string) *primitive.Action {
			text, err := json.Marshal(map[string]any{"success": false, "error": reason})
			if err != nil {
				t.Fatal(err)
			}
			return echoes(t, string(text))
		},
		Stream: func(t testing.TB, n int) (*primitive.Action, []byte) {
			var b bytes.Buffer
			for i := 0; b.Len() < n; i++ {
				fmt.Fprintf(&b, "line %d\n", i)
			}
			return action(t, "", "print", fmt.Sprint(n)), b.Bytes()[:n]
		},
		Forever: func(t testing.TB) primitivetest.Endless {
			dir := sandboxtest.Dir(t)
			a := action(t, "", "forever", "/begun")
			a.Config["root"], a.Sandbox.Write = dir, []string{dir}
			a.Config["env"] = map[string]any{"MARK": dir}
			return primitivetest.Endless{
				Action: a,
				Begun:  func() bool { return there(filepath.Join(dir, "begun")) },
				Left:   func() []string { return children(t) },
			}
		},
		Wrong: wrong(),
		Tries: tries(),
	})
}

// children lists the processes of this machine that are children of this one's, where a system lists them: in this
// test nothing else has any.
func children(t testing.TB) (list []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range paths {
		if b, _ := os.ReadFile(p); bytes.HasPrefix(b, []byte(sandboxtest.Self(t)+"\x00"+guestWord+"\x00")) {
			list = append(list, p)
		}
	}
	return list
}

// with returns an action with another value in its configuration.
func with(name string, v any) func(testing.TB) *primitive.Action {
	return func(t testing.TB) *primitive.Action {
		a := of(idle)(t)
		a.Config[name] = v
		return a
	}
}

// idle is a module that does nothing.
var idle = build(nil, []byte{opEnd})

// of returns an action with a module of these bytes.
func of(module []byte) func(testing.TB) *primitive.Action {
	return func(t testing.TB) *primitive.Action {
		a := &primitive.Action{Dir: sandboxtest.Dir(t), Own: sandboxtest.Dir(t),
			Sandbox: sandbox.Spec{Level: floor.Limits}}
		at := filepath.Join(a.Own, "_module.wasm")
		if err := os.WriteFile(at, module, 0o644); err != nil {
			t.Fatal(err)
		}
		a.Config = map[string]any{"module": at, "timeout": int64(300)}
		return a
	}
}

// echoes returns an action that gives back what it reads.
func echoes(t testing.TB, text string) *primitive.Action {
	a := of(echo)(t)
	a.Config["input_data"] = text
	return a
}

func wrong() map[string]func(testing.TB) *primitive.Action {
	return map[string]func(testing.TB) *primitive.Action{
		"no module": with("module", nil),
		"a module that isn't there": func(t testing.TB) *primitive.Action {
			a := of(idle)(t)
			a.Config["module"] = filepath.Join(a.Own, "none")
			return a
		},
		"a module of somewhere": func(t testing.TB) *primitive.Action {
			a := of(idle)(t)
			a.Own = sandboxtest.Dir(t)
			return a
		},
		"a module beside": func(t testing.TB) *primitive.Action {
			a := of(idle)(t)
			a.Own = a.Own[:len(a.Own)-1]
			return a
		},
		"a directory": func(t testing.TB) *primitive.Action {
			a := of(idle)(t)
			a.Config["module"] = a.Own
			return a
		},
		"a module by a part of path": with("module", "_module.wasm"),
		"nothing":                    of(nil),
		"no module at all":           of([]byte("#!/bin/sh\necho x\n")),
		"half of one": func(t testing.TB) *primitive.Action {
			b, err := os.ReadFile(theGuest(t))
			if err != nil {
				t.Fatal(err)
			}
			return of(b[:len(b)/2])(t)
		},
		"a module without _start":      of(build(nil, nil)),
		"a module with another import": of(build([]string{"env"}, []byte{opEnd})),
		"a module with another WASI":   of(build([]string{"wasi_unstable"}, []byte{opEnd})),
		"a module that wants 4 GiB": func(t testing.TB) *primitive.Action {
			a := of(build(nil, []byte{opEnd}, 1<<16))(t)
			a.Sandbox.Limits.Memory = 64 << 20
			return a
		},
		"an argument with a NUL":        with("args", []any{"a\x00b"}),
		"an argument that is no text":   with("args", []any{int64(1)}),
		"no name of a variable":         with("env", map[string]any{"A=B": "x"}),
		"an empty name of a variable":   with("env", map[string]any{"": "x"}),
		"a variable with a NUL":         with("env", map[string]any{"A": "\x00"}),
		"a variable that is no text":    with("env", map[string]any{"A": int64(1)}),
		"a root that is no whole path":  with("root", "somewhere"),
		"a root that isn't a clean one": with("root", "/tmp/../tmp"),
		"too many arguments": func(t testing.TB) *primitive.Action {
			return with("args", []any{strings.Repeat("x", worker.MaxRequest)})(t)
		},
	}
}

// tries are attempts that the view denies, and the sandbox too, if the machine has one.
func tries() map[string]primitivetest.Try {
	return map[string]primitivetest.Try{
		"write a file": func(t testing.TB, granted bool) (*primitive.Action, func() bool) {
			dir := sandboxtest.Dir(t)
			a := action(t, "", "write", "/out/file", "x")
			put(t, dir, map[string]string{"out/": ""})
			a.Config["root"], a.Sandbox.Read = dir, []string{filepath.Join(dir, "out")}
			if granted {
				a.Sandbox.Read, a.Sandbox.Write = nil, a.Sandbox.Read
			}
			return a, func() bool { return there(filepath.Join(dir, "out", "file")) }
		},
		"read a file": func(t testing.TB, granted bool) (*primitive.Action, func() bool) {
			dir := sandboxtest.Dir(t)
			put(t, dir, map[string]string{"out/": "", "secret": "secret"})
			a := action(t, "", "copy", "secret", "out/copy")
			a.Config["root"], a.Sandbox.Write = dir, []string{filepath.Join(dir, "out")}
			if granted {
				a.Sandbox.Read = []string{filepath.Join(dir, "secret")}
			}
			return a, func() bool {
				b, _ := os.ReadFile(filepath.Join(dir, "out", "copy"))
				return string(b) == "secret"
			}
		},
	}
}

// TestGiven: a module gets its arguments, variables and input, and nothing else.
func TestGiven(t *testing.T) {
	a := action(t, "", "args", "", "-", "a b\n", "$(id)", "{x}", "ünï", strings.Repeat("x", 1<<20))
	if r := run(t, a, nil); r.Failed || !reflect.DeepEqual(r.Value, a.Config["args"].([]any)[1:]) {
		t.Errorf("%.200v %q", r.Value, r.Failure)
	}
	a = action(t, "", "env")
	a.Env = []string{"HOME=/root", "PATH=/bin", "SECRET=x"}
	if r := run(t, a, nil); !reflect.DeepEqual(r.Value, []any{}) {
		t.Errorf("it has the variables %v by default", r.Value)
	}
	a.Config["env"] = map[string]any{"B": "2=3", "A": ""}
	if r := run(t, a, nil); !reflect.DeepEqual(r.Value, []any{"A=", "B=2=3"}) {
		t.Errorf("variables: %v", r.Value)
	}
	r := run(t, action(t, "", "echo"), nil)
	if out, _, code := said(r); out != "" || code != 0 || r.Failed {
		t.Errorf("standard input isn't empty: %+v", r)
	}
	if !strings.Contains(strings.Join(r.Enforced, " "), "wasm") || r.Usage["wall_ms"] == 0 {
		t.Errorf("enforced %q, usage %v", r.Enforced, r.Usage)
	}
}

// TestEnds: the status is the module's, and a trap is a failure that names it.
func TestEnds(t *testing.T) {
	for status, failed := range map[string]bool{"0": false, "1": true, "255": true, "70000": true} {
		r := run(t, action(t, "", "say", "out", "because\n", status), nil)
		out, errs, _ := said(r)
		if r.Failed != failed || fmt.Sprint(r.Exit) != status || out != "out" || errs != "because\n" || failed &&
			r.Failure != "because" || r.Ended != "" {
			t.Errorf("status %s: %+v", status, r)
		}
	}
	r := run(t, action(t, "", "panic"), nil)
	if !r.Failed || r.Exit != 2 || !strings.Contains(r.Failure, "panic: over") {
		t.Errorf("panic: %+v", r)
	}
	r = run(t, of(build(nil, []byte{0x00, opEnd}))(t), nil)
	if !r.Failed || r.Exit != -1 || !strings.Contains(r.Failure, "unreachable") || r.Ended != "" {
		t.Errorf("trap: %+v", r)
	}
	if r = run(t, of(build(nil, []byte{opEnd}))(t), nil); r.Failed || r.Exit != 0 {
		t.Errorf("nothing: %+v", r)
	}
}

// TestPure: a pure tool has neither clock nor randomness.
func TestPure(t *testing.T) {
	do := func(pure bool, what string) any {
		a := action(t, "", what)
		a.Pure = pure
		r := run(t, a, nil)
		if r.Failed {
			t.Fatalf("%s: %+v", what, r)
		}
		return r.Value
	}
	if x, y := do(true, "time"), do(true, "time"); !reflect.DeepEqual(x, y) || x.([]any)[1] != true ||
		number(x.([]any)[0]) > 1000 {
		t.Errorf("time: %v, then %v", x, y)
	}
	if x, y := do(true, "random"), do(true, "random"); !reflect.DeepEqual(x, y) {
		t.Errorf("chance: %v, then %v", x, y)
	}
	if x, y := do(false, "random"), do(false, "random"); reflect.DeepEqual(x, y) {
		t.Errorf("chance: %v twice", x)
	}
	if got := time.UnixMilli(int64(number(do(false, "now")))); time.Since(got).Abs() > time.Hour {
		t.Errorf("the clock says %s", got)
	}
}

func number(v any) float64 {
	if n, ok := v.(int64); ok {
		return float64(n)
	}
	n, _ := v.(float64)
	return n
}

// TestLimits: each limit ends the module or refuses what it asks for.
func TestLimits(t *testing.T) {
	a := action(t, "", "spin")
	a.Sandbox.Limits.Wall = 2 * time.Second
	if r := run(t, a, nil); r.Ended != "timeout" || !r.Failed {
		t.Errorf("spin: %+v", r)
	}
	a = action(t, "", "flood")
	a.Sandbox.Limits.Output = 100_000
	if r := run(t, a, nil); r.Ended != "output" || r.Usage["stdout_bytes"] < 100_000 {
		t.Errorf("flood: %q %q %v", r.Ended, r.Failure, r.Usage)
	}
	a = action(t, "", "dribble", "5000")
	a.Sandbox.Limits.Output = 5000
	if r := run(t, a, nil); r.Failed || r.Usage["stdout_bytes"] != 5000 {
		t.Errorf("5,000 single bytes where 5,000 are allowed: %q %v", r.Ended, r.Usage)
	}
	a = action(t, "", "grab", "200")
	a.Sandbox.Limits.Memory = 100 << 20
	r := run(t, a, nil)
	if _, errs, _ := said(r); r.Exit != 2 || !strings.Contains(errs, "out of memory") {
		t.Errorf("200 MiB of 100: exit %d, ended %q, %.200s", r.Exit, r.Ended, errs)
	}
	a = action(t, "", "grab", "300")
	a.Sandbox.Limits.Memory = 400 << 20
	if r := run(t, a, nil); r.Failed || r.Usage["max_rss"] > 400<<20+Overhead {
		t.Errorf("300 MiB of 400: %+v", r)
	}
	a = action(t, "", "spin")
	a.Sandbox.Limits.CPU = time.Second
	if r := run(t, a, nil); sandboxtest.Machine(t).Offers().Best >= floor.Landlock && r.Ended != "cpu" {
		t.Errorf("spin for a second: %+v", r)
	}
}

// TestCache: a module is compiled once, by a guest of its own; without a cache by the guest that runs it.
func TestCache(t *testing.T) {
	w := subject(t)
	w.Cache = filepath.Join(sandboxtest.Dir(t), "cache")
	a := of(build(nil, []byte{opEnd}))(t)
	kept := func() (list []string) {
		entries, _ := os.ReadDir(w.Cache)
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}
	for range 2 {
		if r, err := w.Run(t.Context(), a, nil); err != nil || r.Failed {
			t.Fatalf("%+v, %v", r, err)
		}
		if list := kept(); len(list) != 1 || len(list[0]) != 64 || osfile.BytesIn(w.Cache) == 0 {
			t.Errorf("kept: %q", list)
		}
	}
	// What is damaged isn't used.
	filepath.WalkDir(w.Cache, func(at string, d os.DirEntry, err error) error {
		if d.Type().IsRegular() {
			b, _ := os.ReadFile(at)
			b[len(b)/2] ^= 1
			err = os.WriteFile(at, b[:len(b)-1], 0o600)
		}
		return err
	})
	if r, err := w.Run(t.Context(), a, nil); err != nil || r.Failed {
		t.Errorf("with a damaged cache: %+v, %v", r, err)
	}
	// What is too much goes, what was left half made goes after a day.
	old := filepath.Join(w.Cache, "x.new")
	put(t, w.Cache, map[string]string{"x.new/half": "x", "y.new/half": "x"})
	if err := os.Chtimes(old, time.Now(), time.Now().Add(-48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	w.forget(1)
	if list := kept(); len(list) != 1 || list[0] != "y.new" {
		t.Errorf("left: %q", list)
	}
	// Without a place for it.
	put(t, w.Cache, map[string]string{"file": "x"})
	for _, dir := range []string{"", filepath.Join(w.Cache, "file")} {
		w.Cache = dir
		if r, err := w.Run(t.Context(), a, nil); err != nil || r.Failed {
			t.Errorf("kept in %q: %+v, %v", dir, r, err)
		}
	}
	// What is compiled for too long is ended as what runs for too long.
	w.Cache = filepath.Join(sandboxtest.Dir(t), "another")
	b := action(t, "", "args")
	b.Sandbox.Limits.Wall = 200 * time.Millisecond
	if r, err := w.Run(t.Context(), b, nil); err != nil || r.Ended != "timeout" || len(kept()) > 0 {
		t.Errorf("%+v, %v, kept %q", r, err, kept())
	}
}

// TestGuest: a guest answers every plan, valid or not.
func TestGuest(t *testing.T) {
	for name, c := range map[string]struct {
		a    *primitive.Action
		kind byte
		text string
	}{
		"status":   {action(t, "", "say", "", "", "7"), worker.Exit, "\x00\x00\x00\x07"},
		"trap":     {of(build(nil, []byte{0x00, opEnd}))(t), worker.Trap, "unreachable"},
		"nothing":  {of(nil)(t), worker.Refused, "magic"},
		"ends":     {of(build(nil, []byte{opEnd}))(t), worker.Exit, "\x00\x00\x00\x00"},
		"no start": {of(build(nil, nil))(t), worker.Refused, "no function _start"},
		"import":   {of(build([]string{"env"}, []byte{opEnd}))(t), worker.Refused, `imports "f" from "env"`},
		"pure": {func() *primitive.Action {
			a := action(t, "", "time")
			a.Pure = true
			return a
		}(), worker.Exit, ""},
		"panic": {action(t, "", "panic"), worker.Exit, "\x00\x00\x00\x02"},
	} {
		c.a.Config["env"] = map[string]any{"A": "x"}
		p, _, err := planOf(c.a)
		if err != nil {
			t.Fatal(err)
		}
		if name == "status" || name == "pure" || name == "panic" {
			if _, err := subject(t).compiled(t.Context(), confine(c.a, p), p, func() {}); err != nil {
				t.Fatal(err)
			}
		} else {
			p.Cache = filepath.Join(theGuest(t), "none") // a missing cache is no reason not to run
		}
		if status, kind, text := answerTo(t, p); status != 0 || kind != c.kind || !strings.Contains(text, c.text) {
			t.Errorf("%s: status %d, %c %q", name, status, kind, text)
		}
		if name == "nothing" {
			p.Make, p.Cache = true, sandboxtest.Dir(t)
			if status, kind, text := answerTo(t, p); status != 0 || kind != worker.Refused {
				t.Errorf("status %d, %c %q", status, kind, text)
			}
		}
	}
	for _, plan := range []string{"", "\x00\x00\x00\x02{", "\xff\xff\xff\xff{}", "\x00\x00\x00\x02[]",
		"\x00\x00\x00\x02{}"} {
		out := new(bytes.Buffer)
		if Guest(strings.NewReader(plan), out) != 0 || out.Len() == 0 || out.Bytes()[0] != worker.Refused {
			t.Errorf("plan %q: %q", plan, out)
		}
	}
	if status := Guest(strings.NewReader(""), broken{}); status != 1 {
		t.Errorf("a closed pipe: status %d", status)
	}
}

// answerTo runs a plan in this process and returns the last frame.
func answerTo(t *testing.T, p *plan) (status int, kind byte, text string) {
	status, frames := answers(t, p, "")
	last := frames[len(frames)-1]
	return status, last[0], last[1:]
}

// answers runs a plan in this process and returns the frames, each as its kind and text.
func answers(t testing.TB, p *plan, input string) (status int, frames []string) {
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	head := append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	status = Guest(io.MultiReader(bytes.NewReader(head), strings.NewReader(input)), &out)
	for rest := out.Bytes(); len(rest) > 0; {
		n := 5 + binary.BigEndian.Uint32(rest[1:])
		frames, rest = append(frames, string(rest[:1])+string(rest[5:n])), rest[n:]
	}
	return status, frames
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, os.ErrClosed }

// TestBroken: a guest that breaks is a failure with its last words.
func TestBroken(t *testing.T) {
	for complaint, ended := range map[string]string{"fatal error: out of memory": "memory",
		"fatal error: it is broken": ""} {
		w := &Wasm{Machine: sandboxtest.Machine(t), Self: []string{sandboxtest.Self(t), brokenWord, complaint, ""}}
		r, err := w.Run(t.Context(), of(build(nil, []byte{opEnd}))(t), nil)
		if err != nil || !r.Failed || r.Ended != ended || ended == "" &&
			r.Failure != "the guest ended without an answer: "+complaint {
			t.Errorf("%s: %+v, %v", complaint, r, err)
		}
	}
	w := &Wasm{Machine: sandboxtest.Machine(t), Self: []string{sandboxtest.Self(t), brokenWord, "", "no frame"}}
	if r, err := w.Run(t.Context(), of(build(nil, []byte{opEnd}))(t), nil); err != nil || !r.Failed ||
		r.Failure != "the guest sent an invalid frame" {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestEngine: keys name the engine that is built in.
func TestEngine(t *testing.T) {
	b, err := os.ReadFile("../../../go.mod")
	if name, version, _ := strings.Cut(engine, "/"); err != nil ||
		!strings.Contains(string(b), "/"+name+" "+version+"\n") {
		t.Errorf("go.mod doesn't name %s (%v)", engine, err)
	}
}

// TestUnavailable: without the sandbox or a guest nothing runs.
func TestUnavailable(t *testing.T) {
	a := action(t, "", "args")
	for _, w := range []*Wasm{{Machine: sandbox.New(sandbox.Options{}), Self: []string{"/x"}},
		{Machine: sandboxtest.Machine(t)}} {
		if r, err := w.Run(t.Context(), a, nil); err == nil ||
			!strings.Contains(err.Error(), "can't enforce the sandbox level") {
			t.Errorf("%+v, %v", r, err)
		}
	}
}
