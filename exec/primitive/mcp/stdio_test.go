package mcp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/mcp/mcptest"
	"github.com/rye-build/rye/exec/primitive/primitivetest"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/manifest/policy/floor"
)

func TestPrimitive(t *testing.T) {
	definitions := definitions(t)
	call := func(t testing.TB, tool string, args map[string]any) *primitive.Action {
		return calling(t, definitions[tool], tool, args)
	}
	c := client(t)
	primitivetest.Test(t, primitivetest.Subject{
		Primitive: c,
		Value: func(t testing.TB, v any) *primitive.Action {
			return call(t, "give", map[string]any{"value": v})
		},
		Extract: func(v any) any { return v.(map[string]any)["value"] },
		Fails: func(t testing.TB, reason string) *primitive.Action {
			return call(t, "fail", map[string]any{"text": reason})
		},
		Stream: func(t testing.TB, n int) (*primitive.Action, []byte) {
			return call(t, "print", map[string]any{"bytes": n}),
				[]byte(strings.TrimSuffix(mcptest.Text(n), "\n") + "\n")
		},
		Forever: func(t testing.TB) primitivetest.Endless {
			dir := sandboxtest.Dir(t)
			a := call(t, "wait", map[string]any{"path": filepath.Join(dir, "begun")})
			a.Sandbox.Write = []string{dir}
			return primitivetest.Endless{
				Action: a,
				Begun:  func() bool { return there(filepath.Join(dir, "begun")) },
				Left: func() []string {
					if c.idles() {
						return nil // what it was started with serves others
					}
					return alive(t)
				},
			}
		},
		Wrong: wrong(definitions),
		Tries: tries(t, c, definitions),
	})
}

// idles reports whether the client has connections that nothing uses.
func (c *Client) idles() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.kept {
		if k.users == 0 {
			return true
		}
	}
	return false
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func wrong(definitions map[string]string) map[string]func(testing.TB) *primitive.Action {
	with := func(name string, v any) func(testing.TB) *primitive.Action {
		return func(t testing.TB) *primitive.Action {
			a := calling(t, definitions["echo"], "echo", map[string]any{})
			a.Config[name] = v
			return a
		}
	}
	args := func(last any) func(testing.TB) *primitive.Action { return with("args", []any{serverWord, last}) }
	return map[string]func(testing.TB) *primitive.Action{
		"no transport":                      with("transport", "pigeon"),
		"a program that wasn't looked for":  with("command", "another"),
		"a program that is no text":         with("command", int64(1)),
		"an argument with a NUL":            args("a\x00b"),
		"an argument that is no text":       args(int64(1)),
		"a variable that loads code":        with("env", map[string]any{"LD_PRELOAD": "/x.so"}),
		"a variable that is no text":        with("env", map[string]any{"A": int64(1)}),
		"a directory that isn't there":      with("cwd", filepath.Join(os.TempDir(), "rye-none", "none")),
		"a directory that is no whole path": with("cwd", "somewhere"),
		"a tool without a definition":       with("definition", ""),
		"a tool with another definition":    with("definition", definitions["give"]),
		"a tool that is gone":               with("tool_name", "gone"),
		"arguments that are no JSON":        with("arguments", "{"),
		"arguments that are no object":      with("arguments", "[]"),
		"arguments that are no text":        with("arguments", int64(1)),
		"a program that isn't there": func(t testing.TB) *primitive.Action {
			a := calling(t, definitions["echo"], "echo", nil)
			a.Programs["server"] = primitive.Program{Path: filepath.Join(a.Dir, "none")}
			return a
		},
	}
}

// tries are those that a machine can keep a server from.
func tries(t *testing.T, c *Client, definitions map[string]string) map[string]primitivetest.Try {
	if c.Machine.Offers().Best < floor.Landlock {
		return nil
	}
	confined := func(t testing.TB, tool string, args map[string]any) *primitive.Action {
		a := calling(t, definitions[tool], tool, args)
		a.Sandbox.Level = floor.Landlock
		return a
	}
	return map[string]primitivetest.Try{
		"write a file": func(t testing.TB, granted bool) (*primitive.Action, func() bool) {
			path := filepath.Join(sandboxtest.Dir(t), "file")
			a := confined(t, "write", map[string]any{"path": path, "text": "x"})
			if granted {
				a.Sandbox.Write = []string{filepath.Dir(path)}
			}
			return a, func() bool { return there(path) }
		},
		"reach a server": func(t testing.TB, granted bool) (*primitive.Action, func() bool) {
			address, reached := sandboxtest.Listen(t)
			a := confined(t, "dial", map[string]any{"address": address})
			a.Sandbox.Network.All = granted
			return a, reached
		},
	}
}

