package resilient

import (
	"context"
	"time"

	"github.com/rye-build/rye/exec/primitive"
)

// MaxStates is how many addresses with their settings are remembered.
const MaxStates = 1024

// A stateKey names what actions share. Who says something else doesn't share it.
type stateKey struct {
	address string
	breaker breakerSetting
	rate    rateSetting
}

// shared is what actions with one address and one setting share, under the lock of the Primitive.
type shared struct {
	breaker *breaker // nil: there is none
	bucket  *bucket
	asked   int64 // when, as counted
}

// address is the service that the action calls.
func (x *run) address() string {
	if asker, ok := x.Inner.(primitive.Asker); ok {
		if to := asker.Asks(x.action.Config); to != "" {
			return to
		}
	}
	return x.action.Tool
}

// shared calls f with what the action shares with others, and holds them off meanwhile.
func (x *run) shared(f func(s *shared, now time.Time)) {
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
	s := x.states[key]
	if s == nil {
		s = new(shared)
		if x.breaker != nil {
			s.breaker = &breaker{breakerSetting: *x.breaker}
		}
		if x.rate != nil {
			s.bucket = newBucket(*x.rate, now)
		}
		if x.states == nil {
			x.states = map[stateKey]*shared{}
		}
		if len(x.states) >= MaxStates {
			x.forget()
		}
		x.states[key] = s
	}
	x.asked++
	s.asked = x.asked
	f(s, now)
}

// forget forgets who wasn't asked for longest.
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

// broken asks the breaker, and tells it what came of it.
func (x *run) broken(ctx context.Context) (r *primitive.Result, err error) {
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
		return nil, &OpenError{x.address(), wait}
	}
	if was == halfOpen {
		x.apply("breaker: half open, this one finds out")
	}
	said := silent
	// Whatever becomes of it, one that was let through is counted.
	defer func() {
		x.shared(func(s *shared, now time.Time) {
			before := s.breaker.state
			s.breaker.done(turn, said, now)
			switch now := s.breaker.state; {
			case now == before:
			case now == open:
				x.apply("breaker: open from now on")
			default:
				x.apply("breaker: closed again")
			}
		})
	}()
	if r, err = x.tries(ctx); err == nil {
		said = x.says(r)
	}
	return r, err
}

// turn waits until another try may begin; most is how long it may wait.
func (x *run) turn(ctx context.Context, most time.Duration) error {
	if x.rate == nil {
		return nil
	}
	var wait time.Duration
	var ok bool
	x.shared(func(s *shared, now time.Time) { wait, ok = s.bucket.take(now, most) })
	if !ok {
		return &RateError{x.address(), wait}
	}
	if wait <= 0 {
		return nil
	}
	x.apply("rate: after %s", wait.Round(time.Millisecond))
	x.waited += wait
	err := x.sleep(ctx, wait)
	if err != nil {
		x.shared(func(s *shared, _ time.Time) { s.bucket.give() })
	}
	return err
}
