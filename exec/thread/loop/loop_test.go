package loop_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/exec/thread/loop"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// guestWord starts this binary as the child that loops run in.
const guestWord = "__guest"

func TestMain(m *testing.M) {
	sandboxtest.Programs(map[string]func([]string) int{guestWord: func([]string) int {
		return loop.Guest(os.Stdin, os.Stdout)
	}})
	os.Exit(m.Run())
}

// host returns a host that is closed with the test, and whose children must be gone then.
func host(t testing.TB, memory int64) *loop.Host {
	mark := "test-of-" + t.Name()
	h := &loop.Host{Machine: sandboxtest.Machine(t), Self: []string{sandboxtest.Self(t), guestWord, mark},
		Memory: memory}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		for _, at := range sandboxtest.Alive("cmdline", mark) {
			t.Errorf("%s is still there", at)
		}
	})
	return h
}

// script is a loop of one file.
func script(text string, ask func(context.Context, loop.Question) (any, error)) *loop.Loop {
	return &loop.Loop{Files: map[string]string{"loop.star": text}, Main: "loop.star", Own: true, Level: floor.Limits,
		Ask: ask}
}

type object = map[string]any

// A loop asks for everything that ctx has, and messages arrive whole although only new ones are sent.
func TestConversation(t *testing.T) {
	var asked []string
	l := script(`
load("_words.star", "DONE")
def main(ctx):
    messages = ctx.first()
    tools = ctx.tools()
    print("begins")
    for _ in range(100):
        answer = ctx.model(messages, tools)
        messages.append(answer["message"])
        if not answer["calls"]:
            break
        messages.extend(ctx.calls(answer["calls"]))
        ctx.hook("after_step", {"n": len(messages)})
        ctx.checkpoint()
    ctx.handoff(messages[-1:])
    return {"text": DONE, "limit": ctx.config["limit"], "usage": ctx.usage()["turns"], "fs": str(hasattr(ctx, "fs"))}
`, func(_ context.Context, q loop.Question) (any, error) {
		asked = append(asked, q.Function())
		switch q := q.(type) {
		case loop.First:
			return []any{object{"role": "user", "text": "go"}}, nil
		case loop.Tools:
			return []any{}, nil
		case loop.Model:
			n := len(q.Messages)
			if n > 4 {
				return object{"message": object{"text": fmt.Sprint(n)}, "calls": []any{}}, nil
			}
			return object{"message": object{"role": "assistant"}, "calls": []any{object{"id": "a"}}}, nil
		case loop.Calls:
			return []any{object{"role": "tool"}}, nil
		case loop.Handoff:
			if want := []any{object{"text": "5"}}; !reflect.DeepEqual(q.Messages, want) {
				t.Errorf("hands over %v", q.Messages)
			}
			return nil, nil
		case loop.Usage:
			return object{"turns": 3.0}, nil
		}
		return nil, nil
	})
	l.Files["_words.star"] = `DONE = "done"`
	l.Config = object{"limit": 7.0}
	var said string
	l.Print = func(text string) { said += text }
	got, err := host(t, 0).Run(t.Context(), l)
	want := &loop.End{Value: object{"text": "done", "limit": 7.0, "usage": 3.0, "fs": "False"}}
	if err != nil || !reflect.DeepEqual(got, want) || said != "begins" {
		t.Errorf("%+v, %v, %q", got, err, said)
	}
	if got, want := strings.Join(asked, " "),
		"first tools model calls hook checkpoint model calls hook checkpoint model handoff usage"; got != want {
		t.Errorf("asked %s\nwant  %s", got, want)
	}
}