// definitions returns those of the server that behaves, by the names of its tools.
func definitions(t testing.TB) map[string]string {
	t.Helper()
	return definitionsOf(t, server(t))
}

func definitionsOf(t testing.TB, a *primitive.Action) map[string]string {
	t.Helper()
	c := client(t)
	defer c.Close()
	all := map[string]string{}
	r := run(t, c, a, nil)
	for _, v := range list(r.Value, "tools") {
		tool := v.(map[string]any)
		all[tool["name"].(string)] = tool["definition"].(string)
	}
	if len(all) == 0 {
		t.Fatalf("%+v", r)
	}
	return all
}

// What a server has is shown with its definitions, and so that the same bytes give the same.
func TestAnnounced(t *testing.T) {
	c := client(t)
	r := run(t, c, server(t), nil)
	v, _ := r.Value.(map[string]any)
	if r.Failed || v["instructions"] != "Call echo." || v["protocol"] == "" || len(list(v, "prompts")) != 1 ||
		len(list(v, "resources")) != 1 || len(list(v, "resource_templates")) != 1 {
		t.Fatalf("%+v", r)
	}
	if want := map[string]any{"name": "mcptest", "title": "A server for tests",
		"version": "1.2.3"}; !reflect.DeepEqual(v["server"], want) {
		t.Errorf("%v", v["server"])
	}
	for _, tool := range list(v, "tools") {
		m := tool.(map[string]any)
		d, err := Definition(m)
		if err != nil || d.String() != m["definition"] {
			t.Errorf("%v: %v, %v", m, d, err)
		}
	}
}

// Servers that don't behave harm nothing but their own calls.
func TestHostile(t *testing.T) {
	d := definitionsOf(t, server(t, "hostile", "good"))["echo"]
	for name, want := range map[string]struct {
		why, ended string
		again      bool // the server serves another call
	}{
		"dies": {why: "failed during the call: it ended with status 3: out of cheese"},
		"babbles": {
			why: `its standard output is for messages, and it wrote a line that is not JSON: "Server ready! \x1b[2J"`},
		"no-rpc":   {why: "it wrote JSON that is not a message"},
		"half":     {why: "it wrote a line that is not JSON"},
		"batch":    {why: "it wrote JSON that is not a message"},
		"deep":     {why: "it wrote a line that is not JSON"},
		"nested":   {why: "answered what can't be passed on: json: nested more than 64 deep", again: true},
		"long":     {why: "it sent a message of more than 4194304 bytes", ended: "message"},
		"longest":  {why: "it sent a message of more than 4194304 bytes", ended: "message"},
		"no-value": {why: "failed during the call: calling"},
		"no-part":  {why: `unrecognized content type "spell"`},
		"error":    {why: "answered with the error -32000: no \ufffd[2J cheese", again: true},
		"floods":   {why: "it floods its standard output with notifications"},
		"blanks":   {why: "it floods its standard output with notifications"},
		"hangs":    {why: "did not answer within 100ms", ended: "timeout"},
		"good":     {again: true},
		"twice":    {again: true},
		"unknown":  {again: true},
		"asks":     {again: true},
		"storm":    {again: true},
		"blank":    {again: true},
		"dead":     {why: "can't be used: it ended with status 4: no licence"},
		"chatty":   {why: `it wrote a line that is not JSON: "starting…"`},
		"silent":   {why: "did not answer within 100ms", ended: "timeout"},
		"endless":  {why: "can't be used: it sent a message of more than 4194304 bytes", ended: "message"},
		"future":   {why: `can't be used: it speaks MCP "3026-01-01", which this rye doesn't`},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t)
			calls := 2
			if testing.Short() && !want.again {
				calls = 1 // another server would answer
			}
			for range calls {
				a := calling(t, d, "echo", nil, "hostile", name)
				if want.ended == "timeout" {
					a.Sandbox.Limits.Wall = 100 * time.Millisecond
				}
				r, err := c.Run(t.Context(), a, nil)
				if err != nil || r.Failed != (want.why != "") || r.Ended != want.ended ||
					!strings.Contains(r.Failure, want.why) || strings.Contains(r.Failure, "\x1b") {
					t.Errorf("%+v, %v; want %q, %q", r, err, want.why, want.ended)
				}
				if !r.Failed && r.Value != "good" {
					t.Errorf("%v", r.Value)
				}
				if kept := len(c.kept) == 1; kept != want.again {
					t.Errorf("the server is kept: %v", kept)
				}
				if left := alive(t); (len(left) > 0) != want.again {
					t.Errorf("%q is left", left)
				}
			}
		})
	}
}

