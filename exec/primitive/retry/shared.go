package retry

import (
	"context"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
)

// MaxStates bounds the states in memory, one for each address and settings.
const MaxStates = 1024

// A stateKey identifies the state that actions with the same address and settings share.
type stateKey struct {
	address string
	breaker breakerSetting
	rate    rateSetting
}

// shared is the state of one address with its settings, under the lock of the Primitive.
type shared struct {
	breaker *breaker // nil without a breaker
	bucket  *bucket
	asked   int64 // the number of the last use
}

// address returns the service that the action calls, or its tool.
func (x *run) address() string {
	if asker, ok := x.Inner.(primitive.Asker); ok {
		if to := asker.Asks(x.action.Config); to != "" {
			return to
		}
	}
	return x.action.Tool
}

// shared calls change with the state that the action shares, under the lock.
func (x *run) shared(change func(s *shared, now time.Time)) {
	key := stateKey{address: x.address()}
	if x.breaker != nil {
		key.breaker = *x.breaker
	}
	if x.rate != nil {
		key.rate = *x.rate
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	now := x.now()
	state := x.states[key]
	if state == nil {
		state = new(shared)
		if x.breaker != nil {
			state.breaker = &breaker{breakerSetting: *x.breaker}
		}
		if x.rate != nil {
			state.bucket = newBucket(*x.rate, now)
		}
		if x.states == nil {
			x.states = map[stateKey]*shared{}
		}
		if len(x.states) >= MaxStates {
			x.forget()
		}
		x.states[key] = state
	}
	x.asked++
	state.asked = x.asked
	change(state, now)
}

// forget removes the least recently used state.
func (p *Primitive) forget() {
	var oldest stateKey
	least := int64(-1)
	for key, s := range p.states {
		if least < 0 || s.asked < least {
			oldest, least = key, s.asked
		}
	}
	delete(p.states, oldest)
}

// guarded runs the tries unless the breaker is open, and reports the outcome to it.
func (x *run) guarded(ctx context.Context) (result *primitive.Result, err error) {
	if x.breaker == nil {
		return x.tries(ctx)
	}
	var turn int
	var wait time.Duration
	var ok bool
	var was state
	x.shared(func(s *shared, now time.Time) {
		turn, wait, ok = s.breaker.allow(now)
		was = s.breaker.state
	})
	if !ok {
		x.apply("breaker: open")
		if wait == 0 {
			return nil, x.refuse(fault.Unavailable, 0,
				"%q has failed too often; another call is testing whether it works again", x.address())
		}
		return nil, x.refuse(fault.Unavailable, wait, "%q has failed too often; the next try is in %s", x.address(),
			wait.Round(time.Millisecond))
	}
	if was == halfOpen {
		x.apply("breaker: half open, testing the service")
	}
	said := silent
	// The breaker must learn the outcome of every allowed action, even after a panic.
	defer func() {
		x.shared(func(s *shared, now time.Time) {
			before := s.breaker.state
			s.breaker.done(turn, said, now)
			switch now := s.breaker.state; {
			case now == before:
			case now == open:
				x.apply("breaker: opened")
			default:
				x.apply("breaker: closed")
			}
		})
	}()
	if result, err = x.tries(ctx); err == nil {
		said = x.outcome(result)
	}
	return result, err
}

// turn waits at most most for a token of the rate limit.
func (x *run) turn(ctx context.Context, most time.Duration) error {
	if x.rate == nil {
		return nil
	}
	var wait time.Duration
	var ok bool
	x.shared(func(s *shared, now time.Time) { wait, ok = s.bucket.take(now, most) })
	if !ok {
		return x.refuse(fault.RateLimited, wait,
			"the rate limit for %q is reached: the next call is possible in %s, too late for this one",
			x.address(), wait.Round(time.Millisecond))
	}
	if wait <= 0 {
		return nil
	}
	x.apply("rate: waited %s", wait.Round(time.Millisecond))
	x.waited += wait
	err := x.sleep(ctx, wait)
	if err != nil {
		x.shared(func(s *shared, _ time.Time) { s.bucket.give() })
	}
	return err
}

// refuse returns the error for an action that the breaker or the rate limit refused.
func (x *run) refuse(code fault.Code, wait time.Duration, format string, args ...any) error {
	x.refused = true
	return fault.New(code, format, args...).On("address", x.address()).On("wait_ms", wait.Milliseconds())
}
