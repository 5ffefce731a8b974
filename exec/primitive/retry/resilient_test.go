package retry

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/primitive"
)

// script returns one answer for each try; the last one repeats.
func script(answers ...*primitive.Result) func(int, *primitive.Action, primitive.Sink) (*primitive.Result, error) {
	return func(n int, _ *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
		r := *answers[min(n, len(answers))-1]
		return &r, nil
	}
}

func with(r *primitive.Result, edit func(*primitive.Result)) *primitive.Result {
	t := *r.Trouble
	r.Trouble = &t
	edit(r)
	return r
}

// TestRetry: what is tried again, and after how long.
func TestRetry(t *testing.T) {
	ok := gives("yes")
	ended := func(by string) *primitive.Result {
		return with(fails(0), func(r *primitive.Result) { r.Ended = by })
	}
	once := with(fails(503), func(r *primitive.Result) { r.Trouble.Repeatable = false })
	untold := gives(nil)
	untold.Failed, untold.Failure = true, "connection refused"
	three := config{"max_attempts": int64(3)}
	for name, c := range map[string]struct {
		retry   config
		edit    func(*primitive.Action)
		answers []*primitive.Result
		waited  string
		tries   int64
		failure string
	}{
		"works at once": {three, nil, []*primitive.Result{ok}, "[]", 1, ""},
		"works at last": {three, nil, []*primitive.Result{fails(503), fails(429), ok}, "[1s 2s]", 3, ""},
		"never works": {three, nil, []*primitive.Result{fails(503)}, "[1s 2s]", 3,
			"after 3 tries: it said no"},
		"isn't worth it": {three, nil, []*primitive.Result{fails(404)}, "[]", 1, "it said no"},
		"isn't worth it any more": {three, nil, []*primitive.Result{fails(502), fails(401)}, "[1s]", 2,
			"after 2 tries: it said no"},
		"isn't safe": {three, nil, []*primitive.Result{once}, "[]", 1, "it said no"},
		"safe as nothing happened": {three, nil, []*primitive.Result{with(fails(503), func(r *primitive.Result) {
			r.Trouble = &primitive.Trouble{Status: 429, Undone: true}
		}), ok}, "[1s]", 2, ""},
		"safe as it is pure": {three, func(a *primitive.Action) {
			a.Pure = true
		}, []*primitive.Result{once, ok}, "[1s]", 2, ""},
		"safe as it says": {config{"max_attempts": 2.0, "idempotent": true}, nil,
			[]*primitive.Result{once, ok}, "[1s]", 2, ""},
		"nothing is known": {three, nil, []*primitive.Result{untold, ok}, "[]", 1, "connection refused"},
		"only its words are known": {config{"max_attempts": int64(2), "idempotent": true}, nil,
			[]*primitive.Result{untold, ok}, "[1s]", 2, ""},
		"timeout":         {three, nil, []*primitive.Result{ended("timeout"), ok}, "[1s]", 2, ""},
		"cancelled":       {three, nil, []*primitive.Result{ended("cancelled"), ok}, "[]", 1, "it said no"},
		"too much output": {three, nil, []*primitive.Result{ended("output"), ok}, "[]", 1, "it said no"},
		"the other side says": {three, nil, []*primitive.Result{with(fails(503), func(r *primitive.Result) {
			r.Trouble.After = 7 * time.Second
		}), ok}, "[7s]", 2, ""},
		"it says so in vain": {
			config{"max_attempts": int64(3), "first": int64(2)}, nil,
			[]*primitive.Result{with(fails(503), func(r *primitive.Result) {
				r.Trouble.After = 61 * time.Second
			}), ok}, "[]", 1, "it said no",
		},
		"own waits": {config{"max_attempts": int64(5), "first": 0.5, "longest": int64(3)}, nil,
			[]*primitive.Result{fails(503)}, "[500ms 1s 2s 3s]", 5, "after 5 tries: it said no"},
		"own, but told": {config{"max_attempts": int64(2), "first": 0.5}, nil,
			[]*primitive.Result{with(fails(429), func(r *primitive.Result) {
				r.Trouble.After = 7 * time.Second
			}), ok}, "[7s]", 2, ""},
		"even waits": {config{"max_attempts": int64(4), "backoff": "linear", "first": 0.5}, nil,
			[]*primitive.Result{fails(503)}, "[500ms 500ms 500ms]", 4, "after 4 tries: it said no"},
		"jitter": {config{"max_attempts": int64(3), "jitter": 0.5}, nil, []*primitive.Result{fails(503)},
			"[1.25s 2.5s]", 3, "after 3 tries: it said no"},
		"no time": {config{"max_attempts": int64(9)}, func(a *primitive.Action) {
			a.Sandbox.Limits.Wall = 10 * time.Second
		}, []*primitive.Result{fails(503)}, "[1s 2s 4s]", 4, "after 4 tries: it said no"},
		"the chain's time": {config{"max_attempts": int64(9)}, func(a *primitive.Action) {
			a.Config["timeout"] = 2.5
		}, []*primitive.Result{fails(503)}, "[1s]", 2, "after 2 tries: it said no"},
		"of the primitive": {nil, func(a *primitive.Action) {
			a.Config[retry] = config{"max_attempts": int64(99)}
		}, []*primitive.Result{fails(429)}, "[1s 2s 4s 8s 16s]", 6, "after 6 tries: it said no"},
		"only once by that": {nil, func(a *primitive.Action) {
			a.Config[retry] = config{}
		}, []*primitive.Result{fails(429)}, "[]", 1, "it said no"},
	} {
		w := newWorld(script(c.answers...))
		a := action(nil)
		if c.retry != nil {
			a = action(config{"retry": c.retry})
		}
		if c.edit != nil {
			c.edit(a)
		}
		r := w.run(t, a)
		if got := fmt.Sprint(w.waited); got != c.waited || r.Usage["attempts"] != c.tries || w.calls != int(c.tries) ||
			r.Failure != c.failure || r.Failed != (c.failure != "") {
			t.Errorf("%s: waited %s, %+v after %d", name, got, r, w.calls)
		}
		var all time.Duration
		for _, d := range w.waited {
			all += d
		}
		if r.Usage["waited_ms"] != all.Milliseconds() || r.Usage["wall_ms"] != 5*c.tries+all.Milliseconds() ||
			r.Usage["max_rss"] != 7 {
			t.Errorf("%s: used %v", name, r.Usage)
		}
		told := 0
		for _, line := range r.Applied {
			if strings.HasPrefix(line, "retry: ") {
				told++
			}
		}
		if no := strings.Contains(fmt.Sprint(r.Applied), "no time"); told != len(w.waited) &&
			!(no && told == len(w.waited)+1) {
			t.Errorf("%s: told %q", name, r.Applied)
		}
	}
}

