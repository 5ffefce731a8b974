package retry

import "time"

// A breaker counts consecutive failures. The caller passes the time, and holds a lock.
type breaker struct {
	breakerSetting
	state state
	// turn counts changes of the state. The outcome of an action that began in an earlier state is ignored.
	turn  int
	count int       // closed: failures in a row; half open: successes
	tried int       // half open: actions that were allowed and haven't failed
	until time.Time // open
}

type state uint8

const (
	closed state = iota
	open
	halfOpen
)

// An outcome is the evidence that a result gives about the service.
type outcome uint8

const (
	silent outcome = iota // none: the action was refused or cancelled
	worked
	failed
)

// allow reports whether an action may begin, and if not, how long to wait; 0 if that is unknown.
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

// done records the outcome of an action that was allowed.
func (b *breaker) done(turn int, outcome outcome, now time.Time) {
	if turn != b.turn {
		return
	}
	switch {
	case b.state == closed && outcome == worked:
		b.count = 0
	case b.state == closed && outcome == failed:
		if b.count++; b.count >= b.failures {
			b.trip(now)
		}
	case b.state == halfOpen && outcome == worked:
		if b.count++; b.count >= b.successes {
			b.become(closed)
		}
	case b.state == halfOpen && outcome == failed:
		b.trip(now)
	case b.state == halfOpen:
		b.tried-- // so that another action may try
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
