package thread_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// runJob runs the thread of a job, as rye run does in a process of its own.
func (d *doomed) runJob(hook func(op, path string, b []byte) error) int {
	word := &toolcall.Word{Process: os.Getpid()}
	fail := func(err error) int {
		o := fault.Of(err).Object()
		word.Error = &o
		_ = toolcall.Tell(os.Stdout, word)
		return 1
	}
	text, err := io.ReadAll(os.Stdin)
	if err == nil && d.Keep != "" {
		err = os.WriteFile(d.Keep, text, 0o600)
	}
	if err != nil {
		return fail(err)
	}
	job, err := toolcall.ParseJob(text)
	if err != nil {
		return fail(err)
	}
	e, err := d.open(hook)
	if err != nil {
		return fail(err)
	}
	k, err := e.Session.Kernel()
	if err != nil {
		return fail(err)
	}
	now := time.Now()
	if d.Late {
		now = now.Add(25 * time.Hour)
	}
	ref := model.Ref{Kind: "directive", ID: "acme/step"}
	above, inputs, err := job.Take(k.Machine.Public(), ref, e.Session.Set(), now)
	if err != nil {
		return fail(err)
	}
	began := false
	r, err := e.Run(context.Background(), &thread.Start{Directive: ref, Inputs: params.Values(inputs),
		Model: job.Child.Model, Limits: job.Child.Limits, Above: above,
		ID: job.Thread, Began: func(limits.Set) error {
			word.Thread, began = job.Thread, true
			return toolcall.Tell(os.Stdout, word)
		}})
	if err != nil && !began {
		return fail(err)
	}
	fmt.Fprintln(os.Stderr, r, err)
	e.Loops.Close()
	return 0
}

// detached makes a world whose threads may start acme/step in processes of their own. step answers its model.
func detached(t *testing.T, step func() modeltest.Turn) (w *world, keep string) {
	items := plan(`<limits spend="0.5"/>`)
	items["directives/acme/step.md"] = strings.NewReplacer("LIMITS", "", `name="plan"`, `name="step"`,
		"start {input:what?}", "Do {input:what?}").Replace(parent)
	w, _ = family(t, items, nil)
	w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
		all := q.Body["messages"].([]any)
		first, last := fmt.Sprint(all[0]), all[len(all)-1].(object)
		usage := provider.Usage{Input: 10, Output: 5}
		switch {
		case strings.Contains(first, "Do "):
			return step()
		case last["role"] != "tool":
			return modeltest.Turn{Text: "on", Usage: usage,
				Calls: []provider.ToolCall{starts("a", "acme/step",
					object{"async_exec": true, "inputs": object{"what": "this"}})}}
		}
		var r object
		must(t, json.Unmarshal([]byte(last["content"].(string)), &r))
		return modeltest.Turn{Text: fmt.Sprint(r["status"], r["error"]), Usage: usage}
	})
	keep = filepath.Join(t.TempDir(), "job")
	w.engine.Detach = func(model.Ref) (proc.Command, error) { return w.job(doomed{Keep: keep}) }
	return w, keep
}

// job is the command that runs a job.
func (w *world) job(d doomed) (proc.Command, error) {
	d.Base, d.Job = filepath.Dir(w.Dir), true
	text, err := json.Marshal(d)
	must(w.t, err)
	self, err := os.Executable()
	return proc.Command{Path: self, Env: append(os.Environ(), "RYE_TEST_THREAD="+string(text)), Dir: w.Dir}, err
}

// over waits until a thread has a state that it doesn't leave by itself.
func (w *world) over(directive string) *roster.Thread {
	w.t.Helper()
	for mark := ""; ; {
		for _, row := range all(w.t, w) {
			if row.Directive == "directive:"+directive &&
				(row.State.Ended() || row.State == roster.Interrupted || row.Dead) {
				return w.state(row.ID) // which a process that died meanwhile has set before
			}
		}
		next, err := w.engine.Roster.Changed(w.t.Context(), mark)
		must(w.t, err)
		mark = next
	}
}

