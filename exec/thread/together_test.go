package thread_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/transcript"
)

// TestTogether: as many children of one turn run at once as config says, and no more; beside a call that has an
// effect, one after the other.
func TestTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config string
		also   []provider.ToolCall
		most   int
	}{
		"by default": {"", nil, 5},
		"of config": {
			"version: \"1.0.0\"\nschema_version: \"1.0.0\"\nconcurrency: {max_concurrent_children: 3}\n", nil, 3},
		"with an effect":  {"", []provider.ToolCall{executes("w", "acme/mark", object{"text": "x"})}, 1},
		"with a refusal":  {"", []provider.ToolCall{executes("w", "acme/none", object{})}, 5},
		"with one reader": {"", []provider.ToolCall{executes("w", "acme/echo", object{"text": "x"})}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			items := map[string]string{"directives/acme/plan.md": strings.ReplaceAll(strings.Replace(parent,
				"acme/echo", "acme/*", 1), "LIMITS", ""),
				"tools/acme/mark.star": strings.Replace(echo, "risk: read", "risk: write", 1)}
			if c.config != "" {
				items["config/resilience.yaml"] = c.config
			}
			w := newWorld(t, items)
			var mu sync.Mutex
			all, now, most := make(chan struct{}), 0, 0
			w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
				messages := q.Body["messages"].([]any)
				switch first := fmt.Sprint(messages[0].(object)["content"]); {
				case len(messages) > 1:
					return done
				case strings.Contains(first, "start eight"):
					turn := modeltest.Turn{Calls: c.also}
					for i := range 8 {
						turn.Calls = append(turn.Calls, starts(fmt.Sprint("c", i), "acme/plan", nil))
					}
					return turn
				}
				mu.Lock()
				now++
				if most = max(most, now); now == c.most && most == c.most {
					select {
					case <-all:
					default:
						close(all)
					}
				}
				mu.Unlock()
				<-all // the first wait for as many as there may be
				mu.Lock()
				now--
				mu.Unlock()
				return done
			})
			r := w.plan("eight")
			if !r.Success || most != c.most {
				t.Errorf("%+v, %v: %d at once, want %d", r, r.Error, most, c.most)
			}
			got := types(w.events(r))
			if inOrder := strings.Contains(got, strings.Repeat("call_started call_result ",
				8+len(c.also))); inOrder != (c.most == 1) {
				t.Errorf("recorded %s", got)
			}
			w.same(r.Thread)
		})
	}
}

// TestOwnContinuation: a project decides alone what a thread begins with that goes on with another's work, and who
// summarises that.
func TestOwnContinuation(t *testing.T) {
	t.Parallel()
	items := config(plain(asking), "hooks: []\n")
	items["config/coordination.yaml"] = "coordination: {continuation: {summary_directive: acme/sum}}\n"
	items["directives/acme/sum.md"] =
		`<directive name="sum" version="1.0.0"><metadata><description>d</description><category>acme</category><model provider="local" id="test-model"/></metadata>` +
			`<process>Sum up: {input:transcript_content}</process><inputs><input name="transcript_content" type="string"/><input name="directive_name" type="string"/>` +
			`<input name="max_summary_tokens" type="integer"/></inputs></directive>` + "\n"
	items["tools/rye/agent/continuation.star"] = starlark("rye/agent") +
		"def main(ctx): return [{'role': 'user', 'text': 'mine of %d: %s' % (len(ctx.config['messages']), ctx.config['summary'])}]\n"
	w := newWorld(t, items)
	w.window(10_000)
	w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
		messages := q.Body["messages"].([]any)
		switch first := fmt.Sprint(messages[0].(object)["content"]); {
		case strings.Contains(first, "Sum up"):
			return modeltest.Turn{Text: "in short"}
		case strings.HasPrefix(first, "mine"):
			return modeltest.Turn{Text: first}
		}
		turn := echoes("x")
		turn.Usage.Input = 9500
		return turn
	})
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	if !r.Success || r.Result != "mine of 3: in short" {
		t.Errorf("%+v, %v", r, r.Error)
	}
	w.same(r.Thread)
}

