package toolcall_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/exec/thread/toolcall"
)

const thread = "acme/plan-1795000000-a2b3c"

var (
	noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	pay  = model.Ref{Kind: "tool", ID: "acme/pay"}
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func question() *consent.Question {
	return &consent.Question{Ref: pay, Digest: cas.Sum([]byte("pay")), Risk: "money",
		Given: map[string]any{"amount": 120.0}, Principal: "ann", Expires: time.Hour}
}

// A trail is where the steps of requests are written.
type trail struct{ err error }

func (l *trail) Ask(_ context.Context, a *record.Approval) error {
	return errors.Join(l.err, a.Check())
}

// A world is a journal of requests and those who use it.
type world struct {
	*approval.Local
	state string
	log   trail
	later atomic.Int64 // how far the clock has gone
	made  func()       // after each request that is asked for
}

func newWorld(t testing.TB) *world { return newWorldAt(t, t.TempDir()) }

func newWorldAt(t testing.TB, state string) *world {
	w := &world{state: state, made: func() {}}
	w.Local = approval.Open(w.state, func() time.Time { return noon.Add(time.Duration(w.later.Load())) }, &w.log, nil)
	t.Cleanup(func() { w.Close() })
	return w
}

func (w *world) Make(ctx context.Context, r *approval.Request, params []byte,
	same func(*approval.Request) bool) (*approval.Request, error) {
	r, err := w.Local.Make(ctx, r, params, same)
	w.made()
	return r, err
}

// approver makes requests in the world's journal.
func (w *world) approver(t testing.TB, ask toolcall.Ask, allow ...string) *toolcall.Approver {
	t.Helper()
	a, err := toolcall.NewApprover(allow, ask, nil)
	must(t, err)
	a.Use(&approval.Controller{Approvals: w, Project: "/p", Set: cas.Sum([]byte("set")), Now: w.Now})
	return a
}

// requests are those of the thread, the newest first.
func (w *world) requests(t testing.TB) []*approval.Request {
	t.Helper()
	all, err := approval.List(t.Context(), w, approval.Filter{Thread: thread})
	must(t, err)
	return all
}

// answers has the only request that waits answered.
func (w *world) answers(t testing.TB, to approval.State) string {
	t.Helper()
	all, err := approval.List(t.Context(), w, approval.Filter{Open: true})
	must(t, err)
	all = slices.DeleteFunc(all, func(r *approval.Request) bool { return r.State != approval.Pending })
	if len(all) != 1 {
		t.Fatalf("%d requests wait", len(all))
	}
	_, err = w.Do(t.Context(), all[0].ID, approval.Step{To: to, By: "bob"})
	must(t, err)
	return all[0].ID
}

// replies says these at a terminal, one after another, and counts what is asked.
func replies(asked *int, all ...toolcall.Reply) toolcall.Ask {
	return func(context.Context, *consent.Question) (toolcall.Reply, error) {
		*asked++
		return all[*asked-1], nil
	}
}

func approves(ctx context.Context, a *toolcall.Approver, thread, call string, q *consent.Question) (*consent.Approval,
	error) {
	return new(toolcall.Flow).Door(a, thread, call, "directive:acme/plan").Approve(ctx, q)
}

func refused(t testing.TB, what string, code fault.Code, err error) {
	t.Helper()
	if err == nil || fault.CodeOf(err) != code {
		t.Errorf("%s: got %v; want %s", what, err, code)
	}
}

// TestNothing: where nothing can approve, everything that asks is refused, and says how to go on.
func TestNothing(t *testing.T) {
	bare, err := toolcall.NewApprover(nil, nil, nil)
	must(t, err)
	graph := &ai.Item{}
	graph.Ref = model.Ref{Kind: "tool", ID: "acme/flow"}
	for name, a := range map[string]*toolcall.Approver{"none": nil, "without a controller": bare} {
		_, err := approves(t.Context(), a, thread, "c1", question())
		refused(t, name, fault.Approval, err)
		if hint := fault.Of(err).Hint; !slices.Equal(hint, []string{"rye trust check tool:acme/pay"}) {
			t.Errorf("%s: %q", name, hint)
		}
		_, err = a.Gate(t.Context(), thread, "c1", graph, "Deploy?", "ann", time.Hour)
		refused(t, name, fault.Approval, err)
		if e := fault.Of(err); !strings.Contains(e.Text, "Deploy?") || e.Details["ref"] != "tool:acme/flow" ||
			!slices.Equal(e.Hint, []string{"rye docs approvals"}) {
			t.Errorf("%s: %v, %v, %q", name, e, e.Details, e.Hint)
		}
		_, err = a.Sign(t.Context(), thread, pay)
		if refused(t, name, fault.Approval, err); a.CanSign() || !strings.Contains(err.Error(), "--allow-sign") {
			t.Errorf("%s: %v", name, err)
		}
		if unmade, err := a.Unmade(t.Context(), thread, "c1", pay); unmade || err != nil {
			t.Errorf("%s: unmade: %t, %v", name, unmade, err)
		}
		waits := fault.New(fault.Approval, "it waits").On("request", approval.NewID())
		if err := a.Await(t.Context(), waits); err != waits {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = toolcall.Globs("--allow", []string{"tool:acme/*", "tool:a b"})
	if refused(t, "a bad glob", fault.Validation, err); !strings.HasPrefix(err.Error(), "--allow: ") ||
		fault.Of(err).Details["ref"] != "tool:a b" {
		t.Errorf("%v, %v", err, fault.Of(err).Details)
	}
}

// TestSeparate: neither --allow nor who asks approves what another person has to; and what --allow covers asks no one
// else.
func TestSeparate(t *testing.T) {
	w, asked := newWorld(t), 0
	ask := replies(&asked, toolcall.ThisThread)
	alone, err := toolcall.NewApprover([]string{"tool:acme/pay"}, ask, nil)
	must(t, err)
	q := question()
	q.Separate = true
	for name, a := range map[string]*toolcall.Approver{"terminal": alone,
		"controller": w.approver(t, ask, "tool:acme/pay")} {
		got, err := approves(t.Context(), a, thread, "c1", question())
		must(t, err)
		if got.By != "--allow" || got.Take != nil {
			t.Errorf("%s: %+v", name, got)
		}
		_, err = approves(t.Context(), a, thread, "c2", q)
		refused(t, name, fault.Approval, err)
	}
	a := w.approver(t, ask)
	_, err = approves(t.Context(), a, thread, "c3", question())
	must(t, err)
	id := w.answers(t, approval.Approved) // of c2, by another person
	_, err = approves(t.Context(), a, thread, "c4", q)
	refused(t, "after one for the thread", fault.Approval, err)
	got, err := approves(t.Context(), a, thread, "c2", q)
	must(t, err)
	if asked != 1 || got.By != "bob ("+id+")" || !got.Separate {
		t.Errorf("asked %d times: %+v", asked, got)
	}
}

// TestThisThread: an answer for the thread counts for its calls of the same file of the tool, and of calls that ask at
// the same time one question is put.
func TestThisThread(t *testing.T) {
	w, asked := newWorld(t), 0
	a := w.approver(t, replies(&asked, toolcall.ThisThread, toolcall.No, toolcall.Once))
	var begun, ended sync.WaitGroup
	begun.Add(2)
	w.made = func() { begun.Done(); begun.Wait() }
	for _, call := range []string{"c1", "c2"} {
		ended.Go(func() {
			if got, err := approves(context.Background(), a, thread, call, question()); err != nil ||
				!strings.HasPrefix(got.By, "ann (") || got.Take == nil {
				t.Errorf("%s: %+v, %v", call, got, err)
			}
		})
	}
	ended.Wait()
	w.made = func() {}
	for _, r := range w.requests(t) {
		if r.State != approval.Approved || r.By != "ann" || r.Through != "terminal" || r.Door != approval.Thread {
			t.Errorf("%+v", r)
		}
	}
	got, err := approves(t.Context(), a, thread, "c3", question())
	must(t, err)
	if got.By != "terminal" || asked != 1 || len(w.requests(t)) != 2 {
		t.Errorf("asked %d times, %d requests: %+v", asked, len(w.requests(t)), got)
	}
	changed := question()
	changed.Digest = cas.Sum([]byte("another file"))
	_, err = approves(t.Context(), a, thread, "c4", changed)
	refused(t, "another file", fault.Approval, err)
	_, err = approves(t.Context(), a, "acme/other-1795000000-a2b3c", "c1", question())
	must(t, err)
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}

// TestOnce: an answer for one call approves that call alone, and a no approves none: the next call asks again. A no to
// a request answers the same call until the request would have expired.
func TestOnce(t *testing.T) {
	alone := func(ask toolcall.Ask) *toolcall.Approver {
		a, err := toolcall.NewApprover(nil, ask, nil)
		must(t, err)
		return a
	}
	requests := func(ask toolcall.Ask) *toolcall.Approver { return newWorld(t).approver(t, ask) }
	for name, c := range map[string]struct {
		approver func(toolcall.Ask) *toolcall.Approver
		replies  []toolcall.Reply
	}{
		"terminal": {alone, []toolcall.Reply{toolcall.No, toolcall.Once, toolcall.No}},
		"request":  {requests, []toolcall.Reply{toolcall.Once, toolcall.No}},
	} {
		asked := 0
		a := c.approver(replies(&asked, c.replies...))
		for i, reply := range c.replies {
			_, err := approves(t.Context(), a, thread, fmt.Sprint("c", i), question())
			if asked != i+1 || (err == nil) != (reply == toolcall.Once) {
				t.Errorf("%s, call %d: %v, asked %d times", name, i, err, asked)
			}
			if err != nil {
				refused(t, name, fault.Approval, err)
			}
		}
	}
}

// TestFaults: what can't be asked, or written down, isn't approved.
func TestFaults(t *testing.T) {
	broken, asked := errors.New("broken"), 0
	once := replies(&asked, toolcall.Once)
	left, stop := context.WithCancelCause(t.Context())
	stop(broken)
	alone, err := toolcall.NewApprover(nil, once, nil)
	must(t, err)
	if got, err := approves(left, alone, thread, "c1", question()); !errors.Is(err, broken) || asked != 0 {
		t.Errorf("a thread that was cancelled: %+v, %v, asked %d times", got, err, asked)
	}
	q := question()
	q.Ref.ID = "acme/pay me"
	if got, err := approves(t.Context(), alone, thread, "c1", q); err == nil || asked != 0 {
		t.Errorf("no name: %+v, asked %d times", got, asked)
	}
	w := newWorld(t)
	w.log.err = broken
	if got, err := approves(t.Context(), w.approver(t, once), thread, "c1", question()); !errors.Is(err, broken) ||
		asked != 0 {
		t.Errorf("no audit log: %+v, %v, asked %d times", got, err, asked)
	}
	w.log.err = nil
	leaves := w.approver(t, func(context.Context, *consent.Question) (toolcall.Reply, error) {
		return toolcall.ThisThread, broken
	})
	for range 2 { // nothing is remembered
		if got, err := approves(t.Context(), leaves, thread, "c1", question()); !errors.Is(err, broken) {
			t.Errorf("a terminal that is gone: %+v, %v", got, err)
		}
	}
	if all := w.requests(t); len(all) != 1 || all[0].State != approval.Pending {
		t.Errorf("%+v", all)
	}
}

// TestGate: each visit of a gate asks once, at the terminal or elsewhere, and nothing answers it beforehand.
func TestGate(t *testing.T) {
	w, asked := newWorld(t), 0
	graph := &ai.Item{Raw: cas.Sum([]byte("flow"))}
	graph.Ref = model.Ref{Kind: "tool", ID: "acme/flow"}
	gate := func(a *toolcall.Approver, call string) (string, error) {
		return a.Gate(t.Context(), thread, call, graph, "Deploy?", "ann", time.Minute)
	}
	say := replies(&asked, toolcall.ThisThread, toolcall.No)
	a := w.approver(t, func(ctx context.Context, q *consent.Question) (toolcall.Reply, error) {
		if q.Ref != graph.Ref || q.Digest != graph.Raw || q.Why() != "Deploy?" || q.Principal != "ann" {
			t.Errorf("asked %+v", q)
		}
		return say(ctx, q)
	}, "tool:acme/*")
	for _, c := range []struct{ call, want string }{{"c1", toolcall.Pass}, {"c1", toolcall.Pass},
		{"c2", toolcall.Refuse}, {"c2", toolcall.Refuse}} {
		if got, err := gate(a, c.call); got != c.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", c.call, got, err, c.want)
		}
	}
	if all := w.requests(t); asked != 2 || len(all) != 2 || all[0].By != "ann" || all[0].Through != "terminal" {
		t.Errorf("asked %d times: %+v", asked, all)
	}
	away := w.approver(t, nil, "tool:acme/*")
	for call, c := range map[string]struct {
		to   approval.State
		want string
	}{"c3": {approval.Approved, toolcall.Pass}, "c4": {approval.Denied, toolcall.Refuse}} {
		_, err := gate(away, call)
		id := w.answers(t, c.to)
		if e := fault.Of(err); !errors.Is(err, approval.ErrWaits) ||
			!slices.Equal(e.Hint[:2], []string{"rye approve " + id, "rye thread resume " + thread}) {
			t.Errorf("%v, %q", err, e.Hint)
		}
		if got, err := gate(away, call); got != c.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", call, got, err, c.want)
		}
	}
	_, err := gate(away, "c5")
	refused(t, "no answer yet", fault.Approval, err)
	w.later.Add(int64(time.Minute))
	if got, err := gate(away, "c5"); got != toolcall.Expired || err != nil {
		t.Errorf("no answer in time: %q, %v", got, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	w.made = stop // while another question is asked
	if got, err := a.Gate(ctx, thread, "c6", graph, "Deploy?", "ann", time.Minute); !errors.Is(err,
		context.Canceled) || asked != 2 {
		t.Errorf("a run that was cancelled: %q, %v, asked %d times", got, err, asked)
	}
}

// TestUnmade: a call that has begun is known not to be made as long as its request shows that.
func TestUnmade(t *testing.T) {
	w := newWorld(t)
	a := w.approver(t, nil)
	is := func(want bool) {
		t.Helper()
		if got, err := a.Unmade(t.Context(), thread, "c1", pay); got != want || err != nil {
			t.Errorf("got %t, %v; want %t", got, err, want)
		}
	}
	is(false) // nothing was asked: it may have been made
	_, err := approves(t.Context(), a, thread, "c1", question())
	is(true)
	id, _ := fault.Of(err).Details["request"].(string)
	for _, other := range []struct {
		thread, call string
		ref          model.Ref
	}{{thread, "c2", pay}, {"acme/other-1795000000-a2b3c", "c1", pay},
		{thread, "c1", model.Ref{Kind: "tool", ID: "acme/refund"}}} {
		if got, err := a.Unmade(t.Context(), other.thread, other.call, other.ref); got || err != nil {
			t.Errorf("%v: %t, %v", other, got, err)
		}
	}
	waited := make(chan error)
	go func() { waited <- a.Await(context.Background(), fault.Of(err)) }()
	w.answers(t, approval.Approved)
	must(t, <-waited)
	is(true)
	me := approval.Self()
	for _, s := range []approval.Step{{To: approval.Executing, Driver: me, Execution: "x1"},
		{To: approval.Done, Driver: me}} {
		_, err := w.Do(t.Context(), id, s)
		must(t, err)
		is(false)
	}
	_, err = approves(t.Context(), a, thread, "c1", question())
	refused(t, "made already", fault.Conflict, err)

	refused(t, "no request", fault.Timeout, a.Await(t.Context(), fault.New(fault.Timeout, "too slow")))
	refused(t, "no such request", fault.NotFound,
		a.Await(t.Context(), fault.New(fault.Approval, "x").On("request", approval.NewID())))
	must(t, w.Close())
	must(t, os.WriteFile(filepath.Join(w.state, "approvals", "requests"), []byte("no journal\n"), 0o600))
	if unmade, err := newWorldAt(t, w.state).approver(t, nil).Unmade(t.Context(), thread, "c1", pay); unmade ||
		err == nil {
		t.Errorf("a journal that is damaged: %t, %v", unmade, err)
	}
}

// TestUnknownIsMade: a call whose process ended in the middle of it may have been made: who resumes the thread would
// have the money paid twice.
func TestUnknownIsMade(t *testing.T) {
	w := newWorld(t)
	a := w.approver(t, nil)
	_, err := approves(t.Context(), a, thread, "c1", question())
	refused(t, "asks", fault.Approval, err)
	id := w.answers(t, approval.Approved)
	me := approval.Self()
	for _, s := range []approval.Step{{To: approval.Executing, Driver: me, Execution: "x1"},
		{To: approval.Unknown, Driver: me}} {
		_, err := w.Do(t.Context(), id, s)
		must(t, err)
	}
	if unmade, err := a.Unmade(t.Context(), thread, "c1", pay); unmade || err != nil {
		t.Errorf("unmade: %t, %v", unmade, err)
	}
}

// TestSign: what may be signed is up to who starts the run.
func TestSign(t *testing.T) {
	broken := errors.New("broken")
	a, err := toolcall.NewApprover(nil, nil,
		func(_ context.Context, from string, ref model.Ref) (map[string]any, error) {
			if from != thread {
				return nil, broken
			}
			return map[string]any{"ref": ref.String()}, nil
		})
	must(t, err)
	if got, err := a.Sign(t.Context(), thread, pay); !a.CanSign() || err != nil || got["ref"] != "tool:acme/pay" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := a.Sign(t.Context(), "acme/other-1795000000-a2b3c", pay); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// TestFlow: the policies see what a thread had called when its call began, each once.
func TestFlow(t *testing.T) {
	var f toolcall.Flow
	f.Add(pay, []string{"money", "danger"})
	f.Add(pay, []string{"danger", "slow"})
	door := f.Door(nil, thread, "c1", "directive:acme/plan")
	refund := model.Ref{Kind: "tool", ID: "acme/refund"}
	if !f.Has(pay) || f.Has(refund) {
		t.Error("it has another tool")
	}
	f.Add(refund, []string{"late"})
	got := door.Flow
	if door.Thread != thread || got.Directive != "directive:acme/plan" ||
		!slices.Equal(got.Tools, []string{"tool:acme/pay"}) ||
		!slices.Equal(got.Tags, []string{"money", "danger", "slow"}) {
		t.Errorf("%+v", door)
	}
}
