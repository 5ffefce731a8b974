package thread_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/roster"
)

// TestOddLoops: whatever a loop returns, its thread has an end that says what was wrong, and plays back.
func TestOddLoops(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, want string }{
		"nothing":     {"pass", "neither a text nor an error"},
		"a number":    {"return {'text': 5}", "neither a text nor an error"},
		"much":        {"return {'text': 'x' * 9000000}", "more than the limit"},
		"no code":     {"return {'error': {'code': 5, 'message': []}}", "without a reason"},
		"much reason": {"return {'error': {'code': 'X', 'message': 'no ' * 3000000}}", "no no no"},
		"fails":       {"fail('no ' * 3000000)", "no no no"},
	} {
		// many megabytes in one goroutine, which the race detector counts one by one
		if testing.Short() && strings.Contains(c.body, "000") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			items := plain(asking)
			items["tools/rye/agent/loop.star"] =
				"# ---\n# version: \"1.0.0\"\n# category: rye/agent\n# description: Odd\n# tool_type: starlark\n" +
					"# executor_id: rye/core/runtimes/starlark_runtime\n# risk: read\n# pure: true\n# ---\ndef main(ctx):\n    " +
					c.body + "\n"
			w := newWorld(t, items)
			r, err := w.run(t.Context(), thread.Start{})
			must(t, err)
			if r.Status != thread.Failed || r.Result != "" || !strings.Contains(r.Error.Text, c.want) ||
				len(r.Error.Text) > 20_000 || w.state(r.Thread).State != roster.Failed {
				t.Errorf("%s, %.200s, %+v", r.Status, r.Error, w.state(r.Thread))
			}
			w.same(r.Thread)
		})
	}
}

// TestEmptyAnswer: a model that answers with nothing is asked once more, and fails if it does so again.
func TestEmptyAnswer(t *testing.T) {
	t.Parallel()
	empty := modeltest.Turn{Usage: provider.Usage{Input: 10, Output: 1}}
	for name, c := range map[string]struct {
		turns []modeltest.Turn
		fails bool
	}{
		"once":            {[]modeltest.Turn{echoes("x"), empty, done}, false},
		"and again later": {[]modeltest.Turn{empty, echoes("x"), empty, done}, false},
		"twice":           {[]modeltest.Turn{echoes("x"), empty, {Text: " \n"}}, true},
	} {
		w := newWorld(t, plain(asking), c.turns...)
		r, err := w.run(t.Context(), thread.Start{})
		must(t, err)
		last := w.server.Requests()[len(w.server.Requests())-1]
		if got := string(last.Raw); !strings.Contains(got, "Your answer was empty") ||
			strings.Contains(got, `"role":"assistant","content":""`) {
			t.Errorf("%s: sent %s", name, got)
		}
		if r.Success == c.fails || c.fails && !strings.Contains(r.Error.Text, "with nothing, twice") || !c.fails &&
			r.Result != "done" {
			t.Errorf("%s: %+v, %v", name, r, r.Error)
		}
		w.same(r.Thread)
	}
}

// TestFullDisk: a thread that can't record something goes on later. What was written since may have found room, so an
// error of the disk is no end.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plain(asking), echoes("x"),
		modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/echo", object{"text": "äö", "times": 10_000})}},
		modeltest.Turn{Text: "done"})
	w.engine.Hook = func(_, path string, b []byte) error {
		if strings.HasSuffix(path, "payloads") && bytes.Contains(b, []byte("äöäöäöäö")) {
			return journaltest.ErrFull
		}
		return nil
	}
	r, err := w.run(t.Context(), thread.Start{})
	if !errors.Is(err, journaltest.ErrFull) || r.Thread == "" || w.state(r.Thread).State != roster.Interrupted ||
		w.account(r.Thread).Closed {
		t.Fatalf("%+v, %v", r, err)
	}
	w.engine.Hook = nil
	if r, err = w.resume(r.Thread); err != nil || !r.Success || r.Result != "done" {
		t.Fatalf("%+v, %v", r, err)
	}
	w.same(r.Thread)
}
