package control_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/ledger"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/manifest/key/keytest"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A world has a registry, a ledger and a project.
type world struct {
	testing.TB
	rows       *roster.Local
	money      *ledger.Local
	controller *control.Controller
	begun      int
	// driver drives what is begun; zero for this process.
	driver roster.Driver
	died   atomic.Bool // all processes
}

func newWorld(t testing.TB) *world {
	dir := t.TempDir()
	w := &world{TB: t, rows: roster.Open(filepath.Join(dir, "registry"), time.Now, nil),
		money: ledger.In(filepath.Join(dir, "ledger"), nil)}
	w.rows.Runs = func(process int) string {
		if w.died.Load() {
			return ""
		}
		return proc.Start(process)
	}
	t.Cleanup(func() { must(t, w.rows.Close(), w.money.Shut()) })
	w.controller = &control.Controller{Roster: w.rows, Ledger: w.money, Now: time.Now, Root: t.TempDir(),
		WaitsPath: filepath.Join(dir, "waits")}
	return w
}

var began = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// begin registers a thread that this process drives, with a transcript of these events.
func (w *world) begin(id, parent, continues string, events ...transcript.Payload) *roster.Thread {
	w.Helper()
	p, err := roster.ProjectAt(w.controller.Root)
	must(w, err)
	w.begun++
	row := &roster.Thread{ID: id, Kind: "directive", Directive: "directive:acme/plan", Project: p, Parent: parent,
		Continues: continues,
		Created:   began.Add(time.Duration(w.begun) * time.Second)}
	must(w, os.MkdirAll(row.Dir(), 0o700), w.rows.Create(w.Context(), row, 99))
	claimed, err := w.rows.Claim(w.Context(), id, 0,
		cmp.Or(w.driver, roster.Driver{Process: os.Getpid(), Start: proc.Start(os.Getpid())}))
	must(w, err)
	must(w, w.money.Do(w.Context(), ledger.Open(id, parent, 1, nil, began)))
	out, err := transcript.Create(row.Dir(), id, transcript.Started{Kind: "directive",
		Directive: transcript.Item{Ref: "directive:acme/plan", Digest: cas.Sum(nil)},
		Policy:    []cas.Digest{}, Grants: []string{}, Model: "m"}, transcript.Driver{Epoch: 1},
		transcript.Options{Key: keytest.Seeded(1), Now: time.Now})
	must(w, err)
	if len(events) > 0 {
		_, err = out.Append(events...)
	}
	must(w, err, out.Close())
	return claimed
}

func (w *world) set(id string, s roster.State, next string) {
	w.Helper()
	must(w, w.rows.Set(w.Context(), id, 1, s, next))
}

var cost = transcript.Cost{Turns: 2, InputTokens: 30, OutputTokens: 4, Spend: 500_000_000}

func completed(result string) transcript.Payload {
	return transcript.Completed{Result: result, Cost: cost}
}

func request(text string) transcript.Payload {
	return transcript.Request{Turn: 1, Attempt: 1, Digest: cas.Sum(nil), Model: "m",
		Provider: transcript.Item{Ref: "tool:acme/p"},
		Messages: []any{transcript.Message{Role: "user", Text: text},
			transcript.Message{Role: "assistant", Text: "an answer of before"}}}
}

