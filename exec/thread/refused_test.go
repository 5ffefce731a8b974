package thread_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/limits"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// left is a thread that another process began as started says, and left.
func (w *world) left(id string, started *transcript.Started) {
	w.t.Helper()
	lease, err := roster.BeginLease(w.t.Context(), w.engine.Roster, w.engine.Dir,
		&roster.Thread{ID: id, Kind: started.Kind, Directive: started.Directive.Ref,
			Created: time.Now().UTC().Round(0)}, limits.Unlimited)
	must(w.t, err)
	k, err := w.engine.Session.Kernel()
	must(w.t, err)
	record, err := transcript.Create(lease.Dir, id, *started, lease.Driver(k, "rye test"),
		transcript.Options{Key: k.Machine, Now: time.Now, Guard: lease.Guard})
	must(w.t, err)
	must(w.t, record.Close(), lease.Leave(w.t.Context(), roster.Interrupted, ""))
}

// started is how a thread of the directive begins here.
func (w *world) started() *transcript.Started {
	w.t.Helper()
	r, err := w.run(w.t.Context(), thread.Start{Limits: []string{"turns=0"}})
	must(w.t, err)
	s := new(transcript.Started)
	must(w.t, w.events(r)[0].Decode(s))
	return s
}

// TestNotResumed: a thread doesn't go on with another lock, directive or model than it began with, and says why. It
// stays as it is.
func TestNotResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plain(asking), done)
	for id, c := range map[string]struct {
		change func(*transcript.Started)
		code   fault.Code
		want   string
		epoch  int64 // 1 if nothing was claimed
	}{
		"acme/lock-1-aaaaa": {func(s *transcript.Started) {
			s.Set = cas.Sum([]byte("other"))
		}, fault.LockMismatch, "ran with another lock", 1},
		"acme/directive-1-aaaaa": {func(s *transcript.Started) {
			s.Directive.Digest = cas.Sum([]byte("other"))
		}, fault.Conflict, "has changed since the thread", 1},
		"acme/none-1-aaaaa": {func(s *transcript.Started) {
			s.Directive.Ref = "directive:acme/none"
		}, fault.NotFound, "acme/none", 1},
		"acme/kind-1-aaaaa": {func(s *transcript.Started) {
			s.Kind = "graph"
		}, fault.Validation, "is that of a graph, which", 1},
		"acme/inputs-1-aaaaa": {func(s *transcript.Started) {
			s.Given = nil
		}, fault.Validation, "doesn't have the inputs", 1},
		"acme/model-1-aaaaa": {func(s *transcript.Started) { s.Model = "gone/model" }, fault.NotFound, "gone", 1},
		"acme/grants-1-aaaaa": {func(s *transcript.Started) {
			s.Grants = []string{"everything"}
		}, fault.Validation, "everything", 1},
		"acme/handed-1-aaaaa": {func(s *transcript.Started) {
			s.Continues = "acme/old-1-aaaaa"
		}, fault.Conflict, "was not handed its work: resume acme/old-1-aaaaa", 2},
	} {
		s := w.started()
		c.change(s)
		w.left(id, s)
		if r, err := w.resume(id); err == nil || fault.CodeOf(err) != c.code ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v; want %s", id, r, err, c.code)
		}
		if row := w.state(id); row.State != roster.Interrupted || row.Epoch != c.epoch {
			t.Errorf("%s: %+v", id, row)
		}
	}
	w.left("acme/limits-1-aaaaa", w.started())
	if r, err := w.resume("acme/limits-1-aaaaa", "turns=many"); fault.CodeOf(err) != fault.Validation {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := w.resume("acme/limits-1-aaaaa", "turns=1"); err != nil || r.Result != "done" {
		t.Errorf("what is left goes on: %+v, %v", r, err)
	}
	w.left("acme/lost-1-aaaaa", w.started())
	must(t, os.RemoveAll(w.dir("acme/lost-1-aaaaa")))
	if r, err := w.resume("acme/lost-1-aaaaa"); fault.CodeOf(err) != fault.NotFound ||
		!strings.Contains(err.Error(), "is lost") {
		t.Errorf("%+v, %v", r, err)
	}
	w.left("acme/torn-1-aaaaa", w.started())
	lines := w.dir("acme/torn-1-aaaaa") + "/" + transcript.LinesFile
	must(t, os.WriteFile(lines, []byte("{}\n"), 0o600))
	if r, err := w.resume("acme/torn-1-aaaaa"); err == nil {
		t.Errorf("a torn transcript goes on: %+v", r)
	}
	must(t, os.Remove(lines))
	if r, err := w.resume("acme/torn-1-aaaaa"); fault.CodeOf(err) != fault.NotFound ||
		!strings.Contains(err.Error(), "had not begun") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestNarrowed: a thread keeps no permission that its directive has lost, nor gets one that it didn't begin with.
func TestNarrowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plain(asking), echoes("x"), done)
	s := w.started()
	s.Grants = []string{"search:tool:acme/*"}
	w.left("acme/narrowed-1-aaaaa", s)
	r, err := w.resume("acme/narrowed-1-aaaaa", "turns=2")
	if err != nil || !r.Success || !strings.Contains(string(w.server.Requests()[1].Raw), "PERMISSION_DENIED") {
		t.Errorf("%+v, %v: %s", r, err, w.server.Requests()[1].Raw)
	}
}

