package resilient

import (
	"fmt"
	"time"

	"github.com/rye-build/rye/cas/fault"
)

// A RateError says that the rate limit lets the action run only after its time is over. Nothing was done.
type RateError struct {
	Address string
	Wait    time.Duration // until it would have been
}

func (e *RateError) Error() string {
	return fmt.Sprintf("the rate limit for %q is reached: the next call is possible in %s, too late for this one", e.Address, e.Wait.Round(time.Millisecond))
}

// Fault implements the interface that package fault looks for.
func (e *RateError) Fault() *fault.Error {
	return fault.New(fault.RateLimited, "%s", e.Error()).On("address", e.Address).On("wait_ms", e.Wait.Milliseconds()).From(e)
}

// A bucket hands out as many turns as come back. Times are its caller's, who also keeps two from using it at once.
type bucket struct {
	rateSetting
	left float64 // less than 0: so many turns are promised
	last time.Time
}

func newBucket(s rateSetting, now time.Time) *bucket {
	return &bucket{rateSetting: s, left: float64(s.burst), last: now}
}

// take promises a turn, and says in how long it comes; unless that is longer than most, when nothing is promised.
func (b *bucket) take(now time.Time, most time.Duration) (time.Duration, bool) {
	if gone := now.Sub(b.last); gone > 0 {
		b.left = min(b.left+gone.Seconds()*b.perSecond, float64(b.burst))
		b.last = now
	}
	var wait time.Duration
	if b.left < 1 {
		wait = time.Duration((1 - b.left) / b.perSecond * float64(time.Second))
	}
	if wait > most {
		return wait, false
	}
	b.left--
	return wait, true
}

// give takes a promise back that wasn't used.
func (b *bucket) give() { b.left = min(b.left+1, float64(b.burst)) }
