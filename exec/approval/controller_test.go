package approval_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/approval/approvaltest"
	"github.com/rye-build/rye/exec/consent"
	"github.com/rye-build/rye/manifest/jcs"
)

func question() *consent.Question {
	return &consent.Question{Ref: model.Ref{Kind: "tool", ID: "acme/pay"}, Digest: cas.Sum(nil), Risk: "money",
		Given:     map[string]any{"amount": 120.0, "token": "s3cr3t"},
		Principal: "ann", Expires: time.Hour}
}

func controller(l *approval.Local) *approval.Controller {
	return &approval.Controller{Approvals: l, Project: "/p", Set: cas.Sum([]byte("set")), Door: approval.Exec,
		NoWait: true, Command: "rye exec acme/pay", Now: l.Now}
}

// pending returns the id of the only request that waits.
func pending(t testing.TB, l *approval.Local) string {
	t.Helper()
	all, err := approval.List(t.Context(), l, approval.Filter{Open: true})
	must(t, err)
	if len(all) != 1 {
		t.Fatalf("%d requests wait", len(all))
	}
	return all[0].ID
}

// TestNoWait: a caller that doesn't wait learns which request to answer, finds the answer with the next call, and only
// that.
func TestNoWait(t *testing.T) {
	l := open(t, t.TempDir(), &clock{now: noon}, &trail{})
	d := controller(l)
	_, err := d.Approve(t.Context(), question(), "")
	id := pending(t, l)
	e := fault.Of(err)
	if !errors.Is(err, approval.ErrWaits) || e.Code != fault.Approval || e.Details["request"] != id ||
		strings.Join(e.Hint, ";") != "rye approve "+id+";rye exec acme/pay;rye trust check tool:acme/pay" {
		t.Fatalf("%v, %v, %v", err, e.Details, e.Hint)
	}
	_, err = d.Approve(t.Context(), question(), "")
	if pending(t, l) != id || !errors.Is(err, approval.ErrWaits) {
		t.Errorf("%v", err)
	}
	_, err = l.Do(t.Context(), id, approves)
	must(t, err)
	for name, edit := range map[string]func(*consent.Question, *approval.Controller){
		"another amount":     func(q *consent.Question, _ *approval.Controller) { q.Given["amount"] = 121.0 },
		"another token":      func(q *consent.Question, _ *approval.Controller) { q.Given["token"] = "other1" },
		"another file":       func(q *consent.Question, _ *approval.Controller) { q.Digest = cas.Sum([]byte("x")) },
		"another tool":       func(q *consent.Question, _ *approval.Controller) { q.Ref.ID = "acme/pays" },
		"another caller":     func(q *consent.Question, _ *approval.Controller) { q.Principal = "bob" },
		"another tenant":     func(q *consent.Question, _ *approval.Controller) { q.Tenant = "t" },
		"another set":        func(_ *consent.Question, d *approval.Controller) { d.Set = cas.Digest{} },
		"another project":    func(_ *consent.Question, d *approval.Controller) { d.Project = "/q" },
		"another door":       func(_ *consent.Question, d *approval.Controller) { d.Door = approval.Server },
		"another thread":     func(_ *consent.Question, d *approval.Controller) { d.Thread = "x" },
		"one that separates": func(q *consent.Question, _ *approval.Controller) { q.Separate = true },
	} {
		q, other := question(), *d
		edit(q, &other)
		if got, err := other.Approve(t.Context(), q, ""); !errors.Is(err, approval.ErrWaits) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	got, err := d.Approve(t.Context(), question(), "")
	must(t, err)
	if got.By != "bob ("+id+")" || !got.Separate {
		t.Errorf("%+v", got)
	}
	end, err := got.Take(t.Context(), "x1")
	must(t, err)
	if _, err := got.Take(t.Context(), "x2"); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("used twice: %v", err)
	}
	must(t, end(t.Context(), "TIMEOUT"))
	r, err := approval.Find(t.Context(), l, id)
	must(t, err)
	if r.State != approval.Done || r.Code != "TIMEOUT" || r.Execution != "x1" {
		t.Errorf("%+v", r)
	}
	if _, err := d.Approve(t.Context(), question(), ""); !errors.Is(err, approval.ErrWaits) {
		t.Errorf("another call like it: %v", err)
	}
}

