package exec_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/primitive/retry"
)

// around puts a resilient primitive around the probe.
func (w *world) around() *retry.Primitive {
	p := &retry.Primitive{Inner: w.probe, Rules: func(context.Context) (*classification.Rules, error) {
		v, _ := parse.YAML(
			[]byte(
				"patterns: []\ndefault: {category: transient, retryable: true, retry_policy: {type: fixed, delay: 0}}\n"),
			value.Pos{})
		return classification.Read(v)
	}}
	w.kernel.Primitives[probing] = p
	return p
}

const remembers = "config: {name: '${NAME}', given: '{params_json}', resilience: {cache: {ttl: 3600}}}"

// TestRemembered: an answer is given again for the same call, which is written down as any other, and for no call that
// differs in what decides about it.
func TestRemembered(t *testing.T) {
	pure := []string{remembers, "pure: true", "env_config: {env: {NAME: one}}"}
	w := newWorld(t).with(pure...)
	w.around()
	given := map[string]any{"a": int64(1)}
	asked := func(what string, c *exec.Call, want bool) {
		t.Helper()
		before := w.probe.calls
		r := w.ok(c)
		if (w.probe.calls == before+1) != want || (r.Usage["cached"] == 1) == want {
			t.Errorf("%s: %d calls, %v", what, w.probe.calls-before, r.Usage)
		}
		if got := w.proved(r); got.Outcome.Usage["cached"] != r.Usage["cached"] {
			t.Errorf("%s: the receipt says %v", what, got.Outcome.Usage)
		}
	}
	asked("at first", call(x, given), true)
	asked("again", call(x, given), false)
	asked("other parameters", call(x, map[string]any{"a": int64(2)}), true)
	asked("a parameter that is called secret", call(x, map[string]any{"token": "one"}), true)
	asked("another one of this name", call(x, map[string]any{"token": "two"}), true)
	asked("another one, again", call(x, map[string]any{"token": "two"}), false)
	other := call(x, given)
	other.Principal = "ben"
	asked("another principal", other, true)
	other = call(x, given)
	other.Timeout = time.Second
	asked("other limits", other, true)
	other = call(x, given)
	other.Stranger = true
	asked("as a stranger's", other, true)
	other = call(x, given)
	other.Build = true
	asked("a step of a build", other, true)
	asked("a step of a build, again", other, true)
	b := w.base()
	b.Dev = parseRef(x)
	p, err := w.kernel.Prepare(t.Context(), b, call(x, given))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Run(t.Context(), nil)
	if err = errors.Join(err, p.Close()); err != nil || r.Usage["cached"] != 0 {
		t.Errorf("with Dev: %+v, %v", r, err)
	}

	asked("the first, still", call(x, given), false)
	w.policy = "\nexec: {secrets: {OTHER: [\"tool:acme/none\"]}}\n"
	asked("another policy", call(x, given), true)
	w.signed(x, bob)
	asked("another signer, too", call(x, given), true)
	w.with(pure[0], pure[1], "env_config: {env: {NAME: two}}")
	asked("another variable", call(x, given), true)
	asked("another variable, again", call(x, given), false)

	// Where there is more to it, nothing is remembered.
	w.policy = allowing
	w.secrets()
	w.put(map[string]string{"docs/x": "x"})
	for name, more := range map[string]string{"not pure": "pure: false", "a secret": "secrets: [acme-token]",
		"a file": "files: {read: [docs]}"} {
		lines := []string{remembers, "pure: true", "env_config: {env: {NAME: one}}", more}
		if name == "not pure" {
			lines = []string{remembers, more, "env_config: {env: {NAME: one}}"}
		}
		w.with(lines...)
		asked(name, call(x, given), true)
		asked(name+", again", call(x, given), true)
	}
}

// TestAnswerAgain: where a function makes the result, the primitive's output doesn't reach the sink, so the primitive
// can be retried. If it still fails, the function gets the fallback value.
func TestAnswerAgain(t *testing.T) {
	for works, want := range map[int]string{1: "1", 2: "2", 9: "instead"} {
		for _, to := range []primitive.Sink{nil, new(listener)} {
			w := newWorld(t)
			answers := w.withAnswer(
				"config: {resilience: {retry: {max_attempts: 3, idempotent: true}, fallback: {value: instead}}}")
			w.around()
			w.probe.do = func(_ context.Context, _ *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
				n := w.probe.calls
				return &primitive.Result{Value: fmt.Sprint(n), Level: 4, Failed: n < works, Failure: "busy"},
					to.Emit(primitive.Stdout, []byte("raw"))
			}
			answers.do = func(_ context.Context, a *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
				return gives(told(a)["result"]), nil
			}
			r, err := w.prepare(call(x, nil)).Run(t.Context(), to)
			if err != nil || r.Status != record.OK || r.Value != want || w.probe.calls != min(works, 3) ||
				answers.calls != 1 {
				t.Errorf("%d: %+v after %d, %v", works, r, w.probe.calls, err)
			}
			if l, ok := to.(*listener); ok && l.said[0].Len() > 0 {
				t.Errorf("%d: passed on was %q", works, l.said[0].String())
			}
		}
	}
}

// TestNotAsked: who isn't asked has been refused, by a code of its own, in the log too.
func TestNotAsked(t *testing.T) {
	w := newWorld(t).with("config: {resilience: {breaker: {failures: 1, cooldown: 3600}}}")
	w.put(map[string]string{".ai/tools/acme/often.yaml": tool("acme/often", probing, "limits: {duration_seconds: 5}",
		"config: {resilience: {rate: {per_second: 0.001, burst: 1}}}")})
	w.signed("tool:acme/often", alice)
	w.around()
	w.probe.do = func(context.Context, *primitive.Action, primitive.Sink) (*primitive.Result, error) {
		return &primitive.Result{Level: 4, Failed: true, Failure: "busy"}, nil
	}
	for _, c := range []struct{ ref, code string }{{x, "UNAVAILABLE"}, {"tool:acme/often", "RATE_LIMITED"}} {
		if r, err := w.run(call(c.ref, nil)); err != nil || r.Code != "EXECUTION_FAILED" {
			t.Fatalf("%s: %+v, %v", c.ref, r, err)
		}
		calls := w.probe.calls
		r, err := w.run(call(c.ref, nil))
		if err == nil || !strings.Contains(err.Error(), `"`+c.ref+`"`) || r.Status != record.Refused ||
			r.Code != c.code || w.probe.calls != calls {
			t.Errorf("%s: %+v, %v", c.ref, r, err)
		}
		if got := w.proved(r); got.Outcome.Code != c.code {
			t.Errorf("%s: the receipt says %s", c.ref, got.Outcome.Code)
		}
	}
	checkLog(w)
}