// A tool that the server has changed, or no longer has, isn't called. Others are.
func TestChanged(t *testing.T) {
	before := definitions(t)
	c := client(t)
	args := []string{"-shift", "1"}
	if r := run(t, c, calling(t, before["echo"], "echo", map[string]any{"text": "a"}, args...), nil); r.Value != "a" {
		t.Fatalf("%+v", r)
	}
	if r := run(t, c, calling(t, before["count"], "count", nil, args...), nil); r.Failed {
		t.Fatalf("%+v", r)
	}
	for {
		r, err := c.Run(t.Context(), calling(t, before["echo"], "echo", map[string]any{"text": "a"}, args...), nil)
		if err == nil && r.Value == "changed" {
			continue // the notice is on its way
		}
		refused, _ := fault.Find(err)
		if refused == nil {
			t.Fatalf("%+v, %v", r, err)
		}
		if refused.Code != fault.LockMismatch || refused.Details["expected"] != before["echo"] ||
			refused.Details["found"] == before["echo"] || refused.Details["server"] != "tool:mcp/servers/t" {
			t.Fatalf("%+v, %v", r, err)
		}
		if !slices.Equal(refused.Hint, []string{"rye mcp refresh t", "rye mcp accept t"}) {
			t.Errorf("%q", refused.Hint)
		}
		break
	}
	if r := run(t, c, calling(t, before["count"], "count", nil, args...), nil); r.Failed ||
		r.Value.(map[string]any)["calls"] != 2.0 {
		t.Errorf("%+v", r)
	}
	_, err := c.Run(t.Context(), calling(t, before["echo"], "echo", nil, "-without", "echo"), nil)
	if e, _ := fault.Find(err); e == nil || e.Code != fault.LockMismatch ||
		!strings.Contains(e.Text, `has no tool "echo" any more`) {
		t.Errorf("%v", err)
	}
}

