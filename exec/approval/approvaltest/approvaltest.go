// Package approvaltest checks that something is a journal of requests, as approval.Approvals says.
package approvaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal/journaltest"
	"github.com/rye-build/rye/exec/approval"
	"github.com/rye-build/rye/exec/thread/roster"
)

// A World is where journals are opened.
type World struct {
	// Open opens the one journal of this world once more, as another process would.
	Open func(t testing.TB) approval.Approvals
	// Pass moves the clock.
	Pass func(time.Duration)
	// Die ends a process that makes a call.
	Die func(roster.Driver)
}

// Test runs every check, each in a world of its own.
func Test(t *testing.T, make func(t testing.TB) World) {
	for name, check := range map[string]func(*testing.T, World){
		"steps": steps, "same": same, "expires": expires, "separate": separate, "races": races, "dies": dies,
		"sealed": sealed, "watch": watch, "finds": finds,
	} {
		t.Run(name, func(t *testing.T) { check(t, make(t)) })
	}
}

var must, refused = journaltest.Must, journaltest.Refused

// given are the parameters of New.
const given = `{"amount":120}`

// New returns a request for a call that isn't made yet.
func New() *approval.Request {
	return &approval.Request{Kind: approval.Call, Ref: "tool:acme/pay", Digest: cas.Sum([]byte("tool")),
		Params: cas.Sum([]byte(given)), Shown: cas.Sum([]byte(`{}`)), Risk: "money",
		Lines: []string{`"big" of your policy`}, Set: cas.Sum([]byte("set")), Project: "/home/ann/site",
		Principal: "ann", Door: approval.Thread, Thread: "acme/plan-1795000000-a2b3c", Call: "c3", Span: time.Hour}
}

var (
	yes    = approval.Step{To: approval.Approved, By: "bob", Through: "rye approve"}
	no     = approval.Step{To: approval.Denied, By: "bob", Through: "rye deny", Reason: "too much"}
	driver = roster.Driver{Process: 4711, Start: "start-4711", Host: "h"}
	takes  = approval.Step{To: approval.Executing, Driver: driver, Execution: "x1"}
	ends   = approval.Step{To: approval.Done, Driver: driver, Code: "TIMEOUT"}
	drops  = approval.Step{To: approval.Superseded, Reason: "the lock has changed"}
)

// with makes a request and these steps.
func with(t testing.TB, a approval.Approvals, r *approval.Request, steps ...approval.Step) *approval.Request {
	t.Helper()
	made, err := a.Make(t.Context(), r, []byte(given), nil)
	must(t, err)
	for _, s := range steps {
		made, err = a.Do(t.Context(), made.ID, s)
		must(t, err)
	}
	return made
}

func get(t testing.TB, a approval.Approvals, id string) *approval.Request {
	t.Helper()
	all, err := approval.List(t.Context(), a, approval.Filter{ID: id})
	must(t, err)
	if len(all) != 1 {
		t.Fatalf("%d requests %s", len(all), id)
	}
	return all[0]
}

