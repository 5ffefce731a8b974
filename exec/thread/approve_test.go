package thread_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/toolcall"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// wiping is a project whose directive may run a tool of risk destructive.
func wiping() map[string]string {
	items := plain(strings.ReplaceAll(asking, "<tool>acme/echo</tool></execute>", "<tool>acme/*</tool></execute>"))
	items["tools/acme/wipe.star"] = strings.ReplaceAll(echo, "risk: read", "risk: destructive\n# tags: [danger]")
	return items
}

// TestApproved: a call that needs an approval is made when there is one: for once, for the thread, or beforehand.
func TestApproved(t *testing.T) {
	t.Parallel()
	wipe := func(id string) provider.ToolCall { return executes(id, "acme/wipe", object{"text": "x", "token": id}) }
	turns := []modeltest.Turn{{Calls: []provider.ToolCall{wipe("a"), wipe("b")}},
		{Calls: []provider.ToolCall{wipe("c")}}, {Text: "done"}}
	for _, c := range []struct {
		name    string
		replies []toolcall.Reply // nil: there is no one to ask
		allow   []string
		asked   int
		want    []bool // which of the calls are made
	}{
		{"no terminal", nil, nil, 0, []bool{false, false, false}},
		{"no", []toolcall.Reply{toolcall.No, toolcall.No, toolcall.No}, nil, 3, []bool{false, false, false}},
		{"once", []toolcall.Reply{toolcall.Once, toolcall.No, toolcall.Once}, nil, 3, []bool{true, false, true}},
		{"thread", []toolcall.Reply{toolcall.ThisThread}, nil, 1, []bool{true, true, true}},
		{"later", []toolcall.Reply{toolcall.No, toolcall.ThisThread}, nil, 2, []bool{false, true, true}},
		{"allowed", nil, []string{"tool:acme/w*"}, 0, []bool{true, true, true}},
		{"other", nil, []string{"tool:acme/echo"}, 0, []bool{false, false, false}},
	} {
		w := newWorld(t, wiping(), turns...)
		asked := 0
		var ask toolcall.Ask
		if c.replies != nil {
			ask = func(_ context.Context, q *consent.Question) (toolcall.Reply, error) {
				if q.Ref.String() != "tool:acme/wipe" || q.Risk != "destructive" || q.Params["text"] != "x" ||
					q.Why() != "its risk is destructive" {
					t.Errorf("asked about %+v", q)
				}
				asked++
				return c.replies[asked-1], nil
			}
		}
		approver, err := toolcall.NewApprover(c.allow, ask, nil)
		must(t, err)
		r, err := w.run(t.Context(), thread.Start{Approver: approver})
		must(t, err)
		if !r.Success || asked != c.asked {
			t.Errorf("%s: asked %d times, %+v, %v", c.name, asked, r, r.Error)
		}
		last := w.server.Requests()[2].Body["messages"].([]any)
		var made []bool
		for _, m := range last {
			if m := m.(object); m["role"] == "tool" {
				text := m["content"].(string)
				made = append(made, strings.Contains(text, `"said"`))
				if !strings.Contains(text, `"said"`) && !strings.Contains(text, "APPROVAL_REQUIRED") {
					t.Errorf("%s: the model got %s", c.name, text)
				}
			}
		}
		for i := range c.want {
			if len(made) != 3 || made[i] != c.want[i] {
				t.Errorf("%s: made %v; want %v", c.name, made, c.want)
				break
			}
		}
	}
	if _, err := toolcall.NewApprover([]string{"tool:a b"}, nil, nil); fault.CodeOf(err) != fault.Validation {
		t.Errorf("%v", err)
	}
}

// TestAskedAndCancelled: who leaves the question ends the thread.
func TestAskedAndCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, wiping(), modeltest.Turn{Calls: []provider.ToolCall{executes("a", "acme/wipe",
		object{"text": "x"})}})
	ctx, cancel := context.WithCancel(t.Context())
	approver, err := toolcall.NewApprover(nil, func(ctx context.Context, _ *consent.Question) (toolcall.Reply, error) {
		cancel()
		<-ctx.Done()
		return toolcall.No, ctx.Err()
	}, nil)
	must(t, err)
	r, err := w.run(ctx, thread.Start{Approver: approver})
	must(t, err)
	if r.Status != thread.Interrupted || r.Error.Code != fault.Cancelled {
		t.Errorf("%+v, %v", r, r.Error)
	}
}

