package exec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sandbox"
)

// answering is the primitive that calls the functions which make results.
const answering = "rye/core/primitives/starlark"

// withAnswer puts a tool acme/x in Starlark into the project, of Alice's, whose result is made by the function words.
func (w *world) withAnswer(more ...string) *probe {
	w.Helper()
	head := "# " + strings.ReplaceAll(strings.TrimSpace(tool("acme/x", probing, append(more, "answer: words")...)),
		"\n", "\n# ")
	w.put(map[string]string{".ai/tools/acme/x.star": "# ---\n" + head +
		"\n# ---\ndef words(call):\n    return call\n"})
	w.signed(x, alice)
	p := &probe{}
	w.kernel.Primitives[answering] = p
	return p
}

// told is what the function was called with.
func told(a *primitive.Action) map[string]any {
	var m map[string]any
	if err := json.Unmarshal([]byte(a.Config["params"].(string)), &m); err != nil {
		panic(err)
	}
	return m
}

// TestAnswer: what a tool's own function returns is the result, whatever the primitive gave.
func TestAnswer(t *testing.T) {
	w := newWorld(t)
	answers := w.withAnswer("config: {timeout: 5}", "output_schema: {type: object, required: [said]}",
		"input_schema: {type: object, properties: {n: {type: integer, default: 7}}}", "files: {write: [.ai/outputs]}",
		"network: [api.example.com]",
		"limits: {duration_seconds: 9, cpu_seconds: 3, memory_mib: 5, written_mib: 7, output_mib: 11, processes: 13, open_files: 17}")
	w.probe.do = func(_ context.Context, _ *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
		return gives("raw"), errors.Join(to.Emit(primitive.Stdout, []byte("raw")),
			to.Emit(primitive.Stderr, []byte("aside ")))
	}
	answers.do = func(_ context.Context, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
		want := map[string]any{"params": map[string]any{"n": 7.0}, "result": "raw", "failed": false, "failure": "",
			"ended": "", "signal": "", "seconds": 5.0}
		if got := told(a); !reflect.DeepEqual(got, want) {
			t.Errorf("it was called with %v", got)
		}
		// It has the pinned files and nothing that the tool was granted.
		s := a.Sandbox
		if a.Config["function"] != "words" || len(s.Read) != 1 || s.Read[0] != a.Own ||
			!strings.HasPrefix(a.Config["file"].(string), a.Own) || len(s.Write)+len(s.Network.Hosts) > 0 ||
			s.Network.All || len(s.Deny) != 1 || len(a.Env)+len(a.Files.Read)+len(a.Files.Write) > 0 || !a.Pure {
			t.Errorf("it is done with %+v", a)
		}
		// It may use as much as the tool, and has a time of its own.
		if want := (sandbox.Limits{Wall: time.Minute, CPU: 3 * time.Second, Memory: 5 << 20, Written: 7 << 20,
			Output: 11 << 20, Processes: 13, Files: 17}); s.Limits != want {
			t.Errorf("its limits are %+v", s.Limits)
		}
		return gives(map[string]any{"said": "yes"}), to.Emit(primitive.Stdout, []byte("yes"))
	}
	p := w.prepare(call(x, map[string]any{}))
	var l listener
	r, err := p.Run(t.Context(), &l)
	if err != nil || r.Status != record.OK || !reflect.DeepEqual(r.Value, map[string]any{"said": "yes"}) {
		t.Fatalf("%+v, %v", r, err)
	}
	if out, err := l.said[0].String(), l.said[1].String(); out != "yes" || err != "aside " {
		t.Errorf("passed on were %q and %q", out, err)
	}
	w.proved(r)
}