// TestDetached: a child that runs in a process of its own may do no more than its parent, has a part of its budget,
// and is what its parent's record names. Its job counts once, for it alone, and not for ever.
func TestDetached(t *testing.T) {
	t.Parallel()
	w, keep := detached(t, func() modeltest.Turn {
		return modeltest.Turn{Text: "done", Usage: provider.Usage{Input: 10, Output: 5}}
	})
	r := w.plan("top")
	if !r.Success || r.Result != "running<nil>" {
		t.Fatalf("%+v, %v", r, r.Error)
	}
	row := w.over("acme/step")
	if row.State != roster.Completed || row.Parent != r.Thread || row.Driver.Process == os.Getpid() ||
		all(t, w)[r.Thread].Spawned != 1 {
		t.Errorf("%+v", row)
	}
	if a := w.account(row.ID); a.Parent != r.Thread || a.Budget == nil || *a.Budget > 25e7 || !a.Closed {
		t.Errorf("%+v", a)
	}
	if _, err := os.Stat(filepath.Join(row.Dir(), toolcall.LogFile)); err != nil {
		t.Error(err)
	}
	v, err := transcript.Verify(t.Context(), row.Dir(), transcript.Check{Keys: w.machine()})
	if err != nil || v.Problem != nil {
		t.Errorf("%v, %v", v, err)
	}
	w.same(r.Thread)

	text, err := os.ReadFile(keep)
	must(t, err)
	job, err := toolcall.ParseJob(text)
	must(t, err)
	if len(job.Child.Tokens) != 2 || strings.Contains(strings.Join(os.Environ(), " "), job.Child.Tokens[1]) {
		t.Errorf("%+v", job.Child)
	}
	other := *job
	other.Thread = "acme/step-1795000001-k3v9q"
	stolen := *job
	child := *job.Child
	child.Parent = "acme/plan-1795000000-a2b3c"
	stolen.Child = &child
	short := *job
	cut := *job.Child
	cut.Tokens = cut.Tokens[1:]
	short.Child = &cut
	for name, c := range map[string]struct {
		job  *toolcall.Job
		with doomed
		code fault.Code
	}{
		"replayed": {job, doomed{}, fault.Conflict}, "expired": {job, doomed{Late: true}, fault.Expired},
		"of another thread": {&other, doomed{}, fault.Denied},
		"of another parent": {&stolen, doomed{}, fault.Denied}, "cut off": {&short, doomed{}, fault.Denied},
	} {
		again, err := json.Marshal(c.job)
		must(t, err)
		command, err := w.job(c.with)
		must(t, err)
		var out bytes.Buffer
		command.Stdin, command.Stdout = bytes.NewReader(again), &out
		_, err = proc.Run(t.Context(), command)
		must(t, err)
		var word toolcall.Word
		if err := json.Unmarshal(out.Bytes(), &word); err != nil || word.Error == nil || word.Error.Code != c.code ||
			word.Error.Suggestion == "" && c.code != fault.Conflict {
			t.Errorf("%s: %s, %v", name, out.String(), err)
		}
	}
	if n := len(all(t, w)); n != 2 {
		t.Errorf("%d threads", n)
	}
}

// TestDetachedEnds: a child in another process is cancelled with its parent, unless the project's policy lets it go
// on; killed with -9 it is interrupted, and goes on.
func TestDetachedEnds(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]roster.State{"": roster.Cancelled,
		"child_policy: {on_parent_cancel: continue}\n": roster.Completed} {
		t.Run("cancelled and "+string(want), func(t *testing.T) {
			hold := make(chan struct{}) // open until the parent has ended
			w, _ := detached(t, nil)
			if policy != "" {
				w.Put("config/resilience.yaml", policy)
			}
			w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
				all := q.Body["messages"].([]any)
				usage := provider.Usage{Input: 10, Output: 5}
				switch first := fmt.Sprint(all[0]); {
				case strings.Contains(first, "Do ") && len(all) > 1 && want == roster.Completed:
					return modeltest.Turn{Text: "done", Usage: usage}
				case strings.Contains(first, "Do "):
					<-hold
					return modeltest.Turn{Text: "on", Usage: usage,
						Calls: []provider.ToolCall{executes("e", "acme/echo", object{"text": "x"})}}
				case len(all) == 1:
					return modeltest.Turn{Text: "on", Usage: usage,
						Calls: []provider.ToolCall{starts("a", "acme/step", object{"async_exec": true})}}
				}
				w.ask(w.running("acme/plan"), roster.Cancel)
				return modeltest.Turn{Text: "on", Usage: usage,
					Calls: []provider.ToolCall{executes("e", "acme/echo", object{"text": "x"})}}
			})
			if r := w.plan("top"); r.Status != thread.Cancelled {
				t.Errorf("%+v, %v", r, r.Error)
			}
			close(hold)
			if row := w.over("acme/step"); row.State != want ||
				strings.Contains(row.Asked.Reason, "not needed") != (want == roster.Cancelled) {
				log, _ := os.ReadFile(filepath.Join(row.Dir(), toolcall.LogFile))
				t.Errorf("%+v: %s", row, log)
			}
		})
	}
	t.Run("killed", func(t *testing.T) {
		died := false
		var w *world
		w, _ = detached(t, func() modeltest.Turn {
			if died {
				return modeltest.Turn{Text: "done", Usage: provider.Usage{Input: 10, Output: 5}}
			}
			died = true
			row := all(t, w)[w.running("acme/step")]
			p, err := os.FindProcess(row.Driver.Process)
			must(t, err)
			must(t, p.Kill())
			return modeltest.Turn{Hang: true}
		})
		w.plan("top")
		id := w.over("acme/step").ID
		_, err := control.Tidy(t.Context(), w.engine.Roster, w.engine.Ledger, roster.Filter{}, time.Now())
		must(t, err)
		if row := w.state(id); row.State != roster.Interrupted {
			t.Errorf("%+v", row)
		}
		if r, err := w.resume(id); err != nil || !r.Success || r.Result != "done" {
			t.Errorf("%+v, %v", r, err)
		}
		w.same(id)
	})
}

