package toolcall_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rye-build/rye/ai/capability"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/thread/hook"
	"github.com/rye-build/rye/exec/thread/plan"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key/keytest"
)

const starts = "rye/agent/threads/thread_directive"

// answering is a Maker whose children end as a function says, by the calls that start them.
func answering(t testing.TB, child func(context.Context, *toolcall.Call) (*toolcall.Answer, error),
	edit func(*toolcall.Options)) *toolcall.Maker {
	m, _ := maker(t, func(o *toolcall.Options) {
		if o.Child = child; edit != nil {
			edit(o)
		}
	})
	return m
}

// start is a call that starts a thread.
func start(input string) provider.ToolCall {
	return executes(starts, object{"directive_name": "acme/asking", "inputs": object{"what": input}})
}

// makes makes a call of the model, and returns the code of its error, "" for none.
func makes(t testing.TB, m *toolcall.Maker, wanted provider.ToolCall) (code, text string, c *toolcall.Call) {
	t.Helper()
	c = m.Prepare(t.Context(), wanted)
	text, err := c.Make(t.Context())
	must(t, err)
	return codeOf(t, text), text, c
}

// TestFlowGrows: the policies see each call that was made when the next one is asked for: a line that refuses a tool
// after another one would never hold otherwise. A dry run is no call.
func TestFlowGrows(t *testing.T) {
	m, _ := maker(t, nil)
	dry := executes("acme/echo", object{"text": "x"})
	dry.Input["dry_run"] = true
	after := executes("acme/after", object{"text": "x"})
	for i, c := range []struct {
		call provider.ToolCall
		want fault.Code
	}{{dry, ""}, {after, ""}, {executes("acme/echo", object{"text": "x"}), ""}, {after, fault.Policy}} {
		if code, text, _ := makes(t, m, c.call); code != string(c.want) {
			t.Errorf("call %d: %s", i, text)
		}
	}
}

