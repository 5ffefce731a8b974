package resume

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/provider"
	"github.com/rye-build/rye/exec/thread/provider/modeltest"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// leading is a directive that starts a thread of acme/asking.
func leading(name string, tools ...string) string {
	return strings.NewReplacer(`name="asking"`, `name="`+name+`"`, "Ask about it.", "Lead it.",
		`<limits turns="6"`, `<limits spawns="3" depth="4" turns="6"`,
		"</execute>", "<directive>acme/asking</directive></execute>").Replace(asking(
		append(tools, "rye/agent/threads/thread_directive")...))
}

// starts is a call that starts a thread of acme/asking.
func starts() provider.ToolCall {
	return provider.ToolCall{ID: "s", Name: "rye_execute", Input: object{"item_type": "tool",
		"item_id": "rye/agent/threads/thread_directive", "parameters": object{"directive_name": "acme/asking"}}}
}

// cost adds up what the answers in a thread's record have cost.
func (w *world) cost(id string) (all int64) {
	w.t.Helper()
	for e, err := range transcript.Read(w.row(id).Dir()) {
		must(w.t, err)
		var a transcript.Answer
		if e.Type == transcript.TypeAnswer {
			must(w.t, e.Decode(&a))
			all += a.Cost
		}
	}
	return all
}

// TestForeignSuccessor: a thread below a stranger's directive is the stranger's also where its work goes on in
// another: with one message a user would give a stranger's directive the files of the project.
func TestForeignSuccessor(t *testing.T) {
	t.Parallel()
	const read = "rye/file-system/read"
	w := newWorld(t, map[string]string{"directives/acme/asking.md": asking(read),
		"directives/theirs/lead.md": leading("lead", read)})
	w.Write("a.txt", "hello\n")
	policy := filepath.Join(w.Home, ".ai", "policy.yaml")
	b, err := os.ReadFile(policy)
	must(t, err)
	w.Write("../home/.ai/policy.yaml", strings.Replace(string(b), "\noverride", "  bob: {key: \""+
		keytest.Bob().Public().String()+"\"}\n\ngrants:\n  \"directive:theirs/**\": [\"execute:tool:rye/*\", "+
		"\"execute:directive:acme/*\"]\n\noverride", 1)+"  \"directive:theirs/**\": {keys: [bob]}\n")
	w.Write(".ai/directives/theirs/lead.md", leading("lead", read))
	w.SignFiles(keytest.Bob(), "directives/theirs/lead.md")
	w.open()
	reads := provider.ToolCall{ID: "r", Name: "rye_execute", Input: object{"item_type": "tool", "item_id": read,
		"parameters": object{"file_path": "a.txt"}}}
	for _, c := range []struct {
		directive string
		foreign   bool
	}{{"theirs/lead", true}, {"acme/asking", false}} {
		w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
			all := q.Body["messages"].([]any)
			if last := all[len(all)-1].(object); last["role"] == "tool" ||
				!strings.Contains(fmt.Sprint(last), "Lead it.") {
				return modeltest.Turn{Text: "done", Usage: usage}
			}
			return modeltest.Turn{Calls: []provider.ToolCall{starts()}, Usage: usage}
		})
		first := w.run(thread.Start{Directive: model.Ref{Kind: "directive", ID: c.directive}})
		old := first.Thread
		if c.foreign {
			old = ""
			for _, row := range w.rows() {
				if row.Parent == first.Thread {
					old = row.ID
				}
			}
		}
		if !first.Success || old == "" {
			t.Fatalf("%s: %+v, %v", c.directive, first, first.Error)
		}
		var said string
		w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
			all := q.Body["messages"].([]any)
			if last := all[len(all)-1].(object); last["role"] == "tool" {
				said = fmt.Sprint(last)
				return modeltest.Turn{Text: "done", Usage: usage}
			}
			return modeltest.Turn{Calls: []provider.ToolCall{reads}, Usage: usage}
		})
		r, err := w.carry(Order{Thread: old, Message: "Read it."})
		must(t, err)
		if strings.Contains(said, "hello") == c.foreign || said == "" {
			t.Errorf("%s: %+v, %v, the model got %s", c.directive, r.Result, r.Error, said)
		}
	}
}