// How loops end.
func TestEnds(t *testing.T) {
	refuse := errors.New("not allowed")
	ask := func(_ context.Context, q loop.Question) (any, error) {
		if _, is := q.(loop.Model); is {
			return nil, refuse
		}
		return []any{}, nil
	}
	h := host(t, 0)
	for text, want := range map[string]loop.End{
		"def main(ctx): return None": {},
		"def main(ctx):\n    ctx.finish({'a': [1, None]})": {Value: object{"a": []any{1.0,
			nil}}},
		"def main(ctx):\n    fail('no more')": {Reason: "no more"},
		"def main(ctx): return 1 // 0":        {Reason: "loop.star:1:25: floored division by zero"},
		"def main(ctx): return main": {
			Reason: "the result contains a function, which is not a JSON value"},
		"def other(ctx): pass": {Reason: "loop.star has no function main"},
		"load('../x.star', 'a')": {
			Reason: `loop.star:1:1: cannot load ../x.star: "../x.star" is outside the tool's own directory`},
		"load('x.star', 'a')": {
			Reason: `loop.star:1:1: cannot load x.star: "x.star" is not one of the tool's own files: file not found`},
		"def main(ctx):\n    for _ in range(1000000000): pass": {Ended: "steps"},
		"def main(ctx):\n    m = [{'a': 1}]\n    ctx.handoff(m)\n    m[0]['a'] = 2": {
			Reason: "loop.star:4:9: cannot insert into frozen hash table"},
		"def main(ctx): ctx.handoff([1])": {
			Reason: "loop.star:1:27: handoff: messages: message 0: got int, want dict"},
		"def main(ctx): ctx.handoff(messages = 1)": {Reason: "loop.star:1:27: handoff: messages: got int, want list"},
		"def main(ctx): ctx.hook('x')":             {Reason: "loop.star:1:24: hook: missing argument for data"},
		"def main(ctx): ctx.hook('x', {1: 2})": {
			Reason: "loop.star:1:24: hook: data: the result contains a key of type int: keys must be strings"},
		"def main(ctx): return fs": {
			Reason: "loop.star:1:23: undefined: fs (no file of the project was granted: the tool lists those it needs under files:)"},
	} {
		l := script(text, ask)
		l.Steps = 1_000_000
		got, err := h.Run(t.Context(), l)
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s\n%+v, %v\nwant %+v", text, got, err, want)
		}
	}
	if _, err := h.Run(t.Context(), script("def main(ctx): ctx.model([], [])", ask)); !errors.Is(err, refuse) {
		t.Errorf("%v", err)
	}
}

