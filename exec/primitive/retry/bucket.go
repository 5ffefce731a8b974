package retry

import "time"

// A bucket holds tokens that refill over time. The caller passes the time, and holds a lock.
type bucket struct {
	rateSetting
	left float64 // negative: tokens already promised
	last time.Time
}

func newBucket(s rateSetting, now time.Time) *bucket {
	return &bucket{rateSetting: s, left: float64(s.burst), last: now}
}

// take promises a token and returns how long to wait for it. If that is longer than most, it promises nothing.
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

// give returns a token that wasn't used.
func (b *bucket) give() { b.left = min(b.left+1, float64(b.burst)) }