// TestSigns: the model is offered rye_sign where the run allows it and the directive has a permission for it; what it
// may sign is what that permission is about, and a thread that goes on without --allow-sign is refused.
func TestSigns(t *testing.T) {
	t.Parallel()
	signs := func(id, item string) provider.ToolCall {
		return call(id, "rye_sign", object{"item_type": "tool", "item_id": item})
	}
	turns := []modeltest.Turn{{Calls: []provider.ToolCall{signs("a", "acme/echo"), signs("b", "other/echo")}},
		{Text: "done"}}
	permitted := strings.ReplaceAll(asking, "<permissions>", "<permissions><sign><tool>acme/*</tool></sign>")
	var asked []string
	yes := func(_ context.Context, thread string, ref model.Ref) (map[string]any, error) {
		asked = append(asked, ref.String())
		return object{"ref": ref.String(), "thread": thread}, nil
	}
	for _, c := range []struct {
		name, directive string
		sign            toolcall.Sign
		want            [2]string // of the results
		asked           int
	}{
		{"not allowed", permitted, nil, [2]string{"TOOL_NOT_FOUND", "TOOL_NOT_FOUND"}, 0},
		{"no permission", asking, yes, [2]string{"TOOL_NOT_FOUND", "TOOL_NOT_FOUND"}, 0},
		{"both", permitted, yes, [2]string{`"ref":"tool:acme/echo"`,
			"the directive has no permission for sign:tool:other/echo"}, 1},
	} {
		asked = nil
		w := newWorld(t, plain(c.directive), turns...)
		approver, err := toolcall.NewApprover(nil, nil, c.sign)
		must(t, err)
		r, err := w.run(t.Context(), thread.Start{Approver: approver})
		must(t, err)
		offered := strings.Contains(string(w.server.Requests()[0].Raw), `"rye_sign"`)
		if !r.Success || len(asked) != c.asked || offered != (c.asked > 0) {
			t.Errorf("%s: asked about %q, offered %t: %+v", c.name, asked, offered, r)
		}
		var got []string
		for _, m := range w.server.Requests()[1].Body["messages"].([]any) {
			if m := m.(object); m["role"] == "tool" {
				got = append(got, m["content"].(string))
			}
		}
		for i, want := range c.want {
			if len(got) != 2 || !strings.Contains(got[i], want) {
				t.Errorf("%s: the model got %q; want %q", c.name, got, c.want)
			}
		}
		played, err := w.engine.PlayBack(t.Context(), filepath.Join(w.engine.Dir, filepath.FromSlash(r.Thread)))
		if err != nil || played.Difference != nil {
			t.Errorf("%s: replay: %+v, %v", c.name, played, err)
		}
	}
	w := newWorld(t, plain(permitted), turns...)
	ctx, cancel := context.WithCancel(t.Context())
	approver, err := toolcall.NewApprover(nil, nil, yes)
	must(t, err)
	r, err := w.run(ctx, thread.Start{Approver: approver, Live: thread.Live{Event: func(e *transcript.Event) {
		if e.Type == transcript.TypeRequest {
			cancel()
		}
	}}})
	must(t, err)
	if r.Status != thread.Interrupted {
		t.Fatalf("%+v", r)
	}
	r, err = w.engine.Resume(t.Context(), &thread.Resume{Thread: r.Thread})
	must(t, err)
	last := w.server.Requests()[len(w.server.Requests())-1]
	if !r.Success || !strings.Contains(string(last.Raw), "APPROVAL_REQUIRED") ||
		!strings.Contains(string(last.Raw), "this run has no --allow-sign") {
		t.Errorf("%+v: %s", r, last.Raw)
	}
}