// A loop that eats memory ends itself, and other loops of its child; the next one has a new child.
func TestMemory(t *testing.T) {
	h := host(t, 128<<20)
	none := func(context.Context, loop.Question) (any, error) { return nil, nil }
	for _, text := range []string{
		"def main(ctx):\n    a = []\n    for _ in range(100000000): a.append('x' * 10000)",
		"def main(ctx):\n    a = [1]\n    for _ in range(60): a = a + a",
		"def main(ctx): return 'x' * (1 << 29)",
		// a little after each answer
		"def main(ctx):\n    a = []\n    for _ in range(100000000):\n        ctx.usage()\n        a.append('x' * 10000)",
	} {
		got, err := h.Run(t.Context(), script(text, none))
		if err != nil || got.Ended != "memory" {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	if got, err := h.Run(t.Context(), script("def main(ctx): return 1", none)); err != nil || got.Value != 1.0 {
		t.Errorf("afterwards: %+v, %v", got, err)
	}
}

// Cancelling ends a loop that spins, waits, or is answered.
func TestCancel(t *testing.T) {
	h := host(t, 0)
	for _, text := range []string{
		"def main(ctx):\n    ctx.usage()\n    for _ in range(1000000000000): pass",
		"def main(ctx): ctx.model([], [])",
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		l := script(text, func(ctx context.Context, q loop.Question) (any, error) {
			cancel(why)
			if _, is := q.(loop.Model); is {
				<-ctx.Done()
			}
			return nil, nil
		})
		l.Steps = 1 << 60
		if got, err := h.Run(ctx, l); !errors.Is(err, why) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	if got, err := h.Run(t.Context(), script("def main(ctx): return 1", nil)); err != nil || got.Value != 1.0 {
		t.Errorf("the child was not kept: %+v, %v", got, err)
	}
}

// Own loops share a child, side by side; another's has its own.
func TestShared(t *testing.T) {
	h := host(t, 0)
	const n = 20
	met := make(chan struct{})
	var together, all sync.WaitGroup
	together.Add(n)
	go func() { together.Wait(); close(met) }()
	for i := range n {
		all.Go(func() {
			l := script("def main(ctx): return ctx.usage()", func(context.Context, loop.Question) (any, error) {
				together.Done()
				<-met // all of them have begun
				return float64(i), nil
			})
			l.Own = i%2 == 0
			if got, err := h.Run(t.Context(), l); err != nil || got.Value != float64(i) {
				t.Errorf("%d: %+v, %v", i, got, err)
			}
		})
	}
	all.Wait()
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	children := 0
	for _, at := range lines {
		line, _ := os.ReadFile(at)
		if bytes.Contains(line, []byte(guestWord+"\x00test-of-TestShared")) &&
			!bytes.Contains(line, []byte(sandboxtest.StageWord)) {
			children++
		}
	}
	if len(lines) > 0 && children != 2 {
		t.Errorf("%d children", children)
	}
}

// A host that is closed, or can't start children, says so.
func TestRefused(t *testing.T) {
	h := host(t, 0)
	got, err := h.Run(t.Context(), script("def main(ctx): ctx.usage()",
		func(context.Context, loop.Question) (any, error) {
			return nil, h.Close() // the loop's child is gone when the answer comes
		}))
	if err != nil || got.Reason != "the process of the loop ended unexpectedly" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := h.Run(t.Context(), script("def main(ctx): pass", nil)); err == nil ||
		!strings.Contains(err.Error(), "is ending") {
		t.Errorf("%v", err)
	}
	if _, err := (&loop.Host{}).Run(t.Context(), script("", nil)); err == nil ||
		!strings.Contains(err.Error(), "child process") {
		t.Errorf("%v", err)
	}
}

// TestGuest: the child's side, in this process.
func TestGuest(t *testing.T) {
	in, out := new(bytes.Buffer), new(lines)
	frame := func(v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		in.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	}
	const text = `
def main(ctx):
    print("begins", ctx.config)
    ctx.model([{"role": "user"}], [])
    ctx.finish(ctx.usage())
`
	start := object{"files": object{"a.star": text}, "main": "a.star", "steps": 1000, "memory": 1 << 30,
		"config": object{}}
	frame(object{"loop": 1, "start": start})
	frame(object{"loop": 1, "answer": nil})
	frame(object{"loop": 7, "answer": nil}) // of no loop
	reader, writer := io.Pipe()
	ended := make(chan int)
	go func() { ended <- loop.Guest(reader, out) }()
	io.Copy(writer, in)
	out.wait(t, `"ask":"usage"`)
	frame(object{"loop": 1, "answer": object{"turns": 1}})
	frame(object{"loop": 2, "start": start})
	io.Copy(writer, in)
	out.wait(t, `"end":{"value":{"turns":1}}`)
	frame(object{"loop": 2, "error": "refused"})
	frame(object{"loop": 3, "start": object{"files": object{}, "main": "a.star", "steps": 10, "memory": 1 << 30,
		"config": object{}}})
	frame(object{"loop": 4,
		"start": object{"files": object{"a.star": "def main(ctx):\n    for _ in range(100000): pass"},
			"main": "a.star", "steps": 10, "config": object{}}})
	io.Copy(writer, in)
	out.wait(t, "refused")
	out.wait(t, "is not one of the tool's own files")
	out.wait(t, `"ended":"steps"`)
	frame(object{"loop": 5, "start": object{"files": object{"a.star": "def main(ctx): ctx.first()"}, "main": "a.star",
		"steps": 1000, "config": object{}}})
	io.Copy(writer, in)
	out.wait(t, `"ask":"first"`)
	frame(object{"loop": 5, "cancel": "enough"})
	io.Copy(writer, in)
	out.wait(t, "enough")
	for i, body := range []string{"ctx.handoff([1])", "ctx.handoff(1)", "ctx.handoff([{'a': main}])",
		"ctx.hook('x', main)", "ctx.hook()", "return main"} {
		frame(object{"loop": 10 + i, "start": object{"files": object{"a.star": "def main(ctx): " + body},
			"main": "a.star", "steps": 1000, "config": object{}}})
		io.Copy(writer, in)
		out.wait(t, fmt.Sprintf(`{"loop":%d,"end"`, 10+i))
	}
	writer.Close()
	if status := <-ended; status != 0 {
		t.Errorf("%d", status)
	}
	for _, bad := range []string{"\x00\x00\x00\x02{]", "\xff\xff\xff\xff", "\x00\x00\x00\x09{}"} {
		if status := loop.Guest(strings.NewReader(bad), io.Discard); status != 2 {
			t.Errorf("%q: %d", bad, status)
		}
	}
}

// lines collects what a guest writes.
type lines struct {
	mu   sync.Mutex
	text []byte
	more sync.Cond
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	if l.more.L != nil {
		l.more.Broadcast()
	}
	return len(b), nil
}

// wait waits until something was written.
func (l *lines) wait(t *testing.T, want string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.more.L == nil {
		l.more.L = &l.mu
	}
	for !bytes.Contains(l.text, []byte(want)) {
		l.more.Wait()
	}
}

// TestTools: tools that a loop doesn't change aren't sent again, and those that it changes arrive as they are.
func TestTools(t *testing.T) {
	var got [][]any
	l := script(`
def main(ctx):
    tools = ctx.tools()
    ctx.model([], tools)
    ctx.model([], tools)
    tools.append({"name": "c"})
    ctx.model([], tools)
    ctx.model([], tools[1:])
    ctx.model([], list(tools))
    ctx.model([], [])
    return {}
`, func(_ context.Context, q loop.Question) (any, error) {
		if m, is := q.(loop.Model); is {
			got = append(got, m.Tools)
			return object{}, nil
		}
		return []any{object{"name": "a"}, object{"name": "b"}}, nil
	})
	if end, err := host(t, 0).Run(t.Context(), l); err != nil || end.Reason != "" {
		t.Fatalf("%+v, %v", end, err)
	}
	a, b, c := object{"name": "a"}, object{"name": "b"}, object{"name": "c"}
	if want := [][]any{{a, b}, {a, b}, {a, b, c}, {b, c}, {a, b, c}, {}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if &got[0][0] != &got[1][0] {
		t.Error("tools that are the same were read again")
	}
}