// steps: each follows its states alone, is read by others, and says who made it.
func steps(t *testing.T, w World) {
	approvals, requests := w.Open(t), w.Open(t)
	to := map[approval.State]approval.Step{approval.Approved: yes, approval.Denied: no, approval.Executing: takes,
		approval.Done: ends, approval.Superseded: drops,
		approval.Unknown: {To: approval.Unknown, Driver: driver}, approval.Pending: {To: approval.Pending},
		approval.Expired: {To: approval.Expired}}
	for _, row := range []struct {
		is    approval.State
		steps []approval.Step
		next  []approval.State
	}{
		{approval.Pending, nil, []approval.State{approval.Approved, approval.Denied, approval.Superseded,
			approval.Expired}},
		{approval.Approved, []approval.Step{yes},
			[]approval.State{approval.Executing, approval.Superseded, approval.Expired}},
		{approval.Denied, []approval.Step{no}, nil},
		{approval.Superseded, []approval.Step{yes, drops}, nil},
		{approval.Executing, []approval.Step{yes, takes}, []approval.State{approval.Done, approval.Unknown}},
		{approval.Done, []approval.Step{yes, takes, ends}, nil},
		{approval.Unknown, []approval.Step{yes, takes, to[approval.Unknown]}, nil},
	} {
		for _, state := range approval.States {
			request := with(t, approvals, New(), row.steps...)
			if request.State != row.is || request.State.Ended() != (row.next == nil) {
				t.Errorf("%s: %+v", row.is, request)
			}
			follows := false
			for _, n := range row.next {
				follows = follows || n == state
			}
			got, err := requests.Do(t.Context(), request.ID, to[state])
			if !follows {
				refused(t, fault.Conflict, err)
				if now := get(t, requests, request.ID); now.State != row.is {
					t.Errorf("%s became %s", row.is, now.State)
				}
				continue
			}
			must(t, err)
			if seen := get(t, approvals, request.ID); seen.State != state || got.State != state {
				t.Errorf("%s: %s, %s; want %s", row.is, seen.State, got.State, state)
			}
		}
	}
	asked := with(t, approvals, New(), yes, takes, ends)
	if asked.By != "bob" || asked.Through != "rye approve" || asked.Answered.IsZero() || asked.Driver != driver ||
		asked.Execution != "x1" || asked.Code != "TIMEOUT" || asked.Project != "/home/ann/site" {
		t.Errorf("%+v", asked)
	}
	if r := with(t, approvals, New(), no); r.Reason != "too much" || r.By != "bob" {
		t.Errorf("%+v", r)
	}
	gate := New()
	gate.Kind, gate.Text = approval.Gate, "go on?"
	asked = with(t, approvals, gate, yes)
	_, err := approvals.Do(t.Context(), asked.ID, takes)
	refused(t, fault.Conflict, err)
	// Only the process that makes the call says how it ended: another one could have it made again.
	asked = with(t, approvals, New(), yes, takes)
	for _, state := range []approval.State{approval.Done, approval.Unknown} {
		other := to[state]
		other.Driver.Process++
		_, err = approvals.Do(t.Context(), asked.ID, other)
		refused(t, fault.Conflict, err)
	}
	_, err = approvals.Do(t.Context(), approval.NewID(), yes)
	refused(t, fault.NotFound, err)
}

// same: a request that is there already is returned.
func same(t *testing.T, w World) {
	a, b := w.Open(t), w.Open(t)
	request := with(t, a, New())
	ours := func(q *approval.Request) bool { return q.Call == "c3" && !q.State.Ended() }
	again, err := b.Make(t.Context(), New(), nil, ours)
	must(t, err)
	if again.ID != request.ID {
		t.Errorf("%s; want %s", again.ID, request.ID)
	}
	_, err = a.Do(t.Context(), request.ID, no)
	must(t, err)
	again, err = b.Make(t.Context(), New(), nil, ours)
	must(t, err)
	if again.ID == request.ID || again.State != approval.Pending {
		t.Errorf("%+v", again)
	}
}

