package approval_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/approval"
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
