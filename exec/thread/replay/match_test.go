package replay_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// other is an event that differs from the recorded one in something.
func other[P transcript.Payload](p P, edit func(*P)) transcript.Payload {
	edit(&p)
	return p
}

var (
	turns    = transcript.Limit{Code: "turns_exceeded", Current: 2, Max: 2}
	duration = transcript.Limit{Code: "duration_seconds_exceeded", Current: 2.5, Max: 2}
	errored  = transcript.Failed{Error: transcript.Fault{Code: "X", Message: "no"},
		Cost: transcript.Cost{Turns: 1, Elapsed: 1}}
	handed = transcript.HandedOff{Next: "acme/b-1", Reason: "context", Cost: transcript.Cost{Turns: 1, Elapsed: 1}}
	ended  = transcript.Cancelled{By: "ann", Cost: transcript.Cost{Turns: 1, Elapsed: 1}}
)

// TestMatch: an event of every type against its record, once as a replay compares them and once as a thread that goes
// on does.
func TestMatch(t *testing.T) {
	for _, c := range []struct {
		was, now transcript.Payload
		replay   bool   // a replay accepts it
		goes     bool   // a thread goes on with it
		shown    string // of a replay, the lines of the difference
	}{
		{request, request, true, true, ""},
		{request, other(request, func(r *transcript.Request) { r.Provider = item("q") }), true, true, ""},
		{request, other(request, func(r *transcript.Request) {
			r.Digest = cas.Sum(nil)
		}), false, false, "recorded: digest "},
		{request, other(request, func(r *transcript.Request) { r.Attempt = 2 }),
			false, false, "recorded: attempt 1|now:      attempt 2"},
		{request, other(request, func(r *transcript.Request) { r.Model = "n" }),
			false, true, `recorded: model "m"|now:      model "n"`},
		{request, other(request, func(r *transcript.Request) { r.Params = map[string]any{"temperature": 1} }),
			false, true, `recorded: params nothing|now:      params {"temperature":1}`},
		{request, other(request, func(r *transcript.Request) { r.Messages = []any{} }),
			false, true, `recorded: messages [{"role":"user","text":"Go."}]|now:      messages []`},
		{request, answer, false, false, "recorded: request|now:      answer"},
		{failed, other(failed, func(f *transcript.Classified) { f.Delay = 1 }), true, true, ""},
		{failed, other(failed, func(f *transcript.Classified) { f.Action = "fail" }),
			false, true, `recorded: action "retry"|now:      action "fail"`},
		{answer, other(answer, func(a *transcript.Answer) { a.Duration = 1 }), true, true, ""},
		{answer, other(answer, func(a *transcript.Answer) { a.Text = "<No>" }),
			false, true, `recorded: text "I'll look."|now:      text "<No>"`},
		{call, other(call, func(c *transcript.CallStarted) {
			c.Child, c.Digest, c.Key = "acme/c-1", cas.Sum(nil), "l"
		}),
			true, true, ""},
		{call, other(call, func(c *transcript.CallStarted) { c.Input = map[string]any{"n": 2} }),
			false, false, `recorded: input {"n":1}|now:      input {"n":2}`},
		{call, other(call, func(c *transcript.CallStarted) { c.Name = "other" }), false, false, "recorded: name "},
		{call, other(call, func(c *transcript.CallStarted) { c.Ref = "tool:acme/y" }), false, true, "recorded: ref "},
		{call, other(call, func(c *transcript.CallStarted) { c.Risk = "write" }),
			false, true, `recorded: risk nothing|now:      risk "write"`},
		{result, other(result, func(r *transcript.CallResult) {
			r.Duration, r.Exec, r.Receipt = 1, "c-9", cas.Sum(nil)
		}),
			true, true, ""},
		{result, other(result, func(r *transcript.CallResult) { r.Output = nil }),
			false, true, `recorded: output "done"|now:      output nothing`},
		{large, large, true, true, ""},
		{large, other(large, func(a *transcript.Artifact) {
			a.Content = a.Content[:7000] + "small" + a.Content[7005:]
		}),
			false, true, "recorded: content "},
		{hook, hook, true, true, ""},
		{hook, other(hook, func(h *transcript.Hook) {
			h.ID = "i"
		}), false, false, `recorded: id "h"|now:      id "i"`},
		{hook, other(hook, func(h *transcript.Hook) { h.Event = "start" }), false, false, "recorded: event "},
		{hook, other(hook, func(h *transcript.Hook) { h.Result = map[string]any{"n": []any{}} }),
			false, true, `recorded: result {"n":1}|now:      result {"n":[]}`},
		{turns, other(turns, func(l *transcript.Limit) { l.Current = 3 }),
			false, true, "recorded: current 2|now:      current 3"},
		{duration, other(duration, func(l *transcript.Limit) { l.Current = 3 }), true, true, ""},
		{duration, other(duration, func(l *transcript.Limit) {
			l.Max = 3
		}), false, true, "recorded: max 2|now:      max 3"},
		{stopped, other(stopped, func(w *transcript.Waiting) { w.On, w.Until = "a-2", "2026-11-20T13:00:00.000Z" }),
			true, true, ""},
		{stopped, other(stopped, func(w *transcript.Waiting) {
			w.Reason = "budget"
		}), false, true, "recorded: reason "},
		{mark, transcript.Checkpoint{Turn: 1, Sig: "rye:signed:v2:other"}, true, true, ""},
		{mark, transcript.Checkpoint{Turn: 2}, false, true, "recorded: turn 1|now:      turn 2"},
		{done, other(done, func(c *transcript.Completed) { c.Cost.Elapsed = 1 }), true, true, ""},
		{done, other(done, func(c *transcript.Completed) { c.Cost.Spend = 6 }), false, true, "recorded: cost "},
		{done, other(done, func(c *transcript.Completed) { c.Outputs = map[string]any{"a": nil} }),
			false, true, `recorded: outputs nothing|now:      outputs {"a":null}`},
		{done, errored, false, false, "recorded: thread_completed|now:      thread_error"},
		{errored, other(errored, func(f *transcript.Failed) { f.Cost.Elapsed = 2 }), true, true, ""},
		{errored, other(errored, func(f *transcript.Failed) {
			f.Error.Message = "never"
		}), false, true, "recorded: error "},
		{handed, other(handed, func(h *transcript.HandedOff) {
			h.Next, h.Cost.Elapsed = "acme/b-2", 2
		}), true, true, ""},
		{handed, other(handed, func(h *transcript.HandedOff) {
			h.Reason = "limit"
		}), false, true, "recorded: reason "},
		{ended, other(ended, func(e *transcript.Cancelled) { e.By = "eve" }), true, true, ""},
		{ended, other(ended, func(e *transcript.Cancelled) { e.Killed = true }),
			false, true, "recorded: killed nothing|now:      killed true"},
	} {
		events := []transcript.Payload{c.was}
		switch c.was.Type() {
		case transcript.TypeAnswer, transcript.TypeClassified:
			events = []transcript.Payload{request, c.was}
		case transcript.TypeCallResult:
			events = []transcript.Payload{call, c.was}
		}
		dir := record(t, events...)
		for all, accepts := range map[bool]bool{true: c.replay, false: c.goes} {
			p := open(t, dir, 0)
			for range len(events) - 1 {
				_, err := p.Take()
				must(t, err)
			}
			e, over, err := p.Match(c.now, 1, all)
			if over || accepts != (err == nil) || accepts != (e != nil) {
				t.Errorf("%s, %+v: %v, %v, %v", c.was.Type(), c.now, e, over, err)
			}
			next, bad := p.Peek()
			if must(t, bad); accepts != (next == nil) {
				t.Errorf("%s: next is %v", c.was.Type(), next)
			}
			if accepts {
				continue
			}
			f, _ := fault.Find(err)
			if why := strings.Join(f.Why, "|"); f.Code != fault.Conflict || !replay.Differs(err) ||
				f.Details["line"] != int64(2+len(events)) || all && !strings.HasPrefix(why, c.shown) {
				t.Errorf("%s: %v, %v, want %s", c.was.Type(), err, f.Why, c.shown)
			}
		}
	}
}

