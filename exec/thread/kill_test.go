package thread_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/env"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/lock/workspace/projecttest"
)

// A doomed process runs a thread and kills itself before its n-th change of a file of registry, ledger or transcript,
// or before it writes a text.
type doomed struct {
	Base   string // of the world
	At     int    // 0 for never
	Before string // a regular expression
	Limits []string
	Graph  string // that is run; "" for the directive acme/asking

	Job  bool   // standard input has a job
	Keep string // a file for the job; "" for none
	Late bool   // it is taken a day later
}

// open opens the world, whose files have a hook.
func (d *doomed) open(hook func(op, path string, b []byte) error) (*thread.Engine, error) {
	paths := projecttest.Paths(filepath.Join(d.Base, "project"), filepath.Join(d.Base, "home"))
	space, err := workspace.Open(context.Background(), paths, workspace.Options{})
	if err != nil {
		return nil, err
	}
	self, _ := os.Executable()
	_, unlocked := os.Stat(filepath.Join(paths.Dir, "rye.lock"))
	s, err := session.Open(context.Background(), space,
		session.Options{Mode: session.Mode{Unlocked: unlocked != nil}, Self: self, Functions: functions,
			Host: env.Host{}})
	if err != nil {
		return nil, err
	}
	return thread.Open(s, thread.Options{Program: "rye test", Now: time.Now, Hook: hook})
}

func (d *doomed) run() int {
	n, before := 0, regexp.MustCompile(d.Before)
	hook := func(op, path string, b []byte) error {
		if op == "look" {
			return nil
		}
		if n++; n == d.At || d.Before != "" && before.Match(b) {
			if d.Job {
				_ = os.WriteFile(d.Keep+".killed", nil, 0o600)
			}
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				self.Kill() // SIGKILL: nothing is cleaned up
			}
			select {}
		}
		return nil
	}
	if d.Job {
		return d.runJob(hook)
	}
	e, err := d.open(hook)
	if err != nil {
		fmt.Println(err)
		return 2
	}
	start := &thread.Start{Directive: model.Ref{Kind: "directive", ID: "acme/asking"},
		Inputs: params.Values(object{"topic": "rye"}), Limits: d.Limits}
	if d.Graph != "" {
		start.Directive, start.Inputs = model.Ref{Kind: "tool", ID: d.Graph}, nil
	}
	r, err := e.Run(context.Background(), start)
	if err != nil || !r.Success {
		fmt.Println(r, err)
		return 1
	}
	e.Loops.Close()
	return 0
}

// TestKilled kills a process before each change that its thread makes. The thread goes on in another process, under
// its own lock though the project has another by then, and is in the end what it would have been: a call that only
// reads may run twice, any other never does.
func TestKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("one process after the other")
	}
	items := withOutputs(strings.Replace(asking, "<tool>acme/echo</tool>", "<tool>acme/*</tool>", 1))
	items["tools/acme/echo.yaml"] = here
	items["tools/acme/mark.yaml"] = strings.Replace(here, "risk: read", "risk: write", 1)
	killed, ended := 0, false
	for n := 1; !ended; n++ {
		w := newWorld(t, items)
		w.lock()
		w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
			all := q.Body["messages"].([]any)
			usage := provider.Usage{Input: 10, Output: 5}
			if all[len(all)-1].(object)["role"] == "tool" {
				return modeltest.Turn{Calls: []provider.ToolCall{call("z", "directive_return", object{"answer": "x"})},
					Usage: usage}
			}
			return modeltest.Turn{Usage: usage, Calls: []provider.ToolCall{executes("a", "acme/echo",
				object{"text": "x"}), executes("b", "acme/mark", object{"text": "y"})}}
		})
		if ended = !w.doom(doomed{At: n}); !ended {
			killed++
		}
		w.Put("tools/acme/later.yaml", here)
		w.lock()
		w.goOn(n, ended)
	}
	if killed < 20 {
		t.Errorf("%d were killed", killed)
	}
}

// doom runs the directive in a process that kills itself, and reports whether it did.
func (w *world) doom(d doomed) (killed bool) {
	w.t.Helper()
	d.Base = filepath.Dir(w.Dir)
	text, err := json.Marshal(d)
	must(w.t, err)
	self, err := os.Executable()
	must(w.t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "RYE_TEST_THREAD="+string(text))
	out, err := cmd.CombinedOutput()
	if killed = cmd.ProcessState.ExitCode() == -1; err != nil && !killed {
		w.t.Fatalf("%+v: %v, %s", d, err, out)
	}
	return killed
}

