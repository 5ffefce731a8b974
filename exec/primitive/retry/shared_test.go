package retry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
)

// TestOpen: an address that failed too often isn't called by any action; a permanent failure counts as an answer.
func TestOpen(t *testing.T) {
	answers := map[string]*primitive.Result{"ok": gives("x"), "busy": fails(503), "missing": fails(404),
		"stopped": with(fails(0), func(r *primitive.Result) { r.Ended = "memory" })}
	next := "busy"
	w := newWorld(func(int, *primitive.Action, primitive.Sink) (*primitive.Result, error) {
		if next == "wrong" {
			return nil, errWrong
		}
		r := *answers[next]
		return &r, nil
	})
	set := config{"breaker": config{"failures": int64(2), "cooldown": int64(30), "successes": int64(1)}}
	do := func(what string) (*primitive.Result, error) { next = what; return w.Run(t.Context(), action(set), nil) }
	for _, what := range []string{"busy", "missing", "busy", "stopped", "wrong"} {
		do(what)
	}
	r, err := do("busy")
	if err != nil || !slices.Contains(r.Applied, "breaker: opened") {
		t.Fatalf("%+v, %v", r, err)
	}
	calls := w.calls
	_, err = do("ok")
	e := fault.Of(err)
	if e.Code != fault.Unavailable || e.Details["address"] != "api.example:443" ||
		e.Details["wait_ms"] != int64(30000) || w.calls != calls ||
		e.Text != `"api.example:443" has failed too often; the next try is in 30s` {
		t.Fatalf("%v", err)
	}
	// Other addresses and other settings have other breakers.
	a := action(set)
	a.Config["to"] = "" // that is the tool
	next = "ok"
	if r := w.run(t, a); r.Failed {
		t.Errorf("%+v", r)
	}
	if r := w.run(t, action(config{"breaker": config{}})); r.Failed {
		t.Errorf("%+v", r)
	}
	r, err = w.Run(t.Context(), action(config{"breaker": set["breaker"], "fallback": config{"value": "instead"}}), nil)
	if err != nil || r.Value != "instead" || !slices.Equal(r.Applied,
		[]string{"breaker: open", "fallback: no call was made, so its value was used"}) {
		t.Errorf("%+v, %v", r, err)
	}
	w.pass(30 * time.Second)
	if r, err = do("ok"); err != nil || !slices.Equal(r.Applied,
		[]string{"breaker: half open, testing the service", "breaker: closed"}) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestHalfOpen: of many at once exactly as many get through as have to succeed.
func TestHalfOpen(t *testing.T) {
	const probes, many = 3, 50
	hold, begun := make(chan struct{}), make(chan struct{}, many)
	var working bool
	w := newWorld(func(int, *primitive.Action, primitive.Sink) (*primitive.Result, error) {
		if !working {
			return fails(503), nil
		}
		begun <- struct{}{}
		<-hold
		return gives("x"), nil
	})
	set := config{"breaker": config{"failures": int64(1), "cooldown": int64(1), "successes": int64(probes)}}
	w.run(t, action(set))
	w.pass(time.Second)
	working = true
	var all sync.WaitGroup
	refused := make(chan error, many)
	for range many {
		all.Go(func() {
			if _, err := w.Run(context.Background(), action(set), nil); err != nil {
				refused <- err
			}
		})
	}
	for range probes {
		<-begun
	}
	for range many - probes {
		e := fault.Of(<-refused)
		if e.Code != fault.Unavailable || e.Details["wait_ms"] != int64(0) ||
			!strings.Contains(e.Text, "another call is testing") {
			t.Errorf("%v", e)
		}
	}
	close(hold)
	all.Wait()
	if len(refused) != 0 || w.calls != probes+1 {
		t.Errorf("%d calls, %d more were refused", w.calls, len(refused))
	}
	if r := w.run(t, action(set)); r.Failed {
		t.Errorf("%+v", r)
	}
}

// TestRate: tries wait for a token, if there is time.
func TestRate(t *testing.T) {
	w := newWorld(script(gives("x")))
	set := config{"rate": config{"per_second": int64(1), "burst": int64(2)}}
	for range 4 {
		w.run(t, action(set))
	}
	if got := fmt.Sprint(w.waited); got != "[1s 1s]" {
		t.Errorf("waited %s", got)
	}
	a := action(set)
	a.Sandbox.Limits.Wall = 100 * time.Millisecond
	calls := w.calls
	_, err := w.Run(t.Context(), a, nil)
	if e := fault.Of(err); e.Code != fault.RateLimited || e.Details["wait_ms"] != int64(1000) || w.calls != calls ||
		!strings.Contains(err.Error(),
			`the rate limit for "api.example:443" is reached: the next call is possible in 1s`) {
		t.Errorf("%v", err)
	}
	a = action(config{"rate": set["rate"], "fallback": config{"value": "instead"}})
	a.Sandbox.Limits.Wall = 100 * time.Millisecond
	if r := w.run(t, a); r.Value != "instead" {
		t.Errorf("%+v", r)
	}
	// A cancelled wait uses no token.
	w.pass(time.Second)
	w.run(t, action(set))
	ctx, cancel := context.WithCancel(t.Context())
	sleep := w.Sleep
	w.Sleep = func(ctx context.Context, d time.Duration) error { cancel(); return sleep(ctx, d) }
	if _, err := w.Run(ctx, action(set), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	w.Sleep, w.waited = sleep, nil
	if w.run(t, action(set)); fmt.Sprint(w.waited) != "[1s]" {
		t.Errorf("waited %v", w.waited)
	}
	// Every try takes a token; without time for that the last result counts.
	w = newWorld(script(fails(503)))
	a = action(config{"rate": config{"per_second": 0.01, "burst": int64(2)},
		"retry": config{"max_attempts": int64(5)}})
	r := w.run(t, a)
	if w.calls != 2 || !strings.HasPrefix(r.Failure, "after 2 tries: it said no; then ") ||
		!strings.Contains(r.Failure, "the rate limit for") {
		t.Errorf("%d calls, %+v", w.calls, r)
	}
}

// TestTogether: many at once, of few addresses, with everything.
func TestTogether(t *testing.T) {
	w := newWorld(func(n int, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
		if n%3 == 0 {
			return fails(503), nil
		}
		return gives(a.Config["id"]), to.Emit(primitive.Stdout, []byte("x"))
	})
	set := config{
		"cache": config{}, "breaker": config{"failures": int64(2), "cooldown": 0.01},
		"rate":  config{"per_second": int64(1000)},
		"retry": config{"max_attempts": int64(3), "first": 0.001}, "fallback": config{"value": "instead"},
	}
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			id := fmt.Sprint(i % 40)
			a := pure(id, set)
			a.Config["to"], a.Config["id"] = fmt.Sprint(i%3), id
			r, err := w.Run(context.Background(), a, new(sink))
			if err != nil || r.Failed || r.Value != id && r.Value != "instead" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	all.Wait()
}

// TestStates: who wasn't asked for longest is forgotten.
func TestStates(t *testing.T) {
	w := newWorld(script(fails(503)))
	set := config{"breaker": config{"failures": int64(1)}}
	ask := func(to int) error {
		a := action(set)
		a.Config["to"] = fmt.Sprint(to)
		_, err := w.Run(t.Context(), a, nil)
		return err
	}
	for i := range MaxStates + 1 {
		if err := ask(i); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.states) != MaxStates || ask(1) == nil || ask(0) != nil {
		t.Errorf("%d are remembered", len(w.states))
	}
}

// TestPlain: without a word of it the inner primitive does the action, as it is.
func TestPlain(t *testing.T) {
	a := action(nil)
	w := newWorld(func(_ int, got *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
		if got != a || to != nil {
			t.Error("it isn't the action")
		}
		return gives("x"), nil
	})
	if r := w.run(t, a); r.Usage["attempts"] != 0 {
		t.Errorf("%+v", r)
	}
	a = action(config{"timeout": config{"each": int64(1)}})
	before := fmt.Sprint(a)
	w.do = func(_ int, got *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
		if _, there := got.Config[Entry]; there || got.Config["to"] == nil {
			t.Errorf("the inner primitive gets %v", got.Config)
		}
		return gives("x"), nil
	}
	if w.run(t, a); fmt.Sprint(a) != before {
		t.Error("the action was changed")
	}
}

// A full primitive has all that one can have.
type full struct{ inner }

func (full) Starts(map[string]any) []string { return []string{"x"} }
func (full) Seeks(map[string]any) []string  { return []string{"y"} }
func (full) Close() error                   { return errWrong }

// TestOptional: what the inner one can, this one can.
func TestOptional(t *testing.T) {
	w := newWorld(script(gives("x")))
	if err := w.Close(); err != nil || w.Starts(nil) != nil || w.Seeks(nil) != nil {
		t.Error(err)
	}
	p := &Primitive{Inner: full{inner{w}}}
	if p.Close() != errWrong ||
		!slices.Equal(p.Starts(nil), []string{"x"}) || !slices.Equal(p.Seeks(nil), []string{"y"}) {
		t.Error("something is lost")
	}
}