// TestMaxRetries: the classification may allow fewer.
func TestMaxRetries(t *testing.T) {
	w := newWorld(script(fails(500)))
	w.Rules = rules(t, `
patterns: [{id: x, category: quota, retryable: true, match: {path: status_code, value: 500}, retry_policy: {type: fixed, delay: 3, max_retries: 2}}]
default: {category: permanent, retryable: false}
`)
	if r := w.run(t, action(config{"retry": config{"max_attempts": int64(9)}})); r.Usage["attempts"] != 3 ||
		fmt.Sprint(w.waited) != "[3s 3s]" {
		t.Errorf("%+v, %v", r, w.waited)
	}
}

// TestEnds: the context ends a wait, an error after a try is part of the failure, and without rules nothing starts.
func TestEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(func(n int, _ *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
		if n == 2 {
			cancel()
		}
		return fails(503), nil
	})
	three := config{"retry": config{"max_attempts": int64(3)}}
	if r, err := w.Run(ctx, action(three), nil); err != nil || r.Ended != "" ||
		r.Failure != "after 2 tries: it said no" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := w.Run(ctx, action(three), nil); !errors.Is(err, context.Canceled) || w.calls != 2 {
		t.Errorf("%v", err)
	}
	// A real wait.
	ctx, cancel = context.WithCancel(t.Context())
	w = newWorld(script(fails(503)))
	w.Primitive.Now, w.Primitive.Chance = nil, nil
	w.Primitive.Sleep = func(ctx context.Context, d time.Duration) error {
		cancel()
		return (&Primitive{}).sleep(ctx, d)
	}
	if r, err := w.Run(ctx, action(config{"retry": config{"max_attempts": int64(3), "jitter": 1.0}}),
		nil); err != nil || r.Ended != "cancelled" || r.Failure != "cancelled" || w.calls != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if err := (&Primitive{}).sleep(t.Context(), time.Millisecond); err != nil {
		t.Error(err)
	}

	w = newWorld(func(n int, _ *primitive.Action, _ primitive.Sink) (*primitive.Result, error) {
		if n == 1 {
			return fails(503), nil
		}
		return nil, errWrong
	})
	if r := w.run(t, action(three)); !r.Failed || r.Failure != "it said no; then it can't be done" ||
		r.Usage["attempts"] != 1 {
		t.Errorf("%+v", r)
	}
	if _, err := w.Run(t.Context(), action(three), nil); !errors.Is(err, errWrong) {
		t.Errorf("%v", err)
	}
	w.calls, w.Rules = 0, func(context.Context) (*classification.Rules, error) { return nil, errWrong }
	if _, err := w.Run(t.Context(), action(three), nil); !errors.Is(err, errWrong) || w.calls != 0 {
		t.Errorf("%v after %d calls", err, w.calls)
	}
	// Rules are read only if they are needed.
	w = newWorld(script(gives("x")))
	w.Rules = nil
	if r := w.run(t, action(config{"timeout": config{"each": int64(1)},
		"fallback": config{"value": nil}})); r.Value != "x" || len(r.Applied) != 0 {
		t.Errorf("%+v", r)
	}
}