// TestKilledInHook kills a process while a hook does something about a failed model call. The thread asks the model
// again, the hook's call isn't made again, and the record plays back.
func TestKilledInHook(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("one process after the other")
	}
	hooks := func(tools ...string) map[string]string {
		var text string
		for i, tool := range tools {
			text += fmt.Sprintf(
				`<hook event="error" id="h%d"><execute>acme/%s</execute><inputs><text>x</text></inputs></hook>`, i,
				tool)
		}
		items := withHooks(text + `<hook event="error" id="again"><action>retry</action><delay>0</delay></hook>`)
		items["directives/acme/asking.md"] = strings.Replace(items["directives/acme/asking.md"],
			"<tool>acme/echo</tool>", "<tool>acme/*</tool>", 1)
		items["tools/acme/mark.star"] = strings.Replace(strings.Replace(echo, "risk: read", "risk: write", 1),
			"Gives back", "Marks", 1)
		return items
	}
	for _, c := range []struct {
		name, before string
		tools        []string
		types        string
	}{
		{"in a call", `"type":"error_classified"`, []string{"mark"},
			"call_started driver continued call_result error_classified request"},
		{"in a call that reads", `"type":"error_classified"`, []string{"echo"},
			"call_started driver continued call_result error_classified request"},
		{"in the second call", `"type":"error_classified"`, []string{"mark", "echo"},
			"call_started call_result call_started driver continued call_result error_classified request"},
		{"before a call", `"type":"call_started"`, []string{"mark"}, "driver continued error_classified request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, hooks(c.tools...), modeltest.Turn{Status: 503}, echoes("y"), done)
			if !w.doom(doomed{Before: c.before}) {
				t.Fatal("it wasn't killed")
			}
			rows, err := control.Tidy(t.Context(), w.engine.Roster, w.engine.Ledger, roster.Filter{}, time.Now())
			must(t, err)
			r, err := w.resume(rows[0].ID)
			if err != nil || !r.Success || r.Result != "done" {
				t.Fatalf("%+v, %v, %v", r, err, r.Error)
			}
			events := w.events(r)
			if got := types(events); !strings.HasPrefix(got,
				"thread_started driver request "+c.types+" answer call_started call_result checkpoint request") {
				t.Errorf("recorded %s", got)
			}
			calls := map[string]int{}
			for _, e := range events {
				var s transcript.CallStarted
				if e.Type == transcript.TypeCallStarted {
					must(t, e.Decode(&s))
					calls[s.Call]++
				}
				var r transcript.CallResult
				if e.Type == transcript.TypeCallResult {
					must(t, e.Decode(&r))
					if calls[r.Call] != 1 {
						t.Errorf("%s has %d beginnings", r.Call, calls[r.Call])
					}
				}
			}
			w.same(r.Thread)
		})
	}
}

// TestKilledInHandoff kills a process between the first trace of the thread that goes on and the last event of the one
// before. Whichever is resumed, there is one successor, and it has what was left.
func TestKilledInHandoff(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("one process after the other")
	}
	for _, c := range []struct {
		name, before string
		alone        bool // the successor is resumed first
	}{
		{"before it is registered", `"op":"create".*"continues"`, false},
		{"before it is claimed", `"op":"claim".*"continues"`, false},
		{"before it has a transcript", `"continues".*"format":"rye transcript`, false},
		{"before the last event", `"type":"thread_continued"`, false},
		{"before the last event, alone", `"type":"thread_continued"`, true},
		{"before the last state", `"op":"continued"`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, withOutputs(asking))
			w.narrow()
			answer, handed := handing()
			w.server.Handle(answer)
			if !w.doom(doomed{Before: c.before, Limits: []string{"spend=0.4"}}) {
				t.Fatal("it wasn't killed")
			}
			old, next := w.generations()
			id := old.ID
			if c.alone {
				id = next.ID
			}
			r, err := w.resume(id)
			if err != nil || !r.Success || r.Outputs["answer"] != "four" {
				t.Fatalf("%+v, %v, %v", r, err, r.Error)
			}
			if now, _ := w.generations(); now.State == roster.Interrupted {
				if r, err = w.resume(old.ID); err != nil || !r.Success || r.Outputs["answer"] != "four" {
					t.Fatalf("%+v, %v", r, err)
				}
			}
			old, last := w.generations()
			if next != nil && last.ID != next.ID || old.State != roster.Continued || old.Next != last.ID ||
				last.State != roster.Completed || *handed != 1 {
				t.Errorf("%+v, %+v, %d times", old, last, *handed)
			}
			for _, row := range []*roster.Thread{old, last} {
				if a := w.account(row.ID); !a.Closed {
					t.Errorf("%+v", a)
				}
				if v, err := transcript.Verify(t.Context(), row.Dir(),
					transcript.Check{Keys: w.machine()}); err != nil || v.Problem != nil {
					t.Errorf("%v, %v", v.Problem, err)
				}
				w.same(row.ID)
			}
		})
	}
}

// narrow makes the window of the model small, and its tokens dear.
func (w *world) narrow() { w.t.Helper(); w.provider(4000) }