// expires: what isn't answered in time, and what isn't used in time, is over; and so it is when the clock goes back.
func expires(t *testing.T, world World) {
	approvals := world.Open(t)
	pending, approved := with(t, approvals, New()), with(t, approvals, New(), yes)
	gate := New()
	gate.Kind = approval.Gate
	gate = with(t, approvals, gate, yes)
	world.Pass(time.Hour - time.Second)
	_, err := approvals.Do(t.Context(), with(t, approvals, New()).ID, yes)
	must(t, err)
	late := with(t, approvals, New(), yes)
	world.Pass(time.Second)
	for _, r := range []*approval.Request{pending, approved} {
		if now := get(t, world.Open(t), r.ID); now.State != approval.Expired {
			t.Errorf("%+v", now)
		}
	}
	_, err = approvals.Do(t.Context(), pending.ID, yes)
	refused(t, fault.Expired, err)
	_, err = approvals.Do(t.Context(), approved.ID, takes)
	refused(t, fault.Expired, err)
	_, err = approvals.Do(t.Context(), late.ID, takes)
	must(t, err)
	world.Pass(1000 * time.Hour)
	if now := get(t, approvals, gate.ID); now.State != approval.Approved {
		t.Errorf("%+v", now)
	}
	pending, approved = with(t, approvals, New()), with(t, approvals, New(), yes)
	world.Pass(2 * time.Hour)
	for _, r := range []*approval.Request{pending, approved} {
		if now := get(t, approvals, r.ID); now.State != approval.Expired {
			t.Errorf("%+v", now)
		}
	}
	world.Pass(-90 * time.Minute) // what has expired stays so
	_, err = approvals.Do(t.Context(), pending.ID, yes)
	refused(t, fault.Expired, err)
	_, err = approvals.Do(t.Context(), approved.ID, takes)
	refused(t, fault.Expired, err)
	pending, approved = with(t, approvals, New()), with(t, approvals, New(), yes)
	world.Pass(-30 * time.Second)
	_, err = approvals.Do(t.Context(), with(t, approvals, New()).ID, yes)
	must(t, err)
	world.Pass(-24 * time.Hour)
	for _, r := range []*approval.Request{pending, approved} {
		_, err = approvals.Do(t.Context(), r.ID, drops)
		refused(t, fault.Expired, err)
	}
}

// separate: who asks can't approve, and can take it back.
func separate(t *testing.T, w World) {
	approvals, request := w.Open(t), New()
	request.Separate = true
	request = with(t, approvals, request)
	for _, who := range []string{"ann", ""} {
		_, err := approvals.Do(t.Context(), request.ID, approval.Step{To: approval.Approved, By: who})
		refused(t, fault.Denied, err)
	}
	_, err := approvals.Do(t.Context(), request.ID, yes)
	must(t, err)
	request = New()
	request.Separate, request.Principal, request.Person = true, "token:agent", "ann"
	request = with(t, approvals, request)
	for _, who := range []string{"ann", "token:agent", ""} { // her other tokens, and herself at the machine
		_, err := approvals.Do(t.Context(), request.ID, approval.Step{To: approval.Approved, By: who})
		refused(t, fault.Denied, err)
	}
	_, err = approvals.Do(t.Context(), request.ID, yes)
	must(t, err)
	request = New()
	request.Separate = true
	with(t, approvals, request, approval.Step{To: approval.Denied, By: "ann"})
}

