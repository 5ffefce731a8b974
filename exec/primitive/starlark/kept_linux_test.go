package starlark_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/primitivetest"
	"github.com/rye-build/rye/exec/primitive/starlark"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
)

// private gives an action directories of its own, as the kernel does: what a guest may be kept for.
func private(t testing.TB, a *primitive.Action) *primitive.Action {
	scratch := sandboxtest.Dir(t)
	a.Scratch, a.Dir = scratch, filepath.Join(scratch, "home")
	if err := os.Mkdir(a.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	a.Sandbox.Write = append(a.Sandbox.Write, a.Dir)
	return a
}

// again is an action of the same tool with other parameters and directories.
func again(t testing.TB, a *primitive.Action, params string) *primitive.Action {
	b := *a
	b.Config = map[string]any{"file": a.Config["file"], "params": params, "timeout": int64(300)}
	b.Sandbox.Read, b.Sandbox.Write = slices.Clone(a.Sandbox.Read), nil
	return private(t, &b)
}

// TestKeptPrimitive: a primitive that keeps guests does what it promises.
func TestKeptPrimitive(t *testing.T) {
	s := subject(t)
	script := "def main(params):\n    if 'why' in params:\n        fail(params['why'])\n    return params['v']\n"
	dir := put(t, sandboxtest.Dir(t), map[string]string{"tool.star": script})
	with := func(t testing.TB, params map[string]any) *primitive.Action {
		a := action(t, "", params)
		a.Config["file"], a.Own, a.Sandbox.Read = filepath.Join(dir, "tool.star"), dir, []string{dir}
		return private(t, a)
	}
	primitivetest.Test(t, primitivetest.Subject{
		Primitive: s,
		Value:     func(t testing.TB, v any) *primitive.Action { return with(t, map[string]any{"v": v}) },
		Fails: func(t testing.TB, reason string) *primitive.Action {
			return with(t, map[string]any{"why": reason})
		},
		Stream: func(t testing.TB, n int) (*primitive.Action, []byte) {
			text := strings.Repeat("0123456789", n/10+1)
			return with(t, map[string]any{"v": text}), []byte(`"` + text + "\"\n")
		},
		// of one that may write: it isn't kept, beside those that are
		Forever: func(t testing.TB) primitivetest.Endless {
			e := forever(t)
			had := alive(t)
			e.Left = func() []string {
				return slices.DeleteFunc(alive(t), func(at string) bool { return slices.Contains(had, at) })
			}
			return e
		},
	})
}

const keeping = `load("_more.star", "more")
seen = []
def main(params, had=[]):
    if params.get("spin"):
        for _ in range(1 << 60):
            pass
    if params.get("eat"):
        x = [0]
        for _ in range(60):
            x += x
    if params.get("print"):
        for _ in range(1 << 40):
            print("x" * 1000)
    if params.get("leave"):
        more.append(params["leave"])
    if params.get("had"):
        had.append(params["had"])
    if params.get("seen"):
        seen.append(params["seen"])
    return {"seen": seen, "more": more, "had": had, "text": fs.read(params["read"]) if params.get("read") else None}
`

// A keeper calls one tool again and again.
type keeper struct {
	*starlark.Starlark
	t     *testing.T
	first *primitive.Action
}

func newKeeper(t *testing.T) *keeper {
	k := &keeper{subject(t), t, granted(action(t, keeping, nil), sandboxtest.Dir(t), []string{"."}, nil)}
	put(t, k.first.Own, map[string]string{"_more.star": "more = []\n"})
	t.Cleanup(func() { k.Close() })
	return k
}

// call makes a call, and returns the guests that are there after it.
func (k *keeper) call(ctx context.Context, params string, change func(*primitive.Action)) (*primitive.Result,
	[]string) {
	k.t.Helper()
	a := again(k.t, k.first, params)
	if change != nil {
		change(a)
	}
	r, err := k.Run(ctx, a, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	return r, alive(k.t)
}

// TestKept: calls of one tool share a process and nothing else.
func TestKept(t *testing.T) {
	k := newKeeper(t)
	r, guests := k.call(t.Context(), "{}", nil)
	if r.Failed || len(guests) != 1 || r.Usage["max_rss"] == 0 || len(r.Enforced) == 0 {
		t.Fatalf("%+v, %v", r, guests)
	}
	for _, params := range []string{`{"leave": 1}`, `{"had": 1}`, `{"seen": 1}`} {
		for range 2 {
			if r, now := k.call(t.Context(), params, nil); !strings.Contains(r.Failure, "frozen list") ||
				!slices.Equal(now, guests) {
				t.Errorf("%s: %+v, %v", params, r, now)
			}
		}
	}
	r, now := k.call(t.Context(), "{}", nil)
	if got := fmt.Sprint(r.Value); got != "map[had:[] more:[] seen:[] text:<nil>]" || !slices.Equal(now, guests) ||
		r.Ended != "" || r.Usage["cpu_ms"] > 1000 {
		t.Errorf("%+v, %v", r, now)
	}
	if err := k.Close(); err != nil || len(alive(t)) != 0 {
		t.Errorf("%v, %v", err, alive(t))
	}
	if _, err := k.Run(t.Context(), again(t, k.first, "{}"), nil); err == nil {
		t.Error("it ran after Close")
	}
}

// TestNotShared: what decides about a call is not another call's.
func TestNotShared(t *testing.T) {
	k := newKeeper(t)
	k.call(t.Context(), "{}", nil)
	before := alive(t)
	project := put(t, sandboxtest.Dir(t), map[string]string{"a.txt": "a"})
	for name, change := range map[string]func(*primitive.Action){
		"another caller":  func(a *primitive.Action) { a.Share = "mallory" },
		"a stranger":      func(a *primitive.Action) { a.Stranger = true },
		"another chain":   func(a *primitive.Action) { a.Links = []string{"tool:acme/other"} },
		"another tool":    func(a *primitive.Action) { a.Tool = "tool:acme/other" },
		"less memory":     func(a *primitive.Action) { a.Sandbox.Limits.Memory = 1 << 30 },
		"a file":          func(a *primitive.Action) { granted(a, project, []string{"a.txt"}, nil) },
		"a directory":     func(a *primitive.Action) { granted(a, project, []string{"."}, nil) },
		"what is denied":  func(a *primitive.Action) { a.Sandbox.Deny = []string{project} },
		"a higher level":  func(a *primitive.Action) { a.Sandbox.Level++ },
		"without scratch": func(a *primitive.Action) { a.Scratch = "" },
		"writes":          func(a *primitive.Action) { granted(a, project, nil, []string{"."}) },
		"denied inside": func(a *primitive.Action) {
			granted(a, project, []string{"."}, nil).Sandbox.Deny = []string{filepath.Join(project, "a.txt")}
		},
	} {
		for range 2 { // none of them finds the guest of the first, and all but the last three one of their own
			count := len(alive(t))
			r, now := k.call(t.Context(), "{}", change)
			if r.Failed || !slices.Contains(now, before[0]) {
				t.Errorf("%s: %+v, %v", name, r, now)
			}
			alone := name == "without scratch" || name == "writes" || name == "denied inside"
			if alone && len(now) != count {
				t.Errorf("%s: a guest was kept", name)
			}
			if len(now) > 9 {
				t.Errorf("%d guests are kept", len(now))
			}
		}
		k.call(t.Context(), "{}", nil) // so that it isn't the longest idle one
	}
}

// TestKeptNoLonger: a guest isn't used any more after a limit, a cancellation or its death.
func TestKeptNoLonger(t *testing.T) {
	k := newKeeper(t)
	pids := map[string]bool{}
	next := func(what string) {
		t.Helper()
		r, now := k.call(t.Context(), "{}", nil)
		if r.Failed || len(now) != 1 || pids[now[0]] {
			t.Fatalf("after %s: %+v, %v", what, r, now)
		}
		pids[now[0]] = true
	}
	next("nothing")
	for params, want := range map[string]string{`{"spin": 1}`: "steps", `{"eat": 1}`: "memory",
		`{"print": 1}`: "output", `{"spin": 2}`: "timeout"} {
		r, now := k.call(t.Context(), params, func(a *primitive.Action) {
			if want == "timeout" {
				a.Config["timeout"], a.Config["steps"] = 0.2, int64(1<<50)
			} else {
				a.Config["steps"] = int64(1_000_000)
			}
			a.Sandbox.Limits.Output = 1 << 20
		})
		if r.Ended != want || !r.Failed || len(now) != 0 {
			t.Errorf("%s: %+v, %v", want, r, now)
		}
		next(want)
	}
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, stop)
	if r, now := k.call(ctx, `{"spin": 1}`, func(a *primitive.Action) {
		a.Config["steps"] = int64(1 << 50)
	}); r.Ended != "cancelled" || len(now) != 0 {
		t.Errorf("%+v, %v", r, now)
	}
	next("a cancellation")
	for _, at := range alive(t) {
		pid, _ := strconv.Atoi(strings.Split(at, "/")[2])
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for len(alive(t)) > 0 {
			if _, err := os.Stat(filepath.Dir(at)); err != nil {
				break
			}
		}
	}
	r, err := k.Run(t.Context(), again(t, k.first, "{}"), nil)
	if err != nil || r.Failed && !strings.Contains(r.Failure, "ended without an answer") {
		t.Errorf("%+v, %v", r, err) // the stage may take a moment to see it
	}
}

// TestMoved: a kept guest has the files that are granted now, not those that were.
func TestMoved(t *testing.T) {
	k := newKeeper(t)
	project := put(t, sandboxtest.Dir(t), map[string]string{"docs/a.txt": "old", "b.txt": "old"})
	read := func(at, want string) {
		t.Helper()
		r, _ := k.call(t.Context(), `{"read": "`+at+`"}`, func(a *primitive.Action) {
			granted(a, project, []string{"docs", "b.txt"}, nil)
		})
		if value, _ := r.Value.(map[string]any); r.Failed || value["text"] != want {
			t.Errorf("%s: %+v; want %s", at, r, want)
		}
	}
	read("docs/a.txt", "old")
	read("b.txt", "old")
	put(t, project, map[string]string{"docs/new.txt": "new", "docs/a.txt": "changed"})
	read("docs/a.txt", "changed")
	read("docs/new.txt", "new")
	for _, name := range []string{"docs", "b.txt"} {
		if err := os.Rename(filepath.Join(project, name), filepath.Join(project, "away-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, project, map[string]string{"docs/a.txt": "another", "b.txt": "another"})
	read("docs/a.txt", "another")
	read("b.txt", "another")
}

// TestKeptTogether: many callers of some tools at once get what they asked for.
func TestKeptTogether(t *testing.T) {
	k := newKeeper(t)
	project := sandboxtest.Dir(t)
	for i := range 4 {
		put(t, project, map[string]string{fmt.Sprintf("d%d/a.txt", i): fmt.Sprint("text ", i)})
	}
	calls := make([]*primitive.Action, 24)
	for i := range calls {
		dir := fmt.Sprintf("d%d", i%4)
		calls[i] = granted(again(t, k.first, `{"read": "`+dir+`/a.txt"}`), project, []string{dir}, nil)
	}
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := worker; i < len(calls); i += 4 {
				at := (i*7 + worker) % len(calls)
				r, err := k.Run(t.Context(), calls[at], nil)
				if err != nil || r.Failed || r.Value.(map[string]any)["text"] != fmt.Sprint("text ", at%4) {
					t.Errorf("%+v, %v", r, err)
				}
			}
		})
	}
	wait.Wait()
	if n := len(alive(t)); n > 8 {
		t.Errorf("%d guests are kept", n)
	}
}

// BenchmarkKept measures a call of a guest that is there.
func BenchmarkKept(b *testing.B) {
	s := subject(b)
	defer s.Close()
	a := private(b, action(b, echo, map[string]any{"v": "hello"}))
	for b.Loop() {
		if r, err := s.Run(b.Context(), a, nil); err != nil || r.Failed {
			b.Fatalf("%+v, %v", r, err)
		}
	}
}