// TestOver: if a wait takes longer than planned and the time is over, the last result counts.
func TestOver(t *testing.T) {
	w := newWorld(script(fails(503)))
	late := w.Primitive.Sleep
	w.Primitive.Sleep = func(ctx context.Context, d time.Duration) error {
		w.pass(time.Hour)
		return late(ctx, d)
	}
	if r := w.run(t, action(config{"retry": config{"max_attempts": int64(3)}})); w.calls != 1 ||
		r.Failure != "it said no" {
		t.Errorf("%+v after %d calls", r, w.calls)
	}
}

// TestTimeout: each try has its own time limit, and all together that of the action.
func TestTimeout(t *testing.T) {
	for _, c := range []struct {
		resilience config
		takes      time.Duration
		walls      string
	}{
		{config{"timeout": config{"each": int64(20)}}, 0, "[20s]"},
		{config{"timeout": config{"each": int64(90)}}, 0, "[1m0s]"},
		{config{"retry": config{"max_attempts": int64(3)}}, 25 * time.Second, "[1m0s 34s 7s]"},
		{config{"retry": config{"max_attempts": int64(5)}, "timeout": config{"each": int64(20)}}, 25 * time.Second,
			"[20s 20s 7s]"},
	} {
		var w *world
		w = newWorld(func(int, *primitive.Action, primitive.Sink) (*primitive.Result, error) {
			w.pass(c.takes)
			return with(fails(0), func(r *primitive.Result) { r.Ended = "timeout" }), nil
		})
		r := w.run(t, action(c.resilience))
		if got := fmt.Sprint(w.walls); got != c.walls || r.Ended != "timeout" {
			t.Errorf("%v: %s, %+v", c.resilience, got, r)
		}
	}
}

// A deaf sink drops one stream.
type deaf struct {
	sink
	to primitive.Stream
}

func (d *deaf) Drops(s primitive.Stream) bool { return s == d.to }

// TestPassedOn: after standard output was passed on there is no other try, with a sink or without; after standard
// error, or output that the sink drops, there is.
func TestPassedOn(t *testing.T) {
	out, stderr := primitive.Stdout, primitive.Stderr
	for name, c := range map[string]struct {
		to    func() primitive.Sink
		tries map[primitive.Stream]int
	}{
		"no sink": {func() primitive.Sink { return nil }, map[primitive.Stream]int{out: 1, stderr: 2}},
		"a sink": {func() primitive.Sink {
			return new(sink)
		}, map[primitive.Stream]int{out: 1, stderr: 2}},
		"drops standard output": {func() primitive.Sink {
			return &deaf{to: out}
		}, map[primitive.Stream]int{out: 2, stderr: 2}},
		"drops the other stream": {func() primitive.Sink {
			return &deaf{to: stderr}
		}, map[primitive.Stream]int{out: 1, stderr: 2}},
	} {
		for stream, tries := range c.tries {
			w := newWorld(func(_ int, _ *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
				return fails(503), to.Emit(stream, []byte("x"))
			})
			r, err := w.Run(t.Context(), action(config{"retry": config{"max_attempts": int64(2)},
				"fallback": config{"value": "instead"}}), c.to())
			if err != nil || w.calls != tries || r.Failed != (tries == 1) || (r.Value == "instead") != (tries == 2) {
				t.Errorf("%s, %d: %d calls, %+v, %v", name, stream, w.calls, r, err)
			}
		}
	}
}