// TestAnswerFails: a function excuses what it says is a success, and nothing that was ended; where it can't be called
// the call has failed.
func TestAnswerFails(t *testing.T) {
	yes, no := map[string]any{"success": true}, map[string]any{"success": false}
	failed := primitive.Result{Value: "raw", Failed: true, Failure: "raw no", Level: 4, Exit: 3}
	timeout := primitive.Result{Value: "raw", Failed: true, Ended: "timeout", Failure: "too long", Level: 4}
	fine := primitive.Result{Value: "raw", Level: 4}
	for name, c := range map[string]struct {
		did, said primitive.Result
		err       error
		want      string
	}{
		"fine":            {fine, *gives("v"), nil, "ok   v"},
		"a failure stays": {failed, *gives("v"), nil, "failed EXECUTION_FAILED raw no v"},
		"is excused":      {failed, *gives(yes), nil, "ok   map[success:true]"},
		"is explained": {failed, primitive.Result{Value: no, Failed: true, Failure: "so"}, nil,
			"failed EXECUTION_FAILED so map[success:false]"},
		"its own no": {fine, primitive.Result{Value: no, Failed: true, Failure: "so"}, nil,
			"failed EXECUTION_FAILED so map[success:false]"},
		"time": {timeout, primitive.Result{Value: no, Failed: true, Failure: "so"}, nil,
			"timeout TIMEOUT so map[success:false]"},
		"time isn't taken": {timeout, *gives(yes), nil, "timeout TIMEOUT too long map[success:true]"},
		"it can't": {fine, primitive.Result{}, errors.New("broken"),
			"failed EXECUTION_FAILED its answer can't be made: broken <nil>"},
		"its steps": {fine, primitive.Result{Failed: true, Ended: "steps"}, nil,
			"failed RESOURCE_EXCEEDED its answer can't be made: steps <nil>"},
		"its memory": {timeout, primitive.Result{Failed: true, Ended: "memory", Failure: "full"}, nil,
			"timeout TIMEOUT its answer can't be made: full <nil>"},
		"it is no JSON": {primitive.Result{Value: make(chan int)}, *gives("v"), nil,
			"failed EXECUTION_FAILED its answer can't be made: "},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			answers := w.withAnswer()
			w.probe.do = func(context.Context, *primitive.Action, primitive.Sink) (*primitive.Result, error) {
				return &c.did, nil
			}
			answers.do = func(context.Context, *primitive.Action, primitive.Sink) (*primitive.Result, error) {
				return &c.said, c.err
			}
			r, err := w.run(call(x, map[string]any{}))
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("%s %s %s %v", r.Status, r.Code, r.Failure, r.Value); !strings.HasPrefix(got,
				c.want) {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			if r.Exit != c.did.Exit {
				t.Errorf("the status is %d", r.Exit)
			}
			w.proved(r)
		})
	}
}

// TestAnswerRefused: a file that is no Starlark has no such function, and without the primitive nothing is begun. What
// never began has no answer.
func TestAnswerRefused(t *testing.T) {
	w := newWorld(t).with("answer: words")
	if e := w.refused(call(x, nil)); fault.CodeOf(e) != fault.Validation ||
		!strings.HasSuffix(e.Error(), `answer: needs a Starlark file, and "x.yaml" isn't one`) {
		t.Error(e)
	}
	w = newWorld(t)
	answers := w.withAnswer()
	w.probe.do = func(context.Context, *primitive.Action, primitive.Sink) (*primitive.Result, error) {
		return nil, errors.New("broken")
	}
	if r, err := w.run(call(x, nil)); err == nil || r.Status != record.Refused || answers.calls > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.probe.do = func(context.Context, *primitive.Action, primitive.Sink) (*primitive.Result, error) {
		cancel()
		return &primitive.Result{Failed: true, Ended: "cancelled", Value: "half"}, nil
	}
	if r, err := w.prepare(call(x, nil)).Run(ctx, nil); err != nil || r.Status != record.Cancelled ||
		r.Value != "half" || answers.calls > 0 {
		t.Errorf("%+v, %v", r, err)
	}
	w = newWorld(t)
	w.withAnswer()
	delete(w.kernel.Primitives, answering)
	if e := fault.Of(w.refused(call(x, nil))); e.Code != fault.ExecutorNotFound ||
		e.Details["primitive"] != answering {
		t.Error(e)
	}
}

// TestAnswerSecret: what makes the answer never sees a secret.
func TestAnswerSecret(t *testing.T) {
	w := newWorld(t)
	w.policy = "exec:\n  secrets:\n    acme-token: [\"tool:acme/**\"]\n"
	w.kernel.Secrets = func(context.Context, string) (string, error) { return "s3cret-value", nil }
	answers := w.withAnswer("secrets: [acme-token]", "config: {greeting: '${ACME_TOKEN}'}")
	answers.do = func(_ context.Context, a *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
		text := a.Config["params"].(string)
		if strings.Contains(text, "s3cret-value") || !strings.Contains(text, "greeting") {
			t.Errorf("it was told %s", text)
		}
		return gives("v"), nil
	}
	w.ok(call(x, map[string]any{}))
}