// TestDetachedKilled kills the process of a child before each change that it makes. What its parent was told holds:
// the child goes on in another process, makes no call twice, and its parent's account has what it has spent, no more
// and no less.
func TestDetachedKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("one process after the other")
	}
	killed, resumed := 0, 0
	for n := 1; ; n++ {
		w, row := detachedKilled(t, n)
		if row != nil {
			resumed += w.settled(n, row)
		}
		if made := w.echoed("y"); made > 1 {
			t.Errorf("before change %d: made %d times", n, made)
		}
		if row != nil && row.State == roster.Completed && !row.Dead {
			break
		}
		killed++
	}
	if killed < 20 || resumed < 10 {
		t.Errorf("%d were killed, %d went on", killed, resumed)
	}
}

// detachedKilled starts a child whose process kills itself before its n-th change, and returns its row, nil if it has
// none.
func detachedKilled(t *testing.T, n int) (*world, *roster.Thread) {
	w, keep := detached(t, nil)
	w.provider(32768)
	must(t, os.Remove(filepath.Join(w.Dir, ".ai/tools/acme/echo.star")))
	for name, risk := range map[string]string{"echo": "read", "mark": "write"} {
		w.Put("tools/acme/"+name+".yaml", strings.Replace(here, "risk: read", "risk: "+risk, 1))
	}
	for name, limits := range map[string]string{"plan": `<limits spend="0.5"/>`, "step": ""} {
		text := strings.NewReplacer("LIMITS", limits, `name="plan"`, `name="`+name+`"`, "<tool>acme/echo</tool>",
			"<tool>acme/*</tool>").Replace(parent)
		w.Put("directives/acme/"+name+".md", strings.Replace(text, "start {input",
			map[string]string{"plan": "start {input", "step": "Do {input"}[name], 1))
	}
	usage := provider.Usage{Input: 10, Output: 5}
	w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
		all := q.Body["messages"].([]any)
		switch first := fmt.Sprint(all[0]); {
		case all[len(all)-1].(object)["role"] == "tool":
			return modeltest.Turn{Text: "done", Usage: usage}
		case strings.Contains(first, "Do "):
			return modeltest.Turn{Usage: usage, Calls: []provider.ToolCall{executes("a", "acme/echo",
				object{"text": "x"}), executes("b", "acme/mark", object{"text": "y"})}}
		}
		return modeltest.Turn{Text: "on", Usage: usage,
			Calls: []provider.ToolCall{starts("a", "acme/step",
				object{"async_exec": true, "inputs": object{"what": "this"}})}}
	})
	w.engine.Detach = func(model.Ref) (proc.Command, error) { return w.job(doomed{Keep: keep, At: n}) }
	if r := w.plan("top"); !r.Success {
		t.Fatalf("before change %d: %+v, %v", n, r, r.Error)
	}
	for mark := ""; ; {
		_, alive := os.Stat(keep + ".killed")
		for _, row := range all(t, w) {
			if row.Directive == "directive:acme/step" &&
				(row.State.Ended() || row.Dead || row.State == roster.Created && alive == nil) {
				return w, row
			}
		}
		if alive == nil && len(all(t, w)) == 1 {
			return w, nil
		}
		next, err := w.engine.Roster.Changed(t.Context(), mark)
		must(t, err)
		mark = next
	}
}

// settled has a child go on whose process was killed, and checks what came of it.
func (w *world) settled(n int, row *roster.Thread) (resumed int) {
	t := w.t
	_, err := control.Tidy(t.Context(), w.engine.Roster, w.engine.Ledger, roster.Filter{}, time.Now())
	must(t, err)
	if !transcript.Exists(row.Dir()) {
		return 0 // its parent knows that it could not be started
	}
	if w.state(row.ID).State == roster.Interrupted {
		resumed = 1
		if r, err := w.resume(row.ID); err != nil || !r.Success || r.Result != "done" {
			t.Fatalf("before change %d: %+v, %v", n, r, err)
		}
	}
	if now := w.state(row.ID); now.State != roster.Completed {
		t.Errorf("before change %d: %+v", n, now)
	}
	began := map[string]int{}
	for _, e := range w.events(&thread.Result{Thread: row.ID}) {
		var c transcript.CallStarted
		if e.Type == transcript.TypeCallStarted && e.Decode(&c) == nil {
			began[c.Ref]++
		}
	}
	if began["tool:acme/mark"] != 1 || began["tool:acme/echo"] != 1 {
		t.Errorf("before change %d: %v", n, began)
	}
	_, err = control.Tidy(t.Context(), w.engine.Roster, w.engine.Ledger, roster.Filter{}, time.Now())
	must(t, err)
	child, top := w.account(row.ID), w.account(row.Parent)
	if !child.Closed || child.Held != 0 || top.Below != child.Own || child.Own < 30_000 || child.Budget == nil ||
		child.Own > *child.Budget {
		t.Errorf("before change %d: %+v, %+v", n, child, top)
	}
	v, err := transcript.Verify(t.Context(), row.Dir(), transcript.Check{Keys: w.machine()})
	if err != nil || v.Problem != nil {
		t.Errorf("before change %d: %v, %v", n, v, err)
	}
	w.same(row.ID)
	return resumed
}
