package approval_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/approval/approvaltest"
	"github.com/rye-build/rye/exec/consent"
)

// TestOwnApproval: only an approval that names another person than the caller counts as another person's. A caller
// could otherwise approve what the policy wants a second person for.
func TestOwnApproval(t *testing.T) {
	for by, separate := range map[string]bool{"ann": false, "": false, "bob": true} {
		l := open(t, t.TempDir(), &clock{now: noon}, &trail{})
		d := controller(l)
		d.Approve(t.Context(), question(), "")
		step := approval.Step{To: approval.Approved, By: by, Through: "rye approve"}
		_, err := l.Do(t.Context(), pending(t, l), step)
		must(t, err)
		got, err := d.Approve(t.Context(), question(), "")
		must(t, err)
		if got.Separate != separate {
			t.Errorf("approved by %q: separate %t", by, got.Separate)
		}
	}
}

// TestSeparateAsksAgain: a request that its caller may answer doesn't stand for a call that needs another person.
func TestSeparateAsksAgain(t *testing.T) {
	l := open(t, t.TempDir(), &clock{now: noon}, &trail{})
	d := controller(l)
	d.Approve(t.Context(), question(), "")
	_, err := l.Do(t.Context(), pending(t, l), approves)
	must(t, err)
	strict := question()
	strict.Separate = true
	got, err := d.Approve(t.Context(), strict, "")
	if !errors.Is(err, approval.ErrWaits) {
		t.Fatalf("%+v, %v", got, err)
	}
	_, err = l.Do(t.Context(), fault.Of(err).Details["request"].(string), approves)
	must(t, err)
	if got, err := d.Approve(t.Context(), strict, ""); err != nil || !got.Separate {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestOtherGate: the answer to a gate is for this gate of this run. Another run would go on without having asked.
func TestOtherGate(t *testing.T) {
	l := open(t, t.TempDir(), &clock{now: noon}, &trail{})
	run := func() *approval.Controller {
		d := controller(l)
		d.Thread, d.Door = "acme/flow-1795000000-a2b3c", approval.Thread
		return d
	}
	ask := func(d *approval.Controller, call, ref string) (*approval.Request, error) {
		return d.Gate(t.Context(), call, ref, cas.Sum(nil), "Deploy?", "ann", 0)
	}
	// The call of a tool with the same name is no gate.
	tool := question()
	tool.Ref.ID = "acme/flow"
	run().Approve(t.Context(), tool, "g1")
	_, err := l.Do(t.Context(), pending(t, l), approves)
	must(t, err)
	_, err = ask(run(), "g1", "tool:acme/flow")
	if !errors.Is(err, approval.ErrWaits) {
		t.Fatalf("the approval of a tool's call opens a gate: %v", err)
	}
	_, err = l.Do(t.Context(), fault.Of(err).Details["request"].(string), approves)
	must(t, err)
	if r, err := ask(run(), "g1", "tool:acme/flow"); err != nil || r.State != approval.Approved {
		t.Errorf("%+v, %v", r, err)
	}
	thread, project := run(), run()
	thread.Thread, project.Project = "acme/flow-1795000001-b3c4d", "/q"
	for name, c := range map[string]struct {
		d         *approval.Controller
		call, ref string
	}{
		"another node":    {run(), "g2", "tool:acme/flow"},
		"another graph":   {run(), "g1", "tool:acme/other"},
		"another run":     {thread, "g1", "tool:acme/flow"},
		"another project": {project, "g1", "tool:acme/flow"},
	} {
		if r, err := ask(c.d, c.call, c.ref); !errors.Is(err, approval.ErrWaits) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestClockBack: an approval ends when the clock goes back before it was given. Otherwise setting the clock makes it
// last for ever.
func TestClockBack(t *testing.T) {
	now := &clock{now: noon}
	l := open(t, t.TempDir(), now, &trail{})
	d := controller(l)
	d.Approve(t.Context(), question(), "")
	now.pass(30 * time.Minute)
	_, err := l.Do(t.Context(), pending(t, l), approves)
	must(t, err)
	now.pass(-30 * time.Second)
	if _, err := d.Approve(t.Context(), question(), ""); err != nil {
		t.Errorf("a small step back: %v", err)
	}
	now.pass(-10 * time.Minute)
	if got, err := d.Approve(t.Context(), question(), ""); !errors.Is(err, approval.ErrWaits) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestTooLate: an answer that comes too late names who was faster, when, and what came of it. Two people who decide
// about one call must not each believe that their word counts.
func TestTooLate(t *testing.T) {
	denies := approval.Step{To: approval.Denied, By: "eve", Reason: "no"}
	runs := approval.Step{To: approval.Executing, Driver: approval.Self(), Execution: "x"}
	for name, c := range map[string]struct {
		steps []approval.Step
		pass  time.Duration
		text  string
		code  fault.Code
	}{
		"denied":   {[]approval.Step{denies}, 0, "is already denied / by eve at 2026-11-20T12:00:00Z", fault.Conflict},
		"approved": {[]approval.Step{approves}, 0, "is already approved / by bob at 2026-11-20T12:00:00Z", fault.Conflict},
		"used": {[]approval.Step{approves, runs}, 0,
			"is already approved / by bob at 2026-11-20T12:00:00Z / its call is executing", fault.Conflict},
		"expired": {nil, time.Hour, "has expired / there was no answer within 1h0m0s / the caller can ask again",
			fault.Expired},
		"not used": {[]approval.Step{approves}, time.Hour,
			"has expired / the approval was not used within 1h0m0s / the caller can ask again", fault.Expired},
	} {
		now := &clock{now: noon}
		l := open(t, t.TempDir(), now, &trail{})
		controller(l).Approve(t.Context(), question(), "")
		id := pending(t, l)
		for _, s := range c.steps {
			_, err := l.Do(t.Context(), id, s)
			must(t, err)
		}
		now.pass(c.pass)
		_, err := l.Do(t.Context(), id, approves)
		if text := strings.Join(append([]string{fmt.Sprint(err)}, fault.Of(err).Why...), " / "); text !=
			"the request "+id+" "+c.text || fault.CodeOf(err) != c.code {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestImpossibleRecords: a record that no rye writes is damage. Read as a request it could allow a call.
func TestImpossibleRecords(t *testing.T) {
	const id = "3f2a9c1e-5b7d-4e0f-8a61-000000000001"
	record := func(id, kind, state, more string) string {
		return fmt.Sprintf(`{"op":"row","request":{"id":%q,"kind":%q,"state":%q%s}}`, id, kind, state, more)
	}
	good := record(id, string(approval.Call), string(approval.Pending), "")
	if err := approval.NewTotal().Take([]byte(good)); err != nil {
		t.Fatalf("%s: %v", good, err)
	}
	for name, text := range map[string]string{
		"no JSON":       "x",
		"no request":    `{"op":"row"}`,
		"unknown field": strings.Replace(good, `"op"`, `"more":1,"op"`, 1),
		"id":            record("../x", string(approval.Call), string(approval.Pending), ""),
		"kind":          record(id, "wish", string(approval.Pending), ""),
		"state":         record(id, string(approval.Call), "granted", ""),
		"span":          record(id, string(approval.Call), string(approval.Pending), `,"span":-1`),
	} {
		if err := approval.NewTotal().Take([]byte(text)); err == nil {
			t.Errorf("%s: %s is taken", name, text)
		}
	}
	total := approval.NewTotal()
	must(t, total.Take([]byte(record(id, string(approval.Call), string(approval.Denied), ""))))
	if err := total.Take([]byte(record(id, string(approval.Call), string(approval.Approved), ""))); err == nil {
		t.Error("a denied request becomes approved")
	}
}

// TestForget: what a thread that has ended asked for can be approved no more, and nothing else is touched: neither a
// call that is being made, nor the answer to a gate, nor what another thread asks.
func TestForget(t *testing.T) {
	log := &trail{}
	l := open(t, t.TempDir(), &clock{now: noon}, log)
	made := func(edit func(*approval.Request), steps ...approval.Step) string {
		r := approvaltest.New()
		edit(r)
		r, err := l.Make(t.Context(), r, nil, nil)
		must(t, err)
		for _, s := range steps {
			_, err := l.Do(t.Context(), r.ID, s)
			must(t, err)
		}
		return r.ID
	}
	same := func(*approval.Request) {}
	gate := func(r *approval.Request) { r.Kind = approval.Gate }
	want := map[string]approval.State{
		made(same):                     approval.Superseded,
		made(same, approves):           approval.Superseded,
		made(same, approves, executes): approval.Executing,
		made(gate):                     approval.Superseded,
		made(gate, approves):           approval.Approved,
		made(func(r *approval.Request) { r.Thread = "acme/other-1795000000-a2b3c" }): approval.Pending,
	}
	thread := approvaltest.New().Thread
	log.err = errors.New("broken")
	if err := approval.Forget(t.Context(), l, thread, "it has ended"); !errors.Is(err, log.err) {
		t.Errorf("steps that weren't made are no error: %v", err)
	}
	log.err = nil
	must(t, approval.Forget(t.Context(), l, thread, "it has ended"))
	for id, state := range want {
		r, err := approval.Find(t.Context(), l, id)
		must(t, err)
		if r.State != state {
			t.Errorf("%s %s is %s, want %s", r.Kind, r.Thread, r.State, state)
		}
	}
}

// TestDenialEnds: a denial ends when the clock goes back before its request. Otherwise setting the clock once denies a
// call for ever.
func TestDenialEnds(t *testing.T) {
	now := &clock{now: noon}
	l := open(t, t.TempDir(), now, &trail{})
	d := controller(l)
	d.Approve(t.Context(), question(), "")
	_, err := l.Do(t.Context(), pending(t, l), approval.Step{To: approval.Denied, By: "bob"})
	must(t, err)
	now.pass(-30 * time.Second)
	if _, err := d.Approve(t.Context(), question(), ""); errors.Is(err, approval.ErrWaits) {
		t.Errorf("a small step back: %v", err)
	}
	now.pass(-10 * time.Minute)
	if _, err := d.Approve(t.Context(), question(), ""); !errors.Is(err, approval.ErrWaits) {
		t.Errorf("%v", err)
	}
}

// TestGateSpan: a gate waits as long as its graph says. With another time a run would stop before the answer.
func TestGateSpan(t *testing.T) {
	now := &clock{now: noon}
	l := open(t, t.TempDir(), now, &trail{})
	d := controller(l)
	d.Thread, d.Door = "acme/flow-1795000000-a2b3c", approval.Thread
	ask := func() (*approval.Request, error) {
		return d.Gate(t.Context(), "g1", "tool:acme/flow", cas.Sum(nil), "Deploy?", "ann", 3*time.Hour)
	}
	ask()
	now.pass(3*time.Hour - time.Second)
	if _, err := ask(); !errors.Is(err, approval.ErrWaits) {
		t.Errorf("%v", err)
	}
	now.pass(time.Second)
	if r, err := ask(); err != nil || r.State != approval.Expired {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestCallOfThread: a thread that comes back while one of its calls is made, or after that, gets an error at once.
// It doesn't wait for the call, and the approval doesn't count twice.
func TestCallOfThread(t *testing.T) {
	l := open(t, t.TempDir(), &clock{now: noon}, &trail{})
	d, me := controller(l), approval.Self()
	d.Thread, d.Door = "acme/plan-1795000000-a2b3c", approval.Thread
	d.Approve(t.Context(), question(), "c1")
	id := pending(t, l)
	for _, s := range []approval.Step{approves, {To: approval.Executing, Driver: me, Execution: "x"},
		{To: approval.Done, Driver: me, Result: []byte("kept")}} {
		_, err := l.Do(t.Context(), id, s)
		must(t, err)
		if s.To == approval.Approved {
			continue
		}
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		if got, err := d.Approve(ctx, question(), "c1"); fault.CodeOf(err) != fault.Conflict {
			t.Errorf("%s: %+v, %v", s.To, got, err)
		}
		stop()
	}
}

// TestDeniedInThread: a denial at the terminal of a thread answers the thread's next call like it, without asking: a
// model could otherwise repeat its call until the person gives in.
func TestDeniedInThread(t *testing.T) {
	l := open(t, t.TempDir(), &clock{now: noon}, &trail{})
	d, asked := controller(l), 0
	d.Thread, d.Door = "acme/plan-1795000000-a2b3c", approval.Thread
	d.Ask = func(context.Context, *approval.Request, *consent.Question) (approval.Answer, error) {
		asked++
		return approval.Answer{By: "ann", Through: "terminal"}, nil
	}
	for _, call := range []string{"c1", "c2"} {
		if _, err := d.Approve(t.Context(), question(), call); fault.CodeOf(err) != fault.Approval {
			t.Errorf("%s: %v", call, err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// TestKeepsWaiting: where a server makes the call, a request that waits for hours stays the one of its call. With
// another one after an hour, a person would be asked twice about one call.
func TestKeepsWaiting(t *testing.T) {
	now := &clock{now: noon}
	l := open(t, t.TempDir(), now, &trail{})
	d, long := controller(l), question()
	d.Keeps, d.Door, long.Expires = true, approval.Server, 5*time.Hour
	for range 3 {
		if _, err := d.Approve(t.Context(), long, ""); !errors.Is(err, approval.ErrWaits) {
			t.Fatalf("%v", err)
		}
		pending(t, l) // the only one
		now.pass(approval.KeepResult)
	}
}

// TestNoResult: a call that was made, and whose result can't be read, is no outcome. An empty result would look like
// what the tool said.
func TestNoResult(t *testing.T) {
	l := open(t, t.TempDir(), &clock{now: noon}, &trail{})
	d, me := controller(l), approval.Self()
	d.Keeps, d.Door = true, approval.Server
	d.Approve(t.Context(), question(), "")
	id := pending(t, l)
	for _, s := range []approval.Step{approves, {To: approval.Executing, Driver: me},
		{To: approval.Done, Driver: me}} {
		_, err := l.Do(t.Context(), id, s)
		must(t, err)
	}
	_, err := d.Approve(t.Context(), question(), "")
	if _, kept := errors.AsType[*approval.KeptError](err); kept || fault.CodeOf(err) != fault.Conflict {
		t.Errorf("%v", err)
	}
}

// TestUnmade: a request that couldn't be made is neither a gate that opens nor an approved call, and nor is one whose
// caller stops waiting.
func TestUnmade(t *testing.T) {
	log := &trail{err: errors.New("broken")}
	l := open(t, t.TempDir(), &clock{now: noon}, log)
	d := controller(l)
	if got, err := d.Approve(t.Context(), question(), ""); !errors.Is(err, log.err) || got != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if r, err := d.Gate(t.Context(), "g", "tool:acme/flow", cas.Sum(nil), "Deploy?", "ann", 0); !errors.Is(err,
		log.err) || r != nil {
		t.Errorf("%+v, %v", r, err)
	}
	log.err, d.NoWait = nil, false
	ctx, stop := context.WithCancel(t.Context())
	d.Waits = func(context.Context, *approval.Request) error { stop(); return nil }
	if got, err := d.Approve(ctx, question(), ""); !errors.Is(err, context.Canceled) || got != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestEndedStays: a request that has ended stays as it ended, whatever the clock says later. Who reads why a call
// wasn't made would otherwise read that there was no answer.
func TestEndedStays(t *testing.T) {
	for _, s := range []approval.Step{{To: approval.Superseded, Reason: "gone"}, {To: approval.Denied, By: "bob"}} {
		now := &clock{now: noon}
		l := open(t, t.TempDir(), now, &trail{})
		controller(l).Approve(t.Context(), question(), "")
		id := pending(t, l)
		_, err := l.Do(t.Context(), id, s)
		must(t, err)
		for _, d := range []time.Duration{3 * time.Hour, -24 * time.Hour} {
			now.pass(d)
			r, err := approval.Find(t.Context(), l, id)
			must(t, err)
			if r.State != s.To {
				t.Errorf("%s became %s", s.To, r.State)
			}
		}
	}
}

// TestStepFails: an error that says nothing of another answer is the caller's error at once. The caller would
// otherwise wait for an answer that can't be written, or believe that a request was dropped that still counts.
func TestStepFails(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		now, log := &clock{now: noon}, &trail{}
		l := open(t, t.TempDir(), now, log)
		d := controller(l)
		d.Keeps = keeps
		d.Approve(t.Context(), question(), "")
		_, err := l.Do(t.Context(), pending(t, l), approves)
		must(t, err)
		got, err := d.Approve(t.Context(), question(), "")
		must(t, err)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		log.err = fault.New(fault.Unavailable, "the disk is full")
		if _, err := got.Take(ctx, "x"); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("taken: %v", err)
		}
		if err := got.Drop(ctx, errors.New("gone")); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("dropped: %v", err)
		}
		log.err = nil
		now.pass(time.Hour)
		if err := got.Drop(ctx, errors.New("gone")); err != nil { // it has expired
			t.Errorf("dropped late: %v", err)
		}
		now.pass(2 * approval.KeepResult)
		d.Ask = func(context.Context, *approval.Request, *consent.Question) (approval.Answer, error) {
			log.err = fault.New(fault.Unavailable, "the disk is full")
			return approval.Answer{Yes: true, By: "ann", Through: "terminal"}, nil
		}
		if got, err := d.Approve(ctx, question(), ""); fault.CodeOf(err) != fault.Unavailable {
			t.Errorf("answered: %+v, %v", got, err)
		}
	}
}

// TestShortBook: a book that is made shorter keeps what ended in the last 30 days. A denial would otherwise be
// forgotten, and its call asked for again.
func TestShortBook(t *testing.T) {
	for days, left := range map[int]int{0: 2, 30: 2, 31: 1} {
		total := approval.NewTotal()
		for n, r := range []string{`"denied","updated":"` + noon.Format(time.RFC3339),
			`"pending","updated":"` + noon.AddDate(0, 0, days).Format(time.RFC3339)} {
			must(t, total.Take(fmt.Appendf(nil,
				`{"op":"row","request":{"id":"3f2a9c1e-5b7d-4e0f-8a61-%012d","kind":"call","state":%s"}}`, n, r)))
		}
		if got := len(total.Records()); got != left {
			t.Errorf("after %d days %d are left, want %d", days, got, left)
		}
	}
}

// TestLeavesNothing: the parameters of a call go with its request, also when that expires, and a step that is refused
// is neither in the audit log nor keeps a result. The log would otherwise tell of answers that never counted.
func TestLeavesNothing(t *testing.T) {
	state, now, log := t.TempDir(), &clock{now: noon}, &trail{}
	l := open(t, state, now, log)
	d := controller(l)
	d.Approve(t.Context(), question(), "")
	id := pending(t, l)
	steps := len(log.steps)
	if _, err := l.Do(t.Context(), id, approval.Step{To: approval.Done, Driver: approval.Self(),
		Result: []byte("forged")}); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("%v", err)
	}
	if got, err := l.Read(t.Context(), id, approval.Result); err == nil || len(log.steps) != steps {
		t.Errorf("a refused step leaves %q and %d records", got, len(log.steps)-steps)
	}
	now.pass(time.Hour)
	other := question()
	other.Given["amount"] = 121.0
	d.Approve(t.Context(), other, "")
	if b, err := l.Read(t.Context(), id, approval.Params); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the parameters stay: %q, %v", b, err)
	}
	// An id is no path: it comes from other machines too.
	must(t, os.WriteFile(filepath.Join(state, "approvals", "x.params"), []byte("x"), 0o600))
	if _, err := l.Read(t.Context(), "../x", approval.Params); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestApprovedFirst: of two requests for one call the approved one is its answer. A person would otherwise be asked
// again about what they approved.
func TestApprovedFirst(t *testing.T) {
	now := &clock{now: noon}
	l := open(t, t.TempDir(), now, &trail{})
	var first *approval.Request
	for n := range 3 {
		r, err := l.Make(t.Context(), approvaltest.New(), nil, nil)
		must(t, err)
		if n == 0 {
			first = r
		}
		now.pass(time.Second)
	}
	_, err := l.Do(t.Context(), first.ID, approves)
	must(t, err)
	r, err := l.Make(t.Context(), approvaltest.New(), nil, func(*approval.Request) bool { return true })
	must(t, err)
	if r.ID != first.ID {
		t.Errorf("%+v", r)
	}
}
