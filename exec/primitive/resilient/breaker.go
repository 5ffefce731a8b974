package resilient

import (
	"fmt"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// An OpenError says that the circuit breaker is open: calls have failed too often. Nothing was done.
type OpenError struct {
	Address string
	Wait    time.Duration // until the next try; 0: another call is trying now
}

func (e *OpenError) Error() string {
	if e.Wait == 0 {
		return fmt.Sprintf("%q has failed too often; another call is testing whether it works again", e.Address)
	}
	return fmt.Sprintf("%q has failed too often; the next try is in %s", e.Address, e.Wait.Round(time.Millisecond))
}

// Fault implements the interface that package fault looks for.
func (e *OpenError) Fault() *fault.Error {
	return fault.New(fault.Unavailable, "%s", e.Error()).On("address", e.Address).On("wait_ms", e.Wait.Milliseconds()).From(e)
}

// A breaker counts failures in a row. Times are its caller's, who also keeps two from using it at once.
type breaker struct {
	breakerSetting
	state state
	// turn counts changes of the state: what was begun in another one says nothing of this one.
	turn  int
	count int       // closed: failures in a row; half open: successes
	tried int       // half open: actions that were let through and haven't failed
	until time.Time // open
}

type state uint8

const (
	closed state = iota
	open
	halfOpen
)

// An outcome is what an action says about the service that it called.
type outcome uint8

const (
	silent outcome = iota // nothing: it was refused, or cancelled
	worked
	failed
)

// allow asks whether an action may begin. wait is how long it mayn't, if that is known.
func (b *breaker) allow(now time.Time) (turn int, wait time.Duration, ok bool) {
	if b.state == open {
		if wait := b.until.Sub(now); wait > 0 {
			return 0, wait, false
		}
		b.become(halfOpen)
	}
	if b.state == halfOpen {
		if b.tried == b.successes {
			return 0, 0, false
		}
		b.tried++
	}
	return b.turn, 0, true
}

// done says what became of an action that was allowed.
func (b *breaker) done(turn int, o outcome, now time.Time) {
	if turn != b.turn {
		return
	}
	switch {
	case b.state == closed && o == worked:
		b.count = 0
	case b.state == closed && o == failed:
		if b.count++; b.count >= b.failures {
			b.trip(now)
		}
	case b.state == halfOpen && o == worked:
		if b.count++; b.count >= b.successes {
			b.become(closed)
		}
	case b.state == halfOpen && o == failed:
		b.trip(now)
	case b.state == halfOpen:
		b.tried-- // another one may find out
	}
}

func (b *breaker) trip(now time.Time) {
	b.become(open)
	b.until = now.Add(b.cooldown)
}

func (b *breaker) become(s state) {
	b.state, b.count, b.tried = s, 0, 0
	b.turn++
}