// races: of many answers one counts, and of many processes one makes the call.
func races(t *testing.T, w World) {
	approvals := w.Open(t)
	request := with(t, approvals, New())
	race := func(name string, step func(int) approval.Step) {
		var wg sync.WaitGroup
		won := make(chan error, 16)
		for i := range 16 {
			b := w.Open(t)
			wg.Go(func() {
				_, err := b.Do(context.Background(), request.ID, step(i))
				won <- err
			})
		}
		wg.Wait()
		close(won)
		n := 0
		for err := range won {
			if err == nil {
				n++
			} else if fault.CodeOf(err) != fault.Conflict {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d won", name, n)
		}
	}
	race("answers", func(i int) approval.Step {
		if i%2 == 0 {
			return yes
		}
		return no
	})
	request = with(t, approvals, New(), yes)
	race("executors", func(i int) approval.Step {
		return approval.Step{To: approval.Executing,
			Driver: roster.Driver{Process: i + 1, Start: fmt.Sprint("start-", i+1)}}
	})
}

// dies: a call whose process has ended is unknown, and is not made again.
func dies(t *testing.T, world World) {
	a := world.Open(t)
	r := with(t, a, New(), yes, takes)
	world.Die(driver)
	if now := get(t, a, r.ID); now.State != approval.Unknown {
		t.Errorf("%+v", now)
	}
	for _, s := range []approval.Step{takes, ends, yes} {
		_, err := world.Open(t).Do(t.Context(), r.ID, s)
		refused(t, fault.Conflict, err)
	}
	if now := get(t, world.Open(t), r.ID); now.State != approval.Unknown {
		t.Errorf("%+v", now)
	}
}

// sealed: the parameters stay until the request has ended, and a result for an hour.
func sealed(t *testing.T, world World) {
	approvals, requests := world.Open(t), world.Open(t)
	request := with(t, approvals, New(), yes)
	if got, err := requests.Read(t.Context(), request.ID, approval.Params); err != nil || string(got) != given {
		t.Errorf("%q, %v", got, err)
	}
	_, err := approvals.Do(t.Context(), request.ID, takes)
	must(t, err)
	done := ends
	done.Result = bytes.Repeat([]byte("x"), 1<<20)
	_, err = approvals.Do(t.Context(), request.ID, done)
	must(t, err)
	if _, err := requests.Read(t.Context(), request.ID, approval.Params); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if got, err := requests.Read(t.Context(), request.ID, approval.Result); err != nil ||
		!bytes.Equal(got, done.Result) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	got, err := approvals.Do(t.Context(), request.ID, approval.Step{To: approval.Done, Fetched: true})
	must(t, err)
	if !got.Fetched || got.Code != "TIMEOUT" {
		t.Errorf("%+v", got)
	}
	world.Pass(approval.KeepResult)
	with(t, approvals, New(), no)
	for _, p := range []approval.Part{approval.Params, approval.Result} {
		if _, err := requests.Read(t.Context(), request.ID, p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", p, err)
		}
	}
	if _, err := requests.Read(t.Context(), "../requests", approval.Params); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// watch: who waits is woken by the answer, by time, and by the end of its own context.
func watch(t *testing.T, w World) {
	approvals, b := w.Open(t), w.Open(t)
	for name, change := range map[string]func(string){
		"answered": func(id string) {
			_, err := b.Do(context.Background(), id, yes)
			must(t, err)
		},
		"expired": func(string) { w.Pass(2 * time.Hour) },
	} {
		request := with(t, approvals, New())
		got := make(chan approval.State)
		looked := make(chan struct{}, 1)
		go func() {
			var state approval.State
			err := approvals.Watch(context.Background(), approval.Filter{ID: request.ID},
				func(all []*approval.Request) (bool, error) {
					select {
					case looked <- struct{}{}:
					default:
					}
					state = all[0].State
					return state != approval.Pending, nil
				})
			if err != nil {
				state = approval.State(err.Error())
			}
			got <- state
		}()
		<-looked
		change(request.ID)
		if state := <-got; state == approval.Pending || name == "answered" && state != approval.Approved ||
			name == "expired" && state != approval.Expired {
			t.Errorf("%s: %s", name, state)
		}
	}
	r := with(t, approvals, New())
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	if _, err := approval.Await(ctx, approvals, r.ID); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
	_, err := approval.Await(t.Context(), approvals, approval.NewID())
	refused(t, fault.NotFound, err)
}

// finds: a request is named by its id or the beginning of that, and lists are narrowed.
func finds(t *testing.T, w World) {
	approvals := w.Open(t)
	_, err := approval.Find(t.Context(), approvals, "abcd")
	refused(t, fault.NotFound, err)
	request := with(t, approvals, New())
	other := New()
	other.Thread, other.Project = "acme/other-1795000000-a2b3c", "/elsewhere"
	with(t, approvals, other, no)
	for _, prefix := range []string{request.ID, request.ID[:35]} {
		got, err := approval.Find(t.Context(), approvals, prefix)
		must(t, err)
		if got.ID != request.ID {
			t.Errorf("%s: %s", prefix, got.ID)
		}
	}
	_, err = approval.Find(t.Context(), approvals, request.ID[:2])
	refused(t, fault.Validation, err)
	for want, f := range []approval.Filter{{ID: approval.NewID()}, {Open: true}, {}} {
		all, err := approval.List(t.Context(), approvals, f)
		must(t, err)
		if len(all) != want {
			t.Errorf("%+v: %d", f, len(all))
		}
	}
	for _, f := range []approval.Filter{{Thread: other.Thread}, {Project: "/elsewhere"}} {
		all, err := approval.List(t.Context(), approvals, f)
		must(t, err)
		if len(all) != 1 || all[0].Thread != other.Thread {
			t.Errorf("%+v: %d", f, len(all))
		}
	}
}