func TestMatch(t *testing.T) {
	ids := []string{"acme/plan-1-a", "acme/plan-1-ab", "acme/step-2-c"}
	for name, want := range map[string]string{"acme/plan-1-a": "acme/plan-1-a", "acme/plan-1-ab": "acme/plan-1-ab",
		"acme/s": "acme/step-2-c", "plan": "", "": ""} {
		if got, err := control.Match(name, ids); err != nil || got != want {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	if _, err := control.Match("acme/p", ids); fault.CodeOf(err) != fault.Ambiguous {
		t.Error(err)
	}
}

func TestFind(t *testing.T) {
	w := newWorld(t)
	w.begin("acme/plan-1-a", "", "", completed("x"))
	w.begin("acme/plan-1-b", "", "")
	// The process that wrote the end died before it said so.
	w.died.Store(true)
	row, err := w.controller.Find(t.Context(), "acme/plan-1-a")
	must(t, err)
	if row.State != roster.Completed {
		t.Errorf("%+v", row)
	}
	other := filepath.Join(w.controller.Root, ".ai", "threads", "acme", "here-1-a")
	must(t, os.MkdirAll(other, 0o700), os.WriteFile(filepath.Join(other, transcript.LinesFile), nil, 0o600))
	for name, want := range map[string]fault.Code{"acme/plan": fault.Ambiguous, "acme/none": fault.NotFound,
		"acme/plan-1-c": fault.NotFound, "": fault.NotFound,
		"../x": fault.NotFound, "acme/here-1-a": fault.NotFound} {
		_, err := w.controller.Find(t.Context(), name)
		if f := fault.Of(err); f.Code != want || len(f.Line().Code) == 0 {
			t.Errorf("%q: %v", name, err)
		}
	}
	// Another user's: only root can make one, and read one.
	if os.Chown(other, 4711, -1) != nil {
		must(t, os.Chmod(other, 0))
		t.Cleanup(func() { must(t, os.Chmod(other, 0o700)) })
	}
	if _, err := w.controller.Find(t.Context(), "acme/here-1-a"); fault.CodeOf(err) != fault.Denied {
		t.Error(err)
	}
	w.controller.Root = filepath.Join(w.controller.Root, "gone")
	if _, err := w.controller.Find(t.Context(), "acme/plan"); fault.CodeOf(err) != fault.NotFound {
		t.Error(err)
	}
}

func TestWait(t *testing.T) {
	w := newWorld(t)
	w.begin("a", "", "")
	w.begin("b", "", "", completed("done b"))
	w.begin("c", "", "", request("x"), transcript.Answer{Turn: 1, Attempt: 1, Cost: 7},
		transcript.Limit{Code: "turns_exceeded", Current: 1, Max: 1},
		transcript.Waiting{State: "interrupted", Reason: "limit",
			Error: &transcript.Fault{Code: "LIMIT_EXCEEDED", Message: "too many"}})
	ask := []string{"a", "b", "a", "c"}
	if _, err := w.controller.Wait(t.Context(), append(ask, "none"),
		control.Waiting{}); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("none: %v", err)
	}
	out, err := w.controller.Wait(t.Context(), ask, control.Waiting{Timeout: time.Millisecond})
	if f := fault.Of(err); f.Code != fault.Timeout || len(out) != 3 || out[0].Done() ||
		!reflect.DeepEqual(f.Details["threads"], []string{"a", "b", "c"}) {
		t.Errorf("%v, %+v", err, out)
	}
	w.set("c", roster.Waiting, "")
	_, err = w.controller.Wait(t.Context(), ask, control.Waiting{Timeout: time.Millisecond})
	if hint := fault.Of(err).Hint; !slices.Equal(hint, []string{"rye approvals", "rye thread wait a b c"}) {
		t.Errorf("%q", hint)
	}
	shown := make(chan int, 100)
	show := func(rows []*roster.Thread) { shown <- len(slices.DeleteFunc(slices.Clone(rows), control.Stands)) }
	type result struct {
		out []*control.Snapshot
		err error
	}
	done, first := make(chan result, 1), make(chan result, 1)
	go func() {
		out, err := w.controller.Wait(t.Context(), ask, control.Waiting{Show: show})
		done <- result{out, err}
	}()
	<-shown
	go func() {
		out, err := w.controller.Wait(t.Context(), ask, control.Waiting{Any: true})
		first <- result{out, err}
	}()
	w.set("b", roster.Completed, "")
	if r := <-first; r.err != nil || r.out[0].Done() || !r.out[1].Done() {
		t.Errorf("%+v", r)
	}
	w.set("c", roster.Interrupted, "")
	// The process of the last one dies.
	w.died.Store(true)
	r := <-done
	must(t, r.err)
	if a, b, c := r.out[0], r.out[1], r.out[2]; a.Status != "interrupted" ||
		fault.CodeOf(a.Why()) != fault.Cancelled || a.Ended() || !a.Done() ||
		b.Result.Result != "done b" || b.Why() != nil || !b.Ended() || b.Cost.Spend != 0.5 ||
		c.Status != "interrupted" || c.Failed.Message != "too many" || c.Cost.Spend != 7e-9 ||
		!strings.Contains(strings.Join(fault.Of(c.Why()).Hint, ";"), "--limit turns=2") {
		t.Errorf("%+v, %+v, %+v", a, b, c)
	}
	if out, err := w.controller.Wait(t.Context(), nil, control.Waiting{}); err != nil || len(out) != 0 {
		t.Errorf("none: %v, %v", out, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(os.ErrClosed)
	if _, err := w.controller.Wait(ctx, []string{"a"}, control.Waiting{}); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

func TestChain(t *testing.T) {
	w := newWorld(t)
	w.begin("a", "", "", transcript.HandedOff{Next: "b", Reason: "context", Cost: cost})
	w.set("a", roster.Continued, "b")
	w.begin("b", "", "a", completed("all"))
	w.set("b", roster.Completed, "")
	w.begin("c", "", "b", request("Find the needle."),
		transcript.Answer{Turn: 1, Attempt: 1, Text: "A needle, the NEEDLE."},
		transcript.CallStarted{Call: "c1", Turn: 1, Name: "x", Ref: "tool:acme/x",
			Input: map[string]any{"deep": []any{"needles", 7, true, nil}}},
		transcript.CallResult{Call: "c1", Status: "ok", Output: `{"n": "needle"}`},
		transcript.Hook{ID: "needle", Event: "e"},
		transcript.CallStarted{Call: "c2", Turn: 1, Name: "x", Input: nil},
		transcript.CallResult{Call: "c2", Status: "failed", Error: &transcript.Fault{Code: "X", Message: "no needle"}},
		transcript.Continued{Message: "needle?"}, transcript.Failed{Error: transcript.Fault{Code: "EXECUTION_FAILED",
			Message: "needle lost"}, Cost: cost})
	w.set("c", roster.Failed, "")
	w.begin("d", "a", "")
	w.begin("e", "d", "")
	w.begin("f", "e", "")
	names := func(nodes []*control.Node) (all []string) {
		for _, n := range nodes {
			all = append(all, strings.Repeat(" ", n.Depth)+n.Thread)
		}
		return all
	}
	for _, id := range []string{"a", "b", "c"} {
		chain, err := w.controller.Chain(t.Context(), id)
		must(t, err)
		if got := names(chain); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("%s: %q", id, got)
		}
	}
	for id, want := range map[string][]string{"": {"a", " d", "  e", "   f", "b", "c"}, "d": {"d", " e", "  f"},
		"c": {"c"}} {
		tree, err := w.controller.Tree(t.Context(), id)
		must(t, err)
		if got := names(tree); !slices.Equal(got, want) {
			t.Errorf("%q: %q", id, got)
		}
	}
	must(t, w.rows.Create(t.Context(), &roster.Thread{ID: "h", Kind: "directive", Directive: "directive:acme/plan",
		Project: roster.Project{Root: w.controller.Root}, Created: began}, 0),
		os.MkdirAll(filepath.Join(w.controller.Root, ".ai", "threads", "h"), 0o700),
		w.rows.Set(t.Context(), "h", 0, roster.Failed, ""))
	if out, err := w.controller.Results(t.Context(), []string{"h"}); err != nil || out[0].Status != "error" ||
		!strings.Contains(out[0].Failed.Message, "could not be started") {
		t.Errorf("%+v, %v", out, err)
	}
	for id, below := range map[string]bool{"d": true, "f": true, "a": false, "b": false, "none": false} {
		if err := w.controller.Below(t.Context(), "a", id); (err == nil) != below || err != nil &&
			fault.CodeOf(err) != fault.Denied {
			t.Errorf("%s: %v", id, err)
		}
	}
	if w.controller.Below(t.Context(), "", "a") == nil || w.controller.Below(t.Context(), "", "d") == nil {
		t.Error("no thread is above")
	}
	out, err := w.controller.Results(t.Context(), []string{"a", "c"})
	must(t, err)
	if a, c := out[0], out[1]; a.Thread != "b" || a.Asked != "a" || a.Cost.Turns != 4 || c.Status != "error" ||
		fault.CodeOf(c.Why()) != fault.Failed {
		t.Errorf("%+v, %+v", a, c)
	}
	hits, err := w.controller.Search(t.Context(), "b", control.Query{Text: "NEEDLE"})
	must(t, err)
	var types []string
	for _, h := range hits.Results {
		types = append(types, string(h.Type))
	}
	if want := "request answer call_started call_result call_result continued thread_error"; strings.Join(types,
		" ") != want || hits.Truncated ||
		!slices.Equal(hits.Chain, []string{"a", "b", "c"}) || len(hits.Results[1].Matches) != 2 {
		t.Errorf("%+v", hits)
	}
	if hits, err = w.controller.Search(t.Context(), "c",
		control.Query{Text: "^needle", Regex: true, Most: 1}); err != nil || len(hits.Results) != 1 ||
		!hits.Truncated {
		t.Errorf("%+v, %v", hits, err)
	}
	if hits, err = w.controller.Search(t.Context(), "c", control.Query{Text: "7"}); err != nil ||
		len(hits.Results) != 1 {
		t.Errorf("a number: %+v, %v", hits, err)
	}
	w.begin("g", "", "", request(strings.Repeat("é", 400)+"needle"+strings.Repeat("é", 400)))
	if hits, err = w.controller.Search(t.Context(), "g", control.Query{Text: "needle"}); err != nil ||
		len(hits.Results[0].Snippet) > 500 ||
		strings.Trim(hits.Results[0].Snippet, "é") != "needle" {
		t.Errorf("a part: %+v, %v", hits, err)
	}
	for name, q := range map[string]control.Query{"empty": {}, "bad": {Text: "(", Regex: true},
		"long": {Text: strings.Repeat("x", 2000)}, "few": {Text: "x", Most: -1}} {
		if _, err := w.controller.Search(t.Context(), "c", q); fault.CodeOf(err) != fault.Validation {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A transcript that was changed is searched up to there; a thread whose directory is gone is lost.
	lines := filepath.Join(w.controller.Root, ".ai", "threads", "c", transcript.LinesFile)
	b, err := os.ReadFile(lines)
	must(t, err, os.WriteFile(lines, []byte(strings.Replace(string(b), "the NEEDLE", "the needle", 1)), 0o600))
	if hits, err = w.controller.Search(t.Context(), "c", control.Query{Text: "needle"}); err != nil ||
		len(hits.Results) != 2 || !slices.Equal(hits.Damaged, []string{"c"}) {
		t.Errorf("%+v, %v", hits, err)
	}
	if _, err := w.controller.Results(t.Context(), []string{"c"}); err == nil {
		t.Error("the result of a transcript that was changed")
	}
	must(t, os.RemoveAll(filepath.Dir(lines)))
	out, err = w.controller.Results(t.Context(), []string{"c"})
	must(t, err)
	if out[0].Status != control.Lost || fault.CodeOf(out[0].Why()) != fault.NotFound {
		t.Errorf("%+v", out[0])
	}
	if tree, err := w.controller.Tree(t.Context(), "c"); err != nil || tree[0].Status != control.Lost {
		t.Errorf("%+v, %v", tree, err)
	}
	if hits, err = w.controller.Search(t.Context(), "c", control.Query{Text: "needle"}); err != nil ||
		len(hits.Results) != 0 {
		t.Errorf("%+v, %v", hits, err)
	}
}