// Calls share a server if nothing tells them apart but what they call, and whose directories they bring.
func TestShared(t *testing.T) {
	d := definitions(t)
	c := client(t)
	base := func() *primitive.Action {
		a := calling(t, d["count"], "count", nil)
		a.Scratch, a.Dir, a.Own = sandboxtest.Dir(t), "", sandboxtest.Dir(t)
		a.Dir = filepath.Join(a.Scratch, "home")
		if err := os.Mkdir(a.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		a.Env = append(a.Env, "HOME="+a.Dir)
		a.Sandbox.Read, a.Sandbox.Write = []string{a.Own}, []string{a.Dir}
		return a
	}
	var held, released atomic.Int64
	process := func(change func(*primitive.Action)) string {
		a := base()
		a.Hold = func() func() {
			held.Add(1)
			return func() { released.Add(1) }
		}
		change(a)
		r := run(t, c, a, nil)
		if r.Failed {
			t.Fatalf("%+v", r)
		}
		return r.Value.(map[string]any)["process"].(string)
	}
	first := process(func(*primitive.Action) {})
	for name, change := range map[string]func(*primitive.Action){
		"nothing":  func(*primitive.Action) {},
		"the time": func(a *primitive.Action) { a.Config["timeout"] = int64(200); a.Sandbox.Limits.Wall = time.Hour },
	} {
		if process(change) != first {
			t.Errorf("%s: another server", name)
		}
	}
	changes := map[string]func(*primitive.Action){
		"an argument": func(a *primitive.Action) { a.Config["args"] = []any{serverWord, "-description", "x"} },
		"a variable":  func(a *primitive.Action) { a.Env = append(a.Env, "X=1") },
		"the caller":  func(a *primitive.Action) { a.Share = "another" },
		"a stranger":  func(a *primitive.Action) { a.Stranger = true },
		"the network": func(a *primitive.Action) { a.Sandbox.Network.All = true },
		"a file":      func(a *primitive.Action) { a.Sandbox.Read = append(a.Sandbox.Read, sandboxtest.Dir(t)) },
		"a limit":     func(a *primitive.Action) { a.Sandbox.Limits.Memory = 1 << 30 },
		"its files":   func(a *primitive.Action) { a.Config["env"] = map[string]any{"LIB": a.Own} },
	}
	seen := map[string]string{first: "the first"}
	for name, change := range changes {
		p := process(change)
		if other, ok := seen[p]; ok {
			t.Errorf("%s: the server of %s", name, other)
		}
		seen[p] = name
	}
	if held.Load() != int64(len(changes)+1) || released.Load() != 0 {
		t.Errorf("held %d, released %d", held.Load(), released.Load())
	}
	if err := c.Close(); err != nil || released.Load() != held.Load() || len(alive(t)) > 0 {
		t.Errorf("%v, held %d, released %d, left %q", err, held.Load(), released.Load(), alive(t))
	}
	if _, err := c.Run(t.Context(), base(), nil); !errors.Is(err, errClosed) {
		t.Errorf("%v", err)
	}
}

// A server that idles ends, and not more than a few are kept.
func TestIdle(t *testing.T) {
	d := definitions(t)
	c := client(t)
	c.idle = time.Millisecond
	run(t, c, calling(t, d["count"], "count", nil), nil)
	c.all.Wait()
	if left := alive(t); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	c.idle = time.Hour
	for i := range maxIdle + 2 {
		a := calling(t, d["count"], "count", nil)
		a.Share = fmt.Sprint(i)
		run(t, c, a, nil)
	}
	if len(c.kept) != maxIdle {
		t.Errorf("%d are kept", len(c.kept))
	}
}

// A call that is cancelled doesn't end those beside it, though their server takes no more calls.
func TestCancelBeside(t *testing.T) {
	d := definitions(t)
	c := client(t)
	dir := sandboxtest.Dir(t)
	wait := func(name string) *primitive.Action {
		a := calling(t, d["wait"], "wait", map[string]any{"path": filepath.Join(dir, name),
			"polite": name == "polite"})
		a.Sandbox.Write, a.Dir = []string{dir}, dir
		return a
	}
	count := func() *primitive.Action {
		a := calling(t, d["count"], "count", nil)
		a.Sandbox.Write, a.Dir = []string{dir}, dir
		return a
	}
	var all sync.WaitGroup
	run(t, c, count(), nil)
	begin := func(name string) (stop func(), r *primitive.Result) {
		ctx, stop := withCancel(t)
		r = new(primitive.Result)
		all.Go(func() {
			got, err := c.Run(ctx, wait(name), nil)
			if err != nil {
				t.Error(err)
				return
			}
			*r = *got
		})
		for !there(filepath.Join(dir, name)) {
			time.Sleep(time.Millisecond)
		}
		return stop, r
	}
	// A server that answers a cancelled call is kept.
	short := c.settle
	c.settle = time.Minute
	stop, polite := begin("polite")
	stop()
	all.Wait()
	if polite.Ended != "cancelled" || len(c.kept) != 1 {
		t.Errorf("%+v, %d kept", polite, len(c.kept))
	}
	c.settle = short
	stopA, a := begin("a")
	stopB, b := begin("b")
	stopA()
	for len(alive(t)) > 0 && c.size() > 0 {
		time.Sleep(time.Millisecond)
	}
	if len(alive(t)) == 0 {
		t.Error("the server was killed though it does something")
	}
	stopB()
	all.Wait()
	if a.Ended != "cancelled" || b.Ended != "cancelled" || len(alive(t)) > 0 {
		t.Errorf("%+v, %+v, left %q", a, b, alive(t))
	}
	if r := run(t, c, count(), nil); r.Failed || r.Value.(map[string]any)["calls"] != 1.0 {
		t.Errorf("another server: %+v", r)
	}
}

func (c *Client) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.kept)
}