// TestStart: what a thread is bound to by digests may be another, what it was given may not.
func TestStart(t *testing.T) {
	dir := record(t, hook)
	for _, c := range []struct {
		edit  func(*transcript.Started)
		wants string
	}{
		{func(*transcript.Started) {}, ""},
		{func(s *transcript.Started) {
			s.Loop, s.Lock, s.Set, s.Principal, s.Parent, s.Model = item("l"), cas.Sum(nil), cas.Sum(nil), "eve",
				"acme/a-1", "n"
		}, ""},
		{func(s *transcript.Started) {
			s.Continues, s.Policy, s.Provider, s.Directive.Digest = "acme/a-1", []cas.Digest{cas.Sum(nil)}, item("q"),
				cas.Sum(nil)
		}, ""},
		{func(s *transcript.Started) { s.Given = map[string]any{"n": 2} }, `recorded: given {"n":1}`},
		{func(s *transcript.Started) { s.Grants = []string{"execute:tool:acme/*"} }, `recorded: grants []`},
		{func(s *transcript.Started) { s.Depth = 3 }, `recorded: depth 0`},
		{func(s *transcript.Started) { s.Limits = *limitsOf(3) }, `recorded: limits {}`},
	} {
		p := replay.Open(dir, 0)
		_, _, err := p.Match(other(started(), c.edit), 0, true)
		if f, bad := fault.Find(err); bad != (c.wants != "") || bad && f.Why[0] != c.wants {
			t.Errorf("%v, want %q", err, c.wants)
		}
		p.Close()
	}
}

// TestEnds: a record that has ended is no difference, and one that goes on is.
func TestEnds(t *testing.T) {
	p := open(t, record(t, hook, done), 0)
	for _, now := range []transcript.Payload{hook, done} {
		err := p.Rest(3)
		d, is := errors.AsType[*replay.Difference](err)
		if !is || fault.CodeOf(err) != fault.Conflict || d.Type != now.Type() || d.NowType != "" || d.Turn != 3 ||
			!slices.Equal(d.Lines(), []string{"recorded: " + string(now.Type()), "now:      nothing"}) {
			t.Errorf("%+v, %v", d, err)
		}
		if _, over, err := p.Match(now, 3, true); over || err != nil {
			t.Error(over, err)
		}
	}
	if err := p.Rest(3); err != nil {
		t.Error(err)
	}
	if e, over, err := p.Match(hook, 3, true); e != nil || !over || err != nil {
		t.Error(e, over, err)
	}
}