// TestWaits: a caller that waits gets the answer, through any door; a thread gets the same answer again.
func TestWaits(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(l *approval.Local, c *clock, id string) error
		why    string // of a refusal
	}{
		{"approved", func(l *approval.Local, _ *clock, id string) error {
			_, err := l.Do(context.Background(), id, approves)
			return err
		}, ""},
		{"denied", func(l *approval.Local, _ *clock, id string) error {
			_, err := l.Do(context.Background(), id, approval.Step{To: approval.Denied, By: "bob", Reason: "too much"})
			return err
		}, "denied by bob; reason: too much; the same call is denied until 2026-11-20T13:00:00Z; its risk is money"},
		{"expired", func(_ *approval.Local, c *clock, _ string) error {
			c.pass(2 * time.Hour)
			return nil
		}, "there was no answer within 1h0m0s; its risk is money"},
		{"dropped", func(l *approval.Local, _ *clock, id string) error {
			_, err := l.Do(context.Background(), id, approval.Step{To: approval.Superseded, Reason: "gone"})
			return err
		}, "superseded: gone; its risk is money"},
	} {
		now := &clock{now: noon}
		l := open(t, t.TempDir(), now, &trail{})
		d, states := controller(l), []string{}
		d.NoWait, d.Thread, d.Door = false, "acme/plan-1795000000-a2b3c", approval.Thread
		d.Waits = func(_ context.Context, r *approval.Request) error {
			if r == nil {
				states = append(states, "on")
				return nil
			}
			states = append(states, "waits")
			return c.answer(l, now, r.ID)
		}
		for range 2 {
			got, err := d.Approve(t.Context(), question(), "c3")
			if c.why == "" {
				must(t, err)
				if got.By == "" {
					t.Errorf("%+v", got)
				}
			} else if fault.CodeOf(err) != fault.Approval || strings.Join(fault.Of(err).Why, "; ") != c.why {
				t.Errorf("%s: %v: %q", c.name, err, fault.Of(err).Why)
			}
		}
		if strings.Join(states, " ") != "waits on" {
			t.Errorf("%s: %q", c.name, states)
		}
		if c.why != "" {
			continue
		}
		got, err := d.Approve(t.Context(), question(), "c3")
		must(t, err)
		must(t, got.Drop(t.Context(), fault.New(fault.LockMismatch, "the lock has changed")))
		must(t, got.Drop(t.Context(), fault.New(fault.LockMismatch, "the lock has changed")))
		_, err = d.Approve(t.Context(), question(), "c3")
		if fault.CodeOf(err) != fault.Approval || !strings.Contains(strings.Join(fault.Of(err).Why, ""),
			"LOCK_MISMATCH: the lock has changed") {
			t.Errorf("%v: %q", err, fault.Of(err).Why)
		}
	}
	l := open(t, t.TempDir(), &clock{now: noon}, &trail{})
	d, broken := controller(l), errors.New("broken")
	d.NoWait = false
	d.Waits = func(context.Context, *approval.Request) error { return broken }
	if _, err := d.Approve(t.Context(), question(), ""); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// TestAsked: a person who is asked at once answers, or leaves it to others, and is asked no more once another has