// TestNotPlayedBack: what a record can't be compared with ends the comparison at its start.
func TestNotPlayedBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plain(asking), done)
	if r, err := w.engine.PlayBack(t.Context(), t.TempDir()); err == nil {
		t.Errorf("%+v", r)
	}
	for id, c := range map[string]struct {
		change func(*transcript.Started)
		want   string // an error, or
		member string // what differs
	}{
		"acme/inputs-1-aaaaa": {func(s *transcript.Started) {
			s.Given = map[string]any{"topic": 5}
		}, "invalid inputs", ""},
		"acme/grants-1-aaaaa": {func(s *transcript.Started) {
			s.Grants = []string{"search:tool:acme/*"}
		}, "", "grants"},
		"acme/parent-1-aaaaa": {func(s *transcript.Started) {
			s.Grants, s.Parent = []string{"search:tool:acme/*"}, "acme/up-1-aaaaa"
		}, "", ""},
		"acme/bad-1-aaaaa": {func(s *transcript.Started) {
			s.Grants, s.Parent = []string{"x"}, "acme/up-1-aaaaa"
		}, "x", ""},
		"acme/model-1-aaaaa": {func(s *transcript.Started) { s.Model = "gone/model" }, "gone", ""},
		"acme/same-1-aaaaa":  {func(*transcript.Started) {}, "", ""},
	} {
		s := w.started()
		c.change(s)
		w.left(id, s)
		r, err := w.engine.PlayBack(t.Context(), w.dir(id))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", id, err)
		}
		if err != nil {
			continue
		}
		if (r.Difference == nil) != (c.member == "") || r.Difference != nil &&
			!strings.Contains(strings.Join(r.Difference.Lines(), "\n"), c.member) {
			t.Errorf("%s: %+v", id, r.Difference)
		}
		if r.Difference == nil && r.Status != transcript.StatusUnfinished {
			t.Errorf("%s: %+v", id, r)
		}
	}
}

// TestHookResults: what a hook runs gives it a result, large or not, and what fails is recorded with it.
func TestHookResults(t *testing.T) {
	t.Parallel()
	large := config(plain(asking),
		"hooks: [{id: a, event: after_step, action: {item_id: acme/echo, params: {text: x, times: 20000}}}]\n")
	for _, c := range []struct {
		name, hooks string
		result      string // has this
		length      int
	}{
		{"search",
			`<hook event="after_step" id="a"><tool>rye.primary.search</tool><params><query>echo</query><scope>tool.acme.*</scope></params></hook>`,
			"tool:acme/echo", 0},
		{"a file", `<hook event="after_step" id="a"><load item_type="tool">acme/echo</load></hook>`,
			"def main(params)", 0},
		{"fails", `<hook event="after_step" id="a"><tool>acme.echo</tool><params><text>fail</text></params></hook>`,
			"EXECUTION_FAILED", 0},
		{"large", "", strings.Repeat("x", 20_000), 20_000},
	} {
		items := withHooks(c.hooks)
		if c.hooks == "" {
			items = large
		}
		w := newWorld(t, items, echoes("x"), done)
		r, err := w.run(t.Context(), thread.Start{})
		must(t, err)
		found := false
		for _, e := range w.events(r) {
			found = found || e.Type == transcript.TypeHook && strings.Contains(string(e.Payload), c.result)
		}
		if !found || !r.Success {
			t.Errorf("%s: %+v, %v", c.name, r, w.hooksOf(r))
		}
		w.same(r.Thread)
	}
}

