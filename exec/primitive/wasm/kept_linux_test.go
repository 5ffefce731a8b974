package wasm

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/worker"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
)

// TestKept: calls of one tool share a process and nothing else, until one of them ends otherwise than by itself.
func TestKept(t *testing.T) {
	w := subject(t)
	t.Cleanup(func() { w.Close() })
	scratch := sandboxtest.Dir(t)
	call := func(change func(*primitive.Action), input string, args ...string) (*primitive.Result, []string) {
		t.Helper()
		a := action(t, input, args...)
		a.Scratch, a.Dir = scratch, scratch
		if change != nil {
			change(a)
		}
		r, err := w.Run(t.Context(), a, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r, children(t)
	}
	call(nil, "", "args") // it may be the one that compiles
	_, first := call(nil, "", "args")
	if len(first) != 1 {
		t.Fatalf("kept %q", first)
	}
	for _, text := range []string{"", "a", "\xff\x00", "bc"} {
		r, now := call(nil, text, "echo")
		if out, _, code := said(r); out != text && text != "\xff\x00" || code != 0 || !reflect.DeepEqual(now, first) ||
			r.Usage["max_rss"] == 0 {
			t.Errorf("%q: %+v in %q, before %q", text, r, now, first)
		}
	}
	if r, now := call(nil, "", "say", "out", "because", "3"); r.Exit != 3 || r.Failure != "because" ||
		!reflect.DeepEqual(now, first) {
		t.Errorf("%+v in %q", r, now)
	}
	a, b := func(a *primitive.Action) { a.Share = "a" }, func(a *primitive.Action) { a.Pure = true }
	for i, change := range []func(*primitive.Action){a, b, a, b} {
		if r, now := call(change, "", "args", "x"); r.Failed || len(now) != min(i+2, 3) {
			t.Errorf("%d: %+v in %q", i, r, now)
		}
	}
	// What may write has a process of its own.
	own := func(a *primitive.Action) {
		dir := sandboxtest.Dir(t)
		a.Config["root"], a.Sandbox.Write = dir, []string{dir}
	}
	if r, now := call(own, "", "args"); r.Failed || len(now) != 3 {
		t.Errorf("%+v in %q", r, now)
	}
	short := func(a *primitive.Action) { a.Sandbox.Limits.Wall = 300 * time.Millisecond }
	if r, now := call(short, "", "spin"); r.Ended != "timeout" || len(now) != 2 {
		t.Errorf("%+v in %q", r, now)
	}
	if r, now := call(nil, "x", "echo"); r.Failed || len(now) != 3 || reflect.DeepEqual(now, first) {
		t.Errorf("%+v in %q", r, now)
	}
	w.Close()
	if left := children(t); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// TestAhead: an instance that was made before its plan has the plan's input and the files as they are then, and is not
// used for other arguments.
func TestAhead(t *testing.T) {
	project, e, out := sandboxtest.Dir(t), new(ready), new(bytes.Buffer)
	w := worker.NewWriter(out)
	ctx := context.Background()
	defer e.close(ctx)
	var ahead *instance
	run := func(used bool, want, input string, args ...string) {
		t.Helper()
		a := action(t, "", args...)
		a.Config["root"], a.Sandbox.Read = project, []string{project}
		p, _, err := planOf(a)
		if err != nil {
			t.Fatal(err)
		}
		p.Kept, p.Input = true, []byte(input)
		out.Reset()
		_ = p.run(ctx, e, nil, w) // it ends with a status
		if (e.last == ahead) != used || !strings.Contains(out.String(), want) {
			t.Errorf("%q %v: %q, made before: %v", input, args, out, e.last == ahead)
		}
		e.last.close(ctx)
		if ahead = e.instance(ctx, p, w); ahead == nil {
			t.Fatal("none is made")
		}
		e.last, e.next = nil, ahead
	}
	run(false, "first", "first", "echo")
	run(true, "second", "second", "echo")
	write := func(text string) {
		t.Helper()
		os.Remove(filepath.Join(project, "file"))
		if err := os.WriteFile(filepath.Join(project, "file"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	run(false, "old", "", "read", "file")
	write("new")
	run(true, "new", "", "read", "file")
	run(false, "third", "third", "echo")
}

// TestStarts: a module whose instances run code is known by its section.
func TestStarts(t *testing.T) {
	module := build(nil, []byte{opEnd})
	for name, c := range map[string]struct {
		module []byte
		want   bool
	}{
		"none": {module, false}, "start": {append(module[:len(module):len(module)], 8, 1, 0), true},
		"cut": {module[:len(module)-1], true}, "only an id": {append(module[:len(module):len(module)], 0), true},
		"empty": {nil, false},
	} {
		if got := starts(c.module); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestReady: a call has what was started for it ahead.
func TestReady(t *testing.T) {
	w := subject(t)
	t.Cleanup(func() { w.Close() })
	w.Ready(true)
	w.Ready(true)
	r, err := w.Run(t.Context(), action(t, "a", "echo"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out, _, code := said(r); out != "a" || code != 0 {
		t.Errorf("%+v", r)
	}
	for given := time.Now(); len(children(t)) > 1; time.Sleep(time.Millisecond) {
		if time.Since(given) > time.Minute {
			t.Fatal("the stage that had other namespaces has not ended")
		}
	}
}

// TestMemoryAgain: the memory of a module that has ended is used again, and nothing of what was in it is left, where
// it began and where it grew. That of a module which needed much is given back.
func TestMemoryAgain(t *testing.T) {
	code := func(pages uint64) []byte {
		var all []byte
		number := func(n uint64) { all = appendSigned(append(all, opI32Const), n) }
		fresh := func(at uint64) { // a trap unless there is 0, which is then 7
			number(at)
			all = append(all, 0x28, 2, 0, 0x04, 0x40, 0x00, opEnd)
			number(at)
			number(7)
			all = append(all, 0x36, 2, 0)
		}
		fresh(100)
		number(pages)
		all = append(all, 0x40, 0, 0x1a) // grow
		fresh(100 + page)
		return append(all, opEnd)
	}
	for name, c := range map[string]struct {
		pages uint64
		again bool
	}{"little": {1, true}, "much": {maxSpare / page, false}} {
		e, ctx := new(ready), context.Background()
		at := filepath.Join(sandboxtest.Dir(t), "module.wasm")
		if err := os.WriteFile(at, build(nil, code(c.pages), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		var last *reserved
		for i := range 4 {
			if err := (&plan{Module: at, Name: "m", Pages: 1000, Kept: true}).run(ctx, e, nil,
				worker.NewWriter(io.Discard)); err != nil {
				t.Fatalf("%s, call %d: %v", name, i, err)
			}
			e.last.close(ctx)
			if got := e.memory.spare; c.again != (got != nil) || i > 0 && got != last {
				t.Errorf("%s, call %d: kept %v, before %v", name, i, got, last)
			}
			last = e.memory.spare
		}
		e.close(ctx)
	}
}
