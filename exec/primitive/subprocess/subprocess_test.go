package subprocess_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/answer"
	"github.com/rye-build/rye/exec/primitive/primitivetest"
	"github.com/rye-build/rye/exec/primitive/subprocess"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/policy/floor"
)

func TestPrimitive(t *testing.T) {
	m := sandboxtest.Machine(t)
	primitivetest.Test(t, primitivetest.Subject{
		Primitive: &subprocess.Subprocess{Machine: m},
		Value: func(t testing.TB, v any) *primitive.Action {
			text, err := jcs.Append(nil, v)
			if err != nil {
				t.Fatal(err)
			}
			return action(t, string(text), "echo")
		},
		Fails: func(t testing.TB, reason string) *primitive.Action {
			text, err := json.Marshal(map[string]any{"success": false, "error": reason})
			if err != nil {
				t.Fatal(err)
			}
			return action(t, string(text), "echo")
		},
		Stream: func(t testing.TB, n int) (*primitive.Action, []byte) {
			return action(t, "", "print", fmt.Sprint(n)), pattern(n)
		},
		Forever: func(t testing.TB) primitivetest.Endless {
			dir := sandboxtest.Dir(t)
			a := action(t, "", "forever", filepath.Join(dir, "begun"))
			a.Sandbox.Write = []string{dir}
			return primitivetest.Endless{
				Action: a,
				Begun:  func() bool { return there(filepath.Join(dir, "begun")) },
				Left:   func() []string { return alive(t) },
			}
		},
		Wrong: wrong(),
		Tries: tries(m),
	})
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// with returns an action with another value in its configuration.
func with(name string, v any) func(testing.TB) *primitive.Action {
	return func(t testing.TB) *primitive.Action {
		a := action(t, "", "args")
		a.Config[name] = v
		return a
	}
}

func wrong() map[string]func(testing.TB) *primitive.Action {
	args := func(last any) func(testing.TB) *primitive.Action { return with("args", []any{childWord, "args", last}) }
	return map[string]func(testing.TB) *primitive.Action{
		"a program that wasn't looked for":  with("command", "another"),
		"a program that is no text":         with("command", int64(1)),
		"an argument with a NUL":            args("a\x00b"),
		"an argument of 2 MiB":              args(strings.Repeat("x", 2<<20)),
		"an argument that is no text":       args(int64(1)),
		"a variable that loads code":        with("env", map[string]any{"LD_PRELOAD": "/x.so"}),
		"a variable that is rye's":          with("env", map[string]any{"RYE_KEY": "x"}),
		"the private directory":             with("env", map[string]any{"HOME": "/root"}),
		"PATH":                              with("env", map[string]any{"PATH": "/tmp"}),
		"no name of a variable":             with("env", map[string]any{"A=B": "x"}),
		"a variable with a NUL":             with("env", map[string]any{"A": "\x00"}),
		"a variable that is no text":        with("env", map[string]any{"A": int64(1)}),
		"a directory that isn't there":      with("cwd", filepath.Join(os.TempDir(), "rye-none", "none")),
		"a directory that is no whole path": with("cwd", "somewhere"),
		"a program that isn't there": func(t testing.TB) *primitive.Action {
			a := action(t, "", "args")
			a.Programs["program"] = primitive.Program{Path: filepath.Join(a.Dir, "none")}
			return a
		},
		"all arguments together": func(t testing.TB) *primitive.Action {
			list := []any{childWord, "args"}
			for range 40 {
				list = append(list, strings.Repeat("x", 100<<10))
			}
			return with("args", list)(t)
		},
	}
}

// tries are those that a machine can keep a program from.
func tries(m *sandbox.Machine) map[string]primitivetest.Try {
	if m.Offers().Best < floor.Landlock {
		return nil
	}
	confined := func(a *primitive.Action) *primitive.Action {
		a.Sandbox.Level = floor.Landlock
		return a
	}
	return map[string]primitivetest.Try{
		"write a file": func(t testing.TB, granted bool) (*primitive.Action, func() bool) {
			path := filepath.Join(sandboxtest.Dir(t), "file")
			a := confined(action(t, "", "write", path))
			if granted {
				a.Sandbox.Write = []string{filepath.Dir(path)}
			}
			return a, func() bool { return there(path) }
		},
		"read a file": func(t testing.TB, granted bool) (*primitive.Action, func() bool) {
			from, to := filepath.Join(sandboxtest.Dir(t), "secret"), filepath.Join(sandboxtest.Dir(t), "copy")
			if err := os.WriteFile(from, []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
			a := confined(action(t, "", "copy", from, to))
			a.Sandbox.Write = []string{filepath.Dir(to)}
			if granted {
				a.Sandbox.Read = []string{from}
			}
			return a, func() bool {
				b, _ := os.ReadFile(to)
				return string(b) == "secret"
			}
		},
		"reach a server": func(t testing.TB, granted bool) (*primitive.Action, func() bool) {
			address, reached := sandboxtest.Listen(t)
			a := confined(action(t, "", "dial", "tcp", address))
			a.Sandbox.Network.All = granted
			return a, reached
		},
	}
}

// What comes out is what the program says, by the rules of the package.
func TestRead(t *testing.T) {
	type want struct {
		value   any // in Go's encoding of JSON
		failure string
		failed  bool
	}
	text := func(out, err string, code int) any {
		return map[string]any{"stdout": out, "stderr": err, "return_code": code}
	}
	for name, c := range map[string]struct {
		script
		want
	}{
		"object": {script{Out: []byte(`{"a": [1, 2.5, null]}`)},
			want{value: map[string]any{"a": []any{1, 2.5, nil}}}},
		"array":   {script{Out: []byte(`[]`)}, want{value: []any{}}},
		"number":  {script{Out: []byte("42\n")}, want{value: 42}},
		"string":  {script{Out: []byte(`"x"`)}, want{value: "x"}},
		"true":    {script{Out: []byte(` true `)}, want{value: true}},
		"null":    {script{Out: []byte(`null`)}, want{value: nil}},
		"nothing": {script{}, want{value: text("", "", 0)}},
		"spaces":  {script{Out: []byte(" \n")}, want{value: text(" \n", "", 0)}},
		"text": {script{Out: []byte("hello\n"), Err: []byte("and\n")},
			want{value: text("hello\n", "and\n", 0)}},
		"two values":     {script{Out: []byte("{}\n{}\n")}, want{value: text("{}\n{}\n", "", 0)}},
		"a member twice": {script{Out: []byte(`{"a":1,"a":2}`)}, want{value: text(`{"a":1,"a":2}`, "", 0)}},
		"no UTF-8": {script{Out: []byte("a\xffb"), Err: []byte("\xc3")},
			want{value: text("a\ufffdb", "\ufffd", 0)}},
		"no UTF-8 in JSON":  {script{Out: []byte("\"a\xff\"")}, want{value: text("\"a\ufffd\"", "", 0)}},
		"a lone surrogate":  {script{Out: []byte(`"\ud800"`)}, want{value: text(`"\ud800"`, "", 0)}},
		"a byte order mark": {script{Out: []byte("\ufeff{}")}, want{value: text("\ufeff{}", "", 0)}},
		"too deep": {script{Out: []byte(strings.Repeat("[", 100_000))},
			want{value: text(strings.Repeat("[", 100_000), "", 0)}},
		"a terminal's": {script{Out: []byte("\x1b[2Jpermission granted\n")},
			want{value: text("\x1b[2Jpermission granted\n", "", 0)}},

		"a status": {script{Err: []byte("  no such thing \n"), Exit: 3},
			want{value: text("", "  no such thing \n", 3), failed: true, failure: "no such thing"}},
		"a status with a value": {script{Out: []byte(`[1]`), Exit: 255}, want{value: []any{1}, failed: true}},
		"a status and success: true": {script{Out: []byte(`{"success":true}`), Exit: 1},
			want{value: map[string]any{"success": true}, failed: true}},
		"success: false": {script{Out: []byte(`{"success":false}`)},
			want{value: map[string]any{"success": false}, failed: true}},
		"success: false and stderr": {script{Out: []byte(`{"success":false}`), Err: []byte("why\n")},
			want{value: map[string]any{"success": false}, failed: true, failure: "why"}},
		"success: 0": {script{Out: []byte(`{"success":0}`)}, want{value: map[string]any{"success": 0}}},
		"error as a text": {script{Out: []byte(`{"success":false,"error":" why ","stderr":"not this"}`),
			Err: []byte("nor this")},
			want{value: map[string]any{"success": false, "error": " why ", "stderr": "not this"}, failed: true,
				failure: "why"}},
		"error as an object": {script{Out: []byte(`{"success":false,"error":{"message":"why"}}`)},
			want{value: map[string]any{"success": false, "error": map[string]any{"message": "why"}}, failed: true,
				failure: "why"}},
		"error as a number": {script{Out: []byte(`{"success":false,"error":7,"stderr":"why"}`)},
			want{value: map[string]any{"success": false, "error": 7, "stderr": "why"}, failed: true, failure: "why"}},
		"error without success": {script{Out: []byte(`{"error":"why"}`)}, want{value: map[string]any{"error": "why"}}},
		"a long reason": {script{Out: fmt.Appendf(nil, `{"success":false,"error":"%s"}`, strings.Repeat("é", 1500))},
			want{value: map[string]any{"success": false, "error": strings.Repeat("é", 1500)}, failed: true,
				failure: strings.Repeat("é", 1000) + "…"}},
		"a long complaint": {script{Err: []byte(strings.Repeat("y", 1_000) + strings.Repeat("z", 2_000)), Exit: 1},
			want{value: text("", strings.Repeat("y", 1_000)+strings.Repeat("z", 2_000), 1), failed: true,
				failure: strings.Repeat("z", 2_000)}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			r := run(t, saying(t, c.script), nil)
			if r.Failed != c.failed || r.Failure != c.failure || r.Exit != c.Exit || r.Signal != "" || r.Ended != "" {
				t.Errorf("failed %v (%q), exit %d, signal %q, ended %q; want %+v", r.Failed, r.Failure, r.Exit,
					r.Signal, r.Ended, c.want)
			}
			got, errGot := jcs.Append(nil, r.Value)
			wanted, errWant := jcs.Append(nil, plain(c.value))
			if errGot != nil || errWant != nil || !bytes.Equal(got, wanted) {
				t.Errorf("the value is\n%.500s (%v); want\n%.500s (%v)", got, errGot, wanted, errWant)
			}
		})
	}
}

// plain makes JSON's values of Go's.
func plain(v any) any {
	switch v := v.(type) {
	case int:
		return int64(v)
	case map[string]any:
		m := map[string]any{}
		for name, e := range v {
			m[name] = plain(e)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = plain(e)
		}
		return list
	}
	return v
}

// A counter counts output.
type counter struct {
	bytes [2]int64
}

func (c *counter) Emit(s primitive.Stream, b []byte) error {
	c.bytes[s] += int64(len(b))
	return nil
}

// A program that writes 1 GiB is heard to its end if it may, and little of it is kept.
func TestMuch(t *testing.T) {
	a := saying(t, script{Out: bytes.Repeat([]byte("0123456789abcde\n"), 1<<16), Err: []byte("."), Times: 1 << 10})
	a.Sandbox.Limits.Output = 2 << 30
	to := new(counter)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := run(t, a, to)
	runtime.ReadMemStats(&after)
	value, _ := r.Value.(map[string]any)
	out, _ := value["stdout"].(string)
	if r.Failed || to.bytes != [2]int64{1 << 30, 1 << 10} || len(out) != answer.MaxText ||
		!reflect.DeepEqual(value["truncated"], []any{"stdout"}) {
		t.Errorf("failed %v, ended %q, the sink got %d bytes, %d are kept, truncated: %v", r.Failed, r.Ended, to.bytes,
			len(out), value["truncated"])
	}
	if made := after.TotalAlloc - before.TotalAlloc; made > 128<<20 {
		t.Errorf("%d bytes were allocated", made)
	}
}

// Without being allowed to it is stopped, and what it said until then is there.
func TestTooMuch(t *testing.T) {
	to := new(counter)
	r := run(t, saying(t, script{Out: bytes.Repeat([]byte("x"), 1<<20), Err: bytes.Repeat([]byte("y"), 2<<20),
		Times: 1 << 20}), to)
	value, _ := r.Value.(map[string]any)
	if most := sandbox.DefaultLimits().Output; r.Ended != "output" || !r.Failed || to.bytes[0]+to.bytes[1] > most ||
		r.Usage["stdout_bytes"] == 0 {
		t.Errorf("ended %q, failed %v, %d bytes of %d, usage %v", r.Ended, r.Failed, to.bytes, most, r.Usage)
	}
	if !reflect.DeepEqual(value["truncated"], []any{"stdout", "stderr"}) {
		t.Errorf("truncated: %v", value["truncated"])
	}
}

// A value that is larger than MaxValue is a text.
func TestLargeValue(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	for extra, want := range map[int]string{0: "string", 1: "map[string]interface {}"} {
		a := saying(t, script{Out: []byte(`"` + strings.Repeat("v", answer.MaxValue-2+extra) + `"`)})
		a.Sandbox.Limits.Output = 1 << 30
		if r := run(t, a, nil); fmt.Sprintf("%T", r.Value) != want || r.Failed {
			t.Errorf("%d bytes more than MaxValue: a %T; want %s", extra, r.Value, want)
		}
	}
}

func TestSignal(t *testing.T) {
	r := run(t, saying(t, script{Out: []byte("{}"), Kill: 9}), nil)
	if windows := runtime.GOOS == "windows"; !r.Failed || !windows && (r.Signal != "SIGKILL" || r.Exit != -1) ||
		r.Ended != "" {
		t.Errorf("%+v", r)
	}
}

// Arguments arrive as they are, whatever they look like.
func TestArguments(t *testing.T) {
	args := []any{"", "-", "--", "-c", "--params=x", " a  b ", "a\nb\r\n", "$(id)", "`id`", "; rm -rf /", "| cat",
		"&& x", "${HOME}", "{tool_path}", "%s%n", `"`, `'`, `\`,
		"*", "~", "!!", "\x1b[0m", "\x7f", "\xff\xfe", "ünï", strings.Repeat("x", proc.MaxArgument)}
	a := action(t, "", "args")
	a.Config["args"] = append([]any{childWord, "args"}, args...)
	r := run(t, a, nil)
	want := slices.Clone(args)
	for i, w := range want {
		want[i] = strings.ToValidUTF8(w.(string), "\ufffd\ufffd") // what encoding/json makes of two such bytes
	}
	if !reflect.DeepEqual(r.Value, want) {
		t.Errorf("the program got %.300q", r.Value)
	}
}

// A directory and standard input: what they are without being said, and with.
func TestSurroundings(t *testing.T) {
	a := action(t, "", "env")
	a.Env = []string{"A=1", "B=2", mark(t)}
	check := func(dir string, env ...any) {
		t.Helper()
		if r := run(t, a, nil); !reflect.DeepEqual(r.Value, map[string]any{"dir": dir, "env": env}) {
			t.Errorf("%v (%q); want %s, %q", r.Value, r.Failure, dir, env)
		}
	}
	check(a.Dir, "A=1", "B=2")
	other := sandboxtest.Dir(t)
	a.Config["cwd"], a.Config["env"] = other, map[string]any{"B": "x=y\n", "C": ""}
	a.Sandbox.Read = []string{other}
	check(other, "A=1", "B=x=y\n", "C=")
	a.Config["cwd"] = ""
	check(a.Dir, "A=1", "B=x=y\n", "C=")
	if r := run(t, action(t, "", "echo"), nil); r.Failed || r.Value.(map[string]any)["stdout"] != "" {
		t.Errorf("standard input isn't empty: %+v", r)
	}
}

// Parameters are variables: scalars by their names, what env says before them, and everything else not at all.
func TestParams(t *testing.T) {
	a := action(t, "", "env")
	a.Env = []string{mark(t), "PARAM_NAME=from the chain"}
	a.Config["env"] = map[string]any{"PARAM_SET": "by env"}
	a.Config["params"] =
		`{"name":"$(id) \"x\"","max-size":1.50,"é":true,"set":"no","list":[1],"none":null,"in":{"a":1}}`
	want := []any{"PARAM_MAX_SIZE=1.50", `PARAM_NAME=$(id) "x"`, "PARAM_SET=by env", "PARAM__=true"}
	if r := run(t, a, nil); !reflect.DeepEqual(r.Value, map[string]any{"dir": a.Dir, "env": want}) {
		t.Errorf("%v (%q)", r.Value, r.Failure)
	}
	for params, want := range map[string]string{
		`{"a-b":1,"a.b":2}`: `the parameters "a-b" and "a.b" share the variable PARAM_A_B`,
		`{"a":"x\u0000y"}`:  "PARAM_A",
		`[1]`:               "config.params must be a JSON object",
		`{"a":"` + strings.Repeat("x", 128<<10) + `"}`: "has more than",
	} {
		a := action(t, "", "env")
		a.Config["params"] = params
		_, err := (&subprocess.Subprocess{Machine: sandboxtest.Machine(t)}).Run(t.Context(), a, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v", params, err)
		}
	}
}

// A shorter timeout counts.
func TestTimeout(t *testing.T) {
	dir := sandboxtest.Dir(t)
	for name, c := range map[string]struct {
		timeout any
		wall    time.Duration
	}{"config": {0.2, 0}, "config is less": {0.2, time.Hour}, "limit": {nil, 200 * time.Millisecond},
		"limit is less": {int64(3600), 200 * time.Millisecond},
		"endless":       {1e300, 200 * time.Millisecond}, "almost nothing": {1e-12, 0}} {
		a := action(t, "", "forever", filepath.Join(dir, "begun"))
		a.Sandbox.Write, a.Sandbox.Limits.Wall, a.Config["timeout"] = []string{dir}, c.wall, c.timeout
		if r := run(t, a, nil); r.Ended != "timeout" || !r.Failed {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Errors say what is wrong, and with what.
func TestErrors(t *testing.T) {
	p := &subprocess.Subprocess{Machine: sandboxtest.Machine(t)}
	_, err := p.Run(t.Context(), with("env", map[string]any{"LD_PRELOAD": "/x.so"})(t), nil)
	if err == nil || !strings.Contains(err.Error(), `the variable "LD_PRELOAD" can't be set`) {
		t.Error(err)
	}
	_, err = p.Run(t.Context(), with("args", []any{"a\x00"})(t), nil)
	if e := fault.Of(err); e.Code != fault.Validation || e.Details["argument"] != "argument 1" {
		t.Error(err)
	}
	a := action(t, "", "args")
	a.Sandbox.Level = floor.Landlock
	_, err = (&subprocess.Subprocess{Machine: sandbox.New(sandbox.Options{})}).Run(t.Context(), a, nil)
	if _, ok := errors.AsType[*sandbox.UnavailableError](err); !ok {
		t.Error(err)
	}
	if got := p.Starts(map[string]any{"command": "x"}); !slices.Equal(got, []string{"x"}) {
		t.Errorf("it starts %q", got)
	}
}

// A program that is pinned is what was opened, whatever stands at its path by then.
func TestPinned(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // where there is no way to start an open file, its path is started
	}
	path := filepath.Join(sandboxtest.Dir(t), "program")
	b, err := os.ReadFile(sandboxtest.Self(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(os.Rename(path, path+".old"),
		os.WriteFile(path, []byte("#!/bin/sh\necho another\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	a := action(t, "", "args", "x")
	a.Programs["program"] = primitive.Program{Path: path, File: f}
	if r := run(t, a, nil); r.Failed || !reflect.DeepEqual(r.Value, []any{"x"}) {
		t.Errorf("%+v", r)
	}
}

// TestWithin: a directory that a caller chooses lies in the one that was meant, whatever links say.
func TestWithin(t *testing.T) {
	dir := sandboxtest.Dir(t)
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &subprocess.Subprocess{Machine: sandboxtest.Machine(t)}
	run := func(cwd any, within string) (*primitive.Result, error) {
		a := action(t, "", "env")
		a.Sandbox.Read = append(a.Sandbox.Read, dir)
		a.Config["within"] = within
		if cwd != nil {
			a.Config["cwd"] = cwd
		}
		return s.Run(t.Context(), a, nil)
	}
	for _, cwd := range []any{nil, "", ".", "in", "in/..", dir, filepath.Join(dir, "in")} {
		want := dir
		if text, ok := cwd.(string); ok && filepath.Base(text) == "in" {
			want = filepath.Join(dir, "in")
		}
		r, err := run(cwd, dir)
		if err != nil || r.Failed || r.Value.(map[string]any)["dir"] != want {
			t.Errorf("%v: %+v, %v; want %s", cwd, r, err, want)
		}
	}
	// Paths outside give one error whether they exist or not; missing ones inside are reported.
	outside := []string{"..", "../none", "in/../..", "in/../../none"}
	missing := []string{"none", "in/none", "file", "file/none"}
	if runtime.GOOS != "windows" {
		for link, to := range map[string]string{
			"out": "..", "gone": "../none", "away": filepath.Dir(dir), "lost": filepath.Join(dir, "../none"),
			"in/up": "../..", "in/broken": "none", "deep": "in/sub", "sub": "..",
		} {
			if err := os.Symlink(to, filepath.Join(dir, filepath.FromSlash(link))); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(filepath.Join(dir, "in", "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		// deep/../sub is in/sub for the system, and sub for who reads it.
		outside = append(outside, "out", "out/none", "gone", "gone/none", "away", "away/none", "lost", "in/up",
			"in/up/none", "deep/../sub")
		missing = append(missing, "in/broken", "a\x00")
	}
	check := func(within, cwd, want string) {
		t.Helper()
		_, err := run(cwd, within)
		code, text := fault.Files, fmt.Sprintf("directory %q not found", cwd)
		if want != "" {
			code, text = fault.Denied, fmt.Sprintf("the directory %q is not in %q", cwd, want)
		}
		if e := fault.Of(err); e.Code != code || e.Text != text || e.Details["path"] != cwd {
			t.Errorf("%q in %q: %v", cwd, within, err)
		}
	}
	for want, all := range map[string][]string{dir: outside, "": missing} {
		for _, cwd := range all {
			check(dir, cwd, want)
			check(dir, dir+string(filepath.Separator)+cwd, want)
		}
	}
	check(dir, filepath.Dir(dir), dir)
	check(dir, dir+"none", dir)
	if runtime.GOOS != "windows" {
		// The directory that was meant may be called by a link, and what is in it by either name.
		top := filepath.Join(sandboxtest.Dir(t), "top")
		if err := os.Symlink(dir, top); err != nil {
			t.Fatal(err)
		}
		for _, cwd := range []string{"in", filepath.Join(top, "in"), filepath.Join(dir, "in")} {
			if r, err := run(cwd, top); err != nil || r.Failed ||
				r.Value.(map[string]any)["dir"] != filepath.Join(dir, "in") {
				t.Errorf("%q: %+v, %v", cwd, r, err)
			}
		}
		for _, cwd := range []string{filepath.Dir(top), top + "none", filepath.Join(top, "out"),
			filepath.Join(dir, "gone"), ".."} {
			check(top, cwd, top)
		}
	}
	if _, err := run(".", filepath.Join(dir, "none")); err == nil {
		t.Error("within what isn't there")
	}
}

// TestOutputText: output that is JSON is text where the configuration says so.
func TestOutputText(t *testing.T) {
	a := action(t, `{"success": false}`, "echo")
	a.Config["output"] = "text"
	r, err := (&subprocess.Subprocess{Machine: sandboxtest.Machine(t)}).Run(t.Context(), a, nil)
	if err != nil || r.Failed || r.Value.(map[string]any)["stdout"] != `{"success": false}` {
		t.Errorf("%+v, %v", r, err)
	}
}