// TestHookEnds: hooks that stop calls before they are made, and that cancel a thread whose model call failed.
func TestHookEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hooks  string
		turn   modeltest.Turn
		status string
	}{
		{`<hook event="tool_call_start" id="a" condition="input == null or item == ''"><action>abort</action></hook>`,
			modeltest.Turn{Calls: []provider.ToolCall{{ID: "a", Name: "rye_execute", Raw: `{"item_type":`}}},
			thread.Cancelled},
		{`<hook event="error" id="a"><action>abort</action></hook>`, modeltest.Turn{Status: 404}, thread.Cancelled},
	} {
		w := newWorld(t, withHooks(c.hooks), c.turn)
		r, err := w.run(t.Context(), thread.Start{})
		must(t, err)
		if r.Status != c.status || strings.Join(w.hooksOf(r), ", ") != "a abort" ||
			strings.Contains(types(w.events(r)), "call_started") ||
			!strings.HasSuffix(types(w.events(r)), "thread_cancelled checkpoint") {
			t.Errorf("%+v, %v: %s", r, w.hooksOf(r), types(w.events(r)))
		}
		w.same(r.Thread)
	}
	// A failure that no policy would try again waits a second when a hook says so.
	w := newWorld(t, withHooks(`<hook event="error" id="a"><action>retry</action></hook>`),
		modeltest.Turn{Status: 404})
	ctx, cancel := context.WithCancelCause(t.Context())
	var was transcript.Classified
	_, err := w.run(ctx, thread.Start{Live: thread.Live{Event: func(e *transcript.Event) {
		if e.Type == transcript.TypeClassified {
			must(t, e.Decode(&was))
			cancel(errors.New("enough"))
		}
	}}})
	must(t, err)
	if was.Action != "retry" || was.Delay != time.Second {
		t.Errorf("%+v", was)
	}
}

// TestSummary: without a summary the new thread begins with the last messages, and a summary may be long.
func TestSummary(t *testing.T) {
	t.Parallel()
	summarising := func(id string) string {
		return "coordination: {continuation: {summary_directive: " + id + "}}\n"
	}
	for _, c := range []struct {
		name, config, summary string
		begins, ends          string // what the new thread begins with, or why there is none
	}{
		{"none", summarising("acme/none"), "", "Ask about rye", ""},
		{"not an id", summarising("'../x'"), "", "", "invalid directive"},
		{"empty", "", "", "Ask about rye", ""},
		{"long", "", strings.Repeat("We were at three. ", 2000), "We were at three. We were at three.", ""},
	} {
		items := plain(asking)
		if c.config != "" {
			items["config/coordination.yaml"] = c.config
		}
		w := newWorld(t, items)
		w.window(100_000)
		handed := ""
		w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
			switch all := string(q.Raw); {
			case strings.Contains(all, "Write that summary"):
				return modeltest.Turn{Text: c.summary, Usage: provider.Usage{Input: 7, Output: 3}}
			case len(w.server.Requests()) > 1:
				handed = all
				return done
			}
			turn := echoes("x")
			turn.Usage.Input = 95_000
			return turn
		})
		r, err := w.run(t.Context(), thread.Start{Limits: []string{"tokens=1000000"}})
		must(t, err)
		if c.ends != "" {
			if r.Error == nil || !strings.Contains(r.Error.Text, c.ends) {
				t.Errorf("%s: %+v, %v", c.name, r, r.Error)
			}
			continue
		}
		if !r.Success || !strings.Contains(handed, c.begins) || w.state(r.Thread).Continues == "" {
			t.Errorf("%s: %+v, %v: %.500s", c.name, r, r.Error, handed)
		}
	}
}