// TestCutRecord: the work of a thread that has ended goes on from a whole record alone: if its last lines were cut
// off, what they cost could be spent once more.
func TestCutRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.server.Handle(stepping("acme/echo"))
	old := w.run(thread.Start{})
	path := filepath.Join(w.row(old.Thread).Dir(), transcript.LinesFile)
	b, err := os.ReadFile(path)
	must(t, err)
	at := bytes.Index(b, []byte(`"type":"checkpoint"`)) // of the first turn
	end := at + bytes.IndexByte(b[max(at, 0):], '\n') + 1
	if at < 0 || end == len(b) {
		t.Fatalf("%d of %d bytes", end, len(b))
	}
	must(t, os.WriteFile(path, b[:end], 0o600))
	if r, err := w.carry(Order{Thread: old.Thread, Message: "More."}); r.Result != nil ||
		fault.CodeOf(err) != fault.Integrity || len(w.after(old.Thread)) != 0 {
		t.Errorf("%+v, %v", r.Result, err)
	}
}

// TestFirstTurn: a thread that was killed in its first turn has nothing that another one could go on with. It is not
// said to be tampered with, and the way on is to resume it.
func TestFirstTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.server.Handle(stepping("acme/echo"))
	old := w.run(thread.Start{Limits: []string{"turns=1"}})
	path := filepath.Join(w.row(old.Thread).Dir(), transcript.LinesFile)
	b, err := os.ReadFile(path)
	must(t, err)
	at := bytes.Index(b, []byte(`"type":"checkpoint"`))
	must(t, os.WriteFile(path, b[:bytes.LastIndexByte(b[:max(at, 0)], '\n')+1], 0o600))
	r, err := w.carry(Order{Thread: old.Thread, Handoff: true, Limits: []string{"turns=3"}})
	if r.Result != nil || fault.CodeOf(err) != fault.Unsigned || strings.Contains(err.Error(), "integrity") ||
		fault.Of(err).Hint[0] != "rye thread resume "+old.Thread {
		t.Errorf("%+v, %v", r.Result, err)
	}
}

// TestSummaryPaid: what a summary costs is no more there for the thread that goes on, and neither is what the threads
// below it cost: one that has too much to read for its context is summarised too. It would spend more than its budget.
func TestSummaryPaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]string{"config/coordination.yaml": summedBy("acme/summing"),
		"directives/acme/summing.md": strings.Replace(leading("summing", "acme/echo"), "</directive>\n```",
			`<inputs><input name="transcript_content" type="string"/><input name="directive_name" type="string"/>`+
				`<input name="max_summary_tokens" type="integer"/></inputs></directive>`+"\n```", 1)})
	w.change("tools/rye/agent/providers/local.yaml", strings.Replace(w.server.Item("local"),
		`{input: "0", output: "0"`, `{input: "1", output: "2"`, 1))
	w.server.Handle(stepping("acme/echo"))
	old := w.run(thread.Start{Limits: []string{"turns=1"}})
	full := false
	w.server.Handle(func(q *modeltest.Request) modeltest.Turn {
		if strings.Contains(fmt.Sprint(q.Body["messages"]), "Lead it.") && !full {
			full = true
			return modeltest.Turn{Calls: []provider.ToolCall{executes("s", "acme/echo")},
				Usage: provider.Usage{Input: 32000, Output: 5}}
		}
		return modeltest.Turn{Text: "done", Usage: usage}
	})
	r, err := w.carry(Order{Thread: old.Thread, Handoff: true, Limits: []string{"turns=6"}})
	must(t, err)
	var own, below int64
	for _, row := range w.rows() {
		if row.Parent != "" {
			below += w.cost(row.ID)
		} else if row.Directive == "directive:acme/summing" {
			own += w.cost(row.ID)
		}
	}
	record, err := read(w.row(r.Thread).Dir())
	must(t, err)
	before, err := read(w.row(old.Thread).Dir())
	must(t, err)
	want := before.limits.Spend - w.cost(old.Thread) - own - below
	if !r.Success || !r.Summarised || own <= 0 || below <= 0 || record.limits.Spend != want {
		t.Errorf("%+v, %v: the summary cost %d and %d, and %d is left, want %d", r.Result, r.Error, own, below,
			record.limits.Spend, want)
	}
}