// TestNoJSON: what can't be written can't be compared.
func TestNoJSON(t *testing.T) {
	deep := any(1)
	for range 100 {
		deep = []any{deep}
	}
	for _, bad := range []any{func() {}, deep, 1 << 60} {
		p := open(t, record(t, hook), 0)
		if e, over, err := p.Match(transcript.Hook{ID: "h", Event: "error", Result: bad}, 1, true); e != nil ||
			over || err == nil || replay.Differs(err) {
			t.Errorf("%v, %v, %v", e, over, err)
		}
	}
}

// TestPlayed: a difference is an outcome, any other error stays one.
func TestPlayed(t *testing.T) {
	p := open(t, record(t, hook), 0)
	var r replay.Played
	if err := r.Take(p.Rest(1)); err != nil || r.Difference == nil || r.Difference.Type != transcript.TypeHook {
		t.Errorf("%+v, %v", r, err)
	}
	r = replay.Played{}
	if err := r.Take(os.ErrClosed); !errors.Is(err, os.ErrClosed) || r.Difference != nil {
		t.Errorf("%+v, %v", r, err)
	}
	if err := r.Take(nil); err != nil || r.Difference != nil || replay.Differs(nil) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestLong: of a long member the part is shown where it differs, wherever that is.
func TestLong(t *testing.T) {
	base := strings.Repeat("ä", 3000)
	for _, at := range []int{0, 1, 2, 199, 200, 2000, 5998} {
		changed := base[:at&^1] + "<>" + base[at&^1+2:]
		d := &replay.Difference{Type: transcript.TypeAnswer, NowType: transcript.TypeAnswer,
			Recorded: map[string]any{"text": base, "same": base}, Now: map[string]any{"text": changed, "same": base}}
		lines := d.Lines()
		if len(lines) != 2 || strings.Contains(lines[0], "<>") || !strings.Contains(lines[1], "<>") ||
			len(lines[0]) > 500 || len(lines[1]) > 500 || strings.Contains(lines[0]+lines[1], "\ufffd") {
			t.Errorf("at %d: %q", at, lines)
		}
	}
	shorter := &replay.Difference{Type: "x", NowType: "x", Recorded: map[string]any{"text": base},
		Now: map[string]any{"text": base[:2000]}}
	if lines := shorter.Lines(); len(lines) != 2 || !strings.HasSuffix(lines[1], `ä"`) ||
		!strings.HasSuffix(lines[0], "…") {
		t.Errorf("%q", lines)
	}
}

// FuzzTape: whatever a record's files have, playing it ends with an error or its end, and a thread that does the same
// again never differs from it.
func FuzzTape(f *testing.F) {
	for _, events := range [][]transcript.Payload{{request, failed, again, hook, call, large, result, mark, done,
		mark}, {stopped, mark, next(2), transcript.Continued{Limits: limitsOf(3)}, hook, next(3), handed}} {
		dir := record(f, events...)
		lines, err := os.ReadFile(filepath.Join(dir, transcript.LinesFile))
		must(f, err)
		payloads, _ := os.ReadFile(filepath.Join(dir, transcript.PayloadsFile))
		for i := 1; i < 8; i++ {
			f.Add(lines[:len(lines)*i/7], payloads, int64(i))
		}
	}
	f.Fuzz(func(t *testing.T, lines, payloads []byte, last int64) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, transcript.LinesFile), lines, 0o600),
			os.WriteFile(filepath.Join(dir, transcript.PayloadsFile), payloads, 0o600))
		a, b := replay.Open(dir, last), replay.Open(dir, last)
		defer a.Close()
		defer b.Close()
		for seq := int64(0); ; {
			e, err := a.Take()
			if err != nil || e == nil {
				again, _, other := b.Match(hook, 0, true)
				if fmt.Sprint(other) != fmt.Sprint(err) || again != nil {
					t.Fatalf("%v, then %v", err, other)
				}
				return
			}
			if last > 0 && e.Seq > last || e.Seq <= seq {
				t.Fatalf("line %d after %d of %d", e.Seq, seq, last)
			}
			seq = e.Seq
			p, err := e.Says()
			must(t, err)
			if now, over, err := b.Match(p, 0, true); err != nil || over || now.Digest != e.Digest {
				t.Fatalf("%s: %v, %v", e.Payload, over, err)
			}
			if b.Resumed() != a.Resumed() || b.Elapsed() != a.Elapsed() {
				t.Fatalf("%d, %s", b.Resumed(), b.Elapsed())
			}
			if _, _, err := a.Result("c1"); err != nil {
				continue
			}
			if _, err := a.Answer(); err != nil {
				continue
			}
		}
	})
}