// TestRemembered: of the calls in a record the policies know again those that may have had their effect, and those of
// the threads that it started, however they ended.
func TestRemembered(t *testing.T) {
	for name, c := range map[string]struct {
		input  any
		status string
		child  bool // the tool was called by a child
		known  bool
	}{
		"a call":         {object{}, transcript.CallOK, false, true},
		"a failed call":  {object{}, transcript.CallFailed, false, true},
		"an unknown one": {object{}, transcript.CallUnknown, false, true},
		"a refused one":  {object{}, transcript.CallRefused, false, false},
		"a dry run":      {object{"dry_run": true}, transcript.CallOK, false, false},
		"a child's":      {object{}, transcript.CallOK, true, true},
	} {
		dir := t.TempDir()
		record := func(id, ref, child string) {
			w, err := transcript.Create(filepath.Join(dir, filepath.FromSlash(id)), id,
				transcript.Started{Kind: "directive", Directive: transcript.Item{Ref: "directive:acme/asking",
					Digest: cas.Sum(nil)}, Policy: []cas.Digest{}, Grants: []string{}, Model: "m", Continues: id},
				transcript.Driver{Epoch: 1}, transcript.Options{Key: keytest.Seeded(1), Now: time.Now})
			must(t, err)
			_, err = w.Append(transcript.Request{Turn: 1, Attempt: 1, Digest: cas.Sum(nil), Messages: []any{},
				Provider: transcript.Item{Ref: "tool:acme/p", Digest: cas.Sum(nil)}, Model: "m"},
				transcript.Answer{Turn: 1, Attempt: 1, Model: "m"},
				transcript.CallStarted{Call: "c1", ID: "a", Ref: ref, Turn: 1, Name: "rye_execute", Input: c.input,
					Child: child},
				transcript.CallResult{Call: "c1", Status: c.status, Output: "x"})
			must(t, err)
			must(t, w.Close())
		}
		const id, other = "acme/asking-1795000000-a2b3c", "acme/asking-1795000001-a2b3c"
		if c.child {
			record(id, "directive:acme/asking", other)
			record(other, "tool:acme/past", "")
		} else {
			record(id, "tool:acme/past", "")
		}
		m, _ := maker(t, nil)
		m.Remember(t.Context(), dir, id, id)
		code, text, _ := makes(t, m, executes("acme/echo", object{"text": "x"}))
		if known := code == string(fault.Policy); known != c.known {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestVerbs: each of rye's own tools needs the permission for what it does: one that lets a model run a tool must not
// let it read, search or sign.
func TestVerbs(t *testing.T) {
	signed := 0
	approver, err := toolcall.NewApprover(nil, nil, func(context.Context, string, model.Ref) (map[string]any, error) {
		signed++
		return object{}, nil
	})
	must(t, err)
	m, _ := maker(t, func(o *toolcall.Options) { o.Approver, o.Plan.Signs = approver, true })
	item := func(name, kind, id string) provider.ToolCall {
		return provider.ToolCall{ID: "a", Name: name, Input: object{"item_type": kind, "item_id": id}}
	}
	for what, c := range map[string]struct {
		call provider.ToolCall
		want fault.Code
	}{
		"to load":         {item(plan.NameLoad, "knowledge", "acme/style"), ""},
		"to load another": {item(plan.NameLoad, "directive", "acme/asking"), fault.Denied},
		"to load a tool":  {item(plan.NameLoad, "tool", "acme/echo"), fault.Denied},
		"to render":       {item(plan.NameExecute, "knowledge", "acme/style"), fault.Denied},
		"to sign":         {item(plan.NameSign, "tool", "acme/echo"), fault.Denied},
		"to search": {provider.ToolCall{ID: "a", Name: plan.NameSearch, Input: object{"query": "x", "scope": "tool"}},
			fault.Denied},
	} {
		if code, text, call := makes(t, m, c.call); code != string(c.want) || c.want == "" &&
			!strings.Contains(text, "# Style") || call.Inside {
			t.Errorf("%s: %s", what, text)
		}
	}
	if signed > 0 {
		t.Error("signed without a permission")
	}
}

// TestReturned: the outputs are those that the directive declares, by whatever name the model returns them.
func TestReturned(t *testing.T) {
	for text, c := range map[string]struct {
		given object
		want  fault.Code
	}{
		"none": {object{}, fault.Validation}, "null": {object{"answer": nil}, fault.Validation},
		"a number": {object{"answer": 7.0}, fault.Validation}, "the answer": {object{"answer": "42"}, ""},
	} {
		m, _ := maker(t, nil)
		code, result, call := makes(t, m, executes("rye/agent/threads/directive_return", c.given))
		if code != string(c.want) || (m.Returned() != nil) != (c.want == "") || !call.Inside {
			t.Errorf("%s: %s, %v", text, result, m.Returned())
		}
	}
}

// TestRisks: the record has the risk of each call, by which it is decided whether a lost call is made again.
func TestRisks(t *testing.T) {
	m, _ := maker(t, nil)
	for item, want := range map[string]string{"acme/echo": "read", "acme/pay": "money", "acme/flow": "money"} {
		c := m.Prepare(t.Context(), executes(item, object{"text": "x"}))
		if s := c.Started(1); s.Risk != want || c.Doc()["risk"] != want || c.Doc()["item"] != "tool:"+item {
			t.Errorf("%s: %s, %v", item, s.Risk, c.Doc())
		}
	}
	raw := m.Prepare(t.Context(), provider.ToolCall{ID: "a", Name: plan.NameExecute, Raw: `{"item_`})
	if s := raw.Started(1); s.Input != `{"item_` {
		t.Errorf("what was cut off is recorded as %v", s.Input)
	}
}

// TestEnds: the record says how a call ended: one that waits for its approval has no result yet, and one that was
// stopped with its thread has none.
func TestEnds(t *testing.T) {
	over, stop := context.WithCancelCause(t.Context())
	mine := errors.New("stopped")
	m := answering(t, func(ctx context.Context, c *toolcall.Call) (*toolcall.Answer, error) {
		switch c.Spawn.Inputs["what"] {
		case "failed":
			return &toolcall.Answer{Value: object{}, Failed: true}, nil
		case "waits":
			return nil, fault.Wrap(approval.ErrWaits, "it waits")
		case "stopped":
			stop(mine)
		}
		return &toolcall.Answer{Value: object{}}, nil
	}, nil)
	for what, status := range map[string]string{"ok": transcript.CallOK, "failed": transcript.CallFailed,
		"waits": ""} {
		c := m.Prepare(t.Context(), start(what))
		text, err := c.Make(t.Context())
		if err != nil || c.Result.Status != status || (c.Waits != nil) != (what == "waits") ||
			(text == "") != (what == "waits") {
			t.Errorf("%s: %q, %+v, waits %v, %v", what, text, c.Result, c.Waits, err)
		}
	}
	c := m.Prepare(t.Context(), start("stopped"))
	if text, err := c.Make(over); !errors.Is(err, mine) || text != "" || c.Result.Status != "" {
		t.Errorf("stopped: %q, %+v, %v", text, c.Result, err)
	}
}

// TestGroup: the first call of a group that fails cancels those that are on their way, and further ones aren't made.
// A call that waits for its approval, or succeeds, stops no other.
func TestGroup(t *testing.T) {
	if toolcall.NewGroup(false) != nil {
		t.Error("calls that don't depend on each other are a group")
	}
	var begun chan struct{}
	m := answering(t, func(ctx context.Context, c *toolcall.Call) (*toolcall.Answer, error) {
		switch c.Spawn.Inputs["what"] {
		case "fails":
			<-begun
			return &toolcall.Answer{Value: object{}, Failed: true}, nil
		case "waits":
			return nil, fault.Wrap(approval.ErrWaits, "it waits")
		case "long":
			close(begun)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return &toolcall.Answer{Value: object{}}, nil
	}, nil)
	synctest.Test(t, func(t *testing.T) { // a call that nothing cancels ends the test
		begun = make(chan struct{})
		group := toolcall.NewGroup(true)
		call := func(what string) *toolcall.Call {
			c := m.Prepare(t.Context(), start(what))
			c.Group = group
			return c
		}
		for _, what := range []string{"waits", "ok"} {
			if _, err := call(what).Make(t.Context()); err != nil {
				t.Error(err)
			}
		}
		long, ended := call("long"), make(chan error)
		go func() {
			_, err := long.Make(context.Background())
			ended <- err
		}()
		failed := call("fails")
		if _, err := failed.Make(t.Context()); err != nil || failed.Result.Status != transcript.CallFailed {
			t.Errorf("%+v, %v", failed.Result, err)
		}
		if err := <-ended; err != nil || long.Result.Status != transcript.CallCancelled ||
			long.Result.Error.Code != string(fault.Cancelled) {
			t.Errorf("on its way: %+v, %v", long.Result, err)
		}
		late := call("ok")
		if text, err := late.Make(t.Context()); err != nil || codeOf(t, text) != string(fault.Cancelled) {
			t.Errorf("after it: %s, %v", text, err)
		}
		// A thread that is stopped isn't a call that another one has cancelled.
		begun, group = make(chan struct{}), toolcall.NewGroup(true)
		over, stop := context.WithCancelCause(t.Context())
		mine := errors.New("stopped")
		go func() {
			<-begun
			stop(mine)
		}()
		long = call("long")
		if _, err := long.Make(over); !errors.Is(err, mine) || long.Result.Status != "" {
			t.Errorf("stopped: %+v, %v", long.Result, err)
		}
	})
}

// TestGraphCall: a graph that a model calls runs once the policies let it, and they see it as the call of any tool.
// One that has begun goes on without a question.
func TestGraphCall(t *testing.T) {
	for name, c := range map[string]struct {
		allow []string
		begun bool
		runs  int
	}{"asked": {nil, false, 0}, "allowed": {[]string{"tool:acme/flow"}, false, 1}, "begun": {nil, true, 1}} {
		runs := 0
		approver, err := toolcall.NewApprover(c.allow, nil, nil)
		must(t, err)
		m := answering(t, func(_ context.Context, call *toolcall.Call) (*toolcall.Answer, error) {
			if runs++; call.Spawn.Directive.String() != "tool:acme/flow" || call.Child == "" {
				t.Errorf("%+v", call.Spawn)
			}
			return &toolcall.Answer{Value: object{}}, nil
		}, func(o *toolcall.Options) { o.Approver = approver })
		call := m.Prepare(t.Context(), executes("acme/flow", object{}))
		call.Begun = c.begun
		text, err := call.Make(t.Context())
		if err != nil || runs != c.runs || (codeOf(t, text) == string(fault.Approval)) != (c.runs == 0) {
			t.Errorf("%s: %s, %v, %d runs", name, text, err, runs)
		}
		code, text, _ := makes(t, m, executes("acme/after", object{"text": "x"}))
		if (code == string(fault.Policy)) != (name == "allowed") {
			t.Errorf("%s, then another: %s", name, text)
		}
	}
}

// TestGraphCallWaits: a graph that needs an approval waits for it, and runs once by it. A thread that is resumed then
// goes on with the run that has begun, and one whose graph was denied runs nothing.
func TestGraphCallWaits(t *testing.T) {
	for answer, want := range map[approval.State]int{approval.Approved: 1, approval.Denied: 0} {
		w, runs := newWorld(t), 0
		m := answering(t, func(context.Context, *toolcall.Call) (*toolcall.Answer, error) {
			runs++
			return &toolcall.Answer{Value: object{}}, nil
		}, func(o *toolcall.Options) { o.Approver = w.approver(t, nil) })
		call := func(begun bool) *toolcall.Call {
			c := m.Prepare(t.Context(), executes("acme/flow", object{}))
			c.Record, c.Begun = "c1", begun
			return c
		}
		first := call(false)
		if text, err := first.Make(t.Context()); err != nil || first.Waits == nil || runs > 0 {
			t.Fatalf("%s, %v, waits %v, %d runs", text, err, first.Waits, runs)
		}
		id := w.answers(t, answer)
		if _, err := call(true).Make(t.Context()); err != nil || runs != want {
			t.Errorf("%s: %d runs, %v", answer, runs, err)
		}
		if answer == approval.Denied {
			continue
		}
		all := w.requests(t)
		if len(all) != 1 || all[0].ID != id || all[0].State != approval.Done {
			t.Errorf("%+v", all)
		}
		if _, err := call(true).Make(t.Context()); err != nil || runs != 2 {
			t.Errorf("resumed: %d runs, %v", runs, err)
		}
	}
}

// TestHooks: a hook that skips a call refuses it with the hook's word, and what a hook's own call gave is its data, or
// the error under its code.
func TestHooks(t *testing.T) {
	m, called := maker(t, nil)
	for _, d := range []*hook.Decision{{By: "guard"}, {By: "guard", Error: "not today"}} {
		c := m.Prepare(t.Context(), executes("acme/pay", object{"text": "x"}))
		c.Skip(d)
		text, err := c.Make(t.Context())
		if err != nil || codeOf(t, text) != string(fault.Denied) || c.Risk != "read" ||
			!strings.Contains(text, map[bool]string{true: "not today", false: `guard`}[d.Error != ""]) {
			t.Errorf("%s, %v", text, err)
		}
		if a := c.After(); a["status"] != transcript.CallRefused || a["error"] == nil || c.Before()["input"] == nil {
			t.Errorf("%v", a)
		}
	}
	if called.Load() > 0 {
		t.Errorf("%d calls were made", called.Load())
	}
	for text, want := range map[string]string{`{"success":true,"data":{"x":1}}`: "map[x:1]",
		`{"success":false,"data":{"x":1}}`: "map[data:map[x:1] success:false]", `["x"]`: "[x]"} {
		c := &toolcall.Call{Result: transcript.CallResult{Status: transcript.CallOK}}
		if v, err := c.Said(text); err != nil || fmt.Sprint(v) != want {
			t.Errorf("%s: %v, %v", text, v, err)
		}
	}
	for _, e := range []*transcript.Fault{nil, {Code: string(fault.Timeout), Message: "slow"}} {
		c := &toolcall.Call{Result: transcript.CallResult{Status: transcript.CallFailed, Error: e}}
		want := fault.Failed
		if e != nil {
			want = fault.Timeout
		}
		if v, err := c.Said(`{"success":true,"data":1}`); v != nil || fault.CodeOf(err) != want {
			t.Errorf("%v: %v, %v", e, v, err)
		}
	}
	for want, h := range map[string]*hook.Hook{
		plan.NameSearch:  {Verb: capability.Search, Ref: model.Ref{Kind: "tool", ID: "acme/x"}},
		plan.NameExecute: {Verb: capability.Execute, Ref: model.Ref{Kind: "tool", ID: "acme/echo"}, Dry: true},
		"":               {Verb: capability.Load, Ref: model.Ref{Kind: "tool", ID: "acme/echo"}},
		"knowledge":      {Verb: capability.Execute, Ref: model.Ref{Kind: "knowledge", ID: "acme/style"}},
	} {
		call, text, err := m.ForHook(t.Context(), h, object{"a": "b"})
		switch {
		case err != nil || (call == nil) != (text != nil):
			t.Errorf("%q: %+v, %v, %v", want, call, text, err)
		case call == nil && !strings.Contains(fmt.Sprint(text), map[string]string{"": "tool_type",
			"knowledge": "# Style"}[want]):
			t.Errorf("%q: %v", want, text)
		case call != nil && (call.Name != want || want == plan.NameExecute && call.Input["dry_run"] != true):
			t.Errorf("%q: %+v", want, call)
		}
	}
}

// TestJobText: a process takes a job that names its thread and nothing else: what it doesn't know could be a bound
// that it doesn't keep.
func TestJobText(t *testing.T) {
	for text, good := range map[string]bool{
		`{"thread":"acme/x-1-a"}`: true, `{"thread":""}`: false, `{}`: false, `{"thread":"acme/x-1-a","more":1}`: false,
		`{"thread":"acme/x-1-a"} {"thread":"acme/y-1-a"}`: false, `[]`: false, ``: false,
	} {
		if j, err := toolcall.ParseJob([]byte(text)); (err == nil) != good || good && j.Thread != "acme/x-1-a" ||
			err != nil && fault.CodeOf(err) != fault.Validation {
			t.Errorf("%s: %+v, %v", text, j, err)
		}
	}
}
