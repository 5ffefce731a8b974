package retry

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/classification"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/jcs"
)

// A Primitive runs the actions of Inner, as the entry resilience of their configuration says.
type Primitive struct {
	Inner primitive.Primitive
	// Rules returns the classification of failures. It is called before an action that needs it.
	Rules func(context.Context) (*classification.Rules, error)

	// Default: time.Now, cas.Sleep and math/rand.
	Now    func() time.Time
	Sleep  func(context.Context, time.Duration) error
	Chance func() float64 // from 0 to 1

	memory memory
	mu     sync.Mutex
	states map[stateKey]*shared
	asked  int64
}

// Starts implements primitive.Starter.
func (p *Primitive) Starts(config map[string]any) []string {
	if s, ok := p.Inner.(primitive.Starter); ok {
		return s.Starts(config)
	}
	return nil
}

// Asks implements primitive.Asker.
func (p *Primitive) Asks(config map[string]any) string {
	if a, ok := p.Inner.(primitive.Asker); ok {
		return a.Asks(config)
	}
	return ""
}

// Seeks implements primitive.Seeker.
func (p *Primitive) Seeks(config map[string]any) []string {
	if s, ok := p.Inner.(primitive.Seeker); ok {
		return s.Seeks(config)
	}
	return nil
}

// Bare implements primitive.Bare.
func (p *Primitive) Bare(config map[string]any) bool {
	b, able := p.Inner.(primitive.Bare)
	return able && b.Bare(config)
}

// Keeps implements primitive.Keeper.
func (p *Primitive) Keeps() bool {
	k, able := p.Inner.(primitive.Keeper)
	return able && k.Keeps()
}

// Take implements primitive.Keeper. It refuses actions with retries, since a second try needs the action's files.
func (p *Primitive) Take(a *primitive.Action) (release func(), ok bool) {
	k, able := p.Inner.(primitive.Keeper)
	if _, mine := a.Config[Entry]; mine || !able {
		return nil, false
	}
	if _, own := a.Config[retry]; own {
		return nil, false
	}
	return k.Take(a)
}

// Ready implements primitive.Readier.
func (p *Primitive) Ready(network bool) {
	if r, able := p.Inner.(primitive.Readier); able {
		r.Ready(network)
	}
}

// Close implements primitive.Closer.
func (p *Primitive) Close() error {
	if c, ok := p.Inner.(primitive.Closer); ok {
		return c.Close()
	}
	return nil
}

// Run implements primitive.Primitive.
func (p *Primitive) Run(ctx context.Context, action *primitive.Action, to primitive.Sink) (*primitive.Result, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	_, mine := action.Config[Entry]
	_, own := action.Config[retry]
	if !mine && !own {
		return p.Inner.Run(ctx, action, to)
	}
	s, err := read(action.Config)
	if err != nil {
		return nil, err
	}
	inner := *action
	inner.Config = maps.Clone(action.Config)
	delete(inner.Config, Entry)
	delete(inner.Config, retry)
	x := &run{Primitive: p, settings: s, action: &inner, to: to, usage: map[string]int64{}, began: p.now()}
	x.time = cmp.Or(action.Wall(), sandbox.DefaultLimits().Wall)
	if s.breaker != nil || s.retry.attempts > 1 {
		if x.rules, err = p.Rules(ctx); err != nil {
			return nil, err
		}
	}
	return x.do(ctx)
}

func (p *Primitive) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

func (p *Primitive) sleep(ctx context.Context, d time.Duration) error {
	if p.Sleep != nil {
		return p.Sleep(ctx, d)
	}
	return cas.Sleep(ctx, d)
}

func (p *Primitive) chance() float64 {
	if p.Chance != nil {
		return p.Chance()
	}
	return rand.Float64()
}

// A run is the state of one action.
type run struct {
	*Primitive
	*settings
	rules  *classification.Rules // nil: not needed
	action *primitive.Action     // without the entries of this package
	to     primitive.Sink        // may be nil
	began  time.Time
	time   time.Duration // limit on everything, waits included

	usage   map[string]int64
	applied []string
	waited  time.Duration
	tap     *tap // of the last try
	refused bool // the breaker or the rate limit refused the action
}

// left returns the remaining time.
func (x *run) left() time.Duration { return x.time - x.now().Sub(x.began) }

func (x *run) apply(format string, args ...any) {
	x.applied = append(x.applied, fmt.Sprintf(format, args...))
}

// do answers from the cache or runs the action.
func (x *run) do(ctx context.Context) (*primitive.Result, error) {
	remember := x.cache != nil && x.action.Pure && !x.action.Identity.IsZero()
	if remember {
		if old := x.memory.get(x.action.Identity, x.cache.ttl, x.now()); old != nil {
			return x.again(old), nil
		}
	}
	result, err := x.guarded(ctx)
	if result != nil && !result.Failed && remember && !x.tap.large {
		kept := *result
		kept.Value, kept.Usage, kept.Applied, kept.Enforced = copied(result.Value), nil, nil,
			slices.Clone(result.Enforced)
		x.memory.put(&answer{id: x.action.Identity, tool: x.action.Tool, result: kept, output: x.tap.kept,
			size: x.tap.size, since: x.now()}, x.cache.most)
	}
	if x.settings.fallback != nil {
		result, err = x.instead(result, err)
	}
	if result == nil {
		return nil, err
	}
	if x.waited > 0 {
		x.usage["waited_ms"] = max(x.waited.Milliseconds(), 1)
		// The tries report their own time, which excludes the waits.
		if n, ok := x.usage["wall_ms"]; ok {
			x.usage["wall_ms"] = n + x.usage["waited_ms"]
		}
	}
	done := *result
	done.Usage, done.Applied = x.usage, x.applied
	return &done, err
}

// again returns a cached answer, and its output.
func (x *run) again(old *answer) *primitive.Result {
	result := old.result
	result.Value, result.Enforced = copied(result.Value), slices.Clone(result.Enforced)
	result.Usage, result.Applied = map[string]int64{"cached": 1}, []string{"cache: answered from the cache"}
	for _, c := range old.output {
		if x.to == nil {
			break
		}
		if err := x.to.Emit(c.stream, slices.Clone(c.b)); err != nil {
			result.Failed, result.Ended, result.Failure = true, "cancelled", unheard(err)
			break
		}
	}
	return &result
}

func unheard(err error) string { return "the output can't be passed on: " + err.Error() }

// instead replaces a failure by the fallback value.
func (x *run) instead(result *primitive.Result, err error) (*primitive.Result, error) {
	var why string
	switch {
	case x.refused && err != nil:
		why = "no call was made"
		result = &primitive.Result{Level: x.action.Sandbox.Level, Enforced: []string{"nothing-ran"}}
	case result == nil || !result.Failed || result.Ended != "" && result.Ended != "timeout" || x.tap.passed:
		return result, err
	default:
		why = "it failed"
	}
	instead := *result
	instead.Value, instead.Trouble = copied(*x.settings.fallback), nil
	instead.Failed, instead.Failure, instead.Ended, instead.Exit, instead.Signal = false, "", "", 0, ""
	x.usage["fallback"] = 1
	x.apply("fallback: %s, so its value was used", why)
	line, bad := jcs.Append(nil, instead.Value)
	if bad != nil {
		return nil, bad
	}
	if x.to != nil {
		if no := x.to.Emit(primitive.Stdout, append(line, '\n')); no != nil {
			instead.Failed, instead.Ended, instead.Failure = true, "cancelled", unheard(no)
		}
	}
	return &instead, nil
}