// TestNotBegun: no thread begins with an item or config that isn't signed or says what can't be.
func TestNotBegun(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"resilience", "error_classification", "capabilities", "coordination",
		"hook_conditions", "events"} {
		w := newWorld(t, plain(asking))
		w.Write(".ai/config/"+name+".yaml", "{}\n")
		if r, err := w.run(t.Context(), thread.Start{}); fault.CodeOf(err) != fault.Unsigned {
			t.Errorf("config:%s: %+v, %v", name, r, err)
		}
	}
	bad := strings.Replace(modeltest.New(t).Item("local"), "context_window: 32768", "context_window: many", 1)
	for _, c := range []struct {
		name, text string
		code       fault.Code
		want       string
	}{
		{"config/coordination.yaml", "coordination: {continuation: {trigger_threshold: 2}}\n", fault.Config,
			"trigger_threshold"},
		{"config/coordination.yaml", "coordination: {continuation: {pressure_threshold: -1}}\n", fault.Config,
			"pressure_threshold"},
		{"config/resilience.yaml", "retry: {max_retries: 1000}\n", fault.Config, "max_retries"},
		{"config/capabilities.yaml", "narrow: 5\n", fault.Config, "narrow"},
		{"tools/acme/providers/bad.yaml", strings.Replace(bad, "category: rye/agent/providers",
			"category: acme/providers", 1), fault.Validation, "is not a valid provider"},
	} {
		items := plain(asking)
		items[c.name] = c.text
		w := newWorld(t, items, done)
		if r, err := w.run(t.Context(), thread.Start{}); err == nil || fault.CodeOf(err) != c.code ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
	w := newWorld(t, plain(asking), done)
	w.Write(".ai/tools/rye/agent/loop.star", starlark("rye/agent")+"def main(ctx): return {'text': 'x'}\n")
	if r, err := w.run(t.Context(), thread.Start{}); fault.CodeOf(err) != fault.Unsigned {
		t.Errorf("an unsigned loop: %+v, %v", r, err)
	}
	enough := errors.New("no inputs today")
	_, err := newWorld(t, plain(asking)).run(t.Context(),
		thread.Start{Inputs: func(*params.Schema) (map[string]any, error) { return nil, enough }})
	if !errors.Is(err, enough) || !strings.Contains(strings.Join(fault.Of(err).Hint, "\n"),
		"rye run directive:acme/asking --help") {
		t.Errorf("%v", err)
	}
}

// TestReplayDiffers: a thread that asks a replayed model something else ends with what differs.
func TestReplayDiffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plain(asking), echoes("x"), done)
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	stopped, err := w.run(t.Context(), thread.Start{Replay: w.dir(r.Thread), Limits: []string{"turns=1"}})
	must(t, err)
	live := ""
	for _, c := range []struct {
		dir, directive string
		want           string
	}{
		{r.Thread, asking, ""},
		{stopped.Thread, asking, "the record has no further answer: it ends after 1 request"},
		{r.Thread, strings.Replace(asking, "<metadata>", "<metadata><tools><tool>acme/echo</tool></tools>", 1),
			`"name":"acme_echo"`},
		{r.Thread, strings.Replace(asking, "Ask about", "Enquire about", 1), "Enquire about"},
	} {
		w.Put("directives/acme/asking.md", strings.ReplaceAll(c.directive, "OUTPUTS", ""))
		live = ""
		again, err := w.run(t.Context(), thread.Start{Replay: w.dir(c.dir), Live: thread.Live{Text: func(s string) {
			live += s
		}}})
		must(t, err)
		if c.want == "" {
			if !again.Success || live != "done" {
				t.Errorf("%+v, %v: %q", again, again.Error, live)
			}
			continue
		}
		if again.Success || again.Error.Code != fault.Conflict ||
			!strings.Contains(again.Error.Text+strings.Join(again.Error.Why, "\n"), c.want) {
			t.Errorf("%+v, %v; want %s", again, again.Error, c.want)
		}
	}
}