// answered.
func TestAsked(t *testing.T) {
	for _, c := range []struct {
		name   string
		ask    func(ctx context.Context, l *approval.Local, id string) (approval.Answer, error)
		noWait bool
		by     string // who approved; "": no approval
		err    error
	}{
		{"yes", func(context.Context, *approval.Local, string) (approval.Answer, error) {
			return approval.Answer{Yes: true, By: "ann", Through: "terminal"}, nil
		}, true, "ann", nil},
		{"no", func(context.Context, *approval.Local, string) (approval.Answer, error) {
			return approval.Answer{By: "ann", Through: "terminal"}, nil
		}, false, "", nil},
		{"none", func(context.Context, *approval.Local, string) (approval.Answer, error) {
			return approval.Answer{None: true}, nil
		}, true, "", approval.ErrWaits},
		{"none, waits", func(_ context.Context, l *approval.Local, id string) (approval.Answer, error) {
			go l.Do(context.Background(), id, approves)
			return approval.Answer{None: true}, nil
		}, false, "bob", nil},
		{"elsewhere", func(ctx context.Context, l *approval.Local, id string) (approval.Answer, error) {
			if _, err := l.Do(ctx, id, approves); err != nil {
				return approval.Answer{}, err
			}
			<-ctx.Done()
			return approval.Answer{}, ctx.Err()
		}, true, "bob", nil},
		{"too late", func(ctx context.Context, l *approval.Local, id string) (approval.Answer, error) {
			_, err := l.Do(ctx, id, approves)
			return approval.Answer{By: "ann"}, err
		}, true, "bob", nil},
		{"broken", func(context.Context, *approval.Local, string) (approval.Answer, error) {
			return approval.Answer{}, context.DeadlineExceeded
		}, true, "", context.DeadlineExceeded},
	} {
		l := open(t, t.TempDir(), &clock{now: noon}, &trail{})
		d := controller(l)
		d.NoWait = c.noWait
		d.Ask = func(ctx context.Context, r *approval.Request, _ *consent.Question) (approval.Answer, error) {
			return c.ask(ctx, l, r.ID)
		}
		got, err := d.Approve(t.Context(), question(), "")
		switch {
		case c.by != "" && (err != nil || !strings.HasPrefix(got.By, c.by+" (")):
			t.Errorf("%s: %+v, %v", c.name, got, err)
		case c.by == "" && (err == nil || c.err != nil && !errors.Is(err, c.err)):
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	l := open(t, t.TempDir(), &clock{now: noon}, &trail{})
	d, q := controller(l), question()
	q.Separate = true
	d.Ask = func(context.Context, *approval.Request, *consent.Question) (approval.Answer, error) {
		t.Error("who asks is asked")
		return approval.Answer{}, nil
	}
	if _, err := d.Approve(t.Context(), q, ""); !errors.Is(err, approval.ErrWaits) {
		t.Errorf("%v", err)
	}
}

// TestGate: a gate waits for an answer, and gets the same one as often as it asks.
func TestGate(t *testing.T) {
	now := &clock{now: noon}
	l := open(t, t.TempDir(), now, &trail{})
	d := controller(l)
	d.Thread, d.Door, d.Command = "acme/flow-1795000000-a2b3c", approval.Thread,
		"rye thread resume acme/flow-1795000000-a2b3c"
	gate := func(call string) (*approval.Request, error) {
		return d.Gate(t.Context(), call, "tool:acme/flow", cas.Sum(nil), "Deploy "+strings.Repeat("x", 5000), "ann", 0)
	}
	_, err := gate("g1")
	id := pending(t, l)
	if e := fault.Of(err); !errors.Is(err, approval.ErrWaits) || e.Details["request"] != id || len(e.Hint) != 2 ||
		!strings.HasPrefix(e.Text, `"tool:acme/flow" waits for an answer: Deploy xxx`) {
		t.Errorf("%v, %q", err, e.Hint)
	}
	_, err = l.Do(t.Context(), id, approves)
	must(t, err)
	now.pass(100 * time.Hour)
	for range 2 {
		r, err := gate("g1")
		must(t, err)
		if r.ID != id || r.State != approval.Approved || r.By != "bob" || len(r.Text) > 5000 {
			t.Errorf("%+v", r)
		}
	}
	_, err = gate("g2")
	if !errors.Is(err, approval.ErrWaits) {
		t.Errorf("%v", err)
	}
	now.pass(time.Hour)
	if r, err := gate("g2"); err != nil || r.State != approval.Expired || r.Refused() == nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestCrowd: of many callers with the same approval one makes the call.
func TestCrowd(t *testing.T) {
	state, now, log := t.TempDir(), &clock{now: noon}, &trail{}
	l := open(t, state, now, log)
	controller(l).Approve(t.Context(), question(), "")
	_, err := l.Do(t.Context(), pending(t, l), approves)
	must(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 8 {
		other := controller(open(t, state, now, log))
		wg.Go(func() {
			got, err := other.Approve(context.Background(), question(), "")
			if err == nil {
				_, err = got.Take(context.Background(), "x")
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made++
			} else if c := fault.CodeOf(err); c != fault.Conflict && c != fault.Approval {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	if made != 1 {
		t.Errorf("%d made the call", made)
	}
}

// TestKeeps: where a server makes the call, the next call like it gets the outcome, once, whatever that is.
func TestKeeps(t *testing.T) {
	now := &clock{now: noon}
	l := open(t, t.TempDir(), now, &trail{})
	d := controller(l)
	d.Keeps, d.Door, d.Now = true, approval.Server, now.Now
	asks := func() string {
		t.Helper()
		if _, err := d.Approve(t.Context(), question(), ""); !errors.Is(err, approval.ErrWaits) {
			t.Fatalf("%v", err)
		}
		return pending(t, l)
	}
	do := func(id string, steps ...approval.Step) {
		t.Helper()
		for _, s := range steps {
			_, err := l.Do(t.Context(), id, s)
			must(t, err)
		}
	}
	me := approval.Self()
	takes := approval.Step{To: approval.Executing, Driver: me}
	ends := approval.Step{To: approval.Done, Driver: me, Result: []byte("kept")}
	id := asks()
	do(id, approves, takes, ends)
	_, err := d.Approve(t.Context(), question(), "")
	if k, ok := errors.AsType[*approval.KeptError](err); !ok || string(k.Result) != "kept" || k.Request.ID != id ||
		k.Error() == "" {
		t.Errorf("%v", err)
	}
	// A caller that finds the approval, and is slower than the server.
	do(asks(), approves)
	got, err := d.Approve(t.Context(), question(), "")
	must(t, err)
	id = pending(t, l)
	do(id, takes)
	go l.Do(context.Background(), id, ends)
	if _, err := got.Take(t.Context(), "x"); err == nil {
		t.Error("taken twice")
	} else if k, ok := errors.AsType[*approval.KeptError](err); !ok || string(k.Result) != "kept" {
		t.Errorf("%v", err)
	}
	do(asks(), approval.Step{To: approval.Denied, By: "bob", Reason: "too much"})
	if _, err := d.Approve(t.Context(), question(), ""); fault.CodeOf(err) != fault.Approval ||
		fault.Of(err).Details["reason"] != "too much" {
		t.Errorf("%v", err)
	}
	now.pass(time.Hour)
	do(asks(), approves, takes, approval.Step{To: approval.Unknown, Driver: me})
	if _, err := d.Approve(t.Context(), question(), ""); fault.CodeOf(err) != fault.Conflict ||
		!strings.Contains(err.Error(), "its call is unknown") {
		t.Errorf("%v", err)
	}
	do(asks(), approves, takes, ends)
	now.pass(approval.KeepResult)
	asks()
}

// TestUsedApproval: an approval that its caller has used, or uses, is no answer to the same call again, which asks.
func TestUsedApproval(t *testing.T) {
	now := &clock{now: noon}
	l := open(t, t.TempDir(), now, &trail{})
	d := controller(l)
	d.Keeps, d.Door, d.Now = true, approval.Server, now.Now
	asked := 0
	d.Ask = func(context.Context, *approval.Request, *consent.Question) (approval.Answer, error) {
		asked++
		return approval.Answer{Yes: true, By: "ann", Through: "mcp"}, nil
	}
	for n := 1; n <= 3; n++ {
		got, err := d.Approve(t.Context(), question(), "")
		must(t, err)
		end, err := got.Take(t.Context(), fmt.Sprint("x", n))
		must(t, err)
		during, err := d.Approve(t.Context(), question(), "")
		must(t, err)
		must(t, errors.Join(during.Drop(t.Context(), errors.New("not made")), end(t.Context(), "")))
		if asked != 2*n {
			t.Errorf("call %d: asked %d times", n, asked)
		}
	}
}

// TestDenialStands: a denial answers the same call, with its reason, for as long as its request would have waited:
// also the next one of the same thread, and no other call.
func TestDenialStands(t *testing.T) {
	for _, door := range []string{approval.Exec, approval.Server, approval.Thread} {
		now := &clock{now: noon}
		l := open(t, t.TempDir(), now, &trail{})
		d := controller(l)
		d.Door, d.Keeps, d.Now = door, door == approval.Server, now.Now
		calls := []string{"", "", ""}
		if door == approval.Thread {
			d.Thread, calls = "acme/plan-1795000000-a2b3c", []string{"c1", "c2", "c3"}
		}
		if _, err := d.Approve(t.Context(), question(), calls[0]); !errors.Is(err, approval.ErrWaits) {
			t.Fatalf("%s: %v", door, err)
		}
		_, err := l.Do(t.Context(), pending(t, l), approval.Step{To: approval.Denied, By: "bob", Reason: "too much"})
		must(t, err)
		now.pass(time.Hour - time.Second)
		for _, call := range calls {
			_, err := d.Approve(t.Context(), question(), call)
			if fault.CodeOf(err) != fault.Approval || errors.Is(err, approval.ErrWaits) ||
				fault.Of(err).Details["reason"] != "too much" {
				t.Errorf("%s, call %s: %v", door, call, err)
			}
		}
		other := question()
		other.Given["amount"] = 121.0
		if _, err := d.Approve(t.Context(), other, calls[0]); !errors.Is(err, approval.ErrWaits) {
			t.Errorf("%s: another call: %v", door, err)
		}
		now.pass(time.Second)
		if _, err := d.Approve(t.Context(), question(), calls[1]); !errors.Is(err, approval.ErrWaits) {
			t.Errorf("%s: an hour later: %v", door, err)
		}
	}
}

// TestDeniedHere: a person who said no at the terminal of rye exec is asked again.
func TestDeniedHere(t *testing.T) {
	l := open(t, t.TempDir(), &clock{now: noon}, &trail{})
	d, yes := controller(l), false
	d.Ask = func(context.Context, *approval.Request, *consent.Question) (approval.Answer, error) {
		return approval.Answer{Yes: yes, By: "ann", Through: "terminal"}, nil
	}
	if _, err := d.Approve(t.Context(), question(), ""); fault.CodeOf(err) != fault.Approval {
		t.Errorf("%v", err)
	}
	yes = true
	if _, err := d.Approve(t.Context(), question(), ""); err != nil {
		t.Error(err)
	}
}

// TestSwapped: the stored parameters and the result of one request are never read as another's.
func TestSwapped(t *testing.T) {
	state := t.TempDir()
	l := open(t, state, &clock{now: noon}, &trail{})
	d, me := controller(l), approval.Self()
	d.Door = approval.Server
	ask := func(amount float64) string {
		t.Helper()
		q := question()
		q.Given["amount"] = amount
		if _, err := d.Approve(t.Context(), q, ""); !errors.Is(err, approval.ErrWaits) {
			t.Fatalf("%v", err)
		}
		all, err := approval.List(t.Context(), l, approval.Filter{})
		must(t, err)
		now := slices.DeleteFunc(all, func(r *approval.Request) bool { return r.State != approval.Pending })
		given, err := jcs.Append(nil, q.Given)
		must(t, err)
		at := slices.IndexFunc(now, func(r *approval.Request) bool { return r.Params == cas.Sum(given) })
		return now[at].ID
	}
	a, b := ask(1), ask(1000)
	swap := func(part approval.Part) {
		t.Helper()
		at := func(id string) string { return filepath.Join(state, "approvals", "sealed", id+"."+string(part)) }
		must(t, errors.Join(os.Rename(at(a), at("x")), os.Rename(at(b), at(a)), os.Rename(at("x"), at(b))))
		for _, id := range []string{a, b} {
			if got, err := l.Read(t.Context(), id, part); fault.CodeOf(err) != fault.Integrity {
				t.Errorf("%s of %s: %s, %v", part, id, got, err)
			}
		}
		must(t, errors.Join(os.Rename(at(a), at("x")), os.Rename(at(b), at(a)), os.Rename(at("x"), at(b))))
		_, err := l.Read(t.Context(), a, part)
		must(t, err)
	}
	swap(approval.Params)
	for _, id := range []string{a, b} {
		for _, step := range []approval.Step{{To: approval.Approved, By: "bob"}, {To: approval.Executing, Driver: me},
			{To: approval.Done, Driver: me, Result: []byte(id)}} {
			_, err := l.Do(t.Context(), id, step)
			must(t, err)
		}
	}
	swap(approval.Result)
}

// TestAmbiguous: the beginning of two ids names none.
func TestAmbiguous(t *testing.T) {
	l := open(t, t.TempDir(), &clock{now: noon}, &trail{})
	n := 0
	l.ID = func() string { n++; return fmt.Sprintf("3f2a9c1e-5b7d-4e0f-8a61-%012d", n) }
	for range 2 {
		_, err := l.Make(t.Context(), approvaltest.New(), nil, nil)
		must(t, err)
	}
	_, err := approval.Find(t.Context(), l, "3F2a9c1e")
	if fault.CodeOf(err) != fault.Ambiguous || len(fault.Of(err).Why) != 2 ||
		!strings.Contains(err.Error(), "matches 2 requests") {
		t.Errorf("%v", err)
	}
	gate := &approval.Request{Kind: approval.Gate, Text: "go on?"}
	call := &approval.Request{Kind: approval.Call, Risk: "money"}
	if gate.Asks() != "go on?" || call.Asks() != "its risk is money" {
		t.Errorf("%q, %q", gate.Asks(), call.Asks())
	}
}