// TestFallback: which failures it replaces.
func TestFallback(t *testing.T) {
	value := config{"items": []any{}}
	fallback := config{"value": value}
	for name, c := range map[string]struct {
		answer *primitive.Result
		err    error
		more   config
		want   bool
	}{
		"it works":    {gives("x"), nil, nil, false},
		"it fails":    {fails(404), nil, nil, true},
		"after tries": {fails(503), nil, config{"retry": config{"max_attempts": int64(3)}}, true},
		"timeout": {with(fails(0), func(r *primitive.Result) {
			r.Ended, r.Signal, r.Exit = "timeout", "killed", -1
		}), nil, nil, true},
		"cancelled":       {with(fails(0), func(r *primitive.Result) { r.Ended = "cancelled" }), nil, nil, false},
		"too much memory": {with(fails(0), func(r *primitive.Result) { r.Ended = "memory" }), nil, nil, false},
		"refused":         {nil, errWrong, nil, false},
	} {
		w := newWorld(func(int, *primitive.Action, primitive.Sink) (*primitive.Result, error) {
			return c.answer, c.err
		})
		resilience := config{"fallback": fallback}
		for name, v := range c.more {
			resilience[name] = v
		}
		to := new(sink)
		r, err := w.Run(t.Context(), action(resilience), to)
		if !errors.Is(err, c.err) {
			t.Fatalf("%s: %v", name, err)
		}
		if c.err != nil {
			continue
		}
		if got := r.Usage["fallback"] == 1; got != c.want {
			t.Errorf("%s: %+v", name, r)
		}
		if c.want && (r.Failed || r.Failure != "" || r.Ended != "" || r.Signal != "" || r.Exit != 0 ||
			!reflect.DeepEqual(r.Value, any(value)) || to.got != "o:{\"items\":[]}\n ") {
			t.Errorf("%s: %+v, %q", name, r, to.got)
		}
		if c.want && !slices.Contains(r.Applied, "fallback: it failed, so its value was used") {
			t.Errorf("%s: %q", name, r.Applied)
		}
	}
	w := newWorld(script(fails(404)))
	if r, err := w.Run(t.Context(), action(config{"fallback": config{"value": nil}}), &sink{enough: 1}); err != nil ||
		r.Ended != "cancelled" || !strings.Contains(r.Failure, "enough") {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := w.Run(t.Context(), action(config{"fallback": config{"value": func() {}}}), nil); err == nil {
		t.Error("a value that isn't JSON is accepted")
	}
}

// TestCache: an answer is returned again as it was, and only for the same action.
func TestCache(t *testing.T) {
	w := newWorld(func(n int, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
		if a.Config["fail"] != nil {
			return fails(404), nil
		}
		for _, part := range []string{"a", "b"} {
			if err := to.Emit(primitive.Stdout, []byte(part)); err != nil {
				return nil, err
			}
		}
		if size, ok := a.Config["size"].(int); ok {
			to.Emit(primitive.Stderr, make([]byte, size))
		}
		return gives(config{"n": int64(n)}), nil
	})
	set := config{"cache": config{"ttl": int64(10), "max_entries": int64(2)}}
	ask := func(a *primitive.Action) (int64, string, *primitive.Result) {
		t.Helper()
		to := new(sink)
		r, err := w.Run(t.Context(), a, to)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := r.Value.(config)["n"].(int64)
		return n, to.got, r
	}
	n, told, r := ask(pure("x", set))
	if n != 1 || told != "o:a o:b " || r.Usage["cached"] != 0 {
		t.Errorf("%d %q %+v", n, told, r)
	}
	r.Value.(config)["n"] = "changed"
	for range 2 {
		if n, told, r = ask(pure("x", set)); n != 1 || told != "o:ab " || r.Usage["cached"] != 1 ||
			len(r.Usage) != 1 || r.Level == 0 {
			t.Errorf("%d %q %+v", n, told, r)
		}
		r.Value.(config)["n"], r.Enforced[0] = "changed", "changed"
	}
	if n, _, _ = ask(pure("y", set)); n != 2 {
		t.Error("another action has the same answer")
	}
	w.pass(10 * time.Second)
	if n, _, _ = ask(pure("x", set)); n != 1 {
		t.Error("it is too old")
	}
	w.pass(1)
	if n, _, _ = ask(pure("x", set)); n != 3 {
		t.Error("it is young enough")
	}
	// At most two answers of a tool, the most recently used.
	ask(pure("y", set))
	ask(pure("x", set))
	other := pure("other", set)
	other.Tool = "tool:acme/other"
	ask(other)
	ask(pure("z", set))
	w.calls = 100
	for id, want := range map[string]bool{"x": true, "z": true, "other": true} {
		if _, _, r = ask(pure(id, set)); (r.Usage["cached"] == 1) != want {
			t.Errorf("%s: %v", id, r.Usage)
		}
	}
	// What isn't cached.
	for name, edit := range map[string]func(*primitive.Action){
		"not pure":    func(a *primitive.Action) { a.Pure = false },
		"no identity": func(a *primitive.Action) { a.Identity = cas.Digest{} },
		"a failure":   func(a *primitive.Action) { a.Config["fail"] = true },
		"too large":   func(a *primitive.Action) { a.Config["size"] = MaxAnswer },
		"too large with its value": func(a *primitive.Action) {
			a.Config["size"] = MaxAnswer - 5
		},
	} {
		for range 2 {
			a := pure(name, set)
			edit(a)
			if _, _, r := ask(a); r.Usage["cached"] != 0 {
				t.Errorf("%s is cached", name)
			}
		}
	}
	to := &sink{enough: 1}
	if r, err := w.Run(t.Context(), pure("z", set), to); err != nil || r.Ended != "cancelled" ||
		!strings.Contains(r.Failure, "enough") {
		t.Errorf("%+v, %v", r, err)
	}
	if r := w.run(t, pure("z", set)); r.Usage["cached"] != 1 {
		t.Errorf("%+v", r)
	}
	// A fallback value isn't cached either.
	a := pure("fallback", config{"cache": config{}, "fallback": config{"value": int64(1)}})
	a.Config["fail"] = true
	for range 2 {
		if r := w.run(t, a); r.Usage["cached"] != 0 || r.Usage["fallback"] != 1 {
			t.Errorf("%+v", r)
		}
	}
}

// TestMemory: the cache keeps its bounds.
func TestMemory(t *testing.T) {
	var m memory
	now := time.Unix(0, 0)
	for i := range 200 {
		m.put(&answer{id: cas.Sum(fmt.Append(nil, i)), tool: "x", size: 1 << 19, since: now}, 1000)
	}
	if m.size > MaxMemory || m.size < MaxMemory-MaxAnswer || len(m.at) != m.order.Len() || m.tools["x"] != len(m.at) {
		t.Errorf("%d bytes, %d answers", m.size, len(m.at))
	}
	m.put(&answer{id: cas.Sum([]byte("199")), tool: "y", size: 1, since: now}, 1)
	m.put(&answer{id: cas.Sum([]byte("no")), result: primitive.Result{Value: func() {}}, since: now}, 1)
	if m.get(cas.Sum([]byte("no")), time.Hour, now) != nil || m.get(cas.Sum([]byte("199")), time.Hour, now) == nil ||
		m.get(cas.Sum([]byte("199")), time.Hour, now.Add(-1)) != nil || m.tools["y"] != 0 {
		t.Errorf("%v", m.tools)
	}
}

// A keeper keeps something for each action.
type keeper struct{ inner }

func (keeper) Keeps() bool { return true }

func (keeper) Take(a *primitive.Action) (release func(), ok bool) {
	a.Kept = "kept"
	return func() {}, true
}

// TestTake: what is kept is for an action that is tried once.
func TestTake(t *testing.T) {
	w := newWorld(script(gives("yes")))
	p := &Primitive{Inner: keeper{inner{w}}}
	once := &primitive.Action{Config: config{}}
	if _, ok := p.Take(once); !ok || once.Kept == nil || !p.Keeps() {
		t.Errorf("nothing is taken: %+v", once)
	}
	for _, c := range []config{{Entry: config{}}, {retry: config{}}} {
		if _, ok := p.Take(&primitive.Action{Config: c}); ok {
			t.Errorf("%v: taken", c)
		}
	}
	if p := (&Primitive{Inner: inner{w}}); p.Keeps() {
		t.Error("one that can't keeps something")
	} else if _, ok := p.Take(once); ok {
		t.Error("taken from one that can't")
	}
}