// provider makes a provider whose tokens have a price, and whose window has so many, with other parts of its text
// replaced.
func (w *world) provider(window int, replaced ...string) {
	w.t.Helper()
	head, rest, _ := strings.Cut(w.server.Item("local"), "pricing:")
	_, rest, _ = strings.Cut(rest, "\n")
	for len(rest) > 0 && (rest[0] == ' ' || rest[0] == '#') {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	item := strings.Replace(head+"pricing: {\"*\": {input: \"1\", output: \"1\"}}\n"+rest, "context_window: 32768\n",
		fmt.Sprintf("context_window: %d\n", window), 1)
	w.Put("tools/rye/agent/providers/local.yaml", strings.NewReplacer(replaced...).Replace(item))
}

// handing answers a thread until its narrow window is full, and counts how often it is asked by the next one.
func handing() (answer func(q *modeltest.Request) modeltest.Turn, handed *int) {
	turn := int64(0)
	handed = new(int)
	return func(q *modeltest.Request) modeltest.Turn {
		all := fmt.Sprint(q.Body["messages"])
		switch {
		case strings.Contains(all, "Write that summary"):
			return modeltest.Turn{Text: "We were at three.", Usage: provider.Usage{Input: 7, Output: 3}}
		case strings.Contains(all, "We were at three."):
			*handed++
			return modeltest.Turn{Calls: []provider.ToolCall{call("z", "directive_return", object{"answer": "four"})},
				Usage: provider.Usage{Input: 50, Output: 5}}
		}
		turn++
		return modeltest.Turn{Calls: []provider.ToolCall{executes(fmt.Sprint("c", turn), "acme/echo",
			object{"text": "x"})}, Usage: provider.Usage{Input: turn * 1240, Output: 5}}
	}, handed
}

// generations tidies, and returns the thread that was begun and the only one that may go on with it.
func (w *world) generations() (old, next *roster.Thread) {
	w.t.Helper()
	rows, err := control.Tidy(w.t.Context(), w.engine.Roster, w.engine.Ledger, roster.Filter{}, time.Now())
	must(w.t, err)
	for _, row := range rows {
		switch {
		case row.Directive != "directive:acme/asking":
		case row.Continues == "" && old == nil:
			old = row
		case row.Continues != "" && next == nil:
			next = row
		default:
			w.t.Fatalf("one too many: %+v", row)
		}
	}
	return old, next
}

// goOn resumes the one thread of a world, if it has begun, and checks what came of it.
func (w *world) goOn(n int, ended bool) {
	t := w.t
	rows, err := control.Tidy(t.Context(), w.engine.Roster, w.engine.Ledger, roster.Filter{}, time.Now())
	must(t, err)
	if len(rows) == 0 {
		return
	}
	id := rows[0].ID
	if !rows[0].State.Ended() {
		r, err := w.resume(id)
		if err != nil && fault.CodeOf(err) == fault.NotFound {
			if _, missing := os.Stat(filepath.Join(w.dir(id), transcript.LinesFile)); errors.Is(missing,
				os.ErrNotExist) {
				return // killed before the first line
			}
		}
		if err != nil || !r.Success || r.Outputs["answer"] != "x" {
			t.Fatalf("before change %d: %+v, %v", n, r, err)
		}
	}
	if row := w.state(id); row.State != roster.Completed {
		t.Errorf("before change %d: %+v", n, row)
	}
	began := map[string]int{}
	for _, e := range w.events(&thread.Result{Thread: id}) {
		var c transcript.CallStarted
		if e.Type == transcript.TypeCallStarted && e.Decode(&c) == nil {
			began[c.Ref]++
		}
	}
	if made := w.echoed("y"); began["tool:acme/mark"] != 1 || began["tool:acme/echo"] != 1 || made > 1 {
		t.Errorf("before change %d: %v, made %d times", n, began, made)
	}
	if a := w.account(id); !a.Closed && !ended {
		t.Errorf("before change %d: %+v", n, a)
	}
	r, err := transcript.Verify(t.Context(), w.dir(id), transcript.Check{Keys: w.machine()})
	must(t, err)
	if r.Problem != nil {
		t.Errorf("before change %d: %v", n, r.Problem)
	}
	w.same(id)
}

// TestKilledAtEnd kills a process that has recorded the end of its thread, before the registry knows of it. The thread
// has ended.
func TestKilledAtEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOutputs(asking), modeltest.Turn{Calls: []provider.ToolCall{call("z", "directive_return",
		object{"answer": "x"})}})
	if !w.doom(doomed{Before: `"completed"`}) {
		t.Fatal("it wasn't killed")
	}
	rows, err := w.engine.Roster.Threads(t.Context(), roster.Filter{})
	must(t, err)
	if len(rows) != 1 || rows[0].State.Ended() {
		t.Fatalf("%+v", rows)
	}
	if r, err := w.resume(rows[0].ID); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("%+v, %v", r, err)
	}
	if row := w.state(rows[0].ID); row.State != roster.Completed {
		t.Errorf("%+v", row)
	}
}