// What an answer says becomes the value.
func TestValues(t *testing.T) {
	d := definitions(t)
	c := client(t)
	for text, want := range map[string]any{
		"hello": "hello", "": "", ` {"a": 1} `: map[string]any{"a": 1.0}, "[1": "[1", `{"a":1,"a":2}`: `{"a":1,"a":2}`,
		"null": nil, "  spaces\n": "  spaces\n",
	} {
		r := run(t, c, calling(t, d["echo"], "echo", map[string]any{"text": text}), nil)
		if r.Failed || !reflect.DeepEqual(r.Value, want) {
			t.Errorf("%q: %+v", text, r)
		}
	}
	r := run(t, c, calling(t, d["echo"], "echo", map[string]any{"text": `{"success": false, "error": "why"}`}), nil)
	if !r.Failed || r.Failure != "why" {
		t.Errorf("%+v", r)
	}
	r = run(t, c, calling(t, d["parts"], "parts", nil), nil)
	parts, _ := r.Value.([]any)
	var kinds []string
	for _, p := range parts {
		kinds = append(kinds, p.(map[string]any)["type"].(string))
	}
	if want := []string{"text", "image", "audio", "resource_link", "resource"}; r.Failed ||
		!slices.Equal(kinds, want) {
		t.Errorf("%+v", r)
	}
	// A limit of the call holds where the connection's is larger.
	a := calling(t, d["print"], "print", map[string]any{"bytes": 100_000})
	a.Sandbox.Limits.Output = 200_000
	if r = run(t, c, a, nil); r.Failed {
		t.Errorf("%+v", r)
	}
	a.Config["arguments"] = `{"bytes": 199999}`
	if r = run(t, c, a, nil); r.Ended != "output" {
		t.Errorf("%.300v", r)
	}
}

// What a server announces is bounded, and a tool that can't be told from another is none.
func TestAnnouncements(t *testing.T) {
	d := definitionsOf(t, server(t, "hostile", "good"))["echo"]
	for name, want := range map[string]struct{ shown, called string }{
		"twins":   {"", `two tools "echo"`},
		"many":    {"it announces more than 1000 tools", "it announces more than 1000 tools"},
		"pages":   {"it announces its tools on more than 100 pages", "it announces its tools on more than 100 pages"},
		"heavy":   {"it announces more than 8388608 bytes of tools", "it announces more than 8388608 bytes of tools"},
		"deeper":  {"", "its definition is invalid"},
		"none":    {"", `has no tool "echo" any more`},
		"refuses": {"answered with the error -32603: no list today", "answered with the error -32603: no list today"},
		"list": {"the answer is malformed: tools has another type",
			"the answer is malformed: tools has another type"},
		"number": {"the answer is malformed: tools.0.name has another type",
			"the answer is malformed: tools.0.name has another type"},
	} {
		c := client(t)
		r := run(t, c, server(t, "hostile", name), nil)
		if r.Failed != (want.shown != "") || !strings.Contains(r.Failure, want.shown) {
			t.Errorf("%s: %+v", name, r)
		}
		if name == "deeper" {
			if tool := list(r.Value, "tools")[0].(map[string]any); tool["problem"] == "" || tool["definition"] != nil {
				t.Errorf("%v", tool)
			}
		}
		r, err := c.Run(t.Context(), calling(t, d, "echo", nil, "hostile", name), nil)
		switch {
		case want.shown == "" && (fault.CodeOf(err) != fault.LockMismatch ||
			!strings.Contains(err.Error(), want.called)):
			t.Errorf("%s: %+v, %v", name, r, err)
		case want.shown != "" && (err != nil || !strings.Contains(r.Failure, want.called)):
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// A server that died while nothing used it is started again, and one that is closed fails its call.
func TestDeath(t *testing.T) {
	d := definitions(t)
	c := client(t)
	r := run(t, c, calling(t, d["count"], "count", nil), nil)
	first := r.Value.(map[string]any)["process"]
	for _, k := range c.kept {
		p := k.peer.(*process)
		p.kill()
		for !p.dead() {
			time.Sleep(time.Millisecond)
		}
	}
	r = run(t, c, calling(t, d["count"], "count", nil), nil)
	if r.Failed || r.Value.(map[string]any)["process"] == first {
		t.Errorf("%+v", r)
	}
	dir := sandboxtest.Dir(t)
	a := calling(t, d["wait"], "wait", map[string]any{"path": filepath.Join(dir, "begun")})
	a.Sandbox.Write = []string{dir}
	ended := make(chan *primitive.Result)
	go func() {
		r, err := c.Run(t.Context(), a, nil)
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	for !there(filepath.Join(dir, "begun")) {
		time.Sleep(time.Millisecond)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if r := <-ended; r == nil || !r.Failed || r.Ended != "" {
		t.Errorf("%+v", r)
	}
}
