package retry

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/rye-build/rye/ai/parse"
	"github.com/rye-build/rye/ai/std"
	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/manifest/policy/floor"
)

// library returns the library's classification.
func library(context.Context) (*classification.Rules, error) { return readLibrary() }

var readLibrary = sync.OnceValues(func() (*classification.Rules, error) {
	b, err := fs.ReadFile(std.FS(), "config/"+classification.Name+".yaml")
	if err != nil {
		return nil, err
	}
	v, _ := parse.YAML(b, value.Pos{})
	return classification.Read(v)
})

// A world is a primitive with a clock of its own, which advances when it waits.
type world struct {
	*Primitive
	mu     sync.Mutex
	time   time.Time
	waited []time.Duration
	calls  int
	walls  []time.Duration
	do     func(n int, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) // n counts from 1
}

func newWorld(do func(n int, a *primitive.Action, to primitive.Sink) (*primitive.Result, error)) *world {
	w := &world{time: time.Unix(1e9, 0), do: do}
	w.Primitive = &Primitive{
		Inner: w.inner(), Rules: library, Chance: func() float64 { return 0.5 },
		Now: func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.time },
		Sleep: func(ctx context.Context, d time.Duration) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			w.mu.Lock()
			w.waited = append(w.waited, d)
			w.mu.Unlock()
			w.pass(d)
			return nil
		},
	}
	return w
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.time = w.time.Add(d)
}

// An inner is a primitive that calls the service under "to".
type inner struct{ w *world }

func (w *world) inner() primitive.Primitive { return inner{w} }

func (i inner) Run(_ context.Context, a *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	i.w.mu.Lock()
	i.w.calls++
	n := i.w.calls
	i.w.walls = append(i.w.walls, a.Sandbox.Limits.Wall)
	i.w.mu.Unlock()
	return i.w.do(n, a, to)
}

func (i inner) Asks(config map[string]any) string {
	to, _ := config["to"].(string)
	return to
}

type config = map[string]any

// action returns an action with an entry resilience.
func action(resilience config) *primitive.Action {
	a := &primitive.Action{Config: config{"to": "api.example:443"}, Tool: "tool:acme/x"}
	a.Sandbox.Limits.Wall = time.Minute
	if resilience != nil {
		a.Config[Entry] = resilience
	}
	return a
}

// pure returns an action of a pure tool with an identity.
func pure(id string, resilience config) *primitive.Action {
	a := action(resilience)
	a.Pure, a.Identity = true, cas.Sum([]byte(id))
	return a
}

func gives(v any) *primitive.Result {
	return &primitive.Result{Value: v, Level: floor.Namespace, Enforced: []string{"all"},
		Usage: map[string]int64{"wall_ms": 5, "max_rss": 7}}
}

// fails returns a failure that changed nothing.
func fails(status int) *primitive.Result {
	r := gives(config{"status_code": int64(status)})
	r.Failed, r.Failure, r.Trouble = true, "it said no", &primitive.Trouble{Status: status, Repeatable: true}
	return r
}

var errWrong = errors.New("it can't be done")

// A sink keeps what it gets, and fails from a number of calls on, if that isn't 0.
type sink struct {
	got    string
	calls  int
	enough int
}

func (s *sink) Emit(stream primitive.Stream, b []byte) error {
	s.got += string("oe"[stream]) + ":" + string(b) + " "
	if s.calls++; s.calls == s.enough {
		return errors.New("enough")
	}
	return nil
}

func (w *world) run(t testing.TB, a *primitive.Action) *primitive.Result {
	t.Helper()
	r, err := w.Run(t.Context(), a, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