// TestFlowHandedOver: what a thread has called is known to the policies when another one goes on with its work, in
// this process and in the next.
func TestFlowHandedOver(t *testing.T) {
	t.Parallel()
	items := plain(strings.Replace(asking, "<tool>acme/echo</tool>", "<tool>acme/*</tool>", 1))
	items["tools/acme/mark.star"] = strings.Replace(echo, "risk: read", "risk: write", 1)
	for _, turns := range []string{"turns=9", "turns=2"} {
		w := newWorld(t, items)
		w.window(10_000)
		w.refuseMarkAfter("tool:acme/echo")
		w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
			messages := q.Body["messages"].([]any)
			last := messages[len(messages)-1].(object)
			switch {
			case strings.Contains(fmt.Sprint(messages[0]), "Write that summary"):
				return modeltest.Turn{Text: "in short"}
			case !w.handedOver():
				turn := echoes("x")
				turn.Usage.Input = 9500
				return turn
			case last["role"] == "tool" && strings.Contains(fmt.Sprint(last["content"]), "said"),
				last["role"] == "user":
				return modeltest.Turn{Calls: []provider.ToolCall{executes("m", "acme/mark", object{"text": "x"})}}
			}
			return modeltest.Turn{Text: fmt.Sprint(last["content"])}
		})
		r, err := w.run(t.Context(), thread.Start{Limits: []string{turns}})
		must(t, err)
		if turns == "turns=2" {
			if r.Status != thread.Interrupted {
				t.Fatalf("%+v, %v", r, r.Error)
			}
			r, err = w.resume(r.Thread, "turns=9")
			must(t, err)
		}
		if !r.Success || !strings.Contains(r.Result, "POLICY_DENIED") {
			t.Errorf("%s: %+v, %v", turns, r, r.Error)
		}
		w.same(r.Thread)
	}
}

// refuseMarkAfter has the user's policy refuse acme/mark once another tool has been called.
func (w *world) refuseMarkAfter(tool string) {
	w.t.Helper()
	policy := filepath.Join(w.Home, ".ai", "policy.yaml")
	text, err := os.ReadFile(policy)
	must(w.t, err)
	line := fmt.Sprintf("  flow: {names: [\"tool:acme/mark\"], when: flow.tools contains %q, answer: refuse}\n", tool)
	must(w.t, os.WriteFile(policy, append(text, "\nask:\n"+line...), 0o600))
}

// TestFlowOfGraph: the policies know that a thread has called a graph when it calls the next tool.
func TestFlowOfGraph(t *testing.T) {
	t.Parallel()
	items := graphs(map[string]string{"flow": flow("permissions: [execute:tool:acme/echo]\n", `  start: say
  nodes:
    say: {action: {item_id: acme/echo, params: {text: x}}}
`)})
	maps.Copy(items, plain(strings.Replace(asking, "<tool>acme/echo</tool>", "<tool>acme/*</tool>", 1)))
	w := newWorld(t, items, modeltest.Turn{Calls: []provider.ToolCall{executes("f", "acme/flow", object{})}},
		modeltest.Turn{Calls: []provider.ToolCall{executes("m", "acme/mark", object{"text": "x"})}}, done)
	w.refuseMarkAfter("tool:acme/flow")
	r, err := w.run(t.Context(), thread.Start{})
	must(t, err)
	var results []string
	for _, event := range w.events(r) {
		var result transcript.CallResult
		if event.Type == transcript.TypeCallResult {
			must(t, event.Decode(&result))
			results = append(results, result.Status)
		}
	}
	if !r.Success || !slices.Equal(results, []string{transcript.CallOK, transcript.CallRefused}) {
		t.Errorf("%+v, %v, %q", r, r.Error, results)
	}
}
